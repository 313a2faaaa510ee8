"""The content of a ClusterCatalog, read from catalogd: directly, or through the API server.

The API server's service proxy needs nothing but the kubeconfig: no route to the service, no
certificate of catalogd.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit

from catalogs.sources import guard
from catalogs.sources.access_methods import CATALOGD, PROXIED
from catalogs.sources.base import LIMITS, Cut, Limits, SourceError
from catalogs.sources.http import Answer, HttpSource
from olmweb.kube.errors import KubeError

_RULES = guard.Rules()
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# The path is sent with our credentials: nothing in it may lead out of the service's own space.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*/?")


class _Stream(Protocol):
    status: int
    headers: Mapping[str, str]

    def read(self, size: int = ..., /) -> bytes: ...


class Client(Protocol):
    """The part of olmweb.kube's client that is used here."""

    def stream(
        self,
        path: str,
        headers: dict[str, str] | None = None,
        *,
        query: tuple[tuple[str, str], ...] = (),
    ) -> AbstractContextManager[_Stream]: ...


OpenClient = Callable[[], AbstractContextManager[Client]]


def content_path(base: str) -> str:
    """Path of all blobs below the address that a catalog's status has.

    `status.urls.base` is the catalog's own; `status.contentURL`, which came before it, is the
    content's already.
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
    """Through the service proxy, by the catalog's `status.urls.base`. Raises SourceError for a bad
    one."""
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
    """From catalogd itself. `ca_file` holds who signed its certificate, "" the usual authorities.

    A redirect is not followed: catalogd sends none. Raises SourceError for a bad address.
    """
    if not base:
        raise _unusable(base)
    parts = guard.parse(base)
    url = parts._replace(path=content_path(base), query="", fragment="").geturl()
    rules = replace(rules, ca_file=ca_file)

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[Answer]:
        with guard.request("GET", url, headers, rules) as answer:
            yield guard.Body(answer)

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
    def opener(headers: dict[str, str]) -> Iterator[Answer]:
        with _cuts(), open_client() as client, client.stream(path, headers, query=query) as stream:
            yield _Guarded(stream)

    return HttpSource(
        label, opener, limits=limits, whole_lines=whole_lines, access_method=access_method
    )


class _Guarded:
    """A stream whose KubeErrors become Cut."""

    def __init__(self, stream: _Stream) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        with _cuts():
            return self._stream.read(size)


@contextmanager
def _cuts() -> Iterator[None]:
    try:
        yield
    except KubeError as error:
        raise Cut(error.message, code=error.code, hint=error.hint) from error
