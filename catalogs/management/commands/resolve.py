"""`manage.py resolve`: which bundle a controller would choose, and why not another."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_named_catalog
from catalogs.models import Package
from catalogs.resolve import BadQuestion, read_method, resolve
from catalogs.resolve.facts import Resolution
from catalogs.resolve.stored import facts_of
from olmweb.errors import Missing

SHOWN = 12  # candidates on a terminal; --json has all


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Say which bundle of a package would be chosen, and why not another."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("catalog", help="NAME, or CLUSTER/NAME where several have that name")
        parser.add_argument("package")
        parser.add_argument("--path", required=True, metavar="PATH", help=", ".join(InstallMethod))
        parser.add_argument("--version", dest="range", default="", help="version range")
        parser.add_argument("--channel", action="append", default=[], help="may be repeated")
        parser.add_argument("--installed", default="", metavar="BUNDLE", help="installed already")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    # Django's own --version would take the place of ours
    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def handle(self, *args: Any, **options: Any) -> None:
        package = _package(options["catalog"], options["package"])
        try:
            resolution = resolve(
                facts_of(package),
                read_method(options["path"]),
                channels=options["channel"],
                version=options["range"],
                installed=options["installed"],
            )
        except BadQuestion as error:
            raise CommandError(f"--{error.field}: {error}") from None
        if options["json"]:
            self.stdout.write(json.dumps(asdict(resolution)))
        else:
            self.stdout.write(_as_text(resolution))


def _package(catalog: str, name: str) -> Package:
    """The package in the one catalog of that name; CommandError says what is not known."""
    try:
        named = get_named_catalog(catalog)
    except Missing as error:
        raise CommandError(f"{error.message} {error.hint}".rstrip()) from None
    package = Package.objects.filter(catalog=named, name=name).first()
    if package is None:
        near = named.packages.filter(name__icontains=name[:60])[:5]
        hint = f" It has {', '.join(row.name for row in near)}." if near else ""
        raise CommandError(f'Catalog {named} has no package "{name}".{hint}')
    return package


def _as_text(resolution: Resolution) -> str:
    chosen = f"{resolution.bundle} ({resolution.version})" if resolution.bundle else "nothing"
    lines = [f"Chosen: {chosen}", f"  {resolution.reason}"]
    if resolution.message:
        lines.append(f"  The controller says: {resolution.message}")
    others = [candidate for candidate in resolution.candidates if not candidate.chosen]
    if others:
        lines.append("Not chosen:")
        width = max(len(candidate.bundle) for candidate in others[:SHOWN])
        lines += [
            f"  {candidate.bundle:{width}}  {candidate.reason}" for candidate in others[:SHOWN]
        ]
    if len(others) > SHOWN:
        lines.append(f"  and {len(others) - SHOWN} more (--json has all)")
    return "\n".join(lines)
