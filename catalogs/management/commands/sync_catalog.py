"""`manage.py sync_catalog`: reads one catalog now, at the terminal."""

import json
import re
import resource
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.content import no_progress
from catalogs.models import Catalog
from catalogs.sync import FAILED, SyncResult, sync_catalog
from olmweb import leases
from olmweb.models import LOCAL

LEASE_SECONDS = 1800
BAR_WIDTH = 30
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class Command(BaseCommand):
    requires_system_checks = ()  # they import every page and the API: 40 MB more
    help = "Read a catalog now. With --file or --url the catalog is created when it isn't known."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name",
            help="NAME, or CLUSTER/NAME for a ClusterCatalog (-- -/NAME for one of no cluster)",
        )
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--file", help="read this file from now on")
        source.add_argument("--url", help="read this URL from now on")
        parser.add_argument("--force", action="store_true", help="write every package anew")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        catalog = _catalog(options["name"], options["file"], options["url"])
        started = time.monotonic()
        with leases.lease(f"catalog:{catalog.pk}", LEASE_SECONDS) as held:
            if held is None:
                raise CommandError(
                    f"{catalog} is being synced right now; try again when it is done."
                )
            watched = sys.stderr.isatty()
            result = sync_catalog(
                catalog,
                force=options["force"],
                progress=_draw if watched else no_progress,
            )
        seconds = time.monotonic() - started
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(catalog, result, seconds)))
        else:
            self.stdout.write(_as_text(catalog, result, seconds))
        if result.outcome == FAILED:
            raise SystemExit(1)


def _catalog(name: str, file: str | None, url: str | None) -> Catalog:
    """The catalog of that name; created under no cluster when a source is given."""
    if file or url:
        if not _NAME.fullmatch(name):
            raise CommandError(
                f'"{name}" can\'t name a catalog: use letters, digits, "-", "_" and ".", '
                "beginning with a letter or digit."
            )
        kind = Catalog.SourceKind.FILE if file else Catalog.SourceKind.URL
        source = str(Path(file).absolute()) if file else str(url)
        catalog, created = Catalog.objects.get_or_create(
            cluster=None, slug=name, defaults={"name": name, "source_kind": kind, "source": source}
        )
        if not created and (catalog.source_kind, catalog.source) != (kind, source):
            catalog.source_kind, catalog.source = kind, source
            catalog.last_modified = ""  # of another source
            catalog.save(update_fields=["source_kind", "source", "last_modified"])
        return catalog
    cluster, _, slug = name.rpartition("/")
    found = Catalog.objects.filter(slug=slug).select_related("cluster")
    if cluster == LOCAL:
        found = found.filter(cluster=None)
    elif cluster:
        found = found.filter(cluster__name=cluster)
    matches = list(found)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CommandError(f"Several catalogs have that name: {', '.join(map(str, matches))}.")
    known = ", ".join(map(str, Catalog.objects.select_related("cluster"))) or "none"
    raise CommandError(
        f'No catalog is called "{name}" (known: {known}). Give --file or --url to create it.'
    )


def _draw(done: int, total: int) -> None:
    """A bar on the terminal that says where the sync stands."""
    filled = BAR_WIDTH * done // total if total else BAR_WIDTH
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    sys.stderr.write(f"\r[{bar}] {done:,} of {total:,} packages" + ("\n" if done == total else ""))
    sys.stderr.flush()


def _peak_rss_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _as_json(catalog: Catalog, result: SyncResult, seconds: float) -> dict[str, Any]:
    values = asdict(result)
    fields = ("outcome", "packages", "channels", "bundles", "problems")
    costs = ("rows_written", "bytes_read", "requests")
    return {
        "catalog": str(catalog),
        **{name: values[name] for name in (*fields, *costs)},
        "seconds": round(seconds, 3),
        "peak_rss_mb": _peak_rss_mb(),
        "error": result.error,
    }


def _as_text(catalog: Catalog, result: SyncResult, seconds: float) -> str:
    if result.outcome == FAILED:
        return f"{catalog}: failed. {result.error} {result.error_hint}".rstrip()
    return (
        f"{catalog}: {result.outcome}. {result.packages:,} packages, {result.channels:,} channels, "
        f"{result.bundles:,} bundles, {result.problems:,} problems; {result.rows_written:,} rows "
        f"written in {seconds:.2f} s."
    )
