"""Whose dependency a removed Subscription was: recorded with its deletion, as the objects that tell
it, its InstallPlan and the Subscriptions beside it, may be deleted later."""

import re
from collections.abc import Collection, Iterable

from installs.diagnosis.approvals import listing
from installs.models import Component, Operator
from installs.state.decode import Key
from olmweb.kube.fields import text, texts
from olmweb.kube.resources import INSTALL_PLANS, SUBSCRIPTIONS


def dependency_notes(cluster_id: int, deleted: Collection[Key]) -> dict[Key, str]:
    """A sentence for each Subscription of these keys that OLM v0 generated for a dependency. To be
    called before the rows are deleted. At most two queries; none without a Subscription.

    OLM notes the InstallPlan that made a Subscription (operator-lifecycle-manager
    pkg/controller/operators/catalog/operator.go: generatedByKey); the other packages of the plan
    that no such note names were requested.
    """
    keys = {key for key in deleted if key[0] == SUBSCRIPTIONS.kind}
    if not keys:
        return {}
    rows = Operator.objects.filter(
        cluster_id=cluster_id,
        kind=SUBSCRIPTIONS.kind,
        namespace__in={namespace for _, namespace, _ in keys},
    ).order_by("name")
    beside = list(rows.only("kind", "namespace", "name", "package", "details"))
    generated = {(row.kind, row.namespace, row.name): row for row in beside if _install_plan(row)}
    gone = {key: row for key, row in generated.items() if key in keys}
    if not gone:
        return {}
    csvs = _csvs_of(cluster_id, {(row.namespace, _install_plan(row)) for row in gone.values()})
    notes = {}
    for key, row in gone.items():
        plan = _install_plan(row)
        parents = requested_with(row, beside, csvs.get((row.namespace, plan), []))
        notes[key] = dependency_note(row.package or row.name) + (
            f" of {listing(parents)}." if parents else f" by InstallPlan {plan}."
        )
    return notes


def requested_with(row: Operator, beside: Iterable[Operator], csvs: Collection[str]) -> list[str]:
    """The packages whose dependency a generated Subscription is: those of its InstallPlan, with
    these ClusterServiceVersions, that have a Subscription of a person in its namespace."""
    return [
        other.package or other.name
        for other in beside
        if other.namespace == row.namespace
        and not _install_plan(other)
        and any(_is_of(csv, other) for csv in csvs)
    ]


def dependency_note(package: str) -> str:
    """The beginning of the sentence about this package."""
    return f"OLM v0 had installed {package} as a dependency"


_NOTE = re.compile(re.escape(dependency_note("@")).replace("@", r"(?P<package>\S{1,253})"))


def noted_package(note: str) -> str:
    """The package of a note; empty for another text."""
    match = _NOTE.match(note)
    return match["package"] if match else ""


def _install_plan(row: Operator) -> str:
    """The InstallPlan that generated a Subscription; empty for one that a person created."""
    return text(row.details, "generated_by")


def _is_of(csv: str, row: Operator) -> bool:
    """Whether a ClusterServiceVersion is of the Subscription: one that it names, or another version
    of its package, as it may have been upgraded since."""
    named = (text(row.details, "current_csv"), text(row.details, "installed_csv"))
    return csv in named or (bool(row.package) and csv.startswith(f"{row.package}."))


def _csvs_of(
    cluster_id: int, plans: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """(namespace, name) of an InstallPlan -> its ClusterServiceVersions; one query."""
    rows = Component.objects.filter(
        cluster_id=cluster_id,
        kind=INSTALL_PLANS.kind,
        namespace__in={namespace for namespace, _ in plans},
        name__in={name for _, name in plans},
    ).order_by()
    return {
        (row.namespace, row.name): texts(row.details, "csvs")
        for row in rows.only("namespace", "name", "details")
    }
