"""The content of a ClusterCatalog, read from catalogd through the API server's service proxy.

That needs nothing but the kubeconfig: no route to the service, no certificate of catalogd.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol
from urllib.parse import urlsplit

from catalogs.sources.base import LIMITS, Limits, SourceError
from catalogs.sources.http import Answer, Cut, HttpSource
from olmweb.kube.errors import KubeError

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
        self, path: str, headers: dict[str, str] | None = None
    ) -> AbstractContextManager[_Stream]: ...


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
        f"{parts.path.rstrip('/')}/api/v1/all"
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


def catalogd_source(
    label: str,
    base: str,
    open_client: Callable[[], AbstractContextManager[Client]],
    *,
    limits: Limits = LIMITS,
) -> HttpSource:
    """Source of a ClusterCatalog by its `status.urls.base`. Raises SourceError for a bad one."""
    path = proxy_path(base)

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[Answer]:
        with _cuts(), open_client() as client, client.stream(path, headers) as stream:
            yield _Guarded(stream)

    return HttpSource(label, opener, limits=limits, whole_lines=True)


class _Guarded:
    """A stream whose client's errors are the ones that sources know."""

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
