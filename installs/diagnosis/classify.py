"""From a raw message to the finding that explains it. Bounded in time by cutting the text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from installs.diagnosis.knowledge import Entry, by_id, knowledge
from installs.diagnosis.types import Finding

# Condition messages can't be longer (apiextensions limit, and where OLM v1 cuts its own).
TEXT_LIMIT = 32_768
# Condition types of OLM v0 and v1 that only tell of a deprecation.
DEPRECATIONS = ("PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Deprecated")
_DEPRECATED = "deprecated-entry"
# Reasons with which a controller says that it waits for a person.
_FINAL = frozenset(
    (
        "Blocked",
        "InvalidConfiguration",
        "InstallComponentFailedNoRetry",
        "ConstraintsNotSatisfiable",
    )
)
_GIVEN_UP = "The controller waits until something changes."
_INNER_GROUPS = ("detail", "inner", "last", "logs")
_WRAPPER_DEPTH = 5
_PARTS_LIMIT = 50
_CONFIDENCE = {"verified": "high", "partial": "medium", "unverified": "low"}
_AGGREGATE = re.compile(r"\[([\s\S]+)\]")
_CONSTRAINTS = re.compile(r"constraints not satisfiable: ([\s\S]+)")
_CRD_CHECKS = re.compile(r'(validating upgrade for CRD "[^"]{1,300}"(?: failed)?: )([\s\S]+)')
# What controllers put in front of a message without saying more about its cause.
_PREFIXES = re.compile(
    r"Failed to unpack the \S{1,300} Bundle: "
    r"|source bundle content: "
    r"|convert registry\+v1 bundle to plain\+v0 bundle: (?!supported install modes)"
    r'|error for resolved bundle "[^"]{1,300}" with version "[^"]{1,300}": '
    r"|failed to get release state using server-side dry-run: "
    r"|error walking catalogs: "
    r'|validating bundle "[^"]{1,300}": '
    r"|source catalog content: "
    r"|terminal error: "
    r"|operation cannot proceed due to the following validation error\(s\): "
    r"|rendered manifests contain a (?:new )?resource that already exists\. "
    r"|[Uu]nable to continue with (?:install|update): "
)


@dataclass(frozen=True, slots=True)
class Match:
    """The entry that a text matched and what its pattern extracted."""

    entry: Entry
    facts: dict[str, str]


def classify(text: str, *, kind: str = "", type: str = "", reason: str = "") -> Finding | None:
    """The finding for one raw message, or None when the knowledge base does not know it.

    `kind` is the Kubernetes kind of the object that says it, empty for any; `type` and `reason`
    are those of the condition. A deprecation is known by its type alone, because OLM v1 shows the
    catalog's own words; a reason that ends all retries makes the finding not retryable.
    """
    names = {"kind": kind} if kind else {}
    if type in DEPRECATIONS and text:
        entry = by_id()[_DEPRECATED]
        found = entry.pattern.search(text[:TEXT_LIMIT])
        return render(entry, _facts(found) if found else {}, names)
    match = find(text, kind=kind)
    if match is None:
        return None
    finding = render(match.entry, match.facts, names)
    return replace(finding, retryable=False, note=_GIVEN_UP) if reason in _FINAL else finding


def finding_for(
    finding_id: str, facts: Mapping[str, str], names: Mapping[str, str]
) -> Finding | None:
    """A stored finding again, with its texts filled; None when the id is no longer known.

    `names` are the subject's: any of name, namespace, kind, package.
    """
    entry = by_id().get(finding_id)
    return render(entry, dict(facts), names) if entry else None


def find(text: str, *, kind: str = "") -> Match | None:
    """The first entry that matches, following wrappers to the root cause.

    Lists (`[a, b]`, several constraints, several CRD checks) are split: the entry that comes first
    in the knowledge base wins, because controllers write such lists in random order.
    """
    return _follow(text[:TEXT_LIMIT], _entries_for(kind), _WRAPPER_DEPTH)


def render(entry: Entry, facts: dict[str, str], names: Mapping[str, str]) -> Finding:
    """The entry's finding, its texts to be filled with the names and the facts.

    Facts win: they hold `kind`, `namespace` and `name` when another object than the subject says
    the message, and then the commands are about that one.
    """
    record = entry.record
    values = {**names, **facts}
    variant = next((one for one in record.variants if facts.get(one.fact)), None)
    return Finding(
        id=record.id,
        title=record.title,
        cause_template=(variant or record).cause,
        remedy_templates=(variant or record).remedy,
        retryable=record.retryable,
        facts=facts,
        confidence=_CONFIDENCE[record.verified],
        source=record.source,
        note=record.note,
        instead=record.instead,
        values=values,
    )


def strip_prefixes(text: str) -> str:
    """The text without what controllers put in front of it."""
    while match := _PREFIXES.match(text):
        text = text[match.end() :]
    return text


@lru_cache(maxsize=256)  # in a burst many objects say the same, and each is asked twice
def fingerprint(text: str) -> str:
    """The text with everything that varies between objects replaced, at most 300 characters.

    Unknown messages are counted by it, so that the knowledge base can grow.
    """
    text = strip_prefixes(text[:TEXT_LIMIT])
    text = re.sub(r'"[^"\n]{0,300}"|\'[^\'\n]{0,300}\'', '"…"', text)
    text = re.sub(r"\bsha256:[0-9a-f]{6,64}\b|\b[0-9a-f]{8,64}\b", "#", text)
    text = re.sub(r"\d+", "0", text)
    return " ".join(text.split())[:300]


@cache
def _entries_for(kind: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in knowledge() if not kind or kind in entry.kinds)


def _follow(text: str, entries: Sequence[Entry], depth: int) -> Match | None:
    match = _first(text, entries)
    if match is None or not match.entry.record.wrapper or depth == 0:
        return match
    inner = next((match.facts[group] for group in _INNER_GROUPS if match.facts.get(group)), "")
    root = _follow(inner, entries, depth - 1) if inner and len(inner) < len(text) else None
    if root is None or root.entry.id == match.entry.id:
        return match
    return Match(root.entry, {**root.facts, "context": match.entry.title})


def _first(text: str, entries: Sequence[Entry]) -> Match | None:
    text = strip_prefixes(text)
    parts = _split(text)
    for entry in entries:
        for part in parts:
            if found := entry.pattern.search(part):
                return Match(entry, _facts(found))
    return None


def _split(text: str) -> list[str]:
    if found := _AGGREGATE.fullmatch(text):
        return [strip_prefixes(part) for part in found[1].split(", ")[:_PARTS_LIMIT]] + [text]
    if found := _CONSTRAINTS.search(text):
        parts = found[1].split(", ")[:_PARTS_LIMIT]
        return [f"constraints not satisfiable: {part}" for part in parts]
    if found := _CRD_CHECKS.search(text):
        lines = [line.strip() for line in found[2].splitlines()[:_PARTS_LIMIT] if line.strip()]
        return [f"{found[1]}{line}" for line in lines] or [text]
    return [text]


def _facts(found: re.Match[str]) -> dict[str, str]:
    """Named groups that matched; `crd2` of a second alternative becomes `crd`."""
    facts: dict[str, str] = {}
    for name, value in found.groupdict().items():
        if value is not None:
            facts.setdefault(name.rstrip("0123456789"), value.strip())
    return facts
