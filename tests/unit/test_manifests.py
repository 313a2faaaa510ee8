"""Manifests from form values, and the rules of names."""

import pytest
import yaml

from installs.manifests import as_yaml, default_name, form_field, platform_operator, problems


def test_the_manifest_has_only_what_olm_web_means_to_own() -> None:
    manifest = platform_operator("etcd", "etcd-operator")
    assert manifest == {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": "etcd"},
        "spec": {"package": {"name": "etcd-operator"}},
    }
    assert yaml.safe_load(as_yaml(manifest)) == manifest
    assert as_yaml(manifest).startswith("apiVersion: ")


@pytest.mark.parametrize("name", ["a", "a.b-c", "3scale-operator", "x" * 53])
def test_sound_names_have_no_problem(name: str) -> None:
    assert problems(name, "package") == {}


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a_b", "a b", "a\n", "é", "x" * 54])
def test_a_wrong_name_has_one_sentence_at_its_field(name: str) -> None:
    found = problems(name, "package")
    assert list(found) == ["name"]
    assert found["name"].endswith(".")


def test_a_name_too_long_for_helm_says_so() -> None:
    assert (
        "54 characters and may have 53: it is also the name of the Helm release"
        in (problems("x" * 54, "package")["name"])
    )


def test_a_package_is_needed_and_at_most_56_characters_long() -> None:
    assert problems("a", "")["package"] == "Choose a package."
    assert "allows 56" in problems("a", "p" * 57)["package"]
    assert problems("a", "p" * 56) == {}


def test_the_default_name_is_the_packages_own_cut_to_a_valid_one() -> None:
    assert default_name("etcd") == "etcd"
    cut = default_name("p" * 52 + "-" + "q" * 3)
    assert cut == "p" * 52
    assert problems(cut, "package") == {}


def test_fields_of_the_object_come_back_as_fields_of_the_form() -> None:
    assert form_field(".spec.package.name") == "package"
    assert form_field("metadata.name") == "name"
    assert form_field("spec.other") == "spec.other"
