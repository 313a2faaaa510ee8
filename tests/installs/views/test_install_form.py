"""The install form keeps what was chosen, and begins with a method that can work."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.graph.routes import upgrades_sentence
from catalogs.models import Bundle, BundleGVK, Catalog, Package
from installs.actions import record
from installs.actions.objects import DryRun
from installs.models import Action, ClusterInventory, Operator
from olmweb.models import NOT_CONFIGURED, Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_crd,
    make_operator,
    make_package,
    make_prediction,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
KINDS = {
    kind: {"state": "served", "version": version}
    for kind, version in (
        ("PlatformOperator", "v1alpha1"),
        ("ClusterExtension", "v1"),
        ("Subscription", "v1alpha1"),
    )
}
PACKAGE = "/software/prod/redhat-operators/etcd"
INSTALL = f"{PACKAGE}/install"
CHANNELS = {"stable": ("1.0.0", "1.1.0"), "v2": ("2.0.0", "2.1.0")}


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(kinds=KINDS)


@pytest.fixture
def package(prod: Cluster) -> Package:
    """Of a ClusterCatalog with a CatalogSource of the same name: every method can install it."""
    catalog = make_catalog(cluster=prod, source_kind=Catalog.SourceKind.CLUSTER_CATALOG)
    make_component(
        cluster=prod, kind="CatalogSource", name=catalog.name, namespace="openshift-marketplace"
    )
    suggested = {"1.1.0": {"suggested_namespace": "etcd-system"}}
    return make_package(catalog=catalog, channels=CHANNELS, bundles=suggested)


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def verdict(rule: str, path: str, **fields: Any) -> None:
    make_prediction(bundle=Bundle.objects.get(name="etcd.v1.1.0"), rule=rule, path=path, **fields)


def hidden(content: str, name: str, value: str) -> bool:
    return f'<input type="hidden" name="{name}" value="{value}">' in content


# -- without the role ------------------------------------------------------------------------------


def test_a_viewer_who_opens_the_form_is_led_to_a_request(
    package: Package, client: Client, bob: User
) -> None:
    client.force_login(bob)
    response = client.get(f"{INSTALL}?path=ClusterExtension&version=1.0.0")
    page = assert_page(response, 403)
    assert "ask an administrator of OLM Web for the role operator" in page.text
    assert f"{PACKAGE}/request?path=ClusterExtension&version=1.0.0" in page.links
    assert "manifests" not in page.ids, "no form that could not be sent"
    assert (
        f"{PACKAGE}/request?path=Subscription"
        in assert_page(client.post(INSTALL, {"path": "Subscription"}), 403).links
    )


def test_an_account_without_a_role_is_told_the_role_and_offered_no_request(
    package: Package, client: Client
) -> None:
    client.force_login(User.objects.create_user("nobody", password="x"))
    for address, status in ((INSTALL, 403), (PACKAGE, 200)):
        page = assert_page(client.get(address), status)
        assert "ask an administrator of OLM Web for the role operator" in page.text
        assert "Request installation" not in page.text


# -- from the package page -------------------------------------------------------------------------


def test_install_and_export_take_the_channel_and_version_of_the_package_page(
    writer: Client, package: Package
) -> None:
    page = assert_page(writer.get(PACKAGE, {"channel": "v2", "version": "2.0.0"}))
    assert f"{INSTALL}?channel=v2&version=2.0.0" in page.links
    assert f"{PACKAGE}/export?channel=v2&version=2.0.0" in page.links


def test_the_newest_version_of_a_chosen_channel_is_no_pin(writer: Client, package: Package) -> None:
    page = assert_page(writer.get(PACKAGE, {"channel": "v2", "version": "2.1.0"}))
    assert f"{INSTALL}?channel=v2" in page.links


def test_the_form_says_that_its_catalog_is_of_an_earlier_time(
    writer: Client, package: Package, settings: Any
) -> None:
    settings.EMBEDDED = False
    url = f"/software/{package.catalog}/{package.name}/install"
    assert "Shown as of" not in assert_page(writer.get(url)).text
    Catalog.objects.update(synced_at=timezone.now() - timedelta(hours=5), base_url="https://x.svc")
    text = assert_page(writer.get(url)).text
    assert "stale. Shown as of 5 h ago ." in text
    assert "Check that beat and a worker of the queue sync run" in text


def test_the_form_says_that_the_cluster_of_its_catalog_is_removed(
    writer: Client, package: Package
) -> None:
    Cluster.objects.update(error_code=NOT_CONFIGURED, error_text="Not named.")
    for url in (PACKAGE, f"{PACKAGE}/install"):
        text = assert_page(writer.get(url)).text
        assert "Not named. What is shown is its last state" in text, url
        assert "cluster removed" not in text, url


def test_nothing_chosen_leaves_the_choice_to_the_form(writer: Client, package: Package) -> None:
    page = assert_page(writer.get(PACKAGE))
    assert INSTALL in page.links
    assert f"{PACKAGE}/export" in page.links


def test_a_request_begins_with_the_version_of_the_package_page(
    client: Client, bob: Any, package: Package
) -> None:
    client.force_login(bob)
    page = assert_page(client.get(PACKAGE, {"channel": "v2", "version": "2.0.0"}))
    assert f"{PACKAGE}/request?version=2.0.0" in page.links


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("Subscription", "startingCSV: etcd.v2.0.0"),
        ("ClusterExtension", "version: 2.0.0"),
    ],
)
@pytest.mark.parametrize("version", ["2.0.0", "etcd.v2.0.0"])
def test_a_version_by_number_or_bundle_is_named_as_the_method_names_it(
    writer: Client, package: Package, path: str, line: str, version: str
) -> None:
    plan = writer.get(INSTALL, {"path": path, "channel": "v2", "version": version}).context["plan"]
    assert line in plan.yaml
    assert plan.target == "etcd.v2.0.0"


def test_a_chosen_version_of_a_subscription_stays_unless_automatic_approval_is_chosen(
    writer: Client, package: Package
) -> None:
    chosen = {"path": "Subscription", "channel": "v2", "version": "2.0.0"}
    response = writer.get(INSTALL, chosen)
    assert response.context["plan"].choice.approval == "Manual"
    needed = "The installation and each update need approval; until then no Subscription of the "
    assert needed in response.content.decode(), "beside the choice"
    assert needed in " ".join(response.context["plan"].consequences), "in the review"
    chosen["approval"] = "Automatic"
    assert writer.get(INSTALL, chosen).context["plan"].choice.approval == "Automatic"


def test_the_form_names_the_upgrades_that_follow_the_chosen_version(
    writer: Client, package: Package
) -> None:
    channels = {"v1": ["0.6.1", "1.0.0", "1.1.0"]}
    make_package(catalog=package.catalog, name="policy", channels=channels)
    form = INSTALL.replace("/etcd/", "/policy/")
    chosen = {"path": "Subscription", "version": "0.6.1"}
    sentence = "Upgrades from 0.6.1: 1.0.0, then 1.1.0."
    assert sentence in assert_page(writer.get(form, chosen)).text
    assert "Upgrades from" not in assert_page(writer.get(form, {"path": "Subscription"})).text
    assert "Upgrades from" not in assert_page(writer.get(form, chosen | {"version": "1.1.0"})).text
    versions = [f"1.{minor}.0" for minor in range(9)]
    assert upgrades_sentence(versions, {}) == (
        "Upgrades from 1.0.0: 1.1.0, then 1.2.0, then 1.3.0, then 1.4.0, then 1.5.0, then 2 more "
        "up to 1.8.0."
    )


def test_the_form_warns_where_automatic_approval_leads_from_an_older_version(
    writer: Client, package: Package
) -> None:
    channels = {"v1": ["0.6.1", "1.0.0", "1.1.0"]}
    make_package(catalog=package.catalog, name="policy", channels=channels)
    form = INSTALL.replace("/etcd/", "/policy/")
    chosen = {"path": "Subscription", "version": "0.6.1", "approval": "Automatic"}
    warning = "OLM upgrades policy.v0.6.1 to 1.1.0 automatically, right after the installation"
    text = assert_page(writer.get(form, chosen)).text
    assert warning in text
    assert "To stay at the starting version, choose Manual." in text
    assert text.index(warning) < text.index("Export instead")
    for quiet in ({"approval": "Manual"}, {"version": "1.1.0"}, {"version": ""}):
        assert "OLM upgrades policy" not in assert_page(writer.get(form, chosen | quiet)).text, (
            quiet
        )


def test_export_instead_takes_everything_that_the_form_says(
    writer: Client, package: Package
) -> None:
    values = {"path": "Subscription", "channel": "v2", "version": "2.0.0", "namespace": "team-a"}
    values |= {"targets": "own", "approval": "Automatic"}
    installed = writer.get(INSTALL, values)
    exported = writer.get(installed.context["export_url"])
    assert exported.status_code == 200
    assert list(exported.context["export"].manifests) == installed.context["plan"].manifests


# -- the method it begins with ---------------------------------------------------------------------


def test_the_form_begins_with_the_first_method_that_can_work(
    writer: Client, package: Package
) -> None:
    verdict("po-install-mode", "PlatformOperator")
    verdict("ce-webhook", "ClusterExtension", verdict="unknown")
    verdict("", "Subscription")
    assert writer.get(INSTALL).context["path"] == "Subscription"


def test_the_form_begins_with_a_method_without_a_warning(writer: Client, package: Package) -> None:
    bundle = package.bundles.get(version="1.1.0")
    make_prediction(bundle=bundle, path="PlatformOperator", sentence="It may not work.")
    verdict("ce-webhook", "ClusterExtension", verdict="unknown")
    make_prediction(bundle=bundle, path="Subscription")
    context = writer.get(INSTALL).context
    assert context["paths"] == ["Subscription", "PlatformOperator", "ClusterExtension"]
    assert context["path"] == "Subscription"


def test_methods_that_can_work_come_first_whatever_is_chosen(
    writer: Client, package: Package
) -> None:
    verdict("po-install-mode", "PlatformOperator")
    verdict("ce-webhook", "ClusterExtension", verdict="unknown")
    verdict("", "Subscription")
    for chosen in ({}, {"path": "PlatformOperator"}, {"channel": "v2", "version": "2.0.0"}):
        context = writer.get(INSTALL, chosen).context
        assert context["paths"] == ["Subscription", "ClusterExtension", "PlatformOperator"], chosen
        marked = [option.value for option in context["path_options"] if option.hint]
        assert marked == ([] if "version" in chosen else ["PlatformOperator"]), chosen


def test_the_form_has_the_breadcrumbs_of_the_package(writer: Client, package: Package) -> None:
    page = assert_page(writer.get(INSTALL))
    assert "Software catalog redhat-operators etcd Install" in page.text
    assert {"/software/", "/catalogs/prod/redhat-operators", PACKAGE} <= set(page.links)


def test_before_the_first_evaluation_the_form_begins_with_the_first_method(
    writer: Client, package: Package
) -> None:
    assert writer.get(INSTALL).context["path"] == "PlatformOperator"


def test_the_form_begins_with_a_method_that_installs_the_version_of_the_package_page(
    writer: Client, package: Package
) -> None:
    shown, highest = (Bundle.objects.get(name=f"etcd.v{version}") for version in ("1.1.0", "2.1.0"))
    assert package.head_version == shown.version
    make_prediction(bundle=highest, path="PlatformOperator", chosen=True)
    make_prediction(bundle=highest, path="ClusterExtension", chosen=True)
    make_prediction(bundle=shown, path="Subscription", chosen=True)
    assert writer.get(INSTALL).context["path"] == "Subscription"


def test_a_chosen_version_begins_with_a_method_that_can_take_it(
    writer: Client, package: Package
) -> None:
    context = writer.get(INSTALL, {"channel": "v2", "version": "2.0.0"}).context
    assert context["path"] == "ClusterExtension"
    assert context["plan"].target == "etcd.v2.0.0"


def test_a_request_begins_with_a_method_that_can_work(
    client: Client, bob: Any, package: Package
) -> None:
    verdict("po-install-mode", "PlatformOperator")
    verdict("", "Subscription")
    client.force_login(bob)
    assert client.get(f"{PACKAGE}/request").context["chosen"]["path"] == "Subscription"


def test_packages_that_olm_installs_too_are_named_with_their_catalog(
    writer: Client, prod: Cluster, package: Package, django_assert_max_num_queries: Any
) -> None:
    query = {"path": "Subscription", "namespace": "team-a"}
    for _ in range(2):  # the first form also finds out what the database can do
        with CaptureQueriesContext(connection) as queries:
            assert "Dependencies of" not in assert_page(writer.get(INSTALL, query)).text
    bundle = Bundle.objects.get(name="etcd.v1.1.0")
    bundle.required_packages = [{"name": "store", "range": ">=2.0.0"}]
    bundle.save()
    for group in ("store.example", "gone.example"):
        BundleGVK.objects.create(
            bundle=bundle, group=group, version="v1", kind="Bucket", required=True
        )
    provided = {"2.1.0": {"provides": [("store.example", "v1", "Bucket")]}}
    for name, namespace, priority in (
        ("old", "openshift-marketplace", 9),
        ("next", "openshift-marketplace", 1),
        ("foreign", "team-b", 10),
    ):
        catalog = make_catalog(
            cluster=prod, name=name, slug=name, namespace=namespace, priority=priority,
            source_kind="CatalogSource",
        )  # fmt: skip
        make_component(cluster=prod, kind="CatalogSource", name=name, namespace=namespace)
        version = "1.0.0" if name == "old" else "2.1.0"
        facts = {} if name == "old" else provided
        make_package(catalog=catalog, name="store", channels={"stable": (version,)}, bundles=facts)
    with django_assert_max_num_queries(len(queries) + 3):
        page = assert_page(writer.get(INSTALL, query))
    also = "OLM also installs store from catalog openshift-marketplace/next"
    assert f"Package store >=2.0.0: {also}" in page.text
    assert page.text.count(also) == 2
    assert "no catalog that the namespace can use offers it" in page.text
    extension = writer.get(INSTALL, {**query, "path": "ClusterExtension"})
    assert "Dependencies of" not in assert_page(extension).text
    store = make_operator(cluster=prod, kind="Subscription", namespace="team-a", name="store")
    page = assert_page(writer.get(INSTALL, query))
    unless = "is installed in the namespace; OLM installs nothing unless it can upgrade it"
    assert f"Package store >=2.0.0: store 1.0.0 {unless}" in page.text
    assert "(store.example/v1): store is installed in the namespace" in page.text
    assert also not in page.text
    Package.objects.filter(name="store").delete()
    for version in ("2.3.0", ""):  # empty: the Subscription is new
        Operator.objects.filter(pk=store.pk).update(version=version)
        page = assert_page(writer.get(INSTALL, query))
        assert "Package store >=2.0.0: store is installed in the namespace" in page.text


def test_dependencies_are_of_the_catalogs_that_the_namespace_can_use(
    writer: Client, prod: Cluster, package: Package
) -> None:
    bundle = Bundle.objects.get(name="etcd.v1.1.0")
    BundleGVK.objects.create(bundle=bundle, group="s.io", version="v1", kind="Store", required=True)
    catalog = make_catalog(cluster=prod, name="many", namespace="olm", source_kind="CatalogSource")
    make_component(cluster=prod, kind="CatalogSource", name="many", namespace="olm")
    provided = {"1.0.0": {"provides": [("s.io", "v1", "Store")]}}
    for name in "abcde":
        make_package(catalog=catalog, name=name, channels={"x": ("1.0.0",)}, bundles=provided)
    query = {"path": "Subscription", "namespace": "team-a"}
    page = assert_page(writer.get(INSTALL, query))
    assert "OLM also installs a or b or c or one of 2 more from catalog olm/many" in page.text
    make_component(
        cluster=prod, kind="OperatorGroup", name="own", namespace="team-a",
        details={"own_catalogs_only": True},
    )  # fmt: skip
    page = assert_page(writer.get(INSTALL, query))
    assert "no catalog that the namespace can use offers it" in page.text


def test_dependencies_in_constraints_and_from_a_catalog_of_no_cluster_are_named(
    writer: Client, prod: Cluster
) -> None:
    catalog = make_catalog(name="mirror")
    make_component(cluster=prod, kind="CatalogSource", name="mirror", namespace="olm")
    required = {"packageName": "store", "versionRange": ">=2.0.0"}
    constraint = {"all": {"constraints": [{"package": required}, {"cel": {"rule": "true"}}]}}
    properties = [{"type": "olm.constraint", "value": constraint}]
    blob = {"schema": "olm.bundle", "name": "shop.v1.0.0", "package": "shop"}
    facts = {"blob": json.dumps({**blob, "properties": properties}).encode(), "constraint_count": 1}
    channels = {"stable": ("1.0.0",)}
    make_package(name="shop", catalog=catalog, channels=channels, bundles={"1.0.0": facts})
    make_package(catalog=catalog, name="store", channels={"stable": ("2.1.0",)})
    response = writer.get(
        "/software/-/mirror/shop/install",
        {"cluster": "prod", "path": "Subscription", "namespace": "team-a"},
    )
    also = "Package store >=2.0.0: OLM also installs store from catalog olm/mirror"
    assert also in assert_page(response).text


@pytest.mark.parametrize("path", ["", "PlatformOperator", "ClusterExtension", "Subscription"])
@pytest.mark.parametrize("chosen", [{}, {"channel": "stable", "version": "1.0.0"}])
def test_the_form_costs_twelve_queries_at_most(
    writer: Client,
    prod: Cluster,
    package: Package,
    django_assert_max_num_queries: Any,
    path: str,
    chosen: dict[str, str],
) -> None:
    """Session, account, permissions with groups, clusters and rights are five of them."""
    ClusterInventory.objects.create(cluster=prod, namespaces=["default", "team-a"])
    for bundle in package.bundles.all():
        head, newest = bundle.name == "etcd.v1.1.0", bundle.name == "etcd.v2.1.0"
        make_prediction(bundle=bundle, path="PlatformOperator", chosen=newest)
        make_prediction(bundle=bundle, path="ClusterExtension", chosen=newest)
        for target in ("all", "own"):
            make_prediction(bundle=bundle, path="Subscription", target=target, chosen=head)
    writer.get(INSTALL)  # the first form also finds out what the database can do
    with django_assert_max_num_queries(12):
        response = writer.get(INSTALL, {"path": path, **chosen})
    assert response.context["plan"].verdict is not None


# -- editing ---------------------------------------------------------------------------------------


def test_switching_the_method_keeps_what_was_typed(writer: Client, package: Package) -> None:
    values = {"step": "edit", "namespace": "team-a", "channel": "v2", "version": "etcd.v2.0.0"}
    values |= {"approval": "Manual", "targets": "own"}
    shown = writer.post(INSTALL, {**values, "path": "PlatformOperator"})
    content = shown.content.decode()
    for name in ("namespace", "channel", "version", "approval", "targets"):
        assert hidden(content, name, values[name]), name
    extension = writer.post(INSTALL, {**values, "path": "ClusterExtension"})
    assert "namespace: team-a" in extension.context["plan"].yaml
    assert "version: 2.0.0" in extension.context["plan"].yaml
    assert hidden(extension.content.decode(), "approval", "Manual")


def test_a_suggested_namespace_gives_way_to_that_of_the_next_method(
    writer: Client, prod: Cluster, package: Package
) -> None:
    make_component(
        cluster=prod,
        kind="OperatorGroup",
        name="global",
        namespace="operators",
        details={"namespaces": [""]},
    )
    shown = writer.get(INSTALL, {"path": "Subscription"})
    assert 'value="operators"' in shown.content.decode()
    assert hidden(shown.content.decode(), "suggested", "operators")
    values = {"step": "edit", "namespace": "operators", "suggested": "operators"}
    switched = writer.post(INSTALL, {**values, "path": "ClusterExtension"})
    assert switched.context["plan"].choice.namespace == "etcd-system"


def test_an_edited_form_shows_its_manifests_without_asking_the_cluster(
    writer: Client, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: pytest.fail("the cluster was asked"))
    values = {"path": "Subscription", "namespace": "team-b", "step": "edit"}
    response = writer.post(INSTALL, values, headers={"HX-Request": "true"})
    content = response.content.decode()
    assert response.status_code == 200
    assert "namespace: team-b" in content
    assert 'value="confirm"' not in content
    assert 'value="review"' in content


def test_an_error_in_an_edited_form_is_at_its_field_and_leaves_the_focus(
    writer: Client, package: Package
) -> None:
    values = {"path": "Subscription", "namespace": "Team_B", "step": "edit"}
    response = writer.post(INSTALL, values)
    content = response.content.decode()
    assert response.status_code == 200
    assert 'id="field-namespace-error"' in content
    assert "data-focus" not in content


def test_what_changed_after_the_review_is_shown_for_another_review(
    writer: Client, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(ok=True, message=""))
    values = {"path": "Subscription", "namespace": "team-a"}
    reviewed = writer.post(INSTALL, {**values, "step": "review"}).context["reviewed"]
    values |= {"namespace": "team-b", "reviewed": reviewed, "step": "confirm"}
    response = writer.post(INSTALL, values)
    page = assert_page(response, 422)
    assert "Form changed, nothing applied. Review again." in page.text
    assert "namespace: team-b" in page.text
    assert 'value="confirm"' not in response.content.decode()
    assert not Action.objects.exists()


# -- the starting version --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"version": "etcd.v9.9.9"},
            "Package etcd of catalog redhat-operators has no bundle etcd.v9.9.9.",
        ),
        (
            {"version": "etcd.v2.0.0", "channel": "stable"},
            "Channel stable does not contain etcd.v2.0.0; it is in channel v2.",
        ),
        (
            {"version": "2.0.0"},
            "Channel stable does not contain etcd.v2.0.0; it is in channel v2.",
        ),
    ],
)
def test_a_starting_version_that_the_channel_does_not_have_is_refused_before_the_dry_run(
    writer: Client,
    package: Package,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, str],
    sentence: str,
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: pytest.fail("the cluster was asked"))
    values = {"path": "Subscription", "namespace": "team-a", "step": "review", **values}
    response = writer.post(INSTALL, values)
    assert sentence in assert_page(response, 422).text
    assert 'id="field-version-error"' in response.content.decode()
    assert response.context["name"] == "etcd"


def test_a_starting_version_is_not_described_as_the_head_of_the_channel(
    writer: Client, package: Package
) -> None:
    head = "etcd.v1.1.0: the head of channel stable."
    form = {"path": "Subscription", "channel": "stable"}
    assert head in assert_page(writer.get(INSTALL, form)).text
    older = assert_page(writer.get(INSTALL, form | {"version": "etcd.v1.0.0"})).text
    assert "Starts at the chosen version." in older
    assert head not in older


def test_the_starting_versions_are_those_of_the_channel(writer: Client, package: Package) -> None:
    context = writer.get(INSTALL, {"path": "Subscription", "channel": "v2"}).context
    assert context["versions"] == [("etcd.v2.1.0", "2.1.0"), ("etcd.v2.0.0", "2.0.0")]
    context = writer.get(INSTALL, {"path": "Subscription"}).context
    assert [name for name, _ in context["versions"]] == ["etcd.v1.1.0", "etcd.v1.0.0"]


def test_the_installation_mode_is_a_field_of_the_operatorgroup(
    writer: Client, prod: Cluster, package: Package
) -> None:
    """Also on a cluster whose definition of Subscriptions is known: it has no such field."""
    make_crd(
        cluster=prod,
        name="subscriptions.operators.coreos.com",
        details={"fields": {"v1alpha1": ["spec.channel", "spec.startingCSV", "spec.name"]}},
    )
    content = writer.get(INSTALL, {"path": "Subscription"}).content.decode()
    assert 'name="targets"' in content
    make_component(cluster=prod, kind="OperatorGroup", name="og", namespace="etcd-system")
    content = writer.get(INSTALL, {"path": "Subscription"}).content.decode()
    assert 'name="targets"' not in content, "the group that is there decides"


# -- the fields ------------------------------------------------------------------------------------


def radios(response: Any, name: str) -> dict[str, str]:
    """Value of each radio button -> checked, disabled, or nothing."""
    tags = re.findall(rf'<input type="radio"[^>]*name="{name}"[^>]*>', response.content.decode())
    return {
        re.findall(r'value="([^"]*)"', tag)[0]: " ".join(re.findall(r"\b(checked|disabled)\b", tag))
        for tag in tags
    }


def test_the_namespaces_of_the_cluster_are_suggested_and_another_one_is_created(
    writer: Client, prod: Cluster, package: Package
) -> None:
    names = ["kube-system", "default", "team-a"]
    ClusterInventory.objects.create(cluster=prod, namespaces=names)
    make_operator(cluster=prod, kind="Subscription", namespace="team-b", name="other")
    shown = writer.get(INSTALL, {"path": "Subscription", "namespace": "team-a"})
    content = shown.content.decode()
    suggested = re.findall(r'<option value="([^"]*)"></option>', content)
    assert suggested == ["default", "team-a", "team-b", "kube-system", "openshift-marketplace"]
    assert "Exists on cluster prod." in content
    assert "kind: Namespace" not in shown.context["plan"].yaml
    shown = writer.get(INSTALL, {"path": "Subscription", "namespace": "team-c"})
    assert "Not on cluster prod yet; it is created." in shown.content.decode()
    assert "kind: Namespace" in shown.context["plan"].yaml


@pytest.mark.parametrize(
    ("values", "mode", "targets"),
    [
        ({"targets": "all"}, "all", ()),
        ({"targets": "own"}, "own", ("team-a",)),
        ({"targets": "x,y"}, "selected", ("x", "y")),
        ({"mode": "all", "targets": "x,y"}, "all", ()),
        ({"mode": "own", "targets": ""}, "own", ("team-a",)),
        ({"mode": "selected", "targets": "x, y"}, "selected", ("x", "y")),
    ],
)
def test_the_installation_mode_is_read_from_the_radio_buttons_and_from_targets_alone(
    writer: Client, package: Package, values: dict[str, str], mode: str, targets: tuple[str, ...]
) -> None:
    Bundle.objects.update(install_modes_known=False)
    values = {"path": "Subscription", "namespace": "team-a", "step": "edit", **values}
    shown = writer.post(INSTALL, values)
    assert shown.context["plan"].choice.targets == targets
    assert {value: state for value, state in radios(shown, "mode").items() if state} == {
        mode: "checked"
    }


def test_selected_namespaces_without_a_name_are_refused_at_their_field(
    writer: Client, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: pytest.fail("the cluster was asked"))
    values = {"path": "Subscription", "namespace": "team-a", "mode": "selected", "targets": " , "}
    response = writer.post(INSTALL, {**values, "step": "review"})
    assert response.status_code == 422
    assert 'id="field-targets-error"' in response.content.decode()
    assert radios(response, "mode")["selected"] == "checked"


def test_installation_modes_that_the_bundle_lacks_are_disabled_with_the_reason(
    writer: Client, package: Package
) -> None:
    modes = {"install_modes": ["OwnNamespace"], "install_modes_known": True}
    Bundle.objects.filter(name="etcd.v1.1.0").update(**modes)
    values = {"path": "Subscription", "namespace": "team-a", "targets": "own"}
    shown = writer.get(INSTALL, values)
    assert radios(shown, "mode") == {"all": "disabled", "own": "checked", "selected": "disabled"}
    text = assert_page(shown).text
    assert "etcd.v1.1.0 does not support AllNamespaces." in text
    assert "etcd.v1.1.0 does not support SingleNamespace or MultiNamespace." in text
    # The chosen one stays enabled, else the form would send another without a word.
    shown = writer.get(INSTALL, values | {"targets": "all"})
    assert radios(shown, "mode")["all"] == "checked"


@pytest.mark.parametrize(
    ("values", "mode", "targets"),
    [
        ({"namespace": "team-x", "mode": "all", "suggested_mode": "all"}, "own", ("team-x",)),
        ({"namespace": "team-x"}, "own", ("team-x",)),
        ({"namespace": "team-x", "mode": "all", "suggested_mode": "own"}, "all", ()),
        ({"namespace": "team-x", "mode": "all"}, "all", ()),
        ({"namespace": "etcd-system", "mode": "all", "suggested_mode": "all"}, "all", ()),
        ({"mode": "own", "suggested_mode": "own"}, "all", ()),
    ],
)
def test_an_entered_namespace_is_watched_alone_until_a_mode_is_chosen(
    writer: Client, package: Package, values: dict[str, str], mode: str, targets: tuple[str, ...]
) -> None:
    Bundle.objects.update(install_modes=["AllNamespaces", "OwnNamespace"], install_modes_known=True)
    shown = writer.post(INSTALL, {"path": "Subscription", "step": "edit", **values})
    assert shown.context["plan"].choice.targets == targets
    assert radios(shown, "mode")[mode] == "checked"
    sentence = "Selected because team-x has no OperatorGroup yet."
    assert (sentence in assert_page(shown).text) == (mode == "own")


def test_a_bundle_that_cannot_watch_an_entered_namespace_alone_watches_all(
    writer: Client, package: Package
) -> None:
    Bundle.objects.update(install_modes=["AllNamespaces"], install_modes_known=True)
    shown = writer.get(INSTALL, {"path": "Subscription", "namespace": "team-x"})
    assert shown.context["plan"].choice.targets == ()


def test_after_the_dry_run_its_outcome_has_the_focus_and_not_install(
    writer: Client, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "dry_run", lambda *_: DryRun(ok=True, message="Accepted."))
    values = {"path": "Subscription", "namespace": "team-a", "step": "review"}
    content = writer.post(INSTALL, values).content.decode()
    assert re.findall(r"<(\w+)[^>]*data-focus", content) == ["div"]
    assert re.search(r'<div role="status" tabindex="-1" data-focus>\s*<span[^>]*olm-label', content)


def test_the_outcome_for_several_objects_is_said_once(
    writer: Client, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = (("Namespace team-a", "accepted"), ("Subscription team-a/etcd", "allowed"))
    for count, sentence in ((2, False), (1, True)):
        outcome = DryRun(ok=True, message="Cluster prod accepts it.", objects=objects[:count])
        monkeypatch.setattr(record, "dry_run", lambda *_, outcome=outcome: outcome)
        values = {"path": "Subscription", "namespace": "team-a", "step": "review"}
        text = assert_page(writer.post(INSTALL, values)).text
        assert ("Cluster prod accepts it." in text) == sentence
        assert ("Namespace team-a: accepted" in text) != sentence


def test_a_page_that_opens_with_a_missing_value_shows_the_verdict_and_keeps_the_focus(
    writer: Client, prod: Cluster, package: Package
) -> None:
    make_crd(
        cluster=prod,
        name="clusterextensions.olm.operatorframework.io",
        details={"fields": {"v1": ["spec.serviceAccount.name", "spec.namespace"]}},
    )
    verdict("", "ClusterExtension")
    page = writer.get(INSTALL, {"path": "ClusterExtension"})
    content = page.content.decode()
    assert 'id="field-service_account-error"' in content
    assert "Installable" in content
    assert 'id="summary"' not in content
    assert "data-focus" not in content
    refused = writer.post(INSTALL, {"path": "ClusterExtension", "step": "review"})
    content = refused.content.decode()
    assert refused.status_code == 422
    assert '<a href="#field-service_account">' in content
    assert re.findall(r"data-focus\s+id=\"(\w+)\"", content) == ["summary"]


def test_warnings_stand_before_the_button(writer: Client, package: Package) -> None:
    Bundle.objects.filter(name="etcd.v1.1.0").update(deprecated=True)
    content = writer.get(INSTALL, {"path": "Subscription"}).content.decode()
    warning = content.index("The catalog marks etcd.v1.1.0 as deprecated.")
    assert content.index('id="warnings"') < warning < content.index('name="namespace"')


@pytest.mark.parametrize(
    ("path", "installed", "says"),
    [
        ("Subscription", "PlatformOperator", "would write over the CustomResourceDefinitions of"),
        ("Subscription", "Subscription", "OLM v0 refuses the second where"),
        ("ClusterExtension", "Subscription", "they belong to the Subscription."),
        ("PlatformOperator", "PlatformOperator", "a second one would fail"),
    ],
)
def test_a_package_that_is_installed_already_says_what_a_second_install_does(
    writer: Client, package: Package, prod: Cluster, path: str, installed: str, says: str
) -> None:
    namespace = "old" if installed == "Subscription" else ""
    make_operator(cluster=prod, kind=installed, namespace=namespace, name="mine", package="etcd")
    page = assert_page(writer.get(INSTALL, {"path": path}))
    assert f"{installed} mine" in page.text
    assert "installs the same package" in page.text
    assert says in page.text
    there = f"/operators/prod/{installed}/{namespace or '-'}/mine"
    assert there in page.links
    assert f"Installed already by {installed} mine" in assert_page(writer.get(PACKAGE)).text
    assert there in assert_page(writer.get(PACKAGE)).links


def test_an_operator_that_installed_nothing_is_no_conflict(
    writer: Client, package: Package, prod: Cluster
) -> None:
    make_operator(
        cluster=prod, kind="PlatformOperator", name="mine", package="etcd", health="Failed",
        version="1.1.0", finding="allnamespaces-required",
    )  # fmt: skip
    page = assert_page(writer.get(INSTALL, {"path": "Subscription"}))
    assert (
        "PlatformOperator mine is of the same package and failed before it installed" in page.text
    )
    assert "would write over" not in page.text
    assert "Installed already" not in assert_page(writer.get(PACKAGE)).text
