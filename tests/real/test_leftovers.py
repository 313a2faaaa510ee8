"""Leftovers of every kind on a real API server: listed after a removal, deleted in the order that
works, over REST and as the person; cluster-scoped objects, and owners without a package."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser

from installs.actions import follow
from installs.facts.inventory import read_inventory
from installs.models import Action, CopyReport
from installs.queries.leftovers import removed_owners
from installs.reports import copied_csvs
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from tests.factories import make_cluster
from tests.peers import servers
from tests.peers.client import ApiRefused, Object, wait_until
from tests.peers.controllers import ensure_namespace
from tests.real.rights import ship_rights
from tests.real.world import V1, V1ALPHA1

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
NAMESPACE = "samovar"
OTHERS = ("one", "two")  # namespaces with copies
RBAC = "rbac.authorization.k8s.io"
GROUP = "left.example.com"
ADMISSION = "admissionregistration.k8s.io/v1"
PACKAGE = {f"operators.coreos.com/samovar.{NAMESPACE}": ""}


def owned(csv: str, namespace: str = NAMESPACE) -> dict[str, str]:
    return {
        "olm.owner": csv,
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": namespace,
    }


def thing(api_version: str, kind: str, name: str, labels: Object, **more: Any) -> Object:
    meta: Object = {"name": name, "labels": labels}
    if namespace := more.pop("namespace", ""):
        meta["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **more}


def hooks(name: str) -> list[Object]:
    """A webhook that is called for nothing else than the custom resources of the operator."""
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    service = {"namespace": NAMESPACE, "name": "samovar-service"}
    return [
        {
            "name": name,
            "rules": [rule],
            "clientConfig": {"service": service},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }
    ]


def crd(plural: str, scope: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": GROUP,
        "scope": scope,
        "names": {"plural": plural, "kind": plural.capitalize()},
        "versions": [version],
    }
    name = f"{plural}.{GROUP}"
    return thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, PACKAGE, spec=spec)


def left_of_samovar() -> list[Object]:
    """What OLM v0 leaves of the Subscription `samovar` when a person deletes its Subscription and
    ClusterServiceVersion while no garbage collector runs."""
    labels = owned("samovar.v1")
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "samovar.v1-abc"}
    subject = {"kind": "ServiceAccount", "name": "samovar", "namespace": NAMESPACE}
    service = {"namespace": NAMESPACE, "name": "samovar-service", "port": 443}
    api = {
        "group": "metrics.left.example.com",
        "version": "v1",
        "service": service,
        "groupPriorityMinimum": 2000,
        "versionPriority": 15,
    }
    return [
        thing(ADMISSION, "ValidatingWebhookConfiguration", "vsamovar", labels,
              webhooks=hooks("v.left.example.com")),
        thing(ADMISSION, "MutatingWebhookConfiguration", "msamovar", labels,
              webhooks=hooks("m.left.example.com")),
        thing("apiregistration.k8s.io/v1", "APIService", "v1.metrics.left.example.com", labels,
              spec=api),
        crd("samovars", "Cluster"),
        crd("teapots", "Namespaced"),
        thing(f"{RBAC}/v1", "ClusterRole", "samovar.v1-abc", labels),
        thing(f"{RBAC}/v1", "ClusterRoleBinding", "samovar.v1-abc", labels, roleRef=role,
              subjects=[subject]),
        *(csv("samovar.v1", namespace, NAMESPACE) for namespace in OTHERS),
        thing(V1, "OperatorGroup", "group", {}, namespace=NAMESPACE, spec={}),
    ]  # fmt: skip


def csv(name: str, namespace: str, origin: str) -> Object:
    """A copy of a ClusterServiceVersion."""
    spec = {
        "displayName": name,
        "install": {"strategy": "deployment", "spec": {"deployments": []}},
        "installModes": [],
    }
    labels = {"olm.copiedFrom": origin}
    return thing(V1ALPHA1, "ClusterServiceVersion", name, labels, namespace=namespace, spec=spec)


@pytest.fixture
def server(fresh_apiserver: servers.ApiServer) -> servers.ApiServer:
    servers.apply_crds(fresh_apiserver)
    for namespace in (NAMESPACE, "abandoned", "kiosk", *OTHERS):
        ensure_namespace(fresh_apiserver.admin, namespace)
    return fresh_apiserver


@pytest.fixture
def petra(server: servers.ApiServer, olivia: User) -> User:
    """With olivia's role here, and every right on the cluster."""
    user = User.objects.create_user("petra", password="petra-password")
    user.groups.set(olivia.groups.all())
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": "petra"}
    binding = thing(
        f"{RBAC}/v1", "ClusterRoleBinding", "admin-petra", {}, roleRef=role, subjects=[subject]
    )
    server.admin.apply(binding)
    return user


@pytest.fixture
def cluster(server: servers.ApiServer, tmp_path: Path, settings: Any) -> Cluster:
    context = ship_rights(server, tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    return make_cluster(name="real", context=context)


def is_there(server: servers.ApiServer, obj: Object) -> bool:
    meta = obj["metadata"]
    namespace = meta.get("namespace", "")
    return server.admin.find(obj["apiVersion"], obj["kind"], meta["name"], namespace) is not None


def make_objects(server: servers.ApiServer) -> None:
    """A custom resource of each kind, made before the webhooks that would refuse it."""
    for plural, namespace in (("samovars", ""), ("teapots", "one")):
        kind = plural.capitalize()
        path = f"/apis/{GROUP}/v1{f'/namespaces/{namespace}' if namespace else ''}/{plural}"
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "old"}}

        def is_made(path: str = path, body: Object = body) -> bool:
            try:
                server.admin.call("POST", path, body)
            except ApiRefused as error:
                return error.status == 409
            return True

        wait_until(is_made, f"{plural} being served")


def finish_namespace(server: servers.ApiServer, name: str) -> None:
    """Plays the namespace controller: the namespace is empty."""
    found = server.admin.find("v1", "Namespace", name)
    if found is not None and found["metadata"].get("deletionTimestamp"):
        body = {**found, "spec": {"finalizers": []}}
        server.admin.call("PUT", f"/api/v1/namespaces/{name}/finalize", body)


def attempt(server: servers.ApiServer, key: int) -> Action:
    Action.objects.filter(pk=key).update(next_attempt_at=None)  # its time has come
    follow.run(key, pause=lambda _: None)
    for name in (NAMESPACE, "abandoned"):
        finish_namespace(server, name)
    return Action.objects.get(pk=key)


def test_leftovers_of_every_kind_are_listed_and_deleted_in_the_order_that_works(
    server: servers.ApiServer, cluster: Cluster, petra: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = left_of_samovar()
    for obj in things:
        if obj["kind"] == "CustomResourceDefinition":
            server.admin.apply(obj)
    make_objects(server)
    for obj in things:
        server.admin.apply(obj)
    # Owners that no CRD names: a ClusterServiceVersion, and a namespace with only its group.
    server.admin.apply(csv("kettle.v2", "two", "kiosk"))
    kettle = thing(f"{RBAC}/v1", "ClusterRole", "kettle.v2-xyz", owned("kettle.v2", "kiosk"))
    group = thing(V1, "OperatorGroup", "alone", {}, namespace="abandoned", spec={})
    for obj in (kettle, group):
        server.admin.apply(obj)

    assert sync_cluster(cluster).error == ""
    cluster.refresh_from_db()
    assert read_inventory(cluster)
    monkeypatch.setattr(copied_csvs, "WATCH_SECONDS", 1)
    report = copied_csvs.request_report(cluster, petra)
    copied_csvs.make_report(report)
    assert report.state == CopyReport.State.DONE, report.error_text

    listed = {
        (owner.kind, owner.namespace, owner.name): [row.label for row in owner.leftovers]
        for owner in removed_owners([cluster])
    }
    assert listed == {
        ("Subscription", NAMESPACE, "samovar"): [
            "ValidatingWebhookConfiguration vsamovar",
            "MutatingWebhookConfiguration msamovar",
            "APIService v1.metrics.left.example.com",
            f"CustomResourceDefinition samovars.{GROUP}",
            f"CustomResourceDefinition teapots.{GROUP}",
            "ClusterRoleBinding samovar.v1-abc",
            "ClusterRole samovar.v1-abc",
            f"ClusterServiceVersion {NAMESPACE}/samovar.v1",
            f"OperatorGroup {NAMESPACE}/group",
            f"Namespace {NAMESPACE}",
        ],
        ("ClusterServiceVersion", "kiosk", "kettle.v2"): [
            "ClusterRole kettle.v2-xyz",
            "ClusterServiceVersion kiosk/kettle.v2",
        ],
        ("Namespace", "abandoned", "abandoned"): [
            "OperatorGroup abandoned/alone",
            "Namespace abandoned",
        ],
    }

    browser = Browser()
    browser.force_login(petra)

    def post(name: str, namespace: str, **more: Any) -> Any:
        body = {"cluster": "real", "verb": "clean-up", "namespace": namespace, "name": name}
        sent = body | more
        return browser.post("/api/v1/actions", sent, content_type="application/json")

    def delete(name: str, namespace: str, **more: Any) -> Action:
        tried: Object = {}

        def is_tried() -> bool:
            tried.update(post(name, namespace, dry_run=True, **more).json()["dry_run"])
            return tried["ok"] or tried["code"] != "forbidden"

        wait_until(is_tried, "the rights being in force")
        assert tried["ok"], tried
        answer = post(name, namespace, **more)
        assert answer.status_code == 202, answer.content
        key = answer.json()["id"]
        wait_until(lambda: attempt(server, key).finished_at, f"the leftovers of {name} gone")
        return Action.objects.get(pk=key)

    everything = {"objects": listed["Subscription", NAMESPACE, "samovar"]}
    action = delete("samovar", NAMESPACE, method="Subscription", **everything)
    assert action.state == "succeeded", action.outcome
    assert [obj["metadata"]["name"] for obj in things if is_there(server, obj)] == []
    assert server.admin.find("v1", "Namespace", NAMESPACE) is None

    assert post("kettle.v2", "kiosk", owner_kind="Pod").status_code == 400
    action = delete("kettle.v2", "kiosk", owner_kind="ClusterServiceVersion")
    assert action.state == "succeeded", action.outcome
    assert not is_there(server, kettle)
    assert not is_there(server, csv("kettle.v2", "two", "kiosk"))

    whole = {"objects": ["OperatorGroup abandoned/alone", "Namespace abandoned"]}
    action = delete("abandoned", "abandoned", owner_kind="Namespace", **whole)
    assert action.state == "succeeded", action.outcome
    assert not is_there(server, group)
    assert server.admin.find("v1", "Namespace", "abandoned") is None

    deletions = [
        event
        for event in server.audit_events()
        if event["verb"] in ("delete", "deletecollection")
        and event.get("impersonatedUser", {}).get("username") == "petra"
        and "dryRun" not in event["requestURI"]
    ]
    kinds = [event["objectRef"]["resource"] for event in deletions]
    first = {kind: kinds.index(kind) for kind in kinds}
    before = [
        *("validatingwebhookconfigurations", "mutatingwebhookconfigurations", "apiservices"),
        *("samovars", "customresourcedefinitions", "clusterrolebindings", "clusterroles"),
        *("clusterserviceversions", "operatorgroups", "namespaces"),
    ]
    assert sorted(before, key=first.__getitem__) == before
