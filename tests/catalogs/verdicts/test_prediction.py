"""The rules of `catalogs.verdicts`: the samples of each, and what they make of a bundle."""

import base64
import dataclasses
import json
import string
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.contents.bundle_facts import ApiKind, Contents, Hook, Shipped, read_contents
from catalogs.install_methods import InstallMethod
from catalogs.semver import parse
from catalogs.verdicts.evaluate import CHECKS, predict, result_of
from catalogs.verdicts.facts import (
    Answer,
    CheckContext,
    ClusterFacts,
    ClusterOffers,
    Offered,
    WatchTarget,
)
from catalogs.verdicts.health_checks import HEALTH_CHECKS, HealthContext
from catalogs.verdicts.rules import RULES, RuleScope, Verdict, VerdictRule

HEALTH_SCOPES = {RuleScope.CATALOG, RuleScope.NAMESPACE}
SAMPLES = [
    pytest.param(rule, sample, id=f"{rule.id}-{number}")
    for rule in RULES
    for number, sample in enumerate(rule.samples)
]


def _cluster(given_: Mapping[str, Any]) -> ClusterFacts:
    versions: dict[str, Any] = {
        key: parse(value) for key, value in given_.items() if key.endswith("_version")
    }
    rest = {key: value for key, value in given_.items() if key not in versions}
    return dataclasses.replace(msgspec.convert({"name": "c"} | rest, ClusterFacts), **versions)


def answer_of(rule: VerdictRule, sample: Mapping[str, Any]) -> Answer:
    if rule.scope in HEALTH_SCOPES:
        return HEALTH_CHECKS[rule.id](msgspec.convert(sample["site"], HealthContext))
    return CHECKS[rule.id](context_of(sample))


def context_of(sample: Mapping[str, Any]) -> CheckContext:
    market = sample.get("market")
    if market is not None:
        providers = {
            ApiKind(*kind): frozenset(names) for kind, names in market.get("providers", ())
        }
        versions = {
            name: tuple(parse(each) for each in versions)
            for name, versions in market.get("versions", {}).items()
        }
        offers = {
            name: tuple(Offered(*each) for each in found)
            for name, found in market.get("offers", {}).items()
        }
        always = {
            name: frozenset(ApiKind(*kind) for kind in kinds)
            for name, kinds in market.get("always", {}).items()
        }
        market = ClusterOffers(providers, versions, market.get("catalog", ""), offers, always)
    return CheckContext(
        msgspec.convert(sample["bundle"], Contents),
        _cluster(sample.get("cluster", {})),
        market,
        WatchTarget(sample.get("target", "all")),
    )


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
def test_a_rule_gives_what_its_sample_says(rule: VerdictRule, sample: Mapping[str, Any]) -> None:
    answer = answer_of(rule, sample)
    result = result_of(rule, answer, "c" if "cluster" in sample else "")
    if result is None:
        given_ = "passes" if answer is None else "not_known"
    else:
        given_ = result.verdict.value
    assert given_ == sample["gives"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_a_check_a_sample_that_hits_and_one_that_passes(rule: VerdictRule) -> None:
    gives = {sample["gives"] for sample in rule.samples}
    assert rule.id in (HEALTH_CHECKS if rule.scope in HEALTH_SCOPES else CHECKS)
    assert {rule.verdict.value, "passes"} <= gives
    assert rule.path in {*InstallMethod, "any"}
    assert rule.inputs
    assert rule.source
    assert rule.controllers


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_sentence_of_a_rule_uses_only_facts_that_its_check_gives(rule: VerdictRule) -> None:
    places = {name for _, name, _, _ in string.Formatter().parse(rule.says) if name}
    hits = [
        answer for sample in rule.samples if isinstance(answer := answer_of(rule, sample), Mapping)
    ]
    assert hits
    for answer in hits:
        assert set(answer) == places


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        ({"OwnNamespace"}, "with the namespace of the ClusterExtension in spec.config"),
        ({"SingleNamespace"}, "with another namespace than its own in spec.config"),
        ({"OwnNamespace", "SingleNamespace"}, "with one namespace in spec.config"),
        ({"MultiNamespace"}, "supports MultiNamespace. No feature gate changes that."),
        (set(), "supports none. No feature gate changes that."),
    ],
)
def test_what_operator_controller_would_need_to_watch_less_than_all_is_told(
    modes: set[str], words: str
) -> None:
    bundle = Contents(install_modes=frozenset(modes), owned_api_services=0, webhooks=0)
    prediction = predict(bundle, InstallMethod.CLUSTER_EXTENSION)
    assert prediction.deciding is not None
    assert prediction.deciding.rule == "ce-install-mode"
    assert words in prediction.deciding.sentence


def test_no_check_is_without_a_rule() -> None:
    assert sorted((*CHECKS, *HEALTH_CHECKS)) == sorted(rule.id for rule in RULES)


def test_the_worst_rule_is_first_and_all_are_listed() -> None:
    bundle = Contents(
        package="a",
        install_modes=frozenset({"OwnNamespace"}),
        owned_api_services=0,
        webhooks=None,
        deprecated=True,
    )
    prediction = predict(bundle, InstallMethod.PLATFORM_OPERATOR)
    assert [each.rule for each in prediction.results] == [
        "po-install-mode",
        "po-webhook",
        "deprecated",
    ]
    assert prediction.verdict == Verdict.NOT_INSTALLABLE
    assert prediction.deciding is prediction.results[0]


def test_warnings_alone_leave_a_bundle_installable_without_a_deciding_rule() -> None:
    bundle = Contents(
        install_modes=frozenset({"AllNamespaces"}),
        owned_api_services=0,
        webhooks=0,
        deprecated=True,
    )
    prediction = predict(bundle, InstallMethod.CLUSTER_EXTENSION)
    assert prediction.verdict == Verdict.INSTALLABLE
    assert [each.verdict for each in prediction.results] == [Verdict.WARNING]
    assert prediction.deciding is None


CSV = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "ClusterServiceVersion",
    "metadata": {
        "name": "a.v1.0.0",
        "annotations": {"operatorframework.io/suggested-namespace": "a-home"},
    },
    "spec": {
        "installModes": [
            {"type": "AllNamespaces", "supported": True},
            {"type": "OwnNamespace", "supported": False},
        ],
        "minKubeVersion": "1.25.0",
        "nativeAPIs": [{"group": "route.openshift.io", "version": "v1", "kind": "Route"}],
        "customresourcedefinitions": {
            "owned": [{"name": "as.a.example", "version": "v1", "kind": "A"}],
            "required": [{"name": "bs.b.example", "version": "v1", "kind": "B"}],
        },
        "apiservicedefinitions": {"owned": [{"group": "x", "version": "v1", "kind": "X"}]},
        "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "a-manager"}]}},
        "webhookdefinitions": [
            {"type": "ConversionWebhook", "generateName": "c", "conversionCRDs": ["as.a.example"]},
            {
                "type": "MutatingAdmissionWebhook",
                "generateName": "m",
                "deploymentName": "a-manager",
                "conversionCRDs": ["ignored.a.example"],
            },
        ],
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "as.a.example"},
    "spec": {"versions": [{"name": "v1", "served": True}, {"name": "v1beta1"}]},
}


def _object(manifest: Mapping[str, Any]) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(manifest).encode()).decode()
    return {"type": "olm.bundle.object", "value": {"data": data}}


def _blob(*properties: Mapping[str, Any]) -> bytes:
    return json.dumps(
        {"schema": "olm.bundle", "name": "a.v1.0.0", "package": "a", "properties": properties}
    ).encode()


PROPERTIES = (
    {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}},
    {"type": "olm.gvk", "value": {"group": "a.example", "version": "v1", "kind": "A"}},
    {"type": "olm.gvk.required", "value": {"group": "b.example", "version": "v1", "kind": "B"}},
    {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">1.0.0"}},
    {"type": "olm.label.required", "value": {"label": "gpu"}},
    {"type": "olm.constraint", "value": {"cel": {"rule": "true"}}},
    {"type": "olm.maxOpenShiftVersion", "value": '"4.16"'},
    {"type": "olm.deprecated", "value": {}},
)


def test_a_bundle_with_its_objects_tells_everything() -> None:
    found = read_contents(_blob(*PROPERTIES, _object(CSV), _object(CRD)), deprecated=True)
    assert found == Contents(
        name="a.v1.0.0",
        package="a",
        version="1.0.0",
        install_modes=frozenset({"AllNamespaces"}),
        owned_api_services=1,
        owned_apis=("v1.x",),
        webhooks=2,
        conversion_webhooks=1,
        hooks=(
            Hook("ConversionWebhook", "c", "", ("as.a.example",)),
            Hook("MutatingAdmissionWebhook", "m", "a-manager"),
        ),
        deployments=("a-manager",),
        provides=frozenset({ApiKind("a.example", "v1", "A")}),
        requires=(ApiKind("b.example", "v1", "B"),),
        required_packages=(("b", ">1.0.0"),),
        required_labels=("gpu",),
        constraints=({"cel": {"rule": "true"}},),
        native_apis=(ApiKind("route.openshift.io", "v1", "Route"),),
        required_crds=(("bs.b.example", ApiKind("b.example", "v1", "B")),),
        owned_crds=("as.a.example",),
        min_kube_version="1.25.0",
        max_openshift_version="4.16",
        suggested_namespace="a-home",
        prohibited=True,
        deprecated=True,
        shipped=(
            Shipped(
                ApiKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "as.a.example"
            ),
        ),
        crd_versions=(("as.a.example", frozenset({"v1", "v1beta1"})),),
        crds_strict=(("as.a.example", frozenset({"v1"})),),
    )


def test_a_crd_that_a_webhook_converts_is_not_strict() -> None:
    versions = [{"name": "v1", "served": True}]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.a.example"},
        "spec": {"versions": versions, "conversion": {"strategy": "Webhook"}},
    }
    assert read_contents(_blob(_object(crd))).crds_strict == ()
    crd["spec"] = {"versions": versions, "conversion": {"strategy": "None"}}
    assert read_contents(_blob(_object(crd))).crds_strict == (("as.a.example", frozenset({"v1"})),)


def test_an_install_mode_that_is_told_twice_is_noticed() -> None:
    csv = json.loads(json.dumps(CSV))
    csv["spec"]["installModes"] += [{"type": "OwnNamespace", "supported": True}]
    assert read_contents(_blob(_object(csv))).repeated_install_modes == ("OwnNamespace",)


def test_what_webhooks_watch_is_read_but_for_conversion() -> None:
    rules = [{"apiGroups": ["a.example"], "resources": ["as"]}, {"apiGroups": ["*"]}]
    hooks = [
        {"type": "ValidatingAdmissionWebhook", "rules": rules},
        {"type": "ConversionWebhook", "rules": rules},
    ]
    csv = json.loads(json.dumps(CSV))
    csv["spec"]["webhookdefinitions"] = hooks
    found = read_contents(_blob(_object(csv)))
    assert found.webhook_rules == ((("a.example",), ("as",)), (("*",), ()))


def test_catalog_metadata_leaves_webhooks_and_objects_unknown() -> None:
    spec: dict[str, Any] = CSV["spec"]  # type: ignore[assignment]
    metadata = {
        "installModes": spec["installModes"],
        "crdDescriptions": spec["customresourcedefinitions"],
        "apiServiceDefinitions": spec["apiservicedefinitions"],
        "nativeAPIs": spec["nativeAPIs"],
        "minKubeVersion": "1.25.0",
        "annotations": {"operatorframework.io/suggested-namespace": "a-home"},
    }
    whole = read_contents(_blob(*PROPERTIES, _object(CSV)))
    found = read_contents(_blob(*PROPERTIES, {"type": "olm.csv.metadata", "value": metadata}))
    unknown: dict[str, Any] = dict.fromkeys(
        ("webhooks", "conversion_webhooks", "deployments", "shipped", "crd_versions", "crds_strict")
    )
    assert found == dataclasses.replace(whole, hooks=(), **unknown)


KEYS = st.sampled_from(
    ["type", "value", "data", "kind", "spec", "installModes", "supported", "owned", "name", "any"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
def test_properties_of_any_shape_are_read_and_judged(value: Any) -> None:
    properties = [
        {"type": each.get("type"), "value": value} if isinstance(each, dict) else each
        for each in PROPERTIES
    ]
    blob = json.dumps({"schema": "olm.bundle", "properties": [*properties, value]}).encode()
    contents = read_contents(blob)
    for path in InstallMethod:
        assert predict(contents, path, market=ClusterOffers()).path == path
