"""A Subscription from install to removal against the sandbox, and what may go wrong between."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalogs.models import Catalog, Package
from installs.actions import execute, follow, plan_changes, removal
from installs.actions.plan import Plan, plan_install
from installs.actions.record import dry_run, request
from installs.models import Action, ClusterInventory, Component, CRDState, Operator
from installs.state.full_sync import sync_cluster
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.peers.client import wait_until

pytestmark = pytest.mark.django_db
PACKAGE, NAMESPACE = "3scale-operator", "brand-new"
SUBSCRIPTIONS = "/apis/operators.coreos.com/v1alpha1/namespaces/brand-new/subscriptions/"


@pytest.fixture
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    server = Sandbox(step_seconds=0.02)
    server.store.delete("PlatformOperator", PACKAGE)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    yield server
    server.stop()


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    found = make_cluster(name="prod", context="sandbox")
    sync_cluster(found)
    found.refresh_from_db()
    return found


@pytest.fixture
def package(cluster: Cluster) -> Package:
    catalog = Catalog.objects.filter(cluster=cluster, name="redhat-operators").first()
    catalog = catalog or make_catalog(cluster=cluster)
    return make_package(name=PACKAGE, catalog=catalog)


def planned(cluster: Cluster, package: Package, user: User, **asked: str) -> Plan:
    fields = {"namespace": NAMESPACE, "approval": "Manual", **asked}
    return plan_install(cluster, package, "", "Subscription", fields)


def carry_out(action: Action) -> Action:
    for _ in range(20):
        Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
        if follow.run(action.pk, pause=lambda _: time.sleep(0.05)) is None:
            break
    action.refresh_from_db()
    return action


def kinds(sandbox: Sandbox) -> list[bool]:
    store = sandbox.store
    return [
        store.get("Namespace", NAMESPACE) is not None,
        store.get("OperatorGroup", NAMESPACE, NAMESPACE) is not None,
        store.get("Subscription", PACKAGE, NAMESPACE) is not None,
    ]


def test_from_install_over_approval_to_removal(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    plan = planned(cluster, package, olivia)
    tried = dry_run(plan, olivia)
    assert tried.ok, tried
    assert next(what for what, _ in tried.objects) == f"Namespace {NAMESPACE}"
    assert "its namespace does not exist yet" in tried.objects[-1][1]
    assert len(tried.objects) == 3
    assert tried.message == (
        f"Cluster {cluster.name} would accept Namespace {NAMESPACE}; you have the permission to "
        f"create {tried.objects[1][0]} and {tried.objects[2][0]}, which can be validated only "
        f"after namespace {NAMESPACE} is created."
    )
    assert kinds(sandbox) == [False, False, False]

    action = carry_out(request(plan, olivia, dry_run_result=tried))
    assert (action.state, action.outcome_code) == ("succeeded", "needs-approval"), action.outcome
    row = Operator.objects.get(cluster=cluster, namespace=NAMESPACE)
    waiting = Component.objects.get(cluster=cluster, kind="InstallPlan", namespace=NAMESPACE)
    assert sandbox.store.items("ClusterServiceVersion", NAMESPACE)[0] == []

    approval = carry_out(request(plan_changes.plan_approve(cluster, waiting), olivia))
    assert approval.state == "succeeded", approval.outcome
    row.refresh_from_db()
    assert row.health == "Healthy"

    crds = CRDState.objects.filter(cluster=cluster, owner_name=f"{PACKAGE}.{NAMESPACE}")
    ClusterInventory.objects.update_or_create(
        cluster=cluster, defaults={"instances": {crd.name: 0 for crd in crds}}
    )
    plan = removal.plan_remove(row)
    assert [step.kind for step in plan.steps] == ["Subscription", "ClusterServiceVersion"]
    assert "with 0 custom resources at the last count" in " ".join(plan.consequences)
    removed = carry_out(request(plan, olivia))
    assert removed.state == "succeeded", removed.outcome
    assert kinds(sandbox) == [True, True, False], "namespace and group stay"
    assert sandbox.store.items("ClusterServiceVersion", NAMESPACE)[0] == []
    assert crds, "or the test says nothing"
    group = f"OperatorGroup {NAMESPACE} in namespace {NAMESPACE}"
    for left in (*(crd.name for crd in crds), f"{group} and Namespace {NAMESPACE}."):
        assert left in removed.outcome_hint
    assert "with 0 custom resources at the last count" in removed.outcome_hint

    make_operator(
        cluster=cluster, kind="Subscription", namespace=NAMESPACE, name="vault-stable",
        package="vault", details={"generated_by": "install-x"},
    )  # fmt: skip
    assert follow._left_behind(removed).endswith(
        f"The OperatorGroup and Namespace {NAMESPACE} stay for vault, which was installed as a "
        "dependency."
    )


@pytest.mark.parametrize(("status", "state"), [(500, "pending"), (429, "pending")])
def test_a_cluster_that_fails_in_between_is_gone_on_with_and_nothing_is_made_twice(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User, status: int, state: str
) -> None:
    action = request(planned(cluster, package, olivia), olivia)
    sandbox.script.fail_next(status, count=10, path_prefix=SUBSCRIPTIONS)
    assert follow.run(action.pk) is not None
    action.refresh_from_db()
    assert action.state == state
    assert action.done == [f"Namespace {NAMESPACE}", f"OperatorGroup {NAMESPACE}/{NAMESPACE}"]
    for _ in range(10):
        sandbox.script.failure(SUBSCRIPTIONS)
    before = [one for one in sandbox.script.requests if one[0] == "PATCH"]
    assert carry_out(action).state == "succeeded"
    after = [one for one in sandbox.script.requests if one[0] == "PATCH"][len(before) :]
    assert len(after) == 1, "only the Subscription was still to be written"


def test_a_worker_that_dies_between_two_objects_is_replaced(
    sandbox: Sandbox,
    cluster: Cluster,
    package: Package,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    action = request(planned(cluster, package, olivia), olivia)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_mark_done", killed)
        with pytest.raises(KeyboardInterrupt):
            follow.run(action.pk)
    assert kinds(sandbox) == [True, False, False]
    action.refresh_from_db()
    assert action.done == []
    assert carry_out(action).state == "succeeded"
    assert kinds(sandbox) == [True, True, True]


def test_what_another_manager_owns_is_left_and_the_manager_named(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    row = Operator.objects.filter(cluster=cluster, kind="Subscription", health="Healthy")[0]
    stored = sandbox.store.get("Subscription", row.name, row.namespace)
    assert stored is not None
    owned: dict[str, Any] = {"f:spec": {"f:channel": {}}}
    entry = {"manager": "argocd", "operation": "Apply", "fieldsType": "FieldsV1"}
    entry |= {"apiVersion": "operators.coreos.com/v1alpha1", "time": "2026-01-01T00:00:00Z"}
    stored["metadata"]["managedFields"] = [{**entry, "fieldsV1": owned}]
    sandbox.store.put(stored)
    plan = plan_changes.plan_upgrade(row, {"channel": "another"})
    tried = dry_run(plan, olivia)
    assert (tried.ok, tried.code) == (False, "conflict")
    assert "argocd" in tried.message
    action = carry_out(request(plan, olivia))
    assert (action.state, action.outcome_code) == ("refused", "conflict")
    assert dry_run(plan_changes.plan_upgrade(row, {"channel": "another", "take": "yes"}), olivia).ok


def test_a_kind_that_vanishes_between_form_and_apply_is_told(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    action = request(planned(cluster, package, olivia), olivia)
    sandbox.script.fail_next(404, count=3, path_prefix=SUBSCRIPTIONS)
    carry_out(action)
    assert action.state == "refused"
    assert "The kind Subscription or the namespace may not exist any more." in action.outcome
    assert f"Namespace {NAMESPACE}" in action.outcome, "it says what it did"


def test_a_cluster_that_never_answers_ends_in_words(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    action = request(planned(cluster, package, olivia), olivia)
    sandbox.stop()
    assert follow.run(action.pk) is not None
    Action.objects.update(created_at=timezone.now() - timedelta(minutes=16))
    assert carry_out(action).outcome_code == "not-sent"


def test_a_version_that_succeeded_ends_the_approval_whatever_olm_says_of_resolution(
    sandbox: Sandbox,
    cluster: Cluster,
    package: Package,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As real OLM v0 leaves a Subscription that it resolved while the old version was going."""
    carry_out(request(planned(cluster, package, olivia), olivia))
    waiting = Component.objects.get(cluster=cluster, kind="InstallPlan", namespace=NAMESPACE)
    approval = request(plan_changes.plan_approve(cluster, waiting), olivia)
    refresh = follow._refresh

    def late(cluster: Cluster) -> bool:
        wait_until(lambda: _phases(sandbox) == ["Succeeded"], "the CSV", 5)
        _resolution_failed(sandbox)
        return refresh(cluster)

    monkeypatch.setattr(follow, "_refresh", late)
    carry_out(approval)
    row = Operator.objects.get(cluster=cluster, namespace=NAMESPACE)
    assert (row.health, row.finding) == ("Degraded", "sub-no-channel")
    assert approval.state == "succeeded", approval.outcome
    assert f"{PACKAGE} is still Degraded: ConstraintsNotSatis" in approval.outcome


def _phases(sandbox: Sandbox) -> list[str]:
    found = sandbox.store.items("ClusterServiceVersion", NAMESPACE)[0]
    return [one["status"]["phase"] for one in found]


def _resolution_failed(sandbox: Sandbox) -> None:
    found = sandbox.store.get("Subscription", PACKAGE, NAMESPACE)
    assert found is not None
    failed = {
        "type": "ResolutionFailed",
        "status": "True",
        "reason": "ConstraintsNotSatisfiable",
        "message": "constraints not satisfiable: no operators found in channel gone of package "
        f"{PACKAGE} in the catalog referenced by subscription {PACKAGE}",
    }
    sandbox.store.put({**found, "status": {**found["status"], "conditions": [failed]}})


@pytest.mark.parametrize("approval", ["Manual", "Automatic"])
def test_an_upgrade_to_another_channel_is_followed_to_its_end(
    sandbox: Sandbox, cluster: Cluster, olivia: User, approval: str
) -> None:
    package = make_package(
        name="tracing-demo",
        catalog=Catalog.objects.filter(cluster=cluster, name="redhat-operators").first(),
        channels={"stable": ("1.2.1", "1.4.2"), "stable-1.2": ("1.2.1",)},
    )
    plan = planned(
        cluster, package, olivia, channel="stable-1.2", approval="Automatic", targets="own"
    )
    assert carry_out(request(plan, olivia)).state == "succeeded"
    row = Operator.objects.get(cluster=cluster, namespace=NAMESPACE)
    assert row.details["installed_csv"] == "tracing-demo.v1.2.1"

    plan = plan_changes.plan_upgrade(row, {"channel": "stable", "approval": approval})
    assert plan.target == "tracing-demo.v1.4.2"
    action = carry_out(request(plan, olivia))
    assert action.state == "succeeded", action.outcome
    if approval == "Manual":
        assert action.outcome_code == "needs-approval"
        waiting = Component.objects.get(
            cluster=cluster, kind="InstallPlan", namespace=NAMESPACE, phase="RequiresApproval"
        )
        action = carry_out(request(plan_changes.plan_approve(cluster, waiting), olivia))
        assert "completed: tracing-demo.v1.4.2" in action.outcome
    else:
        assert action.outcome == "tracing-demo is at tracing-demo.v1.4.2."
    row.refresh_from_db()
    assert (row.health, row.details["installed_csv"]) == ("Healthy", "tracing-demo.v1.4.2")


def test_each_version_on_the_way_of_an_upgrade_needs_its_own_approval(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    versions = ("1.0.1", "1.1.0", "1.2.0")
    package = make_package(
        name="backup-demo",
        catalog=Catalog.objects.filter(cluster=cluster, name="redhat-operators").first(),
        channels={"stable": versions},
    )
    first = planned(cluster, package, olivia, version="backup-demo.v1.0.1", targets="own")
    assert carry_out(request(first, olivia)).outcome_code == "needs-approval"
    for version in versions:
        sync_cluster(cluster)
        waiting = Component.objects.get(
            cluster=cluster, kind="InstallPlan", namespace=NAMESPACE, phase="RequiresApproval"
        )
        action = carry_out(request(plan_changes.plan_approve(cluster, waiting), olivia))
        dependency = ", object-store-demo.v2.1.0" if version == versions[0] else ""
        assert f"completed: backup-demo.v{version}{dependency}." in action.outcome
        if version != versions[-1]:
            wait_until(lambda: goes_on(sandbox), "the InstallPlan of the next version")
    rows = Operator.objects.filter(cluster=cluster, namespace=NAMESPACE)
    assert {row.package: row.details["installed_csv"] for row in rows} == {
        "backup-demo": "backup-demo.v1.2.0",
        "object-store-demo": "object-store-demo.v2.1.0",
    }


def goes_on(sandbox: Sandbox) -> bool:
    """Whether the Subscription has an InstallPlan for another version than the installed one."""
    found = sandbox.store.get("Subscription", "backup-demo", NAMESPACE)
    assert found
    return bool(found["status"]["currentCSV"] != found["status"]["installedCSV"])


def test_an_upgrade_that_changes_nothing_ends_as_no_change(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    plan = planned(cluster, package, olivia, approval="Automatic")
    assert carry_out(request(plan, olivia)).state == "succeeded"
    row = Operator.objects.get(cluster=cluster, namespace=NAMESPACE)
    again = carry_out(request(plan_changes.plan_upgrade(row, {}), olivia))
    assert (again.state, again.outcome_code) == ("no_change", "already-so"), again.outcome
    assert "nothing was written" in again.outcome


def carry_more(sandbox: Sandbox, install_plan: Component, csv: str) -> None:
    """The InstallPlan carries this ClusterServiceVersion, too."""
    found = sandbox.store.get("InstallPlan", install_plan.name, NAMESPACE)
    assert found
    names = [*found["spec"]["clusterServiceVersionNames"], csv]
    sandbox.store.put({**found, "spec": {**found["spec"], "clusterServiceVersionNames": names}})


def test_an_approval_of_one_version_refuses_an_installplan_that_carries_more(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    carry_out(request(planned(cluster, package, olivia), olivia))
    waiting = Component.objects.get(cluster=cluster, kind="InstallPlan", namespace=NAMESPACE)
    csv = waiting.details["csvs"][0]
    plan = plan_changes.plan_approve(cluster, waiting, only=csv)
    assert dry_run(plan, olivia).ok
    recorded = request(plan, olivia)

    carry_more(sandbox, waiting, "other.v2.0.0")
    refusal = dry_run(plan, olivia)
    sentence = f"InstallPlan {waiting.name} carries not only {csv}: other.v2.0.0."
    assert (refusal.ok, refusal.code, refusal.message) == (False, "carries-more", sentence)

    refused = carry_out(recorded)
    assert (refused.state, refused.outcome, refused.sent_at) == ("refused", sentence, None)
    found = sandbox.store.get("InstallPlan", waiting.name, NAMESPACE)
    assert found
    assert found["spec"]["approved"] is False

    unknown = dry_run(plan_changes.plan_approve(cluster, waiting, only="etcd.v9.9.9"), olivia)
    assert f"does not carry etcd.v9.9.9, but {csv}, other.v2.0.0." in unknown.message
    assert request(plan_changes.plan_approve(cluster, waiting), olivia).pk != refused.pk


def test_an_approval_of_everything_does_not_answer_for_one_of_a_single_version(
    cluster: Cluster, package: Package, olivia: User
) -> None:
    carry_out(request(planned(cluster, package, olivia), olivia))
    waiting = Component.objects.get(cluster=cluster, kind="InstallPlan", namespace=NAMESPACE)
    request(plan_changes.plan_approve(cluster, waiting), olivia)
    with pytest.raises(OlmwebError, match="is not finished"):
        request(plan_changes.plan_approve(cluster, waiting, waiting.details["csvs"][0]), olivia)
