"""What removed operators left on clusters: found from rows, shown with the order of deletion."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.diagnosis.remedies import is_command
from installs.facts.inventory import is_due
from installs.models import Action, ClusterInventory, CopyReport, Transition
from installs.queries.leftovers import RemovedOwner, leftovers_of, removed_owners
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_cluster, make_component, make_crd, make_operator
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
CONVERSION = {"conversion": {"namespace": "apps", "name": "etcd-operator-service"}}
OF_ETCD = {"owner_kind": "Operator", "owner_name": "etcd.apps"}


@pytest.fixture
def prod() -> Cluster:
    kinds = {
        kind: {"state": "served", "version": "v1"}
        for kind in ("PlatformOperator", "ClusterExtension", "Subscription")
    }
    kinds["ClusterServiceVersion"] = {"state": "served", "version": "v1alpha1"}
    return make_cluster(name="prod", kinds=kinds, synced_at=timezone.now())


def only(cluster: Cluster) -> RemovedOwner:
    (owner,) = removed_owners([cluster])
    return owner


def make_removed(cluster: Cluster) -> None:
    """What a Subscription `etcd` in `apps` left behind, of every kind."""
    make_crd(cluster=cluster, name="etcds.example.com", details=CONVERSION, **OF_ETCD)
    make_crd(cluster=cluster, name="backups.example.com", **OF_ETCD)
    make_component(cluster=cluster, kind="OperatorGroup", name="apps", namespace="apps")
    ClusterInventory.objects.create(
        cluster=cluster,
        instances={"etcds.example.com": 3},
        orphans={
            "ValidatingWebhookConfiguration": {"vetcd-x1": "apps/etcd.v1"},
            "APIService": {"v1.api.example.com": "apps/etcd.v1"},
            "ClusterRole": {"etcd.v1-abc": "apps/etcd.v1"},
        },
    )
    copies = {"name": "etcd.v1", "namespace": "apps", "copies": 12, "orphan": True}
    CopyReport.objects.create(cluster=cluster, state="done", result={"operators": [copies]})


def test_everything_of_a_removed_package_is_one_group_in_the_order_of_deletion(
    prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_removed(prod)
    with django_assert_max_num_queries(8):
        owner = only(prod)
    assert (owner.kind, owner.namespace, owner.name) == ("Subscription", "apps", "etcd")
    assert [(row.kind, row.name) for row in owner.leftovers] == [
        ("ValidatingWebhookConfiguration", "vetcd-x1"),
        ("APIService", "v1.api.example.com"),
        ("CustomResourceDefinition", "backups.example.com"),
        ("CustomResourceDefinition", "etcds.example.com"),
        ("ClusterRole", "etcd.v1-abc"),
        ("ClusterServiceVersion", "etcd.v1"),
        ("OperatorGroup", "apps"),
        ("Namespace", "apps"),
    ]
    assert [row.objects for row in owner.leftovers if row.kind.endswith("Version")] == [12]
    assert [row.name for row in owner.leftovers if row.converts] == ["etcds.example.com"]
    commands = [step for step in owner.steps if is_command(step)]
    assert [command.split()[1:3] for command in commands] == [
        ["delete", "validatingwebhookconfiguration/vetcd-x1"],
        ["delete", "apiservice/v1.api.example.com"],
        ["patch", "crd"],
        ["get", "backups.example.com,etcds.example.com"],
        ["delete", "backups.example.com,etcds.example.com"],
        ["get", "backups.example.com,etcds.example.com"],
        ["delete", "crd"],
        ["delete", "clusterrole/etcd.v1-abc"],
        ["delete", "csv"],
        ["-n", "apps"],
        ["get", "all,configmaps,secrets,pvc"],
        ["delete", "namespace"],
    ]


def test_nothing_of_an_operator_that_exists_is_left_behind(prod: Cluster) -> None:
    make_removed(prod)
    make_operator(
        cluster=prod, kind="Subscription", namespace="apps", name="my-etcd", package="etcd"
    )
    make_component(
        cluster=prod, kind="ClusterServiceVersion", namespace="apps", name="etcd.v1", details={}
    )
    assert removed_owners([prod]) == []


def test_a_csv_that_owns_the_crd_without_a_subscription_is_an_operator_too(prod: Cluster) -> None:
    make_crd(cluster=prod, name="etcds.example.com", **OF_ETCD)
    make_component(
        cluster=prod, kind="ClusterServiceVersion", namespace="other", name="etcd.v2",
        details={"owned_crds": ["etcds.example.com"]},
    )  # fmt: skip
    assert removed_owners([prod]) == []


def test_a_package_whose_label_is_cut_is_found_again(prod: Cluster) -> None:
    package = "a-package-with-a-very-long-name-that-does-not-fit-into-a-label"
    label = f"{package}.apps"[:63].rstrip("-._")
    make_crd(cluster=prod, name="a.example.com", owner_kind="Operator", owner_name=label)
    make_operator(cluster=prod, kind="Subscription", namespace="apps", name="a", package=package)
    assert removed_owners([prod]) == []


@pytest.mark.parametrize(
    ("owner_kind", "kind"),
    [("ClusterExtension", "ClusterExtension"), ("BundleDeployment", "PlatformOperator")],
)
def test_crds_of_other_install_methods_are_orphans_when_their_operator_is_gone(
    prod: Cluster, owner_kind: str, kind: str
) -> None:
    make_crd(cluster=prod, name="a.example.com", owner_kind=owner_kind, owner_name="argocd")
    owner = only(prod)
    assert (owner.kind, owner.name) == (kind, "argocd")
    make_operator(cluster=prod, kind=kind, name="argocd")
    assert removed_owners([prod]) == []


def test_cluster_roles_of_a_removed_extension_are_orphans(prod: Cluster) -> None:
    shared = {"ClusterRole": {"r": "ClusterExtension/argocd", "plain": "", "helm": "n/argocd"}}
    ClusterInventory.objects.create(cluster=prod, shared=shared)
    assert [row.name for row in only(prod).leftovers] == ["r"]


@pytest.mark.parametrize("state", ["forbidden", "failed"])
def test_operators_that_can_not_be_read_are_not_taken_for_removed(
    prod: Cluster, state: str
) -> None:
    make_removed(prod)
    prod.kinds["Subscription"]["state"] = state
    assert removed_owners([prod]) == []
    prod.kinds["Subscription"]["state"] = "served"
    assert removed_owners([prod])
    prod.synced_at = None
    assert removed_owners([prod]) == []


def test_the_group_of_an_empty_platform_namespace_stays(prod: Cluster) -> None:
    make_component(
        cluster=prod, kind="OperatorGroup", name="global", namespace="openshift-operators"
    )
    assert removed_owners([prod]) == []
    make_component(cluster=prod, kind="OperatorGroup", name="g", namespace="openshift-logging")
    assert [row.kind for row in only(prod).leftovers] == ["OperatorGroup"], "not its namespace"


def test_the_sandbox_has_no_leftovers_of_its_own(sandbox: Sandbox) -> None:
    cluster = make_cluster(name="prod", context="sandbox")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    assert removed_owners([cluster]) == []


def test_pages_show_them_with_commands_and_rest_lists_them(reader: Client, prod: Cluster) -> None:
    make_removed(prod)
    assert "/leftovers/" in assert_page(reader.get("/crds/")).links
    page = assert_page(reader.get("/leftovers/"))
    assert "1 removed operator with leftovers" in page.text
    assert "Webhook is gone" in page.text
    assert "kubectl delete crd backups.example.com etcds.example.com" in page.text
    assert "$ kubectl" not in page.text, "commands are shown to copy, not as sentences"
    assert "No results found" in assert_page(reader.get("/leftovers/?q=grafana")).text
    rows = reader.get("/api/v1/leftovers?cluster=prod").json()
    assert rows["count"] == 8
    assert rows["items"][3] == {
        "cluster": "prod",
        "owner": {"kind": "Subscription", "namespace": "apps", "name": "etcd"},
        "kind": "CustomResourceDefinition",
        "namespace": "",
        "name": "etcds.example.com",
        "objects": 3,
        "converts": True,
    }


def test_a_namespace_of_several_removed_operators_is_named_once(
    client: Client, olivia: Any, prod: Cluster
) -> None:
    make_component(cluster=prod, kind="OperatorGroup", name="own", namespace="apps")
    client.force_login(olivia)
    assert "apps Namespace on prod" in assert_page(client.get("/leftovers/")).text
    page = assert_page(client.get("/leftovers/prod/Namespace/apps/apps/clean-up"))
    assert "Clean up apps Namespace on prod" in page.text


def test_the_page_of_a_removed_operator_shows_its_own(reader: Client, prod: Cluster) -> None:
    make_removed(prod)
    make_crd(cluster=prod, name="x.example.com", owner_kind="Operator", owner_name="grafana.apps")
    Transition.objects.create(
        cluster=prod, kind="Subscription", namespace="apps", name="etcd", type="Object",
        from_status="present", to_status="deleted", uid="u", at=timezone.now(),
    )  # fmt: skip
    page = assert_page(reader.get("/operators/prod/Subscription/apps/etcd"))
    assert "Left on the cluster Name" in page.text
    assert "etcds.example.com" in page.text
    assert "x.example.com" not in page.text
    assert leftovers_of(prod, "Subscription", "apps", "my-etcd", "etcd")
    assert not leftovers_of(prod, "Subscription", "other", "etcd", "etcd")

    # The Subscription of a dependency has another name than its package.
    name = "etcd-stable-redhat-operators"
    note = "OLM v0 had installed etcd as a dependency of grafana."
    Transition.objects.update(name=name, message=note)
    page = assert_page(reader.get(f"/operators/prod/Subscription/apps/{name}"))
    assert page.text.count(note) == 2, "above, and in the timeline"
    assert "Left on the cluster by the removed operator etcd" in page.text
    assert note in assert_page(reader.get("/leftovers/")).text
    Transition.objects.update(message="")
    Action.objects.create(
        cluster=prod, verb="remove", path="Subscription", namespace="apps", name=name,
        package="etcd", state="succeeded",
    )  # fmt: skip
    page = assert_page(reader.get(f"/operators/prod/Subscription/apps/{name}"))
    assert "Left on the cluster by the removed operator etcd" in page.text
    assert "Left on the cluster in namespace apps" in page.text


def test_the_cluster_is_read_again_after_a_removal(prod: Cluster) -> None:
    prod.reachable = True
    prod.save()
    ClusterInventory.objects.create(cluster=prod)
    assert not is_due(prod)
    Action.objects.create(
        cluster=prod, verb="remove", name="etcd", state="succeeded",
        finished_at=timezone.now() + timedelta(seconds=1),
    )  # fmt: skip
    assert is_due(prod)


def test_a_name_that_a_shell_would_read_is_quoted_in_commands(prod: Cluster) -> None:
    orphans = {"ClusterRole": {"a; reboot": "apps/etcd.v1", "--all": "apps/etcd.v1"}}
    ClusterInventory.objects.create(cluster=prod, orphans=orphans)
    (command,) = filter(is_command, only(prod).steps)
    assert command == "kubectl delete clusterrole/--all 'clusterrole/a; reboot'"


def test_cluster_roles_of_a_removed_platform_operator_are_orphans(prod: Cluster) -> None:
    """Its BundleDeployment's Helm release owned them, in the namespace of rukpak."""
    shared = {
        "ClusterRole": {
            "a": "openshift-platform-operators/argocd",
            "b": "rukpak-system/argocd",
            "c": "apps/argocd",
        },
        "ClusterRoleBinding": {"d": "openshift-platform-operators/argocd"},
    }
    ClusterInventory.objects.create(cluster=prod, shared=shared)
    owner = only(prod)
    assert (owner.kind, owner.name) == ("PlatformOperator", "argocd")
    assert [(row.kind, row.name) for row in owner.leftovers] == [
        ("ClusterRoleBinding", "d"), ("ClusterRole", "a"), ("ClusterRole", "b"),
    ]  # fmt: skip
    make_component(cluster=prod, kind="BundleDeployment", name="argocd")
    assert removed_owners([prod]) == []


def test_the_leftovers_say_whether_the_cluster_was_read_after_the_removal(
    reader: Client, prod: Cluster
) -> None:
    make_removed(prod)
    now = timezone.now()
    Transition.objects.create(
        cluster=prod, kind="Subscription", namespace="apps", name="etcd", type="Object",
        from_status="present", to_status="deleted", uid="u", at=now,
    )  # fmt: skip
    path = "/operators/prod/Subscription/apps/etcd"
    inventory = ClusterInventory.objects.filter(cluster=prod)
    inventory.update(read_at=now - timedelta(minutes=1))
    text = assert_page(reader.get(path)).text
    assert "1 min ago , before the removal: validating webhooks, mutating webhooks" in text
    assert "The table includes" not in text
    served = ["apiregistration.k8s.io/v1/APIService", "rbac.authorization.k8s.io/v1/ClusterRole"]
    inventory.update(read_at=now + timedelta(seconds=1), kinds=served)
    text = assert_page(reader.get(path)).text
    assert "The table includes APIServices and ClusterRoles as of" in text
    assert ", after the removal. " in text
    unserved = "validating webhooks, mutating webhooks and ClusterRoleBindings"
    assert f"Not searched here: the API of cluster prod does not list {unserved}." in text


def test_the_operators_for_which_group_and_namespace_stay_are_linked(
    client: Client, prod: Cluster, olivia: Any
) -> None:
    make_removed(prod)
    make_operator(
        cluster=prod, kind="Subscription", namespace="apps", name="vault-stable", package="vault",
        details={"generated_by": "install-x"},
    )  # fmt: skip
    deletion = {"from_status": "present", "to_status": "deleted", "at": timezone.now()}
    Transition.objects.create(
        cluster=prod, kind="Subscription", namespace="apps", name="etcd", type="Object", uid="u",
        **deletion,
    )  # fmt: skip
    client.force_login(olivia)
    for path in (
        "/leftovers/",
        "/leftovers/prod/Subscription/apps/etcd/clean-up",
        "/operators/prod/Subscription/apps/etcd",
    ):
        page = assert_page(client.get(path))
        assert (
            "The OperatorGroup and Namespace apps stay and are not listed: the namespace still has "
            "vault (installed by OLM as a dependency"
        ) in page.text, path
        assert "/operators/prod/Subscription/apps/vault-stable" in page.links
