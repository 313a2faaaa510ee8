"""Asking for an action: who may, what is planned, tried and recorded. Against the sandbox."""

from dataclasses import replace
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser, User

from catalogs.models import Catalog, Package
from catalogs.sync.catalog import sync_catalog
from installs.actions.plan import plan_install
from installs.actions.record import dry_run, request
from installs.actions.removal import plan_remove, removal_effect
from installs.facts.evaluate import refresh
from installs.models import Action, ClusterInventory, CRDState
from installs.models.steps import Apply
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.worlds.fbc import bundle_blob, csv_metadata
from tests.worlds.operators import MODE, make_failing
from tests.worlds.syncing import make
from tests.worlds.verdicts import package_blobs

pytestmark = pytest.mark.django_db
OWN = [{"type": "OwnNamespace", "supported": True}]


@pytest.fixture
def cluster(db: None) -> Cluster:
    return make_cluster(name="prod", context="sandbox")


@pytest.fixture
def package(cluster: Cluster) -> Package:
    return make_package(name="etcd", catalog=make_catalog(cluster=cluster))


# --- planning ----------------------------------------------------------------------------------


def test_a_sound_package_is_planned_without_cautions(package: Package, olivia: User) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    plan = plan_install(cluster, package, "")
    assert plan.name == "etcd"
    assert plan.manifests[-1]["spec"] == {"package": {"name": "etcd"}}
    assert "name: etcd" in plan.yaml
    assert plan.warnings == ()


def test_the_review_has_the_verdict_of_exactly_the_bundle_that_the_plan_resolves_to(
    cluster: Cluster, tmp_path: Path, olivia: User
) -> None:
    """No channel lists the newest bundle, so nothing installs it."""
    catalog = make(
        tmp_path,
        [
            *package_blobs("etcd", "1.0.0", webhookdefinitions=[{"generateName": "w"}]),
            bundle_blob("2.0.0", "etcd", csv=csv_metadata(installModes=OWN)),
        ],
    )
    Catalog.objects.filter(pk=catalog.pk).update(cluster=cluster)
    catalog.refresh_from_db()
    assert sync_catalog(catalog).outcome == "changed"
    package = Package.objects.get(name="etcd")
    plan = plan_install(cluster, package, "")
    assert plan.target == "etcd.v1.0.0"
    assert [one.rule for one in plan.warnings] == ["po-other-catalog"]
    assert plan.verdict is None, "not evaluated yet"
    refresh(catalog, [cluster])
    plan = plan_install(cluster, package, "")
    assert plan.verdict is not None
    assert plan.verdict.rule == "po-webhook"


def test_an_operatorgroup_that_the_cluster_has_none_of_is_evaluated_for_the_review(
    cluster: Cluster, tmp_path: Path, olivia: User
) -> None:
    catalog = make(tmp_path, package_blobs("etcd", "1.0.0"))
    sync_catalog(catalog)
    served = {"state": "served", "version": "v1alpha1"}
    Cluster.objects.filter(pk=cluster.pk).update(kinds={"Subscription": served})
    cluster.refresh_from_db()
    make_component(cluster=cluster, kind="CatalogSource", name="demo", namespace="olm")
    package = Package.objects.get(name="etcd")
    fields = {"namespace": "apps", "targets": "shop"}
    plan = plan_install(cluster, package, "", "Subscription", fields)
    assert plan.verdict is not None
    assert (plan.verdict.rule, plan.verdict.target) == ("sub-install-mode", "one")


def test_another_catalog_and_an_operator_that_is_there_already_give_cautions(
    cluster: Cluster, olivia: User
) -> None:
    package = make_package(catalog=make_catalog(name="community-operators", cluster=cluster))
    make_operator(cluster=cluster, name="etcd-old", package="etcd")
    make_operator(cluster=cluster, name="etcd", package="other")
    warnings = plan_install(cluster, package, "").warnings
    assert [one.rule for one in warnings] == [
        "po-other-catalog",
        "helm-ownership-conflict",
        "already-there",
    ]
    assert all(one.text.endswith(".") for one in warnings)


def test_a_wrong_name_is_told_at_its_field(package: Package, olivia: User) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    with pytest.raises(OlmwebError) as caught:
        plan_install(cluster, package, "Etcd!")
    assert list(caught.value.fields) == ["name"]
    assert caught.value.status == 400


def test_a_cluster_without_platform_operators_can_not_be_planned_for(
    package: Package, olivia: User
) -> None:
    cluster = make_cluster(name="plain", kinds={"PlatformOperator": {"state": "absent"}})
    with pytest.raises(OlmwebError, match="serves no PlatformOperators") as caught:
        plan_install(cluster, package, "")
    assert caught.value.status == 409


# --- trying ------------------------------------------------------------------------------------


def test_a_dry_run_is_accepted_and_keeps_nothing(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    tried = dry_run(plan_install(cluster, package, "try-me"), olivia)
    assert tried.ok, tried
    assert sandbox.store.get("PlatformOperator", "try-me") is None


def test_a_dry_run_puts_the_clusters_error_at_its_field(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    plan = plan_install(cluster, package, "try-me")
    wrong = {**plan.manifests[-1], "spec": {"package": {"name": "p" * 60}}}
    tried = dry_run(replace(plan, steps=(Apply(wrong, main=True),)), olivia)
    assert not tried.ok
    assert list(tried.fields) == ["package"]
    assert tried.code == "invalid"


def test_a_dry_run_that_is_forbidden_says_what_to_ask_for(
    sandbox: Sandbox, cluster: Cluster, package: Package, tess: User
) -> None:
    tried = dry_run(plan_install(cluster, package, "try-me"), tess)
    assert not tried.ok
    assert tried.message.startswith("tess may not install this on cluster prod: platform")
    assert "platformoperators.platform.openshift.io" in tried.hint


def test_a_dry_run_of_an_object_that_another_manages_names_the_manager(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    taken_by_another(sandbox, "try-me")
    tried = dry_run(plan_install(cluster, package, "try-me"), olivia)
    assert not tried.ok
    assert tried.message == "Nothing was changed: spec.package.name belongs to argocd."


def test_a_dry_run_without_a_cluster_is_a_sentence(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    sandbox.stop()
    tried = dry_run(plan_install(cluster, package, "try-me"), olivia)
    assert not tried.ok
    assert tried.code == "unreachable"
    assert tried.message.endswith(".")


def taken_by_another(sandbox: Sandbox, name: str) -> None:
    """An object whose package is owned by the field manager argocd."""
    sandbox.store.put(
        {
            "apiVersion": "platform.openshift.io/v1alpha1",
            "kind": "PlatformOperator",
            "metadata": {
                "name": name,
                "managedFields": [
                    {
                        "manager": "argocd",
                        "operation": "Apply",
                        "apiVersion": "platform.openshift.io/v1alpha1",
                        "time": "2026-01-01T00:00:00Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:spec": {"f:package": {"f:name": {}}}},
                    }
                ],
            },
            "spec": {"package": {"name": "another"}},
        }
    )


# --- asking ------------------------------------------------------------------------------------


def test_an_install_is_recorded_before_anything_is_sent(package: Package, olivia: User) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    plan = plan_install(cluster, package, "")
    action = request(plan, olivia)
    assert (action.state, action.verb, action.name) == ("pending", "install", "etcd")
    assert (action.as_user, action.as_groups) == ("olivia", ["olmweb-operators"])
    assert action.steps == plan.steps
    assert action.sent_at is None


def test_asked_twice_it_is_one_action(package: Package, olivia: User, alice: User) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    plan = plan_install(cluster, package, "")
    first = request(plan, olivia)
    assert request(plan, olivia) == first
    assert request(plan, alice) == first
    assert Action.objects.count() == 1


def test_an_idempotency_key_gives_the_same_action_even_when_it_is_finished(
    package: Package, olivia: User, alice: User
) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    plan = plan_install(cluster, package, "")
    first = request(plan, olivia, idempotency_key="k")
    Action.objects.update(state="succeeded")
    assert request(plan, olivia, idempotency_key="k") == first
    assert request(plan, alice, idempotency_key="k") != first, "keys are per person"


def test_an_object_with_another_open_action_is_busy(package: Package, olivia: User) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    operator = make_operator(cluster=cluster, name="etcd")
    request(plan_remove(operator), olivia)
    with pytest.raises(OlmwebError, match="is not finished") as caught:
        request(plan_install(cluster, package, ""), olivia)
    assert caught.value.status == 409


def test_a_removal_names_this_very_object_and_what_goes_with_it(
    cluster: Cluster, olivia: User
) -> None:
    operator = make_operator(cluster=cluster, name="etcd", uid="u-1")
    action = request(plan_remove(operator), olivia)
    assert (action.verb, action.object_uid) == ("remove", "u-1")
    assert request(plan_remove(operator), olivia) == action
    assert "any CustomResourceDefinition that it created" in " ".join(
        removal_effect(operator).sentences
    )


def test_what_never_unpacked_takes_nothing_else_along(cluster: Cluster) -> None:
    failed = make_failing(cluster, "etcd", MODE)
    assert removal_effect(failed).sentences == (
        "PlatformOperator etcd is deleted. It has not installed anything, so no other object is "
        "deleted.",
    )
    upgraded = make_operator(
        cluster=cluster, kind="ClusterExtension", name="acme", finding=failed.finding, version="1"
    )
    assert "with all its custom resources" in " ".join(removal_effect(upgraded).sentences)
    CRDState.objects.create(
        cluster=cluster, name="etcds.example.org", kind="Etcd", owner_kind="BundleDeployment",
        owner_name="etcd",
    )  # fmt: skip
    unknown = "CustomResourceDefinition etcds.example.org with all its custom resources"
    assert unknown in " ".join(removal_effect(failed).sentences)
    inventory = ClusterInventory.objects.update_or_create(cluster=cluster)[0]
    for number, words in ((0, "0 custom resources"), (1, "1 custom resource")):
        inventory.instances = {"etcds.example.org": number}
        inventory.save()
        counted = f"etcds.example.org with {words} at the last count, in every namespace."
        assert counted in " ".join(removal_effect(failed).sentences)


def test_other_kinds_are_not_removed_and_strangers_remove_nothing(
    cluster: Cluster, olivia: User
) -> None:
    odd = make_operator(cluster=cluster, name="x", kind="ClusterServiceVersion")
    with pytest.raises(OlmwebError, match="does not remove"):
        request(plan_remove(odd), olivia)
    with pytest.raises(OlmwebError, match="Sign in"):
        request(plan_remove(make_operator(cluster=cluster)), AnonymousUser())
    assert not Action.objects.exists()
