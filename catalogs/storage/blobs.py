"""Blobs of FBC in the database: in packs, each to be had back by itself.

Knows the rows of packs and blobs; not what is in a blob, nor which catalog holds it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

import zstandard
from django.db import connection

from catalogs.models import Blob, BlobPack, BlobRef
from catalogs.storage.packs import ZSTD_LEVEL, Pack
from olmweb.bulk import Table, delete, quoted, reserve_ids

BLOBS_AT_ONCE = 500
PACKS_AT_ONCE = 4  # that wait to be written: a third of a MB each at most, mostly much less


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
        self._packs = Table(BlobPack, "id", "size", "data", batch=PACKS_AT_ONCE)
        self._blobs = Table(Blob, "sha256", "pack", "start", "size", keyed=True)

    def add(self, pack: Pack) -> None:
        pack_id = next(self._ids)
        self._packs.add((pack_id, pack.size, pack.data))
        self._blobs.extend([(sha256, pack_id, start, size) for sha256, start, size in pack.members])

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
