"""Which files of a folder are part of its catalog: `.indexignore`, and the order of reading.

Mirrors operator-registry, alpha/declcfg/load.go (walkFiles): a folder's entries in the order of
their names, whatever their extension, less what the `.indexignore` files of the folder and of the
folders above it exclude (gitignore syntax; the last pattern that matches decides, and the deeper
file before the higher one). The `.indexignore` files themselves are no content. Knows no file
system.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from pathspec import PathSpec, Pattern

from catalogs.sources.base import SourceError

NAME = ".indexignore"
LONGEST = 1 << 16  # bytes of one .indexignore
# Patterns become regular expressions: each wildcard multiplies what a hostile one may cost.
WILDCARDS = 3
_STARS = re.compile(r"\*+")
_Rules = PathSpec[Pattern]


def in_order(paths: Iterable[str]) -> list[str]:
    """Relative paths as a walk meets them: each folder's entries by name, a folder in its place."""
    return sorted(paths, key=lambda path: path.split("/"))


def kept(paths: Iterable[str], read: Callable[[str], bytes]) -> Iterator[str]:
    """The paths (relative, of files, in any order) that are content, in the order of reading.

    `read` gives the bytes of an `.indexignore` by its path. Raises SourceError for one whose
    patterns are too many or too costly.
    """
    ordered = in_order(paths)
    rules = {
        path[: -len(NAME)].rstrip("/"): _rules(path, read(path))
        for path in ordered
        if path.rpartition("/")[2] == NAME
    }
    for path in ordered:
        if path.rpartition("/")[2] != NAME and not _ignored(path, rules):
            yield path


def _rules(path: str, data: bytes) -> _Rules:
    if len(data) > LONGEST:
        raise _refused(path, f"is larger than {LONGEST // 1024} KiB")
    patterns: list[Pattern] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        parts = line.split("/")
        if parts.count("**") > WILDCARDS or any(
            len(_STARS.findall(part)) > WILDCARDS for part in parts
        ):
            raise _refused(
                path, f"has more than {WILDCARDS} wildcards in one name in line {number}"
            )
        try:
            # opm takes no blank before a pattern for a part of it.
            patterns += PathSpec.from_lines("gitignore", [line.lstrip()]).patterns
        except ValueError:
            continue  # no pattern, such as a lone "!": git passes over it, too
    return PathSpec(patterns)


def _refused(path: str, why: str) -> SourceError:
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
