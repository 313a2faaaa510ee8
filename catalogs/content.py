"""Replacing a catalog's content in one transaction, package by package, only where it changed.

Takes an indexed spool; knows the database through `catalogs.store`. Where the spool came from and
what is told about the attempt is `catalogs.sync`'s.
"""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from catalogs import fbc
from catalogs.derive import DERIVATION, ChannelFacts, PackageReader
from catalogs.fbc import Problem
from catalogs.models import Catalog, CatalogRevision, ContentProblem, Package
from catalogs.pipe import piped
from catalogs.places import Places
from catalogs.revisions.outline import BundleOutline, bundle_outline, outline_of
from catalogs.revisions.record import Recorder
from catalogs.splitter import Index, PackageIndex, reread
from catalogs.store import (
    AtMost,
    PackageContent,
    Ref,
    StoredPackage,
    Writer,
    catalog_problems,
    collect_garbage,
    lock_for_writing,
    may_collect,
    stored_packages,
)
from catalogs.texts import Texts

Progress = Callable[[int, int], None]
SALT = f"derivation {DERIVATION}".encode()


def no_progress(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a replacement did. `counts` are packages, channels, bundles, problems, added, removed,
    changed; `rows` those inserted, updated and deleted."""

    counts: dict[str, int]
    rows: int
    revision: int


class Replacement:
    """One run over a catalog's content; `run` does it inside the caller's transaction."""

    def __init__(
        self,
        catalog: Catalog,
        index: Index,
        body: BinaryIO,
        *,
        everything: bool,
        progress: Progress,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._parts = index.packages
        self._file = body.fileno()
        self._everything = everything
        self._progress = progress
        self._recorder = Recorder(catalog)
        self._tally = {"added": 0, "removed": 0, "changed": 0}  # packages
        self._writer = Writer(catalog.pk)
        self._places = Places(self._read, index.files)

    def run(self, digest: str, body_hash: str) -> Written:
        """Writes every package that differs from what is stored, and the revision that says so."""
        try:
            stored = stored_packages(self._catalog.pk, SALT)
            hashes = {name: part.content_hash(SALT) for name, part in self._parts.items()}
            changed = [name for name in self._parts if self._differs(name, stored, hashes)]
            self._reserve(changed, stored)
            for done, name in enumerate(changed):
                self._progress(done, len(changed))
                if name:
                    self._replace(name, hashes[name], stored.get(name))
            self._progress(len(changed), len(changed))
            for name in sorted(stored.keys() - hashes.keys() - {""}):
                self._remove(name, stored[name])
            self._replace_loose("" in changed or ("" in stored and "" not in hashes))
            rows = self._writer.finish()
        finally:
            self._writer.close()
        counts = self._count() | self._tally
        rows += self._write_revision(counts, digest, body_hash)
        return Written(counts, rows, self._catalog.revision + 1)

    def _differs(self, name: str, stored: dict[str, StoredPackage], hashes: dict[str, str]) -> bool:
        before = stored.get(name)
        return self._everything or before is None or before.content_hash != hashes[name]

    def _reserve(self, changed: list[str], stored: dict[str, StoredPackage]) -> None:
        bundles = others = size = 0
        names = {"", *changed} & self._parts.keys()
        for name in names:
            for at in self._parts[name]:
                bundles += at.bundle
                others += not at.bundle
                size += at.length
        blobs = (at.sha256 for name in names for at in self._parts[name])
        new = sum(1 for name in changed if name not in stored or stored[name].id is None)
        self._writer.reserve(AtMost(new, others, bundles, len(names), size), blobs)

    def _replace(self, name: str, content_hash: str, before: StoredPackage | None) -> None:
        if before is not None:
            self._recorder.before(name, before.id)
            self._writer.clear(name, before.id, whole=False)
        reader = PackageReader(name)
        part = self._parts[name]
        places = self._read_others(reader, part)
        # Bundles without an olm.package have nothing to hang on; their blobs and faults are kept.
        package_id = before.id if before and before.id else None
        new = package_id is None and reader.known
        if new:
            package_id = self._writer.new_package_id()
        bundles = self._read_bundles(reader, part, package_id if reader.known else None, places)
        channels = reader.finish()
        if reader.known and package_id is not None:
            self._finish_package(reader, part, package_id, channels, content_hash, new=new)
        elif before is not None and before.id is not None:
            self._writer.clear(name, before.id, whole=True)
        self._writer.write_refs(name, [ref for ref in places if ref is not None])
        self._writer.write_problems(self._placed(reader.problems, part))
        known_before = before is not None and before.id is not None
        if reader.known:
            self._tally["changed" if known_before else "added"] += 1
            self._recorder.is_now(name, outline_of(reader, channels, bundles))
        elif known_before:
            self._note_removed(name)

    def _read_others(self, reader: PackageReader, part: PackageIndex) -> list[Ref | None]:
        """Reads every blob but bundles; returns a place for each blob, bundles' still empty."""
        places: list[Ref | None] = [None] * len(part)
        for position, at in enumerate(part):
            if not at.bundle:
                data = self._read(at.offset, at.length)
                header, json = reread(data)
                reader.read(header, json, at.offset)
                places[position] = Ref(header.schema or "", header.name or "", at.sha256)
                self._writer.add_blob(at.sha256, data)
        return places

    def _read_bundles(
        self,
        reader: PackageReader,
        part: PackageIndex,
        package_id: int | None,
        refs: list[Ref | None],
    ) -> dict[str, BundleOutline]:
        """Reads the bundles; returns their outlines, the first's of a name that comes twice."""
        outlines: dict[str, BundleOutline] = {}
        ordinals: Counter[str] = Counter()
        deprecations = reader.bundle_deprecations
        for position, at in enumerate(part):
            if not at.bundle:
                continue
            data = self._read(at.offset, at.length)
            facts = reader.read_bundle(data if at.plain else reread(data)[1], at.offset, position)
            name = facts.name if facts else reread(data)[0].name or ""
            refs[position] = Ref(fbc.BUNDLE, name, at.sha256)
            self._writer.add_blob(at.sha256, data)
            if facts and package_id is not None:
                ordinal = ordinals[name]
                ordinals[name] += 1
                self._writer.add_bundle(
                    package_id, facts, ordinal, deprecations.get(name), at.sha256
                )
                if not ordinal:
                    outlines[name] = bundle_outline(facts, at.sha256)
        return outlines

    def _finish_package(
        self,
        reader: PackageReader,
        part: PackageIndex,
        package_id: int,
        channels: list[ChannelFacts],
        content_hash: str,
        *,
        new: bool,
    ) -> None:
        standing = reader.standing(channels)
        texts: Texts
        if standing:
            at = part[standing[1]]
            data = self._read(at.offset, at.length)
            texts = reader.texts(data if at.plain else reread(data)[1])
        else:
            texts = reader.texts(None)
        head = standing[0] if standing else ""
        content = PackageContent(reader, content_hash, channels, texts, head)
        self._writer.write_package(package_id, content, new=new)

    def _remove(self, name: str, before: StoredPackage) -> None:
        self._recorder.before(name, before.id)
        self._writer.clear(name, before.id, whole=True)
        if before.id is not None:
            self._note_removed(name)

    def _replace_loose(self, changed: bool) -> None:
        """Blobs of no package, and faults of what could not even be read so far.

        Left alone when `changed` is false and the faults are the same as well.
        """
        reader = PackageReader("")
        part = self._parts.get("", PackageIndex())
        places = self._read_others(reader, part)
        self._read_bundles(reader, part, None, places)
        reader.finish()
        problems = self._placed([*self._index.problems, *reader.problems], part)
        if changed or catalog_problems(self._catalog.pk) != problems:
            self._writer.clear("", None, whole=False)
            self._writer.write_refs("", [ref for ref in places if ref is not None])
            self._writer.write_problems(problems)

    def _note_removed(self, name: str) -> None:
        self._tally["removed"] += 1
        self._recorder.is_now(name, None)

    def _placed(self, problems: list[Problem], part: PackageIndex) -> list[Problem]:
        lengths = {at.offset: at.length for at in part} if problems else {}
        return self._places.fill(problems, lengths)

    def _read(self, offset: int, length: int) -> bytes:
        return os.pread(self._file, length, offset)

    def _count(self) -> dict[str, int]:
        found = Package.objects.filter(catalog=self._catalog).aggregate(
            packages=Count("id"), channels=Sum("channel_count"), bundles=Sum("bundle_count")
        )
        problems = ContentProblem.objects.filter(catalog=self._catalog).count()
        return {key: value or 0 for key, value in found.items()} | {"problems": problems}

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


def replace_content(
    catalog: Catalog,
    index: Index,
    body: BinaryIO,
    *,
    digest: str,
    body_hash: str,
    everything: bool,
    progress: Progress = no_progress,
) -> Written:
    """Makes the rows of `catalog` those of `body`; call inside a transaction.

    `everything` writes also the packages whose blobs are the same as before. `progress` is told
    (packages done, packages to do).
    """
    lock_for_writing()
    with piped():
        replacement = Replacement(catalog, index, body, everything=everything, progress=progress)
        return replacement.run(digest, body_hash)


def sweep() -> int:
    """Deletes blobs and icons without a reference, unless another catalog is being written."""
    with transaction.atomic():
        return collect_garbage() if may_collect() else 0


@contextmanager
def no_cyclic_gc() -> Iterator[None]:
    """Blobs and rows in flight hold no cycles; looking for some costs a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
