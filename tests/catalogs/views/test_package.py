"""The package page: sources, channel and version, every tab, and names of any kind."""

import re

import pytest
from django.urls import reverse

from catalogs.models import BundleGVK
from tests.factories import (
    make_bundle,
    make_catalog,
    make_channel,
    make_cluster,
    make_operator,
    make_package,
    make_prediction,
    make_problem,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
TABS = ("overview", "channels", "versions", "installs", "installed")
EVIL = '"><script>alert(1)</script>'


@pytest.fixture
def etcd():
    catalog = make_catalog(cluster=make_cluster())
    return make_package(
        catalog=catalog,
        name="etcd",
        display_name="etcd cluster",
        provider="CNCF",
        channels={"stable": ("1.0.0", "1.1.0", "1.10.0"), "beta": ("2.0.0-rc.1",)},
        bundles={
            "1.10.0": {"webhooks": 0, "min_kube_version": "1.25.0", "suggested_namespace": "etcd"},
            "1.0.0": {"install_modes": ["OwnNamespace"], "deprecated": True},
        },
        description_html="<p>Keeps <strong>keys</strong>.</p>",
        links=[{"name": "Docs", "url": "https://example.com/docs"}],
        maintainers=[{"name": "Ada", "email": "ada@example.com"}],
        capability="Auto Pilot",
        keywords=["a&b"],
    )


def url(package, **params: str) -> str:
    catalog = package.catalog
    path = reverse("catalogs:package", args=(catalog.cluster_name, catalog.slug, package.name))
    return path + ("?" + "&".join(f"{k}={v}" for k, v in params.items()) if params else "")


def text_of(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_overview_tells_what_the_package_is(reader, etcd):
    page = text_of(reader.get(url(etcd)))
    for words in (
        "etcd cluster",
        "provided by CNCF",
        "Keeps <strong>keys</strong>.",
        "1.25.0 or newer",
        'href="https://example.com/docs"',
        "ada@example.com",
        "Auto Pilot",
        'href="/software/?keyword=a%26b"',
    ):
        assert words in page
    assert 'href="/software/prod/redhat-operators/etcd/request"' in page  # a viewer asks for it


def test_the_head_of_the_default_channel_is_shown_unless_the_url_says_otherwise(reader, etcd):
    assert reader.get(url(etcd)).context["bundle"].version == "1.10.0"
    assert reader.get(url(etcd, channel="beta")).context["bundle"].version == "2.0.0-rc.1"
    assert reader.get(url(etcd, version="1.0.0")).context["bundle"].version == "1.0.0"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"channel": "gone"}, "There is no channel “gone”"),
        ({"version": "9.9.9"}, "There is no version “9.9.9”"),
        ({"tab": "nothing"}, "“tab” can be overview, channels"),
        ({"version": "a" * 9000}, "There is no version"),
    ],
)
def test_odd_choices_are_answered_with_a_notice(reader, etcd, params, said):
    response = reader.get(url(etcd, **params))
    assert response.status_code == 200
    assert (said in " ".join(response.context["notices"])) if said else True
    assert response.context["bundle"].version == "1.10.0"


def test_the_verdict_of_every_path_stands_with_its_rules(reader, etcd):
    bundle = etcd.bundles.get(version="1.10.0")
    make_prediction(bundle=bundle)
    make_prediction(
        bundle=bundle,
        path="ClusterExtension",
        rule="ce-webhook",
        verdict="unknown",
        sentence="Its bundle image would settle it.",
    )
    make_prediction(
        bundle=bundle, path="Subscription", rule="sub-install-mode", sentence="It needs its own."
    )
    make_prediction(bundle=bundle, path="Subscription", target="own")
    response = reader.get(url(etcd))
    assert [(one.path, one.target, one.verdict) for one in response.context["verdicts"]] == [
        ("PlatformOperator", "all", "installable"),
        ("ClusterExtension", "all", "unknown"),
        ("Subscription", "own", "installable"),
        ("Subscription", "all", "not_installable"),
    ]
    text = text_of(response)
    assert "Its bundle image would settle it." in text
    assert "It needs its own." in text


def test_an_installed_package_says_which_verdicts_are_on_a_second_install(reader, etcd):
    cluster = etcd.catalog.cluster
    make_operator(
        cluster=cluster, kind="Subscription", name="etcd", package="etcd", health="Healthy"
    )
    newest = etcd.bundles.get(version="2.0.0-rc.1")
    make_prediction(bundle=newest, path="PlatformOperator", cluster=cluster)
    text = text_of(reader.get(url(etcd)))
    assert (
        "The verdict on Subscription below is the one on its upgrade; the others are on a" in text
    )
    assert "Chosen among all channels: <a" in text


def test_provided_apis_lead_to_all_their_providers(reader, etcd):
    BundleGVK.objects.create(
        bundle=etcd.bundles.get(version="1.10.0"),
        group="e.example",
        version="v1",
        kind="EtcdCluster",
    )
    assert "?q=provides%3AEtcdCluster" in text_of(reader.get(url(etcd, tab="installs")))


def test_verdicts_are_those_of_the_catalogs_own_cluster(reader, etcd):
    make_cluster(name="other")
    for params in ({}, {"tab": "versions"}):
        assert "On cluster <strong>prod</strong>" in text_of(reader.get(url(etcd, **params)))
    text = text_of(reader.get(url(etcd, cluster="other")))
    assert "On cluster <strong>prod</strong>" in text
    assert "it is not evaluated for “other”" in text


def test_verdicts_of_a_catalog_of_no_cluster_are_told_for_the_one_that_is_chosen(reader):
    package = make_package(name="etcd", catalog=make_catalog(), channels={"stable": ("1.0.0",)})
    bundle, cluster = package.bundles.get(), make_cluster(name="other")
    make_prediction(bundle=bundle, path="Subscription")
    make_prediction(
        bundle=bundle, path="Subscription", rule="sub-min-kube", sentence="Old.", cluster=cluster
    )
    path = reverse("catalogs:bundle", args=("-", package.catalog.slug, "etcd", bundle.name))
    pages = {
        url(package, tab="versions"): "Requires a newer Kubernetes version",
        url(package, tab="overview"): "Old.",
        f"{path}?": "Old.",
    }
    for page, said in pages.items():
        alone = text_of(reader.get(page))
        assert "for <strong>no cluster</strong>" in alone
        assert said not in alone
        assert "cluster=other" in alone
        there = text_of(reader.get(page + "&cluster=other"))
        assert "On cluster <strong>other</strong>" in there
        assert said in there
        gone = text_of(reader.get(page + "&cluster=gone"))
        assert "There is no cluster “gone”: verdicts are those without a cluster." in gone


@pytest.mark.parametrize("tab", ["overview", "channels", "versions"])
def test_a_form_keeps_the_cluster_of_the_verdicts(reader, tab):
    make_cluster(name="other")
    package = make_package()
    page = reader.get(url(package, tab=tab, cluster="other")).content.decode()
    forms = [part.partition("</form>")[0] for part in page.split('<form class="olm-pickers')[1:]]
    assert forms
    assert all('name="cluster" value="other"' in form for form in forms)


def test_a_bundle_that_was_not_judged_yet_says_so(reader, etcd):
    assert "Not evaluated yet" in text_of(reader.get(url(etcd)))


def test_install_is_not_offered_from_a_catalog_without_a_cluster(reader):
    make_cluster()
    page = text_of(reader.get(url(make_package())))
    assert 'aria-disabled="true"' in page
    assert "This catalog belongs to no cluster" in page
    assert "/install" not in page


def test_install_is_not_offered_where_no_path_is_served(reader):
    kinds = {"PlatformOperator": {"state": "absent"}}
    catalog = make_catalog(cluster=make_cluster(name="bare", kinds=kinds))
    package = make_package(catalog=catalog)
    told = "Cluster bare serves nothing that could install from this catalog."
    assert told in text_of(reader.get(url(package)))
    bare = package.catalog.cluster
    assert bare is not None
    bare.kinds = {"ClusterExtension": {"state": "served", "version": "v1"}}
    bare.save()
    assert told not in text_of(reader.get(url(package))), "another path is enough"


def test_the_source_switcher_leads_to_the_same_package_elsewhere(reader, etcd):
    make_package(catalog=make_catalog(name="community", priority=3), name="etcd")
    response = reader.get(url(etcd, tab="versions"))
    assert [each.catalog.slug for each in response.context["sources"]] == [
        "community",
        "redhat-operators",
    ]
    assert 'href="/software/-/community/etcd?tab=versions"' in text_of(response)


def test_the_channel_tab_draws_the_graph_and_lists_the_same_entries(reader, etcd):
    make_operator(cluster=etcd.catalog.cluster, name="etcd", version="1.1.0")
    response = reader.get(url(etcd, tab="channels", channel="stable"))
    page = response.content.decode()
    assert page.count("<svg") > 1
    assert "olm-graph-installed" in page
    assert "olm-graph-deprecated" in page
    rows = response.context["rows"]
    assert [row["entry"].name for row in rows] == ["etcd.v1.10.0", "etcd.v1.1.0", "etcd.v1.0.0"]
    assert [row["installed"] for row in rows] == [False, True, False]
    assert [row["next"] for row in rows] == ["", "etcd.v1.10.0", "etcd.v1.1.0"]
    assert 'href="/software/prod/redhat-operators/etcd/etcd.v1.1.0"' in page


def test_an_entry_without_a_bundle_is_said_to_be_missing(reader, etcd):
    make_channel(package=etcd, name="thin", versions=("0.1.0",))
    assert "not in the catalog" in text_of(reader.get(url(etcd, tab="channels", channel="thin")))


def test_the_table_of_a_long_channel_comes_twenty_entries_a_page(reader):
    versions = [f"1.{number}.0" for number in range(400)]
    package = make_package(channels={"all": versions})
    response = reader.get(url(package, tab="channels"))
    assert len(response.context["rows"]) == 20
    last = reader.get(url(package, tab="channels", page="20"))
    assert last.context["rows"][-1]["entry"].name == "etcd.v1.0.0"
    assert max(len(response.content), len(last.content)) <= 60_000


def test_versions_are_in_semver_order_with_their_channels(reader, etcd):
    response = reader.get(url(etcd, tab="versions"))
    assert [row["bundle"].version for row in response.context["rows"]] == [
        "2.0.0-rc.1",
        "1.10.0",
        "1.1.0",
        "1.0.0",
    ]
    assert [row["channels"] for row in response.context["rows"]][:2] == [["beta"], ["stable"]]


def test_every_version_says_what_installs_it(reader, etcd):
    cluster = etcd.catalog.cluster
    [new, old] = [etcd.bundles.get(version=each) for each in ("1.10.0", "1.0.0")]
    make_prediction(bundle=new, path="Subscription")
    make_prediction(bundle=old, path="Subscription")
    make_prediction(
        bundle=old, path="Subscription", rule="sub-crd-owned", sentence="Taken.", cluster=cluster
    )
    response = reader.get(url(etcd, tab="versions"))
    told = {row["bundle"].version: row["verdicts"] for row in response.context["rows"]}
    assert {version: verdicts for version, verdicts in told.items() if verdicts} == {
        "1.10.0": [("installable", "Subscription")],
        "1.0.0": [("not_installable", "Subscription: Another operator owns its API")],
    }
    assert "Subscription: Another operator owns its API" in text_of(response)


def test_versions_come_fifty_a_page(reader):
    package = make_package(channels={"all": [f"1.{number}.0" for number in range(60)]})
    assert len(reader.get(url(package, tab="versions")).context["rows"]) == 50
    second = reader.get(url(package, tab="versions", page="2"))
    assert [row["bundle"].version for row in second.context["rows"]][-1] == "1.0.0"


def test_what_it_installs_lists_kinds_images_and_needs(reader):
    package = make_package(channels={})
    make_bundle(
        package=package,
        version="3.0.0",
        provides=[("etcd.example.com", "v1", "EtcdCluster")],
        requires=[("cert.example.com", "v1", "Certificate")],
        images=[("", ""), ("etcd", "registry.example/etcd:3")],
        required_packages=[{"name": "cert-manager", "range": ">=1.0.0"}],
        webhooks=1,
    )
    page = text_of(reader.get(url(package, tab="installs")))
    for words in (
        "EtcdCluster",
        "etcd.example.com/v1",
        "Certificate",
        "registry.example/etcd:3",
        "Package cert-manager &gt;=1.0.0",
        "<dt>Webhooks</dt> <dd> 1",
    ):
        assert words in page
    assert 'data-copy="registry.example/etcd:3"' in page


def test_the_head_says_how_what_was_installed_is_doing(reader, etcd):
    cluster = etcd.catalog.cluster
    make_operator(cluster=cluster, name="etcd", package="etcd", health="Failed")
    head = reader.get(url(etcd)).content.decode().split('id="tabs"')[0].split("<h1")[1][:2000]
    assert "Failed" in head
    assert "Installed" not in head
    make_operator(cluster=cluster, name="second", package="etcd", health="Healthy")
    assert "Installed" in reader.get(url(etcd)).content.decode().split("<h1")[1][:2000]


def test_an_operator_of_another_catalog_is_said_to_come_from_there(reader, etcd):
    make_operator(
        cluster=etcd.catalog.cluster, name="etcd", kind="ClusterExtension", package="etcd",
        catalog="community-operators", channel="stable", version="1.0.0", bundle="etcd.v1.0.0",
    )  # fmt: skip
    page = reader.get(url(etcd, tab="installed")).content.decode()
    label = page.split("</svg>Installed<")[1][:120]
    assert "from community-operators" in label, label
    assert 'data-label="Catalog">community-operators<' in page
    assert 'data-label="Upgrade">–<' in page, "this catalog does not upgrade it"
    text = assert_page(reader.get(url(etcd))).text
    assert "by ClusterExtension etcd from community-operators. The verdicts below are on" in text


def test_what_is_installed_is_viewed_first_and_installed_again_second(reader, etcd):
    make_operator(cluster=make_cluster(name="edge"), name="etcd", package="etcd")
    head = reader.get(url(etcd)).content.decode().split('id="tabs"')[0]
    assert "View operator" not in head, "it is on another cluster"
    make_operator(cluster=etcd.catalog.cluster, name="etcd", package="etcd")
    head = reader.get(url(etcd)).content.decode().split("<h1")[1].split('id="tabs"')[0]
    primary = re.findall(r'pf-m-primary"\s+href="([^"]+)"', head)
    assert primary == ["/operators/prod/PlatformOperator/-/etcd"]
    make_operator(cluster=etcd.catalog.cluster, name="second", package="etcd")
    head = reader.get(url(etcd)).content.decode().split("<h1")[1].split('id="tabs"')[0]
    assert re.findall(r'pf-m-primary"\s+href="([^"]+)"', head) == ["?tab=installed"]


def test_a_creation_time_is_shown_as_a_date(reader, etcd):
    package = make_package(catalog=etcd.catalog, name="dated")
    for number, at in enumerate(("2024-02-03T04:05:06Z", "2024-05-06", "last Friday"), 1):
        make_bundle(package=package, version=f"1.{number}.0", ordinal=number, released_at=at)
    page = text_of(reader.get(url(package, tab="versions")))
    for shown in ("2024-02-03", "2024-05-06", "last Friday"):
        assert f'data-label="Created at" class="olm-nowrap">{shown}<' in page
    assert "2024-02-03T" not in page
    assert "2024-02-03 04" not in page


def test_where_it_is_installed_leads_to_the_operator(reader, etcd):
    assert "No cluster has this package installed" in text_of(
        reader.get(url(etcd, tab="installed"))
    )
    make_operator(cluster=etcd.catalog.cluster, name="etcd", health="Failed")
    page = text_of(reader.get(url(etcd, tab="installed")))
    assert 'href="/operators/prod/PlatformOperator/-/etcd"' in page
    assert "Failed" in page


def test_an_upgrade_over_an_intermediate_version_is_said_before(reader, etcd):
    for name, kind, version in (
        ("two", "Subscription", "1.0.0"),
        ("one", "ClusterExtension", "1.1.0"),
        ("none", "Subscription", "1.10.0"),
        ("never", "PlatformOperator", "1.0.0"),
    ):
        make_operator(
            cluster=etcd.catalog.cluster, name=name, kind=kind, namespace="apps", package="etcd",
            channel="stable", version=version, bundle=f"etcd.v{version}",
        )  # fmt: skip
    page = text_of(reader.get(url(etcd, tab="installed")))
    upgrades = re.findall(r'data-label="Upgrade">([^<]+)<', page)
    assert sorted(upgrades) == sorted(
        ["from 1.0.0 to 1.10.0 over 1.1.0", "from 1.1.0 to 1.10.0", "–", "–"]
    )


def test_problems_are_a_tab_only_when_there_are_any(reader, etcd):
    assert "tab=problems" not in text_of(reader.get(url(etcd)))
    make_problem(catalog=etcd.catalog, package="etcd", message="duplicate entry x", subject="beta")
    make_problem(catalog=etcd.catalog, package="other", message="not of this one")
    page = text_of(reader.get(url(etcd, tab="problems")))
    assert "duplicate entry x" in page
    assert "not of this one" not in page


def test_a_failing_catalog_is_told_with_its_reason(reader, etcd):
    etcd.catalog.state = "failed"
    etcd.catalog.error_text = "the connection was refused"
    etcd.catalog.error_hint = "Check catalogd."
    etcd.catalog.save()
    page = text_of(reader.get(url(etcd)))
    assert "the connection was refused" in page
    assert "Check catalogd." in page
    assert "Shown as of" in page
    assert not re.search(r"\s\.\s+Shown", page)


def test_a_deprecated_package_says_so_in_its_authors_words(reader):
    package = make_package(deprecated=True, deprecation="Use newer-etcd.")
    assert "Use newer-etcd." in text_of(reader.get(url(package)))


@pytest.mark.parametrize("tab", TABS)
def test_a_package_with_nothing_in_it_still_has_every_tab(reader, tab):
    package = make_package(channels={}, display_name="", provider="")
    assert reader.get(url(package, tab=tab)).status_code == 200


@pytest.mark.parametrize("tab", TABS)
def test_hostile_content_is_escaped_on_every_tab(reader, tab):
    package = make_package(
        name="evil",
        display_name=EVIL,
        provider=EVIL,
        summary=EVIL,
        keywords=[EVIL],
        categories=[EVIL],
        infrastructure_features=[EVIL],
        channels={},
        maintainers=[{"name": EVIL, "email": EVIL}],
        deprecated=True,
        deprecation=EVIL,
    )
    make_bundle(
        package=package,
        version="1.0.0",
        name=f"evil.{EVIL}",
        provides=[(EVIL, "v1", EVIL)],
        images=[(EVIL, EVIL)],
        suggested_namespace=EVIL,
        released_at=EVIL[:50],
        min_kube_version=EVIL,
        required_packages=[{"name": EVIL, "range": EVIL}],
        install_modes=[EVIL],
    )
    channel = make_channel(package=package, name=EVIL, is_default=True, deprecation=EVIL)
    channel.entries.create(ordinal=0, name=f"evil.{EVIL}", replaces=EVIL, skips=[EVIL])
    make_operator(cluster=make_cluster(), name="evil", version=EVIL)
    page = reader.get(url(package, tab=tab)).content.decode()
    assert "<script>alert" not in page
    assert not re.search(r"<[^>]+\sstyle=", page)
    assert not re.search(r"<[^>]+\son[a-z]+=", page)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "/software/nowhere/redhat-operators/etcd",
            "no catalog “redhat-operators” on cluster “nowhere”",
        ),
        ("/software/-/nothing/etcd", "There is no catalog “nothing” outside of clusters."),
        ("/software/prod/redhat-operators/etc", "has no package “etc”"),
        ("/software/prod/redhat-operators/" + "a" * 3000, "has no package"),
    ],
)
def test_an_unknown_name_is_a_404_with_a_sentence(reader, etcd, path, sentence):
    response = reader.get(path)
    assert response.status_code == 404
    assert sentence in text_of(response)


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_costs_at_most_twelve_queries(reader, etcd, tab, django_assert_max_num_queries):
    make_operator(cluster=etcd.catalog.cluster, name="etcd")
    make_package(catalog=make_catalog(name="other"), name="etcd")
    with django_assert_max_num_queries(12):
        reader.get(url(etcd, tab=tab))


def test_a_package_of_two_catalogs_leads_to_their_comparison(reader):
    cluster = make_cluster()
    first, second, same = (
        make_catalog(name=name, slug=slug, cluster=cluster, revision=1)
        for name, slug in (("one", "one"), ("two", "two"), ("one", "sources-one"))
    )
    for catalog in (first, second, same):
        make_package(name="etcd", catalog=catalog)
    page = reader.get(reverse("catalogs:package", args=(first.cluster_name, "one", "etcd")))
    assert page.context["compare"]["name"] == str(second)
    address = page.context["compare"]["url"]
    assert f'href="{address.replace("&", "&amp;")}"' in page.content.decode()


def test_a_package_of_a_single_catalog_has_nothing_to_be_compared_with(reader, etcd):
    response = reader.get(url(etcd))
    assert response.context["compare"] is None
    page = assert_page(response)
    assert "No other catalog has this package" in page.text
    (link,) = [link for link in page.links if "catalogs=several" in link]
    assert assert_page(reader.get(link)).text.count("No package passes all of these filters.") == 1


def test_catalog_sources_of_one_name_in_two_namespaces_are_two_catalogs(reader):
    cluster = make_cluster()
    for namespace in ("apps", "olm"):
        catalog = make_catalog(
            name="one", slug=f"{namespace}-one", namespace=namespace, cluster=cluster,
            source_kind="CatalogSource",
        )  # fmt: skip
        make_package(name="etcd", catalog=catalog)
    address = reverse("catalogs:package", args=(cluster.name, "olm-one", "etcd"))
    page = text_of(reader.get(address))
    assert "also in 1 other catalog" in page
    assert "No other catalog has this package" not in page


def test_copies_of_a_catalog_on_other_clusters_are_no_other_catalogs(reader):
    """As in the facet of the software catalog."""
    for name in ("dev", "prod", "test"):
        catalog = make_catalog(name="red", slug="red", cluster=make_cluster(name=name))
        make_package(name="etcd", catalog=catalog)
    address = reverse("catalogs:package", args=("dev", "red", "etcd"))
    page = text_of(reader.get(address))
    assert "red (ClusterCatalog on dev); also on 2 other clusters" in page
    assert "No other catalog has this package" in page
    assert "access methods" not in page
    other = make_catalog(name="blue", slug="blue", cluster=catalog.cluster)
    make_package(name="etcd", catalog=other)
    page = text_of(reader.get(address))
    assert "; also in 1 other catalog and on 2 other clusters" in page
    assert "No other catalog has this package" not in page


def test_two_access_methods_of_one_catalog_are_no_two_sources(reader):
    cluster = make_cluster()
    for slug in ("one", "sources-one"):
        catalog = make_catalog(name="one", slug=slug, cluster=cluster, revision=1)
        make_package(name="etcd", catalog=catalog)
    address = reverse("catalogs:package", args=(cluster.name, "one", "etcd"))
    page = text_of(reader.get(address))
    own = f"Catalog:</span> one (ClusterCatalog on {cluster.name})"
    assert f"{own}; 2 access methods" in page
    assert "No other catalog has this package" in page
    other = make_catalog(name="two", slug="two", cluster=cluster, revision=1)
    make_package(name="etcd", catalog=other)
    page = text_of(reader.get(address))
    assert f"{own}; also in 1 other catalog" in page
    assert "to compare" not in page
