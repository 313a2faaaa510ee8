"""Selects the source of a Catalog row: its access methods and their order."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any

from django.conf import settings
from django.utils import timezone

from catalogs.models import Catalog
from catalogs.sources import access_methods, guard
from catalogs.sources.access_methods import AccessMethod, FallbackSource
from catalogs.sources.base import LIMITS, ContentSource, Cut, Limits, SourceError
from catalogs.sources.catalogd import catalogd_source, direct_source, is_service
from catalogs.sources.oci.auth import credentials_for
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.oci.source import ImageSource
from catalogs.sources.own_catalogs import KINDS as OWN_KINDS
from catalogs.sources.own_catalogs import own_source
from catalogs.sources.package_manifest import PackageManifestSource
from catalogs.sources.registry_access import registry_access
from catalogs.sources.spool import SPACE
from olmweb.clusters import client_for
from olmweb.kube import conditions
from olmweb.kube.errors import KubeError
from olmweb.kube.fields import dig, items
from olmweb.kube.resources import PODS
from olmweb.kube.session import IN_CLUSTER
from olmweb.models import Cluster

KINDS = Catalog.SourceKind
# After a longer failure, content of lower fidelity replaces the old content.
KEEP = timedelta(days=1)
SPACE.limit = settings.SPOOL_LIMIT
RULES = guard.Rules()  # for addresses that a cluster names
POD_LABEL = "olm.catalogSource"
REGISTRY_PORT = 50051
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SERVICE = re.compile(r"([a-z0-9](?:[-a-z0-9]*)\.[a-z0-9](?:[-a-z0-9]*)\.svc)(?:\.[-a-z0-9.]+)?")
ELSEWHERE = "OLM Web runs outside of the cluster, where a Service has no address"


def source_of(catalog: Catalog, limits: Limits = LIMITS) -> ContentSource:
    """The source of the catalog's row, without a request. Raises SourceError if it has none."""
    if catalog.source_kind in OWN_KINDS:
        return own_source(
            catalog.source_kind, catalog.source, access=registry_access, limits=limits
        )
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


@dataclass(frozen=True, slots=True)
class RegistryPod:
    """`digest` is that of the catalog's image, "" if unknown; `port` that of the registry."""

    name: str
    digest: str
    port: int = REGISTRY_PORT


class _ClusterSource:
    """A catalog of a cluster: a ClusterCatalog or a CatalogSource."""

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

    def allowed_host(self, host: str, port: object, address: str) -> str:
        """The host to connect to for an address that an object of the cluster names.

        The object's author may lead OLM Web to a Service of the same cluster, or to a host that
        the administrator allows. Raises SourceError, whose message is the `why` of AccessMethod.
        """
        if {host, f"{host}:{port}"} & settings.GRPC_HOSTS:
            return host
        service = service_host(host)
        if service and self.inside:
            return service
        if service:
            raise SourceError(ELSEWHERE, code="catalog-address")
        raise SourceError(
            f"its address {address[:200]} is neither a Service of the cluster "
            "(name.namespace.svc) nor listed in OLMWEB_GRPC_HOSTS",
            code="catalog-address",
        )

    def image_method(self, reference: str) -> AccessMethod:
        """Requires a login for the registry, one of OLMWEB_INSECURE_REGISTRIES or a mirror: an
        object of a cluster must not make OLM Web contact an arbitrary server."""
        name = access_methods.IMAGE
        if not reference:
            return AccessMethod(name, why="the object names no image")
        try:
            parsed = parse_reference(reference)
            complete = credentials_for(parsed, settings.REGISTRY_CREDENTIALS).complete
            access = registry_access(cluster=self.cluster)
            configured = any(e.configured for e in access.registries.endpoints(parsed))
        except SourceError as error:
            return AccessMethod(name, why=error.message.rstrip("."))
        if not complete and not configured and parsed.registry not in settings.INSECURE_REGISTRIES:
            return AccessMethod(name, why=f"no pull credentials for {parsed.registry}")
        return AccessMethod(
            name, partial(ImageSource, reference, access=access, limits=self.limits)
        )


class _ClusterCatalog(_ClusterSource):
    """Reads catalogd, directly or through the API server, or the image."""

    def source(self) -> FallbackSource:
        catalog = self.catalog
        methods = [self._direct(), self._proxied(), self.image_method(catalog.resolved_digest)]
        return FallbackSource(self.label, methods, previous=catalog.access_method, keep=self.keep)

    def _direct(self) -> AccessMethod:
        """The address is written by whoever may write the status of ClusterCatalogs."""
        base, ca_file = self.catalog.base_url, settings.CATALOGD_CA
        if not base:
            return AccessMethod(
                access_methods.CATALOGD, why="the ClusterCatalog has no address yet"
            )
        try:
            parts = guard.parse(base)
            host = self.allowed_host(guard.host_of(parts), guard.port_of(parts), base)
        except SourceError as error:
            return AccessMethod(access_methods.CATALOGD, why=error.message.rstrip("."))
        if is_service(base) and parts.scheme == "https" and not ca_file:
            why = "OLMWEB_CATALOGD_CA names no authority of its certificate"
            return AccessMethod(access_methods.CATALOGD, why=why)
        netloc = host if parts.port is None else f"{host}:{parts.port}"
        url = parts._replace(netloc=netloc).geturl()
        source = partial(direct_source, self.label, url, limits=self.limits, rules=RULES)
        return AccessMethod(access_methods.CATALOGD, partial(source, ca_file=ca_file))

    def _proxied(self) -> AccessMethod:
        base = self.catalog.base_url
        if base and not is_service(base):
            why = "its address is not that of a Service of the cluster"
            return AccessMethod(access_methods.PROXIED, why=why)
        source = partial(catalogd_source, self.label, base, self.client, limits=self.limits)
        return AccessMethod(access_methods.PROXIED, source)


class _CatalogSource(_ClusterSource):
    """Reads the image, its registry over gRPC, directly or forwarded, or PackageManifests."""

    def __init__(self, catalog: Catalog, cluster: Cluster, limits: Limits) -> None:
        super().__init__(catalog, cluster, limits)
        self._pod: RegistryPod | None = None
        self._pod_read = False

    def source(self) -> FallbackSource:
        catalog = self.catalog
        manifests = partial(
            PackageManifestSource,
            *(self.label, catalog.namespace, catalog.name, self.client),
            limits=self.limits,
        )
        methods = [
            self.image_method(catalog.source if catalog.source != catalog.base_url else ""),
            self._direct(),
            AccessMethod(access_methods.FORWARDED, lambda: self._registry(self._forwarded)),
            AccessMethod(access_methods.PACKAGE_MANIFEST, manifests),
        ]
        return FallbackSource(
            self.label,
            methods,
            previous=catalog.access_method,
            keep=self.keep,
            resolve=self.resolve,
        )

    def resolve(self) -> str:
        """Digest of the image of its pod; "" if unknown."""
        try:
            pod = self._serving_pod()
        except SourceError:
            return ""
        return pod.digest if pod else ""

    def _direct(self) -> AccessMethod:
        """The address is written by whoever may write CatalogSources."""
        address = self.catalog.base_url
        if not address:
            return AccessMethod(access_methods.GRPC, why="the CatalogSource has no address yet")
        host, _, port = address.rpartition(":")
        try:
            host = self.allowed_host(host, port, address)
        except SourceError as error:
            return AccessMethod(access_methods.GRPC, why=error.message)
        return AccessMethod(
            access_methods.GRPC, lambda: self._registry(partial(self._target, host, port))
        )

    def _registry(self, open_target: object) -> ContentSource:
        # Imported when a registry is read: its libraries are 28 MB that most processes never use.
        module = import_module("catalogs.sources.registry.source")
        source: ContentSource = module.RegistrySource(
            self.label, open_target, digest=self.resolve, limits=self.limits
        )
        return source

    @contextmanager
    def _target(self, host: str, port: str) -> Iterator[str]:
        """The checked address, so that the name can't resolve to another one meanwhile."""
        address = self.catalog.base_url
        if not host or not port.isdigit():
            raise SourceError(
                f"{self.label} has the address {address[:200]!r}, which is no host:port.",
                code="catalog-address",
                hint="Correct spec.address, or wait until OLM has made a Service for it.",
            )
        try:
            checked = guard.checked_address(host.strip("[]"), int(port), address, RULES)
        except Cut as error:
            raise SourceError(
                str(error), code=error.code, hint=error.hint, reason=error.reason
            ) from error
        yield f"ipv6:[{checked}]:{port}" if ":" in checked else f"ipv4:{checked}:{port}"

    @contextmanager
    def _forwarded(self) -> Iterator[str]:
        pod = self._serving_pod()
        if pod is None:
            raise SourceError(
                f"{self.label} has no registry pod that is ready.",
                code="no-pod",
                hint=f"Look at the pods with the label {POD_LABEL}={self.catalog.name} in "
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

    def _serving_pod(self) -> RegistryPod | None:
        """Listed once. Raises SourceError."""
        if not self._pod_read:
            try:
                with self.client() as client:
                    pages = client.list_pages(
                        PODS,
                        PODS.versions[0],
                        namespace=self.catalog.namespace,
                        label_selector=f"{POD_LABEL}={self.catalog.name}",
                    )
                    self._pod = serving_pod([pod for page in pages for pod in page.items])
            except KubeError as error:
                raise _source_error(error) from error
            self._pod_read = True
        return self._pod


def service_host(host: str) -> str:
    """`name.namespace.svc` of a Service's host name, "" for any other name.

    Without the cluster's domain: another domain after `svc` would lead out of the cluster."""
    match = _SERVICE.fullmatch(host)
    return match[1] if match else ""


def _source_error(error: KubeError) -> SourceError:
    return SourceError(error.message, code=error.code, hint=error.hint)


def serving_pod(pods: Iterable[Mapping[str, Any]]) -> RegistryPod | None:
    """The newest ready pod; None without one.

    Several pods are a replacement in progress: the Service may lead to any of them, so the digest
    is unknown.
    """
    remaining = [pod for pod in pods if not dig(pod, "metadata", "deletionTimestamp")]
    ready = [
        pod for pod in remaining if conditions.status_of(conditions.read(pod), "Ready") == "True"
    ]
    if not ready:
        return None
    newest = max(ready, key=lambda pod: str(dig(pod, "metadata", "creationTimestamp")))
    digest = _digest(newest) if len(remaining) == 1 else ""
    return RegistryPod(str(dig(newest, "metadata", "name")), digest, _port(newest))


def _digest(pod: Mapping[str, Any]) -> str:
    """Digest of the container that holds the catalog, as OLM compares it (grpc.go, imageID): with
    extractContent that is the second init container, else the only container."""
    init = items(pod, "status", "initContainerStatuses")
    containers = items(pod, "status", "containerStatuses")
    holders = init[1:] if len(init) == 2 and len(containers) == 1 else containers
    match = _DIGEST.search(str(holders[0].get("imageID") or "")) if holders else None
    return match[0] if match else ""


def _port(pod: Mapping[str, Any]) -> int:
    for container in items(pod, "spec", "containers"):
        for port in items(container, "ports"):
            number = port.get("containerPort")
            if port.get("name") == "grpc" and isinstance(number, int):
                return number
    return REGISTRY_PORT
