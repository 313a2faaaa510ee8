"""The demo's packages: their facts from `data/`, and the descriptions and icons derived from them.

Deterministic: the same facts give the same texts at every start. Must not know the format of
file-based catalogs.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
MODES = {
    "ALL": ("OwnNamespace", "SingleNamespace", "AllNamespaces"),
    "OWN": ("OwnNamespace", "SingleNamespace"),
    "MULTI": ("OwnNamespace", "SingleNamespace", "MultiNamespace"),
}
ALL_MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
LEVELS = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")


@dataclass(frozen=True, slots=True)
class ProvidedKind:
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
class PackageFacts:
    """A package; data/packages.yaml describes the fields."""

    name: str
    title: str
    area: str
    version: str
    level: int
    kinds: tuple[ProvidedKind, ...]
    does: str
    versions: int = 3
    modes: str = "ALL"
    webhook: bool = False
    namespace: str = ""
    roles: tuple[str, ...] = ()
    needs: tuple[ProvidedKind, ...] = ()
    provider: str = "Red Hat"
    special: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    category: str
    keywords: tuple[str, ...]
    sentences: tuple[str, ...]


def number(*parts: object) -> int:
    """A number derived from the parts, for choices that are the same at every start."""
    return int.from_bytes(digest(*parts)[:6])


def digest(*parts: object) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode()).digest()


@cache
def areas() -> dict[str, Area]:
    entries = yaml.load((DATA / "areas.yaml").read_text(), yaml.CSafeLoader)
    return {
        name: Area(entry["category"], tuple(entry["keywords"]), tuple(entry["says"]))
        for name, entry in entries.items()
    }


@cache
def packages(file: str) -> dict[str, PackageFacts]:
    """The packages of `data/FILE.yaml` by name."""
    entries = yaml.load((DATA / f"{file}.yaml").read_text(), yaml.CSafeLoader)
    return {name: _package(name, entry) for name, entry in entries.items()}


def _package(name: str, entry: dict[str, Any]) -> PackageFacts:
    kinds = tuple(ProvidedKind(*text.split(".", 1)) for text in entry.pop("kinds"))
    roles = tuple(entry.pop("roles", ()))
    required = (text.partition(".") for text in entry.pop("needs", ()))
    needs = tuple(ProvidedKind(kind, group, "v1") for kind, _, group in required)
    return PackageFacts(name=name, kinds=kinds, roles=roles, needs=needs, **entry)


def history(version: str, count: int) -> list[str]:
    """`count` versions up to `version`, oldest first; all have the pre-release of `version`."""
    core, _, suffix = version.partition("-")
    major, minor, patch = (int(part) for part in core.split("."))
    versions = [version]
    while len(versions) < count:
        if patch > 0:
            patch -= 1 if patch < 10 or len(versions) % 2 else min(patch, 3)
        elif minor > 0:
            minor, patch = minor - 1, number(core, minor) % 3
        elif major > 0:
            major, minor, patch = major - 1, 4 + number(core, major) % 5, 1
        else:
            break
        versions.append(f"{major}.{minor}.{patch}" + (f"-{suffix}" if suffix else ""))
    return versions[::-1]


# --- descriptions and icons

_HOSTILE_DESCRIPTION = """# Markup Demo

This text comes from a catalog, so a page must not trust it.

<script>document.title = "taken over"</script>
<img src="https://tracker.invalid/pixel.gif" onerror="alert(1)">
<iframe src="https://frame.invalid/"></iframe>
<a href="javascript:alert(2)" onclick="alert(3)">a raw link</a>

[a javascript link](javascript:alert(4)) · [a data link](data:text/html;base64,PHNjcmlwdD4=) ·
[a good link](https://example.com/docs)

![a remote image](https://tracker.invalid/picture.png)

<style>body { display: none }</style>

| column | value |
|---|---|
| `<b>code</b>` | **bold** and *slanted* |
"""

_HOSTILE_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 64 64" onload="alert(5)"><script>alert(6)</script>'
    '<image xlink:href="https://tracker.invalid/icon.png" width="64" height="64"/>'
    '<a xlink:href="javascript:alert(7)"><rect width="64" height="64" rx="12" fill="#a33"/></a>'
    "<foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='https://frame.invalid/'/>"
    "</foreignObject></svg>"
)
_OPENINGS = (
    "What it provides: {kinds}.",
    "You work with {kinds}.",
    "After the installation the cluster knows {kinds}.",
)
_SCOPES = {
    "ALL": (
        "One instance looks after all namespaces.",
        "It can watch the whole cluster or be held to one namespace.",
    ),
    "OWN": (
        "It watches a single namespace; install it once for each that needs it.",
        "Give it a namespace of its own: it does not watch the whole cluster.",
    ),
    "MULTI": ("It watches the namespaces that you list, not all of them.",),
}
_LEVELS = (
    "Upgrades of what it runs are up to you.",
    "It also upgrades what it runs.",
    "Backups, failures and upgrades are its business too.",
    "It raises alerts and exports metrics about what it runs.",
    "It scales and tunes what it runs by itself.",
)


def description(package: PackageFacts, version: str) -> str:
    """Two to four sentences of Markdown, with a list of the kinds for the larger packages."""
    if package.special == "hostile":
        return _HOSTILE_DESCRIPTION
    seed = number("prose", package.name)
    area = areas()[package.area]
    names = [f"`{crd.kind}`" for crd in package.kinds]
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    scopes = _SCOPES[package.modes]
    sentences = [
        _OPENINGS[seed % len(_OPENINGS)].format(kinds=listed),
        area.sentences[seed // 7 % len(area.sentences)],
        scopes[seed // 31 % len(scopes)],
        _LEVELS[package.level - 1],
    ]
    # A different part is left out of each text.
    left_out = 1 + seed // 101 % 3
    body = " ".join(text for index, text in enumerate(sentences) if index != left_out)
    ending = ""
    if seed % 3 == 0:
        ending = f"\n\n## In version {version}\n\n* {LEVELS[package.level - 1]} capability level\n"
        ending += "".join(f"* `{crd.name}` ({crd.version})\n" for crd in package.kinds)
    return f"**{package.title}.** {package.does}\n\n{body}{ending}"


def icon(package: PackageFacts) -> dict[str, str] | None:
    """`{base64data, mediatype}`; one package in nine has none."""
    if package.special == "icon":
        return {"base64data": "PHN2ZyB4bWxucz0i%%%broken%%%", "mediatype": "image/svg+xml"}
    seed = number("icon", package.name)
    if not package.special and seed % 9 == 0:
        return None
    text = _HOSTILE_SVG if package.special == "hostile" else _svg(package, seed)
    return {"base64data": base64.b64encode(text.encode()).decode(), "mediatype": "image/svg+xml"}


def _svg(package: PackageFacts, seed: int) -> str:
    words = [word for word in package.name.replace("openshift-", "").split("-") if word.isalnum()]
    letters = "".join(word[0] for word in words[:2]).upper()
    hue, other = seed % 360, (seed + 40) % 360
    shapes = (
        f'<circle cx="48" cy="16" r="22" fill="hsl({other},55%,52%)"/>',
        f'<path d="M0 64 L64 20 V64 Z" fill="hsl({other},55%,46%)"/>',
        f'<rect x="32" width="32" height="64" fill="hsl({other},50%,48%)"/>',
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><defs><clipPath id="c">'
        '<rect width="64" height="64" rx="14"/></clipPath></defs><g clip-path="url(#c)">'
        f'<rect width="64" height="64" fill="hsl({hue},52%,38%)"/>{shapes[seed // 360 % 3]}</g>'
        '<text x="32" y="42" text-anchor="middle" font-family="sans-serif" font-weight="700" '
        f'font-size="28" fill="#fff">{letters}</text></svg>'
    )
