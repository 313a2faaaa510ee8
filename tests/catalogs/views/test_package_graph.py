"""Channels and Versions of a package: semantics, ways, folds, files, and what would be chosen."""

import re
from xml.etree import ElementTree

import pytest

from catalogs.models import ChannelEntry
from tests.catalogs.views.test_package import EVIL, text_of, url
from tests.factories import (
    make_bundle,
    make_catalog,
    make_channel,
    make_cluster,
    make_operator,
    make_package,
    make_prediction,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def etcd():
    """1.0.0 <- 1.1.0 <- 2.0.0 in stable; 1.2.0 alone in old."""
    return make_package(
        name="etcd",
        channels={"stable": ("1.0.0", "1.1.0", "2.0.0"), "old": ("1.2.0",)},
        bundles={"1.1.0": {"deprecated": True, "deprecation": "It leaks."}},
    )


def test_a_catalog_of_a_cluster_is_read_as_olm_v1_does_and_others_as_v0(reader, etcd):
    assert reader.get(url(etcd, tab="channels")).context["semantics"] == "v0"
    served = make_package(catalog=make_catalog(name="c", cluster=make_cluster()), name="etcd")
    response = reader.get(url(served, tab="channels"))
    assert response.context["semantics"] == "v1"
    assert response.context["together"]
    other = reader.get(url(etcd, tab="channels", semantics="v9"))
    assert "“semantics” can be v0, v1" in " ".join(other.context["notices"])


@pytest.mark.parametrize(
    ("extension", "subscription", "semantics"),
    [
        ("installable", "installable", "v1"),
        ("not_installable", "installable", "v0"),
        ("unknown", "installable", "v0"),
        ("not_installable", "not_installable", "v1"),
    ],
)
def test_a_catalog_of_both_kinds_is_read_as_the_method_that_install_begins_with(
    reader, extension, subscription, semantics
):
    cluster = make_cluster()
    served = make_package(
        catalog=make_catalog(name="c", cluster=cluster), name="etcd", channels={"a": ("1.0.0",)}
    )
    bundle = served.bundles.get()
    make_prediction(bundle=bundle, path="ClusterExtension", verdict=extension)
    make_prediction(bundle=bundle, path="Subscription", target="all", verdict="not_installable")
    make_prediction(bundle=bundle, path="Subscription", target="own", verdict=subscription)
    # A Subscription needs a CatalogSource.
    assert reader.get(url(served, tab="channels")).context["semantics"] == "v1"
    source = make_catalog(
        name="c", slug="marketplace.c", cluster=cluster, source_kind="CatalogSource"
    )
    make_package(catalog=source, name="etcd")
    for tab in ("channels", "versions"):
        assert reader.get(url(served, tab=tab)).context["semantics"] == semantics
    assert reader.get(url(served, tab="channels", semantics="v1")).context["semantics"] == "v1"


def test_a_channel_says_over_which_versions_its_oldest_one_is_upgraded(reader, etcd):
    sentence = "Upgrades from 1.0.0: 1.1.0, then 2.0.0."
    assert sentence in text_of(reader.get(url(etcd, tab="channels", semantics="v0")))
    ChannelEntry.objects.filter(name="etcd.v2.0.0").update(skip_range="<2.0.0")
    for semantics in ("v0", "v1"):
        direct = text_of(reader.get(url(etcd, tab="channels", semantics=semantics)))
        assert "Upgrades from" not in direct


def test_v1_sees_all_channels_together_unless_one_is_chosen(reader, etcd):
    everything = reader.get(url(etcd, tab="channels", semantics="v1"))
    assert everything.context["analysis"].names == {
        "etcd.v1.0.0", "etcd.v1.1.0", "etcd.v2.0.0", "etcd.v1.2.0"
    }  # fmt: skip
    assert "1 version stranded, without upgrade path" in text_of(everything)
    one = reader.get(url(etcd, tab="channels", semantics="v1", channel="old"))
    assert one.context["analysis"].names == {"etcd.v1.2.0"}


def test_the_picker_shows_the_channels_of_the_graph(reader, etcd):
    def picked(**params):
        content = " ".join(reader.get(url(etcd, tab="channels", **params)).content.decode().split())
        picker = content.split('<select name="channel"')[1].split("</select>")[0]
        chosen = re.findall(r'<option value="([^"]*)" ?selected', picker)
        return chosen, 'value=""' in picker

    assert picked() == (["stable"], False), "OLM v0 reads one channel"
    assert picked(semantics="v1") == ([""], True)
    assert picked(semantics="v1", channel="old") == (["old"], True)
    assert picked(channel="", semantics="v0") == (["stable"], False)


def test_the_key_names_the_edges_that_are_drawn(reader, etcd):
    def key(package, **params):
        response = reader.get(url(package, tab="channels", **params))
        return [words for _css, words in response.context["edge_key"]]

    assert key(etcd) == ["replaces"]
    assert key(etcd, **{"from": "etcd.v1.0.0"}) == ["replaces", "upgrade path"]
    channels = {"stable": ("1.0.0",)}
    ranged = make_package(name="ranged", catalog=etcd.catalog, channels=channels)
    entries = ranged.channels.get().entries
    entries.create(ordinal=9, name="ranged.v2.0.0", skip_range=">=1.0.0 <2.0.0")
    assert key(ranged) == [
        "skipRange: from its newest version, and from each version that upgrades by it"
    ]


@pytest.mark.parametrize("semantics", ["v0", "v1"])
def test_each_automatic_upgrade_of_the_table_is_an_edge_of_the_graph(reader, semantics):
    package = make_package(name="p", channels={"stable": ("1.0.0", "1.1.0", "1.2.0", "1.3.0")})
    entries = package.channels.get().entries
    entries.filter(name="p.v1.3.0").update(skip_range="<1.3.0")
    response = reader.get(url(package, tab="channels", semantics=semantics, channel="stable"))
    rows = response.context["rows"]
    assert {row["entry"].name: row["next"] for row in rows if row["next"]} == {
        f"p.v1.{minor}.0": "p.v1.3.0" for minor in range(3)
    }
    svg = response.content.decode().partition("<svg")[2]
    ranged = re.search(r'olm-graph-skipRange"><path[^>]* d="([^"]*)"', svg)
    assert ranged
    assert ranged[1].count("M") == 2, "of 1.0.0 and 1.1.0; 1.2.0 is replaced"
    file = reader.get(f"{url(package)}/graph.mmd?channel=stable&semantics={semantics}")
    text = file.content.decode()
    assert text.count("|skipRange|") == 2


def test_the_way_from_what_is_installed_to_the_head_is_told_and_drawn(reader, etcd):
    make_operator(cluster=make_cluster(), name="etcd", version="1.0.0")
    response = reader.get(url(etcd, tab="channels"))
    assert (
        "2 steps from etcd.v1.0.0 to etcd.v2.0.0, taken by OLM without a pinned version"
        in text_of(response)
    )
    assert response.content.decode().count("olm-graph-route") >= 2


def test_a_way_can_be_asked_for_and_a_wrong_end_is_a_notice(reader, etcd):
    params = {"tab": "channels", "from": "etcd.v1.1.0", "to": "etcd.v1.0.0"}
    response = reader.get(url(etcd, **params))
    assert "No upgrade path from etcd.v1.1.0 to etcd.v1.0.0" in text_of(response)
    gone = reader.get(url(etcd, **{**params, "from": "9.9.9"}))
    assert "“9.9.9” is not in channel stable. It has 2.0.0, 1.1.0, 1.0.0." in text_of(gone)
    assert 'name="from" value="9.9.9"' in " ".join(gone.content.decode().split())
    assert gone.context["way"] is None


def test_an_end_of_a_path_is_a_version_or_a_bundle(reader, etcd):
    for value in ("1.0.0", "v1.0.0", "etcd.v1.0.0"):
        route = reader.get(url(etcd, tab="channels", **{"from": value, "to": "1.1.0"})).context[
            "way"
        ]
        assert (route.start, route.goal, route.reached) == ("etcd.v1.0.0", "etcd.v1.1.0", True)
    for entry in ("etcd-a", "etcd-b"):
        etcd.channels.get(name="stable").entries.create(ordinal=8, name=entry)
        make_bundle(package=etcd, name=entry, version="3.0.0")
    text = text_of(reader.get(url(etcd, tab="channels", **{"from": "3.0.0"})))
    assert "“3.0.0” is the version of several bundles: etcd-a, etcd-b. Enter one." in text


def test_the_form_of_a_path_leads_to_its_answer(reader, etcd):
    page = " ".join(reader.get(url(etcd, tab="channels")).content.decode().split())
    form = page.split("olm-route-form")[1].split(">")[0]
    assert f'action="{url(etcd)}#olm-upgrade-path"' in form
    assert 'id="olm-upgrade-path"' in form


def test_a_path_leads_to_the_installation_of_its_start_with_manual_approval(
    reader, client, olivia, etcd
):
    client.force_login(olivia)
    cluster = make_cluster()
    source = make_catalog(name="c", slug="ns.c", cluster=cluster, source_kind="CatalogSource")
    served = make_package(catalog=source, name="etcd", channels={"a": ("1.0.0", "1.1.0", "1.2.0")})
    params = {"tab": "channels", "from": "1.0.0"}
    page = reader.get(url(served, **params)).content.decode()
    link = re.search(r'href="([^"]*)">Install 1.0.0 with manual approval', page)
    assert link is not None
    form = client.get(link[1].replace("&amp;", "&"))
    values = form.context["values"]
    assert (values["channel"], values["version"], values["approval"]) == ("a", "1.0.0", "Manual")
    assert form.context["path"] == "Subscription"
    assert "with manual approval" not in text_of(reader.get(url(served, semantics="v1", **params)))
    make_operator(cluster=cluster, name="etcd", version="1.0.0")
    assert "with manual approval" not in text_of(reader.get(url(served, **params)))


def test_v1_pins_a_version_that_it_would_pass_by(reader, etcd):
    params = {"tab": "channels", "semantics": "v1", "from": "etcd.v1.0.0"}
    text = text_of(reader.get(url(etcd, **params, to="etcd.v1.1.0")))
    assert "1 step from etcd.v1.0.0 to etcd.v1.1.0" in text


def test_a_channel_that_v0_can_not_order_says_so(reader):
    package = make_package(name="p", channels={"stable": ("1.0.0", "1.1.0")})
    package.channels.get().entries.create(ordinal=9, name="p.v0.9.0")
    text = text_of(reader.get(url(package, tab="channels")))
    assert "OLM v0 can&#x27;t order this channel" in text or "OLM v0 can't order" in text
    assert "2 replacement chains were found" in text
    other = text_of(reader.get(url(package, tab="channels", semantics="v1")))
    assert "replacement chains" not in other


def test_a_fold_opens_by_a_link_that_keeps_the_rest_of_the_address(reader):
    package = make_package(name="p", channels={"all": [f"1.{i}.0" for i in range(90)]})
    page = reader.get(url(package, tab="channels", semantics="v0")).content.decode()
    link = re.search(r'href="(\?[^"]*open=[^"]*)"', page)
    assert link is not None
    address = link[1].replace("&amp;", "&")
    assert address == "?tab=channels&semantics=v0&open=p.v1.85.0#olm-graph-opened"
    opened = reader.get(url(package) + address.partition("#")[0]).content.decode()
    assert 'id="olm-graph-opened"' in opened
    assert "Fold again" in opened
    assert opened.count("olm-graph-node") > page.count("olm-graph-node") + 30


def test_the_oldest_entry_of_a_channel_is_no_peculiarity(reader):
    package = make_package(name="p", channels={"stable": ["1.0.0", "1.1.0", "1.2.0"]})
    assert "without incoming upgrade" not in text_of(reader.get(url(package, tab="channels")))
    ChannelEntry.objects.filter(name="p.v1.1.0").update(replaces="")
    text = text_of(reader.get(url(package, tab="channels")))
    assert "1 version without incoming upgrade: p.v1.1.0 <" in text


def test_the_graph_is_had_as_mermaid_text_and_as_svg(reader, etcd):
    text = reader.get(url(etcd) + "/graph.mmd?channel=stable")
    assert text["Content-Type"] == "text/plain; charset=utf-8"
    assert 'filename="etcd-stable.mmd"' in text["Content-Disposition"]
    body = text.content.decode()
    assert "flowchart LR\n" in body
    assert body.count("-->|replaces|") == 2
    svg = reader.get(url(etcd) + "/graph.svg?semantics=v1")
    assert svg["Content-Type"] == "image/svg+xml"
    assert svg["Content-Security-Policy"].startswith("sandbox;")
    assert ElementTree.fromstring(svg.content).tag.endswith("svg")  # noqa: S314 - our own
    page = text_of(reader.get(url(etcd, tab="channels")))
    assert "flowchart LR" not in page, "fetched when its fold is opened"
    assert "graph.mmd?semantics=v0&amp;channel=stable" in page
    assert reader.get(url(etcd) + "/graph.mmd?channel=gone").status_code == 404


def test_files_of_hostile_names_are_text_and_inert(reader):
    package = make_package(name="evil", channels={})
    channel = make_channel(package=package, name=EVIL)
    channel.entries.create(ordinal=0, name=f"evil.{EVIL}", replaces=EVIL)
    for kind in ("mmd", "svg"):
        answer = reader.get(url(package) + f"/graph.{kind}", {"channel": EVIL})
        assert answer.status_code == 200
        assert b"<script>" not in answer.content
        assert '"' not in answer["Content-Disposition"].partition('filename="')[2][:-1]
        assert answer["X-Content-Type-Options"] == "nosniff"


# -- what would be chosen -------------------------------------------------------------------------


def test_the_versions_tab_answers_what_would_be_chosen(reader, etcd):
    params = {"tab": "versions", "path": "clusterextension", "range": "<2.0.0"}
    response = reader.get(url(etcd, **params))
    text = text_of(response)
    assert 'Chosen: <a href="/software/-/redhat-operators/etcd/etcd.v1.2.0">etcd.v1.2.0</a>' in text
    assert "outside the range &lt;2.0.0" in text
    assert "deprecated: taken only when nothing else is left" in text


def test_a_range_that_can_not_be_read_is_told_at_its_field(reader, etcd):
    params = {"tab": "versions", "path": "subscription", "range": "~1.2", "in": "stable"}
    response = reader.get(url(etcd, **params))
    assert response.status_code == 200
    assert set(response.context["question"]["errors"]) == {"version"}
    text = text_of(response)
    assert 'aria-invalid="true"' in text
    assert "OLM v0 reads ranges such as" in text


def test_many_candidates_are_counted_by_reason(reader):
    package = make_package(name="p", channels={"all": [f"1.{i}.0" for i in range(60)]})
    params = {"tab": "versions", "path": "clusterextension", "range": ">=1.50.0"}
    response = reader.get(url(package, **params))
    assert len(response.context["question"]["candidates"]) == 25
    assert "And 35 outside the range." in text_of(response)


def test_nothing_chosen_shows_the_controllers_words(reader, etcd):
    params = {"tab": "versions", "path": "clusterextension", "range": ">9"}
    text = text_of(reader.get(url(etcd, **params)))
    assert "Nothing would be chosen" in text
    assert (
        "no bundles found for package &quot;etcd&quot; matching version &quot;&gt;9&quot;" in text
    )


def test_versions_are_ordered_as_the_chosen_generation_prefers_them(reader, etcd):
    def order(semantics):
        rows = reader.get(url(etcd, tab="versions", semantics=semantics)).context["rows"]
        return [row["bundle"].version for row in rows]

    assert order("v0") == ["2.0.0", "1.2.0", "1.1.0", "1.0.0"]
    assert order("v1") == ["2.0.0", "1.2.0", "1.0.0", "1.1.0"]


@pytest.mark.parametrize(
    "params",
    [
        {"tab": "channels", "semantics": "v1"},
        {"tab": "channels", "semantics": "v0", "from": "p.v1.1.0"},
        {"tab": "versions", "path": "subscription", "installed": "p.v1.1.0"},
    ],
)
def test_graph_and_choice_cost_a_fixed_number_of_queries(
    reader, params, django_assert_max_num_queries
):
    channels = {f"c{n}": [f"1.{i}.0" for i in range(40 * n, 40 * n + 40)] for n in range(5)}
    package = make_package(name="p", channels=channels)
    with django_assert_max_num_queries(12):
        assert reader.get(url(package, **params)).status_code == 200


def test_a_graph_of_too_many_edges_says_so_and_its_entries_are_still_listed(
    reader, etcd, monkeypatch
):
    monkeypatch.setattr("catalogs.graph.rules.MOST_EDGES", 0)
    etcd.channels.first().entries.update(skip_range=">=0.0.0")
    text = text_of(reader.get(url(etcd, tab="channels", semantics="v1")))
    assert "This graph has too many upgrade edges to compute upgrade paths" in text
    assert "etcd.v1.1.0" in text
    assert "There is no entry" not in text
