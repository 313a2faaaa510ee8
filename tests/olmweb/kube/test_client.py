"""The verbs, as the server sees them."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from olmweb.kube import transport
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import (
    Abandoned,
    Broken,
    ConfigError,
    Forbidden,
    Gone,
    Unauthorized,
    Unreachable,
)
from olmweb.kube.resources import (
    ALL,
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_CATALOGS,
    CLUSTER_EXTENSIONS,
)
from olmweb.kube.resources import PLATFORM_OPERATORS as PO
from olmweb.kube.session import open_client
from tests.kubefake import TOKEN, Answer, KubeFake, status_answer

LIST = "/apis/platform.openshift.io/v1alpha1/platformoperators"


def names_of(client: KubeClient, limit: int) -> list[str]:
    result: list[str] = []
    for page in client.list_pages(PO, "v1alpha1", limit=limit):
        if page.restart:
            result.clear()
        result += [item["metadata"]["name"] for item in page.items]
    return result


def fill(fake: KubeFake, count: int) -> list[str]:
    names = [f"op-{number:02}" for number in range(count)]
    for name in names:
        fake.put(PO, {"metadata": {"name": name}})
    return names


def test_discovery_finds_every_kind_in_its_preferred_version(client: KubeClient) -> None:
    served = client.discover().served
    assert {kind: item.version for kind, item in served.items()} == {
        resource.kind: resource.versions[0] for resource in ALL
    }
    assert client.requests == 13  # one a group and version


def test_discovery_takes_an_older_version_and_leaves_out_what_is_missing(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.hide(BUNDLE_DEPLOYMENTS, "v1alpha2")
    fake.hide(PO)
    result = client.discover()
    assert result.served["BundleDeployment"].version == "v1alpha1"
    assert "PlatformOperator" not in result.served
    assert result.failed == {}


def test_a_group_whose_discovery_fails_does_not_hide_the_others(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.hide(CLUSTER_CATALOGS, "v1alpha1")
    fake.script("GET", "/apis/olm.operatorframework.io/v1", status_answer(503, "backend is away"))
    result = client.discover()
    assert set(result.failed) == {"ClusterExtension", "ClusterCatalog", "ClusterObjectSet"}
    assert isinstance(result.failed["ClusterExtension"], Broken)
    assert set(result.served) == {resource.kind for resource in ALL} - set(result.failed)


def test_a_failing_newer_version_falls_back_to_the_older_one(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("GET", "/apis/core.rukpak.io/v1alpha2", status_answer(500, "no"))
    result = client.discover()
    assert result.served["BundleDeployment"].version == "v1alpha1"
    assert result.served["Bundle"].resource is BUNDLES


def test_discovery_stops_when_nobody_may_ask(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", "/apis/platform.openshift.io/v1alpha1", status_answer(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        client.discover()
    assert client.requests == 1


def test_discovery_that_is_not_a_resource_list_is_a_failure_of_that_group(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("GET", "/apis/olm.operatorframework.io/v1", Answer(200, {"kind": "Other"}))
    assert isinstance(client.discover().failed["ClusterExtension"], Broken)


def test_version_is_the_servers(client: KubeClient) -> None:
    assert client.version() == "v1.25.4"


def test_a_list_is_read_page_by_page(fake: KubeFake, client: KubeClient) -> None:
    names = fill(fake, 5)
    assert names_of(client, 2) == names
    assert [received.query.get("continue") for received in fake.requests] == [None, "2", "4"]
    assert {received.query["limit"] for received in fake.requests} == {"2"}


def test_an_expired_continue_token_starts_the_list_again_once(
    fake: KubeFake, client: KubeClient
) -> None:
    names = fill(fake, 3)
    first = Answer(
        200,
        {
            "metadata": {"continue": "old", "resourceVersion": "1"},
            "items": [{"metadata": {"name": "gone-since"}}],
        },
    )
    fake.script("GET", LIST, first, status_answer(410, "token expired", "Expired"))
    assert names_of(client, 2) == names
    assert [received.query.get("continue") for received in fake.requests] == [
        None,
        "old",
        None,
        "2",
    ]


def test_a_second_expired_token_is_an_error(fake: KubeFake, client: KubeClient) -> None:
    first = Answer(200, {"metadata": {"continue": "old"}, "items": []})
    gone = status_answer(410, "token expired", "Expired")
    fake.script("GET", LIST, first, gone, first, gone)
    with pytest.raises(Gone):
        names_of(client, 2)


def test_a_410_on_the_first_page_is_an_error(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", LIST, status_answer(410, "too old", "Expired"))
    with pytest.raises(Gone):
        names_of(client, 2)


def test_an_empty_list_may_say_null(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", LIST, Answer(200, {"metadata": {"resourceVersion": "7"}, "items": None}))
    (page,) = client.list_pages(PO, "v1alpha1")
    assert (page.items, page.resource_version) == ([], "7")


@pytest.mark.parametrize("body", [{}, {"metadata": {}, "items": 1}, {"metadata": [], "items": []}])
def test_a_list_of_another_shape_is_broken(
    fake: KubeFake, client: KubeClient, body: dict[str, object]
) -> None:
    fake.script("GET", LIST, Answer(200, body))
    with pytest.raises(Broken, match="not a list"):
        names_of(client, 2)


def test_selectors_reach_the_server(fake: KubeFake, client: KubeClient) -> None:
    list(client.list_pages(PO, "v1alpha1", label_selector="!a", field_selector="metadata.name=b"))
    assert fake.requests[0].query == {
        "limit": "500",
        "labelSelector": "!a",
        "fieldSelector": "metadata.name=b",
    }


def test_answers_may_be_compressed(fake: KubeFake, client: KubeClient) -> None:
    body = gzip.compress(json.dumps({"gitVersion": "v9"}).encode())
    fake.script("GET", "/version", Answer(200, body, {"Content-Encoding": "gzip"}))
    assert client.version() == "v9"
    assert fake.requests[0].header("Accept-Encoding") == ["gzip"]


@pytest.mark.slow
def test_a_small_answer_that_holds_gigabytes_of_nothing_is_not_unpacked(
    fake: KubeFake, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_LIMIT", 10_000_000)
    body = gzip.compress(b'{"gitVersion": "v9"}'.ljust(200_000_000))
    fake.script("GET", "/version", Answer(200, body, {"Content-Encoding": "gzip"}))
    tracemalloc.start()
    try:
        with pytest.raises(Broken, match="more than 10 MB"):
            client.version()
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_an_object_nested_deeper_than_we_decode_hides_nothing_else(
    fake: KubeFake, client: KubeClient
) -> None:
    deep = b'{"a":' * 9_000 + b"1" + b"}" * 9_000
    item = b'{"metadata":{"name":"deep"},"spec":{"junk":%s,"package":{"name":"etcd"}}}' % deep
    body = b'{"metadata":{"resourceVersion":"7"},"items":[%s,{"metadata":{"name":"b"}}]}' % item
    fake.script("GET", LIST, Answer(200, body))
    (page,) = client.list_pages(PO, "v1alpha1", narrow="PlatformOperator")
    assert [element["metadata"]["name"] for element in page.items] == ["deep", "b"]
    assert page.items[0]["spec"] == {"package": {"name": "etcd"}}
    fake.script("GET", LIST, Answer(200, body))
    (listed,) = client.list_metadata(PO, "v1alpha1", dict[str, str])
    assert listed.items == [{"name": "deep"}, {"name": "b"}]


def test_one_connection_serves_many_requests_errors_included(
    fake: KubeFake, client: KubeClient
) -> None:
    pool = client.transport._session.pool
    for _ in range(3):
        client.version()
        fake.script("GET", LIST, status_answer(403, "x" * 1000))
        with pytest.raises(Forbidden):
            names_of(client, 1)
    (host,) = pool.pools.keys()
    assert pool.pools[host].num_connections == 1


def test_the_token_is_sent_and_nothing_is_impersonated_unless_asked(
    fake: KubeFake, client: KubeClient
) -> None:
    client.version()
    assert fake.requests[0].header("Authorization") == [f"Bearer {TOKEN}"]
    assert fake.requests[0].header("Impersonate-User") == []


def test_apply_is_a_server_side_apply(fake: KubeFake, client: KubeClient) -> None:
    manifest = {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": "one"},
        "spec": {"package": {"name": "one"}},
    }
    fake.script("PATCH", f"{LIST}/one", Answer(201, manifest), Answer(200, manifest))
    assert client.apply(PO, "v1alpha1", manifest, dry_run=True) == manifest
    client.apply(PO, "v1alpha1", manifest, field_manager="me", force=True)
    dry, wet = fake.requests
    assert dry.header("Content-Type") == ["application/apply-patch+yaml"]
    assert dry.query == {"fieldManager": "olmweb", "dryRun": "All"}
    assert wet.query == {"fieldManager": "me", "force": "true"}
    assert json.loads(dry.body) == manifest


def test_apply_goes_to_the_namespace_of_the_manifest(fake: KubeFake, client: KubeClient) -> None:
    path = "/apis/olm.operatorframework.io/v1/namespaces/ns/clusterextensions/one"
    fake.script("PATCH", path, Answer(200, {}))
    client.apply(CLUSTER_EXTENSIONS, "v1", {"metadata": {"name": "one", "namespace": "ns"}})
    assert fake.requests[0].path == path


def test_delete_can_be_tried_dry(fake: KubeFake, client: KubeClient) -> None:
    fake.script("DELETE", f"{LIST}/one", Answer(200, {"kind": "Status"}), Answer(200, {}))
    client.delete(PO, "v1alpha1", "one", dry_run=True)
    client.delete(PO, "v1alpha1", "one")
    assert [received.query for received in fake.requests] == [{"dryRun": "All"}, {}]


def test_each_group_of_the_impersonated_person_arrives_by_itself(
    fake: KubeFake, client: KubeClient
) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    fake.script("POST", path, Answer(201, {"status": {"allowed": False, "reason": "no rule"}}))
    alice = Impersonation("alice", ("team-a", "team,b"))
    answer = client.may("create", PO, name="one", as_user=alice)
    assert (answer.allowed, answer.reason) == (False, "no rule")
    (received,) = fake.requests
    assert received.header("Impersonate-User") == ["alice"]
    assert received.header("Impersonate-Group") == ["team-a", "team,b"]
    assert json.loads(received.body)["spec"] == {
        "resourceAttributes": {
            "verb": "create",
            "group": "platform.openshift.io",
            "resource": "platformoperators",
            "name": "one",
        }
    }


def test_an_allowed_review_says_so(fake: KubeFake, client: KubeClient) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    fake.script("POST", path, Answer(201, {"status": {"allowed": True}}), Answer(201, {}))
    assert client.may("get", PO).allowed is True
    with pytest.raises(Broken):
        client.may("get", PO)


@pytest.mark.parametrize("name", ["", "a\nImpersonate-Group: system:masters", " a", "ä"])
def test_a_name_that_no_header_can_carry_is_refused_before_it_is_sent(name: str) -> None:
    with pytest.raises(ConfigError, match="can't be sent"):
        Impersonation(name)
    with pytest.raises(ConfigError, match="can't be sent"):
        Impersonation("alice", (name,))


def test_a_stream_is_read_as_it_came_with_the_callers_headers(
    fake: KubeFake, client: KubeClient
) -> None:
    packed = gzip.compress(b"x" * 1000)
    fake.script(
        "GET",
        "/api/v1/namespaces/n/services/https:s:443/proxy/all",
        Answer(200, packed, {"Content-Encoding": "gzip", "Last-Modified": "then"}),
    )
    wanted = {"Accept-Encoding": "zstd, gzip", "If-Modified-Since": "now"}
    path = "/api/v1/namespaces/n/services/https:s:443/proxy/all"
    with client.stream(path, wanted, query=(("a", "b"),)) as response:
        assert (response.status, response.headers["Last-Modified"]) == (200, "then")
        parts = []
        while part := response.read_some(7):
            parts.append(part)
    assert b"".join(parts) == packed
    assert max(map(len, parts)) == 7
    (received,) = fake.requests
    assert received.query == {"a": "b"}
    assert received.header("Accept-Encoding") == ["zstd, gzip"]
    assert received.header("If-Modified-Since") == ["now"]


def test_a_stream_gives_any_status_and_its_error_on_request(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("GET", "/x", Answer(304), status_answer(403, "not you"))
    with client.stream("/x") as response:
        assert response.status == 304
    with client.stream("/x") as response:
        error = response.error()
    assert isinstance(error, Forbidden)
    assert "not you" in error.message


def test_a_stream_that_is_cut_says_so(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", "/x", Answer(200, b"y" * 100_000, cut=True))
    with client.stream("/x") as response:
        response.read_some(10_000)
        with pytest.raises(Unreachable, match="cut"):
            list(iter(lambda: response.read_some(10_000), b""))


def test_nothing_is_sent_any_more_by_a_process_that_ends(fake: KubeFake, tmp_path: Path) -> None:
    ends = [False]
    kubeconfig = str(fake.write_kubeconfig(tmp_path / "ending"))
    with open_client("prod", kubeconfig, abandon=lambda: ends[0]) as client:
        client.version()
        ends[0] = True
        with pytest.raises(Abandoned):
            client.version()
    assert len(fake.requests) == 1
