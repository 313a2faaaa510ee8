"""Bulk installs of ClusterExtensions, carried out by the sandbox's controller."""

import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from catalogs.install_methods import InstallMethod
from installs.actions import bulk, follow
from installs.actions.bulk import Item, Key
from installs.models import Action, ActionBatch, Operator
from installs.queries.activity import progress_of
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_package, require_field
from tests.installs.actions.test_actions_extension import catalog_of, make_cluster_read

pytestmark = pytest.mark.django_db
CE = InstallMethod.CLUSTER_EXTENSION
GOOD = {"icon-demo": "1.0.1", "markup-demo": "1.0.0", "branches-demo": "1.3.0"}
# What operator-controller refuses, and the finding that tells it.
BAD = {"fuse-console": "7.11.1", "eap": "2.3.7"}
HELD = {"service_account": "installer"}


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    found = make_cluster_read()
    catalog = catalog_of(found, "redhat-operators")
    for name, version in GOOD.items():
        make_package(name=name, catalog=catalog, channels={"stable": (version,)})
    for name, version in BAD.items():
        make_package(name=name, catalog=catalog, channels={"stable": (version,)})
    return found


def items(cluster: Cluster, user: User, *names: str, **asked: str) -> list[Item]:
    chosen = bulk.read_selection([Key("prod", _slug(cluster), name) for name in names])
    found = bulk.candidates(chosen, cluster, CE)
    planned = bulk.plan_items(found, cluster, CE, {**HELD, **asked})
    return bulk.dry_run(planned, user)


def _slug(cluster: Cluster) -> str:
    return catalog_of(cluster, "redhat-operators").slug


def carried_out(reviewed: list[Item], cluster: Cluster, user: User) -> ActionBatch:
    """By workers that only pick up what waits."""
    batch = bulk.record_batch(reviewed, cluster, CE, user, key="k", request_hash="h")
    for _ in range(100):
        due = follow.waiting()
        if not due:
            return batch
        for pk in due:
            follow.run(pk, pause=lambda _: time.sleep(0.02))
        Action.objects.filter(state__in=Action.OPEN).update(next_attempt_at=None)  # due again
    raise AssertionError(f"these never ended: {follow.waiting()}")


def outcomes(batch: ActionBatch) -> dict[str, str]:
    return {one.name: one.outcome for one in Action.objects.filter(batch=batch)}


def applies(sandbox: Sandbox, kind: str) -> list[str]:
    """Names of the objects of a kind that were written, dry runs not counted."""
    found = []
    for method, path in sandbox.script.requests:
        where = path.partition("?")[0].split("/")
        if method == "PATCH" and where[-2] == kind and "dryRun" not in path:
            found.append(where[-1])
    return sorted(found)


def test_each_goes_into_a_namespace_of_its_own_with_its_service_account(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    reviewed = items(cluster, olivia, *GOOD)
    assert len(bulk.accepted(reviewed)) == len(GOOD), [one.problem for one in reviewed]
    assert not any(sandbox.store.get(CE, name) for name in GOOD), "only tried"
    batch = carried_out(reviewed, cluster, olivia)
    progress = progress_of(batch)
    assert progress.done == progress.total == len(GOOD)
    assert outcomes(batch) == {name: f"{name} {GOOD[name]} is installed." for name in GOOD}
    for name in GOOD:
        row = Operator.objects.get(cluster=cluster, kind=CE, name=name)
        assert (row.health, row.version) == ("Healthy", GOOD[name])
        assert sandbox.store.get("ServiceAccount", "installer", name) is not None
        assert sandbox.store.items("Deployment", name)[0]
    assert applies(sandbox, "clusterextensions") == sorted(GOOD), "each once"


def test_those_that_the_controller_refuses_say_why_and_hold_up_none_of_the_others(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STALE_FAILURE", timedelta(seconds=1))
    batch = carried_out(items(cluster, olivia, *GOOD, *BAD), cluster, olivia)
    told = outcomes(batch)
    installed = {name for name in told if told[name] == f"{name} {GOOD.get(name)} is installed."}
    assert installed == set(GOOD)
    assert "AllNamespaces" in told["fuse-console"]
    assert "CustomResourceDefinition" in told["eap"], told["eap"]
    assert progress_of(batch).done == len(GOOD) + len(BAD)


def test_one_namespace_for_all_is_made_once_and_shared(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    batch = carried_out(items(cluster, olivia, *GOOD, namespace="shared"), cluster, olivia)
    assert set(outcomes(batch).values()) == {f"{name} {GOOD[name]} is installed." for name in GOOD}
    assert applies(sandbox, "namespaces") == ["shared"]
    assert applies(sandbox, "serviceaccounts") == ["installer"]
    assert len(sandbox.store.items("Deployment", "shared")[0]) == len(GOOD)


def test_without_the_service_account_that_the_cluster_asks_for_nothing_is_planned(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    assert items(cluster, olivia, *GOOD, service_account=""), "optional by its definition"
    require_field(cluster, "ClusterExtension", "spec.serviceAccount")
    with pytest.raises(OlmwebError) as caught:
        items(cluster, olivia, *GOOD, service_account="")
    assert set(caught.value.fields) == {"service_account"}
    assert applies(sandbox, "clusterextensions") == []


def test_each_names_the_catalog_that_it_was_chosen_from(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    make_package(name="icon-demo", catalog=catalog_of(cluster, "community-operators"))
    carried_out(items(cluster, olivia, "icon-demo"), cluster, olivia)
    item = sandbox.store.get(CE, "icon-demo")
    assert item is not None
    assert item["spec"]["source"]["catalog"]["selector"] == {
        "matchLabels": {"olm.operatorframework.io/metadata.name": "redhat-operators"}
    }
