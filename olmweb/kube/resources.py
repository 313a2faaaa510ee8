"""The kinds that OLM Web reads or writes, as constants. Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of the Kubernetes API; `versions` has the preferred version first."""

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool = False

    def path(self, version: str, namespace: str = "", name: str = "") -> str:
        """Path below the API server's address, e.g. `/apis/GROUP/VERSION/PLURAL/NAME`."""
        root = group_path(self.group, version)
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{middle}/{self.plural}" + (f"/{name}" if name else "")


def group_path(group: str, version: str) -> str:
    """Path of a group's discovery; the core group has no name and its own root."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


@dataclass(frozen=True, slots=True)
class Served:
    """A resource that a cluster serves, and the version to request."""

    resource: Resource
    version: str


PLATFORM_OPERATORS = Resource(
    "platform.openshift.io", ("v1alpha1",), "platformoperators", "PlatformOperator"
)
CLUSTER_OPERATORS = Resource("config.openshift.io", ("v1",), "clusteroperators", "ClusterOperator")
CLUSTER_VERSIONS = Resource("config.openshift.io", ("v1",), "clusterversions", "ClusterVersion")
CONSOLES = Resource("config.openshift.io", ("v1",), "consoles", "Console")
BUNDLE_DEPLOYMENTS = Resource(
    "core.rukpak.io", ("v1alpha2", "v1alpha1"), "bundledeployments", "BundleDeployment"
)
BUNDLES = Resource("core.rukpak.io", ("v1alpha1",), "bundles", "Bundle")
CLUSTER_EXTENSIONS = Resource(
    "olm.operatorframework.io", ("v1",), "clusterextensions", "ClusterExtension"
)
CLUSTER_CATALOGS = Resource(
    "olm.operatorframework.io", ("v1", "v1alpha1"), "clustercatalogs", "ClusterCatalog"
)
# The name of ClusterCatalogs before catalogd moved into operator-controller.
CATALOGS = Resource("catalogd.operatorframework.io", ("v1alpha1",), "catalogs", "Catalog")

CLUSTER_OBJECT_SETS = Resource(
    "olm.operatorframework.io", ("v1",), "clusterobjectsets", "ClusterObjectSet"
)
CATALOG_SOURCES = Resource(
    "operators.coreos.com", ("v1alpha1",), "catalogsources", "CatalogSource", namespaced=True
)
SUBSCRIPTIONS = Resource(
    "operators.coreos.com", ("v1alpha1",), "subscriptions", "Subscription", namespaced=True
)
INSTALL_PLANS = Resource(
    "operators.coreos.com", ("v1alpha1",), "installplans", "InstallPlan", namespaced=True
)
CLUSTER_SERVICE_VERSIONS = Resource(
    "operators.coreos.com",
    ("v1alpha1",),
    "clusterserviceversions",
    "ClusterServiceVersion",
    namespaced=True,
)
OPERATOR_GROUPS = Resource(
    "operators.coreos.com", ("v1",), "operatorgroups", "OperatorGroup", namespaced=True
)
OLM_OPERATORS = Resource("operators.coreos.com", ("v1",), "operators", "Operator")
OPERATOR_CONDITIONS = Resource(
    "operators.coreos.com", ("v2", "v1"), "operatorconditions", "OperatorCondition", namespaced=True
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", ("v1",), "customresourcedefinitions", "CustomResourceDefinition"
)
DEPLOYMENTS = Resource("apps", ("v1",), "deployments", "Deployment", namespaced=True)
EVENTS = Resource("", ("v1",), "events", "Event", namespaced=True)
PODS = Resource("", ("v1",), "pods", "Pod", namespaced=True)
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", ("v1",), "endpointslices", "EndpointSlice", namespaced=True
)
# Listed as metadata only, by installs.facts.inventory: not in ALL.
NAMESPACES = Resource("", ("v1",), "namespaces", "Namespace")
ROLES = Resource("rbac.authorization.k8s.io", ("v1",), "roles", "Role", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", ("v1",), "clusterroles", "ClusterRole")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", ("v1",), "clusterrolebindings", "ClusterRoleBinding"
)
# Other cluster-scoped kinds that a bundle may contain; names and owners only.
_CONSOLE = "console.openshift.io"
SHIPPED_CLUSTER_WIDE = (
    Resource("scheduling.k8s.io", ("v1",), "priorityclasses", "PriorityClass"),
    Resource(
        "security.openshift.io", ("v1",), "securitycontextconstraints", "SecurityContextConstraints"
    ),
    Resource(_CONSOLE, ("v1", "v1alpha1"), "consoleplugins", "ConsolePlugin"),
    Resource(_CONSOLE, ("v1",), "consolelinks", "ConsoleLink"),
    Resource(_CONSOLE, ("v1",), "consoleclidownloads", "ConsoleCLIDownload"),
    Resource(_CONSOLE, ("v1",), "consolequickstarts", "ConsoleQuickStart"),
    Resource(_CONSOLE, ("v1",), "consoleyamlsamples", "ConsoleYAMLSample"),
)
_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = Resource(
    _ADMISSION, ("v1",), "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_WEBHOOKS = Resource(
    _ADMISSION, ("v1",), "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
# Listed by catalogs.sources.registry_access when images are pulled.
MIRROR_SETS = (
    Resource("config.openshift.io", ("v1",), "imagedigestmirrorsets", "ImageDigestMirrorSet"),
    Resource("config.openshift.io", ("v1",), "imagetagmirrorsets", "ImageTagMirrorSet"),
    Resource(
        "operator.openshift.io",
        ("v1alpha1",),
        "imagecontentsourcepolicies",
        "ImageContentSourcePolicy",
    ),
)
API_SERVICES = Resource("apiregistration.k8s.io", ("v1",), "apiservices", "APIService")
# Only written, with an install; never listed.
SERVICE_ACCOUNTS = Resource("", ("v1",), "serviceaccounts", "ServiceAccount", namespaced=True)
# Only deleted, with a retry: OLM v0 unpacks a bundle with these.
CONFIG_MAPS = Resource("", ("v1",), "configmaps", "ConfigMap", namespaced=True)
JOBS = Resource("batch", ("v1",), "jobs", "Job", namespaced=True)

ALL: tuple[Resource, ...] = (
    PLATFORM_OPERATORS,
    CLUSTER_OPERATORS,
    CLUSTER_VERSIONS,
    CONSOLES,
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    CLUSTER_OBJECT_SETS,
    CLUSTER_CATALOGS,
    CATALOGS,
    CATALOG_SOURCES,
    SUBSCRIPTIONS,
    INSTALL_PLANS,
    CLUSTER_SERVICE_VERSIONS,
    OPERATOR_GROUPS,
    OLM_OPERATORS,
    OPERATOR_CONDITIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    PODS,
)
