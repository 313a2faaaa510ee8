"""Syncs a catalog from its source to rows, with as little work as possible.

If the digest of a ClusterCatalog did not change, no request is sent. If the source responds "not
modified", or the body did not change, one row is updated. Packages whose blobs did not change are
not written. Readers get the old content or the new one, never a mixture; a failure keeps the old.
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
    ProgressCallback,
    SourceError,
    no_progress,
    opened,
    progress_callback,
)
from catalogs.sources.select import source_of
from catalogs.sync.deletion import lock_catalog
from catalogs.sync.pool import Pool, PoolError
from catalogs.sync.progress import Run
from catalogs.sync.replace import ReplacedContent, Replacement, no_cyclic_gc, sweep
from olmweb.eventlog.record import as_text, event, record
from olmweb.eventlog.types import EventData, EventType, FailureData, RecoveryData, RevisionData
from olmweb.models import SyncRun
from olmweb.runtime.leases import LeaseLost, fenced_transaction, still_held

log = structlog.get_logger(__name__)

_COUNTED = ("packages", "bundles", "added", "removed", "changed")  # in the event of a revision


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
    progress: ProgressCallback = no_progress,
) -> SyncResult:
    """Reads the catalog's source and updates the rows to match it, by the steps above.

    `force` rewrites every package. `source` replaces the source of the row; `progress` receives
    (packages done, packages to do). Never raises for a bad source or bad content: the outcome is
    `failed`, the sentence is on the catalog and on a SyncRun. Other errors are recorded and
    raised. A cancelled run (see `catalogs.sync.progress`) ends as `cancelled`. Call it under the
    catalog's lease and outside a transaction. Raises LeaseLost, and has written nothing since, when
    another worker took the catalog over.
    """
    attempt = _Attempt(catalog, force, limits, progress)
    try:
        with progress_callback(attempt.row.reading):
            return attempt.run(source)
    except SourceError as error:
        return attempt.failed(error)
    except LeaseLost:
        raise
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
    """One run of `sync_catalog`. `fetched` has its cost."""

    def __init__(
        self, catalog: Catalog, force: bool, limits: Limits, progress: ProgressCallback
    ) -> None:
        self.progress = progress
        self.catalog = catalog
        self.limits = limits
        self.started = time.monotonic()
        self.row = Run(catalog, timezone.now())
        # Rows of another derivation can't be compared with rows of this one.
        self.everything = force or catalog.derivation != DERIVATION
        # Constant during the attempt: the row may receive another digest meanwhile.
        self.digest = catalog.resolved_digest
        self.source: ContentSource | None = None
        self.fetched = Fetched(None)

    def run(self, source: ContentSource | None) -> SyncResult:
        catalog = self.catalog
        reusable = not self.everything and bool(catalog.content_hash)
        # A cluster that does not answer may have another digest by now.
        silent = catalog.cluster is not None and catalog.cluster.reachable is False
        known = self.digest and self.digest == catalog.synced_digest and not silent
        if reusable and source is None and known:
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
            self.fetched = fetched
            self.digest = self.digest or fetched.digest
            if fetched.body is None:
                return self.unchanged("not modified")
            if reusable and fetched.sha256 == catalog.content_hash:
                return self.unchanged("same content")
            with no_cyclic_gc(), self.pool(fetched.body) as pool:
                if not reusable:  # every package will be read
                    pool.expect(fetched.size)
                replaced = self.replace(self.index(source, fetched.body), pool)
        result = self.result(SyncRun.Outcome.CHANGED, replaced.rows + 1 + sweep(), replaced.counts)
        log.info(
            "catalog synced",
            catalog=str(catalog),
            rows=result.rows_written,
            seconds=round(time.monotonic() - self.started, 2),
            **replaced.counts,
        )
        return result

    def is_resolved(self, source: ContentSource) -> bool:
        """Whether the source reports, without its content, the digest of the stored content."""
        resolve = getattr(source, "resolve", None)
        digest = resolve() if resolve and not self.digest and self.catalog.synced_digest else ""
        if not digest or digest != self.catalog.synced_digest:
            return False
        self.digest = digest
        return True

    @contextmanager
    def pool(self, body: BinaryIO) -> Iterator[Pool]:
        try:
            with Pool(body.fileno(), self.fetched.files) as pool:
                yield pool
        except PoolError as error:
            raise SourceError(
                f"{self.catalog} was not read to its end: {error}.",
                code=error.code,
                hint=f"{error.hint} What was read before stays, and the next sync begins anew.",
            ) from error

    def index(self, source: ContentSource, body: BinaryIO) -> CatalogIndex:
        try:
            return index_spool(
                body,
                limit=self.limits.blob,
                files=self.fetched.files,
                progress=lambda done: self.row.indexing(done, self.fetched.size),
            )
        except NotFbc as error:
            raise SourceError(
                f"{source.label} is not a file-based catalog: it {error}.",
                code="not-fbc",
                hint="Give JSON or YAML as `opm render` writes it, plain or compressed.",
            ) from error
        except CutShort as error:
            raise SourceError(
                f"{source.label} is cut short: {error}.",
                code="cut-short",
                hint="Fetch or write it again; what was read before stays.",
            ) from error

    def replace(self, index: CatalogIndex, pool: Pool) -> ReplacedContent:
        catalog, fetched, now = self.catalog, self.fetched, timezone.now()
        self.row.enter()
        with fenced_transaction():
            if not lock_catalog(catalog.pk):
                raise SourceError(
                    f"{catalog} was deleted while it was being read.",
                    code="catalog-gone",
                    hint="Its content was deleted. Add the catalog again if that was a mistake.",
                )
            replacement = Replacement(
                catalog, index, pool, everything=self.everything, progress=self.wrote
            )
            replaced = replacement.run(self.digest, fetched.sha256)
            fetched.check()
            self.record_revision(replaced)
            self.succeed(
                "read",
                content_hash=fetched.sha256,
                derivation=DERIVATION,
                last_modified=fetched.last_modified,
                revision=replaced.revision,
                changed_at=now,
                package_count=replaced.counts["packages"],
                channel_count=replaced.counts["channels"],
                bundle_count=replaced.counts["bundles"],
                problem_count=replaced.counts["problems"],
            )
        self.row.leave()
        return replaced

    def wrote(self, done: int, total: int) -> None:
        self.progress(done, total)
        self.row.writing(done, total)

    def succeed(self, action: str, **values: object) -> None:
        """Saves the success, and how the source was read if it has several access methods."""
        now = timezone.now()
        milliseconds = round((time.monotonic() - self.started) * 1000)
        count = self.fetched.bytes_read
        size = f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
        if self.fetched.access_method:
            values["access_method"] = self.fetched.access_method
            if outcomes := getattr(self.source, "outcomes", None):
                values["access_methods"] = outcomes
        values |= {
            "state": self.state(Catalog.State.SERVING),
            "checked_at": now,
            "synced_at": now,
            "failing_since": None,
            "error_code": "",
            "error_text": "",
            "error_hint": "",
            "last_cost": f"{action}{f', {size}' if count else ''}, {milliseconds:,} ms",
            "synced_digest": self.digest,
        }
        since = self.catalog.failing_since
        if since is None:
            self.save(**values)
            return
        with transaction.atomic():
            self.save(**values)
            self.record(EventType.CATALOG_RECOVERED, RecoveryData(as_text(since)))

    def record_revision(self, replaced: ReplacedContent) -> None:
        """Rows that only new rules derived from the same content are no news."""
        if self.fetched.sha256 == self.catalog.content_hash:
            return
        counts = {name: replaced.counts[name] for name in _COUNTED}
        self.record(EventType.CATALOG_REVISION, RevisionData(replaced.revision, **counts))

    def record(self, type_: EventType, data: EventData) -> None:
        catalog = self.catalog
        record(
            [
                event(
                    type_,
                    timezone.now(),
                    data,
                    cluster_id=catalog.cluster_id,
                    kind=catalog.source_kind,
                    namespace=catalog.namespace,
                    name=catalog.name,
                    catalog=str(catalog),
                )
            ]
        )

    def state(self, state: Catalog.State) -> Catalog.State:
        disabled = self.catalog.availability == Catalog.UNAVAILABLE
        return Catalog.State.DISABLED if disabled else state

    def save(self, **values: object) -> None:
        """Writes only these columns: a cluster's sync may write the others meanwhile."""
        if not Catalog.objects.filter(still_held(), pk=self.catalog.pk).update(**values):
            self.check_lease()
        for name, value in values.items():
            setattr(self.catalog, name, value)

    def check_lease(self) -> None:
        """Raises LeaseLost; a catalog that was deleted meanwhile has no row to write, either."""
        if Catalog.objects.filter(pk=self.catalog.pk).exists():
            raise LeaseLost

    def unchanged(self, reason: str) -> SyncResult:
        stamp = self.fetched.last_modified
        self.succeed(reason, **({"last_modified": stamp} if stamp else {}))
        return self.result(SyncRun.Outcome.UNCHANGED, 1)

    def failed(self, error: SourceError) -> SyncResult:
        self.row.leave()
        if self.fetched.requests + self.fetched.bytes_read == 0:
            self.fetched = Fetched(None, bytes_read=error.bytes_read, requests=error.requests)
        cancelled = error.code == "cancelled"
        now = timezone.now()
        if cancelled:
            # Not a failure of the catalog: only `catalogs.tasks` reads it, to wait for a poll.
            self.save(checked_at=now, error_code=error.code)
        else:
            since = self.catalog.failing_since
            with transaction.atomic():
                self.save(
                    state=self.state(Catalog.State.FAILED),
                    checked_at=now,
                    failing_since=since or now,
                    access_methods=getattr(self.source, "outcomes", self.catalog.access_methods),
                    error_code=error.code,
                    error_text=error.message,
                    error_hint=error.hint,
                )
                if since is None:
                    failure = FailureData(error.code, error.message, error.hint)
                    self.record(EventType.CATALOG_FAILING, failure)
        outcome = SyncRun.Outcome.CANCELLED if cancelled else SyncRun.Outcome.FAILED
        result = self.result(outcome, 1, error=error)
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
        counts: dict[str, int] | None = None,
        error: SourceError | None = None,
    ) -> SyncResult:
        """The result, also recorded on a SyncRun unless nothing changed in a short run."""
        catalog, counts = self.catalog, counts or {}
        cost = {
            "rows_written": rows,
            "bytes_read": self.fetched.bytes_read,
            "requests": self.fetched.requests,
        }
        recorded = outcome != SyncRun.Outcome.UNCHANGED or self.row.row is not None
        if recorded and (error is None or error.code != "catalog-gone"):  # its cluster may be gone
            self.row.finish(outcome, counts | cost, error)
        return SyncResult(
            outcome=str(outcome),
            packages=catalog.package_count,
            channels=catalog.channel_count,
            bundles=catalog.bundle_count,
            problems=catalog.problem_count,
            error=error.message if error else "",
            error_code=error.code if error else "",
            error_hint=error.hint if error else "",
            counts=counts,
            **cost,
        )
