"""Decodes OLM v0: Subscription, InstallPlan, ClusterServiceVersion, CatalogSource and others."""

from collections.abc import Mapping
from typing import Any

import msgspec

from catalogs.fbc.properties import DEPENDENCIES
from installs.diagnosis import types as diagnosis
from installs.diagnosis.catalog_pods import CONNECTED, UNCONNECTED_SINCE
from installs.diagnosis.resolution import RESOLUTION_FAILED, blamed_catalog, conflicting
from installs.state.decode.common import (
    LISTED,
    PACKAGE_LABEL,
    DecodedObject,
    Key,
    component_columns,
    decoded_object,
    read_conditions,
    text_fields,
)
from olmweb.kube.fields import Object, dig, items, number, read_time, text, texts

_PROPERTIES_LIMIT = 300_000  # characters of a CSV's properties that are parsed
_STEPS = 300
_DEPENDENTS = 200


def subscription(obj: Object) -> DecodedObject | None:
    current = text(obj, "status", "currentCSV", limit=253)
    installed = text(obj, "status", "installedCSV", limit=253)
    return decoded_object(
        obj,
        "Subscription",
        {
            "package": text(obj, "spec", "name", limit=253),
            "catalog": text(obj, "spec", "source", limit=253),
            "catalog_namespace": text(obj, "spec", "sourceNamespace", limit=63),
            "channel": text(obj, "spec", "channel", limit=300),
            "version_asked": text(obj, "spec", "startingCSV", limit=200),
            "bundle": installed or current,
        },
        {
            "approval": text(obj, "spec", "installPlanApproval", limit=60),
            "state": text(obj, "status", "state", limit=60),
            "current_csv": current,
            "installed_csv": installed,
            "starting_csv": text(obj, "spec", "startingCSV", limit=253),
            "config": _config(obj),
            "conflicting_csvs": ", ".join(_conflicting(obj)),
            "blamed_catalog": _blamed_catalog(obj),
            "plan": text(obj, "status", "installPlanRef", "name", limit=253),
            "plan_namespace": text(obj, "status", "installPlanRef", "namespace", limit=63),
            "generated_by": text(obj, "metadata", "annotations", "olm.generated-by", limit=253),
            "catalog_health": [
                {
                    "name": text(catalog, "catalogSourceRef", "name", limit=253),
                    "namespace": text(catalog, "catalogSourceRef", "namespace", limit=63),
                    "healthy": catalog.get("healthy") is True,
                }
                for catalog in items(obj, "status", "catalogHealth", limit=100)
            ],
        },
    )


def _conflicting(obj: Object) -> tuple[str, ...]:
    """The ClusterServiceVersions that a failed resolution names: whether they still exist decides
    whether the failure is current."""
    conditions = diagnosis.read_conditions(read_conditions(obj))
    return conflicting(conditions, text(obj, "metadata", "namespace"))


def _blamed_catalog(obj: Object) -> str:
    """NAMESPACE/NAME of the CatalogSource that prevents resolution, which may be another one than
    that of the Subscription."""
    conditions = diagnosis.read_conditions(read_conditions(obj))
    blamed = (
        blamed_catalog(condition.message)
        for condition in conditions
        if condition.type == RESOLUTION_FAILED and condition.status == "True"
    )
    return next(("/".join(catalog) for catalog in blamed if catalog), "")


def _config(obj: Object) -> list[str]:
    """The fields that the Subscription configures: env, resources, tolerations ..."""
    config = dig(obj, "spec", "config")
    return sorted(str(field)[:60] for field in config)[:20] if isinstance(config, Mapping) else []


def install_plan(obj: Object) -> DecodedObject | None:
    plan = items(obj, "status", "plan", limit=100_000)
    owners = items(obj, "metadata", "ownerReferences", limit=LISTED)
    details = {
        "approval": text(obj, "spec", "approval", limit=60),
        "approved": dig(obj, "spec", "approved") is True,
        "csvs": texts(obj, "spec", "clusterServiceVersionNames", limit=LISTED),
        "generation": number(obj, "spec", "generation"),
        "message": text(obj, "status", "message"),
        "start_time": text(obj, "status", "startTime", limit=60),
        "steps": [_step(step) for step in plan[:_STEPS]],
        "steps_total": len(plan),
        "lookups": [_lookup(lookup) for lookup in items(obj, "status", "bundleLookups", limit=100)],
        "subscriptions": [
            text(owner, "name", limit=253)
            for owner in owners
            if owner.get("kind") == "Subscription"
        ],
    }
    return decoded_object(
        obj, "InstallPlan", component_columns(obj, phase=text(obj, "status", "phase")), details
    )


def _step(step: Object) -> dict[str, str]:
    resource = dig(step, "resource")
    return {
        "resolving": text(step, "resolving", limit=253),
        "kind": text(resource, "kind", limit=100),
        "name": text(resource, "name", limit=253),
        "group": text(resource, "group", limit=253),
        "version": text(resource, "version", limit=63),
        "status": text(step, "status", limit=60),
    }


def _lookup(lookup: Object) -> dict[str, Any]:
    return {
        "identifier": text(lookup, "identifier", limit=1000),
        "catalog": text(lookup, "catalogSourceRef", "name", limit=253),
        "catalog_namespace": text(lookup, "catalogSourceRef", "namespace", limit=63),
        "conditions": read_conditions({"status": lookup}),
    }


def cluster_service_version(obj: Object) -> DecodedObject | None:
    """None for a copied CSV. Its conditions are a log, which is not stored."""
    if dig(obj, "metadata", "labels", "olm.copiedFrom") or (
        dig(obj, "status", "reason") == "Copied"
    ):
        return None
    modes = items(obj, "spec", "installModes", limit=20)
    crds = dig(obj, "spec", "customresourcedefinitions")
    definitions = items(obj, "spec", "webhookdefinitions", limit=LISTED)
    webhooks = [text(webhook, "type", limit=60) for webhook in definitions]
    requirements = items(obj, "status", "requirementStatus", limit=LISTED)
    apis = items(obj, "spec", "apiservicedefinitions", "owned", limit=LISTED)
    noted = _properties(obj)
    properties = noted or []
    details = {
        "reason": text(obj, "status", "reason", limit=1024),
        "message": text(obj, "status", "message"),
        "display_name": text(obj, "spec", "displayName", limit=300),
        "version": text(obj, "spec", "version", limit=200),
        "replaces": text(obj, "spec", "replaces", limit=253),
        "provider": text(obj, "spec", "provider", "name", limit=300),
        "package": _package(obj, properties),
        "last_update": text(obj, "status", "lastUpdateTime", limit=60),
        "last_transition": text(obj, "status", "lastTransitionTime", limit=60),
        "requirements": [_requirement(requirement) for requirement in requirements],
        "deployments": _names(obj, "spec", "install", "spec", "deployments"),
        "owned_crds": _names(crds, "owned"),
        "required_crds": _names(crds, "required"),
        "install_modes": {
            text(mode, "type", limit=60): mode.get("supported") is True for mode in modes
        },
        "webhooks": len(webhooks),
        "conversion_webhooks": webhooks.count("ConversionWebhook"),
        "conversion_crds": sorted(
            {crd for webhook in definitions for crd in texts(webhook, "conversionCRDs", limit=100)}
        )[:LISTED],
        "api_services": len(apis),
        "owned_apis": [f"{text(api, 'version')}.{text(api, 'group')}"[:253] for api in apis],
        "min_kube": text(obj, "spec", "minKubeVersion", limit=60),
        "max_openshift": None if noted is None else _max_openshift(noted),
        "dependencies": sorted(
            {str(item["type"]) for item in properties if item.get("type") in DEPENDENCIES}
        ),
    }
    columns = component_columns(obj, phase=text(obj, "status", "phase"))
    return decoded_object(obj, "ClusterServiceVersion", columns, details, conditions=[])


def _names(value: Any, *path: str) -> list[str]:
    return [text(item, "name", limit=253) for item in items(value, *path, limit=LISTED)]


def _requirement(requirement: Object) -> dict[str, Any]:
    """Unsatisfied dependents come first if the list has to be cut."""
    dependents = [
        text_fields(dependent, "group", "version", "kind", "status", "message")
        for dependent in items(requirement, "dependents", limit=10_000)
    ]
    if len(dependents) > _DEPENDENTS:
        dependents.sort(key=lambda dependent: dependent["status"] == "Satisfied")
    return {
        **text_fields(requirement, "group", "version", "kind", "name", "status", "message"),
        "dependents": dependents[:_DEPENDENTS],
    }


def _properties(obj: Object) -> list[Object] | None:
    """The bundle's properties in the CSV's annotations: OLM's, else the author's, else None.

    OLM's own is `operatorframework.io/properties`, {"properties": [...]}; the author's is
    `olm.properties`, a list (operator-lifecycle-manager pkg/controller/registry/resolver/
    projection).
    """
    for name in ("operatorframework.io/properties", "olm.properties"):
        noted = text(obj, "metadata", "annotations", name, limit=_PROPERTIES_LIMIT)
        try:
            content = msgspec.json.decode(noted) if noted else None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        listed = items({"all": content}, "all", limit=10_000) or items(
            content, "properties", limit=10_000
        )
        if listed:
            return listed
    return None


def _max_openshift(properties: list[Object]) -> list[str]:
    """All values of the property, numbers as text, without quotes as in OLM."""
    values = [
        item.get("value") for item in properties if item.get("type") == "olm.maxOpenShiftVersion"
    ]
    return [text({"value": str(value)}, "value", limit=60).strip('"') for value in values][:20]


def _package(obj: Object, properties: list[Object]) -> str:
    """The package of a CSV, from OLM's property, else from the name of a label."""
    for item in properties:
        if item.get("type") == "olm.package" and (
            name := text(item, "value", "packageName", limit=253)
        ):
            return name
    labels = dig(obj, "metadata", "labels")
    suffix = "." + text(obj, "metadata", "namespace")
    for label in labels if isinstance(labels, dict) else ():
        if label.startswith(PACKAGE_LABEL) and label.endswith(suffix):
            return text(label[len(PACKAGE_LABEL) : -len(suffix)], limit=253)
    return ""


def catalog_source(obj: Object) -> DecodedObject | None:
    """The app `catalogs` reads its content and gets the object itself.

    While OLM is not connected, `unconnected_since` is the latest time at which that began: OLM sets
    lastConnect with each change of the state, and again when the state of another catalog changed.
    installs.state.decode.workloads.carry_pods keeps the first one.
    """
    connection = dig(obj, "status", "connectionState")
    details = {
        "type": text(obj, "spec", "sourceType", limit=60),
        "image": text(obj, "spec", "image", limit=1000),
        "address": text(obj, "spec", "address", limit=1000),
        "connected_to": text(connection, "address", limit=1000),
        "priority": number(obj, "spec", "priority"),
        "display_name": text(obj, "spec", "displayName", limit=300),
        "state": text(connection, "lastObservedState", limit=60),
        "last_connect": text(connection, "lastConnect", limit=60),
        "reason": text(obj, "status", "reason", limit=1024),
        "message": text(obj, "status", "message"),
        "last_poll": text(obj, "status", "latestImageRegistryPoll", limit=60),
    }
    if details["state"] != CONNECTED:
        created = text(obj, "metadata", "creationTimestamp", limit=60)
        details[UNCONNECTED_SINCE] = details["last_connect"] or created
    return decoded_object(obj, "CatalogSource", component_columns(obj), details, source=obj)


# With this annotation OLM resolves from catalogs of the namespace only (step_resolver.go).
_OWN_CATALOGS_ONLY = "olm.operatorframework.io/exclude-global-namespace-resolution"


def operator_group(obj: Object) -> DecodedObject | None:
    provided = text(obj, "metadata", "annotations", "olm.providedAPIs")
    own_catalogs_only = text(obj, "metadata", "annotations", _OWN_CATALOGS_ONLY, limit=5)
    details = {
        "targets": texts(obj, "spec", "targetNamespaces", limit=LISTED),
        "selects": bool(dig(obj, "spec", "selector")),
        "selector": _label_selector(dig(obj, "spec", "selector")),
        "namespaces": texts(obj, "status", "namespaces", limit=LISTED),
        "service_account": text(obj, "spec", "serviceAccountName", limit=253),
        "upgrade_strategy": text(obj, "spec", "upgradeStrategy", limit=60),
        "static_apis": dig(obj, "spec", "staticProvidedAPIs") is True,
        "provided_apis": [api for api in provided.split(",") if api],
        "own_catalogs_only": own_catalogs_only == "true",
    }
    return decoded_object(obj, "OperatorGroup", component_columns(obj), details)


def _label_selector(selector: Any) -> dict[str, Any]:
    """The known fields of a LabelSelector; empty without one, and for one with more than LISTED
    labels, expressions or values of an expression, as a part of it would select other namespaces.
    """
    labels, expressions = dig(selector, "matchLabels"), dig(selector, "matchExpressions")
    wanted = labels if isinstance(labels, dict) else {}
    rows = (
        [row for row in expressions if isinstance(row, dict)]
        if isinstance(expressions, list)
        else []
    )
    if len(wanted) > LISTED or len(rows) > LISTED:
        return {}
    terms = []
    for row in rows:
        values = row.get("values")
        if isinstance(values, list) and len(values) > LISTED:
            return {}
        names = texts(row, "values", limit=LISTED)
        term = {"key": text(row, "key", limit=316), "operator": text(row, "operator", limit=60)}
        terms.append(term | ({"values": names} if names else {}))
    result: dict[str, Any] = {}
    if wanted:
        result["matchLabels"] = {str(key)[:316]: str(value)[:63] for key, value in wanted.items()}
    if terms:
        result["matchExpressions"] = terms
    return result


def operator_condition(obj: Object) -> DecodedObject | None:
    """Has the name of the CSV that it is about."""
    owner: Key = (
        "ClusterServiceVersion",
        text(obj, "metadata", "namespace"),
        text(obj, "metadata", "name"),
    )
    details = {
        "overrides": read_conditions({"status": {"conditions": dig(obj, "spec", "overrides")}}),
        "spec_conditions": read_conditions(
            {"status": {"conditions": dig(obj, "spec", "conditions")}}
        ),
    }
    return decoded_object(obj, "OperatorCondition", component_columns(obj, owner), details)


def olm_operator(obj: Object) -> DecodedObject | None:
    """OLM's Operator, which groups the objects of a package. It belongs to the only Subscription
    among them, else to the only CSV."""
    refs = [
        {
            "kind": text(ref, "kind", limit=100),
            "namespace": text(ref, "namespace", limit=63),
            "name": text(ref, "name", limit=253),
        }
        for ref in items(obj, "status", "components", "refs", limit=LISTED)
    ]
    owner: Key = ("", "", "")
    for kind in ("ClusterServiceVersion", "Subscription"):
        listed = [ref for ref in refs if ref["kind"] == kind]
        if len(listed) == 1:
            owner = kind, listed[0]["namespace"], listed[0]["name"]
    return decoded_object(obj, "Operator", component_columns(obj, owner), {"refs": refs})


def event(obj: Object) -> DecodedObject | None:
    """`columns` are those of installs.models.Event, with the key of the involved object."""
    about = dig(obj, "involvedObject")
    series = dig(obj, "series")
    first = read_time(dig(obj, "firstTimestamp")) or read_time(dig(obj, "eventTime"))
    last = read_time(dig(obj, "lastTimestamp")) or read_time(dig(series, "lastObservedTime"))
    created = read_time(dig(obj, "metadata", "creationTimestamp"))
    source = text(obj, "reportingComponent", limit=253)
    count = number(obj, "count") or number(series, "count") or 1
    columns = {
        "kind": text(about, "kind", limit=100),
        "namespace": text(about, "namespace", limit=63),
        "name": text(about, "name", limit=253),
        "type": text(obj, "type", limit=20),
        "reason": text(obj, "reason", limit=128),
        "message": text(obj, "message"),
        "source": source or text(obj, "source", "component", limit=253),
        "count": min(max(count, 1), 2**31 - 1),
        "first_at": first or created,
        "last_at": last or first or created,
    }
    decoded = decoded_object(obj, "Event", columns, conditions=[])
    return decoded if decoded is not None and decoded.uid and columns["name"] else None
