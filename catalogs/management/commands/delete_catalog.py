"""`manage.py delete_catalog`: deletes a catalog that a person added."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.lookup import get_named_catalog
from catalogs.sources.own_catalogs import require_own
from catalogs.sync.deletion import delete_own_catalog
from olmweb.errors import OlmwebError


class Command(BaseCommand):
    requires_system_checks = ()  # they import every page and the API: 40 MB more
    help = "Delete a catalog of a file, URL or image with everything that was read from it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME of a catalog of no cluster")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            catalog = require_own(get_named_catalog(options["name"]))
            name = str(catalog)
            delete_own_catalog(catalog)
        except OlmwebError as error:
            raise CommandError(f"{error.message} {error.hint}".rstrip()) from error
        text = json.dumps({"catalog": name, "outcome": "deleted"})
        self.stdout.write(text if options["json"] else f"{name}: deleted.")
