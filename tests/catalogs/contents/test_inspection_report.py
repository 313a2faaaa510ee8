"""What a bundle would bring, read from its objects, and how two bundles differ."""

import copy
from typing import Any

import pytest

from catalogs.contents.difference import DifferenceSection, difference, fields_of
from catalogs.contents.objects import Manifests
from catalogs.contents.permissions import Level, risks
from catalogs.contents.report import BundleReport, report
from tests.worlds.bundle_images import CRD, SERVICE, csv

RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
    "subjects": [{"kind": "ServiceAccount", "name": "sa"}],
    "roleRef": {"kind": "ClusterRole", "name": "own"},
}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "own"},
    "rules": [RULE],
}


def told(*objects: dict[str, Any], related: tuple[tuple[str, str], ...] = ()) -> BundleReport:
    return report(Manifests(objects, {}), related)


@pytest.mark.parametrize(
    ("groups", "resources", "verbs", "level", "words"),
    [
        ("*", "*", "*", "danger", "everything with everything"),
        (",apps", "*", "*", "danger", "secrets and pods' exec too"),
        ("apps", "*", "*", "caution", "all kinds of apps"),
        ("", "*", "get,list", "danger", "read all kinds"),
        ("", "secrets", "list", "danger", "read secrets"),
        ("", "configmaps,secrets", "*", "danger", "read secrets"),
        ("", "secrets", "delete", "caution", "delete secrets"),
        ("rbac.authorization.k8s.io", "clusterroles", "escalate", "danger", "escalate"),
        ("rbac.authorization.k8s.io", "roles", "bind", "danger", "bind"),
        ("*", "roles", "create", "caution", "hand permissions on"),
        ("", "users", "impersonate", "danger", "impersonate"),
        ("", "nodes/proxy", "get", "danger", "kubelet"),
        ("", "*/exec", "create", "danger", "pods/exec"),
        ("", "pods/*", "create", "plain", ""),
        ("", "pods/exec", "get", "danger", "run commands"),
        ("", "pods", "get,list", "plain", ""),
        ("apps", "secrets", "get", "plain", ""),
        ("", "", "", "plain", ""),
    ],
)
def test_a_rule_is_as_dangerous_as_what_it_lets_its_holder_do(
    groups, resources, verbs, level, words
):
    found, why = risks(groups.split(","), resources.split(","), verbs.split(","))
    assert (found, words in " ".join(why), bool(why)) == (level, True, bool(words))


def test_a_rule_for_certain_names_is_a_caution_at_most():
    level, why = risks([""], ["secrets"], ["get"], named=True)
    assert (level, why[0].endswith("; only those named.")) == (Level.CAUTION, True)


def test_permissions_come_with_the_dangerous_cluster_wide_ones_first():
    found = told(csv(), CRD, SERVICE)
    assert [(each.scope, each.level, each.what) for each in found.permissions] == [
        ("cluster", "danger", "secrets"),
        ("cluster", "plain", "pods"),
        ("namespace", "plain", "configmaps"),
    ]
    assert found.dangerous == 1


def test_what_the_bundle_binds_itself_counts_too():
    bound = told(csv(install={}), ROLE, BINDING)
    assert [(each.account, each.level) for each in bound.permissions] == [("sa", "danger")]
    assert told(csv(install={}), ROLE).permissions == ()
    admin = {**BINDING, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
    other = {**BINDING, "roleRef": {"kind": "ClusterRole", "name": "view"}}
    levels = [each.level for each in told(csv(install={}), other, admin).permissions]
    assert levels == ["danger", "caution"]


def test_objects_are_listed_by_kind_with_those_that_the_installer_makes():
    found = told(csv(), CRD, SERVICE)
    assert [(each.kind, each.names, bool(each.origin)) for each in found.kinds] == [
        ("CustomResourceDefinition", ("kettles.tea.example.com",), False),
        ("Service", ("kettle-metrics",), False),
        ("Deployment", ("kettle",), True),
        ("ServiceAccount", ("kettle",), True),
        ("ClusterRole, ClusterRoleBinding", ("kettle",), True),
        ("Role, RoleBinding", ("kettle",), True),
    ]


def test_images_are_told_once_with_how_they_are_pinned():
    digest = "registry.example/a@sha256:1"
    related = (("one", digest), ("two", digest), ("", "registry.example:5000/bare"))
    found = told(csv(), related=related)
    assert [(each.image, each.names, each.pinned) for each in found.images] == [
        ("registry.example:5000/bare", (), "not at all"),
        ("registry.example/kettle:1", ("main",), "tag"),
        (digest, ("one", "two"), "digest"),
    ]


def test_webhooks_say_what_they_are_asked_about():
    hook = told(csv()).webhooks[0]
    assert (hook.name, hook.intercepts, hook.everything) == (
        "vkettle.example.com",
        ("CREATE of kettles.tea.example.com",),
        False,
    )
    rules = [{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}]
    assert told(csv(webhookdefinitions=[{"rules": rules}])).webhooks[0].everything


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [None, 7, "x", [[]]]])
def test_parts_of_a_wrong_type_count_as_absent(odd):
    for name in ("install", "webhookdefinitions", "relatedImages"):
        told(csv(**{name: odd}))
    told({"kind": "ClusterServiceVersion", "spec": odd}, {"kind": odd, "metadata": odd})
    crd = {**CRD, "spec": odd}
    found = told(csv(install={"spec": {"clusterPermissions": odd}}), crd, {**ROLE, "rules": odd})
    assert difference(found, found) == ()
    assert fields_of({"properties": odd, "required": odd, "items": odd}) == {}


def changed(edit: Any) -> tuple[DifferenceSection, ...]:
    """From the CRD to one that `edit` changed."""
    after = copy.deepcopy(CRD)
    edit(after["spec"])
    return difference(told(csv(), CRD), told(csv(), after))


def spec_of(version: dict[str, Any]) -> dict[str, Any]:
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize(
    ("edit", "change", "words", "level"),
    [
        (lambda s: spec_of(s["versions"][0])["required"].append("lid"),
         "changed", "spec.lid is now required", "danger"),
        (lambda s: spec_of(s["versions"][0])["properties"].pop("lid"),
         "removed", "spec.lid is gone", "danger"),
        (lambda s: spec_of(s["versions"][0])["properties"]["lid"].update(type="integer"),
         "changed", "of type string, now integer", "danger"),
        (lambda s: spec_of(s["versions"][0])["properties"].update(spout={"type": "string"}),
         "added", "1 field is new in v1.", "plain"),
        (lambda s: s["versions"][0].update(name="v2"), "removed", "Version v1 is gone", "danger"),
        (lambda s: s["versions"][0].update(served=False), "changed", "no longer served", "caution"),
        (lambda s: s.update(scope="Cluster"), "changed", "Its scope was Namespaced", "danger"),
    ],
)  # fmt: skip
def test_a_change_of_a_crd_says_what_it_breaks(edit, change, words, level):
    (section,) = changed(edit)
    line = section.lines[0]
    assert (line.change, words in line.note, line.level) == (change, True, level), section


def test_a_new_required_field_breaks_only_below_what_was_there():
    def edit(spec: dict[str, Any]) -> None:
        below = spec_of(spec["versions"][0])
        below["required"].append("spout")
        inner = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
        below["properties"]["spout"] = inner

    (section,) = changed(edit)
    notes = [line.note for line in section.lines if line.level == "danger"]
    assert notes == ["spec.spout is new in v1 and required."]


def permitted(*rules: dict[str, Any]) -> BundleReport:
    spec = {"clusterPermissions": [{"serviceAccountName": "k", "rules": list(rules)}]}
    return told(csv(install={"spec": spec}))


def test_permissions_are_compared_by_what_they_grant_not_by_how_rules_are_cut():
    whole = {"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get", "list"]}
    parts = [
        {"apiGroups": [""], "resources": [resource], "verbs": ["list", "get"]}
        for resource in ("pods", "secrets")
    ]
    assert difference(permitted(whole), permitted(*parts)) == ()
    assert difference(permitted({**whole, "verbs": ["*"]}), permitted(whole, RULE)) != ()
    (section,) = difference(permitted(RULE), permitted(whole))
    assert [(line.change, line.what, line.level) for line in section.lines] == [
        ("added", "list: secrets (cluster-wide, k)", "danger"),
        ("added", "get, list: pods (cluster-wide, k)", "plain"),
    ]
    (section,) = difference(permitted({**RULE, "verbs": ["*"]}), permitted(RULE))
    assert [line.change for line in section.lines] == ["removed"]


def test_a_rule_of_a_million_grants_is_compared_as_a_whole():
    many = [f"r{number}" for number in range(1_000)]
    rule = {"apiGroups": many, "resources": many, "verbs": ["get"]}
    assert difference(permitted(rule), permitted(rule)) == ()
    assert difference(permitted(), permitted(rule))[0].lines[0].change == "added"


def test_objects_images_webhooks_and_crds_that_came_or_went_are_told():
    before = told(csv(), CRD, related=(("main", "registry.example/other:1"),))
    after = told(
        csv(webhookdefinitions=[]), SERVICE, related=(("main", "registry.example/other:2"),)
    )
    lines = {section.title: section.lines for section in difference(before, after)}
    assert [(line.change, line.what) for line in lines["CRDs and their schemas"]] == [
        ("removed", "kettles.tea.example.com")
    ]
    assert [(line.change, line.what) for line in lines["Objects"]] == [
        ("added", "Service kettle-metrics (v1)")
    ]
    assert [line.change for line in lines["Webhooks"]] == ["removed"]
    assert [(line.change, line.what, line.note) for line in lines["Images"]] == [
        ("changed", "registry.example/other:2", "It was registry.example/other:1.")
    ]
