"""Manifests from form values, and the rules of names."""

from dataclasses import replace

import pytest
import yaml

from catalogs.install_methods import InstallMethod
from installs.methods import MANUAL, METHODS, InstallChoice, as_yaml

PO = InstallChoice(method=InstallMethod.PLATFORM_OPERATOR, package="etcd-operator", name="etcd")
EXTENSION = InstallChoice(
    method=InstallMethod.CLUSTER_EXTENSION,
    package="etcd",
    name="etcd",
    namespace="ns",
    catalog="operatorhubio",
)
SUB = InstallChoice(
    method=InstallMethod.SUBSCRIPTION,
    package="etcd",
    name="etcd",
    namespace="ns",
    catalog="redhat-operators",
    catalog_namespace="openshift-marketplace",
)
SA = "spec.serviceAccount.name"
SAFETY = "spec.install.preflight.crdUpgradeSafety.enforcement"


def problems_of(choice: InstallChoice) -> dict[str, str]:
    return METHODS[choice.method].problems(choice)


def kinds(choice: InstallChoice) -> list[str]:
    return [one["kind"] for one in METHODS[choice.method].objects(choice)]


def test_the_manifest_has_only_what_olm_web_means_to_own() -> None:
    (manifest,) = METHODS[InstallMethod.PLATFORM_OPERATOR].objects(PO)
    assert manifest == {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": "etcd"},
        "spec": {"package": {"name": "etcd-operator"}},
    }
    assert yaml.safe_load(as_yaml([manifest])) == manifest
    assert as_yaml([manifest]).startswith("apiVersion: ")


@pytest.mark.parametrize("name", ["a", "a.b-c", "3scale-operator", "x" * 53])
def test_sound_names_have_no_problem(name: str) -> None:
    assert problems_of(replace(PO, name=name)) == {}


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a_b", "a b", "a\n", "é", "x" * 54])
def test_a_wrong_name_has_one_sentence_at_its_field(name: str) -> None:
    found = problems_of(replace(PO, name=name))
    assert list(found) == ["name"]
    assert found["name"].endswith(".")


def test_a_name_too_long_for_helm_says_so() -> None:
    assert (
        "54 characters and may have 53: it is also the name of the Helm release"
        in (problems_of(replace(PO, name="x" * 54))["name"])
    )
    assert problems_of(replace(SUB, name="x" * 54)) == {}, "OLM v0 makes no Helm release"


def test_a_package_is_needed_and_at_most_56_characters_long() -> None:
    assert problems_of(replace(PO, package=""))["package"] == "Choose a package."
    assert "allows 56" in problems_of(replace(PO, package="p" * 57))["package"]
    assert problems_of(replace(PO, package="p" * 56)) == {}


def test_the_default_name_is_the_packages_own_cut_to_a_valid_one() -> None:
    assert METHODS[PO.method].default_name("etcd") == "etcd"
    cut = METHODS[PO.method].default_name("p" * 52 + "-" + "q" * 3)
    assert cut == "p" * 52
    assert problems_of(replace(PO, name=cut)) == {}


def test_fields_of_the_object_come_back_as_fields_of_the_form() -> None:
    assert METHODS[PO.method].form_field(".spec.package.name") == "package"
    assert METHODS[PO.method].form_field("metadata.name") == "name"
    assert METHODS[PO.method].form_field("spec.other") == "spec.other"
    assert METHODS[EXTENSION.method].form_field("spec.source.catalog.channels[0]") == "channel"
    assert METHODS[SUB.method].form_field("spec.installPlanApproval") == "approval"


def test_a_cluster_extension_comes_after_its_namespace() -> None:
    chosen = replace(EXTENSION, channel="stable", version=">=1.0.0", policy="SelfCertified")
    namespace, extension = METHODS[InstallMethod.CLUSTER_EXTENSION].objects(chosen)
    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    assert extension["spec"] == {
        "namespace": "ns",
        "source": {
            "sourceType": "Catalog",
            "catalog": {
                "packageName": "etcd",
                "selector": {
                    "matchLabels": {"olm.operatorframework.io/metadata.name": "operatorhubio"}
                },
                "channels": ["stable"],
                "version": ">=1.0.0",
                "upgradeConstraintPolicy": "SelfCertified",
            },
        },
    }
    assert kinds(replace(chosen, make_namespace=False)) == ["ClusterExtension"]


def test_only_fields_of_the_clusters_own_definition_are_written() -> None:
    wanted = replace(EXTENSION, service_account="installer", crd_safety="None", channel="stable")
    assert kinds(wanted) == ["Namespace", "ClusterExtension"], "ignored unless known to be read"
    old = replace(wanted, known_fields=frozenset({SA, "spec.namespace"}))
    assert kinds(old) == ["Namespace", "ServiceAccount", "ClusterExtension"]
    spec = METHODS[InstallMethod.CLUSTER_EXTENSION].objects(old)[-1]["spec"]
    assert spec["serviceAccount"] == {"name": "installer"}
    assert "install" not in spec
    assert spec["source"]["catalog"] == {"packageName": "etcd"}
    new = METHODS[InstallMethod.CLUSTER_EXTENSION].objects(
        replace(wanted, known_fields=frozenset({SAFETY}))
    )[-1]["spec"]
    assert new["install"] == {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}
    assert "service_account" not in METHODS[EXTENSION.method].offered(EXTENSION)
    assert "service_account" in METHODS[old.method].offered(old)


def test_a_service_account_is_asked_for_where_the_cluster_needs_one() -> None:
    assert problems_of(EXTENSION) == {}
    needs = replace(EXTENSION, known_fields=frozenset({SA}))
    assert list(problems_of(needs)) == ["service_account"]
    assert problems_of(replace(needs, service_account="installer")) == {}
    assert problems_of(replace(needs, required_fields=frozenset({"spec.namespace"}))) == {}
    required = replace(needs, required_fields=frozenset({"spec.serviceAccount"}))
    assert list(problems_of(required)) == ["service_account"]


def test_a_subscription_comes_after_its_namespace_and_operator_group() -> None:
    chosen = replace(SUB, channel="alpha", version="etcd.v1.0.0", approval=MANUAL, targets=("ns",))
    namespace, group, subscription = METHODS[InstallMethod.SUBSCRIPTION].objects(chosen)
    assert namespace["kind"] == "Namespace"
    assert group["metadata"] == {"name": "ns", "namespace": "ns"}
    assert group["spec"] == {"targetNamespaces": ["ns"]}
    assert subscription["metadata"] == {"name": "etcd", "namespace": "ns"}
    assert subscription["spec"] == {
        "name": "etcd",
        "source": "redhat-operators",
        "sourceNamespace": "openshift-marketplace",
        "channel": "alpha",
        "startingCSV": "etcd.v1.0.0",
        "installPlanApproval": "Manual",
    }
    assert kinds(replace(SUB, make_group=False, make_namespace=False)) == ["Subscription"]
    assert METHODS[InstallMethod.SUBSCRIPTION].objects(SUB)[1]["spec"] == {}, (
        "no target is all namespaces"
    )


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (replace(SUB, namespace=""), "namespace"),
        (replace(SUB, namespace="Big"), "namespace"),
        (replace(SUB, namespace="x" * 64), "namespace"),
        (replace(SUB, approval="Perhaps"), "approval"),
        (replace(SUB, catalog_namespace=""), "catalog"),
        (replace(SUB, targets=("ok", "not.ok")), "targets"),
        (replace(SUB, targets=("a",) * 51), "targets"),
        (replace(EXTENSION, version="not a range"), "version"),
        (replace(EXTENSION, version=">=1.0.0 " * 9), "version"),
        (replace(EXTENSION, policy="Whatever"), "policy"),
        (replace(EXTENSION, crd_safety="Maybe"), "crd_safety"),
        (replace(EXTENSION, service_account="Sa!"), "service_account"),
    ],
)
def test_every_wrong_value_has_its_sentence_at_its_field(choice: InstallChoice, field: str) -> None:
    found = problems_of(choice)
    assert list(found) == [field]
    assert found[field].endswith(".")


def test_several_manifests_are_documents_of_one_file() -> None:
    made = METHODS[InstallMethod.SUBSCRIPTION].objects(SUB)
    assert list(yaml.safe_load_all(as_yaml(made))) == made
