"""What a bundle would be installed into: the offers of all catalogs, and what a cluster has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path as File
from typing import NamedTuple

import yaml

from catalogs.contents.bundle_facts import Contents, Kind
from catalogs.semver import Version


class Target(StrEnum):
    """Which namespaces the OperatorGroup of a Subscription's namespace selects.

    SINGLE is another one than its own; MULTI are several, MIXED several with its own among them.
    """

    ALL = "all"
    OWN = "own"
    SINGLE = "one"
    MULTI = "multi"
    MIXED = "mixed"


class Offered(NamedTuple):
    """A package in one ClusterCatalog; `deprecated` when every bundle of it is."""

    catalog: str
    priority: int = 0
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class CatalogOffers:
    """What the catalogs of one cluster offer together.

    `providers` maps a kind to the packages with a bundle that provides it, `always` a package to
    the kinds that every bundle of it provides, `versions` a package to the versions of its bundles.
    `offers` has the packages that several of the cluster's available
    ClusterCatalogs have, `catalog` among them, which is the one that is judged.
    """

    providers: Mapping[Kind, frozenset[str]] = field(default_factory=dict)
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    catalog: str = ""
    offers: Mapping[str, tuple[Offered, ...]] = field(default_factory=dict)
    always: Mapping[str, frozenset[Kind]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Crd:
    """A CustomResourceDefinition of the cluster; the owner is empty when none is known. `objects`:
    that there are at least so many of it, None where they were not counted."""

    served: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    owner_kind: str = ""
    owner_namespace: str = ""
    owner: str = ""
    objects: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """An OperatorGroup, with the namespaces that it came to select; an empty name is all.

    `own_catalogs_only` keeps the catalogs of all namespaces out of the resolution in its own.
    """

    namespace: str
    name: str
    selects: frozenset[str]
    own_catalogs_only: bool = False

    @property
    def target(self) -> Target | None:
        """None for one that selects nothing.

        Mirrors InstallModeSet.Supports of operator-framework/api
        pkg/operators/v1alpha1/clusterserviceversion.go.
        """
        if not self.selects:
            return None
        if "" in self.selects:
            return Target.ALL
        own = self.namespace in self.selects
        if len(self.selects) == 1:
            return Target.OWN if own else Target.SINGLE
        return Target.MIXED if own else Target.MULTI


@dataclass(frozen=True, slots=True)
class Installed:
    """One operator of the cluster."""

    kind: str
    namespace: str
    name: str
    package: str
    bundle: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster; None where it was not read.

    `namespaces` and `roles` map a name to the Helm release that owns it, as NAMESPACE/NAME, empty
    for none. `roles` are those of the namespace in which PlatformOperators keep their releases,
    `shared`, by kind, what has one name in the whole cluster, whose owner may be
    ClusterExtension/NAME.
    `apis` maps an APIService to package and namespace of the ClusterServiceVersion that owns it;
    `foreign_apis` are those that OLM v0 did not make. `gates` are the feature gates that
    operator-controller's arguments name, and whether they are on.
    """

    name: str
    served: frozenset[Kind] | None = None
    crds: Mapping[str, Crd] | None = None
    namespaces: Mapping[str, str] | None = None
    roles: Mapping[str, str] | None = None
    shared: Mapping[str, Mapping[str, str]] | None = None
    kube_version: Version | None = None
    openshift_version: Version | None = None
    installed: tuple[Installed, ...] = ()
    groups: tuple[Group, ...] = ()
    apis: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    foreign_apis: frozenset[str] | None = None
    gates: Mapping[str, bool] | None = None

    def serves(self, kind: Kind, contents: Contents) -> bool | None:
        """Whether it serves `kind` once the bundle's own CRDs are there; None: not known.

        Without a list of what it serves, only the kinds of Kubernetes itself are known.
        """
        if kind in contents.provides or kind in built_in():
            return True
        return None if self.served is None else kind in self.served


NO_CLUSTER = ClusterFacts("")
# Where PlatformOperators keep their Helm releases, and their namespaced objects without a namespace
# land: 4.12's platform-operators manifests, and the messages of the published audit.
PLATFORM_NAMESPACE = "openshift-platform-operators"


@cache
def built_in() -> frozenset[Kind]:
    """The kinds that every supported Kubernetes serves (1.25 and later)."""
    text = File(__file__).with_name("built_in_kinds.yaml").read_text(encoding="utf-8")
    found = set()
    for api_version, kinds in yaml.load(text, yaml.CSafeLoader).items():
        group, _, version = api_version.rpartition("/")
        found |= {Kind(group, version, kind) for kind in kinds}
    return frozenset(found)
