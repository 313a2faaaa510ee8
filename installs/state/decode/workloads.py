"""Decodes the CustomResourceDefinitions and Deployments of installed operators."""

from collections.abc import Mapping
from typing import Any, Protocol

from installs.diagnosis.catalog_pods import (
    CONNECTED,
    FAILED_ATTEMPT,
    OVERDUE,
    UNCONNECTED_SINCE,
)
from installs.state.decode.common import (
    LISTED,
    PACKAGE_LABEL,
    DecodedObject,
    Key,
    component_columns,
    decoded_object,
    labelled_owner,
)
from installs.state.decode.platform import RUKPAK
from installs.state.decode.schemas import config_schema, required_fields, schema_fields
from installs.state.decode.v1 import OLM_V1
from olmweb.kube.decode import WRITTEN
from olmweb.kube.fields import Object, dig, items, number, read_time, text, texts

_NO_OWNER: Key = ("", "", "")
_OF_PODS = ("pods", "pods_total", "endpoints")  # details


def custom_resource_definition(obj: Object) -> DecodedObject | None:
    """Its owner is named by labels; with OLM v0 it is the Operator `<package>.<namespace>`."""
    versions = items(obj, "spec", "versions", limit=100)
    kind, namespace, name = _crd_owner(obj)
    columns: dict[str, Any] = {
        "group": text(obj, "spec", "group", limit=253),
        "served_kind": text(obj, "spec", "names", "kind", limit=100),
        "served": [
            text(version, "name", limit=63) for version in versions if version.get("served") is True
        ],
        "defined": [text(version, "name", limit=63) for version in versions],
        "stored": [version[:63] for version in texts(obj, "status", "storedVersions", limit=100)],
        "owner_kind": kind[:100],
        "owner_namespace": namespace[:63],
        "owner_name": name[:253],
        "config_schemas": None,
    }
    schemas = {
        text(version, "name", limit=63): dig(version, "schema", "openAPIV3Schema")
        for version in versions
        if text(obj, "metadata", "name", limit=253) in WRITTEN and version.get("served") is True
    }
    details: dict[str, Any] = {}
    if schemas:
        details["fields"] = {name: schema_fields(schema) for name, schema in schemas.items()}
        details["required"] = {name: required_fields(schema) for name, schema in schemas.items()}
        columns["config_schemas"] = {
            name: config_schema(schema) for name, schema in schemas.items()
        }
    if service := _conversion_service(obj):
        details["conversion"] = service
    return decoded_object(obj, "CustomResourceDefinition", columns, details)


def _conversion_service(obj: Object) -> dict[str, str]:
    """Namespace and name of the Service of the conversion webhook; empty for a CRD without one."""
    conversion = dig(obj, "spec", "conversion")
    service = dig(conversion, "webhook", "clientConfig", "service")
    if text(conversion, "strategy", limit=20) != "Webhook" or not text(service, "name"):
        return {}
    return {
        "namespace": text(service, "namespace", limit=63),
        "name": text(service, "name", limit=253),
    }


def _crd_owner(obj: Object) -> Key:
    for prefix in (OLM_V1, RUKPAK):
        owner = labelled_owner(obj, prefix)
        if owner[2]:
            return owner
    labels = dig(obj, "metadata", "labels")
    keys = labels if isinstance(labels, Mapping) else ()
    named = min((label for label in keys if label.startswith(PACKAGE_LABEL)), default="")
    return ("Operator", "", named.removeprefix(PACKAGE_LABEL)) if named else _NO_OWNER


def deployment(obj: Object) -> DecodedObject | None:
    """A Deployment of the operator that its labels name.

    `details["pods"]` is filled by installs.state.pods.
    """
    status = dig(obj, "status")
    details = {
        "replicas": number(obj, "spec", "replicas", default=1),
        "ready": number(status, "readyReplicas"),
        "available": number(status, "availableReplicas"),
        "unavailable": number(status, "unavailableReplicas"),
        "updated": number(status, "updatedReplicas"),
        "observed_generation": number(status, "observedGeneration"),
        "selector": _selector(obj),
        "pods": [],
    }
    return decoded_object(obj, "Deployment", component_columns(obj, deployment_owner(obj)), details)


def is_available(details: Object) -> bool:
    """Whether all desired replicas of a Deployment are available, by its details."""
    return number(details, "available") >= number(details, "replicas")


class HasPods(Protocol):
    """A row or decoded object of a kind that has pods."""

    @property
    def kind(self) -> str: ...
    @property
    def details(self) -> Any: ...


def runs(obj: HasPods) -> bool:
    """Whether nothing is to be known of the object's pods: a Deployment is available, OLM is
    connected to a CatalogSource."""
    if obj.kind == "Deployment":
        return is_available(obj.details)
    return obj.kind != "CatalogSource" or text(obj.details, "state") == CONNECTED


def carry_pods(obj: DecodedObject, before: Object) -> dict[str, Any]:
    """The details of an object, with the stored pods while it does not run."""
    if runs(obj):
        return obj.details
    pods = {name: before[name] for name in _OF_PODS if name in before}
    return obj.details | pods | _carry_wait(obj, before)


def _carry_wait(obj: DecodedObject, before: Object) -> dict[str, Any]:
    """Since when OLM has not been connected to a CatalogSource, and whether it is overdue: after an
    attempt that failed it is, whatever the state of the next one."""
    first = read_time(before.get(UNCONNECTED_SINCE))
    if first is None or (obj.created_at is not None and first < obj.created_at):
        return {}  # it was connected, or is another object of the same name
    latest = read_time(obj.details.get(UNCONNECTED_SINCE))
    wait = {} if latest and latest < first else {UNCONNECTED_SINCE: before[UNCONNECTED_SINCE]}
    overdue = before.get(OVERDUE) is True or text(before, "state") == FAILED_ATTEMPT
    return wait | ({OVERDUE: True} if overdue else {})


def deployment_owner(obj: Object) -> Key:
    labels = dig(obj, "metadata", "labels")
    if name := text(labels, "olm.owner"):
        namespace = text(labels, "olm.owner.namespace") or text(obj, "metadata", "namespace")
        return "ClusterServiceVersion", namespace, name
    if name := labelled_owner(obj, RUKPAK)[2]:
        return "BundleDeployment", "", name
    if name := labelled_owner(obj, OLM_V1)[2]:
        return "ClusterExtension", "", name
    return _NO_OWNER


def _selector(obj: Object) -> dict[str, Any]:
    selector = dig(obj, "spec", "selector")
    result: dict[str, Any] = {}
    labels = dig(selector, "matchLabels")
    if isinstance(labels, Mapping):
        result["matchLabels"] = {text(key): text(value) for key, value in labels.items()}
    expressions = [
        {
            "key": text(expression, "key"),
            "operator": text(expression, "operator"),
            "values": texts(expression, "values", limit=LISTED),
        }
        for expression in items(selector, "matchExpressions", limit=20)
    ]
    return result | ({"matchExpressions": expressions} if expressions else {})
