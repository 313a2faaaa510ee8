"""The software catalog: one card a package, facets, search, and query strings of any kind."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.models import CatalogChange, CatalogRevision, ChannelEntry, Package
from catalogs.search.find import PAGE_SIZE
from tests.factories import (
    make_catalog,
    make_cluster,
    make_icon,
    make_operator,
    make_package,
    make_prediction,
)
from tests.worlds.html import assert_page

URL = "/software/"
pytestmark = pytest.mark.django_db


def names(response) -> list[str]:
    """Package names shown, in order."""
    return [card.row.name for card in response.context["cards"]]


def facet(response, name: str) -> dict[str, int]:
    found = next(each for each in response.context["facets"] if each.name == name)
    return {value.label: value.count for value in [*found.first, *found.rest]}


def test_anonymous_visitors_are_sent_to_the_sign_in_page(client):
    assert client.get(URL).status_code == 302


def test_a_post_is_refused(reader):
    assert reader.post(URL).status_code == 405


def test_without_any_catalog_the_page_says_how_to_get_one(reader):
    page = reader.get(URL).content.decode()
    assert "No packages yet" in page
    assert "an admin of OLM Web can add it" in page


def test_without_any_package_the_page_leads_to_the_catalogs(reader):
    make_catalog(package_count=0)
    page = reader.get(URL).content.decode()
    assert "none has been read with" in page
    assert 'href="/catalogs/"' in page


def test_a_card_shows_what_a_reader_decides_by(reader):
    cluster = make_cluster()
    catalog = make_catalog(cluster=cluster)
    icon = make_icon()
    make_package(
        catalog=catalog,
        name="etcd",
        display_name="etcd cluster",
        provider="CNCF",
        summary="Keeps keys.",
        channels={"alpha": ("0.9.4",)},
        icon=icon,
        deprecated=True,
    )
    make_operator(cluster=cluster, name="etcd")
    page = reader.get(URL).content.decode()
    assert 'href="/software/prod/redhat-operators/etcd"' in page
    for word in ("etcd cluster", "CNCF", "Keeps keys.", "0.9.4", "Installed", "Deprecated"):
        assert word in page
    assert f'src="/icons/{icon.sha256}"' in page


def test_with_several_clusters_a_card_says_for_which_its_verdicts_hold(reader):
    prod = make_package(catalog=make_catalog(cluster=make_cluster()), name="etcd")
    make_prediction(bundle=prod.bundles.latest("pk"))
    for view in ("cards", "table"):
        assert "for cluster prod" not in reader.get(URL, {"view": view}).content.decode()
    catalog = make_catalog(name="more", cluster=make_cluster(name="staging"))
    make_package(catalog=catalog, name="kafka")
    for view in ("cards", "table"):
        assert "for cluster prod" in reader.get(URL, {"view": view}).content.decode()


def test_the_same_package_in_three_catalogs_is_one_card_of_the_highest_priority(reader):
    cluster = make_cluster()
    for name, priority in (("beta", 0), ("alpha", 0), ("zeta", 5)):
        make_package(
            catalog=make_catalog(name=name, cluster=cluster, priority=priority),
            name="etcd",
            display_name=f"etcd of {name}",
        )
    response = reader.get(URL)
    (card,) = response.context["cards"]
    assert card.row.display_name == "etcd of zeta"
    assert [row.catalog for row in card.sources] == ["zeta", "alpha", "beta"]
    assert "3 sources" in response.content.decode()


def test_a_disabled_catalog_never_wins(reader):
    make_package(catalog=make_catalog(name="off", priority=9, state="disabled"), name="etcd")
    make_package(catalog=make_catalog(name="on"), name="etcd")
    (card,) = reader.get(URL).context["cards"]
    assert card.row.catalog == "on"


def test_every_word_must_match_and_names_come_before_the_rest(reader):
    catalog = make_catalog()
    for name, display, text in (
        ("web", "Web", "web"),
        ("web-terminal", "Terminal", "web-terminal console"),
        ("apache", "The web server", "apache the web server"),
        ("caddy", "Caddy", "caddy serves the web"),
        ("etcd", "etcd", "etcd keys"),
    ):
        make_package(catalog=catalog, name=name, display_name=display, summary=text)
    assert names(reader.get(URL, {"q": "WEB"})) == ["web", "web-terminal", "apache", "caddy"]
    assert names(reader.get(URL, {"q": "the  web"})) == ["apache", "caddy"]


def test_without_a_match_the_page_says_what_was_searched_and_offers_near_names(reader):
    make_package(name="prometheus")
    response = reader.get(URL, {"q": "prometrics"})
    page = response.content.decode()
    assert "No results found" in page
    assert "prometrics" in page
    assert response.context["nearest"] == [
        ("prometheus", "/software/-/redhat-operators/prometheus")
    ]
    assert "Clear all filters" in page


def test_facets_count_what_choosing_would_show_given_the_other_filters(reader):
    cluster = make_cluster()
    red = make_catalog(name="red", cluster=cluster)
    blue = make_catalog(name="blue", cluster=cluster)
    make_package(catalog=red, name="a", categories=["Database"], provider="One")
    make_package(catalog=red, name="b", categories=["Database", "Storage"], provider="Two")
    make_package(catalog=blue, name="b", categories=["Database"], provider="Two")
    make_package(catalog=blue, name="c", categories=["Storage"], provider="Two", deprecated=True)
    make_operator(cluster=cluster, name="a")

    everything = reader.get(URL)
    assert facet(everything, "category") == {"Database": 2, "Storage": 2}
    assert facet(everything, "catalog") == {"blue": 2, "red": 2}
    assert facet(everything, "provider") == {"Two": 2, "One": 1}
    assert facet(everything, "installed") == {"Yes": 1, "Failed or blocked": 0, "No": 2}
    assert facet(everything, "deprecated") == {"Yes": 1, "No": 2}

    storage = reader.get(URL, {"category": "Storage"})
    assert names(storage) == ["b", "c"]
    assert facet(storage, "category") == {"Storage": 2, "Database": 2}  # its own choice stays free
    assert facet(storage, "provider") == {"Two": 2}
    assert facet(storage, "installed") == {"Yes": 0, "Failed or blocked": 0, "No": 2}

    installed = reader.get(URL, {"installed": "yes"})
    assert names(installed) == ["a"]
    assert facet(installed, "category") == {"Database": 1}
    assert facet(installed, "installed") == {"Yes": 1, "Failed or blocked": 0, "No": 2}


def test_facets_find_packages_of_several_catalogs_and_of_several_versions(reader):
    red, blue = make_catalog(name="red"), make_catalog(name="blue")
    for catalog in (red, blue):
        make_package(catalog=catalog, name="a", channels={"stable": ["1.0.0", "1.1.0", "1.2.0"]})
    make_package(catalog=red, name="b", channels={"stable": ["1.0.0", "1.1.0"]})
    make_package(catalog=red, name="c", channels={"stable": ["1.0.0"]})
    everything = reader.get(URL)
    assert facet(everything, "catalogs") == {"Several": 1, "One": 2}
    assert facet(everything, "versions") == {"3 or more": 1, "2": 1, "1": 1}
    several = reader.get(URL, {"catalogs": "several"})
    assert names(several) == ["a"]
    assert facet(several, "catalogs") == {"Several": 1, "One": 2}
    assert facet(several, "catalog") == {"blue": 1, "red": 1}
    assert names(reader.get(URL, {"versions": ["3-or-more", "2"]})) == ["a", "b"]
    assert names(reader.get(URL, {"sort": "-versions"})) == ["a", "b", "c"]
    assert "?sort=-versions" in assert_page(everything).links


def test_copies_of_a_catalog_on_two_clusters_are_one_catalog(reader):
    for name in ("dev", "prod"):
        catalog = make_catalog(name="red", slug="red", cluster=make_cluster(name=name))
        make_package(catalog=catalog, name="a")
    assert facet(reader.get(URL), "catalogs") == {"One": 1}


def test_a_package_that_some_catalogs_deprecate_counts_once(reader):
    red, blue = make_catalog(name="red"), make_catalog(name="blue")
    for catalog in (red, blue):
        make_package(catalog=catalog, name="a", deprecated=catalog == blue)
        make_package(catalog=catalog, name="b")
    assert facet(reader.get(URL), "deprecated") == {"In some catalogs": 1, "No": 1}
    assert names(reader.get(URL, {"deprecated": "some"})) == ["a"]
    assert names(reader.get(URL, {"deprecated": "no"})) == ["b"]


def test_facets_of_packages_are_of_the_catalogs_that_are_chosen(reader):
    red, blue = make_catalog(name="red"), make_catalog(name="blue")
    make_package(catalog=red, name="a", deprecated=True, channels={"stable": ["1.0.0"]})
    make_package(catalog=blue, name="a", channels={"stable": ["1.0.0", "1.1.0"]})
    make_package(catalog=blue, name="b", channels={"stable": ["1.0.0"]})
    of_red = {"catalog": "red", "deprecated": "yes", "versions": "1"}
    assert names(reader.get(URL, of_red)) == ["a"]
    assert names(reader.get(URL, of_red | {"catalog": "blue"})) == []
    response = reader.get(URL, {"catalog": "blue"})
    assert facet(response, "deprecated") == {"No": 2}
    assert facet(response, "versions") == {"2": 1, "1": 1}
    assert facet(response, "catalogs") == {"Several": 1, "One": 1}
    assert facet(reader.get(URL, {"deprecated": "yes"}), "catalog") == {"red": 1}


def test_a_search_for_the_name_of_a_kind_offers_its_providers(reader):
    catalog = make_catalog()
    provided = {"1.1.0": {"provides": [("data.example", "v1", "Backup")]}}
    make_package(catalog=catalog, name="vault", bundles=provided)
    make_package(catalog=catalog, name="other", summary="Makes backups.")
    query = {"q": "backup", "catalogs": "single"}
    page = assert_page(reader.get(URL, query))
    assert "Packages that provide the kind Backup" in page.text
    (link,) = [link for link in page.links if "provides%3ABackup" in link]
    providers = reader.get(URL + link)
    assert names(providers) == ["vault"]
    assert "catalogs=single" in link
    for text in ("other", "backup vault", "provides:Backup", ""):
        assert "provide the kind" not in assert_page(reader.get(URL, {"q": text})).text


def test_values_of_one_facet_widen_and_facets_narrow(reader):
    catalog = make_catalog()
    make_package(
        catalog=catalog, name="a", capability="Deep Insights", install_modes=["OwnNamespace"]
    )
    make_package(catalog=catalog, name="b", capability="Auto Pilot", keywords=["db"])
    make_package(catalog=catalog, name="c", capability="Basic Install")
    both = {"capability": ["Deep Insights", "Auto Pilot"]}
    assert names(reader.get(URL, both)) == ["a", "b"]
    assert names(reader.get(URL, {**both, "install_mode": "OwnNamespace"})) == ["a"]
    assert names(reader.get(URL, {"keyword": "db"})) == ["b"]


def test_a_filter_on_the_source_shows_the_row_of_that_source(reader):
    make_package(catalog=make_catalog(name="red", priority=1), name="etcd", display_name="red etcd")
    make_package(catalog=make_catalog(name="blue"), name="etcd", display_name="blue etcd")
    (card,) = reader.get(URL, {"catalog": "blue"}).context["cards"]
    assert card.row.display_name == "blue etcd"
    assert len(card.sources) == 2


def test_a_facet_link_adds_its_value_and_a_chosen_one_takes_it_away(reader):
    make_package(categories=["Database"])
    page = reader.get(URL, {"q": "etcd", "page": "1"}).content.decode()
    assert 'href="?q=etcd&amp;category=Database"' in page
    chosen = reader.get(URL, {"q": "etcd", "category": "Database"}).content.decode()
    assert re.search(r'href="\?q=etcd"\s+aria-current="true"', chosen)
    assert 'aria-label="Remove filter Category: Database"' in chosen


@pytest.mark.parametrize(
    ("sort", "order"),
    [("name", ["a", "b", "c"]), ("-name", ["c", "b", "a"]), ("updated", ["b", "a", "c"])],
)
def test_the_list_sorts_by(reader, sort, order):
    catalog = make_catalog()
    for name in ("b", "c", "a"):
        make_package(catalog=catalog, name=name)
    for number, name in ((2, "a"), (3, "b")):
        revision = CatalogRevision.objects.create(
            catalog=catalog, number=number, content_hash="x", created_at=timezone.now()
        )
        CatalogChange.objects.create(revision=revision, kind="bundle added", package=name)
    assert names(reader.get(URL, {"sort": sort})) == order
    assert names(reader.get(URL, {"sort": sort, "view": "table"})) == order


def test_the_table_shows_and_sorts_by_the_numbers_of_channels_and_versions(reader):
    catalog = make_catalog()
    channels = {"beta": ["1.2.0"], "stable": ["1.0.0", "1.1.0", "1.2.0"]}
    make_package(catalog=catalog, name="long", channels={"stable": ["1", "2", "3", "4"]})
    make_package(catalog=catalog, name="short", channels={"stable": ["1.0.0"]})
    make_package(catalog=catalog, name="wide", channels=channels)
    for sort, order in (
        ("-channels", ["wide", "long", "short"]),
        ("-versions", ["long", "wide", "short"]),
        ("versions", ["short", "wide", "long"]),
    ):
        response = reader.get(URL, {"sort": sort, "view": "table"})
        assert names(response) == order
    page = assert_page(response)
    assert "Channels" in page.text
    counts = re.findall(r'data-label="(Channels|Versions)">(\d+)<', response.content.decode())
    assert counts[2:4] == [("Channels", "2"), ("Versions", "3")]
    assert "?sort=-versions&view=table" in page.links
    assert "?sort=-channels&view=table" in page.links


def test_pages_hold_48_packages_and_links_keep_the_filters(reader):
    catalog = make_catalog()
    for number in range(PAGE_SIZE + 2):
        make_package(catalog=catalog, name=f"p{number:03}", categories=["X"], channels={})
    first = reader.get(URL, {"category": "X"})
    assert len(names(first)) == PAGE_SIZE
    assert 'href="?category=X&amp;page=2"' in first.content.decode()
    assert names(reader.get(URL, {"category": "X", "page": "2"})) == [
        f"p{PAGE_SIZE:03}",
        f"p{PAGE_SIZE + 1:03}",
    ]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"page": "-3"}, "Pages are counted from 1"),
        ({"page": "9999999999999999999999"}, "Pages are counted from 1"),
        ({"page": "²"}, "Pages are counted from 1"),
        ({"page": "7"}, "There is no page 7"),
        ({"sort": "price"}, "can be relevance, name, -name, updated, -channels, channels"),
        ({"view": "film"}, "can be cards, table"),
        ({"installed": "maybe"}, "Use yes, failed or no"),
        ({"q": "x" * 10_000}, "cut to its first 200 characters"),
        ({"category": ["a" * 10_000]}, "left out"),
        ({"category": [f"c{n}" for n in range(50)]}, "Only the first 20 values"),
        ({"q": ["one", "two"], "page": ["1", "2"]}, None),
        ({"q": "bell\x07byte", "category": "\x07", "keyword": "a\x07b"}, None),
        ({"q": "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}, None),
        ({"q": "' OR 1=1 --", "unknown": "1"}, None),
        ({"q": "%"}, None),
    ],
)
def test_odd_query_strings_are_answered_with_a_notice_at_most(reader, params, said):
    make_package()
    response = reader.get(URL, params)
    assert response.status_code == 200
    notices = " ".join(response.context["notices"])
    assert (
        (said in notices)
        if said
        else notices in ("", "There is no page 2; the last one, 1, is shown.")
    )


def test_a_broken_percent_escape_is_answered(reader):
    assert reader.get(URL + "?q=%ff%fe&category=%").status_code == 200


def test_hostile_catalog_content_is_escaped(reader):
    evil = '"><script>alert(1)</script>'
    make_package(
        name="evil",
        display_name=evil,
        summary=evil,
        provider=evil,
        categories=[evil],
        channels={evil[:50]: ("1.0.0",)},
    )
    page = reader.get(URL, {"q": "evil"}).content.decode()
    table = reader.get(URL, {"view": "table"}).content.decode()
    assert "<script>alert" not in page + table
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    "name", ["with/slash", "a b", "ünïcode", "plus+sign", "q?x#y", "dot.", "%41"]
)
def test_a_package_of_any_name_is_listed_and_its_link_leads_to_it(reader, name):
    make_package(name=name, channels={})
    (card,) = reader.get(URL).context["cards"]
    if "/" in name:
        assert card.url == ""
    else:
        assert reader.get(card.url).context["package"].name == name


def test_nothing_in_the_page_is_inline(reader):
    make_package(categories=["X"])
    for view in ("cards", "table"):
        page = reader.get(URL, {"view": view}).content.decode()
        assert not re.search(r"<[^>]+\sstyle=", page)
        assert not re.search(r"<[^>]+\son[a-z]+=", page)
        assert "<style" not in page
        assert not re.search(r"<script(?![^>]*src=)", page)


def test_htmx_gets_the_results_only_and_204_while_nothing_changed(reader):
    catalog = make_catalog()
    make_package(catalog=catalog)
    page = reader.get(URL, headers={"HX-Request": "true"})
    text = page.content.decode()
    assert "<html" not in text
    assert text.strip().startswith('<div id="results"')
    rev = page.context["rev"]
    poll = {"headers": {"HX-Request": "true"}}
    assert reader.get(URL, {"rev": rev}, **poll).status_code == 204
    make_package(catalog=catalog, name="newer")
    changed = reader.get(URL, {"rev": rev}, **poll)
    assert changed.status_code == 200
    assert names(changed) == ["etcd", "newer"]


def test_catalogs_without_packages_which_the_facet_does_not_list_are_said(reader):
    cluster = make_cluster()
    make_package(catalog=make_catalog(cluster=cluster, name="full", slug="full"))
    make_catalog(cluster=cluster, name="lab", slug="lab", state="failed")
    response = reader.get(URL)
    assert "1 package in 2 catalogs, 1 of them without packages" in assert_page(response).text
    assert facet(response, "catalog") == {"full": 1}


def test_the_table_shows_the_longest_upgrade_path_of_the_default_channel(reader):
    catalog = make_catalog()
    make_package(catalog=catalog, name="a", channels={"stable": ["0.6.1", "1.0.0", "1.1.0"]})
    make_package(catalog=catalog, name="b", channels={"stable": ["1.0.0", "1.1.0"]})
    make_package(catalog=catalog, name="c", channels={"stable": ["1.0.0"], "old": ["1", "2"]})
    make_package(catalog=catalog, name="d", channels={"stable": [f"1.{n}.0" for n in range(6)]})
    text = assert_page(reader.get(URL, {"view": "table"})).text
    assert "Longest upgrade path" in text
    cells = re.findall(
        r'data-label="Longest upgrade path" class="olm-path">(.*?)</td>',
        reader.get(URL, {"view": "table"}).content.decode(),
    )
    assert [re.sub("<.*?>", " ", cell).strip() for cell in cells] == [
        "2 steps 0.6.1 → 1.0.0 → 1.1.0",
        "1 step",
        "No upgrade",
        "5 steps 1.0.0 → 4 more → 1.5.0",
    ]


def test_an_unknown_upgrade_path_is_no_missing_upgrade(reader):
    catalog = make_catalog(access_method="PackageManifest")
    make_package(catalog=catalog, name="a", channels={"stable": ["1.0.0", "1.1.0"]})
    make_package(catalog=catalog, name="b", channels={"stable": ["1.0.0"]})
    text = assert_page(reader.get(URL, {"view": "table"})).text
    text = text.partition("Longest upgrade path")[2]
    unknown, single = text.split("Not known: the PackageManifest API has no upgrade graph")
    assert "No upgrade" in single
    assert "No upgrade" not in unknown


def test_the_upgrade_path_of_a_package_manifest_is_that_of_the_cluster_catalog(reader):
    cluster = make_cluster()
    versions = {"stable": ["0.6.1", "1.0.0", "1.1.0"]}
    listed = make_catalog(
        cluster=cluster, name="demo", slug="listed", source_kind="CatalogSource", priority=9,
        access_method="PackageManifest",
    )  # fmt: skip
    full = make_catalog(cluster=cluster, name="demo", slug="full", source_kind="ClusterCatalog")
    ChannelEntry.objects.filter(
        channel__package=make_package(catalog=listed, channels=versions)
    ).update(replaces="")
    for head, expected in (("1.2.0", False), ("1.1.0", True)):
        Package.objects.filter(catalog=full).delete()
        make_package(catalog=full, channels={"stable": [*versions["stable"][:2], head]})
        response = reader.get(URL, {"view": "table"})
        assert response.context["cards"][0].row.catalog == "listed"
        assert ("2 steps 0.6.1 → 1.0.0 → 1.1.0" in assert_page(response).text) == expected


def test_sources_are_compared_by_the_access_method_that_reads_most(reader):
    cluster = make_cluster()
    listed = make_catalog(
        cluster=cluster, name="demo", slug="listed", source_kind="CatalogSource", priority=9
    )
    full = make_catalog(cluster=cluster, name="demo", slug="full", source_kind="ClusterCatalog")
    for catalog in (listed, full):
        make_package(catalog=catalog, channels={"stable": ["1.1.0"]}, provider="Red Hat")
    other = make_catalog(name="other")
    make_package(catalog=other, channels={"stable": ["1.0.0"]}, provider="Somebody")
    response = reader.get(URL)
    assert response.context["cards"][0].row.catalog == "listed"
    links = [link for link in assert_page(response).links if "/compare?" in link]
    assert links == ["/catalogs/compare?from=prod%2Ffull&to=-%2Fother&package=etcd"]


def test_a_facet_finds_packages_by_their_upgrade_path(reader):
    catalog, single = make_catalog(), {"stable": ["1.0.0"]}
    make_package(catalog=catalog, name="over", channels={"stable": ["1.0.0", "1.1.0", "1.2.0"]})
    make_package(catalog=catalog, name="direct", channels={"stable": ["1.0.0", "1.1.0"]})
    make_package(catalog=catalog, name="none", channels=single, keywords=["direct"])
    listed = make_catalog(name="listed", access_method="PackageManifest")
    make_package(catalog=listed, name="unknown")
    everything = reader.get(URL)
    assert facet(everything, "upgrade_path") == {
        "Direct to newest version": 1,
        "Over intermediate versions": 1,
        "No upgrade": 1,
        "Not known": 1,
    }
    assert "?upgrade_path=intermediate" in assert_page(everything).links
    for view in ("cards", "table"):
        query = {"upgrade_path": "direct", "view": view}
        assert names(reader.get(URL, query)) == ["direct"]
    chosen = reader.get(URL, {"upgrade_path": "intermediate", "keyword": "direct"})
    assert [label.value for label in chosen.context["labels"]] == [
        "Over intermediate versions", "direct"
    ]  # fmt: skip


def test_a_table_costs_no_more_queries_than_cards(reader, django_assert_num_queries):
    catalog = make_catalog()
    for number in range(12):
        make_package(catalog=catalog, name=f"p{number}")
    reader.get(URL)
    with CaptureQueriesContext(connection) as queries:
        reader.get(URL)
    with django_assert_num_queries(len(queries)):
        assert "1 step" in assert_page(reader.get(URL, {"view": "table"})).text


def test_a_list_costs_few_queries_and_the_index_is_read_once(reader, django_assert_max_num_queries):
    cluster = make_cluster()
    for number in range(10):
        catalog = make_catalog(name=f"c{number}", cluster=cluster)
        for package in range(6):
            make_package(catalog=catalog, name=f"p{package}", channels={})
    make_operator(cluster=cluster, name="p1")
    with django_assert_max_num_queries(14):
        reader.get(URL)
    with django_assert_max_num_queries(9):
        reader.get(URL, {"q": "p1", "category": "none"})


@pytest.mark.parametrize(
    ("catalog", "namespace", "label"),
    [
        ("", "", "Installed"),
        ("redhat-operators", "", "Installed"),
        ("redhat-operators", "openshift-marketplace", "Installed"),
        ("redhat-operators", "team-a", "Installed from team-a/redhat-operators"),
        ("community-operators", "openshift-marketplace", "Installed from community-operators"),
    ],
)
@pytest.mark.parametrize("view", ["cards", "table"])
def test_an_operator_of_another_catalog_is_not_installed_from_this_one(
    reader, view, catalog, namespace, label
):
    cluster = make_cluster()
    shown = make_catalog(
        cluster=cluster, source_kind="CatalogSource", namespace="openshift-marketplace"
    )
    make_package(catalog=shown, name="a")
    operator = make_operator(
        cluster=cluster, name="a", catalog=catalog, catalog_namespace=namespace
    )
    assert installed_labels(reader.get(URL, {"view": view})) == [label]
    operator.health = "Failed"
    operator.save()
    make_operator(cluster=cluster, name="second", package="a")
    labels = installed_labels(reader.get(URL, {"view": view, "q": ""}))
    assert sorted(labels) == [label.replace("Installed", "Failed"), "Installed"]


def installed_labels(response) -> list[str]:
    """The labels Installed and Failed, with the text behind them that names a catalog."""
    page = re.sub(r"</?span[^>]*>", "", response.content.decode())
    labels = re.findall(r"</svg>((?:Installed|Failed)(?: from [^<\s]+)?)\s*<", page)
    return [" ".join(words.split()) for words in labels]


def test_a_failed_attempt_is_labelled_failed_and_not_installed(reader):
    cluster = make_cluster()
    make_package(catalog=make_catalog(cluster=cluster), name="a")
    operator = make_operator(cluster=cluster, name="a", health="Failed")
    failed = reader.get(URL)
    assert facet(failed, "installed") == {"Yes": 0, "Failed or blocked": 1, "No": 0}
    assert names(reader.get(URL, {"installed": "failed"})) == ["a"]
    assert names(reader.get(URL, {"installed": "yes"})) == []
    assert re.search(r"</svg>Failed<", failed.content.decode())
    assert not re.search(r"</svg>Installed<", failed.content.decode())
    operator.health = "Healthy"
    operator.save()
    healthy = reader.get(URL, {"q": ""})
    assert facet(healthy, "installed") == {"Yes": 1, "Failed or blocked": 0, "No": 0}
    assert re.search(r"</svg>Installed<", healthy.content.decode())
