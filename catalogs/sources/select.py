"""From a catalog's row to the source that reads it: which ways there are, in which order.

The Django side of `catalogs.sources`: settings, rows and clusters become functions and texts here.
Must not know what a source answers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from catalogs.models import Catalog
from catalogs.sources import guard, own, ways
from catalogs.sources.base import LIMITS, Limits, Source, SourceError
from catalogs.sources.catalogd import catalogd_source, direct_source, is_service
from catalogs.sources.http import Cut
from catalogs.sources.oci.credentials import credentials_for
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.package_manifest import PackageManifestSource
from catalogs.sources.registry import pods
from catalogs.sources.ways import Way, WaysSource
from olmweb.clusters import client_for
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import PODS
from olmweb.kube.session import IN_CLUSTER
from olmweb.models import Cluster

KINDS = Catalog.SourceKind
READABLE = (*own.KINDS, KINDS.CLUSTER_CATALOG, KINDS.CATALOG_SOURCE)
# After so long a failure content that tells less is better than content that is that old.
KEEP = timedelta(days=1)
RULES = guard.Rules()  # what addresses that a cluster names may be
ELSEWHERE = "OLM Web runs outside of the cluster, where a Service has no address"


def source_of(catalog: Catalog, limits: Limits = LIMITS) -> Source:
    """The source that the catalog's row names, best way first; nothing is asked yet.

    Raises SourceError for a row that names none.
    """
    if catalog.source_kind in own.KINDS:
        return own.own_source(catalog.source_kind, catalog.source, access=_access(), limits=limits)
    cluster = catalog.cluster
    if cluster is not None and catalog.source_kind == KINDS.CLUSTER_CATALOG:
        return _ClusterCatalog(catalog, cluster, limits).source()
    if cluster is not None and catalog.source_kind == KINDS.CATALOG_SOURCE:
        return _CatalogSource(catalog, cluster, limits).source()
    raise SourceError(
        f"{catalog} has a source of kind {catalog.source_kind}, which can't be read.",
        code="source-kind",
        hint="Catalogs are read from a file, a URL, an image, a ClusterCatalog or a CatalogSource.",
    )


def _access() -> own.Access:
    return own.Access(settings.INSECURE_REGISTRIES, settings.REGISTRY_CREDENTIALS)


class _Reached:
    """What both kinds of a cluster's catalogs have in common."""

    def __init__(self, catalog: Catalog, cluster: Cluster, limits: Limits) -> None:
        name = f"{catalog.namespace}/{catalog.name}" if catalog.namespace else catalog.name
        self.label = f"{catalog.source_kind} {name} of cluster {cluster.name}"
        self.catalog = catalog
        self.cluster = cluster
        self.limits = limits
        self.client = partial(client_for, cluster)

    @property
    def inside(self) -> bool:
        return self.cluster.context == IN_CLUSTER

    @property
    def keep(self) -> bool:
        since = self.catalog.failing_since
        has_content = bool(self.catalog.content_hash)
        return has_content and (since is None or timezone.now() - since < KEEP)

    def image_way(self, reference: str) -> Way:
        """Only where this process was given a login for the registry, or told that it is ours: a
        cluster's object alone must not make us ask a server somewhere."""
        if not reference:
            return Way(ways.IMAGE, why="the object names no image")
        try:
            parsed = parse_reference(reference)
            logins: Path = settings.REGISTRY_CREDENTIALS
            known = credentials_for(parsed, logins).known
        except SourceError as error:
            return Way(ways.IMAGE, why=error.message.rstrip("."))
        if not known and parsed.registry not in settings.INSECURE_REGISTRIES:
            return Way(ways.IMAGE, why=f"no pull credentials for {parsed.registry}")
        return Way(
            ways.IMAGE,
            partial(own.own_source, own.IMAGE, reference, access=_access(), limits=self.limits),
        )


class _ClusterCatalog(_Reached):
    """catalogd, directly where that can be reached, else through the API server; or the image."""

    def source(self) -> WaysSource:
        catalog = self.catalog
        found = [self._direct(), self._proxied(), self.image_way(catalog.resolved_digest)]
        return WaysSource(self.label, found, way_before=catalog.way, keep=self.keep)

    def _direct(self) -> Way:
        base = self.catalog.base_url
        if is_service(base):
            if not self.inside:
                return Way(ways.CATALOGD, why=ELSEWHERE)
            if urlsplit(base).scheme == "https" and not settings.CATALOGD_CA:
                return Way(
                    ways.CATALOGD, why="OLMWEB_CATALOGD_CA names no authority of its certificate"
                )
        return Way(
            ways.CATALOGD,
            partial(
                direct_source,
                *(self.label, base),
                ca_file=settings.CATALOGD_CA,
                limits=self.limits,
                rules=RULES,
            ),
        )

    def _proxied(self) -> Way:
        base = self.catalog.base_url
        if base and not is_service(base):
            return Way(ways.PROXIED, why="its address is not that of a Service of the cluster")
        return Way(
            ways.PROXIED,
            partial(catalogd_source, self.label, base, self.client, limits=self.limits),
        )


class _CatalogSource(_Reached):
    """The image; its registry over gRPC, directly or by port-forward; the PackageManifest API."""

    def __init__(self, catalog: Catalog, cluster: Cluster, limits: Limits) -> None:
        super().__init__(catalog, cluster, limits)
        self._pod: pods.Pod | None = None
        self._asked = False

    def source(self) -> WaysSource:
        catalog = self.catalog
        manifests = partial(
            PackageManifestSource,
            *(self.label, catalog.namespace, catalog.name, self.client),
            limits=self.limits,
        )
        found = [
            self.image_way(catalog.source if catalog.source != catalog.base_url else ""),
            self._direct(),
            Way(ways.FORWARDED, lambda: self._registry(self._forwarded)),
            Way(ways.PACKAGE_MANIFEST, manifests),
        ]
        return WaysSource(
            self.label, found, way_before=catalog.way, keep=self.keep, resolve=self.resolve
        )

    def resolve(self) -> str:
        """Digest of the image that its pod runs; "" where nobody can tell."""
        try:
            pod = self._serving_pod()
        except SourceError:
            return ""
        return pod.digest if pod else ""

    def _direct(self) -> Way:
        address = self.catalog.base_url
        if not address:
            return Way(ways.GRPC, why="the CatalogSource has no address yet")
        if is_service(f"//{address}") and not self.inside:
            return Way(ways.GRPC, why=ELSEWHERE)
        return Way(ways.GRPC, lambda: self._registry(self._target))

    def _registry(self, reach: object) -> Source:
        # Not before a registry is read: its libraries are 28 MB that most processes never use.
        module = import_module("catalogs.sources.registry.source")
        source: Source = module.RegistrySource(
            self.label, reach, digest=self.resolve, limits=self.limits
        )
        return source

    @contextmanager
    def _target(self) -> Iterator[str]:
        """The very address that was looked at, so that no name leads elsewhere meanwhile."""
        address = self.catalog.base_url
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SourceError(
                f"{self.label} has the address {address[:200]!r}, which is no host:port.",
                code="catalog-address",
                hint="Correct spec.address, or wait until OLM has made a Service for it.",
            )
        try:
            found = guard.checked_address(host.strip("[]"), int(port), address, RULES)
        except Cut as error:
            raise SourceError(str(error), code=error.code, hint=error.hint) from error
        yield f"ipv6:[{found}]:{port}" if ":" in found else f"ipv4:{found}:{port}"

    @contextmanager
    def _forwarded(self) -> Iterator[str]:
        pod = self._serving_pod()
        if pod is None:
            raise SourceError(
                f"{self.label} has no registry pod that is ready.",
                code="no-pod",
                hint=f"Look at the pods with the label {pods.LABEL}={self.catalog.name} in "
                f"namespace {self.catalog.namespace}.",
            )
        forwarded = import_module("olmweb.kube.portforward").forwarded
        try:
            with (
                self.client() as client,
                forwarded(client, self.catalog.namespace, pod.name, pod.port) as path,
            ):
                yield f"unix:{path}"
        except KubeError as error:
            raise _source_error(error) from error

    def _serving_pod(self) -> pods.Pod | None:
        """Asked for once. Raises SourceError."""
        if not self._asked:
            try:
                with self.client() as client:
                    pages = client.list_pages(
                        PODS,
                        PODS.versions[0],
                        namespace=self.catalog.namespace,
                        label_selector=f"{pods.LABEL}={self.catalog.name}",
                    )
                    self._pod = pods.serving([one for page in pages for one in page.items])
            except KubeError as error:
                raise _source_error(error) from error
            self._asked = True
        return self._pod


def _source_error(error: KubeError) -> SourceError:
    return SourceError(error.message, code=error.code, hint=error.hint)
