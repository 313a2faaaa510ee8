"""The facts from which catalogs are made, and what follows from them: versions, CRDs, digests.

Deterministic: the same facts give the same bytes at every start. Must not know the FBC format.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from olmweb.sandbox.apiserver.kinds import DATA

MODES = {
    "ALL": ("OwnNamespace", "SingleNamespace", "AllNamespaces"),
    "OWN": ("OwnNamespace", "SingleNamespace"),
    "MULTI": ("OwnNamespace", "SingleNamespace", "MultiNamespace"),
}
ALL_MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
LEVELS = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")


@dataclass(frozen=True, slots=True)
class Crd:
    """A provided kind."""

    kind: str
    group: str
    version: str = "v1alpha1"

    @property
    def plural(self) -> str:
        lower = self.kind.lower()
        if lower.endswith(("s", "ch")):
            return lower + ("" if lower.endswith("kinds") else "es")
        return (
            lower[:-1] + "ies" if lower.endswith("y") and lower[-2] not in "aeiou" else lower + "s"
        )

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


@dataclass(frozen=True, slots=True)
class Facts:
    """One package; fields as described in data/packages.yaml."""

    name: str
    title: str
    area: str
    version: str
    level: int
    kinds: tuple[Crd, ...]
    does: str
    versions: int = 3
    modes: str = "ALL"
    webhook: bool = False
    namespace: str = ""
    roles: tuple[str, ...] = ()
    needs: tuple[Crd, ...] = ()
    provider: str = "Red Hat"
    special: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    category: str
    keywords: tuple[str, ...]
    says: tuple[str, ...]


def number(*parts: object) -> int:
    """A stable number for the parts, to choose with."""
    return int.from_bytes(digest(*parts)[:6])


def digest(*parts: object) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode()).digest()


@cache
def areas() -> dict[str, Area]:
    found = yaml.load((DATA / "areas.yaml").read_text(), yaml.CSafeLoader)
    return {
        name: Area(entry["category"], tuple(entry["keywords"]), tuple(entry["says"]))
        for name, entry in found.items()
    }


@cache
def packages(file: str) -> dict[str, Facts]:
    """The packages of `data/FILE.yaml` by name."""
    found = yaml.load((DATA / f"{file}.yaml").read_text(), yaml.CSafeLoader)
    return {name: _facts(name, entry) for name, entry in found.items()}


def _facts(name: str, entry: dict[str, Any]) -> Facts:
    kinds = tuple(Crd(*text.split(".", 1)) for text in entry.pop("kinds"))
    roles = tuple(entry.pop("roles", ()))
    wanted = (text.partition(".") for text in entry.pop("needs", ()))
    needs = tuple(Crd(kind, group, "v1") for kind, _, group in wanted)
    return Facts(name=name, kinds=kinds, roles=roles, needs=needs, **entry)


def history(version: str, count: int) -> list[str]:
    """`count` versions, oldest first, that end with `version`; a `-1` at its end stays on all."""
    core, _, suffix = version.partition("-")
    major, minor, patch = (int(part) for part in core.split("."))
    found = [version]
    while len(found) < count:
        if patch > 0:
            patch -= 1 if patch < 10 or len(found) % 2 else min(patch, 3)
        elif minor > 0:
            minor, patch = minor - 1, number(core, minor) % 3
        elif major > 0:
            major, minor, patch = major - 1, 4 + number(core, major) % 5, 1
        else:
            break
        found.append(f"{major}.{minor}.{patch}" + (f"-{suffix}" if suffix else ""))
    return found[::-1]
