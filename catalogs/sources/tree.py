"""The folder inside an archive or an image: what lies where, and which links lead where.

Nothing is written under a name from outside: files stay in one spool, and a name is a key here.
Links are followed inside the folder only. Knows neither tar nor images.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from catalogs.sources.base import Limits, SourceError
from catalogs.sources.ignore import LONGEST, kept
from catalogs.sources.spool import CHUNK, Spool

HOPS = 40  # links followed for one file, as the kernel does
DEPTH = 64  # folders in each other
NAME_LENGTH = 255
PATH_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class File:
    """Where the bytes of a file lie in the spool."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link and what it says."""

    target: str


@dataclass(frozen=True, slots=True)
class Other:
    """A device, a pipe or whatever else can't be content."""

    what: str


Leaf = File | Link | Other
Folder = dict[str, "Leaf | Folder"]


def clean_path(name: str, label: str) -> tuple[str, ...]:
    """The parts of a name inside an archive; () for the root. Raises SourceError for one that
    climbs out or is longer than a file system takes."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise SourceError(
            f'{label} holds the path "{name[:200]}", which climbs out of it.',
            code="climbs-out",
            hint="No catalog needs that; check where it comes from.",
        )
    if len(name) > PATH_LENGTH or len(parts) > DEPTH or any(len(p) > NAME_LENGTH for p in parts):
        raise SourceError(
            f'{label} holds a path that is too long or too deep: "{name[:80]}…".',
            code="path-too-long",
            hint=f"A path has at most {PATH_LENGTH:,} characters and {DEPTH} folders.",
        )
    return parts


class Tree:
    """Folders of leaves. `base` is where an absolute link inside may lead: the folder's own path
    in its image, None where no absolute link is inside."""

    def __init__(self, label: str, base: tuple[str, ...] | None = None) -> None:
        self.root: Folder = {}
        self._label = label
        self._base = base

    def put(self, parts: tuple[str, ...], leaf: Leaf | None) -> None:
        """Places a leaf, or a folder for None, as unpacking does: the later one replaces."""
        if not parts:
            return
        folder = self._folder(parts[:-1])
        there = folder.get(parts[-1])
        if leaf is not None:
            folder[parts[-1]] = leaf
        elif not isinstance(there, dict):
            folder[parts[-1]] = {}

    def _folder(self, parts: tuple[str, ...]) -> Folder:
        folder = self.root
        for part in parts:
            below = folder.get(part)
            if not isinstance(below, dict):
                below = folder[part] = {}
            folder = below
        return folder

    def get(self, parts: tuple[str, ...]) -> Leaf | Folder | None:
        """What lies at exactly this path."""
        at: Leaf | Folder | None = self.root
        for part in parts:
            at = at.get(part) if isinstance(at, dict) else None
        return at

    def remove(self, parts: tuple[str, ...]) -> None:
        above = self.get(parts[:-1])
        if isinstance(above, dict):
            above.pop(parts[-1], None)

    def clear(self, parts: tuple[str, ...]) -> None:
        """Empties the folder there, if there is one."""
        folder = self.get(parts)
        if isinstance(folder, dict):
            folder.clear()

    def overlay(self, upper: "Tree") -> None:
        """Puts everything of `upper` over this one."""
        stack = [(self.root, upper.root)]
        while stack:
            below, above = stack.pop()
            for name, node in above.items():
                there = below.get(name)
                if isinstance(node, dict) and isinstance(there, dict):
                    stack.append((there, node))
                else:
                    below[name] = node

    def leaves(self) -> Iterator[tuple[str, Leaf]]:
        """Every leaf with its path, in no order."""
        stack: list[tuple[str, Folder]] = [("", self.root)]
        while stack:
            prefix, folder = stack.pop()
            for name, node in folder.items():
                if isinstance(node, dict):
                    stack.append((f"{prefix}{name}/", node))
                else:
                    yield prefix + name, node

    def resolve(self, path: str) -> File | Folder:
        """The file or folder that a path leads to, links followed. Raises SourceError."""
        todo = list(reversed(path.split("/")))
        done: list[str] = []
        hops = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise self._bad_link(path, "leads out of the catalog's folder")
                done.pop()
                continue
            node = self.get((*done, part))
            if isinstance(node, Link):
                hops += 1
                if hops > HOPS:
                    raise self._bad_link(path, "leads in a circle")
                todo += reversed(self._inside(node.target, path, done))
                continue
            if node is None:
                raise self._bad_link(path, "leads to nothing")
            done.append(part)
        found = self.get(tuple(done))
        if isinstance(found, Other):
            raise SourceError(
                f"{path} in {self._label} is {found.what}, which can't be content of a catalog.",
                code="not-a-file",
                hint="Leave it out of the catalog's folder.",
            )
        if isinstance(found, File | dict):
            return found
        raise self._bad_link(path, "leads to nothing")

    def _inside(self, target: str, path: str, done: list[str]) -> list[str]:
        """The parts to go on with, `done` set back to the root for an absolute target."""
        if not target.startswith("/"):
            return target.split("/")
        parts = [part for part in target.split("/") if part not in ("", ".")]
        base = list(self._base or ())
        if self._base is None or ".." in parts or parts[: len(base)] != base:
            raise self._bad_link(path, "leads out of the catalog's folder")
        done.clear()
        return parts[len(base) :]

    def _bad_link(self, path: str, why: str) -> SourceError:
        return SourceError(
            f"{path} in {self._label} is a link that {why}.",
            code="bad-link",
            hint="Put the file itself into the catalog's folder.",
        )

    def pour(self, store: BinaryIO, into: Spool) -> None:
        """Adds the folder's content to `into`, file by file in the order of reading. `store` holds
        the bytes of the files. Links to folders are passed over: what they lead to is read where
        it lies."""

        def read(path: str) -> bytes:
            found = self.resolve(path)
            if not isinstance(found, File):
                return b""
            store.seek(found.offset)
            return store.read(min(found.size, LONGEST + 1))

        for path in kept((path for path, _ in self.leaves()), read):
            found = self.resolve(path)
            if isinstance(found, File):
                into.add(chunks_of(store, found), path)


def chunks_of(store: BinaryIO, file: File) -> Iterator[bytes]:
    """The bytes of one file."""
    at, end = file.offset, file.offset + file.size
    while at < end:
        store.seek(at)
        chunk = store.read(min(CHUNK, end - at))
        if not chunk:
            return
        at += len(chunk)
        yield chunk


def too_many(label: str, limits: Limits) -> SourceError:
    return SourceError(
        f"{label} holds more than {limits.files:,} files.",
        code="too-many-files",
        hint="Give the folder of one catalog, not a whole file system.",
    )
