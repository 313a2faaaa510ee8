"""The kinds that OLM Web reads, as constants. Pure data: no I/O, no policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of the Kubernetes API; `versions` has the one we prefer first."""

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool = False

    def path(self, version: str, namespace: str = "", name: str = "") -> str:
        """Path below the API server's address, e.g. `/apis/GROUP/VERSION/PLURAL/NAME`."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{middle}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Served:
    """A resource that a cluster serves, and the version to ask for."""

    resource: Resource
    version: str


PLATFORM_OPERATORS = Resource(
    "platform.openshift.io", ("v1alpha1",), "platformoperators", "PlatformOperator"
)
CLUSTER_OPERATORS = Resource("config.openshift.io", ("v1",), "clusteroperators", "ClusterOperator")
CLUSTER_VERSIONS = Resource("config.openshift.io", ("v1",), "clusterversions", "ClusterVersion")
BUNDLE_DEPLOYMENTS = Resource(
    "core.rukpak.io", ("v1alpha2", "v1alpha1"), "bundledeployments", "BundleDeployment"
)
BUNDLES = Resource("core.rukpak.io", ("v1alpha1",), "bundles", "Bundle")
CLUSTER_EXTENSIONS = Resource(
    "olm.operatorframework.io", ("v1",), "clusterextensions", "ClusterExtension"
)
CLUSTER_CATALOGS = Resource(
    "olm.operatorframework.io", ("v1",), "clustercatalogs", "ClusterCatalog"
)

ALL: tuple[Resource, ...] = (
    PLATFORM_OPERATORS,
    CLUSTER_OPERATORS,
    CLUSTER_VERSIONS,
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    CLUSTER_CATALOGS,
)
