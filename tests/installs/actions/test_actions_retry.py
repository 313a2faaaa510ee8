"""Retry of each kind: a new annotation and nothing else, asked once, followed to its end."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User

from installs.actions import follow, retry
from installs.actions.objects import RETRIED
from installs.actions.record import dry_run, request
from installs.models import Action, Operator
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_operator
from tests.installs.actions import test_actions_followed
from tests.installs.actions.test_actions_followed import carry_out

pytestmark = pytest.mark.django_db
sandbox = test_actions_followed.sandbox
cluster = test_actions_followed.cluster


@pytest.mark.parametrize("kind", ["PlatformOperator", "ClusterExtension", "Subscription"])
def test_a_retry_changes_only_the_annotation_and_ends_with_what_the_controller_says(
    sandbox: Sandbox,
    cluster: Cluster,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    sync_cluster(cluster)
    failing = Operator.objects.filter(kind=kind, health="Failed").exclude(finding="")
    row = failing.order_by("namespace", "name")[0]
    before = _stored(sandbox, row)
    plan = retry.plan_retry(row)
    tried = dry_run(plan, olivia)
    assert tried.ok, tried
    action = carry_out(request(plan, olivia, dry_run_result=tried))
    assert (action.state, action.finding) == ("failed", row.finding), action.outcome
    after = _stored(sandbox, row)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    asked = plan.manifests[-1]["metadata"]["annotations"][RETRIED]
    assert after["metadata"]["annotations"][RETRIED] == asked


def _stored(sandbox: Sandbox, row: Operator) -> dict[str, Any]:
    found = sandbox.store.get(row.kind, row.name, row.namespace)
    assert found is not None
    return found


def test_two_people_who_retry_one_after_the_other_ask_once(
    cluster: Cluster, olivia: User, alice: User
) -> None:
    row = make_operator(cluster=cluster, name="etcd", uid="u-1", health="Failed")
    with time_machine.travel("2026-01-02T03:04:05Z") as clock:
        first = request(retry.plan_retry(row), olivia)
        clock.shift(30)
        assert request(retry.plan_retry(row), alice) == first
    assert Action.objects.count() == 1
