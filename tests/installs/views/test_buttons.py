"""Buttons that change a cluster say why they are off, by what the cluster said, with its age."""

import re
from typing import Any

import pytest
from django.test import Client

from installs.actions.buttons import Right, rights_of
from installs.models import AccessAnswer
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.installs.actions.test_permissions import keep, sent  # noqa: F401 - a fixture
from tests.worlds.html import assert_page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
PACKAGE = "/software/prod/redhat-operators/etcd"
OPERATOR = "/operators/prod/PlatformOperator/-/etcd"
SAID = re.compile(r"Cluster prod says no\. Checked \d+ s ago")


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def test_install_is_off_with_the_clusters_reason_and_its_age(writer: Client, olivia: Any) -> None:
    cluster = make_cluster()
    make_package(catalog=make_catalog(cluster=cluster))
    assert f"{PACKAGE}/install" in assert_page(writer.get(PACKAGE)).links, "not known yet"
    for right in rights_of("install", "PlatformOperator"):
        keep(olivia, cluster, right, allowed=False, age=5)
    page = assert_page(writer.get(PACKAGE))
    assert f"{PACKAGE}/install" not in page.links
    assert SAID.search(page.text)
    AccessAnswer.objects.update(allowed=True)
    assert f"{PACKAGE}/install" in assert_page(writer.get(PACKAGE)).links


def test_the_forms_of_one_and_of_several_say_what_the_cluster_said_of_their_path(
    writer: Client, olivia: Any
) -> None:
    cluster = make_cluster()
    make_package(catalog=make_catalog(cluster=cluster))
    forms = (f"{PACKAGE}/install", "/bulk-install/?package=prod/redhat-operators/etcd")
    for url in forms:
        assert "Cluster prod says no." not in assert_page(writer.get(url)).text
    for right in rights_of("install", "PlatformOperator"):
        keep(olivia, cluster, right, allowed=False, age=5)
    for url in forms:
        assert SAID.search(assert_page(writer.get(url)).text)
    AccessAnswer.objects.update(allowed=True)
    for url in forms:
        assert "Not allowed" not in assert_page(writer.get(url)).text


def test_an_operators_buttons_are_off_one_by_one(
    writer: Client, client: Client, olivia: Any, bob: Any
) -> None:
    cluster = make_cluster()
    make_operator(cluster=cluster, name="etcd", health="Failed")
    page = assert_page(writer.get(OPERATOR))
    assert {f"{OPERATOR}/remove", f"{OPERATOR}/retry"} <= set(page.links)
    keep(olivia, cluster, Right("PlatformOperator", "delete"), allowed=False)
    keep(olivia, cluster, Right("PlatformOperator", "patch"), allowed=True)
    page = assert_page(writer.get(OPERATOR))
    assert f"{OPERATOR}/retry" in page.links
    assert f"{OPERATOR}/remove" not in page.links
    assert "Cluster prod says no." in page.text
    client.force_login(bob)
    assert "Cluster prod says no." not in assert_page(client.get(OPERATOR)).text


@pytest.mark.parametrize(
    ("fields", "primary"),
    [
        ({"health": "Failed"}, "Retry"),
        ({"health": "Failed", "finding": "allnamespaces-required"}, ""),
        ({"health": "Healthy", "kind": "ClusterExtension", "version": "1.0.0"}, ""),
        ({"health": "Healthy", "kind": "ClusterExtension", "version": "1.0.0", "upgrade": "1.1.0"},
         "Upgrade"),
    ],
)  # fmt: skip
def test_an_operator_has_one_primary_action_and_the_others_in_a_menu(
    writer: Client, fields: dict[str, Any], primary: str
) -> None:
    cluster = make_cluster()
    kind = fields.get("kind", "PlatformOperator")
    make_operator(cluster=cluster, name="etcd", **fields)
    response = writer.get(f"/operators/prod/{kind}/-/etcd")
    assert_page(response)
    head = " ".join(response.content.decode().split()).partition('class="olm-head-actions"')[2]
    button, _, menu = head.partition('<details class="olm-menu olm-actions"')
    words = re.findall(r'pf-m-primary".*?__text">(\w+)<', button)
    assert words == ([primary] if primary else [])
    assert "pf-m-secondary" not in button
    menu = menu.partition("</details>")[0]
    assert ">YAML</a>" in menu
    assert ">Remove</a>" in menu
    assert not primary or f">{primary}</a>" not in menu
