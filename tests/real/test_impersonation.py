"""Impersonation: RBAC of a real API server decides; its audit log names the person of a write."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from catalogs.install_methods import InstallMethod
from installs.actions import bulk, buttons, follow
from installs.actions import record as actions
from installs.actions.buttons import rights_of
from installs.actions.removal import plan_remove
from installs.models import AccessAnswer, Action, Operator
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_package
from tests.peers import servers
from tests.real.rights import ACCOUNT, ship_rights

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
PO = InstallMethod.PLATFORM_OPERATOR
WRITES = ("create", "update", "patch", "delete", "deletecollection")
OURS = "platformoperators"


@pytest.fixture
def cluster(apiserver: servers.ApiServer, tmp_path: Path, settings: Any) -> Cluster:
    context = ship_rights(apiserver, tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    return make_cluster(name="real", context=context)


@pytest.fixture
def real(apiserver: servers.ApiServer, cluster: Cluster) -> servers.ApiServer:
    """The API server with the rights that the project ships, given to our account."""
    return apiserver


@pytest.fixture
def vera(tess: User) -> User:
    """May try, says OLM Web; the cluster lets her group read only."""
    tess.username = "vera"
    tess.save()
    tess.groups.add(Group.objects.get(name="olmweb-viewers"))
    return tess


def writes(real: servers.ApiServer, name: str) -> list[dict[str, Any]]:
    """The writing requests for this PlatformOperator, dry runs included."""
    return [
        event
        for event in real.audit_events()
        if event["verb"] in WRITES
        and event.get("objectRef", {}).get("resource") == OURS
        and event["objectRef"].get("name") == name
    ]


def carry_out(action: Action, monkeypatch: pytest.MonkeyPatch) -> Action:
    monkeypatch.setattr(follow, "RUN_SECONDS", 0.0)
    for _ in range(5):
        Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
        if follow.run(action.pk, pause=lambda _: time.sleep(0.1)) is None:
            break
    action.refresh_from_db()
    return action


def test_the_clusters_rbac_says_who_may_and_why_not(
    cluster: Cluster, olivia: User, vera: User
) -> None:
    for user in (olivia, vera):
        buttons.review_access(user, cluster, (*rights_of("install", PO), *rights_of("remove", PO)))
    assert set(AccessAnswer.objects.filter(user=olivia).values_list("allowed", flat=True)) == {True}
    answers = AccessAnswer.objects.filter(user=vera)
    assert set(answers.values_list("allowed", flat=True)) == {False}
    assert "does not let vera" in answers[0].reason
    stranger = Group.objects.create(name="not-in-the-cluster-role")
    olivia.groups.add(stranger)
    buttons.review_access(User.objects.get(pk=olivia.pk), cluster, rights_of("remove", PO))
    answer = AccessAnswer.objects.get(user=olivia, verb="delete")
    assert answer.reason == "OLM Web may not act as olivia on cluster real."


def test_the_audit_log_names_the_person_of_every_write_and_nobody_else_writes(
    real: servers.ApiServer,
    cluster: Cluster,
    olivia: User,
    vera: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("whom-one", "whom-two")
    catalog = make_catalog(cluster=cluster)
    for name in names:
        make_package(name=name, catalog=catalog)
    keys = [bulk.Key("real", catalog.slug, name) for name in names]
    candidates = bulk.candidates(bulk.read_selection(keys), cluster, PO)
    refused = bulk.dry_run(bulk.plan_items(candidates, cluster, PO, {}), vera)
    assert bulk.accepted(refused) == []
    items = bulk.dry_run(bulk.plan_items(candidates, cluster, PO, {}), olivia)
    batch = bulk.record_batch(items, cluster, PO, olivia, key="k", request_hash="h")
    for action in batch.actions.all():
        assert carry_out(action, monkeypatch).sent_at is not None, action.outcome
        row = Operator.objects.get(cluster=cluster, kind=PO, name=action.name)
        assert row.uid
        Action.objects.filter(pk=action.pk).update(state="succeeded")
        removal = actions.request(plan_remove(row), olivia)
        assert carry_out(removal, monkeypatch).state == "succeeded", removal.outcome
    for name in names:
        events = writes(real, name)
        assert {event["verb"] for event in events} == {"patch", "delete"}
        assert {event["user"]["username"] for event in events} == {ACCOUNT}, "through OLM Web"
        people = {event.get("impersonatedUser", {}).get("username", "") for event in events}
        assert people == {"olivia", "vera"}
        accepted = [event for event in events if event["responseStatus"]["code"] < 300]
        assert {event["impersonatedUser"]["username"] for event in accepted} == {"olivia"}
        assert all("olmweb-operators" in event["impersonatedUser"]["groups"] for event in accepted)
