"""Every group, version and kind that a cluster serves, aggregated APIs included.

`KubeClient.discover` covers only the kinds that OLM Web reads.
"""

from typing import TypeVar

import msgspec

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.resources import group_path
from olmweb.kube.transport import Call

# One document for all groups: API servers from 1.27 on (1.26 as v2beta1). An older one answers
# with the list of groups.
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ANY = (("Accept", f"{_AGGREGATED.format('v2')},{_AGGREGATED.format('v2beta1')},application/json"),)
_PLAIN = (("Accept", "application/json"),)
GVK = tuple[str, str, str]
Answer = TypeVar("Answer")


class _Kind(msgspec.Struct):
    kind: str = ""
    group: str = ""
    version: str = ""


class _Resource(msgspec.Struct, rename="camel"):
    response_kind: _Kind | None = None


class _GroupVersion(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None
    freshness: str = ""


class _GroupMeta(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _GroupMeta | None = None
    versions: list[_GroupVersion] | None = None
    name: str = ""  # of a group in the old list


class _Groups(msgspec.Struct):
    """Either answer: `items` of the aggregated one, `groups` and `versions` of the old ones."""

    items: list[_Group] | None = None
    groups: list[_Group] | None = None
    versions: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_Kind] | None = None


def served_kinds(client: KubeClient) -> frozenset[GVK] | None:
    """(group, version, kind) of everything that is served; None when it is incomplete.

    It is incomplete while an aggregated API does not answer. Two requests, or one for each group
    and version where the server is older than 1.26. Raises KubeError.
    """
    kinds: set[GVK] = set()
    for path in ("/api", "/apis"):
        part = _kinds_below(client, path)
        if part is None:
            return None
        kinds |= part
    return frozenset(kinds)


def _kinds_below(client: KubeClient, path: str) -> set[GVK] | None:
    groups = _get(client, Call("GET", path, headers=_ANY), _Groups)
    if groups.items is None:
        return _kinds_by_version(client, groups)
    kinds: set[GVK] = set()
    for group in groups.items:
        name = group.metadata.name if group.metadata else ""
        for version in group.versions or ():
            if version.freshness == "Stale":
                return None
            kinds |= {
                (name, version.version, resource.response_kind.kind)
                for resource in version.resources or ()
                if resource.response_kind is not None
            }
    return kinds


def _kinds_by_version(client: KubeClient, groups: _Groups) -> set[GVK] | None:
    """One request for each group and version."""
    pairs = [("", version) for version in groups.versions or ()]
    for group in groups.groups or ():
        pairs += [(group.name, version.version) for version in group.versions or ()]
    kinds: set[GVK] = set()
    for name, version in pairs:
        call = Call("GET", group_path(name, version), headers=_PLAIN)
        try:
            resources = _get(client, call, _Resources).resources or ()
        except NotFound:  # deleted between the two requests
            continue
        except (Unreachable, Unauthorized):
            raise
        except KubeError:
            return None
        # A subresource may be of another group's kind; only resources of their own are objects.
        kinds |= {(name, version, resource.kind) for resource in resources if not resource.group}
    return kinds


def _get(client: KubeClient, call: Call, kind: type[Answer]) -> Answer:
    decode = msgspec.json.Decoder(kind).decode
    body = client.transport.send(call)
    return client.transport.decode(call, decode, body, "discovery")
