"""From what an object says to its finding, with the names that its commands need."""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis.classify import find, render
from installs.diagnosis.types import Finding, Observation


@dataclass(frozen=True, slots=True)
class Said:
    """A text and the object that says it: its kind chooses the entries, its names fill them."""

    kind: str
    namespace: str
    name: str
    text: str


def finding_of(subject: Observation, said: Sequence[Said]) -> Finding | None:
    """The first finding among the texts.

    When another object than the subject says it, that object's names are kept with the facts, so
    that a stored finding is filled with them again.
    """
    names = names_of(subject)
    for one in said:
        if not one.text:
            continue
        match = find(one.text, kind=one.kind)
        if match is None:
            continue
        facts = dict(match.facts)
        if (one.namespace, one.name) != (subject.namespace, subject.name):
            facts |= {"kind": one.kind, "namespace": one.namespace, "name": one.name}
        return render(match.entry, facts, names)
    return None


def names_of(subject: Observation) -> dict[str, str]:
    """The subject's names as causes and remedies use them."""
    names = {"name": subject.name, "namespace": subject.namespace, "kind": subject.kind}
    if package := subject.extra.get("package"):
        names["package"] = package
    return names
