"""Decoding the API server's JSON: the fields retained of each kind, and documents of any depth.

`SHAPES` are msgspec types that drop every other field while JSON is being decoded: the icons and
description of a ClusterServiceVersion, the schema of a CustomResourceDefinition are a hundred times
as large as what is retained, and never become Python objects. Every leaf is `Any`: content is
untrusted, and readers check its types.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, field

from olmweb.kube.conditions import FIELDS as CONDITION_FIELDS
from olmweb.kube.resources import CLUSTER_EXTENSIONS, PLATFORM_OPERATORS, SUBSCRIPTIONS

DEPTH = 100  # arrays and objects around a value that is retained
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)

Decoded = TypeVar("Decoded")


def decoded(decode: Callable[[bytes], Decoded], document: bytes) -> Decoded:
    """`decode(document)`; of the `shallow` document when it is nested too deep.

    A cluster accepts documents of up to 10,000 levels (Go's encoding/json), such as an example in a
    CustomResourceDefinition's schema; msgspec ends at Python's recursion limit, about a tenth of
    that. No retained field lies nearly as deep. Raises what `decode` raises.
    """
    try:
        return decode(document)
    except RecursionError:
        return decode(shallow(document))


def shallow(document: bytes) -> bytes:
    """The same JSON with null for each array and object inside DEPTH others, in linear time."""
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(document):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
            if depth == DEPTH + 1:
                parts += [document[start : token.start()], b"null"]
        elif sign in (b"}", b"]"):
            if depth == DEPTH + 1:
                start = token.end()
            depth -= 1
    if depth <= DEPTH:
        parts.append(document[start:])
    return b"".join(parts)


def _shape(title: str, *plain: str, **nested: Any) -> type[Struct]:
    """A struct of optional fields: `plain` ones of any type, `nested` ones of the type given."""
    fields: list[tuple[str, Any, Any]] = [(name, Any, UNSET) for name in plain]
    fields += [(name, type_ | msgspec.UnsetType | None, UNSET) for name, type_ in nested.items()]
    return msgspec.defstruct(title, fields, omit_defaults=True)


def _many(name: str, *plain: str, **nested: Any) -> Any:
    """The type of a list of such structs."""
    shape: Any = _shape(name, *plain, **nested)
    return list[shape]


class _RetainedAnnotations(Struct, omit_defaults=True):
    """The annotations that are read; others may hold whole manifests."""

    generated_by: Any = field(name="olm.generated-by", default=UNSET)
    operator_group: Any = field(name="olm.operatorGroup", default=UNSET)
    operator_namespace: Any = field(name="olm.operatorNamespace", default=UNSET)
    target_namespaces: Any = field(name="olm.targetNamespaces", default=UNSET)
    provided_apis: Any = field(name="olm.providedAPIs", default=UNSET)
    own_catalogs_only: Any = field(
        name="olm.operatorframework.io/exclude-global-namespace-resolution", default=UNSET
    )
    properties: Any = field(name="operatorframework.io/properties", default=UNSET)
    own_properties: Any = field(name="olm.properties", default=UNSET)
    package_name: Any = field(name="olm.operatorframework.io/package-name", default=UNSET)
    bundle_name: Any = field(name="olm.operatorframework.io/bundle-name", default=UNSET)
    bundle_version: Any = field(name="olm.operatorframework.io/bundle-version", default=UNSET)


_OWNERS = _many("OwnerReference", "kind", "name", "uid", "controller")
_META = _shape(
    "Metadata",
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "labels"),
    annotations=_RetainedAnnotations,
    ownerReferences=_OWNERS,
)
_CONDITIONS = _many("Condition", *CONDITION_FIELDS)
_NAMED = _shape("Named", "name", "namespace")


def _object(spec: Any = None, status: Any = None, **more: Any) -> type[Struct]:
    """The shape of an object; every kind's status has conditions unless it is given."""
    if spec is not None:
        more["spec"] = spec
    more["status"] = _shape("Status", conditions=_CONDITIONS) if status is None else status
    return _shape("Object", "apiVersion", "kind", metadata=_META, **more)


def _status(*plain: str, **nested: Any) -> type[Struct]:
    return _shape("Status", *plain, conditions=_CONDITIONS, **nested)


_IMAGE = _shape("Source", image=_shape("Image", "ref"))
_CRD_DESCRIPTIONS = _shape(
    "Descriptions",
    owned=_many("Owned", "name"),
    required=_many("Required", "name"),
)
_REQUIREMENTS = _many(
    "Requirement",
    *("group", "version", "kind", "name", "status", "message"),
    dependents=_many("Dependent", "group", "version", "kind", "status", "message"),
)
_CSV = _object(
    spec=_shape(
        "Spec",
        *("displayName", "version", "replaces", "installModes", "minKubeVersion"),
        provider=_shape("Provider", "name"),
        customresourcedefinitions=_CRD_DESCRIPTIONS,
        apiservicedefinitions=_shape("Services", owned=_many("Service", "name")),
        webhookdefinitions=_many("Webhook", "type", "conversionCRDs"),
        install=_shape(
            "Install",
            spec=_shape("Strategy", deployments=_many("Deployment", "name")),
        ),
    ),
    status=_shape(
        "Status",
        *("phase", "reason", "message", "lastUpdateTime", "lastTransitionTime"),
        requirementStatus=_REQUIREMENTS,
    ),
)
_STEPS = _many(
    "Step",
    *("resolving", "status"),
    resource=_shape("StepResource", "kind", "name", "group", "version"),
)
_LOOKUPS = _many("Lookup", "identifier", catalogSourceRef=_NAMED, conditions=_CONDITIONS)
_INSTALL_PLAN = _object(
    spec=_shape("Spec", "approval", "approved", "clusterServiceVersionNames", "generation"),
    status=_status(
        *("phase", "message", "startTime"),
        plan=_STEPS,
        bundleLookups=_LOOKUPS,
    ),
)
_SUBSCRIPTION = _object(
    spec=_shape(
        "Spec",
        *("name", "channel", "source", "sourceNamespace", "startingCSV", "installPlanApproval"),
        "config",
    ),
    status=_status(
        *("state", "currentCSV", "installedCSV"),
        installPlanRef=_NAMED,
        catalogHealth=_many("CatalogHealth", "healthy", catalogSourceRef=_NAMED),
    ),
)
_CATALOG_SOURCE = _object(
    spec=_shape("Spec", "sourceType", "image", "address", "priority", "displayName"),
    status=_status(
        *("reason", "message", "latestImageRegistryPoll"),
        connectionState=_shape("Connection", "lastObservedState", "lastConnect", "address"),
        registryService=_shape("Service", "serviceName", "serviceNamespace", "port"),
    ),
)
_CRD = _object(
    spec=_shape(
        "Spec",
        "group",
        names=_shape("Names", "kind", "plural"),
        versions=_many("Version", "name", "served", "storage"),
        conversion=_shape(
            "Conversion",
            "strategy",
            webhook=_shape("Webhook", clientConfig=_shape("ClientConfig", service=_NAMED)),
        ),
    ),
    status=_status("storedVersions"),
)
_EVENT = _shape(
    "Event",
    *("apiVersion", "kind", "reason", "message", "type", "count", "firstTimestamp"),
    *("lastTimestamp", "eventTime", "reportingComponent"),
    metadata=_META,
    involvedObject=_shape("Involved", "kind", "namespace", "name", "apiVersion"),
    source=_shape("EventSource", "component"),
    series=_shape("Series", "count", "lastObservedTime"),
)
_STATE = _shape(
    "State",
    "running",
    waiting=_shape("Waiting", "reason", "message"),
    terminated=_shape("Terminated", "reason", "message", "exitCode"),
)
_CONTAINERS = _many("Container", "name", "ready", "restartCount", state=_STATE, lastState=_STATE)
_CLUSTER_CATALOG = _object(
    spec=_shape("Spec", "priority", "availabilityMode", source=_IMAGE),
    status=_status(
        *("lastUnpacked", "contentURL"), resolvedSource=_IMAGE, urls=_shape("Urls", "base")
    ),
)
SHAPES: dict[str, type[Struct]] = {
    "PlatformOperator": _object(spec=_shape("Spec", package=_shape("Package", "name"))),
    "ClusterOperator": _object(status=_status("versions")),
    "ClusterVersion": _object(
        status=_status(
            desired=_shape("Desired", "version"),
            availableUpdates=_many("Update", "version"),
            history=_many("History", "state", "version", "startedTime", "completionTime"),
        )
    ),
    "Console": _object(status=_status("consoleURL")),
    "BundleDeployment": _object(
        spec=_shape(
            "Spec",
            source=_IMAGE,
            template=_shape("Template", spec=_shape("TemplateSpec", source=_IMAGE)),
        )
    ),
    "Bundle": _object(spec=_shape("Spec", source=_IMAGE), status=_status("phase")),
    "ClusterExtension": _object(
        spec=_shape(
            "Spec",
            "namespace",
            source=_shape(
                "Source",
                "sourceType",
                catalog=_shape(
                    "Catalog",
                    *("packageName", "version", "channels", "selector"),
                    "upgradeConstraintPolicy",
                ),
            ),
            config=_shape("Config", "configType"),
        ),
        status=_status(
            activeRevisions=_many("Revision", "name"),
            install=_shape("Install", bundle=_shape("Bundle", "name", "version")),
        ),
    ),
    "ClusterObjectSet": _object(spec=_shape("Spec", "revision", "lifecycleState")),
    "ClusterCatalog": _CLUSTER_CATALOG,
    "Catalog": _CLUSTER_CATALOG,
    "CatalogSource": _CATALOG_SOURCE,
    "Subscription": _SUBSCRIPTION,
    "InstallPlan": _INSTALL_PLAN,
    "ClusterServiceVersion": _CSV,
    "OperatorGroup": _object(
        spec=_shape(
            "Spec",
            "targetNamespaces",
            "selector",
            "serviceAccountName",
            "upgradeStrategy",
            "staticProvidedAPIs",
        ),
        status=_status("namespaces"),
    ),
    "Operator": _object(
        status=_shape(
            "Status",
            components=_shape("Components", refs=_many("Ref", "kind", "namespace", "name")),
        )
    ),
    "OperatorCondition": _object(spec=_shape("Spec", "overrides", "conditions")),
    "CustomResourceDefinition": _CRD,
    "Deployment": _object(
        spec=_shape("Spec", "replicas", "selector"),
        status=_status(
            *("replicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
            *("updatedReplicas", "observedGeneration"),
        ),
    ),
    "Event": _EVENT,
    "Pod": _object(
        spec=_shape("Spec", "nodeName"),
        status=_status(
            *("phase", "reason", "message"),
            containerStatuses=_CONTAINERS,
            initContainerStatuses=_CONTAINERS,
        ),
    ),
}


class _ObjectList(Struct):
    items: list[msgspec.Raw] | None = None
    metadata: Any = None


class _RawEvent(Struct):
    type: str
    object: msgspec.Raw


_LIST = msgspec.json.Decoder(_ObjectList)
EVENT = msgspec.json.Decoder(_RawEvent)
_OBJECTS = {kind: msgspec.json.Decoder(shape) for kind, shape in SHAPES.items()}
_WHOLE = ("BOOKMARK", "ERROR")
# Definitions of the kinds that OLM Web writes: a form offers only fields that their schemas have.
WRITTEN = frozenset(
    f"{resource.plural}.{resource.group}"
    for resource in (CLUSTER_EXTENSIONS, PLATFORM_OPERATORS, SUBSCRIPTIONS)
)


def narrow_list(body: bytes, kind: str) -> dict[str, Any]:
    """`{"metadata": ..., "items": [...]}` of a list's JSON, its objects with retained fields only.

    An object whose fields have other types than the API's stays whole; so does a document that is
    not a list. Raises msgspec.DecodeError or UnicodeDecodeError when it is not JSON.
    """
    try:
        document = _LIST.decode(body)
    except msgspec.ValidationError:
        whole: dict[str, Any] = msgspec.json.decode(body)
        return whole
    return {
        "metadata": document.metadata,
        "items": [_narrow(item, kind) for item in document.items or ()],
    }


def narrow_event(line: bytes, kind: str) -> dict[str, Any]:
    """`{"type": ..., "object": ...}` of one line of a watch; see narrow_list.

    The objects of bookmarks and errors stay whole.
    """
    try:
        event = EVENT.decode(line)
    except msgspec.ValidationError:
        whole: dict[str, Any] = msgspec.json.decode(line)
        return whole
    if event.type in _WHOLE:
        return {"type": event.type, "object": msgspec.json.decode(event.object)}
    return {"type": event.type, "object": _narrow(event.object, kind)}


def _narrow(raw: msgspec.Raw, kind: str) -> Any:
    decoder = _OBJECTS.get(kind)
    if decoder is None:
        return msgspec.json.decode(raw)
    try:
        narrowed = msgspec.to_builtins(decoder.decode(raw))
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)
    name = (narrowed.get("metadata") or {}).get("name")
    if kind == "CustomResourceDefinition" and isinstance(name, str) and name in WRITTEN:
        return msgspec.json.decode(raw)
    return narrowed
