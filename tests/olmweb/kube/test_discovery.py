"""Everything that a cluster serves: in two requests, or group by group from an older server."""

import pytest

from olmweb.kube.client import KubeClient
from olmweb.kube.discovery import served_kinds
from olmweb.kube.errors import Unauthorized
from tests.kubefake import Answer, KubeFake, status_answer

PODS = ("", "v1", "Pod")
WIDGETS = ("example.com", "v1", "Widget")


def _kind(group: str, version: str, kind: str) -> dict[str, object]:
    result = {"group": group, "version": version, "kind": kind}
    return {"resource": kind.lower() + "s", "responseKind": result}


def _aggregated(fake: KubeFake, freshness: str = "Current") -> None:
    for path, name, version, kinds in (
        ("/api", "", "v1", [_kind("", "v1", "Pod"), {"resource": "odd", "responseKind": None}]),
        ("/apis", "example.com", "v1", [_kind("", "v1", "Widget")]),
    ):
        meta = {"name": name} if name else {}
        versions = [{"version": version, "resources": kinds, "freshness": freshness}]
        body = {
            "kind": "APIGroupDiscoveryList",
            "items": [{"metadata": meta, "versions": versions}],
        }
        fake.script("GET", path, Answer(200, body))


def _old(fake: KubeFake) -> None:
    versions = [{"groupVersion": "example.com/v1", "version": "v1"}]
    fake.script("GET", "/api", Answer(200, {"kind": "APIVersions", "versions": ["v1"]}))
    groups = {"kind": "APIGroupList", "groups": [{"name": "example.com", "versions": versions}]}
    fake.script("GET", "/apis", Answer(200, groups))
    scale = {"name": "widgets/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"}
    fake.script("GET", "/api/v1", Answer(200, {"resources": [{"name": "pods", "kind": "Pod"}]}))
    fake.script(
        "GET",
        "/apis/example.com/v1",
        Answer(200, {"resources": [{"name": "widgets", "kind": "Widget"}, scale]}),
    )


def test_an_aggregated_answer_takes_two_requests(fake: KubeFake, client: KubeClient) -> None:
    _aggregated(fake)
    assert served_kinds(client) == frozenset({PODS, WIDGETS})
    assert client.requests == 2
    assert "as=APIGroupDiscoveryList" in fake.requests[0].header("Accept")[0]


def test_an_older_server_is_asked_group_by_group(fake: KubeFake, client: KubeClient) -> None:
    _old(fake)
    assert served_kinds(client) == frozenset({PODS, WIDGETS})
    assert client.requests == 4


def test_a_stale_part_means_that_nobody_can_say(fake: KubeFake, client: KubeClient) -> None:
    _aggregated(fake, "Stale")
    assert served_kinds(client) is None


def test_a_group_that_fails_means_that_nobody_can_say(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", "/apis/example.com/v1", status_answer(503, "backend is away"))
    _old(fake)
    assert served_kinds(client) is None


def test_a_refusal_is_told(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", "/api", status_answer(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        served_kinds(client)
