"""Packs several blobs of one package in one zstd frame. Pure.

The versions of an operator are similar: together they take a third of their separate size.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import zstandard

ZSTD_LEVEL = 3
# Larger packs save little and slow down every read of a blob. A larger blob has its own pack.
PACK_BYTES = 1 << 20


class PackedBlob(NamedTuple):
    """Position of a blob in the decoded frame."""

    sha256: str
    start: int
    size: int


class Pack(msgspec.Struct, array_like=True, tag=True):
    """A frame of `size` bytes when decoded, and its blobs."""

    size: int
    data: bytes
    members: list[PackedBlob]


PackSink = Callable[[Pack], None]


class Packer:
    """Packs the blobs of one package in their order and sends each pack to `sink`; `end` last."""

    def __init__(self, sink: PackSink) -> None:
        self._sink = sink
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._batch: list[tuple[str, bytes]] = []
        self._size = 0

    def add(self, sha256: str, data: bytes) -> None:
        if self._size + len(data) > PACK_BYTES:
            self.end()
        self._batch.append((sha256, data))
        self._size += len(data)

    def end(self) -> None:
        """Completes the current pack."""
        if self._batch:
            members, start = [], 0
            for sha256, data in self._batch:
                members.append(PackedBlob(sha256, start, len(data)))
                start += len(data)
            packed = self._compressor.compress(b"".join(data for _, data in self._batch))
            self._batch, self._size = [], 0
            self._sink(Pack(start, packed, members))


def max_packs(packages: int, size: int) -> int:
    """The most packs that so many packages with so many bytes of blobs can fill."""
    return packages + 2 * size // PACK_BYTES + 1  # two successive packs exceed PACK_BYTES
