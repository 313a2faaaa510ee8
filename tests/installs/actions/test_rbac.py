"""The ClusterRole that we ship lets OLM Web read every kind that it reads, and nothing write."""

from typing import Any

import pytest
import yaml

from installs.actions.objects import WRITTEN
from olmweb.kube.resources import ALL, Resource
from tests.conftest import ROOT

RBAC = ROOT / "deploy" / "kubernetes" / "rbac.yaml"


def reader() -> list[dict[str, Any]]:
    return rules_of("olmweb-reader")


def rules_of(*names: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all(RBAC.read_text(encoding="utf-8"))
    return [
        rule
        for one in documents
        if one["kind"] in ("ClusterRole", "Role") and one["metadata"]["name"] in names
        for rule in one["rules"]
    ]


def allowed(rules: list[dict[str, Any]], resource: Resource, verb: str) -> bool:
    return any(
        resource.group in rule["apiGroups"]
        and resource.plural in rule["resources"]
        and verb in rule["verbs"]
        for rule in rules
    )


@pytest.mark.parametrize("resource", ALL, ids=lambda one: one.kind)
def test_the_reader_may_list_and_watch_every_kind(resource: Resource) -> None:
    verbs = {
        verb
        for rule in reader()
        if resource.group in rule["apiGroups"] and resource.plural in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {"get", "list", "watch"} <= verbs


def test_the_reader_may_write_nothing() -> None:
    assert {verb for rule in reader() for verb in rule["verbs"]} == {"get", "list", "watch"}


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_the_roles_may_write_what_actions_write(kind: str) -> None:
    verbs = {
        "InstallPlan": {"patch", "delete"},
        "Bundle": {"delete"},
        "BundleDeployment": {"patch"},
        "ConfigMap": {"delete"},
        "Job": {"delete"},
        "ClusterServiceVersion": {"delete"},
        "Namespace": {"create", "patch"},
        "OperatorGroup": {"create", "patch"},
        "ServiceAccount": {"create", "patch"},
    }.get(kind, {"create", "patch", "delete"})
    operator = rules_of("olmweb-operator", "olmweb-unpack-retrier")
    assert all(allowed(operator, WRITTEN[kind], verb) for verb in verbs)


def test_config_maps_and_jobs_may_be_deleted_in_namespaces_of_catalogs_only() -> None:
    for kind in ("ConfigMap", "Job"):
        assert not allowed(rules_of("olmweb-operator"), WRITTEN[kind], "delete")
