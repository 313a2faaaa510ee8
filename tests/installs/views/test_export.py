"""Export instead of install: what the files hold, that they are pinned, and hostile words."""

import io
import re
import zipfile
from typing import Any

import pytest
import yaml
from django.test import Client

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, ChannelEntry
from installs.export.files import kustomize_folder, one_stream, zipped
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
EVIL = 'a: "b"\n---\nkind: Secret #'
FOLDER = "/software/prod/community/grafana/export"
STABLE = ["1.1.0", "1.0.0"]


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    kind = Catalog.SourceKind.CATALOG_SOURCE
    catalog = make_catalog(
        name="community", cluster=prod, source_kind=kind, namespace="marketplace"
    )
    make_package(
        name="grafana",
        catalog=catalog,
        channels={"stable": ("1.0.0", "1.1.0"), "v2": ("1.1.0", "2.0.0")},
    )
    return catalog


def documents(reader: Client, query: str = "", name: str = "manifests.yaml") -> list[Any]:
    answer = reader.get(f"{FOLDER}/{name}?{query}")
    assert answer.status_code == 200, answer.content.decode()
    return list(yaml.safe_load_all(answer.content))


def test_a_subscription_starts_at_the_resolved_version_and_stays_there(
    reader: Client, catalog: Catalog
) -> None:
    namespace, group, subscription = documents(reader)
    assert [one["kind"] for one in (namespace, group, subscription)] == [
        "Namespace", "OperatorGroup", "Subscription",
    ]  # fmt: skip
    assert subscription["spec"] == {
        "name": "grafana",
        "source": "community",
        "sourceNamespace": "marketplace",
        "channel": "stable",
        "startingCSV": "grafana.v1.1.0",
        "installPlanApproval": "Manual",
    }
    assert subscription["metadata"]["namespace"] == namespace["metadata"]["name"]


def test_a_channel_and_a_version_narrow_what_is_chosen(reader: Client, catalog: Catalog) -> None:
    assert documents(reader, "channel=v2")[-1]["spec"]["startingCSV"] == "grafana.v2.0.0"
    assert documents(reader, "version=1.0.0")[-1]["spec"]["startingCSV"] == "grafana.v1.0.0"


def test_a_subscription_can_start_at_a_version_that_the_head_skips(
    reader: Client, catalog: Catalog
) -> None:
    entries = ChannelEntry.objects.filter(channel__package__catalog=catalog)
    entries.filter(name="grafana.v1.1.0", channel__name="stable").update(
        replaces="", skips=["grafana.v1.0.0"]
    )
    page = assert_page(reader.get(f"{FOLDER}?channel=stable&version=1.0.0"))
    assert "grafana.v1.0.0: named by startingCSV; no upgrade leads to it." in page.text
    for query in ("channel=stable&version=1.0.0", "version=grafana.v1.0.0"):
        assert documents(reader, query)[-1]["spec"]["startingCSV"] == "grafana.v1.0.0"
    assert reader.get(f"{FOLDER}?version=1.0.1").status_code == 422
    assert reader.get(f"{FOLDER}?path=ClusterExtension&version=1.0.1").status_code == 422


def test_objects_of_the_cluster_are_included_as_they_are_and_named(
    reader: Client, catalog: Catalog, prod: Cluster
) -> None:
    group = make_component(
        cluster=prod, kind="OperatorGroup", namespace="apps", name="global",
        details={"targets": ["team-a"]},
    )  # fmt: skip
    included = documents(reader, "namespace=apps")
    assert [row["kind"] for row in included] == ["Namespace", "OperatorGroup", "Subscription"]
    assert included[1]["metadata"] == {"name": "global", "namespace": "apps"}
    assert included[1]["spec"] == {"targetNamespaces": ["team-a"]}
    page = assert_page(reader.get(f"{FOLDER}?namespace=apps"))
    assert "Already on cluster prod: Namespace apps and OperatorGroup global." in page.text
    selector = {"matchLabels": {"team": "a"}}
    full = {
        "selects": True,
        "selector": selector,
        "targets": [],
        "service_account": "scoped",
        "upgrade_strategy": "TechPreviewUnsafeFailForward",
        "static_apis": True,
    }
    group.details = full
    group.save()
    assert documents(reader, "namespace=apps")[1]["spec"] == {
        "selector": selector,
        "serviceAccountName": "scoped",
        "staticProvidedAPIs": True,
        "upgradeStrategy": "TechPreviewUnsafeFailForward",
    }
    page = assert_page(reader.get(f"{FOLDER}?namespace=apps"))
    assert "OperatorGroup global uses ServiceAccount scoped of namespace apps" in page.text
    group.details = {"targets": ["team-a"], "upgrade_strategy": "Default", "service_account": ""}
    group.save()
    assert documents(reader, "namespace=apps")[1]["spec"] == {"targetNamespaces": ["team-a"]}
    for shared in ({"selects": True, "targets": ["team-a"]}, {"targets": [""]}, {}):
        group.details = shared
        group.save()
        assert [row["kind"] for row in documents(reader, "namespace=apps")] == ["Subscription"]
        page = assert_page(reader.get(f"{FOLDER}?namespace=apps"))
        assert "Namespace apps and its OperatorGroup are left out" in page.text


def test_an_installation_from_another_catalog_is_pointed_out(
    reader: Client, catalog: Catalog, prod: Cluster
) -> None:
    installed = make_operator(cluster=prod, name="grafana", catalog=catalog.name)
    assert "Other catalog" not in assert_page(reader.get(FOLDER)).text
    installed.catalog = "upstream"
    installed.save()
    warning = "Other catalog It is from upstream; these manifests install from community"
    assert warning in assert_page(reader.get(FOLDER)).text


def test_the_default_namespace_is_that_of_the_install_form(
    client: Client, olivia: Any, catalog: Catalog, prod: Cluster
) -> None:
    Cluster.objects.update(
        kinds=prod.kinds | {"Subscription": {"state": "served", "version": "v1alpha1"}}
    )
    make_component(cluster=prod, kind="CatalogSource", namespace="marketplace", name="community")
    bundles = catalog.packages.get().bundles
    bundles.filter(version="1.0.0").update(suggested_namespace="grafana-before")
    bundles.filter(version="1.1.0").update(suggested_namespace="grafana-system")
    client.force_login(olivia)

    def namespaces(query: str) -> set[str]:
        form = client.get(FOLDER.replace("export", "install") + f"?path=Subscription{query}")
        exported = client.get(f"{FOLDER}?path=Subscription{query}")
        return {form.context["plan"].namespace, exported.context["export"].choice.namespace}

    assert namespaces("") == {"grafana-system"}
    assert namespaces("&version=1.0.0") == {"grafana-system"}
    make_component(cluster=prod, kind="OperatorGroup", namespace="openshift-operators", name="all")
    assert namespaces("") == {"openshift-operators"}


def test_a_bundle_that_only_watches_its_own_namespace_gets_such_a_group(
    reader: Client, catalog: Catalog
) -> None:
    catalog.packages.get().bundles.update(install_modes=["OwnNamespace"])
    group = documents(reader, "namespace=apps")[1]
    assert group["spec"] == {"targetNamespaces": ["apps"]}
    assert documents(reader, "namespace=apps&targets=*")[1]["spec"] == {}


def test_a_cluster_extension_is_pinned_to_the_exact_version(
    reader: Client, catalog: Catalog
) -> None:
    extension = documents(reader, "path=ClusterExtension&version=1.x&source=operatorhub")[-1]
    assert extension["kind"] == "ClusterExtension"
    source = extension["spec"]["source"]["catalog"]
    assert (source["packageName"], source["version"]) == ("grafana", "1.1.0")
    assert "operatorhub" in source["selector"]["matchLabels"].values()
    account = documents(reader, "path=ClusterExtension&service_account=installer")
    assert [one["kind"] for one in account] == ["Namespace", "ServiceAccount", "ClusterExtension"]


def test_a_platform_operator_can_not_be_pinned_and_the_file_says_so(
    reader: Client, catalog: Catalog
) -> None:
    answer = reader.get(f"{FOLDER}/manifests.yaml?path=PlatformOperator")
    assert b"# A PlatformOperator can't be pinned" in answer.content
    (found,) = yaml.safe_load_all(answer.content)
    assert found["spec"] == {"package": {"name": "grafana"}}


def test_the_kustomize_folder_lists_every_file_and_its_bytes_never_change(
    reader: Client, catalog: Catalog
) -> None:
    first, second = (reader.get(f"{FOLDER}/kustomize.zip").content for _ in range(2))
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = set(archive.namelist())
        listed = yaml.safe_load(archive.read("grafana/kustomization.yaml"))
        held = [yaml.safe_load(archive.read(f"grafana/{one}")) for one in listed["resources"]]
    assert names == {f"grafana/{one}" for one in (*listed["resources"], "kustomization.yaml")}
    assert held == documents(reader)
    assert listed["kind"] == "Kustomization"


def test_the_application_points_to_the_folder(reader: Client, catalog: Catalog) -> None:
    query = "repo=https://git.example.com/a.git&repo_path=operators/grafana&revision=main"
    (found,) = documents(reader, query, "argocd.yaml")
    assert found["kind"] == "Application"
    assert found["spec"]["source"] == {
        "repoURL": "https://git.example.com/a.git",
        "path": "operators/grafana",
        "targetRevision": "main",
    }
    assert found["spec"]["syncPolicy"]["automated"]["prune"] is False


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("name=Bad_Name", 400, "name"),
        ("namespace=../../etc", 400, "namespace"),
        ("path=helm", 400, "path"),
        ("version=nonsense", 400, "version"),
        ("version=9.0.0", 409, "version"),
        ("channel=gone", 409, "channel"),
        ("targets=a,B", 400, "targets"),
        ("name=a%07b", 400, "name"),
        ("name=" + "a" * 301, 400, "name"),
    ],
)
def test_what_no_cluster_would_take_is_refused_in_a_sentence(
    reader: Client, catalog: Catalog, query: str, status: int, field: str
) -> None:
    assert_page(reader.get(f"{FOLDER}?{query}"), 422)
    query, field = query.replace("path=", "method="), field.replace("path", "method")
    answer = reader.get(f"/api/v1/packages/prod/community/grafana/export?{query}")
    assert answer.status_code == status
    assert field in answer.json()["error"]["fields"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("repo=file:///etc/passwd", "repo"),
        ("repo=https://a.example/x%20y", "repo"),
        ("repo=https://a.example&repo_path=../up", "repo_path"),
        ("repo=https://a.example&revision=--upload-pack=x", "revision"),
        ("", "repo"),
    ],
)
def test_a_repository_that_can_not_be_one_is_refused(
    reader: Client, catalog: Catalog, query: str, field: str
) -> None:
    answer = reader.get(f"/api/v1/packages/prod/community/grafana/export?format=argocd&{query}")
    assert answer.status_code == 400
    assert field in answer.json()["error"]["fields"]


def test_words_of_a_catalog_stay_values_of_the_files() -> None:
    manifest = {"kind": "Subscription", "metadata": {"name": EVIL}, "spec": {"name": EVIL}}
    text = one_stream([manifest, manifest], ["evil\nkind: Secret"])
    assert list(yaml.safe_load_all(text)) == [manifest, manifest]
    files = kustomize_folder([manifest], [])
    assert set(files) == {"kustomization.yaml", "01-subscription.yaml"}
    with zipfile.ZipFile(io.BytesIO(zipped("folder", files))) as archive:
        assert archive.namelist() == ["folder/01-subscription.yaml", "folder/kustomization.yaml"]


def test_a_package_with_a_hostile_name_can_not_leave_its_field(
    reader: Client, catalog: Catalog
) -> None:
    make_package(name='x"\n: ][*&!', catalog=catalog)
    address = "/software/prod/community/x%22%0A%3A%20%5D%5B%2A%26%21/export"
    assert_page(reader.get(address), 422)
    answer = reader.get(f"{address}/manifests.yaml?name=safe&namespace=apps")
    assert answer.status_code == 200
    subscription = list(yaml.safe_load_all(answer.content))[-1]
    assert subscription["spec"]["name"] == 'x"\n: ][*&!'
    assert answer["Content-Disposition"] == 'attachment; filename="safe-manifests.yaml"'


def test_the_page_shows_the_manifests_and_links_to_the_same_files(
    reader: Client, catalog: Catalog
) -> None:
    page = assert_page(reader.get(f"{FOLDER}?channel=v2&repo=https://git.example.com/a.git"))
    assert "startingCSV: grafana.v2.0.0" in page.text
    assert "repoURL: https://git.example.com/a.git" in page.text
    assert "#export-files" in page.links, "they may be out of sight"
    links = [one for one in page.links if "/export/" in one]
    assert len(links) == 3
    for link in links:
        assert reader.get(link.replace("&amp;", "&")).status_code == 200


def test_the_page_names_the_operators_of_the_package_on_the_cluster(
    reader: Client, catalog: Catalog
) -> None:
    heading = f"Already on cluster {catalog.cluster_name}"
    assert heading not in assert_page(reader.get(FOLDER)).text
    failed: dict[str, Any] = {"cluster": catalog.cluster, "package": "grafana", "health": "Failed"}
    make_operator(name="dashboards", **failed)
    make_operator(name="elsewhere", **failed | {"cluster": make_cluster(name="other")})
    page = assert_page(reader.get(FOLDER))
    assert heading in page.text
    assert "PlatformOperator dashboards" in page.text
    assert "dashboards" in page.text.split(heading)[1].split("Failed")[0]
    assert f"/operators/{catalog.cluster_name}/PlatformOperator/-/dashboards" in page.links
    assert "elsewhere" not in page.text


def test_the_api_gives_the_bytes_of_the_page(reader: Client, catalog: Catalog) -> None:
    api = "/api/v1/packages/prod/community/grafana/export"
    for form, name in (("yaml", "manifests.yaml"), ("kustomize", "kustomize.zip")):
        assert reader.get(f"{api}?format={form}").content == reader.get(f"{FOLDER}/{name}").content
    assert reader.get(f"{api}?format=helm").status_code == 400
    assert reader.get(f"{api}?what=x").json()["error"]["code"] == "unknown-parameter"
    assert reader.get(f"{FOLDER}/chart.tgz").status_code == 404


def test_the_package_page_offers_it_beside_install(reader: Client, catalog: Catalog) -> None:
    page = assert_page(reader.get("/software/prod/community/grafana"))
    assert FOLDER in page.links


def test_public_read_is_enough_and_without_it_a_login_is_needed(
    client: Client, catalog: Catalog, settings: Any
) -> None:
    assert client.get(FOLDER).status_code == 302
    settings.PUBLIC_READ = True
    assert client.get(FOLDER).status_code == 200
    assert client.get(f"{FOLDER}/kustomize.zip").status_code == 200


def test_a_catalog_of_no_cluster_needs_the_name_of_its_source(reader: Client) -> None:
    make_package(name="grafana", catalog=make_catalog(name="file"))
    address = "/software/-/file/grafana/export"
    assert "needs a CatalogSource" in assert_page(reader.get(address), 422).text
    named = f"{address}/manifests.yaml?source=community&source_namespace=marketplace"
    assert b"source: community" in reader.get(named).content


def test_a_form_that_is_sent_by_htmx_gets_the_form_alone(reader: Client, catalog: Catalog) -> None:
    answer = reader.get(FOLDER, {"version": "1.0.0"}, headers={"HX-Request": "true"})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert page.lstrip().startswith('<div id="form"')
    assert "grafana.v1.0.0" in page
    assert "<html" not in page
    assert page.count('id="form"') == 1


@pytest.mark.parametrize(
    ("path", "channel", "versions", "words"),
    [
        ("ClusterExtension", "", ["2.0.0", "1.1.0", "1.0.0"], "the 3 versions of all channels"),
        ("ClusterExtension", "stable", STABLE, "the 2 versions of channel stable"),
        ("Subscription", "", STABLE, "the 2 versions of channel stable"),
    ],
)
def test_the_form_offers_the_versions_of_the_channel(
    reader: Client, catalog: Catalog, path: str, channel: str, versions: list[str], words: str
) -> None:
    response = reader.get(FOLDER, {"path": path, "channel": channel})
    assert response.context["versions"] == versions
    assert f"Choose one of {words}, or enter a range" in assert_page(response).text
    assert f'<option value="{versions[-1]}">' in response.content.decode()


def test_a_word_that_is_no_version_has_one_sentence(reader: Client, catalog: Catalog) -> None:
    page = assert_page(reader.get(FOLDER, {"path": "Subscription", "version": "newest"}), 422)
    assert "'newest' is neither a version nor a range of versions." in page.text


def test_a_subscription_from_a_cluster_catalog_names_the_catalog_source_of_that_name(
    reader: Client, prod: Cluster
) -> None:
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    served = make_catalog(name="served", cluster=prod, source_kind=kind)
    make_package(name="grafana", catalog=served, channels={"stable": ("1.0.0",)})
    make_component(cluster=prod, kind="CatalogSource", name="served", namespace="olm-sources")
    address = "/software/prod/served/grafana/export/manifests.yaml?path=Subscription"
    subscription = list(yaml.safe_load_all(reader.get(address).content))[-1]
    assert subscription["spec"]["source"] == "served"
    assert subscription["spec"]["sourceNamespace"] == "olm-sources"


@pytest.mark.parametrize(
    ("refused", "method"),
    [
        ((), "ClusterExtension"),
        (("ClusterExtension",), "Subscription"),
        (("ClusterExtension", "Subscription"), "ClusterExtension"),  # none can work: the usual one
    ],
)
def test_the_form_begins_with_the_first_method_that_can_be_pinned_and_work(
    reader: Client, prod: Cluster, refused: tuple[str, ...], method: str
) -> None:
    prod.kinds = {kind: {"state": "served", "version": "v1"} for kind in InstallMethod}
    prod.save()
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    served = make_catalog(name="served", cluster=prod, source_kind=kind)
    package = make_package(name="grafana", catalog=served, channels={"stable": ("1.0.0",)})
    make_component(cluster=prod, kind="CatalogSource", name="served", namespace="olm-sources")
    for path in InstallMethod:
        verdict = "not_installable" if path in refused else "installable"
        make_prediction(bundle=package.bundles.get(), path=path, verdict=verdict)
    page = reader.get("/software/prod/served/grafana/export")
    assert page.context["chosen"]["path"] == method


def test_before_the_evaluation_the_form_begins_with_a_method_that_chooses_a_version(
    reader: Client, prod: Cluster
) -> None:
    Cluster.objects.update(kinds={kind: {"state": "served"} for kind in InstallMethod})
    catalog = make_catalog(name="community", cluster=prod)
    make_component(
        cluster=prod, kind="CatalogSource", namespace="marketplace", name="community",
        details={"image": ""},
    )  # fmt: skip
    package = make_package(name="grafana", catalog=catalog)
    package.bundles.update(required_packages=[{"name": "other", "range": ">=1.0.0"}])
    answer = reader.get(FOLDER)
    page = assert_page(answer)
    assert answer.context["chosen"]["path"] == "Subscription", "OLM v1 refuses dependencies"
    assert "Not evaluated yet Whether cluster prod can run this package is being computed" in (
        page.text
    )
    Cluster.objects.update(kinds={"ClusterExtension": {"state": "served"}})
    assert "is being computed" in assert_page(reader.get(FOLDER)).text, "no error before that"
    assert reader.get(f"{FOLDER}?path=ClusterExtension").status_code == 422
    bundle = package.bundles.get(name=package.head_bundle)
    make_prediction(bundle=bundle, path="Subscription")
    assert "is being computed" not in reader.get(FOLDER).content.decode()


def test_the_form_leaves_out_a_method_that_installs_another_version_first(
    reader: Client, prod: Cluster
) -> None:
    """As the install form: a ClusterExtension would take the candidate, a Subscription the head."""
    prod.kinds = {kind: {"state": "served", "version": "v1"} for kind in InstallMethod}
    prod.save()
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    served = make_catalog(name="served", cluster=prod, source_kind=kind)
    channels = {"stable": ("1.0.0",), "candidate": ("1.0.0", "2.0.0")}
    package = make_package(name="grafana", catalog=served, channels=channels)
    make_component(cluster=prod, kind="CatalogSource", name="served", namespace="olm-sources")
    for path, version in (("ClusterExtension", "2.0.0"), ("Subscription", "1.0.0")):
        bundle = package.bundles.get(version=version)
        make_prediction(bundle=bundle, path=path, verdict="installable")
    page = reader.get("/software/prod/served/grafana/export")
    assert page.context["chosen"]["path"] == "Subscription"


# -- the fields ------------------------------------------------------------------------------------


def test_an_entered_namespace_is_watched_alone_and_the_files_agree(
    reader: Client, catalog: Catalog
) -> None:
    bundles = catalog.packages.get().bundles
    bundles.update(install_modes=["AllNamespaces", "OwnNamespace"], install_modes_known=True)
    page = reader.get(FOLDER, {"namespace": "team-x", "mode": "all", "suggested_mode": "all"})
    content = page.content.decode()
    assert re.search(r'<input type="radio"[^>]*value="own"[^>]*checked', content)
    assert "Selected because team-x has no OperatorGroup yet." in assert_page(page).text
    group = list(yaml.safe_load_all(reader.get(page.context["links"]["yaml"]).content))[1]
    assert group["spec"] == {"targetNamespaces": ["team-x"]}
    page = reader.get(FOLDER, {"namespace": "team-x", "mode": "all", "suggested_mode": "own"})
    assert page.context["export"].choice.targets == ()
    group = list(yaml.safe_load_all(reader.get(page.context["links"]["yaml"]).content))[1]
    assert group["spec"] == {}


def test_the_installation_mode_is_chosen_as_in_the_install_form(
    reader: Client, catalog: Catalog
) -> None:
    bundles = catalog.packages.get().bundles
    bundles.update(install_modes=["OwnNamespace"], install_modes_known=True)
    page = reader.get(FOLDER)
    assert "grafana.v1.1.0 does not support AllNamespaces." in assert_page(page).text
    refused = reader.get(FOLDER, {"mode": "selected", "targets": ""})
    assert "Name the namespaces to watch" in assert_page(refused, 422).text
    assert 'id="field-targets-error"' in refused.content.decode()
    assert "links" not in refused.context
    page = reader.get(FOLDER, {"mode": "selected", "targets": "a, b"})
    assert page.context["export"].choice.targets == ("a", "b")


def test_empty_fields_show_what_they_stand_for(reader: Client, catalog: Catalog) -> None:
    content = reader.get(FOLDER).content.decode()
    defaults = {"version": "1.1.0", "name": "grafana", "namespace": "grafana", "revision": "HEAD"}
    for name, value in defaults.items():
        assert re.search(rf'name="{name}"[^>]*placeholder="{value}"', content), name
    assert re.search(r'name="approval"\s+value="Manual"[^>]*checked', content)


def test_a_value_waits_for_its_method(reader: Client, catalog: Catalog) -> None:
    values = {"path": "PlatformOperator", "namespace": "team-x", "mode": "own"}
    content = reader.get(FOLDER, values).content.decode()
    assert '<input type="hidden" name="namespace" value="team-x">' in content
    assert '<input type="hidden" name="mode" value="own">' in content
    content = reader.get(FOLDER, values | {"path": "Subscription"}).content.decode()
    assert '<input type="hidden" name="namespace"' not in content
