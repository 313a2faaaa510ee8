"""The facts around a bundle (the offers of all catalogs, the state of a cluster), and the input and
answers of the checks with the texts of their facts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path as File
from typing import NamedTuple

import yaml

from catalogs.contents.bundle_facts import ApiKind, Contents
from catalogs.semver import Version

ALL_NAMESPACES = "AllNamespaces"
MENTIONED = 5  # names in one sentence; more are counted


class WatchTarget(StrEnum):
    """The namespaces that the OperatorGroup of a Subscription's namespace selects.

    SINGLE is one other namespace, MULTI several others, MIXED several with its own among them.
    """

    ALL = "all"
    OWN = "own"
    SINGLE = "one"
    MULTI = "multi"
    MIXED = "mixed"


class Offered(NamedTuple):
    """A package in one ClusterCatalog; `deprecated` if all its bundles are."""

    catalog: str
    priority: int = 0
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class ClusterOffers:
    """`providers` maps a kind to the packages with a bundle that provides it, `always` a package to
    the kinds that all its bundles provide, `versions` a package to those of its bundles. `offers`
    has the packages that `catalog`, the evaluated one, shares with other available
    ClusterCatalogs."""

    providers: Mapping[ApiKind, frozenset[str]] = field(default_factory=dict)
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    catalog: str = ""
    offers: Mapping[str, tuple[Offered, ...]] = field(default_factory=dict)
    always: Mapping[str, frozenset[ApiKind]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterCrd:
    """A CustomResourceDefinition of the cluster; the owner is empty if unknown. `objects` is a
    lower bound of the number of its objects, None if they were not counted."""

    served: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    owner_kind: str = ""
    owner_namespace: str = ""
    owner: str = ""
    objects: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorGroupFacts:
    """An OperatorGroup with its selected namespaces; an empty name is all.

    `own_catalogs_only` excludes global catalogs from the resolution in its namespace.
    """

    namespace: str
    name: str
    selects: frozenset[str]
    own_catalogs_only: bool = False

    @property
    def target(self) -> WatchTarget | None:
        """None for a group that selects no namespace.

        Mirrors InstallModeSet.Supports of operator-framework/api
        pkg/operators/v1alpha1/clusterserviceversion.go.
        """
        if not self.selects:
            return None
        if "" in self.selects:
            return WatchTarget.ALL
        own = self.namespace in self.selects
        if len(self.selects) == 1:
            return WatchTarget.OWN if own else WatchTarget.SINGLE
        return WatchTarget.MIXED if own else WatchTarget.MULTI


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator of the cluster."""

    kind: str
    namespace: str
    name: str
    package: str
    bundle: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The state of a cluster; None for facts that were not read.

    `namespaces` and `roles` map a name to the Helm release that owns it, as NAMESPACE/NAME, empty
    for none. `roles` are those of the namespace with the releases of PlatformOperators.
    `shared` maps a kind to cluster-scoped objects, whose owner may also be ClusterExtension/NAME.
    `apis` maps an APIService to package and namespace of the ClusterServiceVersion that owns it;
    `foreign_apis` are APIServices that OLM v0 did not create. `gates` are the feature gates in the
    arguments of operator-controller, and whether they are on.
    """

    name: str
    served: frozenset[ApiKind] | None = None
    crds: Mapping[str, ClusterCrd] | None = None
    namespaces: Mapping[str, str] | None = None
    roles: Mapping[str, str] | None = None
    shared: Mapping[str, Mapping[str, str]] | None = None
    kube_version: Version | None = None
    openshift_version: Version | None = None
    installed: tuple[OperatorFacts, ...] = ()
    groups: tuple[OperatorGroupFacts, ...] = ()
    apis: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    foreign_apis: frozenset[str] | None = None
    gates: Mapping[str, bool] | None = None

    def serves(self, kind: ApiKind, contents: Contents) -> bool | None:
        """Whether it serves `kind` with the bundle's own CRDs installed; None if unknown.

        Without the served kinds, only the kinds of Kubernetes itself are known.
        """
        if kind in contents.provides or kind in built_in():
            return True
        return None if self.served is None else kind in self.served


NO_CLUSTER = ClusterFacts("")
# Namespace of the Helm releases of PlatformOperators and of their namespaced objects without a
# namespace: 4.12's platform-operators manifests, and the messages of the published audit.
PLATFORM_NAMESPACE = "openshift-platform-operators"


@cache
def built_in() -> frozenset[ApiKind]:
    """The kinds that every supported Kubernetes serves (1.25 and later)."""
    text = File(__file__).with_name("built_in_kinds.yaml").read_text(encoding="utf-8")
    result = set()
    for api_version, kinds in yaml.load(text, yaml.CSafeLoader).items():
        group, _, version = api_version.rpartition("/")
        result |= {ApiKind(group, version, kind) for kind in kinds}
    return frozenset(result)


class Unread(StrEnum):
    """A missing fact that a rule needs; FACT is any fact that is not the cluster's."""

    FACT = "a fact"
    KINDS = "the kinds that the cluster serves"
    CRDS = "the CustomResourceDefinitions of the cluster"
    NAMESPACES = "the namespaces of the cluster"
    ROLES = "the Roles of the namespace openshift-platform-operators"
    OBJECTS = "the ClusterRoles and other cluster-wide objects of the cluster"
    API_SERVICES = "the APIServices of the cluster"
    VERSION = "the versions of the cluster"


Answer = Mapping[str, str] | Unread | None


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The input of a check on a bundle."""

    bundle: Contents
    cluster: ClusterFacts
    market: ClusterOffers | None
    target: WatchTarget


def listed(names: Iterable[str]) -> str:
    ordered = list(dict.fromkeys(names))
    more = len(ordered) - MENTIONED
    return ", ".join(ordered[:MENTIONED]) + (f" and {more} more" if more > 0 else "")


def modes_text(bundle: Contents) -> str:
    return ", ".join(sorted(bundle.install_modes or ())) or "none"


def counted(count: int | None, what: str) -> Answer:
    if count is None:
        return Unread.FACT
    return {"counted": f"{count} {what}{'' if count == 1 else 's'}"} if count else None


def kinds_text(kinds: Iterable[ApiKind]) -> str:
    return listed(kind.label for kind in kinds)


def same_package(context: CheckContext, *kinds: str) -> list[OperatorFacts]:
    """The installed operators of the bundle's package, of these kinds or any."""
    package = context.bundle.package
    return [
        operator
        for operator in context.cluster.installed
        if operator.package == package and (not kinds or operator.kind in kinds)
    ]
