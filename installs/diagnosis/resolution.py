"""Failed resolutions of OLM v0: which Subscription they are about, and whether they are over.

OLM writes a failure to every Subscription of a namespace. It resolves while the old version of an
upgrade is still being deleted, and then finds a ClusterServiceVersion without a Subscription in
conflict with the new one. It clears the failure when it resolves again, which may be a quarter of
an hour later, and never if there is nothing to update. (operator-lifecycle-manager
pkg/controller/operators/catalog/operator.go syncResolvingNamespace;
pkg/controller/registry/resolver/variable_types.go and source_csvs.go.)

Such a message lists statements that can't hold together. If a ClusterServiceVersion that it lists
as existing is gone, the failure is over; one that lasts would be reported again in other words. A
failure that is not shown to be over counts as current.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from installs.diagnosis.evaluate import condition_of
from installs.diagnosis.parts import in_current_words
from installs.diagnosis.types import Condition, Observation
from olmweb.kube.fields import text

_TEXT_LIMIT = 32_768
_CATALOG = re.compile(
    r"error using catalogsource (?P<namespace>[^/\s]{1,300})/(?P<name>[^:\s]{1,300}):"
)
# The resolver could not list what the registry serves, with the error of the connection.
_CONNECTION = re.compile(
    r"error using catalogsource (?P<namespace>[^/\s]{1,300})/(?P<name>[^:\s]{1,300}): "
    r"(?:failed to list bundles|error encountered while listing bundles|[Ee]rror iterating bundles)"
    r": (?P<error>[^\n]{1,1000})"
)
_EMPTY_CATALOG = re.compile(
    r"no operators found from catalog (?P<name>\S{1,300}) in namespace (?P<namespace>\S{1,300})"
    r" referenced by subscription"
)
_SUBSCRIPTIONS = re.compile(
    r"referenced by subscription (?P<a>[^,\s]{1,300})"
    r"|criteria of subscription (?P<b>[^,\s]{1,300})"
    r"|(?<!\w)subscription (?P<c>[^,\s]{1,300}) (?:exists|requires)"
    r"|status\.installedCSV of subscription [^/\s]{1,300}/(?P<d>[^:\s]{1,300})"
)
_PACKAGE = re.compile(
    r'channel "[^"]{0,300}" of package "(?P<a>[^"]{1,300})"'
    r"|originate from package (?P<b>[^,\s]{1,300})"
    r"|only one operator from package (?P<c>[^,\s]{1,300})"
)


def blamed_catalog(message: str) -> tuple[str, str] | None:
    """Namespace and name of the CatalogSource that prevents resolution, None without one."""
    cut = in_current_words(message[:_TEXT_LIMIT])
    match = _CATALOG.search(cut) or _EMPTY_CATALOG.search(cut)
    return (match["namespace"], match["name"]) if match else None


def connection_error(message: str) -> tuple[str, str, str] | None:
    """Namespace and name of the CatalogSource that could not be read, and the error; None without
    one."""
    match = _CONNECTION.search(in_current_words(message[:_TEXT_LIMIT]))
    return (match["namespace"], match["name"], match["error"]) if match else None


def blocked_by(subject: Observation, message: str) -> str:
    """The other Subscription that the message is about, empty for this one or none.

    If the message names only a package, the result is `the one for package NAME`.
    """
    named = _names(_SUBSCRIPTIONS, message)
    if named:
        return "" if subject.name in named else named[0]
    packages = _names(_PACKAGE, message)
    own = subject.extra.get("package", "")
    if packages and own and own not in packages:
        return f"the one for package {packages[0]}"
    return ""


def _names(pattern: re.Pattern[str], message: str) -> list[str]:
    return [
        name for match in pattern.finditer(message[:_TEXT_LIMIT]) for name in match.groups() if name
    ]


RESOLUTION_FAILED = "ResolutionFailed"
# Failures with another reason are retried by OLM, so they are current.
_LASTING = "ConstraintsNotSatisfiable"
_NAMES = 20
_LENGTH = 253
_EXISTS = re.compile(
    r"@existing/(?P<namespace>[^/,\s]{1,63})/[^/,\s]{0,300}/(?P<a>[^/,\s]{1,300})"
    r"|clusterserviceversion (?P<b>[^,\s]{1,300}) exists and is not referenced by a subscription"
)
_ORPHAN = "clusterserviceversion {} exists and is not referenced by a subscription"


def existing_csvs(message: str, namespace: str) -> tuple[str, ...]:
    """The distinct ClusterServiceVersions of the namespace that exist according to the message."""
    names: dict[str, None] = {}
    for match in _EXISTS.finditer(message[:_TEXT_LIMIT]):
        if match["b"] or match["namespace"] == namespace:
            names[(match["a"] or match["b"])[:_LENGTH]] = None
    return tuple(names)[:_NAMES]


def conflicting(conditions: Iterable[Condition], namespace: str) -> tuple[str, ...]:
    """The ClusterServiceVersions that a failed resolution names; none without a failure."""
    for condition in conditions:
        if (condition.type, condition.status, condition.reason) == (
            RESOLUTION_FAILED,
            "True",
            _LASTING,
        ):
            return existing_csvs(condition.message, namespace)
    return ()


def why_over(subject: Observation, csvs: Sequence[Observation]) -> str:
    """Why the failed resolution of a Subscription is over, in words; empty if it may be current.

    `csvs` are those of its namespace that belong to it or that its `conflicting_csvs` name; others
    were not read, so their absence proves nothing.
    """
    names = conflicting(subject.conditions, subject.namespace)
    installed = _settled_version(subject.details)
    there = {csv.name: csv for csv in csvs}
    own = there.get(installed)
    if not names or own is None or own.phase != "Succeeded":
        return ""
    looked_for = set(text(subject.details, "conflicting_csvs").split(", "))
    looked_for.add(text(own.details, "replaces"))
    for name in names:
        if name in looked_for and name not in there:
            return f"{name} is gone"
    orphan = _ORPHAN.format(installed) in resolution_message(subject)
    return f"{installed} has its subscription" if orphan else ""


def leaving_csv(subject: Observation, csvs: Sequence[Observation]) -> str:
    """The replaced version that is in conflict with its successor while it is being deleted."""
    names = conflicting(subject.conditions, subject.namespace)
    installed = _settled_version(subject.details)
    new = next((csv for csv in csvs if csv.name == installed), None)
    old = text(new.details, "replaces") if new is not None and new.phase == "Succeeded" else ""
    for csv in csvs:
        going = csv.deleting or csv.phase in ("Replacing", "Deleting")
        if csv.name == old and csv.name in names and going:
            return csv.name
    return ""


def resolution_message(subject: Observation) -> str:
    condition = condition_of(subject, RESOLUTION_FAILED)
    return condition.message if condition else ""


def _settled_version(details: Mapping[str, Any]) -> str:
    """The installed version if no other one is chosen, else empty."""
    installed, current = text(details, "installed_csv"), text(details, "current_csv")
    return installed if installed == current else ""
