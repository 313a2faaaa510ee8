"""`manage.py web`: the web server of a production set-up; compose.yaml and the chart run it."""

import argparse
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from olmweb.serving import server


class Command(BaseCommand):
    help = "Serve pages and the REST API. Workers, watcher and beat are processes of their own."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="", help="address to listen on; without it: all")
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.EMBEDDED:
            raise CommandError(
                "REDIS_URL is not set, so no worker would get what pages enqueue. Set it, or use "
                "`manage.py serve`, which runs everything in one process."
            )
        try:
            server.serve(options["host"], options["port"], settings.WEB_PROCESSES)
        except OSError as error:
            raise CommandError(
                f"Port {options['port']} can't be used: {error.strerror or error}."
            ) from error
        except server.StartError as error:
            raise CommandError(str(error)) from error
