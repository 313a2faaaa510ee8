"""Which registries are asked for an image: mirrors, rewritten locations, blocked ones.

Rules come from a registries.conf file (version 2) and from the mirror objects of clusters, which
the Machine Config Operator turns into such a file on nodes. Selection follows containers/image,
pkg/sysregistriesv2 (system_registries_v2.go): the longest matching prefix, mirrors in their order,
then the location itself.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from catalogs.sources.base import SourceError
from catalogs.sources.oci.reference import ImageReference, parse_reference

_LONGEST = 1 << 20
# Kind -> the field with its mirrors, and whether they are for references by digest.
MIRROR_KINDS = {
    "ImageDigestMirrorSet": ("imageDigestMirrors", True),
    "ImageTagMirrorSet": ("imageTagMirrors", False),
    "ImageContentSourcePolicy": ("repositoryDigestMirrors", True),
}


class Mirror(msgspec.Struct, frozen=True):
    """A location with copies, for references by digest, by tag, or both."""

    location: str
    insecure: bool = False
    by_digest: bool = True
    by_tag: bool = True


class Rule(msgspec.Struct, frozen=True):
    """Where images below `prefix` ("host[:port][/path]", or "*.domain") are. An empty `location`
    is the prefix itself; `blocked`: no request is sent to it, only to its mirrors."""

    prefix: str
    location: str = ""
    insecure: bool = False
    blocked: bool = False
    mirrors: tuple[Mirror, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A registry to ask for an image, by `reference`. `insecure`: by plain HTTP. `configured`: the
    file names it, and no object of a cluster, so it may have a private address."""

    reference: ImageReference
    insecure: bool = False
    configured: bool = False


@dataclass(frozen=True, slots=True)
class Registries:
    """The rules of the file, and of all clusters."""

    file: tuple[Rule, ...] = ()
    clusters: tuple[Rule, ...] = ()

    def endpoints(self, reference: ImageReference) -> list[Endpoint]:
        """The registries to ask, in order; at least one. Mirrors of the file come first. Raises
        SourceError, code "blocked", where nothing may be asked."""
        text = str(reference)
        own = _matches(self.file, text)
        others = _matches(self.clusters, text)
        endpoints: dict[ImageReference, Endpoint] = {}
        for rules, configured in ((own, True), (others, False)):
            for rule in rules:
                for endpoint in _mirrors(rule, reference, configured=configured):
                    endpoints.setdefault(endpoint.reference, endpoint)
        blocked = own[0].blocked if own else bool(others) and all(r.blocked for r in others)
        if not blocked:
            last = _at(own[0], own[0].location, text) if own else reference
            insecure = bool(own) and own[0].insecure
            endpoints.setdefault(last, Endpoint(last, insecure, bool(own)))
        if not endpoints:
            raise SourceError(
                f"{reference} may not be read: registries.conf or a mirror set of a cluster blocks "
                f"{reference.registry}, and names no mirror for it.",
                code="blocked",
                hint="Add a mirror, or take the block out.",
            )
        return list(endpoints.values())


NO_RULES = Registries()


def _matches(rules: Iterable[Rule], text: str) -> list[Rule]:
    """The rules with the longest prefix of the reference; several clusters may have the same."""
    matching = [(length, rule) for rule in rules if (length := _matched(rule.prefix, text))]
    longest = max((length for length, _ in matching), default=0)
    return [rule for length, rule in matching if length == longest]


def _matched(prefix: str, text: str) -> int:
    """The length of the part of the reference that the prefix stands for, 0 without a match."""
    if prefix.startswith("*."):
        host = text.partition("/")[0]
        return len(host) if host.partition(":")[0].endswith(prefix[1:]) else 0
    rest = text[len(prefix) : len(prefix) + 1]
    return len(prefix) if text.startswith(prefix) and rest in ("", "/", ":", "@") else 0


def _mirrors(rule: Rule, reference: ImageReference, *, configured: bool) -> Iterator[Endpoint]:
    for mirror in rule.mirrors:
        if mirror.by_digest if reference.digest else mirror.by_tag:
            located = _at(rule, mirror.location, str(reference))
            yield Endpoint(located, mirror.insecure, configured)


def _at(rule: Rule, location: str, text: str) -> ImageReference:
    """The reference with `location` in place of what the rule matched."""
    if not location:
        return parse_reference(text)
    return parse_reference(location + text[_matched(rule.prefix, text) :])


def read_file(path: Path) -> tuple[Rule, ...]:
    """The rules of a registries.conf file, version 2 (containers-registries.conf(5)).

    Raises SourceError for a file that can't be read, of version 1, or with a table that names no
    registry.
    """
    try:
        tables = tomllib.loads(path.read_bytes()[:_LONGEST].decode())
    except OSError as error:
        raise _unusable(path, f"can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _unusable(path, f"is not TOML: {error}") from error
    if "registries" in tables:
        raise _unusable(path, "is of version 1; write [[registry]] tables")
    try:
        return tuple(_rule(table) for table in tables.get("registry", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(path, f"has a [[registry]] that is incomplete: {error}") from error


def _rule(table: Mapping[str, Any]) -> Rule:
    location = str(table.get("location", "")).rstrip("/")
    prefix = str(table.get("prefix", "") or location).rstrip("/")
    if not prefix:
        raise ValueError("neither prefix nor location is set")
    digests_only = table.get("mirror-by-digest-only") is True
    mirrors = []
    for mirror in table.get("mirror", ()):
        pulls = "digest-only" if digests_only else mirror.get("pull-from-mirror", "all")
        mirrors.append(
            Mirror(
                str(mirror["location"]).rstrip("/"),
                mirror.get("insecure") is True,
                by_digest=pulls != "tag-only",
                by_tag=pulls != "digest-only",
            )
        )
    return Rule(
        prefix,
        "" if location == prefix else location,
        table.get("insecure") is True,
        table.get("blocked") is True,
        tuple(mirrors),
    )


def _unusable(path: Path, why: str) -> SourceError:
    return SourceError(
        f"The file with registries, {path}, {why}.",
        code="registries-conf",
        hint="OLMWEB_REGISTRIES_CONF names it; it has the shape of "
        "/etc/containers/registries.conf, version 2.",
    )


def rules_of(objects: Iterable[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The rules of ImageDigestMirrorSets, ImageTagMirrorSets and ImageContentSourcePolicies
    (openshift/api config/v1, operator/v1alpha1). Sets of one source are merged; entries without
    source or mirrors are left out."""
    rules: dict[str, Rule] = {}
    for item in objects:
        field, digests = MIRROR_KINDS.get(str(item.get("kind")), ("", True))
        spec = item.get("spec")
        entries = spec.get(field) if isinstance(spec, Mapping) else None
        for entry in entries if isinstance(entries, Sequence) else ():
            source = entry.get("source") if isinstance(entry, Mapping) else None
            mirrors = _texts(entry.get("mirrors")) if source else []
            if not isinstance(source, str) or not mirrors:
                continue
            rule = rules.get(source) or Rule(source)
            added = tuple(Mirror(m, by_digest=digests, by_tag=not digests) for m in mirrors)
            never = entry.get("mirrorSourcePolicy") == "NeverContactSource"
            rules[source] = Rule(
                source,
                blocked=rule.blocked or never,
                mirrors=tuple(dict.fromkeys((*rule.mirrors, *added))),
            )
    return tuple(rules.values())


def digest_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules without mirrors for tags and without blocks: they give no image another content."""
    return tuple(
        msgspec.structs.replace(
            rule,
            blocked=False,
            mirrors=tuple(
                msgspec.structs.replace(mirror, by_tag=False)
                for mirror in rule.mirrors
                if mirror.by_digest
            ),
        )
        for rule in rules
    )


def _texts(value: object) -> list[str]:
    return [t for t in value if isinstance(t, str) and t] if isinstance(value, list) else []
