"""The configuration in the install form: offered where served, kept, refused at its field."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.models import Package
from installs.actions import record
from installs.actions.objects import DryRun
from installs.models import Action, CRDState, InstallRequest
from olmweb.models import Cluster
from tests.factories import make_crd
from tests.installs.methods.test_configuration import subscription
from tests.installs.views.test_install_form import INSTALL, hidden, package, prod, writer
from tests.worlds.html import assert_page

__all__ = ["package", "prod", "writer"]
pytestmark = pytest.mark.django_db
VALUES = {
    "path": "Subscription",
    "config_env": "LOG_LEVEL=debug",
    "config_limits_memory": "1Gi",
    "config_more": "envFrom: [{secretRef: {name: proxy}}]",
}
CONFIG = {
    "env": [{"name": "LOG_LEVEL", "value": "debug"}],
    "resources": {"limits": {"memory": "1Gi"}},
    "envFrom": [{"secretRef": {"name": "proxy"}}],
}


def shown(answer: Any) -> str:
    assert_page(answer)
    content: str = answer.content.decode()
    return content


@pytest.fixture
def crd(prod: Cluster) -> CRDState:
    return subscription_crd(prod)


def subscription_crd(cluster: Cluster) -> CRDState:
    schema = subscription()
    names = ("name", "source", "sourceNamespace", "channel", "startingCSV", "installPlanApproval")
    fields = [f"spec.{name}" for name in (*names, "config")]
    fields += [f"spec.config.{name}" for name in schema["properties"]]
    return make_crd(
        cluster=cluster,
        name="subscriptions.operators.coreos.com",
        details={"fields": {"v1alpha1": fields}},
        config_schemas={"v1alpha1": schema},
    )


def test_the_fold_is_there_where_the_cluster_serves_the_field(
    writer: Client, package: Package, crd: CRDState
) -> None:
    page = shown(writer.get(INSTALL, {"path": "Subscription"}))
    assert 'id="configuration">' in page
    assert 'name="config_watch_namespace"' not in page
    for path in ("PlatformOperator", "ClusterExtension"):
        assert 'id="configuration"' not in shown(writer.get(INSTALL, {"path": path}))
    crd.details["fields"]["v1alpha1"] = ["spec.name", "spec.config", "spec.config.env"]
    crd.save()
    page = shown(writer.get(INSTALL, {"path": "Subscription"}))
    assert 'name="config_env"' in page
    assert 'name="config_tolerations"' not in page
    crd.delete()
    page = shown(writer.get(INSTALL, {"path": "Subscription"}))
    assert 'id="configuration"' not in page


def test_the_values_of_the_address_are_in_the_manifest_and_in_the_export(
    writer: Client, package: Package, crd: CRDState
) -> None:
    answer = writer.get(INSTALL, VALUES)
    page = shown(answer)
    assert answer.context["plan"].manifests[-1]["spec"]["config"] == CONFIG
    assert 'id="configuration" open>' in page
    assert "LOG_LEVEL=debug</textarea>" in page
    exported = writer.get(answer.context["export_url"])
    assert exported.context["export"].manifests[-1]["spec"]["config"] == CONFIG


def test_a_switch_of_the_method_keeps_the_values_and_review_shows_them(
    writer: Client, package: Package, crd: CRDState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda plan, user: DryRun(True, "Fine."))
    other = writer.post(INSTALL, VALUES | {"path": "PlatformOperator", "step": "edit"})
    content = other.content.decode()
    assert hidden(content, "config_env", "LOG_LEVEL=debug")
    assert "config" not in other.context["plan"].manifests[-1]["spec"]
    reviewed = writer.post(INSTALL, VALUES | {"step": "review"})
    assert reviewed.status_code == 200
    assert "LOG_LEVEL=debug</textarea>" in reviewed.content.decode()
    assert reviewed.context["reviewed"]


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("config_env", "LOG_LEVEL", "“LOG_LEVEL” is not NAME=value"),
        ("config_limits_memory", "lots", "“lots” is no quantity"),
        ("config_more", "volumes: [{}]", "config.volumes[0].name: This field is missing"),
        ("config_more", "- a", "A configuration is a mapping"),
    ],
)
def test_a_wrong_value_is_refused_beside_its_field(
    writer: Client, package: Package, crd: CRDState, field: str, text: str, words: str
) -> None:
    for send in (writer.get, writer.post):
        values: dict[str, Any] = VALUES | {field: text, "step": "edit"}
        answer = send(INSTALL, values)
        content = shown(answer)
        assert answer.status_code == 200
        assert words in answer.context["form"].errors[field][0]
        assert f'id="field-{field}-error"' in content
        assert "refusal" not in answer.context or answer.context["refusal"] is None
    answer = writer.post(INSTALL, VALUES | {field: text, "step": "review"})
    assert answer.status_code == 422
    form = answer.context["form"]
    assert (
        f'href="#field-{field}">Go to the field {form[field].label}</a>' in answer.content.decode()
    )
    assert form[field].label != field


def test_the_answer_of_the_dry_run_is_beside_the_field_too(
    writer: Client, package: Package, crd: CRDState, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = DryRun(False, "No.", "invalid", "", {"config.env": "Refused by the cluster."})
    monkeypatch.setattr(record, "dry_run", lambda plan, user: refused)
    answer = writer.post(INSTALL, VALUES | {"step": "review"})
    assert answer.status_code == 422
    assert answer.context["form"].errors["config_env"] == ["Refused by the cluster."]


def test_a_request_takes_the_configuration_of_its_install_method(
    client: Client, bob: User, package: Package, crd: CRDState
) -> None:
    client.force_login(bob)
    url = INSTALL.replace("/install", "/request")
    assert 'name="config_env"' in shown(client.get(url))
    body = VALUES | {"cluster": "prod", "version": "1.1.0", "reason": "For the shop."}
    wrong = client.post(url, body | {"config_limits_memory": "lots"})
    assert wrong.status_code == 422
    assert "“lots” is no quantity" in wrong.context["form"].errors["config_limits_memory"][0]
    assert "LOG_LEVEL=debug</textarea>" in wrong.content.decode()
    other = client.post(url, body | {"path": "PlatformOperator"})
    assert "A PlatformOperator has no config." in other.content.decode()
    watching = client.post(url, body | {"config_watch_namespace": "apps"})
    assert list(watching.context["form"].errors) == ["config_watch_namespace"]
    made = client.post(url, body)
    assert made.status_code == 302, made.context
    assert InstallRequest.objects.get().config == CONFIG
    crd.delete()
    assert 'name="config_env"' not in shown(client.get(url))


def test_a_bulk_install_gives_its_configuration_to_every_package(
    writer: Client, package: Package, crd: CRDState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda plan, user: DryRun(True, "Fine."))
    key = f"prod/{package.catalog.slug}/{package.name}"
    body = VALUES | {"package": key, "pick": key, "cluster": "prod", "of": "prod/Subscription"}
    page = writer.get("/bulk-install/", {"package": key, "path": "Subscription"})
    assert 'name="config_env"' in shown(page)
    wrong = writer.post("/bulk-install/", body | {"step": "review", "config_env": "a b"})
    assert list(wrong.context["form"].errors) == ["config_env"]
    reviewed = writer.post("/bulk-install/", body | {"step": "review"})
    (row,) = reviewed.context["rows"]
    assert row["item"].plan.manifests[-1]["spec"]["config"] == CONFIG
    confirmed = {name: reviewed.context[name] for name in ("key", "reviewed")}
    changed = writer.post(
        "/bulk-install/", body | confirmed | {"step": "confirm", "config_env": "LOG_LEVEL=info"}
    )
    assert changed.status_code == 403
    done = writer.post("/bulk-install/", body | confirmed | {"step": "confirm"})
    assert done.status_code == 303, done.context
    assert Action.objects.get().config == CONFIG
