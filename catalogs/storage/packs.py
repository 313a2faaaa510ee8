"""Packing blobs: several of one package in one zstd frame, each to be had back by itself.

The versions of an operator are alike, so together they take a third of what they take apart. Pure:
rows of packs are `catalogs.storage.blobs`'s.
"""

from collections.abc import Callable

import msgspec
import zstandard

ZSTD_LEVEL = 3
# More would save little and cost every reader of one blob; a larger blob has a pack of its own.
PACK_BYTES = 1 << 20


class Pack(msgspec.Struct, array_like=True, tag=True):
    """A frame of `size` bytes when decoded, and its blobs: (sha256, start, size)."""

    size: int
    data: bytes
    members: list[tuple[str, int, int]]


Keep = Callable[[Pack], None]


class Packer:
    """Packs the blobs of one package in their order and gives each pack to `keep`; `end` last."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._batch: list[tuple[str, bytes]] = []
        self._size = 0

    def add(self, sha256: str, data: bytes) -> None:
        if self._size + len(data) > PACK_BYTES:
            self.end()
        self._batch.append((sha256, data))
        self._size += len(data)

    def end(self) -> None:
        """Ends the pack that is being filled."""
        if self._batch:
            members, start = [], 0
            for sha256, data in self._batch:
                members.append((sha256, start, len(data)))
                start += len(data)
            packed = self._compressor.compress(b"".join(data for _, data in self._batch))
            self._batch, self._size = [], 0
            self._keep(Pack(start, packed, members))


def packs_at_most(packages: int, size: int) -> int:
    """Most packs that so many packages with so many bytes of blobs can take."""
    return packages + 2 * size // PACK_BYTES + 1  # two packs in a row are more than one holds
