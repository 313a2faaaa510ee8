"""Search without a database: words, typing mistakes, marks, name clashes, facets by brute force."""

import dataclasses
import re
import tracemalloc
from html import unescape
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.fbc.bundle import BundleGVKRow, ParsedBundle, RelatedImageRow
from catalogs.fbc.package_texts import (
    MAX_TEXT,
    SearchTerms,
    Texts,
    document,
    fold,
    plain_text,
    repository_of,
    words_of,
)
from catalogs.search.find import ANSWERS, Filters, find_packages, find_rows
from catalogs.search.highlight import has_word, mark, snippet
from catalogs.search.images import digest_of
from catalogs.search.index import (
    COUNTED,
    FACETS,
    NO,
    OF_NAME,
    OF_PASSED,
    PACKAGE_FACETS,
    YES,
    CatalogRows,
    Content,
    Row,
    SearchIndex,
    SearchText,
    bundle_stem,
    differences,
    index_of,
)
from catalogs.search.matching import Hits
from catalogs.search.query import (
    MAX_WORDS,
    SearchQuery,
    Vocabulary,
    distance,
    is_crd_name,
    most_alike,
    pairs_of,
    parse_query,
    provides,
)

# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Strimzi-Kafka operator", ["strimzi", "kafka", "operator"]),
        ("kafka.strimzi.io/KafkaTopic", ["kafka", "strimzi", "io", "kafkatopic"]),
        ("Größe STRASSE straße", ["grosse", "strasse", "strasse"]),
        ("été à Évry", ["ete", "a", "evry"]),
        ("Оператор баз данных", ["оператор", "баз", "данных"]),
        ("数据库 operator", ["数", "据", "库", "operator"]),
        ("snake_case a\x00b \ud800", ["snake", "case", "a", "b"]),
        ('"quoted" AND (NOT x*) ^y:z', ["quoted", "and", "not", "x", "y", "z"]),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_of_any_language(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@given(st.text())
def test_words_of_any_text_hold_nothing_that_a_query_language_knows(text: str) -> None:
    assert "" not in words_of(text)
    assert not set("\"'*:()^-\x00") & set("".join(words_of(text)))


def test_words_of_a_word_are_the_word() -> None:
    for text in ("kafka", "grosse", "оператор", "数"):
        assert words_of(text) == [text] == [fold(text)]


def test_a_document_has_each_word_once_and_not_the_markup() -> None:
    texts = Texts(
        display_name="Kafka Kafka",
        provider="Red Hat",
        keywords=["streaming"],
        summary="Runs Kafka.",
        description_html='<p>Runs <a href="https://example.org/hidden">brokers</a> &amp; more</p>',
    )
    words = document("kafka-operator", texts, ["KafkaTopic"]).split()
    assert sorted(words) == sorted(
        ["kafka", "operator", "streaming", "kafkatopic", "red", "hat", "runs", "brokers", "more"]
    )
    assert plain_text("<p>a</p><p>b &lt;c&gt;</p>") == "a b <c>"


@pytest.mark.slow
def test_a_document_is_cut_from_texts_of_a_bounded_length() -> None:
    texts = Texts(keywords=["\ufdfa" * MAX_TEXT, "streaming"], provider="Red Hat")
    tracemalloc.start()
    words = document("kafka", texts, []).split()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words[0] == "kafka"
    assert "streaming" not in words
    assert peak < 100_000_000  # folding makes 18 characters of each


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("quay.io/a/b:v1", "quay.io/a/b"),
        ("quay.io/a/b@sha256:00", "quay.io/a/b"),
        ("quay.io/a/b:v1@sha256:00", "quay.io/a/b"),
        ("localhost:5000/a", "localhost:5000/a"),
        ("localhost:5000/a:1", "localhost:5000/a"),
        ("", ""),
        ("@", ""),
    ],
)
def test_a_repository_is_a_reference_without_tag_and_digest(image: str, repository: str) -> None:
    assert repository_of(image) == repository


def facts(name: str, gvks: list[tuple[str, str, str, bool]], *images: str) -> ParsedBundle:
    empty: dict[str, Any] = dict.fromkeys(ParsedBundle._fields, "")
    related = [RelatedImageRow("", image) for image in images[1:]]
    rows = [BundleGVKRow(*gvk) for gvk in gvks]
    values = {"name": name, "gvks": rows, "image": images[0], "images": related}
    return ParsedBundle(**{**empty, **values})


def test_a_package_provides_what_its_head_does_and_before_what_others_did() -> None:
    terms = SearchTerms()
    terms.add(facts("a.v1", [("g", "v1", "Old", False), ("g", "v1", "Kept", False)], "q/a:1"))
    terms.add(
        facts("a.v2", [("g", "v1", "Kept", False), ("h", "v1", "Need", True)], "q/a:2", "r/b@x")
    )
    assert terms.words("a", Texts(), "a.v2") == "a kept"
    assert terms.provided_by("a.v2") == ["g/Kept"]
    assert terms.provided_only_by_others("a.v2") == ["g/Old"]
    assert terms.repositories() == ["q/a", "r/b"]


# -- typing mistakes -------------------------------------------------------------------------------


def plain_distance(one: str, other: str) -> int:
    """Optimal string alignment, the whole table."""
    table = [
        [i + j if i * j == 0 else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)
    ]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1,
                table[i][j - 1] + 1,
                table[i - 1][j - 1] + (one[i - 1] != other[j - 1]),
            )
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


WORD = st.text(alphabet="abcd", max_size=9)


@given(WORD, WORD, st.integers(0, 3))
def test_the_distance_is_that_of_the_whole_table_up_to_the_most(
    one: str, other: str, most: int
) -> None:
    assert distance(one, other, most) == min(plain_distance(one, other), most + 1)


@given(st.lists(st.text(alphabet="abcdef", min_size=4, max_size=10), max_size=8), st.data())
def test_a_vocabulary_finds_what_comparing_with_every_word_finds(
    words: list[str], data: st.DataObject
) -> None:
    requested = data.draw(st.text(alphabet="abcdef", min_size=4, max_size=10))
    most = 2 if len(requested) >= 8 else 1
    far = {word: plain_distance(requested, word) for word in words}
    best = min(far.values(), default=99)
    expected = {word for word in words if far[word] == best} if best <= most else set()
    assert set(Vocabulary([" ".join(words)]).near(requested)) == expected


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("promethus", "prometheus"),
        ("promethues", "prometheus"),
        ("elasticsarch", "elasticsearch"),
        ("grafanna", "grafana"),
        ("potsgres", "postgres"),
        ("kafak", "kafka"),
    ],
)
def test_typing_mistakes_are_forgiven(asked: str, meant: str) -> None:
    words = "prometheus elasticsearch grafana postgres kafka operator etcd web"
    assert Vocabulary([words]).near(asked) == (meant,)


@pytest.mark.parametrize("asked", ["etc", "wob", "kafka-like", "mongodb", ""])
def test_short_words_and_other_words_are_not_taken_for_mistakes(asked: str) -> None:
    assert Vocabulary(["etcd web kafka operator"]).near(asked) == ()


def test_names_most_alike_come_best_first() -> None:
    names = {
        name: pairs_of(name) for name in ("prometheus", "prometheus exporter", "grafana", "etcd")
    }
    assert most_alike("prometrics", names, 5, 0.3) == ["prometheus", "prometheus exporter"]
    assert most_alike("xyz", names, 5) == []


# -- what is asked ---------------------------------------------------------------------------------


def test_a_search_is_taken_apart() -> None:
    requested = parse_query(
        'Web provides:kafka.strimzi.io/Kafka "image:quay.io/a" IMAGE:"b" web -x'
    )
    assert requested == SearchQuery(
        words=("web", "image", "quay", "io", "a", "x"),
        provides=("kafka.strimzi.io/Kafka",),
        images=("b",),
    )
    assert parse_query("provides: image: ' \" *").empty
    assert parse_query(" ".join(f"w{n}" for n in range(50))) == SearchQuery(
        words=tuple(f"w{n}" for n in range(MAX_WORDS)), ignored=True
    )


@pytest.mark.parametrize("kind", ["Policy", "Ingress", "Queue"])
def test_plurals_of_crds_are_those_of_kubernetes(kind: str) -> None:
    plural = {"Policy": "policies", "Ingress": "ingresses", "Queue": "queues"}[kind]
    assert is_crd_name(f"{plural}.a.example", f"a.example/{kind}")
    assert not is_crd_name(plural, kind)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kafkas.kafka.strimzi.io", "kafkas.kafka.strimzi.io"),
        (" grafana-operator.v5.4.1 ", "grafana-operator.v5.4.1"),
        ("kafka", ""),
        ("web kafkas.kafka.strimzi.io", ""),
        ("a..b", ""),
    ],
)
def test_one_word_with_dots_may_be_a_name(text: str, name: str) -> None:
    assert parse_query(text).name == name


@given(st.text())
def test_nothing_that_is_typed_is_an_error(text: str) -> None:
    requested = parse_query(text)
    assert len(requested.words) <= MAX_WORDS


@pytest.mark.parametrize(
    ("asked", "provided"),
    [
        ("Kafka", True),
        ("kafka", True),
        ("kafka.strimzi.io/Kafka", True),
        ("kafka.strimzi.io", True),
        ("KafkaTopic", False),
        ("strimzi.io/Kafka", False),
        ("kafkas.kafka.strimzi.io", True),
        ("kafka.kafka.strimzi.io", True),
        ("topics.kafka.strimzi.io", False),
        ("kafkas.strimzi.io", False),
    ],
)
def test_a_kind_is_asked_for_by_kind_group_both_or_its_crd(asked: str, provided: bool) -> None:
    assert provides(asked, "kafka.strimzi.io/Kafka") is provided


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        ("sha256:" + "a" * 64, "a" * 64),
        ("quay.io/a/b@sha256:" + "0" * 64, "0" * 64),
        ("0123456789ab", "0123456789ab"),
        ("SHA256:0123456789ABCDEF", "0123456789abcdef"),
        ("sha256:abc", ""),
        ("quay.io/a/b", ""),
        ("quay.io/a/b:v1", ""),
        ("a" * 65, ""),
    ],
)
def test_a_digest_is_one_from_its_twelfth_character_on(image: str, digest: str) -> None:
    assert digest_of(image) == digest


# -- marks -----------------------------------------------------------------------------------------


def unmarked(html: str) -> str:
    return unescape(html.replace("<mark>", "").replace("</mark>", ""))


@pytest.mark.parametrize(
    ("text", "words", "html"),
    [
        ("Kafka on kafka", ("kafka",), "<mark>Kafka</mark> on <mark>kafka</mark>"),
        ("rekafka", ("kafka",), "re<mark>kafka</mark>"),
        ("Kafkaesque, rekafka", ("kafka",), "<mark>Kafka</mark>esque, rekafka"),
        ("Größe", ("grosse",), "<mark>Größe</mark>"),
        ("<b>kafka", ("kafka",), "&lt;b&gt;<mark>kafka</mark>"),
        ("a <script>", ("script",), "a &lt;<mark>script</mark>&gt;"),
        ("AT&T", ("amp",), "AT&amp;T"),
        ("mark", ("mark", "ma"), "<mark>mark</mark>"),
        ("text", (), "text"),
    ],
)
def test_words_are_marked_and_the_rest_escaped(text: str, words: Any, html: str) -> None:
    assert mark(text, words) == html


@settings(max_examples=300)
@given(st.text(), st.lists(st.text(min_size=1, max_size=4), max_size=4))
def test_marking_changes_nothing_but_escapes_and_marks(text: str, asked: list[str]) -> None:
    words = parse_query(" ".join(asked)).words
    html = str(mark(text, words))
    assert unmarked(html) == text
    assert not re.search(r"<(?!/?mark>)", html)
    assert html.count("<mark>") == html.count("</mark>")


@given(st.text(min_size=1, max_size=600), st.text(alphabet="ab<&", min_size=1, max_size=3))
def test_a_snippet_is_a_marked_part_of_the_text(text: str, asked: str) -> None:
    words = parse_query(asked).words
    html = str(snippet(text, words))
    if html:
        assert "<mark>" in html
        assert not re.search(r"<(?!/?mark>)", html)


def test_a_snippet_shows_what_is_around_the_first_word() -> None:
    text = f"{'before ' * 40}the broker runs{' after' * 40}"
    html = snippet(text, ("broker",))
    assert "the <mark>broker</mark> runs after" in html
    assert html.startswith("… before")
    assert html.endswith("after …")
    assert snippet(text, ("absent",)) == ""
    assert has_word(text, "brok")
    assert not has_word(text, "roker")


# -- the same name ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Said:
    provider: str = ""
    head_bundle: str = ""
    summary: str = ""


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (Said("CNCF", "etcd.v1.0.0", "Keeps keys."), Said("CNCF", "etcd.v2.0.0"), ()),
        (Said("Red Hat"), Said("Red Hat, Inc."), ()),
        (Said("Red Hat"), Said(""), ()),
        (Said("Red Hat"), Said("Somebody"), ("provider",)),
        (Said("", "etcdoperator.v0.9.4"), Said("", "etcd.v0.9.4"), ("bundles",)),
        (
            Said("A", "a.v1", "Runs databases of any size"),
            Said("B", "b.v1", "Sends mails to people"),
            ("provider", "bundles", "description"),
        ),
        (
            Said(summary="Runs Kafka clusters on Kubernetes and OpenShift"),
            Said(summary="Runs Apache Kafka clusters on Kubernetes"),
            (),
        ),
    ],
)
def test_packages_of_one_name_differ_in(one: Said, other: Said, found: tuple[str, ...]) -> None:
    assert differences([one, other]) == found
    assert differences([other, one]) == found
    assert differences([one]) == ()


@pytest.mark.parametrize(
    ("bundle", "stem"),
    [("etcdoperator.v0.9.4", "etcdoperator"), ("a-1.2.3-4", "a"), ("a", "a"), ("", ""),
     ("v1.0.0", "v1.0.0"), ("x.v4.16.0-202401", "x")],
)  # fmt: skip
def test_the_stem_of_a_bundle_is_its_name_without_the_version(bundle: str, stem: str) -> None:
    assert bundle_stem(bundle) == stem


# -- facets, by brute force ------------------------------------------------------------------------


PATHS = ((), ("1", "2"), ("1", "2", "3"), None)
VALUES = st.lists(st.sampled_from("xyz"), max_size=3, unique=True).map(tuple)


def make_row(number: int, name: str, catalog: str, draw: Any) -> Row:
    return Row(
        id=number, name=name, content=Content(name, ""), catalog_id=1, catalog=catalog,
        source=catalog, cluster="-", display_name="",
        summary="", provider=draw(st.sampled_from(["", "x", "y"])), default_channel="",
        head_bundle="", head_version="", icon="", categories=draw(VALUES),
        keywords=draw(VALUES), capability=draw(st.sampled_from(["", "x", "y"])),
        install_modes=draw(VALUES), infrastructure_features=draw(VALUES),
        deprecated=draw(st.booleans()), channel_count=0,
        bundle_count=draw(st.integers(0, 4)),
        provides=draw(VALUES), provided_before=(), repositories=(),
        search_text=SearchText(*[""] * 6), updated=None, rank=(False, 0, catalog, "-"),
        upgrade_path=draw(st.sampled_from(PATHS)),
    )  # fmt: skip


@st.composite
def catalogs(draw: Any) -> SearchIndex:
    places = draw(
        st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("rb")), unique=True, max_size=8)
    )
    rows = tuple(make_row(i, name, where, draw) for i, (name, where) in enumerate(places))
    return index_of({1: CatalogRows((), None, rows)})


CHOICES = st.dictionaries(
    st.sampled_from([*FACETS, *PACKAGE_FACETS, "installed"]),
    st.sets(
        st.sampled_from(["x", "y", "r", "b", "-", YES, NO, "some", "single", "2", "direct"]),
        min_size=1,
        max_size=2,
    ),
    max_size=3,
)


def passes(row: Row, chosen: Any, without: str = "") -> bool:
    return all(
        set(FACETS[name](row)) & values
        for name, values in chosen.items()
        if name != without and name in FACETS
    )


@settings(max_examples=300, deadline=None)
@given(
    catalogs(), CHOICES, st.sets(st.sampled_from("abcd")), st.none() | st.sets(st.integers(0, 7))
)
def test_counts_are_what_choosing_the_value_would_show(
    index: SearchIndex, chosen: Any, here: set[str], ids: set[int] | None
) -> None:
    installed = dict.fromkeys(here, YES)
    hits = None if ids is None else Hits(dict.fromkeys(ids, ()))
    filters = Filters(chosen={name: frozenset(values) for name, values in chosen.items()})
    result = find_packages(index, filters, installed, hits)
    groups = {group.rows[0].name: group.rows for group in index.groups}
    searched = {
        name: [row for row in rows if ids is None or row.id in ids] for name, rows in groups.items()
    }

    def answers(name: str, left: Any) -> dict[str, str]:
        values = {facet: value(left) for facet, value in OF_PASSED.items()}
        values |= {facet: value(groups[name]) for facet, value in OF_NAME.items()}
        return {**values, "installed": YES if name in here else NO}

    def allowed(name: str, left: Any, without: str = "") -> bool:
        return bool(left) and all(
            answer in chosen[facet]
            for facet, answer in answers(name, left).items()
            if facet in chosen and facet != without
        )

    passed = {name: [row for row in rows if passes(row, chosen)] for name, rows in searched.items()}
    shown = {name: left[0] for name, left in passed.items() if allowed(name, left)}
    assert [match.row for match in result.matches] == [shown[name] for name in sorted(shown)]
    for facet in list(FACETS)[:COUNTED]:
        near = {
            name: [row for row in rows if passes(row, chosen, without=facet)]
            for name, rows in searched.items()
        }
        values = {value for rows in near.values() for row in rows for value in FACETS[facet](row)}
        counted = {
            value: sum(
                allowed(name, [row for row in rows if value in FACETS[facet](row)])
                for name, rows in near.items()
            )
            for value in values
        }
        counted = {value: count for value, count in counted.items() if count}
        assert dict(result.counts[facet]) == counted
    for facet in ("installed", *PACKAGE_FACETS):
        of_packages = [
            answers(name, left)[facet]
            for name, left in passed.items()
            if allowed(name, left, without=facet)
        ]
        for answer in ANSWERS[facet]:
            assert result.counts[facet][answer] == of_packages.count(answer)


@settings(max_examples=20, deadline=None)
@given(catalogs())
def test_counts_of_all_packages_are_taken_once_for_an_index(index: SearchIndex) -> None:
    first, second = (find_packages(index, Filters(), {}) for _ in range(2))
    assert first.counts["category"] is second.counts["category"]


@settings(max_examples=100, deadline=None)
@given(catalogs(), st.none() | st.sets(st.integers(0, 7)))
def test_rows_without_counts_are_those_of_the_same_search_with_counts(
    index: SearchIndex, ids: set[int] | None
) -> None:
    hits = None if ids is None else Hits({number: (-number,) for number in ids})
    counted = find_packages(index, Filters(), {}, hits)
    assert find_rows(index, hits) == [match.row for match in counted.matches]
