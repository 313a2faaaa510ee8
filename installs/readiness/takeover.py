"""Whether a ClusterExtension can take over from a Subscription, and what stands in the way. Pure.

What operator-controller refuses is said by the rules of `catalogs.verdicts.engine`; what OLM v0
does for an operator and OLM v1 does not is said here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from catalogs.install_methods import InstallMethod
from catalogs.verdicts.engine import Contents, Verdict, predict

NAMED = 4


class Fate(StrEnum):
    """What would become of it, worst first; `ready` when nothing is in the way."""

    NO = "no"
    UNKNOWN = "unknown"
    CHANGES = "changes"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Group:
    """An OperatorGroup; no namespaces means all."""

    name: str
    namespaces: tuple[str, ...] = ()
    service_account: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """The package in a ClusterCatalog of the cluster; `has_version`: the installed one is in it."""

    catalog: str
    has_version: bool
    newest: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A Subscription with what is around it. `contents` are of the installed bundle; `dependents`
    are the operators that need its APIs, `crds` its own CRDs; `conditions` are the types that it
    reports in its OperatorCondition; `asked_by` is what OLM installed it for."""

    namespace: str
    name: str
    package: str
    version: str
    bundle: str
    contents: Contents
    served: bool
    sources: tuple[Source, ...] = ()
    groups: tuple[Group, ...] = ()
    manual: bool = False
    upgrading: bool = False
    config: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    dependents: tuple[str, ...] = ()
    asked_by: str = ""
    crds: int = 0


@dataclass(frozen=True, slots=True)
class Hindrance:
    """`code` names the rule, one of prediction's or of this module's."""

    code: str
    fate: Fate
    sentence: str


def hindrances(installation: Taken) -> list[Hindrance]:
    """Everything in the way, worst first."""
    if not installation.bundle:
        return [Hindrance("not-installed", Fate.NO, "Nothing is installed yet to take over.")]
    obstacles = [*_of_place(installation), *_of_bundle(installation), *_of_olm_v0(installation)]
    return sorted(obstacles, key=lambda obstacle: tuple(Fate).index(obstacle.fate))


def fate_of(obstacles: Sequence[Hindrance]) -> Fate:
    return obstacles[0].fate if obstacles else Fate.READY


def _of_place(installation: Taken) -> Iterator[Hindrance]:
    if not installation.served:
        yield Hindrance(
            "not-served", Fate.NO, "The cluster does not serve ClusterExtensions: OLM v1 is absent."
        )
        return
    if not installation.sources:
        yield Hindrance(
            "no-cluster-catalog",
            Fate.NO,
            f"No ClusterCatalog of the cluster has package {installation.package}: OLM v1 installs from "
            "no CatalogSource.",
        )
    elif not any(source.has_version for source in installation.sources):
        source = installation.sources[0]
        goes = f" (its default channel is at {source.newest})" if source.newest else ""
        yield Hindrance(
            "version-not-offered",
            Fate.CHANGES,
            f"ClusterCatalog {source.catalog} has no {installation.version or installation.bundle}{goes}: taking "
            "over would change the version, so upgrade to one that it has before.",
        )


def _of_bundle(installation: Taken) -> Iterator[Hindrance]:
    """What operator-controller says of the installed bundle, as prediction knows it."""
    for finding in predict(installation.contents, InstallMethod.CLUSTER_EXTENSION).found:
        if finding.verdict == Verdict.NOT_INSTALLABLE:
            yield Hindrance(finding.rule, Fate.NO, finding.sentence)
        elif finding.verdict == Verdict.UNKNOWN:
            yield Hindrance(finding.rule, Fate.UNKNOWN, finding.sentence)


def _of_olm_v0(installation: Taken) -> Iterator[Hindrance]:
    """What OLM v0 does for it and OLM v1 would not."""
    yield from _of_group(installation)
    if installation.dependents:
        yield Hindrance(
            "dependents",
            Fate.NO,
            f"{_listed(installation.dependents)} {'needs' if len(installation.dependents) == 1 else 'need'} its "
            "APIs: OLM v0 would install it again beside the ClusterExtension.",
        )
    elif installation.asked_by:
        yield Hindrance(
            "dependency",
            Fate.CHANGES,
            f"OLM v0 installed it because of {installation.asked_by}: see that nothing needs it first.",
        )
    if installation.conditions:
        yield Hindrance(
            "operator-conditions",
            Fate.CHANGES,
            f"It reports {_listed(installation.conditions)} in an OperatorCondition; OLM v1 makes none, "
            "so nothing holds an upgrade that it refuses, and it may not start without one.",
        )
    if installation.config:
        yield Hindrance(
            "config",
            Fate.CHANGES,
            f"Its Subscription sets {_listed(installation.config)} of its Deployment (spec.config): find "
            "out whether the cluster's OLM v1 can, or do without.",
        )
    if installation.manual:
        yield Hindrance(
            "manual-approval",
            Fate.CHANGES,
            "Its upgrades are approved by hand; a ClusterExtension has no approval: pin its "
            f"version to {installation.version or 'the installed one'} and raise it yourself.",
        )
    if installation.upgrading:
        yield Hindrance(
            "upgrading", Fate.CHANGES, "An upgrade of it is under way: let it end, or take it back."
        )


def _of_group(installation: Taken) -> Iterator[Hindrance]:
    if len(installation.groups) != 1:
        yield Hindrance(
            "operator-group",
            Fate.UNKNOWN,
            f"Namespace {installation.namespace} has {len(installation.groups) or 'no'} OperatorGroups, so which "
            "namespaces it watches is not known.",
        )
        return
    group = installation.groups[0]
    if group.namespaces:
        yield Hindrance(
            "operator-group",
            Fate.CHANGES,
            f"OperatorGroup {group.name} limits it to {_listed(group.namespaces)}; a "
            "ClusterExtension watches all namespaces unless operator-controller runs with the gate "
            "SingleOwnNamespaceInstallSupport.",
        )
    if group.service_account:
        yield Hindrance(
            "scoped-permissions",
            Fate.CHANGES,
            f"OperatorGroup {group.name} installs it with the permissions of ServiceAccount "
            f"{group.service_account}; OLM v1 grants what the bundle asks for.",
        )


def steps(installation: Taken) -> tuple[str, ...]:
    """How to hand over, in order; the operator does not run in between."""
    crds = f"{installation.crds} CRD{'' if installation.crds == 1 else 's'}"
    crds_stay = f" Its {crds} and their custom resources stay." if installation.crds else ""
    result = [
        f"Delete Subscription {installation.name} and then ClusterServiceVersion {installation.bundle} in "
        f"{installation.namespace}: its Deployments and roles go with it.{crds_stay}"
    ]
    if installation.crds:
        result.append(
            f"OLM v1 refuses to install over objects that are not its own: mark the {crds} as the "
            "new ClusterExtension's (Helm's ownership labels and annotations), or delete them with "
            "their custom resources after a backup."
        )
    catalog = next((source.catalog for source in installation.sources if source.has_version), "")
    pin = f", pinned to {installation.version}" if catalog and installation.version else ""
    result.append(
        f"Make a ClusterExtension for package {installation.package}"
        f"{f' of catalog {catalog}' if catalog else ''}{pin}."
    )
    return tuple(result)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
