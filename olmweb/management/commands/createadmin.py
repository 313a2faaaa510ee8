"""`manage.py createadmin`: makes the first administrator, also where there is no terminal."""

import sys
from getpass import getpass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction


class Command(BaseCommand):
    help = "Makes a superuser. An account of that name is left as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", default="admin")
        parser.add_argument(
            "--reset-password", action="store_true", help="set the password of an existing account"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        name = options["username"]
        user = User.objects.filter(username=name).first()
        if user and not options["reset_password"]:
            self.stdout.write(f'There is a user "{name}" already; nothing was changed.')
            return
        admin = user or User(username=name, is_staff=True, is_superuser=True)
        password = settings.ADMIN_PASSWORD or _asked_password()
        try:
            admin.full_clean(exclude=["password"])
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        try:
            validate_password(password, admin)
        except ValidationError as error:
            where = "of OLMWEB_ADMIN_PASSWORD " if settings.ADMIN_PASSWORD else ""
            raise CommandError(
                f"The password {where}can't be used. {' '.join(error.messages)}"
            ) from error
        admin.set_password(password)
        with transaction.atomic():  # no administrator without an audit event
            admin.save()
        self.stdout.write(
            f'The password of "{name}" was set.' if user else f'Created the administrator "{name}".'
        )


def _asked_password() -> str:
    if not sys.stdin.isatty():
        raise CommandError(
            "There is no terminal to ask for a password at: set OLMWEB_ADMIN_PASSWORD or "
            "OLMWEB_ADMIN_PASSWORD_FILE."
        )
    password = getpass("Password: ")
    if password != getpass("The same password again: "):
        raise CommandError("The two passwords differ; run the command again.")
    return password
