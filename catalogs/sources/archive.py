"""Reads a tar of a catalog's folder in place, without unpacking files under their names."""

import tarfile
from contextlib import closing
from dataclasses import replace
from tarfile import (  # type: ignore[attr-defined]  # the stubs leave three of them out
    EmptyHeaderError,
    InvalidHeaderError,
    ReadError,
    TruncatedHeaderError,
)
from typing import BinaryIO, Self

from catalogs.sources.base import Fetched, Limits, SourceError
from catalogs.sources.spool import Spool
from catalogs.sources.tree import File, Leaf, Other, Symlink, Tree, clean_path, too_many

_BLOCK = 512
_KINDS = {
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


class StrictInfo(tarfile.TarInfo):
    """Raises for an invalid header, which tarfile takes for the end of the archive after a valid
    one: the rest would be lost silently."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:  # its parameter has that name
        try:
            return super().fromtarfile(tarfile)
        except (InvalidHeaderError, TruncatedHeaderError) as error:
            raise ReadError(str(error)) from error


class EndedInfo(StrictInfo):
    """Also raises for an archive without an end: it was cut, if nothing else verifies it."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EmptyHeaderError as error:
            raise ReadError("its end is missing") from error


def is_tar(body: BinaryIO) -> bool:
    """Whether the decoded body is a tar: its first header's checksum is right."""
    body.seek(0)
    header = body.read(_BLOCK)
    body.seek(0)
    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpacked(fetched: Fetched, label: str, limits: Limits) -> Fetched:
    """The argument, or the content of the folder in it if it is a tar, whose body is then closed.
    Raises SourceError for a broken tar, and for files that no catalog has."""
    body = fetched.body
    if body is None or not is_tar(body):
        return fetched
    with closing(body), Spool(label, limits=limits) as into:
        _read(body, label, limits).pour(body, into)
        fetched.check()
        poured = into.fetched(last_modified=fetched.last_modified)
    return replace(poured, bytes_read=fetched.bytes_read, requests=fetched.requests)


def _read(body: BinaryIO, label: str, limits: Limits) -> Tree:
    tree = Tree(label)
    count = 0
    try:
        with tarfile.open(fileobj=body, mode="r:", tarinfo=EndedInfo) as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # it would keep every header
                count += 1
                if count > limits.files:
                    raise too_many(label, limits)
                if member.name.startswith("/"):
                    raise SourceError(
                        f'{label} holds the absolute path "{member.name[:200]}".',
                        code="climbs-out",
                        hint="Pack the folder with relative paths: tar -C FOLDER -cf FILE .",
                    )
                tree.put(clean_path(member.name, label), leaf_of(member, tree, label))
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise broken(label, error) from error
    return tree


def broken(label: str, error: Exception) -> SourceError:
    return SourceError(
        f"{label} is not readable as tar: {error}.",
        code="cut-short",
        hint="It is damaged or incomplete: fetch or write it again; what was read before stays.",
    )


def leaf_of(member: tarfile.TarInfo, tree: Tree, label: str, *, offset: int = -1) -> Leaf | None:
    """The leaf of a member, None for a folder. `offset` replaces the position of its bytes; a hard
    link becomes the file that `tree` has under its target."""
    if member.isdir():
        return None
    if member.issym():
        return Symlink(member.linkname)
    if member.islnk():
        return hard_link(member, tree.get(clean_path(member.linkname, label)), label)
    if member.issparse():
        return Other("a sparse file")
    if member.isreg():
        return File(member.offset_data if offset < 0 else offset, member.size)
    return Other(_KINDS.get(member.type, f"of tar's kind {member.type!r}"))


def hard_link(member: tarfile.TarInfo, target: object, label: str) -> Leaf:
    """The leaf that a hard link's target is. Raises SourceError when there is none."""
    if isinstance(target, File | Symlink | Other):
        return target
    raise SourceError(
        f'{member.name[:200]} in {label} is a hard link to "{member.linkname[:200]}", which is not '
        "in it.",
        code="bad-link",
        hint="Put the file itself into the catalog's folder.",
    )
