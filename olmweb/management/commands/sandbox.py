"""`manage.py sandbox`: a sandbox cluster for kubectl, for manual tests, or for another OLM Web."""

import argparse
import signal
import threading
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.scenario.world import SCENARIOS


class Command(BaseCommand):
    help = "Serves a sandbox cluster and writes a kubeconfig for it; Ctrl-C or SIGTERM ends it."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--scenario", choices=SCENARIOS, default=SCENARIOS[0])
        parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
        parser.add_argument("--kubeconfig", type=Path, help="where to write the kubeconfig")
        parser.add_argument("--state", type=Path, help="file that preserves the objects")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            sandbox = Sandbox(
                options["scenario"], options["port"], options["state"], require_token=False
            )
        except OSError as error:
            raise CommandError(
                f"Port {options['port']} can't be used: {error.strerror or error}. "
                "Choose another with --port, or 0 for a free one."
            ) from error
        kubeconfig = options["kubeconfig"] or settings.DATA_DIR / "sandbox-kubeconfig"
        done = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: done.set())
        sandbox.start()
        try:
            sandbox.write_kubeconfig(kubeconfig)
            self.stdout.write(f"Sandbox cluster: {sandbox.url}")
            self.stdout.write(f"Kubeconfig: {kubeconfig}")
            self.stdout.flush()
            done.wait()
        finally:
            sandbox.stop()
