"""Searching the software catalog: order, typing mistakes, marks, kinds, images, name clashes."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalogs.models import Bundle, Catalog, Package, PackageSearch, PredictionRun
from catalogs.views.software import BUNDLES_OF, BUNDLES_PAGE
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_operator, make_package, make_prediction

URL = "/software/"
DIGEST = "0123456789abcdef" * 4
pytestmark = pytest.mark.django_db


def names(response: Any) -> list[str]:
    return [card.row.name for card in response.context["cards"]]


def found(reader: Client, q: str, **more: str) -> list[str]:
    return names(reader.get(URL, {"q": q, **more}))


def test_the_best_place_of_a_word_comes_first(reader: Client) -> None:
    catalog = make_catalog()
    kinds = {"1.1.0": {"provides": [("streams.example", "v1", "Kafka")]}}
    make_package(catalog=catalog, name="h-described", description_html="<p>It needs kafka.</p>")
    make_package(catalog=catalog, name="g-category", categories=["Kafka"])
    make_package(catalog=catalog, name="f-provider", provider="Kafka people")
    make_package(catalog=catalog, name="e-kind", bundles=kinds)
    make_package(catalog=catalog, name="d-keyword", keywords=["kafka"])
    make_package(catalog=catalog, name="c-title", display_name="Apache Kafka")
    make_package(catalog=catalog, name="kafka-z", display_name="Z")
    make_package(catalog=catalog, name="kafka", display_name="Z")
    make_package(catalog=catalog, name="other")
    order = ["kafka", "kafka-z", "c-title", "d-keyword", "e-kind", "f-provider", "g-category"]
    assert found(reader, "Kafka") == [*order, "h-described"]
    assert found(reader, "kaf") == ["kafka", *order[1:], "h-described"]
    assert found(reader, "kafka", sort="-name")[0] == "kafka-z"


def test_every_word_must_stand_somewhere_in_the_package(reader: Client) -> None:
    catalog = make_catalog()
    make_package(catalog=catalog, name="etcd", description_html="<p>Keeps keys safe.</p>")
    make_package(catalog=catalog, name="vault", description_html="<p>Keeps secrets safe.</p>")
    assert found(reader, "safe") == ["etcd", "vault"]
    assert found(reader, "etcd safe") == ["etcd"]
    assert found(reader, "keys secrets") == []


def test_the_words_of_several_catalogs_are_not_mixed(reader: Client) -> None:
    make_package(catalog=make_catalog(name="a"), name="db", keywords=["one"])
    make_package(catalog=make_catalog(name="b"), name="db", keywords=["two"])
    assert found(reader, "one two") == []
    assert found(reader, "two") == ["db"]


@pytest.mark.parametrize("q", ["größe", "GROSSE", "Größ", "grosse"])
def test_accents_and_case_make_no_difference(reader: Client, q: str) -> None:
    make_package(name="a", description_html="<p>Die Größe zählt.</p>")
    assert found(reader, q) == ["a"]


@pytest.mark.parametrize(
    ("text", "q"),
    [("Оператор баз данных", "ДАННЫХ"), ("分布式数据库", "数据库"), ("데이터베이스", "데이터"),
     ("قاعدة بيانات", "بيانات")],
)  # fmt: skip
def test_words_of_any_language_are_found(reader: Client, text: str, q: str) -> None:
    make_package(name="a", description_html=f"<p>{text}</p>")
    make_package(name="b", catalog=Catalog.objects.get())
    assert found(reader, q) == ["a"]


def test_a_mistyped_name_is_found_and_the_page_says_so(reader: Client) -> None:
    catalog = make_catalog()
    make_package(catalog=catalog, name="prometheus", display_name="Prometheus Operator")
    make_package(catalog=catalog, name="grafana", display_name="Elasticsearch and Grafana")
    response = reader.get(URL, {"q": "promethus"})
    assert names(response) == ["prometheus"]
    page = response.content.decode()
    assert "Nothing is called “promethus”: looked for <strong>prometheus</strong> too" in page
    assert "<mark>Prometheus</mark> Operator" in page
    assert found(reader, "elasticsarch") == ["grafana"]
    assert "Nothing is called" not in reader.get(URL, {"q": "prometheus"}).content.decode()


def test_a_word_that_only_descriptions_have_is_found_beside_names_like_it(reader: Client) -> None:
    catalog = make_catalog()
    make_package(catalog=catalog, name="prometheus")
    make_package(catalog=catalog, name="b", description_html="<p>For promethus users.</p>")
    assert found(reader, "promethus") == ["prometheus", "b"]


def test_what_was_found_is_marked_where_it_stands(reader: Client) -> None:
    make_package(
        name="kafka",
        display_name="Apache Kafka <b>",
        provider="Kafka people",
        summary="Runs kafka & more.",
        description_html="<p>It starts <strong>brokers</strong> &lt;fast&gt;.</p>",
    )
    page = reader.get(URL, {"q": "kafka"}).content.decode()
    assert "Apache <mark>Kafka</mark> &lt;b&gt;" in page
    assert "provided by <mark>Kafka</mark> people" in page
    assert "Runs <mark>kafka</mark> &amp; more." in page
    page = reader.get(URL, {"q": "kafka brokers"}).content.decode()
    assert "It starts <mark>brokers</mark> &lt;fast&gt;." in page
    assert "It starts" not in reader.get(URL, {"q": "kafka"}).content.decode()
    table = reader.get(URL, {"q": "brokers", "view": "table"}).content.decode()
    assert "<mark>brokers</mark>" in table


@pytest.mark.parametrize(
    "q",
    [
        '"', "'", '"kafka', "kafka AND", "NOT", "NEAR(a b)", "kafka*", "^kafka", "words:kafka", "(",
        "-kafka", "a OR b", "kafka;DROP TABLE x", "%", "_", "\\", "&", "|", "!", ":*", "<->",
        "a & !b", "provides:", "image:", "provides:'x", 'image:"', "image:%", "image:_",
        "provides:/", "image:@", "image:sha256:", "*" * 500, "kafka " * 100,
        "a" * 5000, "\ud83d\ude00", "{}", "%s", "{0}", "{% x %}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("view", ["cards", "table"])
def test_no_search_is_an_error(reader: Client, q: str, view: str) -> None:
    make_package(name="kafka")
    q = q.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert reader.get(URL, {"q": q, "view": view}).status_code == 200


def test_who_provides_a_kind(reader: Client) -> None:
    catalog = make_catalog()
    now = {"1.1.0": {"provides": [("kafka.strimzi.io", "v1", "Kafka")]}}
    before = {"1.0.0": {"provides": [("kafka.strimzi.io", "v1", "Kafka")]}}
    other = {"1.1.0": {"provides": [("kafka.ack", "v1", "Cluster")]}}
    make_package(catalog=catalog, name="strimzi", bundles=now)
    make_package(catalog=catalog, name="amq", bundles=before)
    make_package(catalog=catalog, name="kafka-ack", bundles=other)
    response = reader.get(URL, {"q": "provides:Kafka"})
    assert names(response) == ["strimzi", "amq"]
    page = response.content.decode()
    assert "Provides kafka.strimzi.io/Kafka" in page
    assert "Older versions provide kafka.strimzi.io/Kafka" in page
    for q in ("provides:kafka", "provides:kafka.strimzi.io/Kafka", "PROVIDES:kafka.strimzi.io"):
        assert found(reader, q) == ["strimzi", "amq"]
    assert found(reader, "provides:Kaf") == ["strimzi", "amq"]  # still being typed
    assert found(reader, "amq provides:Kafka") == ["amq"]
    assert found(reader, "provides:Kafka provides:Cluster") == []
    assert found(reader, "provides:Nothing") == []
    assert found(reader, "kafka") == ["kafka-ack", "strimzi", "amq"][:2]
    filtered = reader.get(URL, {"provides": "kafka.strimzi.io/Kafka"})
    assert names(filtered) == ["amq", "strimzi"]
    assert "Remove filter Provides: kafka.strimzi.io/Kafka" in filtered.content.decode()


def test_the_names_of_crds_and_bundles_are_found(reader: Client) -> None:
    catalog = make_catalog()
    topics = {"1.1.0": {"provides": [("streams.example", "v1", "Topic")]}}
    make_package(catalog=catalog, name="streams", bundles=topics)
    make_package(catalog=catalog, name="other", keywords=["topics"])
    assert found(reader, "topics.streams.example") == ["streams"]
    assert found(reader, "provides:topics.streams.example") == ["streams"]
    assert found(reader, "queues.streams.example") == []
    assert found(reader, "other.v1.0.0") == ["other"]
    assert found(reader, "other.v9.0.0") == []


def make_users_of_images() -> None:
    for catalog, count in (("red", 2), ("blue", 1)):
        bundles = {
            f"1.{n}.0": {
                "image": f"quay.io/a/bundle:v1.{n}.0",
                "images": [("manager", f"quay.io/a/manager@sha256:{n}{DIGEST[1:]}"), ("", "")],
            }
            for n in range(count)
        }
        make_package(
            catalog=make_catalog(name=catalog), name="a", bundles=bundles,
            channels={"stable": list(bundles)},
        )  # fmt: skip
    make_package(catalog=Catalog.objects.get(slug="red"), name="b")


def test_which_bundles_use_an_image(reader: Client) -> None:
    make_users_of_images()
    response = reader.get(URL, {"q": "image:quay.io/a/manager"})
    assert names(response) == ["a"]
    shown = [(each.bundle.name, each.images) for each, _ in response.context["bundle_rows"]]
    first, second = (f"quay.io/a/manager@sha256:{n}{DIGEST[1:]}" for n in (0, 1))
    assert shown == [("a.v1.1.0", [second]), ("a.v1.0.0", [first]), ("a.v1.0.0", [first])]
    page = response.content.decode()
    assert 'href="/software/-/red/a/a.v1.1.0"' in page
    assert second in page
    assert "1 to 3 of 3, the latest of each package first" in page


@pytest.mark.parametrize(
    ("image", "bundles"),
    [
        (f"sha256:0{DIGEST[1:]}", ["a.v1.0.0", "a.v1.0.0"]),
        (f"1{DIGEST[1:]}", ["a.v1.1.0"]),
        (f"sha256:1{DIGEST[1:12]}", ["a.v1.1.0"]),
        (f"quay.io/a/manager@sha256:1{DIGEST[1:]}", ["a.v1.1.0"]),
        ("quay.io/a/bundle:v1.1.0", ["a.v1.1.0"]),
        ("QUAY.io/A/bundle", ["a.v1.1.0", "a.v1.0.0", "a.v1.0.0"]),
        ("a/manager", ["a.v1.1.0", "a.v1.0.0", "a.v1.0.0"]),
        ("registry.example", ["b.v1.1.0", "b.v1.0.0"]),
        ("quay.io/a/nothing", []),
        ("f" * 64, []),
        ("%", []),
        ("a_manager", []),
    ],
)
def test_images_are_asked_for_by_repository_tag_or_digest(
    reader: Client, image: str, bundles: list[str]
) -> None:
    make_users_of_images()
    response = reader.get(URL, {"q": f"image:{image}"})
    rows = response.context.get("bundle_rows", [])
    assert [each.bundle.name for each, _ in rows] == bundles
    assert names(response) == sorted({name[0] for name in bundles})


def test_a_digest_that_is_too_short_is_told(reader: Client) -> None:
    make_users_of_images()
    response = reader.get(URL, {"q": "image:sha256:0123"})
    assert "first 12 characters" in " ".join(response.context["notices"])


def test_the_bundles_of_an_image_are_paged_and_capped(reader: Client) -> None:
    catalog = make_catalog()
    versions = [f"1.{n}.0" for n in range(BUNDLES_PAGE + 1)]
    make_package(catalog=catalog, name="a", channels={"stable": versions})
    for n in range(BUNDLES_OF):
        make_package(catalog=catalog, name=f"b{n:02}", channels={"stable": ["1.0.0"]})
    q: dict[str, str | int] = {"q": "image:registry.example"}
    first = reader.get(URL, q)
    assert len(first.context["bundle_rows"]) == BUNDLES_PAGE
    assert "bundles_page=2" in first.content.decode()
    assert "not those of 1 more package:" in first.content.decode()
    second = reader.get(URL, {**q, "bundles_page": 2})
    assert len(second.context["bundle_rows"]) == BUNDLES_OF  # one of a, one of each but the last
    beyond = reader.get(URL, {**q, "bundles_page": 9})
    assert beyond.status_code == 200


def test_one_name_with_other_content_is_said_and_in_what(reader: Client) -> None:
    make_package(
        catalog=make_catalog(name="red", priority=1), name="etcd", provider="CNCF",
        summary="Keeps keys and values in a cluster.", channels={"stable": ["1.0.0"]},
    )  # fmt: skip
    make_package(
        catalog=make_catalog(name="blue"), name="etcd", provider="Somebody",
        summary="Mines coins on every node there is.", channels={"stable": ["9.0.0"]},
    )  # fmt: skip
    make_package(catalog=Catalog.objects.get(slug="red"), name="web")
    make_package(catalog=Catalog.objects.get(slug="blue"), name="web")
    for slug in ("red", "blue"):
        bundle = Bundle.objects.get(package__catalog__slug=slug, package__name="etcd")
        bundle.name, bundle.image = "etcd.v0.9.0", f"registry.example/{slug}"
        bundle.save()
    for view in ("cards", "table"):
        page = reader.get(URL, {"view": view}).content.decode()
        assert page.count("Sources differ") == 1
        assert "Its sources differ in versions, images, provider and description" in page
        assert "red (1.0.0), blue (9.0.0)" in page
        assert '<a href="/catalogs/compare?from=-%2Fred&amp;to=-%2Fblue&amp;package=etcd">' in page
    assert page.count("2 sources") == 2


def test_no_result_says_what_was_searched_and_how_to_go_on(reader: Client) -> None:
    make_package(name="prometheus")
    page = reader.get(URL, {"q": "prometrics", "category": "none"}).content.decode()
    for said in ("No results found", "“prometrics”", "and passes the filters", "Clear all filters"):
        assert said in page
    assert 'href="/software/-/redhat-operators/prometheus"' in page


def _judged(package: Package, cluster: Cluster | None = None, **verdicts: str) -> None:
    bundle = package.bundles.get()
    for path, verdict in verdicts.items():
        rule = {"not_installable": "po-install-mode", "unknown": "po-webhook"}.get(verdict, "")
        make_prediction(bundle=bundle, path=path, rule=rule, verdict=verdict, cluster=cluster)


def test_packages_are_filtered_by_the_paths_that_install_them(reader: Client) -> None:
    cluster = make_cluster()
    catalog = make_catalog(cluster=cluster)
    made = {
        name: make_package(catalog=catalog, name=name, channels={"s": ("1.0.0",)})
        for name in "abcd"
    }
    _judged(made["a"], PlatformOperator="installable", Subscription="installable")
    _judged(made["b"], PlatformOperator="not_installable", Subscription="installable")
    _judged(made["c"], PlatformOperator="unknown", Subscription="installable")
    _judged(made["c"], cluster, Subscription="not_installable")
    PredictionRun.objects.create(catalog=catalog, rules_version=1, inputs="h")
    found = reader.get(URL)
    assert [(value.label, value.count) for value in found.context["facets"][0].first] == [
        ("PlatformOperator", 1),
        ("Subscription", 2),
        ("PlatformOperator: facts missing", 1),
    ]
    assert "the page of each package names them" in found.content.decode()
    assert names(reader.get(URL, {"installable": "platformoperator"})) == ["a"]
    assert names(
        reader.get(URL, {"installable": ["platformoperator-unknown", "subscription"]})
    ) == ["a", "b", "c"]
    cards = {card.row.name: card.verdicts for card in found.context["cards"]}
    assert cards["b"] == [
        ("installable", "Installable by Subscription"),
        (
            "not_installable",
            "Not by PlatformOperator: Bundle lacks install mode AllNamespaces",
        ),
    ]
    assert cards["d"] == []
    table = reader.get(URL, {"view": "table"}).content.decode()
    assert "not evaluated yet" in table
    assert "Installable by Subscription" in table


def test_a_method_that_installs_from_one_source_is_not_unknown_too(reader: Client) -> None:
    cluster = make_cluster()
    for name, verdict in (("first", "installable"), ("second", "unknown")):
        catalog = make_catalog(cluster=cluster, name=name)
        package = make_package(catalog=catalog, name="a", channels={"s": ("1.0.0",)})
        _judged(package, PlatformOperator=verdict)
        PredictionRun.objects.create(catalog=catalog, rules_version=1, inputs="h")
    found = reader.get(URL)
    facet = found.context["facets"][0]
    assert [(value.label, value.count) for value in facet.first if value.count] == [
        ("PlatformOperator", 1)
    ]
    assert names(reader.get(URL, {"installable": "platformoperator"})) == ["a"]
    assert names(reader.get(URL, {"installable": "platformoperator-unknown"})) == []


def test_new_predictions_are_seen_at_once(reader: Client) -> None:
    package = make_package(channels={"s": ("1.0.0",)})
    assert reader.get(URL).context["cards"][0].verdicts == []
    _judged(package, Subscription="installable")
    PredictionRun.objects.create(catalog=package.catalog, rules_version=1, inputs="h")
    assert reader.get(URL).context["cards"][0].verdicts == [
        ("installable", "Installable by Subscription")
    ]


def test_the_facet_of_infrastructure_features_narrows(reader: Client) -> None:
    catalog = make_catalog()
    make_package(catalog=catalog, name="a", infrastructure_features=["disconnected"])
    make_package(catalog=catalog, name="b")
    page = reader.get(URL)
    assert "Infrastructure features" in page.content.decode()
    assert names(reader.get(URL, {"infrastructure_feature": "disconnected"})) == ["a"]


def test_a_fragment_for_htmx_has_the_results_and_the_count_to_announce(reader: Client) -> None:
    make_package(name="kafka")
    response = reader.get(URL, {"q": "kafka"}, headers={"HX-Request": "true"})
    text = response.content.decode()
    assert text.strip().startswith('<div id="results"')
    assert re.search(r'role="status">\s*<strong>1</strong> of 1 packages', text)
    assert "<form" not in text


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ({}, 8),
        ({"q": "etcd"}, 9),
        ({"q": "etcd described", "category": "Database"}, 10),
        ({"q": "ectd"}, 10),
        ({"q": "provides:Etcd"}, 8),
        ({"q": "image:quay.io/a"}, 11),
        ({"q": f"image:sha256:{DIGEST}"}, 12),
        ({"view": "table", "q": "described"}, 10),
    ],
)
def test_a_search_costs_few_queries_whatever_it_finds(
    reader: Client, query: dict[str, str], most: int
) -> None:
    cluster = make_cluster()
    bundles = {
        "1.1.0": {
            "provides": [("g", "v1", "Etcd")],
            "images": [("x", f"quay.io/a/b@sha256:{DIGEST}")],
        }
    }
    for number in range(4):
        catalog = make_catalog(name=f"c{number}", cluster=cluster)
        for name in ("etcd", f"etcd-{number}", "web"):
            make_package(
                catalog=catalog, name=name, bundles=bundles, categories=["Database"],
                description_html="<p>Something described.</p>",
            )  # fmt: skip
    make_operator(cluster=cluster, name="etcd")
    reader.get(URL)
    with CaptureQueriesContext(connection) as queries:
        assert names(reader.get(URL, query))
    assert len(queries) <= most, [each["sql"][:120] for each in queries.captured_queries]


def test_the_index_of_words_follows_its_rows() -> None:
    from catalogs.search.matching import packages_with

    package = make_package(name="kafka")
    row = PackageSearch.objects.get(package=package)
    assert packages_with(["kafka", "zebra"]) == [{package.pk}, set()]
    row.words = "zebra"
    row.save()
    assert packages_with(["kafka", "zebra"]) == [set(), {package.pk}]
    Package.objects.all().delete()
    assert packages_with(["kafka", "zebra"]) == [set(), set()]
    assert packages_with([]) == []
