"""Syncs a catalog from its source to rows, with as little work as the source's state allows.

The steps: if the digest of a ClusterCatalog did not change, no request is sent. If the source
responds "not modified", or the body did not change, one row is updated. Packages whose blobs did
not change are not written. Readers see the old content or the new one, never a mixture, and a
failure leaves the old one in place.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

import structlog
from django.db import transaction
from django.utils import timezone

from catalogs.fbc.package import DERIVATION
from catalogs.fbc.split import CatalogIndex, CutShort, NotFbc, index_spool
from catalogs.models import Catalog
from catalogs.sources.base import (
    LIMITS,
    ContentSource,
    Fetched,
    Limits,
    SourceError,
    opened,
    progress_callback,
)
from catalogs.sources.select import READABLE as READABLE
from catalogs.sources.select import source_of
from catalogs.sync.cluster_catalogs import record_cluster_catalogs as record_cluster_catalogs
from catalogs.sync.deletion import lock_catalog
from catalogs.sync.pool import Pool, PoolError
from catalogs.sync.progress import Run
from catalogs.sync.replace import (
    Progress,
    ReplacedContent,
    no_cyclic_gc,
    no_progress,
    replace_content,
    sweep,
)
from olmweb.models import SyncRun

log = structlog.get_logger(__name__)
CHANGED, UNCHANGED, FAILED, CANCELLED = (
    SyncRun.Outcome.CHANGED.value,
    SyncRun.Outcome.UNCHANGED.value,
    SyncRun.Outcome.FAILED.value,
    SyncRun.Outcome.CANCELLED.value,
)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The result of one attempt. `rows_written` counts rows inserted, updated and deleted,
    `bytes_read` the encoded bytes of the source, `error` is a sentence or ""."""

    outcome: str
    packages: int
    channels: int
    bundles: int
    problems: int
    rows_written: int = 0
    bytes_read: int = 0
    requests: int = 0
    error: str = ""
    error_code: str = ""
    error_hint: str = ""
    counts: dict[str, int] = field(default_factory=dict)


def sync_catalog(
    catalog: Catalog,
    *,
    force: bool = False,
    source: ContentSource | None = None,
    limits: Limits = LIMITS,
    progress: Progress = no_progress,
) -> SyncResult:
    """Reads the catalog's source and updates the rows to match it, by the steps above.

    `force` rewrites every package. `source` replaces the source of the row; `progress` receives
    (packages done, packages to do). Never raises for a bad source or bad content: the outcome is
    `failed`, the sentence is on the catalog and on a SyncRun. Other errors are recorded and
    raised. A cancelled run (see `catalogs.sync.progress`) ends as `cancelled`. Call it under the
    catalog's lease and outside a transaction.
    """
    attempt = _Attempt(catalog, force, limits, progress)
    try:
        with progress_callback(attempt.row.reading):
            return attempt.run(source)
    except SourceError as error:
        return attempt.failed(error)
    except BaseException as error:
        attempt.failed(
            SourceError(
                f"The sync of {catalog} stopped on an unexpected error ({type(error).__name__}).",
                code="internal",
                hint="The content read before is still shown. The log has the details.",
            )
        )
        raise


class _Attempt:
    """One run of `sync_catalog`, and its cost."""

    def __init__(self, catalog: Catalog, force: bool, limits: Limits, progress: Progress) -> None:
        self.progress = progress
        self.catalog = catalog
        self.limits = limits
        self.started = time.monotonic()
        self.started_at = timezone.now()
        self.row = Run(catalog, self.started_at)
        # Rows of another derivation can't be compared with rows of this one.
        self.everything = force or catalog.derivation != DERIVATION
        # Constant during the attempt: the row may receive another digest meanwhile.
        self.digest = catalog.resolved_digest
        self.source: ContentSource | None = None
        self.access_method = ""

    def run(self, source: ContentSource | None) -> SyncResult:
        catalog = self.catalog
        reusable = not self.everything and bool(catalog.content_hash)
        if reusable and source is None and self.digest and self.digest == catalog.synced_digest:
            return self.unchanged("digest unchanged")
        source = self.source = source or source_of(catalog, self.limits)
        if reusable and self.is_resolved(source):
            return self.unchanged("digest unchanged")
        # Last-Modified counts whole seconds: content with another digest may have the same.
        digest_changed = (
            self.digest and catalog.synced_digest and self.digest != catalog.synced_digest
        )
        stamp = catalog.last_modified if reusable and not digest_changed else ""
        with opened(source, stamp) as fetched:
            self.digest = self.digest or fetched.digest
            self.access_method = fetched.access_method
            if fetched.body is None:
                return self.unchanged("not modified", fetched)
            if reusable and fetched.sha256 == catalog.content_hash:
                return self.unchanged("same content", fetched)
            with no_cyclic_gc(), self.pool(fetched, fetched.body) as pool:
                if not reusable:  # every package will be read
                    pool.expect(fetched.size)
                index = self.index(source, fetched, fetched.body)
                written = self.replace(index, fetched, pool)
        rows = written.rows + 1 + sweep()
        return self.changed(written, fetched, rows)

    def is_resolved(self, source: ContentSource) -> bool:
        """Whether the source reports, without its content, the digest of the stored content."""
        resolve = getattr(source, "resolve", None)
        digest = resolve() if resolve and not self.digest and self.catalog.synced_digest else ""
        if not digest or digest != self.catalog.synced_digest:
            return False
        self.digest = digest
        return True

    def access_methods(self) -> dict[str, object]:
        """How the source was read, if it has several access methods."""
        fields: dict[str, object] = (
            {"access_method": self.access_method} if self.access_method else {}
        )
        outcomes = getattr(self.source, "outcomes", None) if self.access_method else None
        return fields if outcomes is None else fields | {"access_methods": outcomes}

    @contextmanager
    def pool(self, fetched: Fetched, body: BinaryIO) -> Iterator[Pool]:
        try:
            with Pool(body.fileno(), fetched.files) as pool:
                yield pool
        except PoolError as error:
            raise SourceError(
                f"{self.catalog} was not read to its end: {error}.",
                code=error.code,
                hint=f"{error.hint} What was read before stays, and the next sync begins anew.",
                requests=fetched.requests,
                bytes_read=fetched.bytes_read,
            ) from error

    def index(self, source: ContentSource, fetched: Fetched, body: BinaryIO) -> CatalogIndex:
        cost = {"requests": fetched.requests, "bytes_read": fetched.bytes_read}
        try:
            return index_spool(
                body,
                limit=self.limits.blob,
                files=fetched.files,
                progress=lambda done: self.row.indexing(done, fetched.size),
            )
        except NotFbc as error:
            raise SourceError(
                f"{source.label} is not a file-based catalog: it {error}.",
                code="not-fbc",
                hint="Give JSON or YAML as `opm render` writes it, plain or compressed.",
                **cost,
            ) from error
        except CutShort as error:
            raise SourceError(
                f"{source.label} is cut short: {error}.",
                code="cut-short",
                hint="Fetch or write it again; what was read before stays.",
                **cost,
            ) from error

    def replace(self, index: CatalogIndex, fetched: Fetched, pool: Pool) -> ReplacedContent:
        catalog, now = self.catalog, timezone.now()
        self.row.enter()
        with transaction.atomic():
            if not lock_catalog(catalog.pk):
                raise self.gone()
            written = replace_content(
                catalog,
                index,
                pool,
                digest=self.digest,
                body_hash=fetched.sha256,
                everything=self.everything,
                progress=self.wrote,
            )
            fetched.check()
            self.save(
                content_hash=fetched.sha256,
                derivation=DERIVATION,
                synced_digest=self.digest,
                last_modified=fetched.last_modified,
                revision=written.revision,
                changed_at=now,
                package_count=written.counts["packages"],
                channel_count=written.counts["channels"],
                bundle_count=written.counts["bundles"],
                problem_count=written.counts["problems"],
                **self.success(self.cost(fetched)),
            )
        self.row.leave()
        return written

    def wrote(self, done: int, total: int) -> None:
        self.progress(done, total)
        self.row.writing(done, total)

    def gone(self) -> SourceError:
        return SourceError(
            f"{self.catalog} was deleted while it was being read.",
            code="catalog-gone",
            hint="Nothing of it is kept. Add it again if that was not meant.",
        )

    def success(self, cost: str) -> dict[str, object]:
        now = timezone.now()
        return {
            "state": self.state(Catalog.State.SERVING),
            "checked_at": now,
            "synced_at": now,
            "failing_since": None,
            "error_code": "",
            "error_text": "",
            "error_hint": "",
            "last_cost": cost,
            **self.access_methods(),
        }

    def state(self, state: Catalog.State) -> Catalog.State:
        disabled = self.catalog.availability == Catalog.UNAVAILABLE
        return Catalog.State.DISABLED if disabled else state

    def cost(self, fetched: Fetched | None, what: str = "read") -> str:
        milliseconds = round((time.monotonic() - self.started) * 1000)
        count = fetched.bytes_read if fetched else 0
        size = f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
        return f"{what}{f', {size}' if count else ''}, {milliseconds:,} ms"

    def save(self, **values: object) -> None:
        """Writes only these columns: a cluster's sync may write the others meanwhile."""
        Catalog.objects.filter(pk=self.catalog.pk).update(**values)
        for name, value in values.items():
            setattr(self.catalog, name, value)

    def unchanged(self, what: str, fetched: Fetched | None = None) -> SyncResult:
        values = self.success(self.cost(fetched, what))
        values["synced_digest"] = self.digest
        if fetched and fetched.last_modified:
            values["last_modified"] = fetched.last_modified
        self.save(**values)
        result = self.result(UNCHANGED, 1, fetched)
        if self.row.row is not None:  # the reading took long enough to be shown
            self.finish(result)
        return result

    def changed(self, written: ReplacedContent, fetched: Fetched, rows: int) -> SyncResult:
        result = self.result(CHANGED, rows, fetched, counts=written.counts)
        self.finish(result)
        log.info(
            "catalog synced",
            catalog=str(self.catalog),
            rows=rows,
            seconds=round(time.monotonic() - self.started, 2),
            **written.counts,
        )
        return result

    def failed(self, error: SourceError) -> SyncResult:
        self.row.leave()
        cancelled = error.code == "cancelled"
        now = timezone.now()
        outcomes = getattr(self.source, "outcomes", self.catalog.access_methods)
        fields = {"error_code": error.code, "error_text": error.message, "error_hint": error.hint}
        if cancelled:
            # Not a failure of the catalog: only `catalogs.tasks` asks, to wait for the next poll.
            self.save(checked_at=now, error_code=error.code)
        else:
            self.save(
                state=self.state(Catalog.State.FAILED),
                checked_at=now,
                failing_since=self.catalog.failing_since or now,
                access_methods=outcomes,
                **fields,
            )
        cost = Fetched(None, bytes_read=error.bytes_read, requests=error.requests)
        result = self.result(CANCELLED if cancelled else FAILED, 1, cost, error=error)
        if error.code != "catalog-gone":  # its cluster may be gone, too
            self.finish(result, error)
        log.warning(
            "catalog sync cancelled" if cancelled else "catalog sync failed",
            catalog=str(self.catalog),
            code=error.code,
            error=error.message,
            hint=error.hint,
        )
        return result

    def result(
        self,
        outcome: str,
        rows: int,
        fetched: Fetched | None,
        *,
        counts: dict[str, int] | None = None,
        error: SourceError | None = None,
    ) -> SyncResult:
        catalog = self.catalog
        return SyncResult(
            outcome=outcome,
            packages=catalog.package_count,
            channels=catalog.channel_count,
            bundles=catalog.bundle_count,
            problems=catalog.problem_count,
            rows_written=rows,
            bytes_read=fetched.bytes_read if fetched else 0,
            requests=fetched.requests if fetched else 0,
            error=error.message if error else "",
            error_code=error.code if error else "",
            error_hint=error.hint if error else "",
            counts=counts or {},
        )

    def finish(self, result: SyncResult, error: SourceError | None = None) -> None:
        cost = {
            "rows_written": result.rows_written,
            "bytes_read": result.bytes_read,
            "requests": result.requests,
        }
        self.row.finish(result.outcome, result.counts | cost, error)
