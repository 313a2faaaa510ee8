"""What is read of a cluster: a feed is a kind, or a selection of one, listed and watched as one.

Pure data, and the way from an object of a feed to what is kept of it. Knows no database.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installs.state.decode import DECODERS, Kept
from olmweb.kube.client import Discovery
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CATALOG_SOURCES,
    CATALOGS,
    CLUSTER_CATALOGS,
    CLUSTER_EXTENSIONS,
    CLUSTER_OBJECT_SETS,
    CLUSTER_OPERATORS,
    CLUSTER_SERVICE_VERSIONS,
    CLUSTER_VERSIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    INSTALL_PLANS,
    OLM_OPERATORS,
    OPERATOR_CONDITIONS,
    OPERATOR_GROUPS,
    PLATFORM_OPERATORS,
    SUBSCRIPTIONS,
    Resource,
    Served,
)


@dataclass(frozen=True, slots=True)
class Feed:
    """`name` is unique: the kind, with its selection in brackets when it has several feeds.

    `owner_kind` is the kind that owns every object of the feed, where that is its selection.
    `needs`: kinds of which a cluster must serve one, else nothing can be in the feed. `page` is
    the number of objects asked for at once, so that memory stays small.
    """

    name: str
    resource: Resource
    label_selector: str = ""
    field_selector: str = ""
    page: int = 500
    owner_kind: str = ""
    needs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.resource.kind


def _of_kind(resource: Resource, label_selector: str = "", page: int = 500) -> Feed:
    return Feed(resource.kind, resource, label_selector, page=page)


def _deployments(label: str, owner_kind: str) -> Feed:
    name = f"Deployment ({label})"
    return Feed(name, DEPLOYMENTS, label, owner_kind=owner_kind, needs=(owner_kind,))


def _events(api_version: str, *needs: str, kind: str = "") -> Feed:
    selector = f"involvedObject.apiVersion={api_version}"
    selector += f",involvedObject.kind={kind}" if kind else ""
    return Feed(f"Event ({api_version})", EVENTS, field_selector=selector, needs=needs)


_OWNERS = ("ClusterServiceVersion", "BundleDeployment", "ClusterExtension")

FEEDS: tuple[Feed, ...] = (
    _of_kind(PLATFORM_OPERATORS),
    _of_kind(CLUSTER_OPERATORS),
    _of_kind(CLUSTER_VERSIONS),
    _of_kind(BUNDLE_DEPLOYMENTS),
    _of_kind(BUNDLES),
    _of_kind(CLUSTER_EXTENSIONS),
    _of_kind(CLUSTER_OBJECT_SETS, page=50),  # a revision holds the manifests of its bundle
    _of_kind(CLUSTER_CATALOGS),
    _of_kind(CATALOGS),
    _of_kind(CATALOG_SOURCES),
    _of_kind(SUBSCRIPTIONS),
    _of_kind(INSTALL_PLANS, page=50),  # a plan holds the manifests of its steps
    _of_kind(CLUSTER_SERVICE_VERSIONS, "!olm.copiedFrom", page=50),
    _of_kind(OPERATOR_GROUPS),
    _of_kind(OLM_OPERATORS),
    _of_kind(OPERATOR_CONDITIONS),
    _of_kind(CUSTOM_RESOURCE_DEFINITIONS, page=25),
    _deployments("olm.owner", "ClusterServiceVersion"),
    _deployments("core.rukpak.io/owner-name", "BundleDeployment"),
    _deployments("olm.operatorframework.io/owner-name", "ClusterExtension"),
    _events("platform.openshift.io/v1alpha1", "PlatformOperator"),
    _events("core.rukpak.io/v1alpha2", "BundleDeployment"),
    _events("core.rukpak.io/v1alpha1", "BundleDeployment", "Bundle"),
    _events("olm.operatorframework.io/v1", "ClusterExtension", "ClusterCatalog"),
    _events("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "Subscription"),
    _events("operators.coreos.com/v1", "OperatorGroup", "Operator"),
    _events("operators.coreos.com/v2", "OperatorCondition"),
    _events("apps/v1", *_OWNERS, kind="Deployment"),
)
BY_NAME: dict[str, Feed] = {feed.name: feed for feed in FEEDS}


def feeds_of(kinds: Iterable[str]) -> tuple[Feed, ...]:
    """The feeds of these kinds."""
    wanted = frozenset(kinds)
    return tuple(feed for feed in FEEDS if feed.kind in wanted)


def served_by(feed: Feed, discovery: Discovery) -> Served | None:
    """What to ask the cluster for; None when it has nothing of the kind, which is normal.

    Raises the KubeError of a discovery that failed: then nobody knows.
    """
    for kinds in ((feed.kind,), feed.needs):
        if kinds and not any(kind in discovery.served for kind in kinds):
            failed = [discovery.failed[kind] for kind in kinds if kind in discovery.failed]
            if failed:
                error: KubeError = failed[0]
                raise error
            return None
    return discovery.served[feed.kind]


def decode(feed: Feed, obj: dict[str, Any]) -> Kept | None:
    """What is kept of an object of this feed; None for one that does not belong to it."""
    kept = DECODERS[feed.kind](obj)
    if kept is not None and feed.owner_kind and kept.columns["owner_kind"] != feed.owner_kind:
        return None
    return kept


@dataclass(frozen=True, slots=True)
class Change:
    """An object as a watch told of it; `gone` when it was deleted or left the feed's selection."""

    feed: str
    gone: bool
    kept: Kept


@dataclass(frozen=True, slots=True)
class Position:
    """How far a feed has been read; everything up to it has been handed over."""

    resource_version: str
    heard_at: datetime
