"""The deletion of what removed operators left behind, on a real API server."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from installs.actions import follow, record
from installs.actions.clean_up import chosen_first, plan_clean_up
from installs.actions.plan import Plan
from installs.facts.inventory import read_inventory
from installs.models import Action
from installs.queries.leftovers import removed_owner
from installs.state.full_sync import sync_cluster
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from tests.factories import make_cluster, make_component, make_operator
from tests.peers import servers
from tests.peers.client import Object, wait_until
from tests.peers.controllers import ensure_namespace
from tests.real.converted import CRD, GROUP, make_converted
from tests.real.rights import ship_rights

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
NAMESPACE = "clean-up"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def cluster(apiserver: servers.ApiServer, tmp_path: Path, settings: Any) -> Cluster:
    context = ship_rights(apiserver, tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    ensure_namespace(apiserver.admin, NAMESPACE)
    return make_cluster(name="real", context=context)


def leave_behind(server: servers.ApiServer, plural: str, package: str) -> dict[str, Object]:
    """What OLM v0 leaves of a Subscription: a CRD whose objects nothing converts, a webhook without
    which they can't be deleted, a ClusterRole."""
    owned = {
        "olm.owner": f"{package}.v1",
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": NAMESPACE,
    }
    make_converted(server, NAMESPACE, plural)
    crd: Object = {
        "apiVersion": CRD[0],
        "kind": CRD[1],
        "metadata": {"name": f"{plural}.{GROUP}"},
    }
    server.admin.merge(
        crd, {"metadata": {"labels": {f"operators.coreos.com/{package}.{NAMESPACE}": ""}}}
    )
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": [plural]}
    hook = {
        "name": f"{plural}.example.com",
        "rules": [rule | {"operations": ["DELETE"]}],
        "clientConfig": {"service": {"namespace": NAMESPACE, "name": f"{package}-service"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    left: dict[str, Object] = {
        "webhook": {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"v{package}", "labels": owned},
            "webhooks": [hook],
        },
        "role": {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"{package}.v1-abc", "labels": owned},
        },
    }
    for thing in left.values():
        server.admin.apply(thing)
    return left | {"crd": crd}


@pytest.fixture
def petra(apiserver: servers.ApiServer, olivia: User) -> User:
    """With olivia's role here, and every right on the cluster."""
    user = User.objects.create_user("petra", password="petra-password")
    user.groups.set(olivia.groups.all())
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "admin-petra"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "petra"}],
    }
    apiserver.admin.apply(binding)
    return user


def planned(cluster: Cluster, package: str, *, without_conversion: bool = True) -> Plan:
    owner = removed_owner(cluster, "Subscription", NAMESPACE, package)
    assert owner is not None
    chosen = chosen_first(owner)
    return plan_clean_up(cluster, owner, chosen, without_conversion=without_conversion)


def attempt(action: Action) -> Action:
    Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
    follow.run(action.pk, pause=lambda _: None)
    action.refresh_from_db()
    return action


def test_leftovers_are_deleted_as_the_person_in_the_order_that_works(
    apiserver: servers.ApiServer, cluster: Cluster, olivia: User, petra: User
) -> None:
    admin = apiserver.admin
    left = leave_behind(apiserver, "pots", "pot")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    read_inventory(cluster)
    with pytest.raises(OlmwebError, match="conversion webhook") as refused:
        planned(cluster, "pot", without_conversion=False)
    assert (refused.value.code, refused.value.status) == ("conversion-webhook", 409)
    plan = planned(cluster, "pot")
    assert [step.label for step in plan.steps] == [
        "ValidatingWebhookConfiguration vpot",
        f"conversion webhook of pots.{GROUP}",
        f"all pots.{GROUP}",
        f"CustomResourceDefinition pots.{GROUP}",
        "ClusterRole pot.v1-abc",
    ]
    tried = record.dry_run(plan, olivia)
    assert (tried.ok, tried.code) == (False, "forbidden"), "the person's rights decide"
    wait_until(lambda: record.dry_run(plan, petra).ok, "the rights being in force")
    assert all(admin.find(o["apiVersion"], o["kind"], o["metadata"]["name"]) for o in left.values())
    held = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Pots",
        "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/pot"]},
    }
    admin.create(held)
    action = record.request(plan, petra)
    wait_until(lambda: "finalizers" in attempt(action).outcome, "the object being held")
    assert action.state == "pending"
    assert f"{NAMESPACE}/held: example.com/pot" in action.outcome
    assert f"kubectl patch pots.{GROUP} held -n {NAMESPACE}" in action.outcome_hint
    assert action.done == [step.label for step in plan.steps[:2]]
    names = {
        row["metadata"]["name"]
        for row in admin.call("GET", f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/pots")["items"]
    }
    assert names == {"held"}, "the object of the older version could be read and was deleted"
    assert admin.find(*CRD, f"pots.{GROUP}"), "the definition goes after its objects"
    admin.merge(held, {"metadata": {"finalizers": None}})
    wait_until(lambda: attempt(action).state == "succeeded", "the leftovers being deleted")
    for thing in left.values():
        name = thing["metadata"]["name"]
        assert admin.find(thing["apiVersion"], thing["kind"], name) is None, name
    deletions = [
        event
        for event in apiserver.audit_events()
        if event["verb"] == "delete"
        and event.get("objectRef", {}).get("name") in ("vpot", "held", "pot.v1-abc")
        and event.get("responseStatus", {}).get("code", 500) < 300
        and "dryRun" not in event["requestURI"]
    ]
    assert {event["objectRef"]["resource"] for event in deletions} == {
        "validatingwebhookconfigurations", "pots", "clusterroles",
    }  # fmt: skip
    assert {event["impersonatedUser"]["username"] for event in deletions} == {"petra"}


def test_an_operator_that_is_installed_again_keeps_its_objects(
    apiserver: servers.ApiServer, cluster: Cluster, petra: User
) -> None:
    left = leave_behind(apiserver, "urns", "urn")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    read_inventory(cluster)
    plan = planned(cluster, "urn")
    action = record.request(plan, petra)
    make_operator(
        cluster=cluster, kind="Subscription", namespace=NAMESPACE, name="urn", package="urn"
    )
    make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace=NAMESPACE, name="urn.v1",
        details={"owned_crds": [f"urns.{GROUP}"]},
    )  # fmt: skip
    assert attempt(action).state == "refused"
    assert (action.outcome_code, action.done, action.sent_at) == ("replaced", [], None)
    admin = apiserver.admin
    for thing in left.values():
        assert admin.find(thing["apiVersion"], thing["kind"], thing["metadata"]["name"])
    admin.merge(left["crd"], {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    for thing in left.values():
        admin.delete(thing)
