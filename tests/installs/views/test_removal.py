"""The removal of operators whose conversion webhook CustomResourceDefinitions still need."""

from typing import Any

import pytest
from django.test import Client

from installs.actions.bulk_changes import BulkChange, BulkOptions, candidates, plan_items
from installs.actions.removal import converted_crds, plan_remove, removal_effect
from installs.models import Action, ClusterInventory, Operator
from installs.state.full_sync import sync_cluster
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_cluster,
    make_component,
    make_crd,
    make_operator,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
REMOVE = "/operators/prod/Subscription/apps/etcd/remove"
WEBHOOK = {"conversion": {"namespace": "apps", "name": "etcd-operator-service"}}
OWNED = {"owner_kind": "Operator", "owner_name": "etcd.apps"}
TWO = ["v1beta1", "v1"]


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    """The sandbox's cluster with a Subscription and its ClusterServiceVersion as rows."""
    cluster = make_cluster(name="prod", context="sandbox")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    details = {"installed_csv": "etcd.v1", "current_csv": "etcd.v1"}
    make_operator(
        cluster=cluster, kind="Subscription", namespace="apps", name="etcd", package="etcd",
        details=details,
    )  # fmt: skip
    make_component(
        cluster=cluster,
        kind="ClusterServiceVersion",
        namespace="apps",
        name="etcd.v1",
        details={
            "deployments": ["etcd-operator"],
            "owned_crds": ["etcds.example.com"],
            "conversion_crds": ["etcds.example.com"],
        },
    )
    return cluster


def subscription() -> Operator:
    return Operator.objects.get(kind="Subscription", namespace="apps", name="etcd")


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def names() -> list[str]:
    return [row.crd.name for row in converted_crds(subscription())]


def test_a_crd_of_several_versions_needs_the_webhook_of_its_operator(prod: Cluster) -> None:
    make_crd(cluster=prod, name="etcds.example.com", served=TWO, details=WEBHOOK)
    make_crd(cluster=prod, name="b.example.com", served=TWO, details=WEBHOOK, **OWNED)
    # Only its Service says whose webhook it is.
    make_crd(cluster=prod, name="c.example.com", served=TWO, details=WEBHOOK)
    # One version needs no conversion, and other Services are not those of the operator.
    make_crd(cluster=prod, name="d.example.com", details=WEBHOOK, **OWNED)
    foreign = {"conversion": {"namespace": "other", "name": "etcd-operator-service"}}
    make_crd(cluster=prod, name="e.example.com", served=TWO, details=foreign, **OWNED)
    make_crd(cluster=prod, name="f.example.com", served=TWO, **OWNED)
    assert names() == ["b.example.com", "c.example.com", "etcds.example.com"]
    assert [row.is_reset for row in converted_crds(subscription())] == [False, False, True]


def test_an_old_stored_version_counts_though_it_is_not_served(prod: Cluster) -> None:
    make_crd(
        cluster=prod, name="b.example.com", stored=["v1alpha1", "v1"], details=WEBHOOK, **OWNED
    )
    assert names() == ["b.example.com"]


def test_crds_that_are_deleted_with_their_operator_count_if_objects_must_be_converted(
    prod: Cluster,
) -> None:
    extension = make_operator(cluster=prod, kind="ClusterExtension", name="kettle")
    owner = {"owner_kind": "ClusterExtension", "owner_name": "kettle", "details": WEBHOOK}
    make_crd(cluster=prod, name="a.example.com", served=TWO, **owner)
    assert not converted_crds(extension)
    make_crd(cluster=prod, name="b.example.com", stored=TWO, **owner)
    assert [row.crd.name for row in converted_crds(extension)] == ["b.example.com"]


def test_the_page_refuses_the_removal_without_an_explicit_word_and_shows_the_order(
    writer: Client, prod: Cluster
) -> None:
    make_crd(cluster=prod, name="etcds.example.com", served=TWO, details=WEBHOOK)
    ClusterInventory.objects.create(cluster=prod, instances={"etcds.example.com": 7})
    page = assert_page(writer.get(REMOVE))
    assert "Conversion webhook still needed" in page.text
    order = ["kubectl get etcds.example.com -A -o yaml", "delete etcds.example.com -A --all"]
    places = [page.text.index(command) for command in (*order, "delete crd etcds.example.com")]
    assert places == sorted(places)
    shown = writer.get(REMOVE).context
    sent = {"sure": "yes", "reviewed": shown["reviewed"], "key": shown["key"]}
    refused = writer.post(REMOVE, sent)
    assert "needs the conversion webhook of etcd" in assert_page(refused, 422).text
    assert not Action.objects.exists()
    assert writer.post(REMOVE, sent | {"without_conversion": "yes"}).status_code == 303
    assert Action.objects.get().verb == "remove"


def test_rest_refuses_the_removal_without_the_field_of_the_same_meaning(
    writer: Client, prod: Cluster
) -> None:
    make_crd(cluster=prod, name="etcds.example.com", served=TWO, details=WEBHOOK)
    body = {
        "cluster": "prod",
        "verb": "remove",
        "method": "Subscription",
        "namespace": "apps",
        "name": "etcd",
    }

    def post(**more: Any) -> Any:
        return writer.post("/api/v1/actions", body | more, content_type="application/json")

    refused = post()
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "conversion-webhook"
    assert "kubectl delete crd etcds.example.com" in refused.json()["error"]["hint"]
    assert post(anyway=True).status_code == 422, "a removal has no such field"
    assert post(without_conversion=True).status_code == 202


def test_a_bulk_removal_leaves_such_an_operator_out(prod: Cluster) -> None:
    make_crd(cluster=prod, name="etcds.example.com", served=TWO, details=WEBHOOK)
    rows = candidates(BulkChange.REMOVE, prod, [subscription()])
    (planned,) = plan_items(BulkChange.REMOVE, rows, BulkOptions())
    assert "needs the conversion webhook" in planned.item.problem
    with pytest.raises(OlmwebError) as caught:
        plan_remove(subscription())
    assert caught.value.status == 409
    assert plan_remove(subscription(), without_conversion=True).deletions


@pytest.mark.parametrize("count", [1, 10, 50])
def test_the_queries_of_a_bulk_removal_do_not_depend_on_its_operators(
    prod: Cluster, count: int, django_assert_num_queries: Any
) -> None:
    ClusterInventory.objects.create(cluster=prod, instances={"s0.example.com": 7})
    for number in range(count):
        namespace, name = f"team-{number % 7}", f"s{number}"
        make_operator(
            cluster=prod, kind="Subscription", namespace=namespace, name=name, package=name,
            details={"installed_csv": f"{name}.v1", "generated_by": "install-x" * (number % 2)},
        )  # fmt: skip
        csv = {"owned_crds": [f"{name}.example.com"], "deployments": [name]}
        make_component(
            cluster=prod, kind="ClusterServiceVersion", namespace=namespace, name=f"{name}.v1",
            details=csv, uid=f"uid-{name}",
        )  # fmt: skip
        make_component(cluster=prod, kind="OperatorGroup", namespace=namespace, name=name)
        make_crd(
            cluster=prod, name=f"{name}.example.com", owner_kind="Operator",
            owner_name=f"{name}.{namespace}",
        )  # fmt: skip
    chosen = Operator.objects.filter(name__startswith="s", namespace__startswith="team-")
    rows = candidates(BulkChange.REMOVE, prod, list(chosen.select_related("cluster")))
    with django_assert_num_queries(4):
        planned = plan_items(BulkChange.REMOVE, rows, BulkOptions())
    assert len(planned) == count
    for row in planned:
        assert row.item.plan is not None
        alone = plan_remove(row.operator)
        assert row.item.plan == alone
        assert alone.deletions[-1].uid == f"uid-{row.operator.name}"
        stays = f"Not deleted: CustomResourceDefinition {row.operator.name}.example.com"
        assert alone.consequences[-1].startswith(stays)


def test_an_operator_without_conversion_webhook_is_removed_as_before(
    writer: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_crd(cluster=prod, name="etcds.example.com", served=TWO)
    operator = subscription()
    with django_assert_max_num_queries(2):
        assert not converted_crds(operator)
    assert "Conversion webhook" not in assert_page(writer.get(REMOVE)).text


def test_the_page_names_what_stays_apart_from_what_is_deleted(
    writer: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_crd(cluster=prod, name="etcds.example.com", **OWNED)
    ClusterInventory.objects.create(cluster=prod, instances={"etcds.example.com": 7})
    make_component(cluster=prod, kind="OperatorGroup", namespace="apps", name="team")
    make_operator(cluster=prod, kind="Subscription", namespace="apps", name="acme", package="acme",
                  details={"generated_by": ""})  # fmt: skip

    def sections() -> tuple[str, str]:
        """The texts of both cards."""
        text = assert_page(writer.get(REMOVE)).text
        deleted, stay = text.split("What will be deleted")[1].split("What stays")
        return deleted.strip(), stay

    deleted, stay = sections()
    assert "Not deleted" not in deleted
    assert "Count their custom resources" not in deleted
    assert deleted.endswith("I understand that these resources will be deleted")
    assert "CustomResourceDefinition etcds.example.com with 7 custom resources" in stay
    assert "OperatorGroup apps/team" in stay
    assert "Namespace apps" in stay
    assert "dependency" not in stay
    assert "Leftovers lists the CustomResourceDefinitions" in stay

    make_operator(
        cluster=prod,
        kind="Subscription",
        namespace="apps",
        name="vault-stable-certified-marketplace",
        package="vault",
        details={"generated_by": "install-x"},
    )
    _, stay = sections()
    assert "The operator that OLM installed as a dependency: vault" in stay
    assert "remove vault" in stay
    operator = subscription()
    with django_assert_max_num_queries(4):
        sentences = removal_effect(operator).sentences
    assert sentences[-1].startswith("Not deleted: CustomResourceDefinition etcds.example.com with")
    assert "Namespace apps and the operator that OLM installed" in sentences[-1]
