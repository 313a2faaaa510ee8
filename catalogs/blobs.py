"""Blobs of FBC in packs: several of one package in one zstd frame, each to be had back by itself.

The versions of an operator are alike, so together they take a third of what they take apart. Knows
the rows of packs and blobs; not what is in a blob, nor which catalog holds it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

import zstandard
from django.db import connection

from catalogs.bulk import Table, delete, quoted, reserve_ids
from catalogs.models import Blob, BlobPack, BlobRef

ZSTD_LEVEL = 3
# More would save little and cost every reader of one blob; a larger blob has a pack of its own.
PACK_BYTES = 1 << 20
PACKS_AHEAD = 3
BLOBS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Pack:
    """A frame of `size` bytes when decoded, and its blobs: (sha256, start, size)."""

    data: bytes
    size: int
    members: list[tuple[str, int, int]]


class Packer:
    """Compresses blobs in one thread beside the reading of the next ones; order is kept."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="zstd")
        self._waiting: deque[Future[Pack]] = deque()
        self._batch: list[tuple[str, bytes]] = []
        self._size = 0

    def add(self, sha256: str, data: bytes) -> None:
        if self._size + len(data) > PACK_BYTES:
            self.end_pack()
        self._batch.append((sha256, data))
        self._size += len(data)

    def end_pack(self) -> None:
        """What is added from now on, another package's blobs, say, is in another pack."""
        if self._batch:
            self._waiting.append(self._threads.submit(self._pack, self._batch, self._size))
            self._batch, self._size = [], 0

    def _pack(self, batch: list[tuple[str, bytes]], size: int) -> Pack:
        members, start = [], 0
        for sha256, data in batch:
            members.append((sha256, start, len(data)))
            start += len(data)
        return Pack(self._context.compress(b"".join(data for _, data in batch)), size, members)

    def ready(self, ahead: int = PACKS_AHEAD) -> Iterator[Pack]:
        """All packs but the last `ahead`."""
        while len(self._waiting) > ahead:
            yield self._waiting.popleft().result()

    def rest(self) -> Iterator[Pack]:
        self.end_pack()
        yield from self.ready(0)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def packs_at_most(packages: int, size: int) -> int:
    """Most packs that so many packages with so many bytes of blobs can take."""
    return packages + 2 * size // PACK_BYTES + 1  # two packs in a row are more than one holds


def read_blob(sha256: str, limit: int | None = None) -> bytes | None:
    """The blob byte for byte, or its first `limit` bytes; None when it isn't stored."""
    # One statement for both rows: a sweep between two could move the blob to another place.
    blob = Blob.objects.select_related("pack").filter(pk=sha256).first()
    if blob is None:
        return None
    size = blob.size if limit is None else min(blob.size, limit)
    with zstandard.ZstdDecompressor().stream_reader(bytes(blob.pack.data)) as reader:
        return reader.read(blob.start + size)[blob.start :]


def read_blobs(wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Those of the blobs that are stored, each pack read once; memory holds one pack."""
    unpacker = zstandard.ZstdDecompressor()
    for keys in _batches(sorted(set(wanted))):
        rows = Blob.objects.filter(pk__in=keys).order_by("pack_id", "start")
        fields = ("pack_id", "pack__size", "sha256", "start", "size")
        places = {
            pack: list(group)
            for pack, group in groupby(rows.values_list(*fields), key=itemgetter(0, 1))
        }
        packs = BlobPack.objects.filter(pk__in=[pack_id for pack_id, _ in places]).order_by("id")
        for pack_id, size, packed in packs.values_list("id", "size", "data").iterator(chunk_size=1):
            members = places.pop((pack_id, size), None)
            if members is not None:
                data = unpacker.decompress(bytes(packed), max_output_size=size)
                yield from ((sha256, data[at : at + n]) for _, _, sha256, at, n in members)
        # A sweep packed the others anew between the queries: a pack only ever gets smaller.
        for _, _, sha256, _, _ in chain.from_iterable(places.values()):
            found = read_blob(sha256)
            if found is not None:
                yield sha256, found


def _batches(keys: list[str]) -> Iterator[list[str]]:
    return (keys[at : at + BLOBS_AT_ONCE] for at in range(0, len(keys), BLOBS_AT_ONCE))


class PackTables:
    """The rows of packs and blobs that one writer makes; `flush` last."""

    def __init__(self, most: int) -> None:
        self._ids = iter(reserve_ids(BlobPack, most))
        self._packs = Table(BlobPack, "id", "size", "data", batch=1)
        self._blobs = Table(Blob, "sha256", "pack", "start", "size", keyed=True)

    def extend(self, packs: Iterator[Pack]) -> None:
        for pack in packs:
            pack_id = next(self._ids)
            self._packs.add((pack_id, pack.size, pack.data))
            self._blobs.extend(
                [(sha256, pack_id, start, size) for sha256, start, size in pack.members]
            )

    def flush(self) -> int:
        """Writes what waits; returns the rows written by it and before."""
        self._packs.finish()
        self._blobs.finish()
        return self._packs.written + self._blobs.written


def collect_blobs() -> int:
    """Deletes blobs that nothing refers to, and packs without blobs; returns how many.

    A pack of which less than half is still referred to is packed anew without the rest.
    """
    blob, ref, pack = quoted(Blob), quoted(BlobRef), quoted(BlobPack)
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {blob} WHERE NOT EXISTS"  # noqa: S608 - our own names
            f" (SELECT 1 FROM {ref} r WHERE r.blob_id = {blob}.sha256) RETURNING pack_id"
        )
        touched = [row[0] for row in cursor.fetchall()]
    rows = len(touched)
    for pack_id in sorted(set(touched)):
        rows += _repack(pack_id)
    empty = f"NOT EXISTS (SELECT 1 FROM {blob} b WHERE b.pack_id = {pack}.id)"  # noqa: S608
    return rows + delete(BlobPack, empty, ())


def _repack(pack_id: int) -> int:
    """Packs the blobs that are left anew if they are less than half; returns rows written."""
    left = list(Blob.objects.filter(pack=pack_id).order_by("start"))
    live = sum(blob.size for blob in left)
    pack = BlobPack.objects.get(pk=pack_id)
    if not left or live * 2 >= pack.size:
        return 0
    data = zstandard.ZstdDecompressor().decompress(bytes(pack.data), max_output_size=pack.size)
    parts: list[bytes] = []
    start = 0
    for blob in left:
        parts.append(data[blob.start : blob.start + blob.size])
        blob.start = start
        start += blob.size
    pack.size = live
    pack.data = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(b"".join(parts))
    pack.save()
    Blob.objects.bulk_update(left, ["start"])
    return 1 + len(left)
