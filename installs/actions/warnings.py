"""Warnings about an install, which never prevent it. Reads rows only."""

from collections.abc import Iterator
from dataclasses import dataclass

from catalogs.models import Package
from catalogs.verdicts.catalog_health import health_context, health_notes, source_of
from catalogs.verdicts.rules import RULES
from installs.audit.audit import NamespaceChecks
from installs.diagnosis.knowledge import by_id
from installs.facts.cluster_facts import groups_in
from installs.methods import METHODS, InstallChoice
from installs.models import ClusterInventory, Operator
from olmweb.models import Cluster

ONE_GROUP = "sub-one-group"
SOURCES = {rule.id: rule.source for rule in RULES}


@dataclass(frozen=True, slots=True)
class InstallWarning:
    """`rule` is the id of the expected finding, or of our own rule; `source` is where the rule is
    in the controllers' code."""

    rule: str
    text: str
    source: str = ""


def install_warnings(
    choice: InstallChoice, cluster: Cluster, package: Package, target: str
) -> Iterator[InstallWarning]:
    """`target` is the bundle to install, empty if there is none. Its verdict is part of
    the plan and not among these."""
    yield from _of_catalog(choice, cluster, package)
    yield from _of_bundle(choice, cluster, package, target)
    if METHODS[choice.method].needs_group:
        yield from _of_groups(choice, cluster, package)
    yield from _of_neighbours(choice, cluster)


def _of_catalog(
    choice: InstallChoice, cluster: Cluster, package: Package
) -> Iterator[InstallWarning]:
    """The health of the catalog, such as that it does not answer."""
    for note in health_notes(health_context(package.catalog, cluster.pk))[choice.method]:
        yield InstallWarning(note.rule, note.sentence, SOURCES[note.rule])


def _of_bundle(
    choice: InstallChoice, cluster: Cluster, package: Package, target: str
) -> Iterator[InstallWarning]:
    if not target:
        in_channel = f" in channel {choice.channel}" if choice.channel else ""
        yield InstallWarning("nothing-chosen", f"No version of {package.name}{in_channel} matches.")
        return
    bundle = package.bundles.filter(name=target).first()
    if bundle is None:
        return  # a sync replaced it just now
    if bundle.deprecated:
        yield InstallWarning("deprecated", f"The catalog marks {target} as deprecated.")
    if choice.service_account and "service_account" in METHODS[choice.method].fields.values():
        yield InstallWarning(
            "service-account-rights",
            f"The ServiceAccount {choice.service_account} needs every right that {target} asks "
            f"for; a new one has none. {_preflight(cluster)} 1.11 and later do not look at the "
            "ServiceAccount.",
        )


def _preflight(cluster: Cluster) -> str:
    """How operator-controller treats missing permissions, by its feature gates."""
    gates = ClusterInventory.objects.filter(cluster=cluster).values_list("gates", flat=True).first()
    if gates is None:
        return (
            "operator-controller 1.3 to 1.10 with the feature gate PreflightPermissions lists all "
            "that is missing before it installs; without it, the install stops at the first."
        )
    if gates.get("PreflightPermissions"):
        return (
            "operator-controller runs with the feature gate PreflightPermissions here and lists "
            "all that is missing before it installs."
        )
    return (
        "operator-controller runs without the feature gate PreflightPermissions here: up to 1.10, "
        "the install stops at the first that is missing."
    )


def _of_groups(
    choice: InstallChoice, cluster: Cluster, package: Package
) -> Iterator[InstallWarning]:
    groups = groups_in(cluster, choice.namespace)
    if len(groups) > 1:
        names = ", ".join(group.name for group in groups[:4])
        yield InstallWarning(
            "too-many-operatorgroups",
            f"Namespace {choice.namespace} has {len(groups)} OperatorGroups ({names}); OLM "
            "installs nothing where there is more than one.",
        )
    check = NamespaceChecks(cluster, source_of(package.catalog)).of(choice.namespace)
    for result in (*((check.blocker,) if check.blocker else ()), *check.notes):
        # A missing group is created by the install; several are warned of above.
        if result.rule != ONE_GROUP or len(groups) == 1:
            yield InstallWarning(result.rule, result.sentence, SOURCES[result.rule])


def _of_neighbours(choice: InstallChoice, cluster: Cluster) -> Iterator[InstallWarning]:
    kind, own = choice.method, {"name": choice.name}
    if METHODS[kind].resource.namespaced:
        own["namespace"] = choice.namespace
    same = Operator.objects.filter(cluster=cluster, package=choice.package).exclude(
        kind=kind, **own
    )
    for other in same.order_by("kind", "namespace", "name")[:3]:
        where = f" in {other.namespace}" if other.namespace else ""
        if kind == other.kind and METHODS[kind].one_per_package:
            yield InstallWarning(
                "helm-ownership-conflict",
                f"{other.kind} {other.name}{where} installs the same package; a second one would "
                "fail, because both bring the same objects.",
                by_id()["helm-ownership-conflict"].source[0],
            )
        else:
            yield InstallWarning(
                "same-package",
                f"{other.kind} {other.name}{where} installs the same package; both would bring the "
                "same CustomResourceDefinitions.",
            )
    for row in Operator.objects.filter(cluster=cluster, kind=kind, **own):
        yield InstallWarning(
            "already-there",
            f"A {kind} named {choice.name} exists already, for the package {row.package}.",
        )
