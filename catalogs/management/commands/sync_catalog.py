"""`manage.py sync_catalog`: syncs one catalog in this process."""

import json
import resource
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.lookup import get_named_catalog
from catalogs.models import Catalog
from catalogs.sources import own_catalogs
from catalogs.sources.base import SourceError, no_progress, progress_callback
from catalogs.sources.own_catalogs import own_catalog
from catalogs.sync.catalog import SyncResult, sync_catalog
from catalogs.sync.deletion import delete_own_catalog
from olmweb.errors import Missing
from olmweb.models import SyncRun
from olmweb.runtime import leases

BAR_WIDTH = 30
REDRAW = 0.1  # seconds
INTERRUPTED = 130  # exit status of a shell for Ctrl-C


class Command(BaseCommand):
    requires_system_checks = ()  # they import every page and the API: 40 MB more
    help = (
        "Read a catalog now. With --file, --url or --image the catalog is created when it isn't "
        "known."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name",
            help="NAME, or CLUSTER/NAME for a ClusterCatalog (-- -/NAME for one of no cluster)",
        )
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--file", help="read this file, folder or tar from now on")
        source.add_argument("--url", help="read this URL from now on")
        source.add_argument("--image", help="read this image of a registry from now on")
        parser.add_argument("--force", action="store_true", help="write every package anew")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        is_new = not Catalog.objects.filter(cluster=None, slug=options["name"]).exists()
        catalog = _catalog(options["name"], _source(options))
        started = time.monotonic()
        shown = _Terminal() if sys.stderr.isatty() else None
        with (
            leases.renewed_lease(f"catalog:{catalog.pk}") as held,
            _cancellable(catalog),
        ):
            if held is None:
                raise CommandError(
                    f"{catalog} is being synced right now; try again when it is done."
                )
            with progress_callback(shown.reading if shown else no_progress):
                result = sync_catalog(
                    catalog,
                    force=options["force"],
                    progress=shown.writing if shown else no_progress,
                )
        if shown:
            shown.end()
        if is_new and options["file"] and result.outcome == SyncRun.Outcome.FAILED:
            delete_own_catalog(catalog)  # a mistyped path leaves no failing catalog behind
        seconds = time.monotonic() - started
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(catalog, result, seconds)))
        else:
            self.stdout.write(_as_text(catalog, result, seconds))
        if result.error_code == "cancelled":
            raise SystemExit(INTERRUPTED)
        if result.outcome == SyncRun.Outcome.FAILED:
            raise SystemExit(1)


@contextmanager
def _cancellable(catalog: Catalog) -> Iterator[None]:
    """Ctrl-C cancels the sync; a second one interrupts the process."""

    def cancel(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise SourceError(
            f"The sync of {catalog} was cancelled at the terminal.",
            code="cancelled",
            hint="What was read before stays.",
        )

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _source(options: dict[str, Any]) -> tuple[str, str] | None:
    """Kind and source of the options; None without any."""
    if options["file"]:
        return own_catalogs.FILE, str(Path(options["file"]).absolute())
    kinds = {"url": own_catalogs.URL, "image": own_catalogs.IMAGE}
    return next(((kinds[name], options[name]) for name in kinds if options[name]), None)


def _catalog(name: str, source: tuple[str, str] | None) -> Catalog:
    """The catalog of that name; created under no cluster when a source is given."""
    if source is not None:
        try:
            return own_catalog(name, *source)
        except SourceError as error:
            raise CommandError(f"{error.message} {error.hint}".rstrip()) from error
    try:
        return get_named_catalog(name)
    except Missing as error:
        hint = error.hint or "Give --file, --url or --image to create it."
        raise CommandError(f"{error.message} {hint}") from None


class _Terminal:
    """The progress of the sync in one line on the terminal: bytes, then packages."""

    def __init__(self) -> None:
        self._drawn = 0.0
        self._width = 0
        self._step = ""

    def reading(self, done: int, total: int) -> None:
        of = f" of {total / 1e6:,.1f}" if total else ""
        self._draw("reading", f"{done / 1e6:,.1f}{of} MB", done, total)

    def writing(self, done: int, total: int) -> None:
        self._draw("writing", f"{done:,} of {total:,} packages", done, total)

    def _draw(self, step: str, text: str, done: int, total: int) -> None:
        now = time.monotonic()
        if step == self._step and done != total and now - self._drawn < REDRAW:
            return
        if self._step not in ("", step):
            self.end()
        self._step, self._drawn = step, now
        filled = min(BAR_WIDTH, BAR_WIDTH * done // total) if total else 0
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        line = f"{step} [{bar}] {text}"
        sys.stderr.write(f"\r{line.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(line)

    def end(self) -> None:
        """Completes the line."""
        if self._step:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._step, self._width = "", 0


def _as_json(catalog: Catalog, result: SyncResult, seconds: float) -> dict[str, Any]:
    fields = ("outcome", "packages", "channels", "bundles", "problems")
    costs = ("rows_written", "bytes_read", "requests")
    return {
        "catalog": str(catalog),
        **{name: getattr(result, name) for name in (*fields, *costs)},
        "seconds": round(seconds, 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "error": result.error,
    }


def _as_text(catalog: Catalog, result: SyncResult, seconds: float) -> str:
    if result.error:
        return f"{catalog}: {result.outcome}. {result.error} {result.error_hint}".rstrip()
    return (
        f"{catalog}: {result.outcome}. {result.packages:,} packages, {result.channels:,} channels, "
        f"{result.bundles:,} bundles, {result.problems:,} problems; {result.rows_written:,} rows "
        f"written in {seconds:.2f} s."
    )
