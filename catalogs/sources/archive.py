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
from catalogs.sources.tree import (
    PATH_LENGTH,
    File,
    Leaf,
    Other,
    Symlink,
    Tree,
    clean_path,
    too_many,
)

_BLOCK = 512
_SPARSE_EXTENDED = 504  # the byte of a block of a sparse map that says whether another follows
EXTENSIONS = 16  # extension headers before one member
EXTENSION_BYTES = 1024**2  # of them together
GLOBAL_BYTES = 64 * 1024  # of the global ones of an archive
_KINDS = {
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


class OversizedHeaders(tarfile.TarError):
    """A member whose extension headers are larger, or more, than any real archive has."""


class StrictInfo(tarfile.TarInfo):
    """Raises for an invalid header, and checks extension headers before tarfile reads them.

    tarfile takes an invalid header that follows a valid one for the end of the archive, so the rest
    would be lost silently. The map of a sparse file, whose length nothing bounds, is never read.
    """

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:  # its parameter has that name
        try:
            member = super().fromtarfile(tarfile)
        except (InvalidHeaderError, TruncatedHeaderError) as error:
            raise ReadError(str(error)) from error
        if member.size < 0:
            raise ReadError("a member has a negative size")
        return member

    # The methods below are those that tarfile has for subclasses ("_proc_*", by the member's type).

    def _proc_pax(self, tarfile: "BoundedTar") -> tarfile.TarInfo:
        tarfile.check_extension(self)
        return super()._proc_pax(tarfile)  # type: ignore[misc,no-any-return]

    def _proc_gnulong(self, tarfile: "BoundedTar") -> tarfile.TarInfo:
        tarfile.check_extension(self)
        return super()._proc_gnulong(tarfile)  # type: ignore[misc,no-any-return]

    def _proc_sparse(self, tarfile: tarfile.TarFile) -> tarfile.TarInfo:
        _, extended, size = self._sparse_structs  # type: ignore[attr-defined]
        del self._sparse_structs  # type: ignore[attr-defined]
        source: BinaryIO = tarfile.fileobj  # type: ignore[assignment]
        while extended:
            block = source.read(_BLOCK)
            if len(block) < _BLOCK:
                raise ReadError("the map of a sparse file is cut short")
            extended = bool(block[_SPARSE_EXTENDED])
        self.sparse = b""  # makes `issparse` true
        self.offset_data = source.tell()
        tarfile.offset = self.offset_data + self._block(self.size)  # type: ignore[attr-defined]
        self.size = size
        return self

    def _proc_gnusparse_10(self, following: tarfile.TarInfo, _headers: object, _: object) -> None:
        following.sparse = b""


class EndedInfo(StrictInfo):
    """Also raises for an archive without an end: it was cut, if nothing else verifies it."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EmptyHeaderError as error:
            raise ReadError("its end is missing") from error


class BoundedTar(tarfile.TarFile):
    """A tar that is read once, in bounded memory: keeps no members, and raises OversizedHeaders
    for extension headers (PAX, GNU long names) over the limits, before they are read."""

    tarinfo = StrictInfo
    _headers = _header_bytes = _global_bytes = 0

    def next(self) -> tarfile.TarInfo | None:
        self._headers = self._header_bytes = 0
        member = super().next()
        self.members: list[tarfile.TarInfo] = []  # it would keep every header
        return member

    def check_extension(self, header: tarfile.TarInfo) -> None:
        """Counts one extension header of the next member. Raises OversizedHeaders."""
        self._headers += 1
        self._header_bytes += header.size
        if header.type == tarfile.XGLTYPE:  # copied for each later member
            self._global_bytes += header.size
        if header.size < 0 or self._headers > EXTENSIONS:
            raise OversizedHeaders(
                f"a member has more than {EXTENSIONS} extension headers, or a wrong one"
            )
        if self._header_bytes > EXTENSION_BYTES:
            raise OversizedHeaders(
                f"a member has {self._header_bytes:,} bytes of extension headers, more than the "
                f"{EXTENSION_BYTES:,} that are read"
            )
        if self._global_bytes > GLOBAL_BYTES:
            raise OversizedHeaders(
                f"it has more than {GLOBAL_BYTES:,} bytes of global extension headers"
            )


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
        with BoundedTar.open(fileobj=body, mode="r:", tarinfo=EndedInfo) as tar:
            while (member := tar.next()) is not None:
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
    """The error for a tar that tarfile can't read, or that is over the limits of headers."""
    if isinstance(error, OversizedHeaders):
        return SourceError(
            f"{label} is not read: {error}.",
            code="tar-headers",
            hint="No real catalog or bundle has such names or attributes; check where it comes "
            "from.",
        )
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
    if (member.issym() or member.islnk()) and len(member.linkname) > PATH_LENGTH:
        raise SourceError(
            f"{member.name[:80]} in {label} is a link to a path of more than {PATH_LENGTH:,} "
            "characters.",
            code="path-too-long",
            hint="Put the file itself into the catalog's folder.",
        )
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
