"""The watched resources: the kinds, or selections of a kind, that are listed and watched.

Data and small functions on it; uses no database.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installs.state.decode import DECODERS, DecodedObject
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
    CONSOLES,
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
class WatchedResource:
    """A kind, or a selection of it, that is listed and watched with one request each.

    `name` is unique: the kind, followed by the selection in parentheses if the kind has several.
    `owner_kind` is the kind that owns all selected objects, if the selection is by owner. `needs`
    are kinds of which the cluster must serve at least one, or no object can exist. `page_size`
    limits the objects of one response and so the memory in use.
    """

    name: str
    resource: Resource
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 500
    owner_kind: str = ""
    needs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.resource.kind


def _kind(resource: Resource, label_selector: str = "", page_size: int = 500) -> WatchedResource:
    return WatchedResource(resource.kind, resource, label_selector, page_size=page_size)


def _deployments(label: str, owner_kind: str) -> WatchedResource:
    name = f"Deployment ({label})"
    return WatchedResource(name, DEPLOYMENTS, label, owner_kind=owner_kind, needs=(owner_kind,))


def _events(api_version: str, *needs: str, kind: str = "") -> WatchedResource:
    selector = f"involvedObject.apiVersion={api_version}"
    selector += f",involvedObject.kind={kind}" if kind else ""
    return WatchedResource(f"Event ({api_version})", EVENTS, field_selector=selector, needs=needs)


_OWNERS = ("ClusterServiceVersion", "BundleDeployment", "ClusterExtension")

WATCHED_RESOURCES: tuple[WatchedResource, ...] = (
    _kind(PLATFORM_OPERATORS),
    _kind(CLUSTER_OPERATORS),
    _kind(CLUSTER_VERSIONS),
    _kind(CONSOLES),
    _kind(BUNDLE_DEPLOYMENTS),
    _kind(BUNDLES),
    _kind(CLUSTER_EXTENSIONS),
    _kind(CLUSTER_OBJECT_SETS, page_size=50),  # a revision holds the manifests of its bundle
    _kind(CLUSTER_CATALOGS),
    _kind(CATALOGS),
    _kind(CATALOG_SOURCES),
    _kind(SUBSCRIPTIONS),
    _kind(INSTALL_PLANS, page_size=50),  # a plan holds the manifests of its steps
    _kind(CLUSTER_SERVICE_VERSIONS, "!olm.copiedFrom", page_size=50),
    _kind(OPERATOR_GROUPS),
    _kind(OLM_OPERATORS),
    _kind(OPERATOR_CONDITIONS),
    _kind(CUSTOM_RESOURCE_DEFINITIONS, page_size=25),
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
BY_NAME: dict[str, WatchedResource] = {watched.name: watched for watched in WATCHED_RESOURCES}


def resources_of_kinds(kinds: Iterable[str]) -> tuple[WatchedResource, ...]:
    """The watched resources of these kinds."""
    wanted = frozenset(kinds)
    return tuple(watched for watched in WATCHED_RESOURCES if watched.kind in wanted)


def served_by(watched: WatchedResource, discovery: Discovery) -> Served | None:
    """The served API of the resource; None if the cluster does not serve it, which is normal.

    Raises the KubeError of the discovery if that failed for the kind.
    """
    for kinds in ((watched.kind,), watched.needs):
        if kinds and not any(kind in discovery.served for kind in kinds):
            failed = [discovery.failed[kind] for kind in kinds if kind in discovery.failed]
            if failed:
                error: KubeError = failed[0]
                raise error
            return None
    return discovery.served[watched.kind]


def decode(watched: WatchedResource, obj: dict[str, Any]) -> DecodedObject | None:
    """Decodes an object; None if it is invalid or does not belong to the selection."""
    decoded = DECODERS[watched.kind](obj)
    if (
        decoded is not None
        and watched.owner_kind
        and decoded.columns["owner_kind"] != watched.owner_kind
    ):
        return None
    return decoded


@dataclass(frozen=True, slots=True)
class Change:
    """A watch event. `resource` names the WatchedResource; `deleted` also means that the object
    left its selection."""

    resource: str
    deleted: bool
    obj: DecodedObject


@dataclass(frozen=True, slots=True)
class Position:
    """The resourceVersion up to which a watched resource has been read."""

    resource_version: str
    last_event_at: datetime
