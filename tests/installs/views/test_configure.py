"""“Edit configuration” of an operator: its form, review and action; REST; links of remedies."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client

from catalogs.models import Package
from installs.actions import plan_changes, retry
from installs.actions.configuration import plan_configure
from installs.actions.plan import plan_install
from installs.actions.record import dry_run, request
from installs.diagnosis.knowledge import finding_for
from installs.models import Action, CRDState, Operator
from installs.presenters.diagnosis import remedy_links, remedy_steps
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.kube.resources import SUBSCRIPTIONS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.installs.actions.test_actions_subscription import (
    NAMESPACE,
    PACKAGE,
    carry_out,
    cluster,
    package,
    sandbox,
)
from tests.installs.actions.test_configuration import CONFIG
from tests.installs.api.test_post_actions import post
from tests.worlds.html import assert_page

__all__ = ["cluster", "package", "sandbox"]
pytestmark = pytest.mark.django_db
PAGE = f"/operators/prod/Subscription/{NAMESPACE}/{PACKAGE}"
FORM = f"{PAGE}/configure"
VALUES = {"config_env": "LOG_LEVEL=info", "config_limits_memory": "1Gi"}
CHANGED = {
    "env": [{"name": "LOG_LEVEL", "value": "info"}],
    "resources": {"limits": {"memory": "1Gi"}},
}


@pytest.fixture
def writer(client: Client, olivia: User) -> Client:
    client.force_login(olivia)
    return client


@pytest.fixture
def operator(cluster: Cluster, package: Package, olivia: User) -> Operator:
    values = {"namespace": NAMESPACE, "approval": "Automatic"}
    plan = plan_install(cluster, package, "", "Subscription", values, config=CONFIG)
    carry_out(request(plan, olivia))
    sync_cluster(cluster)
    return row()


def row() -> Operator:
    return Operator.objects.select_related("cluster").get(kind="Subscription", name=PACKAGE)


def there(sandbox: Sandbox) -> dict[str, Any]:
    found = sandbox.store.get("Subscription", PACKAGE, NAMESPACE)
    assert found is not None
    spec: dict[str, Any] = found["spec"]
    return spec


def shown(answer: Any) -> str:
    assert_page(answer)
    content: str = answer.content.decode()
    return content


def set_elsewhere(cluster: Cluster, config: dict[str, Any]) -> None:
    """Another manager takes the fields of the configuration over."""
    manifest = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": PACKAGE, "namespace": NAMESPACE},
        "spec": {"config": config},
    }
    with client_for(cluster) as client:
        client.apply(SUBSCRIPTIONS, "v1alpha1", manifest, field_manager="terminal", force=True)
    sync_cluster(cluster)


def test_the_form_begins_with_what_was_applied_and_changes_nothing_else(
    writer: Client, sandbox: Sandbox, operator: Operator
) -> None:
    before = there(sandbox)
    assert FORM in assert_page(writer.get(PAGE)).links
    content = shown(writer.get(FORM))
    assert "LOG_LEVEL=debug</textarea>" in content
    assert "node-role.kubernetes.io/infra=</textarea>" in content
    reviewed = writer.post(FORM, VALUES | {"step": "review"})
    assert reviewed.context["dry_run"].ok, reviewed.context["dry_run"]
    changes = reviewed.context["dry_run"].changes
    assert {line for line in changes if line[0] != " "} == {
        "-    value: debug",
        "+    value: info",
        "-  nodeSelector:",
        "-    node-role.kubernetes.io/infra: ''",
        "-      memory: 512Mi",
        "+      memory: 1Gi",
    }
    assert "+    value: info\n" in shown(reviewed)
    confirmed = writer.post(
        FORM, VALUES | {"step": "confirm", "reviewed": reviewed.context["reviewed"]}
    )
    assert confirmed.status_code == 303
    action = carry_out(Action.objects.get(verb="configure"))
    assert (action.state, action.outcome) == (
        "succeeded",
        f"The configuration of {PACKAGE} is changed; its Deployments are updated now.",
    )
    assert there(sandbox) == before | {"config": CHANGED}
    again = carry_out(request(plan_configure(row(), CHANGED), writer_of(action)))
    assert (again.state, again.outcome_code) == ("no_change", "already-so")
    carry_out(request(plan_configure(row(), {}), writer_of(action)))
    assert not there(sandbox).get("config")
    none = carry_out(request(plan_configure(row(), {}), writer_of(action)))
    assert (none.state, none.outcome_code) == ("no_change", "already-so")


def writer_of(action: Action) -> User:
    assert action.user is not None
    return action.user


def test_a_configuration_of_another_manager_is_loaded_and_taken_over_on_confirmation(
    writer: Client, sandbox: Sandbox, operator: Operator, olivia: User
) -> None:
    set_elsewhere(
        operator.cluster, {"env": [{"name": "A", "value": "b"}], "annotations": {"x": "y"}}
    )
    content = shown(writer.get(FORM))
    assert "Load the current configuration" in content
    assert 'name="config_env"' not in content
    loaded = writer.post(FORM, {"step": "load"})
    assert loaded.status_code == 200
    content = shown(loaded)
    assert "A=b</textarea>" in content
    assert "annotations:\n  x: y\n</textarea>" in content.replace("&#x27;", "'")
    conflict = writer.post(FORM, VALUES | {"step": "review"})
    assert conflict.status_code == 422
    assert conflict.context["dry_run"].code == "conflict"
    assert 'name="take"' in conflict.content.decode()
    values = VALUES | {"config_more": "annotations: {x: y}", "take": "yes"}
    reviewed = writer.post(FORM, values | {"step": "review"})
    assert reviewed.context["dry_run"].ok, reviewed.context["dry_run"]
    plan = plan_configure(row(), CHANGED | {"annotations": {"x": "y"}}, take=True)
    assert dry_run(plan, olivia).ok
    carry_out(request(plan, olivia))
    assert there(sandbox)["config"]["env"] == CHANGED["env"]


def test_a_wrong_value_is_refused_beside_its_field(writer: Client, operator: Operator) -> None:
    answer = writer.post(FORM, VALUES | {"config_limits_memory": "lots", "step": "review"})
    assert answer.status_code == 422
    assert "“lots” is no quantity" in answer.context["form"].errors["config_limits_memory"][0]


def test_a_cluster_without_the_field_has_no_form(writer: Client, operator: Operator) -> None:
    crd = CRDState.objects.get(name="subscriptions.operators.coreos.com")
    crd.details["fields"] = {
        version: [name for name in names if not name.startswith("spec.config")]
        for version, names in crd.details["fields"].items()
    }
    crd.save()
    assert writer.get(FORM).status_code == 422


def test_rest_has_the_verb_and_refuses_what_the_schema_refuses(
    olivia: User, operator: Operator
) -> None:
    body = {"cluster": "prod", "verb": "configure", "method": "Subscription", "name": PACKAGE}
    body |= {"namespace": NAMESPACE}
    dry = post(olivia, body | {"config": CHANGED, "dry_run": True}).json()
    assert dry["manifests"][0]["spec"]["config"] == CHANGED
    assert dry["dry_run"]["ok"]
    made = post(olivia, body | {"config": CHANGED})
    assert (made.status_code, made.json()["verb"]) == (202, "configure"), made.json()
    wrong = post(olivia, body | {"config": {"env": {}}})
    assert (wrong.status_code, list(wrong.json()["error"]["fields"])) == (400, ["config.env"])
    other = post(olivia, body | {"config": CHANGED, "channel": "beta"})
    assert other.json()["error"]["code"] == "no-such-field"


def test_a_retry_that_makes_the_subscription_again_keeps_a_known_configuration(
    operator: Operator,
) -> None:
    assert plan_changes.applied_config(operator) == CONFIG
    assert retry._whole_manifest(operator)["spec"]["config"] == CONFIG
    operator.details["config"] = ["env", "volumes"]
    assert plan_changes.applied_config(operator) is None
    with pytest.raises(OlmwebError):
        plan_configure(operator, {"foo": 1})


def test_a_remedy_that_names_the_field_leads_to_the_form(
    writer: Client, operator: Operator
) -> None:
    finding = finding_for("pod-unschedulable-place", {}, {})
    user = User.objects.get(username="olivia")
    links = remedy_links(user, operator, finding, list, configurable=True)
    assert finding is not None
    steps = [step for step in remedy_steps(finding.remedy, links) if step.links]
    assert [link.url for link in steps[0].links] == [FORM]
    assert remedy_links(AnonymousUser(), operator, finding, list, configurable=True) == []


def test_a_field_of_another_manager_is_removed_on_confirmation(
    writer: Client, sandbox: Sandbox, operator: Operator, olivia: User
) -> None:
    before = there(sandbox)["config"]
    manifest = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": PACKAGE, "namespace": NAMESPACE},
        "spec": {"config": {"annotations": {"x.y/z": "1"}}},
    }
    with client_for(operator.cluster) as client:
        client.apply(SUBSCRIPTIONS, "v1alpha1", manifest, field_manager="terminal")
    plan = plan_configure(row(), before)
    late = request(plan, olivia)
    values = {
        "config_env": "LOG_LEVEL=debug",
        "config_node_selector": "node-role.kubernetes.io/infra=",
        "config_limits_memory": "512Mi",
        "step": "review",
    }
    refused = writer.post(FORM, values)
    kept = refused.context["dry_run"]
    assert (kept.ok, kept.code) == (False, "config-kept")
    assert kept.message == (
        f"spec.config.annotations of Subscription {NAMESPACE}/{PACKAGE} was set by another manager,"
        " so it would stay."
    )
    assert 'name="take"' in refused.content.decode()
    late = carry_out(late)
    assert (late.state, late.outcome_code) == ("refused", "config-kept")
    reviewed = writer.post(FORM, values | {"take": "yes"}).context["dry_run"]
    assert reviewed.ok, reviewed
    changed = [line for line in reviewed.changes if line[0] != " "]
    assert changed == ["-  annotations:", "-    x.y/z: '1'"]
    assert there(sandbox)["config"] == before | {"annotations": {"x.y/z": "1"}}, "a dry run"
    action = carry_out(request(plan_configure(row(), before, take=True), olivia))
    assert action.state == "succeeded", action.outcome
    assert there(sandbox)["config"] == before
