"""OLM Web's own client on both servers: pages, watches, applies, refusals, impersonation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from olmweb.kube import errors, resources
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.resources import Served
from olmweb.kube.session import open_client
from olmweb.kube.watch import Watch
from tests.conformance.server import EXTENSIONS, SUBSCRIPTIONS, Server, extension, subscription

SUBS = resources.SUBSCRIPTIONS
CES = resources.CLUSTER_EXTENSIONS
CATALOG_BEFORE_V1 = "Catalog"  # of catalogd up to 0.7; neither server has its CRD


@pytest.fixture
def client(server: Server, tmp_path: Path) -> Iterator[KubeClient]:
    path = tmp_path / "kubeconfig"
    server.backend.write_kubeconfig(path, "test")
    with open_client("test", str(path)) as made:
        yield made


def test_every_kind_that_we_read_is_discovered(server: Server, client: KubeClient) -> None:
    discovery = client.discover()
    kinds = {resource.kind for resource in resources.ALL} - {CATALOG_BEFORE_V1}
    server.same(sorted(discovery.served), sorted(kinds))
    server.same(discovery.failed, {})
    server.same(discovery.served["OperatorCondition"].version, "v2")
    server.same(discovery.served["BundleDeployment"].version, "v1alpha1")


def test_pages_hold_everything_once(server: Server, client: KubeClient, ns: str) -> None:
    for number in range(5):
        labels = {"of": ns}
        server.made(SUBSCRIPTIONS.format(ns), subscription(f"s{number}", labels=labels))
    pages = list(client.list_pages(SUBS, "v1alpha1", limit=2, label_selector=f"of={ns}"))
    server.same([len(page.items) for page in pages], [2, 2, 1])
    names = [item["metadata"]["name"] for page in pages for item in page.items]
    server.same(names, ["s0", "s1", "s2", "s3", "s4"])
    server.same(len({page.resource_version for page in pages}), 1)


def test_objects_are_counted_in_one_request(server: Server, client: KubeClient, ns: str) -> None:
    before = client.count_objects(SUBS, "v1alpha1")
    for number in range(3):
        server.made(SUBSCRIPTIONS.format(ns), subscription(f"s{number}"))
    requests = client.requests
    server.same(client.count_objects(SUBS, "v1alpha1") - before, 3)
    server.same(client.requests - requests, 1)


def test_a_watch_tells_changes_and_says_where_to_go_on(
    server: Server, client: KubeClient, ns: str
) -> None:
    path = SUBSCRIPTIONS.format(ns)
    version = server.version("/apis/operators.coreos.com/v1alpha1/subscriptions")
    server.made(path, subscription("a"))
    server.merge(f"{path}/a", {"spec": {"channel": "x"}})
    server.call("DELETE", f"{path}/a")
    watch = Watch(client, Served(SUBS, "v1alpha1"), version, seconds=1)
    events = [event for event in watch if event.type != "BOOKMARK"]
    server.same([event.type for event in events], ["ADDED", "MODIFIED", "DELETED"])
    server.same(int(watch.position) >= int(events[-1].resource_version), True)
    again = Watch(client, Served(SUBS, "v1alpha1"), watch.position, seconds=1)
    server.same([event.type for event in again if event.type != "BOOKMARK"], [])


def test_a_position_that_is_too_old_is_gone(server: Server, client: KubeClient) -> None:
    with pytest.raises(errors.Gone) as caught:
        list(Watch(client, Served(SUBS, "v1alpha1"), "1", seconds=1))
    server.same(caught.value.reason, "Expired")


def test_an_apply_creates_and_a_dry_run_does_not(
    server: Server, client: KubeClient, name: str
) -> None:
    shown = client.apply(CES, "v1", extension(name), dry_run=True)
    server.same((shown["metadata"]["name"], "resourceVersion" in shown["metadata"]), (name, False))
    server.same(server.get(f"{EXTENSIONS}/{name}").status, 404)
    made = client.apply(CES, "v1", extension(name))
    server.same(client.get(CES, "v1", name), made)
    server.same(client.delete(CES, "v1", name)["status"], "Success")
    with pytest.raises(errors.NotFound) as caught:
        client.get(CES, "v1", name)
    server.same(caught.value.reason, "NotFound")


@pytest.mark.parametrize("by_uid", [True, False])
def test_a_dry_run_of_a_deletion_deletes_nothing(
    server: Server, client: KubeClient, name: str, by_uid: bool
) -> None:
    made = client.apply(CES, "v1", extension(name))
    uid = made["metadata"]["uid"] if by_uid else ""
    server.same(client.delete(CES, "v1", name, uid=uid, dry_run=True)["status"], "Success")
    server.same(client.get(CES, "v1", name), made)
    with pytest.raises(errors.Conflict):
        client.delete(CES, "v1", name, uid="another", dry_run=True)
    client.delete(CES, "v1", name, uid=uid)
    with pytest.raises(errors.NotFound):
        client.get(CES, "v1", name)


def test_what_the_crd_refuses_comes_with_its_fields(
    server: Server, client: KubeClient, name: str
) -> None:
    body = extension(name)
    body["spec"]["source"]["catalog"]["upgradeConstraintPolicy"] = "Wild"
    with pytest.raises(errors.Invalid) as caught:
        client.apply(CES, "v1", body)
    reasons = {cause.field: cause.reason for cause in caught.value.causes}
    server.same(reasons["spec.source.catalog.upgradeConstraintPolicy"], "FieldValueNotSupported")


def test_a_conflict_names_the_other_manager(server: Server, client: KubeClient, name: str) -> None:
    server.apply(f"{EXTENSIONS}/{name}", extension(name), manager="argocd")
    with pytest.raises(errors.Conflict) as caught:
        client.apply(CES, "v1", extension(name, namespace="other"))
    [refusal] = caught.value.causes
    server.same((refusal.field, refusal.message), (".spec.namespace", 'conflict with "argocd"'))
    body = extension(name)
    body["spec"]["source"]["catalog"]["version"] = "2"
    server.apply(f"{EXTENSIONS}/{name}", body, manager="argocd")
    body["spec"]["source"]["catalog"]["version"] = "3"
    forced = client.apply(CES, "v1", body, force=True)
    server.same(forced["spec"]["source"]["catalog"]["version"], "3")


@pytest.mark.parametrize(
    ("groups", "allowed"),
    [(("people", "olmweb-operators"), True), (("people",), False), (("olmweb-viewers",), False)],
)
def test_a_question_is_answered_for_the_person(
    server: Server, client: KubeClient, groups: tuple[str, ...], allowed: bool
) -> None:
    person = Impersonation("vera", groups)
    answer = client.may("patch", resources.PLATFORM_OPERATORS, as_user=person)
    server.same((answer.allowed, bool(answer.reason)), (allowed, allowed))


def test_a_person_who_may_not_write_is_refused(
    server: Server, client: KubeClient, name: str
) -> None:
    person = Impersonation("vera", ("olmweb-viewers",))
    with pytest.raises(errors.Forbidden) as caught:
        client.apply(CES, "v1", extension(name), as_user=person)
    server.same('User "vera" cannot patch resource' in str(caught.value), True)


def test_an_unknown_kind_is_not_found(server: Server, client: KubeClient) -> None:
    other: Any = resources.Resource("nothing.example.com", ("v1",), "things", "Thing")
    with pytest.raises(errors.NotFound) as caught:
        list(client.list_pages(other, "v1"))
    server.same(caught.value.status, 404)
