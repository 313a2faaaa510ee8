"""`spec.config` of an install: checked against the served schema, applied, requested, exported."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalogs.models import Package
from installs.actions import requests as install_requests
from installs.actions.plan import Plan, plan_install
from installs.actions.record import dry_run, request
from installs.models import CRDState, InstallRequest
from installs.state.full_sync import sync_cluster
from olmweb.errors import OlmwebError
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
from tests.installs.api.test_post_actions import post
from tests.installs.methods.test_configuration import EXTENSION

__all__ = ["cluster", "package", "sandbox"]
pytestmark = pytest.mark.django_db
CONFIG = {
    "env": [{"name": "LOG_LEVEL", "value": "debug"}],
    "nodeSelector": {"node-role.kubernetes.io/infra": ""},
    "resources": {"limits": {"memory": "512Mi"}},
}
BAD = {"env": [{"name": "LOG_LEVEL", "value": 5}]}
BODY = {
    "cluster": "prod",
    "verb": "install",
    "method": "Subscription",
    "package": PACKAGE,
    "namespace": NAMESPACE,
}


def plan(cluster: Cluster, package: Package, config: Any, method: str = "Subscription") -> Plan:
    values = {"namespace": NAMESPACE} if method != "PlatformOperator" else {}
    return plan_install(cluster, package, "", method, values, config=config)


def refusal(cluster: Cluster, package: Package, config: Any, method: str = "Subscription") -> Any:
    with pytest.raises(OlmwebError) as error:
        plan(cluster, package, config, method)
    return error.value


def test_an_install_applies_its_configuration_and_the_same_again_changes_nothing(
    sandbox: Sandbox, cluster: Cluster, package: Package, olivia: User
) -> None:
    planned = plan(cluster, package, CONFIG)
    assert dry_run(planned, olivia).ok
    action = carry_out(request(planned, olivia))
    subscription = sandbox.store.get("Subscription", PACKAGE, NAMESPACE)
    assert subscription is not None
    assert subscription["spec"]["config"] == CONFIG == action.config
    sync_cluster(cluster)
    again = carry_out(request(plan(cluster, package, CONFIG), olivia))
    assert (again.state, again.outcome_code) == ("no_change", "already-so")
    fewer = carry_out(request(plan(cluster, package, {"env": CONFIG["env"]}), olivia))
    assert fewer.outcome == (
        f"Subscription {PACKAGE} exists already with all requested values, and also has "
        "spec.config.nodeSelector and spec.config.resources; nothing was written."
    )
    assert fewer.outcome_hint == "Edit its configuration to remove what was not requested."


def test_a_wrong_field_is_named_before_the_dry_run(cluster: Cluster, package: Package) -> None:
    error = refusal(cluster, package, BAD)
    assert (error.status, list(error.fields)) == (400, ["config.env[0].value"])
    assert error.message.startswith("config.env[0].value: Expected text, but “5” is a number")


def test_a_method_and_a_cluster_without_the_field_refuse_it(
    cluster: Cluster, package: Package
) -> None:
    error = refusal(cluster, package, CONFIG, "PlatformOperator")
    assert (error.status, error.code, list(error.fields)) == (422, "no-such-field", ["config"])
    package.catalog.source_kind = "ClusterCatalog"
    package.catalog.save()
    inline = {"configType": "Inline", "inline": {"watchNamespace": NAMESPACE}}
    error = refusal(cluster, package, inline, "ClusterExtension")
    assert (error.status, error.code) == (422, "no-such-field")
    assert error.message == "Cluster prod serves ClusterExtensions without spec.config."
    assert "only in its experimental CustomResourceDefinitions (release 1.11)" in error.hint
    row = CRDState.objects.get(name="clusterextensions.olm.operatorframework.io")
    row.details["fields"]["v1"] += ["spec.config", "spec.config.inline"]
    row.config_schemas = {"v1": EXTENSION}
    row.save()
    manifest = plan(cluster, package, inline, "ClusterExtension").manifests[-1]
    assert manifest["spec"]["config"] == inline
    bad = {"configType": "Inline", "inline": {"deploymentConfig": BAD}}
    error = refusal(cluster, package, bad, "ClusterExtension")
    assert list(error.fields) == ["config.inline.deploymentConfig.env[0].value"]
    CRDState.objects.all().delete()
    assert "is not known" in refusal(cluster, package, CONFIG).message


def test_only_an_install_with_a_configuration_reads_the_schema(
    cluster: Cluster, package: Package
) -> None:
    counts = []
    for config in (None, CONFIG):
        with CaptureQueriesContext(connection) as queries:
            plan(cluster, package, config)
        counts.append(sum("config_schemas" in query["sql"] for query in queries))
    assert counts == [0, 1]


def test_an_install_request_keeps_its_configuration(
    cluster: Cluster, package: Package, bob: User, olivia: User
) -> None:
    body = {**BODY, "version": "1.1.0", "reason": "For the shop.", "config": CONFIG}
    del body["verb"]
    answer = post(bob, body, url="/api/v1/requests")
    assert (answer.status_code, answer.json()["config"]) == (201, CONFIG), answer.json()
    assert post(bob, body, url="/api/v1/requests").json()["id"] == answer.json()["id"]
    other = post(bob, body | {"config": {}}, url="/api/v1/requests")
    assert (other.status_code, other.json()["error"]["code"]) == (409, "busy")
    wrong = post(bob, body | {"config": BAD}, url="/api/v1/requests")
    assert list(wrong.json()["error"]["fields"]) == ["config.env[0].value"]
    row = InstallRequest.objects.get()
    planned = install_requests.plan_of(row, package)
    assert planned.manifests[-1]["spec"]["config"] == CONFIG


def test_rest_takes_it_for_one_install_and_for_many(
    cluster: Cluster, package: Package, olivia: User
) -> None:
    dry = post(olivia, BODY | {"config": CONFIG, "dry_run": True, "anyway": True})
    assert dry.json()["manifests"][-1]["spec"]["config"] == CONFIG, dry.json()
    foreign = post(olivia, {**BODY, "verb": "remove", "config": CONFIG})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (422, "no-such-field")
    made = post(olivia, BODY | {"config": CONFIG, "anyway": True})
    assert (made.status_code, made.json()["config"]) == (202, CONFIG), made.json()
    catalog = f"prod/{package.catalog.slug}/{package.name}"
    many = {"cluster": "prod", "method": "Subscription", "packages": [catalog], "anyway": True}
    many |= {"namespace": "another", "dry_run": True}
    (row,) = post(olivia, many | {"config": CONFIG}, url="/api/v1/bulk-installs").json()["packages"]
    assert row["reason"].startswith("Its install, action")
    made = post(olivia, many | {"config": BAD}, url="/api/v1/bulk-installs")
    package.name = "another-operator"
    package.save()
    many["packages"] = [catalog.replace(PACKAGE, package.name)]
    (row,) = post(olivia, many | {"config": CONFIG}, url="/api/v1/bulk-installs").json()["packages"]
    assert row["manifests"][-1]["spec"]["config"] == CONFIG
    wrong = post(olivia, many | {"config": BAD}, url="/api/v1/bulk-installs")
    assert (wrong.status_code, list(wrong.json()["error"]["fields"])) == (
        400, ["config.env[0].value"]
    )  # fmt: skip


def test_an_export_has_it_checked_against_the_schema_of_its_cluster(
    reader: Client, cluster: Cluster, package: Package
) -> None:
    catalog = package.catalog
    catalog.source_kind, catalog.namespace = "CatalogSource", "openshift-marketplace"
    catalog.save()
    address = f"/software/prod/{catalog.slug}/{PACKAGE}/export/manifests.yaml"
    file = reader.get(address, {"config": json.dumps(CONFIG)})
    assert b"  config:\n    env:\n    - name: LOG_LEVEL\n" in file.content
    for query in ({"config": json.dumps(BAD)}, {"config": "- a"}):
        assert reader.get(address, query).status_code == 400
    none = reader.get(address, {"config": json.dumps(CONFIG), "path": "PlatformOperator"})
    assert none.status_code == 422
