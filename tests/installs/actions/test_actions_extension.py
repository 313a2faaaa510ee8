"""A ClusterExtension from install over upgrade to removal against the sandbox's controller."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from catalogs.models import Catalog, Package
from installs.actions import follow, plan_changes, removal, retry
from installs.actions.objects import RETRIED
from installs.actions.plan import plan_install
from installs.actions.record import dry_run, request
from installs.models import Action, Operator
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.controllers.olm_v1 import OlmV1
from tests.factories import make_package
from tests.installs.actions.test_actions_followed import carry_out

pytestmark = pytest.mark.django_db
GOOD, NAMESPACE = "object-store-demo", "stores"
VERSIONS = ("1.8.0", "1.8.1", "2.0.0", "2.1.0")


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    found = make_cluster_read()
    make_package(
        name=GOOD, catalog=catalog_of(found, "redhat-operators"), channels={"stable": VERSIONS}
    )
    community = catalog_of(found, "community-operators")
    make_package(name="chat-demo", catalog=community, channels={"stable": ("0.7.1", "1.0.0")})
    return found


def make_cluster_read() -> Cluster:
    found = Cluster.objects.create(name="prod", context="sandbox")
    sync_cluster(found)
    found.refresh_from_db()
    return found


def catalog_of(cluster: Cluster, name: str) -> Catalog:
    return Catalog.objects.get(cluster=cluster, name=name, source_kind="ClusterCatalog")


def install(cluster: Cluster, user: User, package: str = GOOD, **asked: str) -> Action:
    fields = {"namespace": NAMESPACE, "service_account": "installer", **asked}
    found = Package.objects.get(name=package)
    plan = plan_install(cluster, found, "", "ClusterExtension", fields)
    tried = dry_run(plan, user)
    assert tried.ok, tried
    return carry_out(request(plan, user, dry_run_result=tried))


def row(name: str = GOOD) -> Operator:
    return Operator.objects.select_related("cluster").get(kind="ClusterExtension", name=name)


def conditions(sandbox: Sandbox, name: str = GOOD) -> dict[str, str]:
    found = sandbox.store.get("ClusterExtension", name)
    assert found is not None
    return {one["type"]: one["reason"] for one in found["status"]["conditions"]}


def test_an_install_is_followed_until_the_chosen_version_is_installed(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = install(cluster, olivia, version="<2.0.0")
    assert (action.state, action.outcome) == ("succeeded", f"{GOOD} 1.8.1 is installed.")
    assert action.target == row().bundle == f"{GOOD}.v1.8.1"
    assert sandbox.store.get("Namespace", NAMESPACE) is not None
    assert sandbox.store.items("Deployment", NAMESPACE)[0]
    again = install(cluster, olivia, version="<2.0.0")
    assert (again.state, again.outcome_code) == ("no_change", "already-so")


def test_an_upgrade_is_followed_to_its_target_and_one_that_leads_nowhere_is_told(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    install(cluster, olivia, version="1.8.0")
    plan = plan_changes.plan_upgrade(row(), {"version": "1.8.1"})
    assert plan.target == f"{GOOD}.v1.8.1"
    assert plan.consequences == (f"Upgrade path: {GOOD}.v1.8.0 to {GOOD}.v1.8.1.",)
    assert dry_run(plan, olivia).ok
    action = carry_out(request(plan, olivia))
    assert (action.state, action.outcome) == ("succeeded", f"{GOOD} is at {GOOD}.v1.8.1.")
    assert row().version == "1.8.1"

    back = plan_changes.plan_upgrade(row(), {"version": "1.8.0"})
    assert back.target == ""
    refused = carry_out(request(back, olivia))
    assert (refused.state, refused.finding) == ("failed", "ce-no-bundles"), refused.outcome
    assert row().version == "1.8.1", "what is installed stays"
    assert conditions(sandbox)["Installed"] == "Succeeded"


def test_an_upgrade_waits_until_its_controller_has_seen_the_change(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    install(cluster, olivia, version="1.8.1")
    action = request(plan_changes.plan_upgrade(row(), {"version": "1.8.0"}), olivia)
    with monkeypatch.context() as patch:
        patch.setattr(follow, "RUN_SECONDS", 0.0)
        patch.setattr(OlmV1, "step_all", lambda _: None)
        assert follow.run(action.pk) == follow.AGAIN_SECONDS
    action.refresh_from_db()
    assert (row().health, action.state) == ("Healthy", "applied"), "of the generation before"
    assert (row().generation, action.object_generation) == (2, 2)
    sandbox.step_all()
    assert carry_out(action).state == "failed"


def test_one_that_can_not_work_ends_with_its_cause_and_a_retry_ends_with_the_same(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    action = install(cluster, olivia, "chat-demo")
    assert action.state == "failed"
    assert "AllNamespaces" in action.outcome
    assert conditions(sandbox, "chat-demo")["Progressing"] == "Retrying"
    before = sandbox.store.get("ClusterExtension", "chat-demo")
    retried = carry_out(request(retry.plan_retry(row("chat-demo")), olivia))
    assert (retried.state, retried.finding) == ("failed", action.finding)
    after = sandbox.store.get("ClusterExtension", "chat-demo")
    assert before is not None
    assert after is not None
    assert RETRIED in after["metadata"]["annotations"]
    assert after["spec"] == before["spec"]


def test_a_removal_is_followed_until_its_finalizer_has_let_it_go_with_all_it_owns(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    install(cluster, olivia)
    crds = list(removal.object_counts(row()))
    assert crds
    plan, version = removal.plan_remove(row()), row().version
    assert dry_run(plan, olivia).ok
    assert sandbox.store.get("ClusterExtension", GOOD) is not None, "only tried"
    action = carry_out(request(plan, olivia))
    words = f"Operator {GOOD} {version} is removed. Deleted: ClusterExtension {GOOD}."
    assert (action.state, action.outcome) == ("succeeded", words)
    assert sandbox.store.get("ClusterExtension", GOOD) is None
    assert not sandbox.store.items("Deployment", NAMESPACE)[0]
    assert not any(sandbox.store.get("CustomResourceDefinition", name) for name in crds)
    assert not Operator.objects.filter(kind="ClusterExtension", name=GOOD).exists()
