"""The knowledge base: reads `installs/knowledge/*.yaml` once and checks its shape.

Entries are tried by rank (-1 lines of OLM Web's own that quote a controller, 0 specific, 1 general
answers of any API server, 2 wrappers that catch what is left), then in the order of STAGES and of
their files; the first match wins. A `wrapper` only adds context: the text in its group `detail`,
`inner`, `last` or `logs` is classified again.
Patterns must be bounded: no unlimited repetition except at their very end.
"""

import re
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).resolve().parent.parent / "knowledge"
# Stage of an installation -> the files that hold its failures.
STAGES = {
    "source": ("source",),
    "convert": ("convert_modes", "convert_bundle"),
    "unpack": ("unpack_image", "unpack_bundle"),
    "resolve": ("resolve_v1", "resolve_v0"),
    "upgrade": ("upgrade", "upgrade_crds"),
    "install": ("install_v1", "install_v0", "install_csv", "install_api"),
    "runtime": ("runtime", "runtime_pods", "notes", "normal"),
}


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts to use instead when the pattern extracted `fact`."""

    fact: str
    cause: str
    remedy: tuple[str, ...]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry as written in YAML. Steps of `remedy` that start with `$ ` are commands.

    `instead` are the kinds with which the remedy says to install the package in place of this one.
    """

    id: str
    title: str
    kinds: tuple[str, ...]
    pattern: str
    samples: tuple[str, ...]
    cause: str
    remedy: tuple[str, ...]
    retryable: bool
    source: tuple[str, ...]
    verified: Literal["verified", "partial", "unverified"]
    note: str = ""
    instead: tuple[Literal["PlatformOperator", "ClusterExtension", "Subscription"], ...] = ()
    wrapper: bool = False
    rank: int = 0
    variants: tuple[Variant, ...] = ()


class Entry(msgspec.Struct, frozen=True):
    """An entry with its stage and compiled pattern."""

    record: Record
    stage: str
    pattern: re.Pattern[str]

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def title(self) -> str:
        return self.record.title

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.record.kinds

    @property
    def cause(self) -> str:
        return self.record.cause

    @property
    def remedy(self) -> tuple[str, ...]:
        return self.record.remedy

    @property
    def retryable(self) -> bool:
        return self.record.retryable

    @property
    def source(self) -> tuple[str, ...]:
        return self.record.source


@cache
def knowledge() -> tuple[Entry, ...]:
    """Every entry in the order in which they are tried.

    Raises msgspec.ValidationError or re.error when a file is wrong; a test reads them all.
    """
    entries: list[Entry] = []
    for stage, names in STAGES.items():
        for name in names:
            text = (FOLDER / f"{name}.yaml").read_bytes()
            records = msgspec.yaml.decode(text, type=list[Record])
            entries += [Entry(record, stage, re.compile(record.pattern)) for record in records]
    return tuple(sorted(entries, key=lambda entry: entry.record.rank))


@cache
def by_id() -> dict[str, Entry]:
    return {entry.id: entry for entry in knowledge()}
