"""Retries that make anew what no controller tries again: plans, and what comes of them."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from catalogs.models import Package
from installs.actions import execute, follow, retry
from installs.actions.objects import RETRIED
from installs.actions.plan import Plan
from installs.actions.record import dry_run, request
from installs.models import Action, Component, Operator
from installs.state.full_sync import sync_cluster
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Broken
from olmweb.kube.resources import Resource
from olmweb.models import ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_component
from tests.installs.actions import test_actions_subscription as v0
from tests.installs.actions.test_actions_subscription import NAMESPACE, PACKAGE, carry_out, planned

pytestmark = pytest.mark.django_db
sandbox, cluster, package = v0.sandbox, v0.cluster, v0.package
CSV = f"{PACKAGE}.v0.9.1"
NOT_SERVED = (
    "api-server resource not found installing ServiceMonitor gate: GroupVersionKind "
    "monitoring.coreos.com/v1, Kind=ServiceMonitor not found on the cluster."
)


@pytest.fixture
def failed(sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User) -> Operator:
    """A Subscription as OLM 0.42 leaves it when its first InstallPlan has failed."""
    action = carry_out(request(planned(cluster, package, olivia, approval="Automatic"), olivia))
    assert action.state == "succeeded", action.outcome
    (plan,) = sandbox.store.items("InstallPlan", NAMESPACE)[0]
    ended = {"type": "Installed", "status": "False", "reason": "InstallComponentFailed"}
    told = {"phase": "Failed", "message": NOT_SERVED, "conditions": [ended]}
    change(sandbox, plan, told)
    csv = sandbox.store.get("ClusterServiceVersion", CSV, NAMESPACE)
    assert csv is not None
    change(sandbox, csv, {"phase": "Pending", "reason": "RequirementsNotMet", "message": "none"})
    sync_cluster(cluster)
    return row(cluster)


def change(sandbox: Sandbox, item: dict[str, Any], status: dict[str, Any]) -> None:
    sandbox.store.put({**item, "status": {**item["status"], **status}})


def row(cluster: Cluster) -> Operator:
    return Operator.objects.select_related("cluster").get(cluster=cluster, namespace=NAMESPACE)


def stored(sandbox: Sandbox, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    found = sandbox.store.get(kind, name, namespace)
    assert found is not None
    return found


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.deletions]


# --- a failed InstallPlan -----------------------------------------------------------------------


def test_a_failed_plan_is_deleted_with_what_it_left_and_the_subscription_is_made_again(
    sandbox: Sandbox, cluster: Cluster, olivia: User, failed: Operator
) -> None:
    assert (failed.health, failed.finding) == ("Failed", "plan-api-missing")
    before = stored(sandbox, "Subscription", PACKAGE)
    plan = retry.plan_retry(failed)
    assert kinds(plan) == ["InstallPlan", "ClusterServiceVersion", "Subscription"]
    assert all(step.uid for step in plan.deletions)
    assert plan.manifests[-1]["spec"] == before["spec"], "all that it had, and nothing else"
    tried = dry_run(plan, olivia)
    assert tried.ok, tried
    assert [words for _, words in tried.objects] == ["deleted"] * 3 + ["accepted"]
    assert stored(sandbox, "Subscription", PACKAGE) == before, "only tried"

    action = carry_out(request(plan, olivia, dry_run_result=tried))
    assert (action.state, action.outcome) == ("succeeded", f"{PACKAGE} is healthy.")
    after = stored(sandbox, "Subscription", PACKAGE)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert row(cluster).health == "Healthy"
    assert stored(sandbox, "ClusterServiceVersion", CSV)["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("step", range(4))
def test_a_worker_that_dies_after_any_deletion_is_replaced_and_the_subscription_comes_back(
    sandbox: Sandbox,
    olivia: User,
    failed: Operator,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    action = request(retry.plan_retry(failed), olivia)
    marks: list[str] = []
    mark = execute._mark_done

    def dies(action: Action, named: str) -> None:
        if len(marks) == step:
            raise KeyboardInterrupt
        marks.append(named)
        mark(action, named)

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_mark_done", dies)
        if step == 3:  # after all deletions, before the apply
            patch.setattr("olmweb.kube.client.KubeClient.apply", _killed)
        with pytest.raises(KeyboardInterrupt):
            follow.run(action.pk)
    assert carry_out(action).state == "succeeded", action.outcome
    assert stored(sandbox, "Subscription", PACKAGE)["spec"]["name"] == PACKAGE


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _disable(user: User) -> None:
    user.is_active = False
    user.save()


def _delete_tokens(user: User) -> None:
    ApiToken.objects.filter(user=user).delete()


@pytest.mark.parametrize("loses", [_disable, _delete_tokens])
@pytest.mark.parametrize(
    ("failing", "deleted"),
    [
        ("installplans", []),
        ("subscriptions", ["InstallPlan", "ClusterServiceVersion"]),
    ],
)
def test_a_retry_that_did_not_delete_its_subscription_ends_with_the_right_of_the_person(
    sandbox: Sandbox,
    olivia: User,
    failed: Operator,
    monkeypatch: pytest.MonkeyPatch,
    loses: Callable[[User], None],
    failing: str,
    deleted: list[str],
) -> None:
    """The first attempt is noted as sent, then the API server has no answer to a deletion."""
    _text, token = ApiToken.issue(olivia.pk, "act")
    action = request(retry.plan_retry(failed), olivia, token=token)

    def delete(client: Any, resource: Resource, *args: Any, **options: Any) -> Any:
        if resource.plural == failing:
            raise Broken("Cluster prod is overloaded.", status=503)
        return sent(client, resource, *args, **options)

    sent = KubeClient.delete
    with monkeypatch.context() as patch:
        patch.setattr(KubeClient, "delete", delete)
        assert follow.run(action.pk) is not None
    action.refresh_from_db()
    assert action.sent_at is not None
    assert [entry.split()[1] for entry in action.done] == deleted
    loses(olivia)
    action = carry_out(action)
    assert (action.state, action.outcome_code) == ("lost", "not-allowed")
    assert ("Done before that: deleted InstallPlan" in action.outcome) is bool(deleted)
    assert stored(sandbox, "Subscription", PACKAGE)["metadata"]["uid"] == failed.uid


def test_a_retry_that_deleted_its_subscription_makes_it_again_whatever_the_person_lost(
    sandbox: Sandbox, olivia: User, failed: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = request(retry.plan_retry(failed), olivia)
    with monkeypatch.context() as patch:
        patch.setattr(KubeClient, "apply", _killed)
        with pytest.raises(KeyboardInterrupt):
            follow.run(action.pk)
    assert sandbox.store.get("Subscription", PACKAGE, NAMESPACE) is None
    _disable(olivia)
    assert carry_out(action).state == "succeeded", action.outcome
    assert stored(sandbox, "Subscription", PACKAGE)["spec"]["name"] == PACKAGE


def test_while_what_is_deleted_first_is_still_there_the_subscription_stays(
    sandbox: Sandbox, olivia: User, failed: Operator
) -> None:
    csv = stored(sandbox, "ClusterServiceVersion", CSV)
    csv["metadata"]["finalizers"] = ["operators.coreos.com/csv-cleanup"]
    sandbox.store.put(csv)
    action = request(retry.plan_retry(failed), olivia)
    assert follow.run(action.pk) is not None
    assert "deletionTimestamp" in stored(sandbox, "ClusterServiceVersion", CSV)["metadata"]
    assert stored(sandbox, "Subscription", PACKAGE)["metadata"]["uid"] == failed.uid
    sandbox.store.delete("ClusterServiceVersion", CSV, NAMESPACE)
    assert carry_out(action).state == "succeeded"


def _give_config(item: dict[str, Any]) -> None:
    item["spec"]["config"] = {"env": [{"name": "A", "value": "b"}]}


def _give_label(item: dict[str, Any]) -> None:
    item["metadata"]["labels"] = {"argocd.argoproj.io/instance": "x"}


def _give_owner(item: dict[str, Any]) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    item["metadata"]["ownerReferences"] = [owner]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_give_config, "its specification is not what was shown"),
        (_give_label, "it has argocd.argoproj.io/instance, which would be lost"),
        (_give_owner, "another object owns it"),
    ],
)
def test_what_would_lose_something_is_not_made_again_whenever_that_came_to_be(
    sandbox: Sandbox,
    olivia: User,
    failed: Operator,
    spoil: Callable[[dict[str, Any]], None],
    words: str,
) -> None:
    plan = retry.plan_retry(failed)
    item = stored(sandbox, "Subscription", PACKAGE)
    spoil(item)
    sandbox.store.put(item)
    tried = dry_run(plan, olivia)
    assert not tried.ok
    assert words in tried.message
    action = carry_out(request(plan, olivia))
    assert (action.state, action.outcome_code) == ("refused", "changed")
    assert words in action.outcome
    assert stored(sandbox, "ClusterServiceVersion", CSV), "nothing was deleted"
    assert stored(sandbox, "Subscription", PACKAGE)["metadata"]["uid"] == failed.uid


def test_the_way_out_of_a_failed_upgrade_is_told_step_by_step(
    failed: Operator, client: Client, olivia: User
) -> None:
    old = f"{PACKAGE}.v0.9.0"
    assert retry.plan_retry(failed).by_hand == (), "nothing of an earlier version is there"
    make_component(
        cluster=failed.cluster, kind="ClusterServiceVersion", namespace=NAMESPACE, name=old
    )
    details = {**failed.details, "installed_csv": old}
    Operator.objects.filter(pk=failed.pk).update(details=details)
    failed.refresh_from_db()
    plan = retry.plan_retry(failed)
    assert plan.deletions == []
    where = f"-n {NAMESPACE}"
    assert [each for each in plan.by_hand if each.startswith("kubectl")] == [
        f"kubectl get installplan {details['plan']} {where} -o yaml",
        f"kubectl get subscription.operators.coreos.com {PACKAGE} {where} -o yaml > kept.yaml",
        f"kubectl delete subscription.operators.coreos.com {PACKAGE} {where}",
        f"kubectl delete installplan {details['plan']} {where}",
        f"kubectl delete clusterserviceversion {CSV} {where}",
        f"kubectl delete clusterserviceversion {old} {where}",
        "kubectl create -f kept.yaml",
    ]
    client.force_login(olivia)
    args = (failed.cluster.name, "Subscription", NAMESPACE, failed.name)
    page = client.get(reverse("installs:retry", args=args)).content.decode()
    assert "Manual steps, in this order" in page
    assert f"kubectl delete clusterserviceversion {old} {where}" in page


def test_no_way_out_is_told_where_the_plan_is_of_others_too(failed: Operator) -> None:
    old = make_component(
        cluster=failed.cluster,
        kind="ClusterServiceVersion",
        namespace=NAMESPACE,
        name=f"{PACKAGE}.v0.9.0",
    )
    details = {**failed.details, "installed_csv": old.name}
    Operator.objects.filter(pk=failed.pk).update(details=details)
    plan = Component.objects.get(kind="InstallPlan", name=details["plan"])
    plan.details = {**plan.details, "csvs": [CSV, "other.v1.0.0"]}
    plan.save()
    failed.refresh_from_db()
    assert retry.plan_retry(failed).by_hand == ()


@pytest.mark.parametrize(
    ("details", "csv", "words"),
    [
        ({"config": ["env"]}, {}, "its spec.config is not known here"),
        ({"installed_csv": "older.v1"}, {}, "older.v1 is installed"),
        ({}, {"phase": "Succeeded"}, "runs all the same"),
    ],
)
def test_where_a_new_subscription_would_not_do_its_controller_only_looks_again(
    failed: Operator, details: dict[str, Any], csv: dict[str, Any], words: str
) -> None:
    Operator.objects.filter(pk=failed.pk).update(details={**failed.details, **details})
    if csv:
        failed.components.filter(kind="ClusterServiceVersion", name=CSV).update(**csv)
    failed.refresh_from_db()
    plan = retry.plan_retry(failed)
    assert plan.deletions == []
    assert words in plan.consequences[0]
    assert plan.consequences[1] == retry.LOOK


def test_what_works_is_only_looked_at(cluster: Cluster) -> None:
    row = Operator.objects.filter(kind="Subscription", health="Healthy").first()
    assert row is not None
    assert retry.plan_retry(row).deletions == []


def test_who_may_not_delete_what_it_takes_is_told_so_before_anything_is_sent(
    sandbox: Sandbox, tess: User, failed: Operator
) -> None:
    tried = dry_run(retry.plan_retry(failed), tess)
    assert (tried.ok, tried.code) == (False, "forbidden")
    assert "delete installplans.operators.coreos.com" in tried.hint
    assert stored(sandbox, "ClusterServiceVersion", CSV)


# --- unpacking ------------------------------------------------------------------------------------


def test_a_failed_unpack_job_is_deleted_with_its_config_map_before_olm_looks_again(
    sandbox: Sandbox, cluster: Cluster, olivia: User, failed: Operator
) -> None:
    bundle = package_of(cluster).bundles.get(version="1.1.0")
    failing = {
        "type": "BundleUnpackFailed",
        "status": "True",
        "reason": "BundleUnpackFailed",
        "message": "bundle unpacking failed. Reason: DeadlineExceeded, and Message: Job was active "
        "longer than specified deadline",
    }
    name = hashlib.sha256(bundle.image.encode()).hexdigest()[:63]
    where = {"name": name, "namespace": failed.catalog_namespace}
    for kind, version in (("ConfigMap", "v1"), ("Job", "batch/v1")):
        sandbox.store.put({"apiVersion": version, "kind": kind, "metadata": where})
    sandbox.store.delete("ClusterServiceVersion", CSV, NAMESPACE)
    item = stored(sandbox, "Subscription", PACKAGE)
    sandbox.store.put({**item, "status": {"conditions": [failing]}})
    sync_cluster(cluster)
    plan = retry.plan_retry(row(cluster))
    assert [(step.kind, step.name) for step in plan.deletions] == [
        ("ConfigMap", name),
        ("Job", name),
    ]
    assert bundle.name in plan.consequences[0]
    assert dry_run(plan, olivia).ok
    assert sandbox.store.get("Job", name, failed.catalog_namespace) is not None
    action = carry_out(request(plan, olivia))
    assert (action.state, action.outcome) == ("succeeded", f"{PACKAGE} is healthy.")
    for kind in ("ConfigMap", "Job"):
        assert sandbox.store.get(kind, name, failed.catalog_namespace) is None
    after = stored(sandbox, "Subscription", PACKAGE)
    assert RETRIED in after["metadata"]["annotations"]
    assert after["metadata"]["uid"] == failed.uid


def fail_to_unpack(sandbox: Sandbox, operator: Operator, installed: str = "") -> str:
    """The plan fails as with OLM 0.18 to 0.24, which unpack for it; the name of the unpack job."""
    bundle = package_of(operator.cluster).bundles.get(version="1.1.0")
    (plan,) = sandbox.store.items("InstallPlan", NAMESPACE)[0]
    reason = {
        "reason": "DeadlineExceeded",
        "message": "Job was active longer than specified deadline",
    }
    lookup = {
        "identifier": bundle.name,
        "path": bundle.image,
        "conditions": [{"type": "BundleLookupFailed", "status": "True", **reason}],
    }
    change(sandbox, plan, {"bundleLookups": [lookup]})
    change(sandbox, stored(sandbox, "Subscription", PACKAGE), {"installedCSV": installed})
    sandbox.store.delete("ClusterServiceVersion", CSV, NAMESPACE)
    name = hashlib.sha256(bundle.image.encode()).hexdigest()[:63]
    where = {"name": name, "namespace": operator.catalog_namespace}
    for kind, version in (("ConfigMap", "v1"), ("Job", "batch/v1")):
        sandbox.store.put({"apiVersion": version, "kind": kind, "metadata": where})
    sync_cluster(operator.cluster)
    return name


@pytest.mark.parametrize("installed", ["", f"{PACKAGE}.v0.9.0"])
def test_a_plan_that_failed_with_its_unpack_job_is_deleted_and_the_subscription_stays(
    sandbox: Sandbox, cluster: Cluster, olivia: User, failed: Operator, installed: str
) -> None:
    """OLM 0.18 to 0.24 don't resolve again while a Subscription has a failed InstallPlan."""
    name = fail_to_unpack(sandbox, failed, installed)
    plan = retry.plan_retry(row(cluster))
    assert [(step.kind, step.namespace) for step in plan.deletions] == [
        ("ConfigMap", failed.catalog_namespace),
        ("Job", failed.catalog_namespace),
        ("InstallPlan", NAMESPACE),
    ]
    assert plan.deletions[-1].uid
    assert "The job that failed to unpack" in plan.consequences[0]
    assert (
        "InstallPlan that failed before it had made its ClusterServiceVersion"
        in (plan.consequences[1])
    )
    assert plan.by_hand == ()
    assert dry_run(plan, olivia).ok
    assert follow.run(request(plan, olivia).pk) is not None
    for kind in ("ConfigMap", "Job"):
        assert sandbox.store.get(kind, name, failed.catalog_namespace) is None
    assert sandbox.store.get("InstallPlan", failed.details["plan"], NAMESPACE) is None
    after = stored(sandbox, "Subscription", PACKAGE)
    assert after["metadata"]["uid"] == failed.uid
    assert RETRIED in after["metadata"]["annotations"]


def test_a_failed_plan_of_several_subscriptions_is_not_deleted_for_one_of_them(
    sandbox: Sandbox, cluster: Cluster, failed: Operator
) -> None:
    fail_to_unpack(sandbox, failed)
    plan = Component.objects.get(kind="InstallPlan", name=failed.details["plan"])
    plan.details = {**plan.details, "csvs": [CSV, "other.v1.0.0"]}
    plan.save()
    planned = retry.plan_retry(row(cluster))
    assert kinds(planned) == ["ConfigMap", "Job"]
    assert "the plan is also that of other.v1.0.0" in planned.consequences[0]
    assert not any("unpacks it again at once" in words for words in planned.consequences)


def package_of(cluster: Cluster) -> Package:
    return Package.objects.get(name=PACKAGE, catalog__cluster=cluster)


@pytest.fixture
def unpacking(sandbox: Sandbox, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """A PlatformOperator whose Bundle can't be pulled, until its image is there again."""
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    images = sandbox.platform_operators._by_image
    hidden = {image: one for image, one in images.items() if one.package == PACKAGE}
    for image in hidden:
        del images[image]
    operator = {"name": PACKAGE}
    spec = {"package": {"name": PACKAGE}}
    api = "platform.openshift.io/v1alpha1"
    sandbox.store.put(
        {"apiVersion": api, "kind": "PlatformOperator", "metadata": operator, "spec": spec}
    )
    v0.wait_until(lambda: bundle_phase(sandbox) == "Failing", "a Bundle that fails", 5)
    sync_cluster(cluster)
    images |= hidden
    return Operator.objects.select_related("cluster").get(kind="PlatformOperator", name=PACKAGE)


def bundle_phase(sandbox: Sandbox) -> str:
    found = [one for one in sandbox.store.items("Bundle")[0] if _is_of(one)]
    return found[0]["status"]["phase"] if found else ""


def _is_of(bundle: dict[str, Any]) -> bool:
    labels: dict[str, str] = bundle["metadata"].get("labels", {})
    return labels.get("core.rukpak.io/owner-name") == PACKAGE


def test_a_bundle_that_could_not_be_pulled_is_deleted_and_unpacked_anew(
    sandbox: Sandbox, cluster: Cluster, olivia: User, unpacking: Operator
) -> None:
    assert unpacking.health == "Failed"
    plan = retry.plan_retry(unpacking)
    assert kinds(plan) == ["Bundle"]
    assert dry_run(plan, olivia).ok
    assert bundle_phase(sandbox) == "Failing", "only tried"
    action = carry_out(request(plan, olivia))
    assert (action.state, action.outcome) == ("succeeded", f"{PACKAGE} is healthy.")
    assert bundle_phase(sandbox) == "Unpacked"


def test_a_bundle_that_was_read_and_refused_stays_and_rukpak_looks_again(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Operator.objects.filter(finding="allnamespaces-required").first()
    assert refused is not None
    plan = retry.plan_retry(refused)
    assert plan.deletions == []
    assert [step.kind for step in plan.steps] == ["BundleDeployment", "PlatformOperator"]
    assert dry_run(plan, olivia).ok
    before = stored(sandbox, "BundleDeployment", refused.name, "")
    monkeypatch.setattr(follow, "RUN_SECONDS", 0)  # it stays refused: no end to wait for
    assert follow.run(request(plan, olivia).pk) is not None
    after = stored(sandbox, "BundleDeployment", refused.name, "")
    assert after["spec"] == before["spec"]
    assert RETRIED in after["metadata"]["annotations"]
