"""`manage.py version [--json]`: the version of OLM Web."""

import platform
from typing import Any

import django
import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Prints the version of OLM Web."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["json"]:
            self.stdout.write(settings.VERSION)
            return
        answer = {
            "version": settings.VERSION,
            "python": platform.python_version(),
            "django": django.get_version(),
        }
        self.stdout.write(msgspec.json.encode(answer).decode())
