"""Facts of a bundle from its olm.bundle blob: the APIs it provides and requires, its objects.

A blob with olm.bundle.object properties has all of them. With olm.csv.metadata, only the bundle's
image has the objects and the webhooks, and the facts about them are None.
"""

import base64
import binascii
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from catalogs.fbc import blob as fbc
from catalogs.fbc.bundle import CsvAnnotations, ObjectProperty
from olmweb.kube.decode import decoded as decoded_document

CSV_KIND = "ClusterServiceVersion"
CRD_KIND = "CustomResourceDefinition"
CONVERSION = "ConversionWebhook"


class ApiKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """The kind as sentences name it."""
        return f"{self.kind} ({self.api_version})"


class Shipped(NamedTuple):
    """An object among a bundle's manifests."""

    kind: ApiKind
    name: str
    namespace: str = ""


class Hook(NamedTuple):
    """A webhook that the CSV defines."""

    type: str
    name: str
    deployment: str = ""
    crds: tuple[str, ...] = ()  # that it converts


@dataclass(frozen=True, slots=True)
class Contents:
    """Facts of one bundle; None for facts that only the bundle's image has."""

    name: str = ""
    package: str = ""
    version: str = ""
    install_modes: frozenset[str] | None = None  # the supported ones
    repeated_install_modes: tuple[str, ...] = ()
    owned_api_services: int | None = None
    owned_apis: tuple[str, ...] = ()  # names of these APIServices
    webhooks: int | None = None
    conversion_webhooks: int | None = None
    webhook_rules: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()  # (groups, resources)
    hooks: tuple[Hook, ...] = ()
    deployments: tuple[str, ...] | None = None  # names
    folders: tuple[str, ...] = ()  # inside of manifests/ of an inspected image
    provides: frozenset[ApiKind] = frozenset()
    requires: tuple[ApiKind, ...] = ()
    required_packages: tuple[tuple[str, str], ...] = ()  # (name, blang range)
    required_labels: tuple[str, ...] = ()
    constraints: tuple[Any, ...] = ()  # olm.constraint values as decoded
    native_apis: tuple[ApiKind, ...] = ()
    required_crds: tuple[tuple[str, ApiKind], ...] = ()  # (name of the CRD, required kind)
    owned_crds: tuple[str, ...] = ()  # names
    min_kube_version: str = ""
    max_openshift_version: str = ""
    suggested_namespace: str = ""
    prohibited: bool = False  # the legacy property olm.deprecated
    deprecated: bool = False  # by olm.deprecations
    shipped: tuple[Shipped, ...] | None = None  # without the ClusterServiceVersion
    crd_versions: tuple[tuple[str, frozenset[str]], ...] | None = None  # of the CRDs shipped
    # Served versions of CRDs without a conversion webhook, which existing objects must satisfy.
    crds_strict: tuple[tuple[str, frozenset[str]], ...] | None = None


class _Description(msgspec.Struct):
    """Of a CRD (name is plural.group) or an APIService (group and kind)."""

    name: str = ""
    group: str = ""
    version: str = ""
    kind: str = ""


class _Descriptions(msgspec.Struct):
    owned: list[_Description] | None = None
    required: list[_Description] | None = None


class _WebhookRule(msgspec.Struct):
    apiGroups: list[str] | None = None
    resources: list[str] | None = None


class _Webhook(msgspec.Struct):
    type: str = ""
    generateName: str = ""
    deploymentName: str = ""
    conversionCRDs: list[str] | None = None
    rules: list[_WebhookRule] | None = None


class _Deployment(msgspec.Struct):
    name: str = ""


class _Strategy(msgspec.Struct):
    deployments: list[_Deployment] | None = None


class _Install(msgspec.Struct):
    spec: _Strategy | None = None


class _Mode(msgspec.Struct):
    type: str = ""
    supported: bool = False


class _Spec(msgspec.Struct):
    """The spec of a ClusterServiceVersion."""

    installModes: list[_Mode] | None = None
    customresourcedefinitions: _Descriptions | None = None
    apiservicedefinitions: _Descriptions | None = None
    webhookdefinitions: list[_Webhook] | None = None
    install: _Install | None = None
    nativeAPIs: list[_Description] | None = None
    minKubeVersion: str | None = None


class _Metadata(_Spec):
    """An olm.csv.metadata: members of the spec, two of them under other names."""

    customresourcedefinitions: _Descriptions | None = msgspec.field(
        default=None, name="crdDescriptions"
    )
    apiservicedefinitions: _Descriptions | None = msgspec.field(
        default=None, name="apiServiceDefinitions"
    )
    annotations: CsvAnnotations | None = None


class _ShippedMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    annotations: CsvAnnotations | None = None


class _CrdVersion(msgspec.Struct):
    name: str = ""
    served: bool = False


class _Conversion(msgspec.Struct):
    strategy: str = ""


class _CrdSpec(msgspec.Struct):
    versions: list[_CrdVersion] | None = None
    version: str | None = None
    conversion: _Conversion | None = None


class _ShippedObject(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    metadata: _ShippedMeta | None = None
    spec: msgspec.Raw = fbc.NULL


class _Label(msgspec.Struct):
    label: str = ""


def read_contents(blob: bytes, *, deprecated: bool = False) -> Contents:
    """The facts of an olm.bundle blob in JSON; values of a wrong type count as absent. `deprecated`
    comes from olm.deprecations. Raises one of `fbc.DECODE_ERRORS` for anything but a JSON
    object."""
    bundle = fbc.decode(blob, fbc.BundleIn)[0]
    properties = fbc.properties_of(bundle)
    facts = _from_properties(properties)
    manifests = [manifest for manifest in map(_manifest, properties) if manifest is not None]
    csv = next((manifest for manifest in manifests if manifest.kind == CSV_KIND), None)
    metadata = next((prop for prop in properties if prop.type == "olm.csv.metadata"), None)
    if csv is not None:
        facts |= _from_csv(csv)
    elif metadata is not None:
        described = fbc.decode(metadata.value, _Metadata)[0]
        facts |= _from_spec(described, described.annotations)
    if manifests:
        facts |= _from_manifests([manifest for manifest in manifests if manifest is not csv])
    return Contents(
        name=bundle.name or "", package=bundle.package or "", deprecated=deprecated, **facts
    )


def _from_properties(properties: list[fbc.PropertyIn]) -> dict[str, Any]:
    provides, requires, packages, labels, constraints = set(), [], [], [], []
    facts: dict[str, Any] = {"prohibited": False}
    for prop in properties:
        if prop.type == "olm.gvk":
            provides.add(_kind(bytes(prop.value)))
        elif prop.type == "olm.gvk.required":
            requires.append(_kind(bytes(prop.value)))
        elif prop.type == "olm.package.required":
            needed = fbc.decode(prop.value, fbc.RequiredPackage)[0]
            packages.append((needed.packageName or "", needed.versionRange or ""))
        elif prop.type == "olm.label.required":
            labels.append(fbc.decode(prop.value, _Label)[0].label)
        elif prop.type == "olm.constraint":
            constraints.append(msgspec.json.decode(prop.value))
        elif prop.type == "olm.deprecated":
            facts["prohibited"] = True
        elif prop.type == "olm.maxOpenShiftVersion":
            value = msgspec.json.decode(prop.value)
            facts["max_openshift_version"] = str(value).strip('"') if value is not None else ""
        elif prop.type == "olm.package":
            facts["version"] = fbc.decode(prop.value, fbc.PackageProperty)[0].version or ""
    return facts | {
        "provides": frozenset(provides),
        "requires": tuple(requires),
        "required_packages": tuple(packages),
        "required_labels": tuple(labels),
        "constraints": tuple(constraints),
    }


@lru_cache(maxsize=1024)
def _kind(value: bytes) -> ApiKind:
    """The kind in an olm.gvk property. Cached: the versions of a package repeat the same bytes."""
    gvk = fbc.decode(value, fbc.Gvk)[0]
    return ApiKind(gvk.group or "", gvk.version or "", gvk.kind or "")


def _manifest(prop: fbc.PropertyIn) -> _ShippedObject | None:
    """The object in an olm.bundle.object property; None for another type or invalid content."""
    if prop.type != "olm.bundle.object":
        return None
    data = fbc.decode(prop.value, ObjectProperty)[0].data
    try:
        text = base64.b64decode(data or "")
        if not text.lstrip().startswith(b"{"):
            text = fbc.yaml_to_json(text)
        return decoded_document(lambda document: fbc.decode(document, _ShippedObject)[0], text)
    except (binascii.Error, ValueError, fbc.BadBlob, *fbc.DECODE_ERRORS):
        return None


def _from_csv(manifest: _ShippedObject) -> dict[str, Any]:
    spec = fbc.decode(manifest.spec, _Spec)[0] if manifest.spec != fbc.NULL else _Spec()
    annotations = manifest.metadata.annotations if manifest.metadata else None
    webhooks = spec.webhookdefinitions or []
    conversions = [webhook for webhook in webhooks if webhook.type == CONVERSION]
    strategy = (spec.install.spec if spec.install else None) or _Strategy()
    return {
        **_from_spec(spec, annotations),
        "webhooks": len(webhooks),
        "conversion_webhooks": len(conversions),
        "webhook_rules": tuple(
            (tuple(rule.apiGroups or ()), tuple(rule.resources or ()))
            for webhook in webhooks
            if webhook.type != CONVERSION
            for rule in webhook.rules or ()
        ),
        "hooks": tuple(
            Hook(
                *(webhook.type, webhook.generateName, webhook.deploymentName),
                tuple(webhook.conversionCRDs or ()) if webhook.type == CONVERSION else (),
            )
            for webhook in webhooks
        ),
        "deployments": tuple(deployment.name for deployment in strategy.deployments or ()),
    }


def _from_spec(spec: _Spec, annotations: CsvAnnotations | None) -> dict[str, Any]:
    """The facts that a ClusterServiceVersion and its olm.csv.metadata have in common."""
    crds = spec.customresourcedefinitions or _Descriptions()
    services = (spec.apiservicedefinitions or _Descriptions()).owned or ()
    modes = spec.installModes
    counts = Counter(mode.type for mode in modes or ())
    return {
        "install_modes": None
        if modes is None
        else frozenset(mode.type for mode in modes if mode.supported),
        "repeated_install_modes": tuple(type_ for type_, times in counts.items() if times > 1),
        "owned_crds": tuple(crd.name for crd in crds.owned or ()),
        "required_crds": tuple(
            (crd.name, ApiKind(crd.name.partition(".")[2], crd.version, crd.kind))
            for crd in crds.required or ()
        ),
        "owned_api_services": len(services),
        "owned_apis": tuple(f"{service.version}.{service.group}" for service in services),
        "native_apis": tuple(
            ApiKind(api.group, api.version, api.kind) for api in spec.nativeAPIs or ()
        ),
        "min_kube_version": spec.minKubeVersion or "",
        "suggested_namespace": (annotations.suggestedNamespace if annotations else None) or "",
    }


def _from_manifests(manifests: list[_ShippedObject]) -> dict[str, Any]:
    shipped, crds, strict = [], [], []
    for manifest in manifests:
        group, _, version = manifest.apiVersion.rpartition("/")
        name = manifest.metadata.name if manifest.metadata else ""
        namespace = manifest.metadata.namespace if manifest.metadata else ""
        shipped.append(Shipped(ApiKind(group, version, manifest.kind), name, namespace))
        if manifest.kind == CRD_KIND:
            spec = (
                fbc.decode(manifest.spec, _CrdSpec)[0] if manifest.spec != fbc.NULL else _CrdSpec()
            )
            versions = {version.name for version in spec.versions or ()} | {spec.version or ""}
            crds.append((name, frozenset(versions - {""})))
            served = {version.name for version in spec.versions or () if version.served}
            if spec.conversion is None or spec.conversion.strategy != "Webhook":
                strict.append((name, frozenset(served or {spec.version or ""})))
    return {
        "shipped": tuple(shipped),
        "crd_versions": tuple(crds),
        "crds_strict": tuple(strict),
    }
