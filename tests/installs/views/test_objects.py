"""The page with the YAML of an object: requested by POST, read by a worker as the user."""

import json
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone

from installs import retention, tasks
from installs.models import ObjectYaml
from installs.reports import object_yaml
from olmweb.clusters import client_for
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_crd, make_operator
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
PAGE = "/objects/prod/PlatformOperator/-/etcd"
MANIFEST = {
    "apiVersion": "platform.openshift.io/v1alpha1",
    "kind": "PlatformOperator",
    "metadata": {
        "name": "etcd",
        "annotations": {"evil": "</pre><script>alert(1)</script>", "lines": "one\ntwo\n"},
    },
    "spec": {"package": {"name": "etcd"}},
}


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What would have gone to the broker."""
    mock = Mock()
    monkeypatch.setattr(object_yaml, "enqueue", mock)
    return mock


@pytest.fixture
def prod(db: None) -> Cluster:
    cluster = make_cluster(name="prod", context="sandbox")
    make_operator(cluster=cluster, name="etcd")
    return cluster


@pytest.fixture
def etcd(sandbox: Sandbox, prod: Cluster) -> Cluster:
    """The cluster, which has the operator."""
    with client_for(prod) as client:
        client.apply(PLATFORM_OPERATORS, "v1alpha1", MANIFEST)
    return prod


@pytest.fixture
def writer(client: Client, olivia: User) -> Client:
    client.force_login(olivia)
    return client


def fetch(client: Client, page: str = PAGE) -> ObjectYaml:
    """Requests the YAML and does the work of the worker."""
    response = client.post(page)
    assert (response.status_code, response["Location"]) == (303, page)
    row = ObjectYaml.objects.get()
    tasks.read_object(row.pk)
    return row


def read_at(client: Client, path: str = PAGE) -> str:
    return assert_page(client.get(path)).text


def test_an_object_is_read_as_the_user_and_its_yaml_shown(etcd: Cluster, writer: Client) -> None:
    assert "Fetch from prod" in read_at(writer)
    row = fetch(writer)
    row.refresh_from_db()
    document = yaml.safe_load(row.text)
    assert document["spec"] == MANIFEST["spec"]
    assert "managedFields" not in document["metadata"]
    assert "lines: |\n      one\n      two\n" in row.text
    response = writer.get(PAGE)
    assert "package:" in assert_page(response).text
    assert b"<script>alert" not in response.content
    assert "no-store" in response["Cache-Control"]


def test_a_get_sends_nothing_and_reads_nothing(
    prod: Cluster, writer: Client, sent: Mock, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(12):
        writer.get(PAGE)
    sent.assert_not_called()
    assert not ObjectYaml.objects.exists()


def test_the_page_follows_a_pending_request_and_gives_up(
    prod: Cluster, writer: Client, sent: Mock
) -> None:
    writer.post(PAGE)
    writer.post(PAGE)
    row = ObjectYaml.objects.get()
    sent.assert_called_once_with(object_yaml.TASK, row.pk)
    response = writer.get(PAGE)
    assert "Reading" in assert_page(response).text
    assert b'data-live="objects"' in response.content
    assert PAGE in assert_page(response).links, "without JavaScript the page has to be reloaded"
    fragment = assert_fragment(writer.get(f"{PAGE}?rev=x", headers={"HX-Request": "true"}))
    assert "Requested" in fragment.text
    ObjectYaml.objects.update(requested_at=timezone.now() - timedelta(minutes=1))
    assert "No worker has read the object" in read_at(writer)
    writer.post(PAGE)
    assert sent.call_count == 2


def test_a_refusal_of_the_cluster_is_one_sentence(
    etcd: Cluster, client: Client, tess: User
) -> None:
    tess.user_permissions.add(Permission.objects.get(codename="add_objectyaml"))
    client.force_login(tess)
    fetch(client)
    text = read_at(client)
    assert "Cluster prod does not let tess read PlatformOperator etcd." in text
    assert "package:" not in text


def test_an_object_that_is_gone_is_named(sandbox: Sandbox, prod: Cluster, writer: Client) -> None:
    fetch(writer)
    assert "Cluster prod has no PlatformOperator etcd any more." in read_at(writer)


def test_another_user_does_not_see_it(etcd: Cluster, writer: Client, alice: User) -> None:
    fetch(writer)
    writer.force_login(alice)
    text = read_at(writer)
    assert "package:" not in text
    assert "Fetch from prod" in text


def test_a_user_who_lost_the_role_sees_and_reads_it_no_more(
    etcd: Cluster, writer: Client, olivia: User
) -> None:
    row = fetch(writer)
    olivia.groups.clear()
    assert "package:" not in read_at(writer)
    ObjectYaml.objects.update(text="", finished_at=None)
    tasks.read_object(row.pk)
    row.refresh_from_db()
    assert row.text == ""
    assert "may not fetch YAML" in row.error_text


def test_a_viewer_reads_what_the_cluster_lets_them_read(
    etcd: Cluster, client: Client, bob: User
) -> None:
    client.force_login(bob)
    fetch(client)
    assert "package:" in read_at(client)


def test_a_viewer_reads_nothing_with_the_account_of_olm_web(
    etcd: Cluster, client: Client, bob: User, settings: Any
) -> None:
    client.force_login(bob)
    fetch(client)
    settings.WRITE_AS = "service-account"
    text = read_at(client)
    assert "package:" not in text
    assert "ask an administrator of OLM Web for the role operator" in text
    assert client.post(PAGE).status_code == 403
    ObjectYaml.objects.update(text="", finished_at=None)
    tasks.read_object(ObjectYaml.objects.get().pk)
    assert ObjectYaml.objects.get().text == ""


def test_an_account_without_a_role_and_a_visitor_are_told_who_may(
    client: Client, prod: Cluster, bob: User, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    assert "Sign in" in read_at(client)
    bob.groups.clear()
    client.force_login(bob)
    text = read_at(client)
    assert "Your role may not fetch YAML" in text
    assert "Fetch from" not in text
    assert client.post(PAGE).status_code == 403
    assert not ObjectYaml.objects.exists()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/objects/prod/Secret/default/token", 403),
        ("/objects/prod/Secret/-/etcd", 403),
        ("/objects/prod/ConfigMap/default/x", 404),
        ("/objects/prod/Pod/default/x", 404),
        ("/objects/prod/PlatformOperator/-/unknown", 404),
        ("/objects/prod/PlatformOperator/default/etcd", 404),
        ("/objects/other/PlatformOperator/-/etcd", 404),
        ("/objects/prod/Event/-/etcd", 404),
    ],
)
def test_secrets_and_objects_that_are_not_stored_are_refused(
    prod: Cluster, writer: Client, sent: Mock, path: str, status: int
) -> None:
    make_operator(cluster=prod, kind="Secret", name="etcd")
    make_operator(cluster=prod, kind="Event", name="etcd")
    assert writer.get(path).status_code == status
    assert writer.post(path).status_code == status
    sent.assert_not_called()
    assert not ObjectYaml.objects.exists()


def test_a_worker_reads_no_secret_either(
    prod: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Mock()
    monkeypatch.setattr(object_yaml, "client_for", connect)
    row = ObjectYaml.objects.create(
        user=olivia, cluster=prod, kind="Secret", namespace="default", name="token"
    )
    tasks.read_object(row.pk)
    row.refresh_from_db()
    assert row.error_text == "OLM Web never reads Secrets."
    connect.assert_not_called()


def test_the_data_of_secrets_inside_an_object_are_left_out() -> None:
    inner = {"kind": "Secret", "metadata": {"name": "a"}, "data": {"p": "eA=="}, "stringData": {}}
    text = object_yaml.to_yaml({"kind": "ClusterObjectSet", "spec": {"objects": [inner]}})
    assert yaml.safe_load(text)["spec"]["objects"] == [
        {"kind": "Secret", "metadata": {"name": "a"}}
    ]


def test_the_data_of_secrets_in_texts_of_json_are_left_out() -> None:
    secret = json.dumps({"kind": "Secret", "metadata": {"name": "a"}, "data": {"p": "eA=="}})
    deep = "[" * 900 + '"Secret"' + "]" * 900
    step = {"resource": {"kind": "Secret", "name": "a", "manifest": secret}}
    other = '{"kind": "Role", "rules": ["Secret"]}'
    document = {
        "metadata": {"annotations": {"last-applied-configuration": secret, "text": "{Secret"}},
        "status": {"plan": [step], "other": other, "deep": deep},
    }
    shown = yaml.safe_load(object_yaml.to_yaml(document))
    expected = {"kind": "Secret", "metadata": {"name": "a"}}
    assert json.loads(shown["status"]["plan"][0]["resource"]["manifest"]) == expected
    assert json.loads(shown["metadata"]["annotations"]["last-applied-configuration"]) == expected
    assert shown["metadata"]["annotations"]["text"] == "{Secret"
    assert shown["status"]["other"] == other
    assert shown["status"]["deep"] in ("", deep)


def test_what_is_too_long_for_a_page_is_refused(
    etcd: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_yaml, "LIMIT", 100)
    fetch(writer)
    text = read_at(writer)
    assert "more than is shown here" in text
    assert "package:" not in text


def test_it_is_shown_for_minutes_and_then_deleted(etcd: Cluster, writer: Client) -> None:
    fetch(writer)
    later = timezone.now() - object_yaml.SHOWN
    ObjectYaml.objects.update(requested_at=later)
    assert "package:" not in read_at(writer)
    assert retention.prune(timezone.now())["yaml"] == 1


def test_the_result_of_an_older_request_does_not_replace_a_newer_one(
    prod: Cluster, olivia: User
) -> None:
    row = ObjectYaml.objects.create(user=olivia, cluster=prod, kind="PlatformOperator", name="etcd")
    ObjectYaml.objects.update(requested_at=timezone.now() + timedelta(seconds=1))
    object_yaml.fail(row, "Late.", "")
    assert ObjectYaml.objects.get().finished_at is None


def test_a_defect_ends_the_request_with_a_sentence(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_yaml, "read_object", Mock(side_effect=ValueError("secret detail")))
    fetch(writer)
    text = read_at(writer)
    assert "PlatformOperator etcd could not be read (ValueError)." in text
    assert "secret detail" not in text


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "command"),
    [
        ("Subscription", "openshift-operators", "etcd",
         "kubectl get subscriptions.operators.coreos.com etcd -n openshift-operators -o yaml"),
        ("PlatformOperator", "", "$(reboot)",
         "kubectl get platformoperators.platform.openshift.io '$(reboot)' -o yaml"),
    ],
)  # fmt: skip
def test_the_kubectl_command_names_the_object(
    kind: str, namespace: str, name: str, command: str
) -> None:
    assert object_yaml.kubectl_command(kind, namespace, name) == command


def test_the_page_names_no_context_of_olm_web(prod: Cluster, writer: Client) -> None:
    Cluster.objects.update(context="admin@internal")
    text = read_at(writer)
    assert "kubectl get platformoperators.platform.openshift.io etcd -o yaml" in text
    assert "in a context of prod" in text
    assert "admin@internal" not in text


def test_the_version_is_one_that_the_cluster_serves() -> None:
    cluster = Cluster(name="prod", kinds={"BundleDeployment": {"version": "v1alpha1"}})
    resource = object_yaml.KINDS["BundleDeployment"]
    assert object_yaml._version(cluster, resource) == "v1alpha1"
    assert object_yaml._version(Cluster(name="prod"), resource) == "v1alpha2"


def test_pages_of_objects_lead_to_their_yaml(prod: Cluster, writer: Client) -> None:
    make_crd(cluster=prod, name="widgets.example.com")
    make_catalog(cluster=prod, source_kind="CatalogSource", namespace="olm", name="redhat")
    assert PAGE in assert_page(writer.get("/operators/prod/PlatformOperator/-/etcd")).links
    crd = "/objects/prod/CustomResourceDefinition/-/widgets.example.com"
    assert crd in assert_page(writer.get("/crds/")).links
    assert read_at(writer, crd)
    catalog = "/objects/prod/CatalogSource/olm/redhat"
    assert "kubectl get catalogsources.operators.coreos.com redhat -n olm" in read_at(
        writer, catalog
    )


def test_groups_are_impersonated_too(
    etcd: Cluster, writer: Client, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    olivia.groups.add(Group.objects.get_or_create(name="team-a")[0])
    get = Mock(return_value={"kind": "PlatformOperator", "metadata": {}})
    monkeypatch.setattr("olmweb.kube.client.KubeClient.get", get)
    fetch(writer)
    as_user = get.call_args.kwargs["as_user"]
    assert as_user.user == "olivia"
    assert as_user.groups == ("olmweb-operators", "team-a")


CONSOLE = "https://console.example.com"


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        ("Subscription", "olm", "etcd", "ns/olm/operators.coreos.com~v1alpha1~Subscription/etcd"),
        ("ClusterOperator", "", "dns", "cluster/config.openshift.io~v1~ClusterOperator/dns"),
        ("ClusterOperator", "", "a?b", "cluster/config.openshift.io~v1~ClusterOperator/a%3Fb"),
    ],
)  # fmt: skip
def test_the_console_link_leads_to_the_object(
    settings: Any, kind: str, namespace: str, name: str, path: str
) -> None:
    settings.CONSOLES = {"prod": CONSOLE}
    cluster = Cluster(name="prod")
    assert object_yaml.console_link(cluster, kind, namespace, name) == f"{CONSOLE}/k8s/{path}"
    assert object_yaml.console_link(cluster, "Secret", namespace, name) == ""
    assert object_yaml.console_link(Cluster(name="other"), kind, namespace, name) == ""
    reported = "https://reported.example.com"
    other = Cluster(name="other", console=reported)
    assert object_yaml.console_link(other, kind, namespace, name) == f"{reported}/k8s/{path}"
    cluster.console = reported
    assert object_yaml.console_link(cluster, kind, namespace, name) == f"{CONSOLE}/k8s/{path}"


def test_pages_of_objects_lead_to_the_console_where_its_address_is_set(
    prod: Cluster, writer: Client, settings: Any
) -> None:
    link = f"{CONSOLE}/k8s/cluster/platform.openshift.io~v1alpha1~PlatformOperator/etcd"
    for page in (PAGE, "/operators/prod/PlatformOperator/-/etcd"):
        settings.CONSOLES = {}
        assert link not in assert_page(writer.get(page)).links
        settings.CONSOLES = {"prod": CONSOLE}
        assert link in assert_page(writer.get(page)).links
