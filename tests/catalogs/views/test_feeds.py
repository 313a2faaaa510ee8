"""Atom feeds of changes: valid, stable, escaped, and cheap for a reader that has them."""

from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from django.test import Client

from catalogs.models import Catalog, CatalogChange
from olmweb.models import Cluster
from tests.factories import make_catalog, make_operator
from tests.worlds.outlines import write_packages

pytestmark = pytest.mark.django_db
ATOM = "{http://www.w3.org/2005/Atom}"
URL = "/catalogs/prod/redhat-operators/changes.atom"
ALL = "/catalogs/changes.atom"
EVIL = "<b>&\x00\x07\ufffe]]>"


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    found = make_catalog(cluster=prod, revision=0)
    write_packages(found, {"etcd": ["1.0.0"]})
    write_packages(found, {"etcd": ["1.0.0", "1.1.0"]})
    revision = found.revisions.get(number=2)
    for fields in (
        {"kind": "bundle added", "subject": "etcd.v1.1.0", "after": "1.1.0"},
        {"kind": "channel head moved", "subject": "stable", "before": "a", "after": "etcd.v1.1.0"},
    ):
        CatalogChange.objects.create(revision=revision, package="etcd", **fields)
    return found


def feed_of(response: Any) -> ElementTree.Element:
    """The feed, after what RFC 4287 asks of feeds and entries was checked."""
    assert response.status_code == 200
    assert response["Content-Type"] == "application/atom+xml; charset=utf-8"
    root = ElementTree.fromstring(response.content)  # noqa: S314 - made by ourselves
    assert root.tag == f"{ATOM}feed"
    assert root.find(f"{ATOM}author/{ATOM}name") is not None
    for node in (root, *root.iter(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            assert len(node.findall(f"{ATOM}{name}")) == 1
            assert node.findtext(f"{ATOM}{name}")
        assert UUID(node.findtext(f"{ATOM}id", "").removeprefix("urn:uuid:"))
        alternates = [link for link in links(node) if link["rel"] == "alternate"]
        assert len(alternates) == 1
    ids = [node.findtext(f"{ATOM}id") for node in root.iter(f"{ATOM}entry")]
    assert len(ids) == len(set(ids))
    return root


def links(node: ElementTree.Element) -> list[dict[str, str]]:
    return [link.attrib for link in node.findall(f"{ATOM}link")]


def entries(root: ElementTree.Element) -> list[tuple[str, str]]:
    return [
        (node.findtext(f"{ATOM}title", ""), node.findtext(f"{ATOM}summary", ""))
        for node in root.iter(f"{ATOM}entry")
    ]


def test_a_feed_has_an_entry_for_each_revision_newest_first(
    reader: Client, catalog: Catalog
) -> None:
    root = feed_of(reader.get(URL))
    (newest, summary), (first, _) = entries(root)
    assert newest == "prod/redhat-operators, revision 2: 1 head moved, 1 bundle added"
    assert first == "prod/redhat-operators, revision 1: first read"
    assert "etcd: Head moved: stable: a → etcd.v1.1.0; Added: etcd.v1.1.0" in summary
    assert {"rel": "self", "href": f"http://testserver{URL}"} in links(root)
    page = "http://testserver/catalogs/prod/redhat-operators?tab=changes"
    assert {"rel": "alternate", "href": page} in links(root)
    entry = next(root.iter(f"{ATOM}entry"))
    assert links(entry) == [{"rel": "alternate", "href": f"{page}&revision=2"}]
    assert reader.get(f"{page}&revision=2").status_code == 200


def test_an_entry_says_what_affects_you_and_keeps_its_id(
    reader: Client, catalog: Catalog, prod: Cluster
) -> None:
    before = feed_of(reader.get(URL))
    make_operator(cluster=prod, name="etcd", channel="stable")
    Cluster.objects.update(revision=99)
    after = feed_of(reader.get(URL, headers={"host": "localhost"}))
    said = entries(after)[0][1]
    assert "Affects you: etcd on prod: upgrade available: the head of its channel stable" in said
    assert [node.text for node in before.iter(f"{ATOM}id")] == [
        node.text for node in after.iter(f"{ATOM}id")
    ]


def test_all_catalogs_share_one_feed(reader: Client, catalog: Catalog) -> None:
    write_packages(make_catalog(name="local", revision=0), {"a": ["1.0.0"]})
    root = feed_of(reader.get(ALL))
    assert [title.split(",")[0] for title, _ in entries(root)] == [
        "-/local", "prod/redhat-operators", "prod/redhat-operators",
    ]  # fmt: skip


def test_a_feed_of_nothing_is_valid(reader: Client) -> None:
    assert entries(feed_of(reader.get(ALL))) == []


def test_a_reader_that_has_the_feed_gets_304_until_a_revision_comes(
    reader: Client, catalog: Catalog, django_assert_max_num_queries: Any
) -> None:
    etag = reader.get(URL)["ETag"]
    with django_assert_max_num_queries(6):
        assert reader.get(URL, headers={"if-none-match": etag}).status_code == 304
    write_packages(catalog, {"etcd": ["2.0.0"]})
    assert reader.get(URL, headers={"if-none-match": etag}).status_code == 200


def test_names_are_text_and_what_xml_has_no_place_for_is_left_out(
    reader: Client, catalog: Catalog
) -> None:
    revision = catalog.revisions.get(number=2)
    evil = EVIL.replace("\x00", "")
    CatalogChange.objects.create(
        revision=revision, kind="bundle added", package=evil, subject=evil, after="2"
    )
    summary = entries(feed_of(reader.get(URL)))[0][1]
    assert "&lt;b&gt;&amp;" in summary, "HTML in which the name is text"
    assert "<b>" not in summary


def test_a_large_revision_is_cut_to_a_readable_entry(reader: Client, catalog: Catalog) -> None:
    revision = catalog.revisions.get(number=2)
    CatalogChange.objects.bulk_create(
        CatalogChange(revision=revision, kind="bundle added", package=f"p{i:03}", subject=f"{j}")
        for i in range(60)
        for j in range(15)
    )
    response = reader.get(URL)
    summary = entries(feed_of(response))[0][1]
    assert "And 41 more packages." in summary
    assert "and 5 more" in summary
    assert len(response.content) < 20_000


def test_an_unknown_catalog_has_no_feed(reader: Client) -> None:
    assert reader.get(URL).status_code == 404


@pytest.mark.parametrize(
    "path", ["/catalogs/", "/catalogs/compare", "/catalogs/prod/redhat-operators"]
)
def test_pages_name_their_feed(reader: Client, catalog: Catalog, path: str) -> None:
    page = reader.get(path).content.decode()
    link = page.split('rel="alternate"')[1].split(">")[0]
    assert 'type="application/atom+xml"' in link
    assert reader.get(link.split('href="')[1].split('"')[0]).status_code == 200
