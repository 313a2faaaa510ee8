"""What is in the log of events after syncs, actions and install requests."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalogs.sync.catalog import sync_catalog
from installs.actions import bulk
from installs.actions import requests as install_requests
from installs.actions.execute import finish
from installs.models import Action, ActionBatch, InstallRequest, Transition
from installs.state.full_sync import sync_cluster
from installs.state.watch.positions import mark_reachable
from olmweb.clusters import configured
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.models import ChangeEvent, Cluster
from tests.factories import make_cluster
from tests.kubefake import KubeFake
from tests.worlds import cluster as world
from tests.worlds.fbc import package
from tests.worlds.operators import make_action
from tests.worlds.syncing import make, rewrite

pytestmark = pytest.mark.django_db


def new_events() -> list[ChangeEvent]:
    """The events since the last call."""
    rows = list(ChangeEvent.objects.order_by("id"))
    ChangeEvent.objects.all().delete()
    return rows


def types() -> list[str]:
    return [row.type for row in new_events()]


# -- clusters --------------------------------------------------------------------------------------


def test_the_first_sync_records_one_event_for_each_operator(
    fake: KubeFake, cluster: Cluster, recorded: Any
) -> None:
    for number in range(85):
        world.put_installed(fake, f"operator-{number}")
    sync_cluster(cluster)
    assert Transition.objects.count() > 85
    rows = new_events()
    assert Counter(row.type for row in rows) == {"operator.discovered": 85}
    assert rows[0].data["health"] == "Healthy"
    assert rows[0].data["from_health"] == ""
    sync_cluster(cluster)
    assert types() == []


def test_a_failure_a_new_and_a_deleted_operator_are_recorded_with_their_objects(
    fake: KubeFake, cluster: Cluster, recorded: Any
) -> None:
    world.fill(fake)
    installed = world.condition("Installed", "True", "InstallSuccessful")
    world.put_platform_operator(fake, "good", installed, uid="g")
    sync_cluster(cluster)
    new_events()
    failed = world.condition("Installed", "False", "InstallFailed", world.FAILURE)
    world.put_platform_operator(fake, "good", failed, uid="g")
    sync_cluster(cluster)
    rows = new_events()
    assert [row.type for row in rows] == ["operator.condition", "operator.health"]
    assert rows[0].data == {
        "condition": "Installed", "from_status": "True", "from_reason": "InstallSuccessful",
        "status": "False", "reason": "InstallFailed", "message": world.FAILURE,
    }  # fmt: skip
    health = rows[-1]
    assert (health.cluster, health.namespace, health.name) == (cluster, "", "good")
    assert (health.data["from_health"], health.data["health"]) == ("Healthy", "Failed")
    assert health.data["message"] == world.FAILURE
    world.put_installed(fake, "new")
    fake.remove(PLATFORM_OPERATORS, "fine")
    sync_cluster(cluster)
    rows = new_events()
    of = [(row.type, row.name) for row in rows]
    assert ("operator.appeared", "new") in of
    assert ("operator.health", "new") in of
    assert ("operator.deleted", "fine") in of
    assert {row.kind for row in rows if row.type == "object.appeared"} == {"BundleDeployment"}


def test_an_outage_of_a_cluster_is_two_events(
    fake: KubeFake, cluster: Cluster, recorded: Any, settings: Any
) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    new_events()
    kubeconfig = Path(settings.KUBECONFIG)
    text = kubeconfig.read_text(encoding="utf-8")
    kubeconfig.write_text(text.replace("127.0.0.1", "127.0.0.2"), encoding="utf-8")
    for _ in range(2):
        sync_cluster(cluster)
    rows = new_events()
    assert [(row.type, row.kind, row.name) for row in rows] == [
        ("cluster.unreachable", "Cluster", "prod")
    ]
    assert rows[0].data["code"] == Cluster.objects.get().error_code != ""
    since = Cluster.objects.get().unreachable_since
    assert since is not None
    kubeconfig.write_text(text, encoding="utf-8")
    sync_cluster(cluster)
    (back,) = new_events()
    assert back.type == "cluster.reachable"
    assert back.data == {"failing_since": since.isoformat().replace("+00:00", "Z")}
    assert not mark_reachable(cluster)


def test_a_cluster_that_is_not_configured_any_more_is_not_unreachable(settings: Any) -> None:
    make_cluster(name="former")
    settings.CLUSTERS = []
    configured()
    assert Cluster.objects.get().removed
    assert types() == []


# -- catalogs --------------------------------------------------------------------------------------


def test_revisions_and_failures_of_a_catalog_are_recorded_once(tmp_path: Path) -> None:
    catalog = make(tmp_path, package())
    for _ in range(2):
        sync_catalog(catalog)
    (revision,) = new_events()
    assert (revision.type, revision.catalog, revision.cluster) == (
        "catalog.revision", "-/demo", None,
    )  # fmt: skip
    assert revision.data == {
        "revision": 1, "packages": 1, "bundles": 2, "added": 1, "removed": 0, "changed": 0,
    }  # fmt: skip
    sync_catalog(catalog, force=True)
    assert types() == [], "the same content again is no news"
    rewrite(catalog, b"no catalog")
    for _ in range(2):
        sync_catalog(catalog)
    (failing,) = new_events()
    assert (failing.type, failing.data["code"]) == ("catalog.failing", "not-fbc")
    rewrite(catalog, package(versions=("1.0.0", "1.1.0", "1.2.0")))
    sync_catalog(catalog)
    assert types() == ["catalog.revision", "catalog.recovered"]


# -- actions and requests --------------------------------------------------------------------------


def test_an_action_is_finished_once(olivia: User) -> None:
    action = make_action(make_cluster(), user=olivia, version="1.1.0")
    finish(action, Action.State.FAILED, "It failed.", code="failed")
    finish(action, Action.State.SUCCEEDED, "No.")
    (row,) = new_events()
    assert (row.type, row.kind, row.name) == ("action.finished", "PlatformOperator", "etcd")
    assert row.data == {
        "action": action.pk, "bulk": None, "verb": "install", "state": "failed", "user": "olivia",
        "package": "etcd", "version": "1.1.0", "outcome": "It failed.", "outcome_code": "failed",
    }  # fmt: skip


def test_actions_that_are_stopped_with_their_batch_are_finished(olivia: User) -> None:
    cluster = make_cluster()
    batch = ActionBatch.objects.create(cluster=cluster, user=olivia, idempotency_key="k")
    for number in range(3):
        make_action(cluster, f"n{number}", state="pending", batch=batch, sent_at=None)
    assert bulk.stop(batch, olivia) == 3
    rows = new_events()
    assert [(row.type, row.name, row.data["state"], row.data["bulk"]) for row in rows] == [
        ("action.finished", f"n{number}", "stopped", batch.pk) for number in range(3)
    ]


def test_a_request_is_withdrawn_or_declined_once(bob: User, olivia: User) -> None:
    cluster = make_cluster()
    requests = [
        InstallRequest.objects.create(
            cluster=cluster, catalog_name="c", package="etcd", version=version, path="Subscription",
            namespace="ops", name="etcd", reason="r", user=bob,
        )
        for version in ("1.0.0", "1.1.0")
    ]  # fmt: skip
    install_requests.withdraw(requests[0].pk, bob)
    install_requests.decline(requests[1], olivia, word="Not now.")
    withdrawn, declined = new_events()
    assert (withdrawn.type, withdrawn.data["request"]) == ("request.withdrawn", requests[0].pk)
    assert (declined.type, declined.namespace, declined.name) == ("request.decided", "ops", "etcd")
    assert declined.data == {
        "request": requests[1].pk, "state": "declined", "package": "etcd", "version": "1.1.0",
        "user": "bob", "decided_by": "olivia", "comment": "Not now.", "action": None,
    }  # fmt: skip


def test_recording_many_events_costs_one_insert(olivia: User) -> None:
    cluster = make_cluster()

    def statements(actions: int) -> int:
        batch = ActionBatch.objects.create(
            cluster=cluster, user=olivia, idempotency_key=f"k{actions}"
        )
        for number in range(actions):
            make_action(cluster, f"{actions}-{number}", state="pending", batch=batch)
        with CaptureQueriesContext(connection) as captured:
            bulk.stop(batch, olivia)
        return len(captured)

    statements(1)  # the first one reads more
    assert statements(2) == statements(20)
