"""`manage.py serve`: the whole product in one process, on a cluster of yours or on the sandbox."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from olmweb.clusters import parse_entries
from olmweb.errors import OlmwebError
from olmweb.kube.errors import ConfigError, KubeError
from olmweb.kube.session import open_client
from olmweb.serving import embedded

LOOK_SECONDS = (3.0, 5.0)  # to connect and to wait for the answer
# (user, password, Django group); the sandbox's RBAC knows the user admin and these two groups.
DEMO_USERS = (
    ("admin", "demo-admin", ""),
    ("operator", "demo-operator", "olmweb-operators"),
    ("viewer", "demo-viewer", "olmweb-viewers"),
)


class Command(BaseCommand):
    help = "Web, worker and beat in one process (SQLite, in-memory broker); --demo adds a sandbox."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--demo", action="store_true", help="start the sandbox cluster too")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError(
                "REDIS_URL is set, so this is a production set-up: start `manage.py web`, "
                "`celery worker` and `celery beat` instead (compose.yaml shows how)."
            )
        if not 1 <= options["port"] <= 65535:
            raise CommandError(
                f"Port {options['port']} can't be used: ports go from 1 to 65535. "
                "Choose another with PORT=8001."
            )
        if options["demo"]:
            # Never the file of the environment: writing would destroy a person's own.
            settings.KUBECONFIG = str(settings.DATA_DIR / "kubeconfig")
            settings.CLUSTERS = settings.CLUSTERS or ["sandbox=sandbox"]
        try:
            self._clusters = parse_entries(settings.CLUSTERS)
        except OlmwebError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        self._refuse_unreleased_schema()
        if not options["demo"]:
            self._look_at_clusters()
        self._say("Preparing the database ...")
        call_command("migrate", verbosity=0)
        with ExitStack() as stack:
            if options["demo"]:
                self._start_sandbox(stack)
                self._ensure_demo_users()
                settings.DEMO_LOGINS = tuple((name, password) for name, password, _ in DEMO_USERS)
            else:
                self._ensure_admin()
            try:
                embedded.serve(options["port"], lambda: self._announce(options))
            except OSError as error:
                raise CommandError(
                    f"Port {options['port']} can't be used: {error.strerror or error}. "
                    "Choose another with PORT=8001."
                ) from error

    def _say(self, stage: str) -> None:
        """Writes a line at once, also to a pipe."""
        self.stdout.write(stage)
        self.stdout.flush()

    def _look_at_clusters(self) -> None:
        """Names the server and version of each cluster, or why it can't be read.

        Raises CommandError if no cluster has a usable context. A cluster that does not answer now
        is read later.
        """
        unusable = []
        for name, context in self._clusters.items():
            try:
                with open_client(
                    context, settings.KUBECONFIG, name=name, timeout=LOOK_SECONDS
                ) as client:
                    self.stdout.write(f"Cluster {name}: {client.server}, {client.version()}")
            except ConfigError as error:
                unusable.append(f"Cluster {name} can't be used: {error.message} {error.hint}")
            except KubeError as error:
                self.stderr.write(f"Cluster {name} is not reached yet: {error.message}")
        if unusable and len(unusable) == len(self._clusters):
            raise CommandError("\n".join(unusable), returncode=2)
        for sentence in unusable:
            self.stderr.write(sentence)

    def _refuse_unreleased_schema(self) -> None:
        """Refuses a database that records migrations from before the first release."""
        loader = MigrationLoader(connection)
        if loader.applied_migrations.keys() - loader.disk_migrations.keys():
            raise CommandError(
                f"The database {connection.settings_dict['NAME']} was made by an unreleased "
                "version and can't be upgraded: remove it (`make clean-demo` removes the demo's)."
            )

    def _start_sandbox(self, stack: ExitStack) -> None:
        from olmweb.sandbox.cluster import Sandbox

        self._say("Starting the sandbox cluster ...")
        sandbox = Sandbox(state_file=settings.DATA_DIR / "sandbox.json", require_token=False)
        sandbox.start()
        stack.callback(sandbox.stop)
        sandbox.write_kubeconfig(Path(settings.KUBECONFIG), context="sandbox")
        self._say(f"Sandbox cluster: {sandbox.url}")

    def _ensure_demo_users(self) -> None:
        for name, password, group in DEMO_USERS:
            admin = name == "admin"
            user, created = User.objects.get_or_create(
                username=name, defaults={"is_staff": admin, "is_superuser": admin}
            )
            if created:
                user.set_password(password)
                user.save()
            if group:
                user.groups.add(Group.objects.get_or_create(name=group)[0])

    def _ensure_admin(self) -> None:
        if User.objects.filter(is_superuser=True).exists():
            return
        self.stdout.write("The first start makes an administrator of OLM Web.")
        call_command("createadmin", stdout=self.stdout)

    def _announce(self, options: dict[str, Any]) -> None:
        if options["demo"]:
            self._say("Reading the sandbox's state and catalogs ...")
            if not embedded.wait_for_first_sync(timeout=60):
                self.stderr.write("The first sync is taking long; pages fill as it goes on.")
        self.stdout.write(f"\nOLM Web is ready: http://127.0.0.1:{options['port']}/")
        if options["demo"]:
            self.stdout.write("Reading needs no login. To install, sign in as:")
            for name, password, _group in DEMO_USERS:
                self.stdout.write(f"  {name:9} {password}")
        if not settings.CLUSTERS:
            self.stdout.write("No cluster is named yet; the start page shows how to add one.")
        self.stdout.write("Ctrl-C ends everything.")
        self.stdout.flush()
