"""Minor versions of OpenShift and Kubernetes: which comes next, and which is the newer. Pure.

OpenShift counts 4.23 and 5.0 as one (operator-lifecycle-manager pkg/controller/operators/openshift/
helpers.go): minors of 5 go on where those of 4 end.
"""

import re
from typing import NamedTuple

_TEXT = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?")
_EXACT = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_LAST_OF_4 = 22  # 4.23 is 5.0


class Minor(NamedTuple):
    """Compares in OpenShift's order: 4.22 < 4.23 == 5.0 < 5.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def order(self) -> tuple[int, int]:
        return (4, self.minor + _LAST_OF_4 + 1) if self.major == 5 else (self.major, self.minor)

    def next(self) -> "Minor":
        return Minor(self.major, self.minor + 1)


def read_minor(text: str) -> Minor | None:
    """The minor of a version such as 4.16.3 or v1.29.4+build; None for what is none."""
    match = _TEXT.fullmatch(text.strip())
    return Minor(int(match[1]), int(match[2])) if match else None


def read_maximum(text: str) -> Minor | None:
    """The value of olm.maxOpenShiftVersion, which has to be <major>.<minor>; else None."""
    return read_minor(text) if _EXACT.fullmatch(text) else None
