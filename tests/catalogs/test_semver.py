"""Versions, their text keys, and the two range grammars."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.semver import (
    KEY_LENGTH,
    Version,
    blang_range,
    blang_spans,
    masterminds_range,
    parse,
    sort_key,
    version_release,
)

ASCENDING = [
    "0.0.0-0",
    "0.0.0",
    "0.9.0",
    "0.10.0",
    "1.0.0-0",
    "1.0.0-9",
    "1.0.0-10",
    "1.0.0--",
    "1.0.0-A",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-alpha1",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1-1",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
    "10.0.0",
    "18446744073709551615.0.0",
]

word = st.text("-abzAZ019", min_size=1, max_size=4).filter(
    lambda text: not (text.isdigit() and len(text) > 1 and text[0] == "0")
)
version = st.builds(
    Version,
    st.integers(0, 2**64 - 1) | st.integers(0, 11),
    st.integers(0, 11),
    st.integers(0, 101),
    st.lists(word, max_size=4).map(tuple),
    st.lists(word, max_size=2).map(tuple),
)


def test_versions_compare_in_semver_order():
    parsed = [parse(text) for text in ASCENDING]

    assert sorted(map(parse, reversed(ASCENDING))) == parsed
    assert all(low < high and low != high for low, high in itertools.pairwise(parsed))


def test_keys_of_versions_sort_as_text_in_semver_order():
    keys = [sort_key(text) for text in ["not a version", *ASCENDING]]

    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert all(key.isascii() and key.isdigit() for key in keys)


@given(version, version)
def test_a_key_compares_as_its_version_does(one, other):
    first, second = sort_key(str(one)), sort_key(str(other))

    assert (first < second, first == second) == (one < other, one == other)
    assert len(first) <= KEY_LENGTH


@given(st.lists(st.text("ab1", min_size=100, max_size=150), min_size=2, max_size=2))
def test_a_key_cut_to_the_column_never_sorts_the_wrong_way(words):
    low, high = sorted(f"1.0.0-x{word}{'y' * 200}" for word in words)

    assert sort_key(low) <= sort_key(high)
    assert len(sort_key(low)) == KEY_LENGTH


@given(version)
def test_a_version_reads_back_from_its_text(one):
    again = parse(str(one))

    assert (again, again.build) == (one, one.build)


@given(st.text(max_size=30))
def test_any_text_either_parses_or_gives_one_sentence(text):
    try:
        outcome = str(parse(text))
    except ValueError as error:
        outcome = str(error)

    assert outcome == text if sort_key(text) != "0" else outcome.endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "v1.2.3",
        "1.2",
        "1.2.3.4",
        "01.2.3",
        "1.2.3-01",
        "1.2.3-",
        "1.2.3+",
        "1.2.3-a..b",
        "1.2.3+a..b",
        "1.2.3\n",
        " 1.2.3",
        "",
        "1.2.x",
        "1.2.3-é",
        "١.2.3",
        "18446744073709551616.0.0",
        "1.0.0-18446744073709551616",
        "1.2.3-a_b",
    ],
)
def test_a_text_that_is_no_strict_version_is_refused(text):
    with pytest.raises(ValueError, match=r"\.$"):
        parse(text)


def test_build_metadata_is_no_part_of_comparison():
    assert parse("1.0.0+1") == parse("1.0.0+2")
    assert hash(parse("1.0.0+1")) == hash(parse("1.0.0"))
    assert sort_key("1.0.0+1") == sort_key("1.0.0")


@pytest.mark.parametrize(
    ("text", "version_text", "release"),
    [
        ("1.0.0", "1.0.0", ""),
        ("1.0.0+1", "1.0.0", "1"),
        ("1.0.0-rc.1+0.170", "1.0.0-rc.1", "0.170"),
        ("1.0.0+12345678901234567890", "1.0.0", "12345678901234567890"),
        ("1.0.0+123456789012345678901", "1.0.0+123456789012345678901", ""),
        ("1.0.0+01", "1.0.0+01", ""),
    ],
)
def test_build_metadata_that_reads_as_a_release_becomes_it(text, version_text, release):
    result = version_release(text)

    assert (str(result.version), result.release) == (version_text, release)


def test_releases_order_versions_that_are_equal():
    ordered = [version_release(f"1.0.0{build}") for build in ("", "+1", "+2", "+10", "+a")]

    assert all(low < high and low != high for low, high in itertools.pairwise(ordered))
    assert version_release("1.0.1") > ordered[-1]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.0.0 <2.0.0", "1.0.0 1.9.9 2.0.0-rc.1", "0.9.9 2.0.0 1.0.0-rc.1"),
        ("<1.0.0", "0.9.0 1.0.0-rc1", "1.0.0"),
        ("1.0.0", "1.0.0 1.0.0+b", "1.0.1"),
        ("==1.0.0", "1.0.0", "1.0.1"),
        ("!=1.0.0", "1.0.1", "1.0.0"),
        ("!1.0.0", "1.0.1", "1.0.0"),
        ("> 1.0.0", "1.0.1", "1.0.0"),
        ("<=1.0.0", "1.0.0", "1.0.1"),
        ("1.2.x", "1.2.0 1.2.9", "1.1.9 1.3.0"),
        ("1.x", "1.0.0 1.9.9", "2.0.0"),
        ("1.x.x", "1.0.0 1.9.9", "2.0.0"),
        (">1.2.x", "1.3.0", "1.2.9"),
        ("<=1.2.x", "1.2.9 0.1.0", "1.3.0"),
        (">= 1.2.x", "1.2.0", "1.1.0"),
        ("<1.2.x", "1.1.9", "1.2.0"),
        ("!=1.2.x", "", "1.1.0 1.2.0 1.3.0"),
        (">=2.1.x <2.2.1", "2.1.0 2.2.0", "2.0.9 2.2.1"),
        ("1.2.x || >3.0.0", "1.2.9 3.0.1", "2.0.0"),
        (">=1.0.0 <1.31.0-nightly-2026-08-10", "1.30.0 1.31.0-nightly-2026-08-09", "1.31.0"),
    ],
)
def test_a_blang_range_takes_the_versions_it_names(text, inside, outside):
    contains = blang_range(text)

    assert [each for each in inside.split() if not contains(parse(each))] == []
    assert [each for each in outside.split() if contains(parse(each))] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "^1.0.0",
        "~1.0.0",
        ">=1.0.0, <2.0.0",
        "v1.0.0",
        "|| 1.0.0",
        "1.0.0 ||",
        ">",
        "x",
        "1.0.0 || || 2.0.0",
        "=>1.0.0",
        "1",
        "1.x.2",
        "1.2.3.x",
        "1.2.3\n",
    ],
)
def test_a_text_that_is_no_blang_range_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"\.$"):
        blang_range(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.2.3", "1.2.3 1.2.3+b", "1.2.4 1.2.3-rc.1"),
        ("=v1.2.3", "1.2.3", "1.2.4"),
        ("1.2", "1.2.0 1.2.9", "1.3.0 1.2.0-rc.1"),
        ("1.x", "1.0.0 1.9.9", "2.0.0 0.9.0"),
        ("*", "0.0.0 9.9.9", "1.0.0-rc.1"),
        ("", "0.0.0 9.9.9", "1.0.0-rc.1"),
        (">=1.0.0, <2.0.0", "1.0.0 1.9.9", "2.0.0 1.5.0-rc.1"),
        (">=1.0.0 <2.0.0", "1.0.0", "2.0.0"),
        (">= 1.0.0 , < 2.0.0", "1.0.0", "2.0.0"),
        ("=>1.0 =<1.4", "1.4.9 1.0.0", "1.5.0"),
        ("~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("~>1.2", "1.2.0", "1.3.0"),
        ("~1", "1.0.0 1.9.0", "2.0.0"),
        ("~0.0.0", "0.0.0 5.0.0", "1.0.0-a"),
        ("^1.2.3", "1.2.3 1.9.0", "2.0.0 1.2.2"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3.0"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^0.0", "0.0.9", "0.1.0"),
        ("^0", "0.9.0", "1.0.0"),
        (">11", "12.0.0", "11.1.0"),
        (">11.1", "11.2.0", "11.1.5"),
        ("<=11", "11.9.9 1.0.0", "12.0.0"),
        ("<11", "10.9.9", "11.0.0"),
        ("!=1.2", "1.3.0", "1.2.5"),
        ("!=1.2.3", "1.2.4", "1.2.3"),
        ("1.2 - 1.4.5", "1.2.0 1.4.5", "1.4.6 1.1.0"),
        ("1.2.3 - 2 || 5.x", "1.2.3 2.9.0 5.1.0", "3.0.0 1.2.2"),
        (">=1.0.0-0", "1.0.0-rc.1 2.0.0-a", "0.9.0"),
        (">=1.0.0-0 <2.0.0", "1.5.0-rc.1", "2.0.0"),
        (">=1.0.0-0 <1.1.0 || >=3.0.0", "1.0.0-rc.1 3.0.0", "3.1.0-rc.1"),
    ],
)
def test_a_masterminds_range_takes_the_versions_it_names(text, inside, outside):
    contains = masterminds_range(text)

    assert [each for each in inside.split() if not contains(parse(each))] == []
    assert [each for each in outside.split() if contains(parse(each))] == []


@pytest.mark.parametrize(
    "text", ["abc", ">>1.0.0", "1.0.0,", "1.2.3.4", ">=", "1.0.0 foo", "&1", "1.0.0-01", "1.x-é"]
)
def test_a_text_that_is_no_masterminds_range_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"\.$"):
        masterminds_range(text)


def test_alternatives_that_take_the_same_versions_are_one_span():
    keys = [parse(f"{major}.0.0").key for major in range(1_000)]
    assert blang_spans(" || ".join([">0.x"] * 70), keys) == [(1, 1_000)]
    assert blang_spans("!=5.0.0 || >=990.0.0", keys) == [(0, 5), (6, 1_000)]


def test_a_masterminds_range_of_any_length_is_refused_at_once():
    with pytest.raises(ValueError, match=r"is longer than 2,000 characters\.$"):
        masterminds_range("1" * 1_000_000)  # would take hours


@given(st.text("0123.xX*v|,<>=!~^- ab", max_size=40))
def test_any_range_text_compiles_or_gives_one_sentence(text):
    for compile_range in (blang_range, masterminds_range):
        try:
            outcome: object = compile_range(text)(Version(1, 2, 3))
        except ValueError as error:
            outcome = str(error)[-1]

        assert outcome in (True, False, ".")


def test_a_compiled_range_is_kept():
    assert blang_range(">=1.2.3 <4.5.6") is blang_range(">=1.2.3 <4.5.6")


def test_seven_thousand_versions_parse_fast():
    texts = [f"{i % 9}.{i}.{i % 7}" + ("-rc.1" if i % 6 == 0 else "") for i in range(7000)]
    best = 9.0
    for _ in range(3):
        parse.cache_clear()
        start = time.perf_counter()
        for text in texts:
            parse(text)
        best = min(best, time.perf_counter() - start)

    assert best < 0.15  # about 0.03 s when nothing else runs; the margin is for busy machines


@given(
    st.sampled_from(
        [">=1.0.0 <2.0.0", "!=1.5.0", "1.x || >3.0.0-rc.1", "<=1.5.0", "2.0.0", "!=1.x"]
    ),
    st.lists(st.sampled_from(["0.9.0", "1.0.0-rc.1", "1.0.0", "1.5.0", "2.0.0", "3.0.0-rc.2"])),
)
def test_a_range_selects_from_sorted_versions_what_it_contains(text, listed):
    versions = sorted(parse(each) for each in listed)
    spans = blang_spans(text, [version.key for version in versions])
    chosen = [i for low, high in spans for i in range(low, high)]
    assert chosen == [i for i, version in enumerate(versions) if blang_range(text)(version)]
