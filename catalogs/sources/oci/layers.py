"""Applies the layers of an image to certain folders.

A tar has no index, so every layer is read to its end; only files in the folders are retained, in
one spool. Whiteouts as in the OCI image specification (layer.md): `.wh.NAME` hides NAME of lower
layers, `.wh..wh..opq` hides all their content in its folder.
"""

import tarfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from catalogs.sources.archive import BoundedTar, broken, leaf_of
from catalogs.sources.base import Limits, SourceError
from catalogs.sources.spool import CHUNK, check_ratio, decoded, room, too_large
from catalogs.sources.tree import File, Symlink, Tree, clean_path, too_many

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_BUFFER = 1 << 18


class Unpacker:
    """Applies layers, the lowest first. `store` takes the bytes of the files in the folders."""

    def __init__(self, label: str, folders: Sequence[str], limits: Limits, store: BinaryIO) -> None:
        self._label = label
        self._folders = [clean_path(folder, label) for folder in folders]
        self._limits = limits
        self._store = store
        self._stored = self._unpacked = self._retained = 0
        self._lower = Tree(label)

    def apply(self, chunks: Iterator[bytes], number: int) -> None:
        """Applies one layer, encoded as in the registry. Raises SourceError."""
        what = f"layer {number} of {self._label}"
        upper, members = Tree(self._label), 0
        upper.weight = self._lower.weight
        parts = self._checked(chunks, what)
        try:
            with BoundedTar.open(
                fileobj=_Reader(parts),  # type: ignore[call-overload]
                mode="r|",
                bufsize=_BUFFER,
            ) as tar:
                while (member := tar.next()) is not None:
                    members += 1
                    if members > 10 * self._limits.files:
                        raise too_many(what, self._limits)
                    self._member(tar, member, upper)
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise broken(what, error) from error
        for _ in parts:
            pass  # the digest includes bytes after the tar
        self._lower.overlay(upper)
        self._lower.weight = upper.weight

    def _checked(self, chunks: Iterator[bytes], what: str) -> Iterator[bytes]:
        """The layer decoded, within the limits."""
        read = size = 0

        def counted() -> Iterator[bytes]:
            nonlocal read
            for chunk in chunks:
                read += len(chunk)
                yield chunk

        for part in decoded(counted(), what):
            size += len(part)
            self._unpacked += len(part)
            if self._unpacked > self._limits.unpacked:
                raise SourceError(
                    f"{self._label} is larger than {self._limits.unpacked // 1024**3:,} GiB when "
                    "unpacked.",
                    code="too-large",
                    hint="Build the catalog's image on a small base.",
                )
            check_ratio(what, self._limits, size, read)
            yield part

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo, upper: Tree) -> None:
        parts = clean_path(member.name, self._label)
        above = len(parts) - 1
        if not parts or not (self._touches(parts) or self._hides(parts)):
            return
        if parts[-1] == _OPAQUE:
            self._lower.clear(parts[:-1])
        elif parts[-1].startswith(_WHITEOUT):
            self._lower.remove((*parts[:above], parts[-1][len(_WHITEOUT) :]))
        else:
            self._retain(tar, member, parts, upper)

    def _touches(self, parts: tuple[str, ...]) -> bool:
        """Whether it lies in one of the folders, is one, or one above."""
        return any(parts[: len(own)] == own[: len(parts)] for own in self._folders)

    def _hides(self, parts: tuple[str, ...]) -> bool:
        """Whether it is a whiteout beside one of the folders or one above it."""
        above = parts[:-1]
        return parts[-1].startswith(_WHITEOUT) and any(
            above == own[: len(above)] for own in self._folders
        )

    def _inside(self, parts: tuple[str, ...]) -> bool:
        return any(len(parts) > len(own) and parts[: len(own)] == own for own in self._folders)

    def _retain(
        self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...], upper: Tree
    ) -> None:
        self._retained += 1
        if self._retained > self._limits.files:
            raise too_many(self._label, self._limits)
        if member.islnk():
            target = clean_path(member.linkname, self._label)
            tree = upper if upper.get(target) is not None else self._lower
            upper.put(parts, leaf_of(member, tree, self._label))
            return
        leaf = leaf_of(member, upper, self._label, offset=self._stored)
        upper.put(parts, leaf)
        if isinstance(leaf, File) and self._inside(parts):
            self._copy(tar, member)

    def _copy(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if self._stored + member.size > self._limits.body:
            raise too_large(self._label, self._limits)
        source = tar.extractfile(member)
        while source is not None and (part := source.read(CHUNK)):
            with room(self._label):
                self._store.write(part)
            self._stored += len(part)

    def folder(self, number: int = 0) -> Tree:
        """One of the folders after all layers. Raises SourceError when the image has none."""
        own = self._folders[number]
        node = self._lower.get(own)
        shown = "/" + "/".join(own)
        if not isinstance(node, dict):
            what = "is a link" if isinstance(node, Symlink) else "is not in the image"
            raise SourceError(
                f"{self._label} has the label for the folder {shown}, which {what}.",
                code="no-configs-folder",
                hint="Copy the catalog's files to the folder that the label names.",
            )
        tree = Tree(self._label, own)
        tree.root = node
        return tree


class _Reader:
    """The file interface of a stream for tarfile."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""

    def read(self, size: int) -> bytes:
        have, pieces = len(self._rest), [self._rest]
        while have < size and (part := next(self._parts, b"")):
            pieces.append(part)
            have += len(part)
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]
