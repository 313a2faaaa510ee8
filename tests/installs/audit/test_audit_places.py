"""What a namespace says before a bundle is looked at: OperatorGroups and CatalogSources."""

from typing import Any

import pytest

from catalogs.verdicts.catalog_health import source_of
from catalogs.verdicts.health_checks import CheckedCatalog
from installs.audit.audit import NamespaceChecks
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_component, make_watch

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    cluster = make_cluster()
    make_watch(cluster=cluster, kind="OperatorGroup", resource="OperatorGroup")
    return cluster


def _group(cluster: Cluster, name: str, **details: Any) -> None:
    make_component(cluster=cluster, kind="OperatorGroup", namespace="n", name=name, details=details)


def _catalog(cluster: Cluster, namespace: str) -> CheckedCatalog:
    told = {"source_kind": "CatalogSource", "namespace": namespace, "slug": f"{namespace}.c"}
    return source_of(make_catalog(name="c", cluster=cluster, **told))


@pytest.mark.parametrize(
    ("alone", "namespace", "rule", "notes"),
    [
        (True, "olm", "sub-catalog-hidden", ["sub-own-catalogs-only"]),
        (True, "n", "", ["sub-own-catalogs-only"]),
        (False, "olm", "", []),
        (False, "elsewhere", "", ["sub-catalog-far"]),
    ],
)
def test_a_group_may_keep_the_catalogs_of_other_namespaces_out(
    cluster: Cluster, alone: bool, namespace: str, rule: str, notes: list[str]
) -> None:
    _group(cluster, "g", own_catalogs_only=alone)
    _source(cluster, "openshift-marketplace", "READY")
    check = NamespaceChecks(cluster, _catalog(cluster, namespace)).of("n")
    assert (check.blocker.rule if check.blocker else "") == rule
    assert [each.rule for each in check.notes] == notes


def test_a_global_catalog_that_does_not_answer_holds_nothing_where_it_is_kept_out(
    cluster: Cluster,
) -> None:
    _group(cluster, "g", own_catalogs_only=True)
    _source(cluster, "openshift-marketplace", "CONNECTING")
    assert NamespaceChecks(cluster).of("n").blocker is None


def _source(cluster: Cluster, namespace: str, state: str) -> None:
    details = {"state": state}
    make_component(
        cluster=cluster, kind="CatalogSource", namespace=namespace, name="c", details=details
    )


@pytest.mark.parametrize(
    ("details", "target"),
    [
        ({"namespaces": [""]}, "all"),
        ({"namespaces": ["n"]}, "own"),
        ({"namespaces": ["m"]}, "one"),
        ({"namespaces": ["l", "m"]}, "multi"),
        ({"namespaces": ["m", "n"]}, "mixed"),
        ({"targets": ["n"]}, "own"),  # OLM has not come to it yet
        ({}, "all"),
    ],
)
def test_what_its_operator_group_selects_is_told(
    cluster: Cluster, details: dict[str, Any], target: str
) -> None:
    _group(cluster, "g", **details)
    check = NamespaceChecks(cluster).of("n")
    assert (check.target, check.blocker) == (target, None)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "it has no OperatorGroup"),
        ([("a", {}), ("b", {})], "it has 2 OperatorGroups (a, b)"),
        ([("a", {"selects": True})], "OperatorGroup a, which selects no namespace"),
    ],
)
def test_without_exactly_one_that_selects_nothing_is_resolved(
    cluster: Cluster, groups: list[tuple[str, dict[str, Any]]], words: str
) -> None:
    for name, details in groups:
        _group(cluster, name, **details)
    found = NamespaceChecks(cluster).of("n").blocker
    assert found is not None
    assert found.rule == "sub-one-group"
    assert words in found.sentence


def test_operator_groups_that_were_never_read_are_not_missed() -> None:
    assert NamespaceChecks(make_cluster()).of("n").blocker is None


@pytest.mark.parametrize(
    ("namespace", "state", "rule"),
    [
        ("n", "CONNECTING", "sub-source-down"),
        ("openshift-marketplace", "", "sub-source-down"),
        ("elsewhere", "TRANSIENT_FAILURE", ""),
        ("n", "READY", ""),
    ],
)
def test_every_catalog_source_in_sight_must_answer(
    cluster: Cluster, namespace: str, state: str, rule: str
) -> None:
    _group(cluster, "g")
    _source(cluster, namespace, state)
    found = NamespaceChecks(cluster).of("n").blocker
    assert (found.rule if found else "") == rule
