"""The pod of a CatalogSource: which one answers, and which image it runs. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LABEL = "olm.catalogSource"
PORT = 50051
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pod:
    """`digest` is that of the catalog's image, "" when it isn't known; `port` the registry's."""

    name: str
    digest: str
    port: int = PORT


def serving(pods: Iterable[Mapping[str, Any]]) -> Pod | None:
    """The newest pod that is ready; None without one.

    While there are several, one goes and one comes: whose content a Service gives is not known
    then, so the digest isn't.
    """
    found = [pod for pod in pods if not _dig(pod, "metadata", "deletionTimestamp")]
    ready = [pod for pod in found if _is_ready(pod)]
    if not ready:
        return None
    newest = max(ready, key=lambda pod: str(_dig(pod, "metadata", "creationTimestamp")))
    digest = _digest(newest) if len(found) == 1 else ""
    return Pod(str(_dig(newest, "metadata", "name")), digest, _port(newest))


def _digest(pod: Mapping[str, Any]) -> str:
    """Of the container that holds the catalog, as OLM itself compares it (grpc.go, imageID): with
    extractContent that is the second init container, else the only container."""
    init = _dig(pod, "status", "initContainerStatuses") or ()
    containers = _dig(pod, "status", "containerStatuses") or ()
    holders = init[1:] if len(init) == 2 and len(containers) == 1 else containers
    found = _DIGEST.search(str(_dig(holders[0], "imageID") or "")) if holders else None
    return found[0] if found else ""


def _port(pod: Mapping[str, Any]) -> int:
    for container in _dig(pod, "spec", "containers") or ():
        for port in _dig(container, "ports") or ():
            number = _dig(port, "containerPort")
            if _dig(port, "name") == "grpc" and isinstance(number, int):
                return number
    return PORT


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(
        _dig(one, "type") == "Ready" and _dig(one, "status") == "True"
        for one in _dig(pod, "status", "conditions") or ()
    )


def _dig(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
