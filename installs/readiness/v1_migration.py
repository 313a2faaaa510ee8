"""Whether a Subscription can be migrated to a ClusterExtension, and the blockers. Pure.

What operator-controller rejects comes from the rules of `catalogs.verdicts`; what OLM v0
does for an operator and OLM v1 does not is defined here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.evaluate import predict
from catalogs.verdicts.rules import Verdict
from installs.readiness.blockers import listed


class Fate(StrEnum):
    """The result of a migration, worst first; `ready` without obstacles."""

    NO = "no"
    UNKNOWN = "unknown"
    CHANGES = "changes"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """An OperatorGroup; empty namespaces mean all."""

    name: str
    namespaces: tuple[str, ...] = ()
    service_account: str = ""


@dataclass(frozen=True, slots=True)
class ClusterCatalogOffer:
    """The package in a ClusterCatalog; `has_version`: it contains the installed version."""

    catalog: str
    has_version: bool
    newest: str = ""


@dataclass(frozen=True, slots=True)
class InstalledSubscription:
    """A Subscription with its environment. `contents` are those of the installed bundle;
    `dependents` are operators that need its APIs, `crds` the number of its own CRDs; `conditions`
    are the types in its OperatorCondition; `generated_by` is the InstallPlan by which
    OLM installed it as a dependency, `dependency_of` the packages that required it then, if they
    are known."""

    namespace: str
    name: str
    package: str
    version: str
    bundle: str
    contents: Contents
    served: bool
    sources: tuple[ClusterCatalogOffer, ...] = ()
    groups: tuple[OperatorGroup, ...] = ()
    manual: bool = False
    upgrading: bool = False
    config: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    generated_by: str = ""
    dependency_of: tuple[str, ...] = ()
    crds: int = 0


@dataclass(frozen=True, slots=True)
class MigrationObstacle:
    """`code` names the rule, of catalogs.verdicts or of this module."""

    code: str
    fate: Fate
    sentence: str


def migration_obstacles(operator: InstalledSubscription) -> list[MigrationObstacle]:
    """All obstacles, worst first."""
    if not operator.bundle:
        return [MigrationObstacle("not-installed", Fate.NO, "Nothing is installed yet.")]
    obstacles = [
        *_cluster_obstacles(operator),
        *_bundle_obstacles(operator),
        *_olm_v0_obstacles(operator),
    ]
    return sorted(obstacles, key=lambda obstacle: tuple(Fate).index(obstacle.fate))


def fate_of(obstacles: Sequence[MigrationObstacle]) -> Fate:
    return obstacles[0].fate if obstacles else Fate.READY


def _cluster_obstacles(operator: InstalledSubscription) -> Iterator[MigrationObstacle]:
    if not operator.served:
        yield MigrationObstacle(
            "not-served", Fate.NO, "The cluster does not serve ClusterExtensions: OLM v1 is absent."
        )
        return
    if not operator.sources:
        yield MigrationObstacle(
            "no-cluster-catalog",
            Fate.NO,
            f"No ClusterCatalog of the cluster has package {operator.package}: OLM v1 installs "
            "from no CatalogSource.",
        )
    elif not any(source.has_version for source in operator.sources):
        source = operator.sources[0]
        goes = f" (its default channel is at {source.newest})" if source.newest else ""
        yield MigrationObstacle(
            "version-not-offered",
            Fate.CHANGES,
            f"ClusterCatalog {source.catalog} has no {operator.version or operator.bundle}{goes}: "
            "the migration would change the version. Upgrade to a version of that catalog first.",
        )


def _bundle_obstacles(operator: InstalledSubscription) -> Iterator[MigrationObstacle]:
    """The verdicts of operator-controller on the installed bundle."""
    for finding in predict(operator.contents, InstallMethod.CLUSTER_EXTENSION).results:
        if finding.verdict == Verdict.NOT_INSTALLABLE:
            yield MigrationObstacle(finding.rule, Fate.NO, finding.sentence)
        elif finding.verdict == Verdict.UNKNOWN:
            yield MigrationObstacle(finding.rule, Fate.UNKNOWN, finding.sentence)


def _olm_v0_obstacles(operator: InstalledSubscription) -> Iterator[MigrationObstacle]:
    """What OLM v0 does for the operator and OLM v1 would not."""
    yield from _group_obstacles(operator)
    if operator.dependents:
        verb = "needs" if len(operator.dependents) == 1 else "need"
        yield MigrationObstacle(
            "dependents",
            Fate.NO,
            f"{listed(operator.dependents)} {verb} "
            "its APIs: OLM v0 would install it again next to the ClusterExtension.",
        )
    elif operator.generated_by:
        parents = listed(operator.dependency_of) if operator.dependency_of else "another operator"
        yield MigrationObstacle(
            "dependency",
            Fate.CHANGES,
            f"OLM v0 installed it as a dependency of {parents} (InstallPlan "
            f"{operator.generated_by}): check that nothing requires it any longer.",
        )
    if operator.conditions:
        yield MigrationObstacle(
            "operator-conditions",
            Fate.CHANGES,
            f"It reports {listed(operator.conditions)} in an OperatorCondition; OLM v1 "
            "creates none: upgrades are no longer held back, and the operator may fail to start.",
        )
    if operator.config:
        yield MigrationObstacle(
            "config",
            Fate.CHANGES,
            f"Its Subscription sets {listed(operator.config)} of its Deployment (spec.config): "
            "check whether OLM v1 of the cluster supports that, or remove it.",
        )
    if operator.manual:
        yield MigrationObstacle(
            "manual-approval",
            Fate.CHANGES,
            "Its update approval is Manual; a ClusterExtension has no approval: pin its "
            f"version to {operator.version or 'the installed one'} and change it for each upgrade.",
        )
    if operator.upgrading:
        yield MigrationObstacle(
            "upgrading", Fate.CHANGES, "An upgrade is in progress: wait until it has finished."
        )


def _group_obstacles(operator: InstalledSubscription) -> Iterator[MigrationObstacle]:
    if len(operator.groups) != 1:
        yield MigrationObstacle(
            "operator-group",
            Fate.UNKNOWN,
            f"Namespace {operator.namespace} has {len(operator.groups) or 'no'} OperatorGroups, so "
            "the watched namespaces are unknown.",
        )
        return
    group = operator.groups[0]
    if group.namespaces:
        yield MigrationObstacle(
            "operator-group",
            Fate.CHANGES,
            f"OperatorGroup {group.name} limits it to {listed(group.namespaces)}; a "
            "ClusterExtension watches all namespaces unless operator-controller runs with the gate "
            "SingleOwnNamespaceInstallSupport.",
        )
    if group.service_account:
        yield MigrationObstacle(
            "scoped-permissions",
            Fate.CHANGES,
            f"OperatorGroup {group.name} installs it with the permissions of ServiceAccount "
            f"{group.service_account}; OLM v1 grants the permissions that the bundle requires.",
        )


def steps(operator: InstalledSubscription) -> tuple[str, ...]:
    """The steps of the migration; the operator does not run in between."""
    crds = f"{operator.crds} CRD{'' if operator.crds == 1 else 's'}"
    crds_stay = f" Its {crds} and their custom resources stay." if operator.crds else ""
    result = [
        f"Delete Subscription {operator.name} and then ClusterServiceVersion {operator.bundle} in "
        f"{operator.namespace}: this deletes its Deployments and roles.{crds_stay}"
    ]
    if operator.crds:
        result.append(
            f"OLM v1 refuses to install over objects that are not its own: mark the {crds} as the "
            "new ClusterExtension's (Helm's ownership labels and annotations), or delete them with "
            "their custom resources after a backup."
        )
    catalog = next((source.catalog for source in operator.sources if source.has_version), "")
    pin = f", pinned to {operator.version}" if catalog and operator.version else ""
    result.append(
        f"Create a ClusterExtension for package {operator.package}"
        f"{f' of catalog {catalog}' if catalog else ''}{pin}."
    )
    return tuple(result)
