"""Everything that a cluster serves: every group, version and kind, aggregated APIs included.

`KubeClient.discover` asks for the kinds that OLM Web reads; this is for those that others bring.
"""

from typing import TypeVar

import msgspec

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.resources import group_path
from olmweb.kube.transport import Call

# One document for all groups: API servers from 1.27 on (1.26 as v2beta1). An older one answers
# with what it knows, the list of groups.
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


class _Version(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None
    freshness: str = ""


class _Meta(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Meta | None = None
    versions: list[_Version] | None = None
    name: str = ""  # of a group in the old list


class _Groups(msgspec.Struct):
    """Either answer: `items` of the aggregated one, `groups` and `versions` of the old ones."""

    items: list[_Group] | None = None
    groups: list[_Group] | None = None
    versions: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_Kind] | None = None


def served_kinds(client: KubeClient) -> frozenset[GVK] | None:
    """(group, version, kind) of everything that is served; None when a part of it is not known.

    That happens while an aggregated API does not answer: what it would serve nobody can say. Two
    requests, or one for each group and version where the server is older than 1.26. Raises
    KubeError.
    """
    found: set[GVK] = set()
    for path in ("/api", "/apis"):
        part = _ask(client, path)
        if part is None:
            return None
        found |= part
    return frozenset(found)


def _ask(client: KubeClient, path: str) -> set[GVK] | None:
    answer = _decoded(client, Call("GET", path, headers=_ANY), _Groups)
    if answer.items is None:
        return _one_by_one(client, answer)
    found: set[GVK] = set()
    for group in answer.items:
        name = group.metadata.name if group.metadata else ""
        for version in group.versions or ():
            if version.freshness == "Stale":
                return None
            found |= {
                (name, version.version, one.response_kind.kind)
                for one in version.resources or ()
                if one.response_kind is not None
            }
    return found


def _one_by_one(client: KubeClient, answer: _Groups) -> set[GVK] | None:
    asked = [("", version) for version in answer.versions or ()]
    for group in answer.groups or ():
        asked += [(group.name, each.version) for each in group.versions or ()]
    found: set[GVK] = set()
    for group_name, version in asked:
        call = Call("GET", group_path(group_name, version), headers=_PLAIN)
        try:
            resources = _decoded(client, call, _Resources).resources or ()
        except NotFound:  # gone between the two requests
            continue
        except (Unreachable, Unauthorized):
            raise
        except KubeError:
            return None
        # A subresource may be of another group's kind: only those of their own are objects here.
        found |= {(group_name, version, one.kind) for one in resources if not one.group}
    return found


def _decoded(client: KubeClient, call: Call, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(client.transport.send(call), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise client.transport.broken_answer(call, "something that is not discovery") from None
