"""Whether a failed resolution is over, although a Subscription still tells of it.

OLM v0 resolves while the old version of an upgrade still goes. It then finds a
ClusterServiceVersion that no Subscription stands for any more, in conflict with the new one, and
tells every Subscription of the namespace that its constraints can't be satisfied. It takes that
back when it resolves again, which may be a quarter of an hour later, and never if there is nothing
to update. (operator-lifecycle-manager pkg/controller/operators/catalog/operator.go
syncResolvingNamespace; pkg/controller/registry/resolver/variable_types.go and source_csvs.go.)

Such a message lists statements that can't hold together. When a ClusterServiceVersion that it says
exists is gone, it is not about this cluster any more; a failure that lasts would be told anew, in
other words. What is not shown to be over is taken as it stands. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from installs.diagnosis.judgement import condition_of
from installs.diagnosis.reading import text
from installs.diagnosis.types import Condition, Observation

RESOLUTION_FAILED = "ResolutionFailed"
# Any other reason is one that OLM tries again by itself, so what it says is of now.
_LASTING = "ConstraintsNotSatisfiable"
_TEXT_LIMIT = 32_768
_NAMES = 20
_LENGTH = 253
_EXISTS = re.compile(
    r"@existing/(?P<namespace>[^/,\s]{1,63})/[^/,\s]{0,300}/(?P<a>[^/,\s]{1,300})"
    r"|clusterserviceversion (?P<b>[^,\s]{1,300}) exists and is not referenced by a subscription"
)
_ORPHAN = "clusterserviceversion {} exists and is not referenced by a subscription"


def existing_csvs(message: str, namespace: str) -> tuple[str, ...]:
    """The ClusterServiceVersions of the namespace that the message says are there, each once."""
    found: dict[str, None] = {}
    for one in _EXISTS.finditer(message[:_TEXT_LIMIT]):
        if one["b"] or one["namespace"] == namespace:
            found[(one["a"] or one["b"])[:_LENGTH]] = None
    return tuple(found)[:_NAMES]


def conflicting(conditions: Iterable[Condition], namespace: str) -> tuple[str, ...]:
    """Those that a Subscription's failed resolution names; none when it tells of no failure."""
    for told in conditions:
        if (told.type, told.status, told.reason) == (RESOLUTION_FAILED, "True", _LASTING):
            return existing_csvs(told.message, namespace)
    return ()


def over(subject: Observation, csvs: Sequence[Observation]) -> str:
    """Why the failed resolution of a Subscription is over, in words; empty when it may not be.

    `csvs` are those of its namespace that belong to it or that its `conflicting_csvs` name: one
    that was not looked for is not known to be gone.
    """
    names = conflicting(subject.conditions, subject.namespace)
    installed = _arrived(subject.details)
    there = {one.name: one for one in csvs}
    own = there.get(installed)
    if not names or own is None or own.phase != "Succeeded":
        return ""
    looked_for = set(text(subject.details, "conflicting_csvs").split(", "))
    looked_for.add(text(own.details, "replaces"))
    for name in names:
        if name in looked_for and name not in there:
            return f"{name} is gone"
    orphan = _ORPHAN.format(installed) in told_by(subject)
    return f"{installed} has its subscription" if orphan else ""


def leaving(subject: Observation, csvs: Sequence[Observation]) -> str:
    """The old version that is in conflict with the one that just took its place, while it goes."""
    names = conflicting(subject.conditions, subject.namespace)
    installed = _arrived(subject.details)
    new = next((one for one in csvs if one.name == installed), None)
    old = text(new.details, "replaces") if new is not None and new.phase == "Succeeded" else ""
    for one in csvs:
        going = one.deleting or one.phase in ("Replacing", "Deleting")
        if one.name == old and one.name in names and going:
            return one.name
    return ""


def told_by(subject: Observation) -> str:
    told = condition_of(subject, RESOLUTION_FAILED)
    return told.message if told else ""


def _arrived(details: Mapping[str, Any]) -> str:
    """The version that is installed when no other is chosen; else empty."""
    installed, current = text(details, "installed_csv"), text(details, "current_csv")
    return installed if installed == current else ""
