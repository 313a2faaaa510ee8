"""Blobs of FBC out of the database again, in their order, as one text that opm reads.

Knows the rows of blobs; which catalog or package is asked for is the caller's. A blob comes byte
for byte; what stands between two is ours.
"""

from collections.abc import Iterator, Sequence

import zstandard

from catalogs.models import Blob
from olmweb.errors import Missing

AT_ONCE = 20  # blobs of one query: their packs are in memory together
JSON, YAML = "application/jsonl", "application/yaml"


def media_type(first: bytes) -> str:
    """Of a blob, by its first byte."""
    return JSON if first.startswith(b"{") else YAML


def blobs(keys: Sequence[str]) -> Iterator[bytes]:
    """The blobs with these sha256, in this order. Raises Missing when one is gone.

    One may be: a sync can replace the catalog while a slow reader is at it.
    """
    for start in range(0, len(keys), AT_ONCE):
        batch = keys[start : start + AT_ONCE]
        # One statement for blobs and packs: a sweep between two could move a blob.
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
    """JSON when every blob is, else YAML, which JSON is too."""
    return JSON if all(blob.startswith(b"{") for blob in blobs(keys)) else YAML


def as_text(keys: Sequence[str], kind: str) -> Iterator[bytes]:
    """Each blob with a line break after it; in YAML with a line `---` before it."""
    mark = b"" if kind == JSON else b"---\n"
    for blob in blobs(keys):
        yield mark + blob + b"\n"
