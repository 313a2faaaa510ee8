"""What each condition means: (kind, type, status, reason) -> class, as its controller writes it.

A status alone says nothing: `HasValidBundle=True/UnpackPending` is still unpacking and
`Progressing=True/Succeeded` is a steady state. What is not in the tables is UNKNOWN, not a guess.
The tables are data in states_*.py, a file per family. A line is `types statuses reasons class`,
each a list with commas; `-` stands for an empty text, `*` for any text, and a line that names the
text comes before one with `*`.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import product

from installs.diagnosis import states_rukpak, states_v0, states_v1, states_workload


class Class(Enum):
    HEALTHY = "H"
    PROGRESSING = "P"
    RETRYING = "R"  # an error that the controller tries again
    FAILED = "F"
    DEGRADED = "D"  # installed but impaired
    BLOCKED = "B"  # until a person acts
    INFORMATION = "I"
    UNKNOWN = "U"
    ABSENT = "-"  # the condition is not there


BROKEN = frozenset((Class.RETRYING, Class.FAILED, Class.DEGRADED, Class.BLOCKED))
ANY = "*"
PHASE = "phase"
WAITING = "waiting"


def _read(tables: Mapping[str, str]) -> dict[tuple[str, str, str, str], Class]:
    rows = {}
    for kind, text in tables.items():
        for line in filter(None, (line.split() for line in text.splitlines())):
            types, statuses, reasons, letter = line
            for names in product(types.split(","), statuses.split(","), reasons.split(",")):
                type_, status, reason = ("" if name == "-" else name for name in names)
                rows[kind, type_, status, reason] = Class(letter)
    return rows


STATES = _read(
    states_rukpak.TABLE | states_v1.TABLE | states_v0.TABLE | states_workload.TABLE,
)


WORDS = {
    Class.HEALTHY: "all is well",
    Class.PROGRESSING: "in progress",
    Class.RETRYING: "failing, and tried again",
    Class.FAILED: "failed",
    Class.DEGRADED: "installed but impaired",
    Class.BLOCKED: "blocked until a person acts",
    Class.INFORMATION: "information, no problem",
}


def meanings(kind: str, reason: str, type_: str = "") -> tuple[tuple[str, str, str], ...]:
    """(condition type, status, what it means) of every place where the kind has this reason.

    A phase is of the type `phase` with the phase as its status; see WORDS for the meanings.
    """
    return tuple(
        (row[1], row[2], WORDS[state])
        for row, state in STATES.items()
        if row[0] == kind and row[3] == reason and type_ in ("", row[1])
    )


def class_of(kind: str, type_: str, status: str, reason: str) -> Class:
    """The class of one condition; UNKNOWN when no known controller writes it."""
    for key in ((status, reason), (status, ANY), (ANY, reason)):
        found = STATES.get((kind, type_, *key))
        if found is not None:
            return found
    return Class.UNKNOWN
