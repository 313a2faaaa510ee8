"""`manage.py migrate`: Django's, with the limits that suit migrations."""

from typing import Any

from django.core.management.commands import migrate

from olmweb.runtime.postgres import limits_of_migrations


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        """On PostgreSQL a statement may run for any time, but wait for a lock for ten seconds only:
        then the migration fails without a change and can be repeated."""
        with limits_of_migrations():
            super().handle(*args, **options)
