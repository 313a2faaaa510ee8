"""`manage.py apitoken USER --scope read|act`: makes a bearer token and shows it once."""

from typing import Any

import msgspec
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from olmweb.errors import OlmwebError
from olmweb.models import ApiToken
from olmweb.web.forms import clean_text


class Command(BaseCommand):
    help = "Makes a bearer token for the REST API, valid for 90 days. It is shown once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="name of the user it acts as")
        parser.add_argument("--scope", required=True, choices=ApiToken.Scope.values)
        parser.add_argument("--name", default="", help="what it is for, up to 60 characters")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        users = get_user_model()
        user = users.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(
                f'There is no user "{options["user"]}"; create it in the admin pages or with '
                "`manage.py createsuperuser`."
            )
        if not user.is_active:
            raise CommandError(f'User "{options["user"]}" is disabled; enable it first.')
        name = clean_text(options["name"])
        if len(name) > ApiToken.MAX_NAME:
            raise CommandError(f"The name of a token has at most {ApiToken.MAX_NAME} characters.")
        try:
            token, row = ApiToken.issue(user.pk, options["scope"], name=name)
        except OlmwebError as error:
            raise CommandError(f"{error.message} {error.hint}") from error
        answer = {"token": token, "scope": row.scope, "expires": row.expires_at, "name": row.name}
        if options["json"]:
            self.stdout.write(msgspec.json.encode(answer).decode())
            return
        self.stdout.write(token)
        self.stderr.write(
            f"{row.name or 'Without a name'}: scope {row.scope}, valid until "
            f"{row.expires_at:%Y-%m-%d}. It is not shown again."
        )
