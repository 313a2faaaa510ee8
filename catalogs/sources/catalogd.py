"""Reads ClusterCatalogs from catalogd, directly or through the service proxy of the API server.

The service proxy needs only the kubeconfig: no route to the service, no certificate of catalogd.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from catalogs.sources import guard
from catalogs.sources.access_methods import CATALOGD, PROXIED
from catalogs.sources.base import LIMITS, Cut, Limits, SourceError
from catalogs.sources.http import HttpSource, StreamedAnswer
from olmweb.kube.errors import KubeError

if TYPE_CHECKING:
    from olmweb.kube.client import KubeClient
    from olmweb.kube.transport import RawResponse

_RULES = guard.Rules()
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# The path is sent with credentials: it must not lead out of the service's own paths.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*/?")


OpenClient = Callable[[], AbstractContextManager["KubeClient"]]


def content_path(base: str) -> str:
    """Path of all blobs of a catalog whose status has this address.

    `status.urls.base` is that of the catalog; the older `status.contentURL` is that of the content.
    """
    path = urlsplit(base).path.rstrip("/")
    return path if path.endswith("/all.json") else f"{path}/api/v1/all"


def proxy_path(base: str) -> str:
    """API server path of all the blobs of the catalog whose `status.urls.base` is `base`.

    The host must be a service's name, `service.namespace.svc...`. Raises SourceError.
    """
    try:
        parts = urlsplit(base)
        port = parts.port
    except ValueError:
        raise _unusable(base) from None
    labels = (parts.hostname or "").split(".")
    if (
        parts.scheme not in ("http", "https")
        or len(labels) < 2
        or labels[2:3] not in ([], ["svc"])
        or not all(_LABEL.fullmatch(label) for label in labels)
        or not _PATH.fullmatch(parts.path)
        or parts.query
        or parts.username is not None
    ):
        raise _unusable(base)
    port = port or (443 if parts.scheme == "https" else 80)
    service, namespace = labels[:2]
    return (
        f"/api/v1/namespaces/{namespace}/services/{parts.scheme}:{service}:{port}/proxy"
        f"{content_path(base)}"
    )


def _unusable(base: str) -> SourceError:
    if not base:
        return SourceError(
            "The ClusterCatalog has no address yet: its status.urls.base is empty.",
            code="not-ready",
            hint="Wait until its condition Serving is True; its conditions say what is missing.",
        )
    return SourceError(
        f"The ClusterCatalog's address {base[:200]!r} does not name a service of the cluster.",
        code="catalog-address",
        hint="status.urls.base must look like https://service.namespace.svc/catalogs/name.",
    )


def is_service(base: str) -> bool:
    """Whether the address names a Service, which only the cluster itself can reach."""
    try:
        labels = (urlsplit(base).hostname or "").split(".")
    except ValueError:
        return False
    return labels[2:3] == ["svc"]


def catalogd_source(
    label: str,
    base: str,
    open_client: OpenClient,
    *,
    limits: Limits = LIMITS,
) -> HttpSource:
    """Source through the service proxy. Raises SourceError for a bad `status.urls.base`."""
    path = proxy_path(base)
    return cluster_source(
        label, path, open_client, limits=limits, whole_lines=_has_lines(path), access_method=PROXIED
    )


def direct_source(
    label: str,
    base: str,
    *,
    ca_file: str = "",
    limits: Limits = LIMITS,
    rules: guard.Rules = _RULES,
) -> HttpSource:
    """Source from catalogd itself. `ca_file` has the authorities of its certificate, "" the usual
    ones. Redirects are not followed: catalogd sends none. Raises SourceError for a bad address.
    """
    if not base:
        raise _unusable(base)
    parts = guard.parse(base)
    url = parts._replace(path=content_path(base), query="", fragment="").geturl()
    rules = replace(rules, ca_file=ca_file)

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[StreamedAnswer]:
        with guard.request("GET", url, headers, rules, seconds=limits.seconds) as answer:
            yield guard.ResponseBody(answer)

    whole_lines = _has_lines(parts.path)
    return HttpSource(label, opener, limits=limits, whole_lines=whole_lines, access_method=CATALOGD)


def _has_lines(path: str) -> bool:
    """In `all.json` a blob need not be a line."""
    return not path.rstrip("/").endswith("/all.json")


def cluster_source(
    label: str,
    path: str,
    open_client: OpenClient,
    *,
    access_method: str,
    query: tuple[tuple[str, str], ...] = (),
    limits: Limits = LIMITS,
    whole_lines: bool = False,
) -> HttpSource:
    """Source for the API server's answer at `path`."""

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[StreamedAnswer]:
        with _cuts(), open_client() as client, client.stream(path, headers, query=query) as stream:
            yield _Guarded(stream)

    return HttpSource(
        label, opener, limits=limits, whole_lines=whole_lines, access_method=access_method
    )


class _Guarded:
    """A stream whose KubeErrors become Cut."""

    def __init__(self, stream: "RawResponse") -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        """The bytes that arrived, at most `size`. A read of exactly `size` bytes would go on for as
        long as the Service behind the API server sends a byte now and then."""
        with _cuts():
            return self._stream.read_some(size)


@contextmanager
def _cuts() -> Iterator[None]:
    try:
        yield
    except KubeError as error:
        raise Cut(error.message, code=error.code, hint=error.hint) from error
