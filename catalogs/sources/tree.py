"""The files of a catalog's folder: `.indexignore`, the order of reading, folders in archives.

`.indexignore` mirrors operator-registry, alpha/declcfg/load.go (walkFiles): a folder's entries in
the order of their names, whatever their extension, without those that the `.indexignore` files of
the folder and of its parents exclude (gitignore syntax; the last matching pattern decides, a
deeper file before a higher one). The `.indexignore` files themselves are not content.

`Tree` is a folder in an archive or an image. Its files stay in one spool, never under their own
names. Links are followed inside the folder only.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pathspec import PathSpec, Pattern

from catalogs.sources.base import Limits, SourceError
from catalogs.sources.spool import CHUNK, Spool

INDEX_IGNORE = ".indexignore"
INDEX_IGNORE_BYTES = 1 << 16  # of one .indexignore
# Patterns become regular expressions: each wildcard multiplies what a hostile one may cost.
WILDCARDS = 3
_STARS = re.compile(r"\*+")
_Rules = PathSpec[Pattern]

HOPS = 40  # links followed for one file, as the kernel does
DEPTH = 64  # folders in each other
NAME_LENGTH = 255
PATH_LENGTH = 4096
TREE_BYTES = 128 * 1024**2  # of memory for the names of a tree
NODE_BYTES = 300  # of memory for a folder or file beside its name, about


@dataclass(frozen=True, slots=True)
class File:
    """Where the bytes of a file lie in the spool."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Other:
    """A device, a pipe or another node that can't be content."""

    what: str


Leaf = File | Symlink | Other
Folder = dict[str, "Leaf | Folder"]


def clean_path(name: str, label: str) -> tuple[str, ...]:
    """The parts of a name in an archive; () for the root. Raises SourceError for a name that climbs
    out or is too long for a file system."""
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
    """Folders of leaves. `base` is the path of the folder in its image, for absolute links; None
    forbids them. `weight` is the memory of all nodes that were added, about."""

    def __init__(self, label: str, base: tuple[str, ...] | None = None) -> None:
        self.root: Folder = {}
        self.weight = 0
        self._label = label
        self._base = base

    def put(self, parts: tuple[str, ...], leaf: Leaf | None) -> None:
        """Adds a leaf, or a folder for None; as in unpacking, a later one replaces an earlier.
        Raises SourceError when the names take too much memory."""
        if not parts:
            return
        folder = self._folder(parts[:-1])
        self._weigh(parts[-1], leaf)
        existing = folder.get(parts[-1])
        if leaf is not None:
            folder[parts[-1]] = leaf
        elif not isinstance(existing, dict):
            folder[parts[-1]] = {}

    def _folder(self, parts: tuple[str, ...]) -> Folder:
        folder = self.root
        for part in parts:
            below = folder.get(part)
            if not isinstance(below, dict):
                below = folder[part] = {}
                self._weigh(part)
            folder = below
        return folder

    def _weigh(self, name: str, leaf: Leaf | None = None) -> None:
        self.weight += NODE_BYTES + len(name)
        if isinstance(leaf, Symlink):
            self.weight += len(leaf.target)
        if self.weight > TREE_BYTES:
            raise SourceError(
                f"{self._label} holds paths of more than {TREE_BYTES // 1024**2} MiB together.",
                code="too-many-files",
                hint="Give the folder of one catalog, not a whole file system.",
            )

    def get(self, parts: tuple[str, ...]) -> Leaf | Folder | None:
        """The node at exactly this path."""
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
                lower = below.get(name)
                if isinstance(node, dict) and isinstance(lower, dict):
                    stack.append((lower, node))
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
        """The file or folder at a path; follows links. Raises SourceError."""
        todo = list(reversed(path.split("/")))
        done: list[str] = []
        hops = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise bad_link(path, self._label, "leads out of the catalog's folder")
                done.pop()
                continue
            child = self.get((*done, part))
            if isinstance(child, Symlink):
                hops += 1
                if hops > HOPS:
                    raise bad_link(path, self._label, "leads in a circle")
                todo += reversed(self._inside(child.target, path, done))
                continue
            if child is None:
                raise bad_link(path, self._label, "leads to nothing")
            done.append(part)
        node = self.get(tuple(done))
        if isinstance(node, Other):
            raise SourceError(
                f"{path} in {self._label} is {node.what}, which can't be content of a catalog.",
                code="not-a-file",
                hint="Leave it out of the catalog's folder.",
            )
        if isinstance(node, File | dict):
            return node
        raise bad_link(path, self._label, "leads to nothing")

    def _inside(self, target: str, path: str, done: list[str]) -> list[str]:
        """The parts of a link's target; an absolute target clears `done`."""
        if not target.startswith("/"):
            return target.split("/")
        parts = [part for part in target.split("/") if part not in ("", ".")]
        base = list(self._base or ())
        if self._base is None or ".." in parts or parts[: len(base)] != base:
            raise bad_link(path, self._label, "leads out of the catalog's folder")
        done.clear()
        return parts[len(base) :]

    def pour(self, store: BinaryIO, into: Spool) -> None:
        """Adds the folder's content to `into`, file by file in the order of reading. `store` holds
        the bytes of the files. Links to folders are skipped: their targets are read in place."""

        def read(path: str) -> bytes:
            file = self.resolve(path)
            if not isinstance(file, File):
                return b""
            store.seek(file.offset)
            return store.read(min(file.size, INDEX_IGNORE_BYTES + 1))

        for path in content_paths((path for path, _ in self.leaves()), read):
            file = self.resolve(path)
            if isinstance(file, File):
                into.add(chunks_of(store, file), path)


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


def bad_link(path: str, label: str, why: str) -> SourceError:
    return SourceError(
        f"{path} in {label} is a link that {why}.",
        code="bad-link",
        hint="Put the file itself into the catalog's folder.",
    )


def too_many(label: str, limits: Limits) -> SourceError:
    return SourceError(
        f"{label} holds more than {limits.files:,} files.",
        code="too-many-files",
        hint="Give the folder of one catalog, not a whole file system.",
    )


def in_order(paths: Iterable[str]) -> list[str]:
    """Relative paths in the order of a walk that sorts each folder's entries by name."""
    return sorted(paths, key=lambda path: path.split("/"))


def content_paths(paths: Iterable[str], read: Callable[[str], bytes]) -> Iterator[str]:
    """The relative paths of files that are content, in the order of reading.

    `read` returns the bytes of an `.indexignore`. Raises SourceError for one with too many or too
    costly patterns.
    """
    ordered = in_order(paths)
    rules = {
        path[: -len(INDEX_IGNORE)].rstrip("/"): _rules(path, read(path))
        for path in ordered
        if path.rpartition("/")[2] == INDEX_IGNORE
    }
    for path in ordered:
        if path.rpartition("/")[2] != INDEX_IGNORE and not _ignored(path, rules):
            yield path


def _rules(path: str, data: bytes) -> _Rules:
    if len(data) > INDEX_IGNORE_BYTES:
        raise _bad_patterns(path, f"is larger than {INDEX_IGNORE_BYTES // 1024} KiB")
    patterns: list[Pattern] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        parts = line.split("/")
        if parts.count("**") > WILDCARDS or any(
            len(_STARS.findall(part)) > WILDCARDS for part in parts
        ):
            raise _bad_patterns(
                path, f"has more than {WILDCARDS} wildcards in one name in line {number}"
            )
        try:
            # opm strips blanks before a pattern.
            patterns += PathSpec.from_lines("gitignore", [line.lstrip()]).patterns
        except ValueError:
            continue  # not a pattern, such as a lone "!": git skips it, too
    return PathSpec(patterns)


def _bad_patterns(path: str, why: str) -> SourceError:
    return SourceError(
        f"{path} {why}.", code="indexignore", hint="Name the files to leave out more plainly."
    )


def _ignored(path: str, rules: dict[str, _Rules]) -> bool:
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in rules:
            verdict = rules[folder].check_file(path[len(folder) :].lstrip("/")).include
            if verdict is not None:
                return verdict
    return False
