"""Stores the blobs of FBC in the database, packed together, and reads them byte for byte."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

import zstandard
from django.db import connection

from catalogs.models import Blob, BlobPack, BlobRef
from catalogs.storage.packs import ZSTD_LEVEL, Pack
from olmweb.bulk import Table, delete, quoted, reserve_ids
from olmweb.errors import Missing

BLOBS_PER_QUERY = 500
PACKS_PER_BATCH = 4  # to write: a third of a MB each at most, mostly much less
STREAMED_BLOBS = 20  # of one query: their packs are in memory together
JSON, YAML = "application/jsonl", "application/yaml"


def read_blob(sha256: str, limit: int | None = None) -> bytes | None:
    """The blob, or its first `limit` bytes; None when it isn't stored."""
    # One statement: between two, a sweep could move the blob.
    blob = Blob.objects.select_related("pack").filter(pk=sha256).first()
    return None if blob is None else unpacked(blob, limit)


def unpacked(blob: Blob, limit: int | None = None) -> bytes:
    """The content of a row that was read with its pack, or its first `limit` bytes."""
    size = blob.size if limit is None else min(blob.size, limit)
    with zstandard.ZstdDecompressor().stream_reader(bytes(blob.pack.data)) as reader:
        return reader.read(blob.start + size)[blob.start :]


def read_blobs(wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The wanted blobs that are stored. Reads each pack once and holds one pack in memory."""
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
        # A sweep repacked the others between the queries.
        for _, _, sha256, _, _ in chain.from_iterable(places.values()):
            blob = read_blob(sha256)
            if blob is not None:
                yield sha256, blob


def _batches(keys: list[str]) -> Iterator[list[str]]:
    return (keys[at : at + BLOBS_PER_QUERY] for at in range(0, len(keys), BLOBS_PER_QUERY))


def media_type(first: bytes) -> str:
    """The media type of a blob, by its first byte."""
    return JSON if first.startswith(b"{") else YAML


def stream_blobs(keys: Sequence[str]) -> Iterator[bytes]:
    """The blobs with these sha256, in this order.

    Raises Missing when a blob no longer exists: a sync can replace the catalog during a slow read.
    """
    for start in range(0, len(keys), STREAMED_BLOBS):
        batch = keys[start : start + STREAMED_BLOBS]
        # One statement: between two, a sweep could move a blob.
        rows = {row.pk: row for row in Blob.objects.select_related("pack").filter(pk__in=batch)}
        packs: dict[int, bytes] = {}
        for key in batch:
            row = rows.get(key)
            if row is None:
                raise Missing("The catalog changed while it was read; ask again.")
            if row.pack_id not in packs:
                packs[row.pack_id] = zstandard.ZstdDecompressor().decompress(
                    bytes(row.pack.data), max_output_size=row.pack.size
                )
            yield packs[row.pack_id][row.start : row.start + row.size]


def kind_of(keys: Sequence[str]) -> str:
    """JSON if all blobs are JSON, else YAML, a superset."""
    return JSON if all(blob.startswith(b"{") for blob in stream_blobs(keys)) else YAML


def as_text(keys: Sequence[str], kind: str) -> Iterator[bytes]:
    """Each blob with a line break after it; in YAML with a line `---` before it."""
    mark = b"" if kind == JSON else b"---\n"
    for blob in stream_blobs(keys):
        yield mark + blob + b"\n"


class PackTables:
    """Inserts the rows of packs and blobs of one writer; `flush` last."""

    def __init__(self, max_packs: int) -> None:
        self._ids = iter(reserve_ids(BlobPack, max_packs))
        self._packs = Table(BlobPack, "id", "size", "data", batch=PACKS_PER_BATCH)
        self._blobs = Table(Blob, "sha256", "pack", "start", "size", keyed=True)

    def add(self, pack: Pack) -> None:
        pack_id = next(self._ids)
        self._packs.add((pack_id, pack.size, pack.data))
        self._blobs.extend([(blob.sha256, pack_id, blob.start, blob.size) for blob in pack.members])

    def flush(self) -> int:
        """Writes the waiting rows; returns how many rows were written in all."""
        self._packs.finish()
        self._blobs.finish()
        return self._packs.written + self._blobs.written


def collect_blobs() -> int:
    """Deletes unreferenced blobs, and packs without blobs; returns how many.

    A pack of which less than half is still referenced is repacked without the rest.
    """
    blob, ref, pack = quoted(Blob), quoted(BlobRef), quoted(BlobPack)
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {blob} WHERE NOT EXISTS"  # noqa: S608 - our own names
            f" (SELECT 1 FROM {ref} r WHERE r.blob_id = {blob}.sha256) RETURNING pack_id"
        )
        touched = [row[0] for row in cursor.fetchall()]
    rows = len(touched) + sum(map(_repack, sorted(set(touched))))
    empty = f"NOT EXISTS (SELECT 1 FROM {blob} b WHERE b.pack_id = {pack}.id)"  # noqa: S608
    return rows + delete(BlobPack, empty, ())


def _repack(pack_id: int) -> int:
    """Repacks the remaining blobs if they are less than half of the pack; returns rows written."""
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
