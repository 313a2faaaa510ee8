"""File-based catalogs made from facts: `redhat-operators` and `community-operators`.

Owns the FBC shape of the sandbox's catalogs. The bytes are the same at every start.
"""

import json
from collections.abc import Iterable
from datetime import date, timedelta
from functools import cache
from typing import Any

from olmweb.sandbox.scenario import bundle_objects, prose
from olmweb.sandbox.scenario.facts import (
    ALL_MODES,
    LEVELS,
    MODES,
    Facts,
    areas,
    digest,
    history,
    number,
    packages,
)

Blob = dict[str, Any]
_NEWEST = date(2022, 10, 20)


def as_jsonl(blobs: Iterable[Blob]) -> bytes:
    """As catalogd serves it: compact, keys sorted, one blob a line, no HTML escapes."""
    return b"".join(
        json.dumps(blob, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for blob in blobs
    )


@cache
def served(catalog: str) -> bytes:
    """What catalogd serves of a ClusterCatalog, by its name."""
    return as_jsonl(catalogs()[catalog])


@cache
def catalogs() -> dict[str, tuple[Blob, ...]]:
    """The blobs of both catalogs by ClusterCatalog name.

    `redhat-operators` tells every object of its bundles, as catalogs of 4.12 do; the other is of a
    later make and leaves most of them to the bundle images.
    """
    main = packages("packages") | packages("extras")
    return {
        "redhat-operators": (*_catalog(main, whole=True), _notes()),
        "community-operators": _catalog(packages("community"), whole=False),
    }


def _catalog(found: dict[str, Facts], *, whole: bool) -> tuple[Blob, ...]:
    return tuple(blob for name in sorted(found) for blob in _package(found[name], whole=whole))


def _notes() -> Blob:
    """A schema that no tool knows; a reader must keep it and not stumble."""
    return {
        "schema": "demo.olmweb.dev/notes",
        "package": "ceiling-demo",
        "name": "release-notes",
        "notes": [{"version": "1.1.0", "text": "The ceiling is 4.13 now."}],
    }


def _package(facts: Facts, *, whole: bool) -> list[Blob]:
    versions = _versions(facts)
    channels = _channels(facts, versions)
    package: Blob = {
        "schema": "olm.package",
        "name": facts.name,
        "defaultChannel": channels[0]["name"],
        "description": prose.summary(facts),
    }
    if icon := prose.icon(facts):
        package["icon"] = icon
    blobs = [package, *channels]
    blobs += [_bundle(facts, versions, index, whole=whole) for index in range(len(versions))]
    if facts.special == "deprecations":
        blobs.append(_deprecations(facts, versions))
    return blobs


def _versions(facts: Facts) -> list[str]:
    """Oldest first."""
    if facts.special == "prereleases":
        return ["0.8.0", "0.8.1+build.7", "0.9.0-nightly.20221018", "0.9.0-rc.1", "0.9.0-rc.2"]
    found = history(facts.version, facts.versions)
    if facts.special == "channels":
        found.append("1.5.0-rc.1")
    return found


def _name(facts: Facts, version: str) -> str:
    return f"{facts.name}.v{version}".replace("+", "-")


def _channel(facts: Facts, name: str, entries: list[Blob]) -> Blob:
    return {"schema": "olm.channel", "package": facts.name, "name": name, "entries": entries}


def _chain(facts: Facts, versions: list[str], before: str = "") -> list[Blob]:
    """Each version replaces the one before it; now and then a range or a skip joins in."""
    entries: list[Blob] = []
    last = before
    for index, version in enumerate(versions):
        entry: Blob = {"name": _name(facts, version)}
        if last:
            entry["replaces"] = _name(facts, last)
        if index and number("range", facts.name, version) % 3 == 0:
            entry["skipRange"] = f">={versions[0]} <{version}"
        if index > 1 and number("skip", facts.name) % 4 == 0 and index == len(versions) - 1:
            # The version before the newest had a fault: nobody is sent through it.
            entry["skips"] = [_name(facts, last)]
            entry["replaces"] = _name(facts, versions[index - 2])
        entries.append(entry)
        last = version
    return entries


def _channels(facts: Facts, versions: list[str]) -> list[Blob]:
    """The default channel comes first."""
    if facts.special == "channels":
        return _many_channels(facts, versions)
    if facts.special == "heads":
        entries = _chain(facts, versions)
        entries[-1]["replaces"] = entries[-3]["name"]
        entries[-1].pop("skips", None)
        entries[-1].pop("skipRange", None)
        return [_channel(facts, "stable", entries)]
    if facts.special == "prereleases":
        stable = _channel(facts, "stable", _chain(facts, versions[:2]))
        return [stable, _channel(facts, "nightly", _chain(facts, versions))]
    if facts.special == "deprecations":
        old = _channel(facts, "old", _chain(facts, versions[:3]))
        return [_channel(facts, "stable", _chain(facts, versions)), old]
    minor = versions[-1].rsplit(".", 1)[0].split("-")[0]
    newest = [v for v in versions if v.startswith(minor + ".")]
    older = versions[: len(versions) - len(newest)]
    style = number("channels", facts.name) % 5
    if style == 0:
        return [_channel(facts, "alpha", _chain(facts, versions))]
    found = [_channel(facts, "stable", _chain(facts, versions))]
    if style < 4:
        chain = _chain(facts, newest, older[-1] if older else "")
        found.append(_channel(facts, f"stable-{minor}", chain))
    if style == 3 and older:
        found.append(_channel(facts, "candidate", _chain(facts, versions)))
    return found


def _many_channels(facts: Facts, versions: list[str]) -> list[Blob]:
    """Four channels, with skips and a skip range on the way to the same head."""
    released, candidate = versions[:-1], versions[-1]
    stable = _chain(facts, released)
    stable[-1] |= {
        "replaces": stable[-3]["name"],
        "skips": [stable[-2]["name"]],
        "skipRange": f">={released[0]} <{released[-1]}",
    }
    old_minor = released[0].rsplit(".", 1)[0]
    old = [v for v in released if v.startswith(old_minor + ".")]
    fast = [*stable, {"name": _name(facts, candidate), "replaces": stable[-1]["name"]}]
    return [
        _channel(facts, "stable", stable),
        _channel(facts, "candidate", fast),
        _channel(facts, f"stable-{old_minor}", _chain(facts, old)),
        _channel(facts, "latest", [{"name": _name(facts, released[-1])}]),
    ]


def _deprecations(facts: Facts, versions: list[str]) -> Blob:
    entries = [
        {
            "reference": {"schema": "olm.package"},
            "message": f"{facts.name} gets no more fixes after this release; use amq-streams.",
        },
        {
            "reference": {"schema": "olm.channel", "name": "old"},
            "message": "The channel old has ended; switch to stable.",
        },
        {
            "reference": {"schema": "olm.bundle", "name": _name(facts, versions[0])},
            "message": f"{versions[0]} loses messages on restart; upgrade to {versions[-1]}.",
        },
    ]
    return {"schema": "olm.deprecations", "package": facts.name, "entries": entries}


def _image(*parts: str) -> str:
    host = "registry.redhat.io" if parts[0] == "Red Hat" else "quay.io"
    return f"{host}/{'/'.join(parts[1:-1])}@sha256:{digest(*parts).hex()}"


def bundle_image(facts: Facts, version: str) -> str:
    return _image(facts.provider, "olmweb-sandbox", f"{facts.name}-bundle", version)


def _bundle(facts: Facts, versions: list[str], index: int, *, whole: bool) -> Blob:
    version = versions[index]
    operand = _image(facts.provider, "olmweb-sandbox", facts.name, version)
    image = bundle_image(facts, version)
    return {
        "schema": "olm.bundle",
        "package": facts.name,
        "name": _name(facts, version),
        "image": image,
        "properties": _properties(facts, versions, index, whole=whole),
        "relatedImages": [
            {"name": "", "image": image},
            {"name": f"{facts.name}-controller", "image": operand},
        ],
    }


def _properties(facts: Facts, versions: list[str], index: int, *, whole: bool) -> list[Blob]:
    version = versions[index]
    found: list[Blob] = [
        {"type": "olm.gvk", "value": {"group": c.group, "kind": c.kind, "version": c.version}}
        for c in facts.kinds
    ]
    package = {"packageName": facts.name, "version": version}
    found.append({"type": "olm.package", "value": package})
    if facts.special == "requires":
        gvk = {"group": "storage.demo.olmweb.dev", "kind": "Bucket", "version": "v1alpha1"}
        needed = {"packageName": "object-store-demo", "versionRange": ">=2.0.0 <3.0.0"}
        found += [
            {"type": "olm.gvk.required", "value": gvk},
            {"type": "olm.package.required", "value": needed},
        ]
    if facts.special == "ceiling":
        # A bare string, unlike every other property's value.
        found.append({"type": "olm.maxOpenShiftVersion", "value": f"4.{11 + index}"})
    metadata = _metadata(facts, versions, index)
    if whole or facts.webhook:
        before = _name(facts, versions[index - 1]) if index else ""
        name = _name(facts, version)
        return found + bundle_objects.properties(facts, version, name, before, metadata)
    return [*found, {"type": "olm.csv.metadata", "value": metadata}]


def _metadata(facts: Facts, versions: list[str], index: int) -> Blob:
    """The value of `olm.csv.metadata`."""
    version, area = versions[index], areas()[facts.area]
    age = (len(versions) - 1 - index) * 45 + number("age", facts.name) % 40
    annotations = {
        "capabilities": LEVELS[facts.level - 1],
        "categories": area.category,
        "containerImage": _image(facts.provider, "olmweb-sandbox", facts.name, version),
        "createdAt": f"{_NEWEST - timedelta(days=age)}T08:{number(facts.name) % 60:02}:00Z",
        "description": prose.summary(facts),
        "repository": f"https://git.example.com/{facts.name}",
        "support": facts.provider,
        "alm-examples": json.dumps([_example(facts)]),
    }
    if facts.namespace:
        annotations["operatorframework.io/suggested-namespace"] = facts.namespace
    found: Blob = {
        "annotations": annotations,
        "apiServiceDefinitions": {},
        "crdDescriptions": {"owned": _owned_crds(facts)},
        "description": prose.description(facts, version),
        "displayName": facts.title,
        "installModes": [
            {"type": mode, "supported": mode in MODES[facts.modes]} for mode in ALL_MODES
        ],
        "keywords": [*area.keywords, facts.name.split("-")[0]],
        "links": [
            {"name": "Documentation", "url": f"https://docs.example.com/{facts.name}"},
            {"name": "Source", "url": f"https://git.example.com/{facts.name}"},
        ],
        "maintainers": [{"name": facts.provider, "email": f"{facts.area}@example.com"}],
        "maturity": "stable" if facts.level > 1 else "alpha",
        "minKubeVersion": f"1.{21 + number('kube', facts.name) % 4}.0",
        "provider": {"name": facts.provider, "url": "https://www.example.com"},
    }
    if facts.needs:
        found["crdDescriptions"]["required"] = [
            {"name": crd.name, "kind": crd.kind, "version": crd.version} for crd in facts.needs
        ]
    if facts.special == "apiservice":
        owned = {
            "name": "v1alpha1.metrics-api",
            "group": "metrics-api.demo.olmweb.dev",
            "version": "v1alpha1",
            "kind": "Sample",
            "deploymentName": "metrics-api-demo",
        }
        found["apiServiceDefinitions"] = {"owned": [owned]}
    return found


def _owned_crds(facts: Facts) -> list[Blob]:
    return [
        {
            "name": crd.name,
            "kind": crd.kind,
            "version": crd.version,
            "displayName": crd.kind,
            "description": f"Describes one {crd.kind} of {facts.title}.",
        }
        for crd in facts.kinds
    ]


def _example(facts: Facts) -> Blob:
    crd = facts.kinds[0]
    return {
        "apiVersion": f"{crd.group}/{crd.version}",
        "kind": crd.kind,
        "metadata": {"name": "example"},
        "spec": {"replicas": 1 + number("replicas", facts.name) % 3},
    }
