"""What the worker refuses when it sends an action, its dry run refuses in the same words.

Every action meets every situation that its object may be in when it is carried out.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalogs.models import Catalog, Package
from installs.actions import configuration, execute, plan_changes, removal, retry
from installs.actions.bulk_changes import plan_migration
from installs.actions.clean_up import plan_clean_up
from installs.actions.objects import WRITTEN
from installs.actions.plan import Plan, plan_install
from installs.actions.record import dry_run, request
from installs.models import Action, Component, Operator
from installs.models.steps import Apply, Delete
from installs.queries.leftovers import removed_owner
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_cluster, make_crd, make_operator, make_package
from tests.worlds.operators import make_action

pytestmark = pytest.mark.django_db
CATALOG = "redhat-operators"
API = {
    "PlatformOperator": "platform.openshift.io/v1alpha1",
    "Subscription": "operators.coreos.com/v1alpha1",
    "InstallPlan": "operators.coreos.com/v1alpha1",
    "ClusterServiceVersion": "operators.coreos.com/v1alpha1",
    "OperatorGroup": "operators.coreos.com/v1",
    "Namespace": "v1",
}
# What another person writes into the specification of an object.
OTHER: dict[str, dict[str, Any]] = {
    "PlatformOperator": {"package": {"name": "another"}},
    "Subscription": {"name": "another"},
    "InstallPlan": {"clusterServiceVersionNames": ["etcd.v1", "other.v2"]},
    "OperatorGroup": {"targetNamespaces": ["another"]},
}
Refusal = tuple[str, str, str]  # code, message, hint
Object = dict[str, Any]


@pytest.fixture
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    """With controllers that stand still."""
    server = Sandbox(step_seconds=3600)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    yield server
    server.stop()


def manifest(kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API[kind], "kind": kind, "metadata": metadata, **fields}


# -- actions ---------------------------------------------------------------------------------------


def subscription(sandbox: Sandbox, name: str) -> None:
    """With a ClusterServiceVersion of the name that it had before."""
    spec = {"name": name, "source": CATALOG, "sourceNamespace": "openshift-marketplace"}
    status = {"installedCSV": f"{name}.v1", "currentCSV": f"{name}.v1", "state": "AtLatestKnown"}
    item = manifest("Subscription", name, name, spec=spec | {"channel": "stable"}, status=status)
    sandbox.store.put(item)
    sandbox.store.put(manifest("ClusterServiceVersion", f"{name}.v1", name, spec={}))


def platform_operator(sandbox: Sandbox, name: str) -> None:
    sandbox.store.put(manifest("PlatformOperator", name, spec={"package": {"name": name}}))


def install_plan(sandbox: Sandbox, name: str) -> None:
    spec = {"approval": "Manual", "approved": False, "clusterServiceVersionNames": ["etcd.v1"]}
    status = {"phase": "RequiresApproval", "plan": []}
    sandbox.store.put(manifest("InstallPlan", name, name, spec=spec, status=status))


def leftover(sandbox: Sandbox, name: str) -> None:
    sandbox.store.put(manifest("OperatorGroup", name, name, spec={}))


def row_of(cluster: Cluster, name: str, kind: str = "Subscription") -> Operator:
    return Operator.objects.select_related("cluster").get(cluster=cluster, kind=kind, name=name)


def package_of(cluster: Cluster, name: str) -> Package:
    return make_package(
        name=name,
        catalog=Catalog.objects.get(
            cluster=cluster, name=CATALOG, source_kind=Catalog.SourceKind.CATALOG_SOURCE
        ),
    )


def remake(cluster: Cluster, name: str) -> Plan:
    """As the plan of a Subscription whose first InstallPlan failed."""
    row = row_of(cluster, name)
    whole = Apply(retry._whole_manifest(row), main=True)
    deletion = Delete(row.kind, row.namespace, row.name, row.uid, main=True)
    return plan_changes.plan_for(row, Action.Verb.RETRY, (deletion, whole))


def remove(cluster: Cluster, name: str) -> Plan:
    Component.objects.filter(kind="ClusterServiceVersion", name=f"{name}.v1").update(uid="before")
    return removal.plan_remove(row_of(cluster, name))


def clean_up(cluster: Cluster, name: str) -> Plan:
    make_crd(
        cluster=cluster, name=f"{name}.example.com", owner_kind="Operator",
        owner_name=f"etcd.{name}",
    )  # fmt: skip
    owner = removed_owner(cluster, "Subscription", name, "etcd")
    assert owner is not None
    return plan_clean_up(cluster, owner, [f"OperatorGroup {name}/{name}"])


@dataclass(frozen=True)
class Row:
    """An action: how its object gets onto the cluster, its plan, and the codes with which it is
    refused in one of the situations."""

    verb: Action.Verb
    plan: Callable[[Cluster, str], Plan]
    prepare: Callable[[Sandbox, str], None]
    codes: set[str]


def nothing(_sandbox: Sandbox, _name: str) -> None:
    """The object does not exist yet."""


ANY = {"busy", "forbidden"}
ROWS = {
    "install": Row(
        Action.Verb.INSTALL,
        lambda cluster, name: plan_install(cluster, package_of(cluster, name), ""),
        nothing,
        {*ANY, "taken", "conflict"},
    ),
    "install a Subscription": Row(
        Action.Verb.INSTALL,
        lambda cluster, name: plan_install(
            cluster, package_of(cluster, name), "", "Subscription", {"namespace": name}
        ),
        nothing,
        {*ANY, "taken", "conflict"},
    ),
    "migrate": Row(
        Action.Verb.INSTALL,
        lambda cluster, name: plan_migration(
            row_of(cluster, name, "PlatformOperator"), package_of(cluster, name)
        ),
        platform_operator,
        {*ANY, "not-found", "taken", "conflict"},
    ),
    "upgrade": Row(
        Action.Verb.UPGRADE,
        lambda cluster, name: plan_changes.plan_upgrade(row_of(cluster, name), {"channel": "new"}),
        subscription,
        {*ANY, "not-found", "gone", "replaced", "conflict"},
    ),
    "configure": Row(
        Action.Verb.CONFIGURE,
        lambda cluster, name: configuration.plan_configure(
            row_of(cluster, name), {"env": [{"name": "A", "value": "b"}]}
        ),
        subscription,
        {*ANY, "not-found", "gone", "replaced", "conflict"},
    ),
    "approve": Row(
        Action.Verb.APPROVE,
        lambda cluster, name: plan_changes.plan_approve(
            cluster, Component.objects.get(cluster=cluster, kind="InstallPlan", name=name)
        ),
        install_plan,
        {*ANY, "not-found", "gone", "replaced"},
    ),
    "approve one version": Row(
        Action.Verb.APPROVE,
        lambda cluster, name: plan_changes.plan_approve(
            cluster,
            Component.objects.get(cluster=cluster, kind="InstallPlan", name=name),
            only="etcd.v1",
        ),
        install_plan,
        {*ANY, "not-found", "gone", "replaced", "carries-more"},
    ),
    "retry": Row(
        Action.Verb.RETRY,
        lambda cluster, name: retry.plan_retry(row_of(cluster, name)),
        subscription,
        {*ANY, "not-found", "gone", "replaced", "conflict"},
    ),
    "make again": Row(
        Action.Verb.RETRY,
        remake,
        subscription,
        {*ANY, "not-found", "gone", "replaced", "changed"},
    ),
    "remove": Row(Action.Verb.REMOVE, remove, subscription, {*ANY, "replaced"}),
    "clean up": Row(Action.Verb.CLEAN_UP, clean_up, leftover, {*ANY, "replaced"}),
}


# -- situations ------------------------------------------------------------------------------------


def stored(sandbox: Sandbox, plan: Plan) -> Object | None:
    return sandbox.store.get(plan.main.kind, plan.main.name, plan.main.namespace)


def as_reviewed(_sandbox: Sandbox, _plan: Plan) -> None:
    pass


def gone(sandbox: Sandbox, plan: Plan) -> None:
    sandbox.store.delete(plan.main.kind, plan.main.name, plan.main.namespace)


def replaced(sandbox: Sandbox, plan: Plan) -> None:
    if item := stored(sandbox, plan):
        gone(sandbox, plan)
        spec = item["spec"]
        sandbox.store.put(manifest(item["kind"], plan.main.name, plan.main.namespace, spec=spec))


def changed(sandbox: Sandbox, plan: Plan, **metadata: Any) -> None:
    """By somebody who left no trace as a field manager."""
    item = stored(sandbox, plan)
    if item is None:
        assert isinstance(plan.main, Apply)
        item = plan.main.manifest
    spec = {**item["spec"], **OTHER[plan.main.kind]}
    sandbox.store.put({**item, "spec": spec, "metadata": {**item["metadata"], **metadata}})


def being_deleted(sandbox: Sandbox, plan: Plan) -> None:
    changed(sandbox, plan, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/x"])


def labelled(sandbox: Sandbox, plan: Plan) -> None:
    if item := stored(sandbox, plan):
        metadata = {**item["metadata"], "labels": {"argocd.argoproj.io/instance": "x"}}
        sandbox.store.put({**item, "metadata": metadata})


def managed(_sandbox: Sandbox, plan: Plan) -> None:
    main = plan.main
    spec = OTHER[main.kind]
    if isinstance(main, Apply):
        spec = {**main.manifest.get("spec", {}), **spec}
    item = manifest(main.kind, main.name, main.namespace, spec=spec)
    with client_for(plan.cluster) as client:
        version = API[main.kind].rpartition("/")[2]
        client.apply(WRITTEN[main.kind], version, item, field_manager="argocd", force=True)


def adopted(_sandbox: Sandbox, plan: Plan) -> None:
    names: dict[str, Any] = {"kind": plan.kind, "namespace": plan.namespace, "name": plan.name}
    if not Operator.objects.filter(cluster=plan.cluster, **names).exists():
        make_operator(cluster=plan.cluster, package=plan.name, **names)


def busy(_sandbox: Sandbox, plan: Plan) -> None:
    verb = "remove" if plan.verb == Action.Verb.APPROVE else "approve"
    make_action(plan.cluster, plan.name, path=plan.kind, namespace=plan.namespace, verb=verb)


def without_namespace(sandbox: Sandbox, plan: Plan) -> None:
    sandbox.store.delete("Namespace", plan.main.namespace)


def forbidden(_sandbox: Sandbox, _plan: Plan) -> None:
    """See `refusals`: to somebody whom the cluster does not know."""


SITUATIONS = (
    *(as_reviewed, gone, replaced, changed, being_deleted, labelled, managed, adopted, busy),
    *(without_namespace, forbidden),
)


# -- comparison ------------------------------------------------------------------------------------


def of_dry_run(plan: Plan, user: User) -> Refusal | None:
    try:
        result = dry_run(plan, user)
    except OlmwebError as error:
        return error.code, error.message, error.hint
    return None if result.ok else (result.code, result.message, result.hint)


def of_worker(plan: Plan, user: User) -> Refusal | None:
    try:
        action = request(plan, user)
    except OlmwebError as error:
        return error.code, error.message, error.hint
    execute.try_to_send(action)
    action.refresh_from_db()
    if action.state != Action.State.REFUSED:
        return None
    outcome = re.split(r" (?:Applied before that:|Before that, it) ", action.outcome)[0]
    return action.outcome_code, outcome, action.outcome_hint


def test_every_action_has_a_row() -> None:
    assert {row.verb for row in ROWS.values()} == set(Action.Verb)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_worker_refuses_nothing_that_the_dry_run_accepts(
    sandbox: Sandbox, olivia: User, tess: User, row: Row
) -> None:
    cluster = make_cluster(name="prod", context="sandbox")
    names = {situation: f"etcd-{number}" for number, situation in enumerate(SITUATIONS)}
    for name in names.values():
        sandbox.store.put(manifest("Namespace", name))
        row.prepare(sandbox, name)
    sync_cluster(cluster)
    cluster.refresh_from_db()
    codes = set()
    for situation, name in names.items():
        plan = row.plan(cluster, name)
        user = tess if situation is forbidden else olivia
        situation(sandbox, plan)
        tried, refused = of_dry_run(plan, user), of_worker(plan, user)
        assert tried == refused, situation.__name__
        codes |= {refused[0]} if refused else set()
    assert codes == row.codes
