"""Replaces the changed packages of a catalog in one transaction, from an indexed spool."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from catalogs.fbc.package import DERIVATION
from catalogs.fbc.split import CatalogIndex, PackageIndex
from catalogs.models import Catalog, CatalogRevision, ContentProblem, Package
from catalogs.revisions.record import Recorder
from catalogs.sources.base import ProgressCallback
from catalogs.storage.packs import max_packs
from catalogs.sync.deletion import collect_garbage, lock_for_writing, may_collect
from catalogs.sync.package_rows import PackageJob, PackageRows
from catalogs.sync.pool import Pool
from catalogs.sync.write import StoredPackage, Writer, stored_packages

SALT = f"derivation {DERIVATION}".encode()


@dataclass(frozen=True, slots=True)
class ReplacedContent:
    """The result of a replacement. `counts` are packages, channels, bundles, problems, added,
    removed, changed; `rows` those inserted, updated and deleted."""

    counts: dict[str, int]
    rows: int
    revision: int


class Replacement:
    """Replaces the content of `catalog` with the body that `pool` reads; call `run` inside a
    transaction.

    `everything` also rewrites the packages whose blobs did not change. `progress` receives
    (packages done, packages to do).
    """

    def __init__(
        self,
        catalog: Catalog,
        index: CatalogIndex,
        pool: Pool,
        *,
        everything: bool,
        progress: ProgressCallback,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._parts = index.packages
        self._pool = pool
        self._everything = everything
        self._progress = progress
        self._recorder = Recorder(catalog)
        self._tally = {"added": 0, "removed": 0, "changed": 0}  # packages
        self._writer = Writer(catalog.pk, rewrite=everything)

    def run(self, digest: str, body_hash: str) -> ReplacedContent:
        """Writes every package that differs from the stored one, and a revision."""
        lock_for_writing()
        stored = stored_packages(self._catalog.pk, SALT)
        hashes = {name: part.content_hash(SALT) for name, part in self._parts.items()}
        changed = [name for name in self._parts if self._differs(name, stored, hashes)]
        stored_blobs = self._reserve(changed, stored)
        jobs = [self._job(name, stored_blobs) for name in changed if name]
        self._progress(0, len(jobs))
        for done, rows in enumerate(self._pool.build(jobs, self._writer.store_pack), 1):
            self._replace(rows, hashes[rows.name], stored.get(rows.name))
            self._progress(done, len(jobs))
        for name in sorted(stored.keys() - hashes.keys() - {""}):
            self._remove(name, stored[name])
        self._replace_unowned(stored_blobs)
        rows_written = self._writer.finish()
        counts = self._count() | self._tally
        rows_written += self._write_revision(counts, digest, body_hash)
        return ReplacedContent(counts, rows_written, self._catalog.revision + 1)

    def _differs(self, name: str, stored: dict[str, StoredPackage], hashes: dict[str, str]) -> bool:
        before = stored.get(name)
        return self._everything or before is None or before.content_hash != hashes[name]

    def _reserve(self, changed: list[str], stored: dict[str, StoredPackage]) -> set[bytes]:
        bundles = others = size = 0
        parts = [self._parts[name] for name in {"", *changed} & self._parts.keys()]
        for at in chain.from_iterable(parts):
            bundles += at.bundle
            others += not at.bundle
            size += at.length
        return self._writer.reserve(
            (at.digest for at in chain.from_iterable(parts)),
            packages=sum(1 for name in changed if name not in stored or stored[name].id is None),
            channels=others,
            bundles=bundles,
            packs=max_packs(len(parts), size),
        )

    def _job(self, name: str, stored_blobs: set[bytes]) -> PackageJob:
        part = self._parts.get(name) or PackageIndex()
        positions = enumerate(part) if stored_blobs else ()
        return PackageJob(
            name, part.packed, [i for i, at in positions if at.digest in stored_blobs]
        )

    def _replace(self, rows: PackageRows, content_hash: str, before: StoredPackage | None) -> None:
        if before is not None:
            self._recorder.before(rows.name, before.id)
        self._writer.write(content_hash, rows, before)
        existed = before is not None and before.id is not None
        if rows.package:
            self._tally["changed" if existed else "added"] += 1
            self._recorder.is_now(rows.name, rows.outline)
        elif existed:
            self._record_removal(rows.name)

    def _remove(self, name: str, before: StoredPackage) -> None:
        self._recorder.before(name, before.id)
        self._writer.clear(name, before.id, whole=True)
        if before.id is not None:
            self._record_removal(name)

    def _replace_unowned(self, stored_blobs: set[bytes]) -> None:
        """Replaces the blobs without a package, and the problems of unreadable blobs."""
        rows = self._pool.builder.build(
            self._job("", stored_blobs), self._writer.store_pack, self._index.problems
        )
        self._writer.write("", rows, StoredPackage(None, ""))

    def _record_removal(self, name: str) -> None:
        self._tally["removed"] += 1
        self._recorder.is_now(name, None)

    def _count(self) -> dict[str, int]:
        sums = Package.objects.filter(catalog=self._catalog).aggregate(
            packages=Count("id"), channels=Sum("channel_count"), bundles=Sum("bundle_count")
        )
        problems = ContentProblem.objects.filter(catalog=self._catalog).count()
        return {key: value or 0 for key, value in sums.items()} | {"problems": problems}

    def _write_revision(self, counts: dict[str, int], digest: str, body_hash: str) -> int:
        revision = CatalogRevision.objects.create(
            catalog=self._catalog,
            number=self._catalog.revision + 1,
            content_hash=body_hash,
            digest=digest,
            created_at=timezone.now(),
            counts=counts,
        )
        return 1 + self._recorder.finish(revision.pk)


def sweep() -> int:
    """Deletes unreferenced blobs and icons, unless another catalog is being written."""
    with transaction.atomic():
        return collect_garbage() if may_collect() else 0


@contextmanager
def no_cyclic_gc() -> Iterator[None]:
    """Disables the search for cycles, which takes a tenth of the time: blobs and rows have none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
