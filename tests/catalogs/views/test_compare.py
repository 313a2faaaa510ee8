"""The pages of changes: one catalog's revisions, since an earlier one, and any two compared."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from catalogs.models import Bundle, BundleGVK, Catalog, CatalogChange, CatalogRevision
from catalogs.revisions import text
from catalogs.revisions.compare import PackageChange, Sides
from installs.models import Operator
from olmweb.models import Cluster
from tests.factories import make_bundle, make_catalog, make_cluster, make_operator, make_package
from tests.worlds.html import assert_page
from tests.worlds.outlines import write_packages

pytestmark = pytest.mark.django_db
COMPARE = "/catalogs/compare"
URL = "/catalogs/prod/redhat-operators"
EVIL = '"><script>alert(1)</script>'


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    """Two revisions: kept stays, gone goes, new comes, moved gets a version."""
    found = make_catalog(cluster=prod, revision=0)
    write_packages(found, {"kept": ["1.0.0"], "gone": ["1.0.0"], "moved": ["1.0.0", "1.1.0"]})
    write_packages(found, {"kept": ["1.0.0"], "new": ["3.0.0"], "moved": ["1.1.0", "1.2.0"]})
    return found


@pytest.fixture
def other() -> Catalog:
    found = make_catalog(name="next", revision=0)
    write_packages(found, {"kept": ["1.0.0"], "moved": ["2.0.0"]})
    return found


def installed(cluster: Cluster, name: str, version: str = "1.0.0", **fields: Any) -> Operator:
    values = {"kind": "Subscription", "namespace": "ops", "channel": "stable", **fields}
    return make_operator(
        cluster=cluster, name=name, version=version, bundle=f"{name}.v{version}", **values
    )


# --- since an earlier revision ----------------------------------------------------------------


def test_since_an_earlier_revision_is_one_net_difference_in_words(
    reader: Client, catalog: Catalog
) -> None:
    page = assert_page(reader.get(URL, {"tab": "changes", "since": "1"}))
    assert "From revision 1" in page.text
    assert "1 package removed, 1 added, 1 changed; none of your installed operators" in page.text
    assert "1 bundle pruned, 1 head moved, 1 bundle added." in page.text
    assert "stable: moved.v1.1.0 → moved.v1.2.0" in page.text
    assert "kept" not in page.text.split("From revision 1")[1]
    assert "/software/prod/redhat-operators/new" in page.links
    assert "/software/prod/redhat-operators/gone" not in page.links, "it has no page any more"


def test_what_is_installed_from_the_catalog_comes_first_with_the_way_it_is_affected(
    reader: Client, catalog: Catalog, prod: Cluster
) -> None:
    installed(prod, "gone")
    installed(prod, "moved")
    page = assert_page(reader.get(URL, {"tab": "changes", "since": "1"}))
    assert "2 of your installed operators are affected" in page.text
    assert "gone on prod: its package is no longer in the catalog" in page.text
    assert "moved on prod: its installed version 1.0.0 was pruned" in page.text
    assert "the head of its channel stable is now moved.v1.2.0" in page.text
    assert "/operators/prod/Subscription/ops/gone" in page.links


@pytest.mark.parametrize(
    "fields", [{"catalog": "another"}, {"cluster": None}], ids=["another catalog", "cluster"]
)
def test_what_is_installed_from_elsewhere_is_not_affected(
    reader: Client, catalog: Catalog, prod: Cluster, fields: dict[str, Any]
) -> None:
    cluster = make_cluster(name="edge") if "cluster" in fields else prod
    installed(cluster, "gone", catalog=fields.get("catalog", ""))
    page = assert_page(reader.get(URL, {"tab": "changes", "since": "1"}))
    assert "none of your installed operators is affected" in page.text


def test_of_two_catalogsources_of_one_name_an_operator_is_installed_from_its_own(
    reader: Client, prod: Cluster
) -> None:
    for namespace in ("team-a", "team-b"):
        source = make_catalog(
            name="teas",
            slug=f"{namespace}.teas",
            cluster=prod,
            source_kind="CatalogSource",
            namespace=namespace,
            revision=0,
        )
        make_package(catalog=source, name="moved")  # of revision 1
        write_packages(source, {"gone": ["1.0.0"], "moved": ["1.0.0"]})
        write_packages(source, {"moved": ["1.0.0"]})
    installed(prod, "gone", catalog="teas", catalog_namespace="team-a")
    installed(prod, "moved", catalog="teas", catalog_namespace="team-a")
    for namespace, affected, origin in (("team-a", True, ""), ("team-b", False, "team-a/teas")):
        changes = reader.get(f"/catalogs/prod/{namespace}.teas", {"tab": "changes", "since": "2"})
        text = assert_page(changes).text
        assert ("gone on prod: its package is no longer in the catalog" in text) is affected
        package = reader.get(f"/software/prod/{namespace}.teas/moved")
        assert [other for _row, other in package.context["origins_here"]] == [origin]


def test_a_catalog_of_no_cluster_concerns_whatever_is_installed_anywhere(
    reader: Client, other: Catalog, prod: Cluster
) -> None:
    write_packages(other, {"moved": ["2.0.0"]})
    installed(prod, "kept", catalog="redhat-operators")
    page = assert_page(reader.get("/catalogs/-/next", {"tab": "changes", "since": "1"}))
    assert "kept on prod: its package is no longer in the catalog" in page.text


def test_since_a_day_compares_with_what_was_current_then(reader: Client, catalog: Catalog) -> None:
    old = timezone.now() - timedelta(days=9)
    CatalogRevision.objects.filter(number=1).update(created_at=old)
    day = (timezone.now() - timedelta(days=3)).date().isoformat()
    page = assert_page(reader.get(URL, {"tab": "changes", "day": day}))
    assert "From revision 1" in page.text
    before_all = assert_page(reader.get(URL, {"tab": "changes", "since": "2001-01-01"}))
    assert "Revisions before 1 are no longer stored" in before_all.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            {"since": "99"},
            "Revision 99 of catalog prod/redhat-operators is not stored; there are 1",
        ),
        ({"since": "yesterday"}, "the number of a revision or a date such as"),
        ({"since": "2026-99-99"}, "the number of a revision or a date such as"),
        ({"revision": "99"}, "Revision “99” of this catalog is not stored"),
        ({"kind": "nonsense"}, "“kind” can be package added"),
        ({"since": "1", "show": "all"}, "“show” can be"),
        ({"since": "1", "show": "gone", "page": "9"}, "There is no page 9"),
        ({"page": "9"}, "There is no page 9"),
    ],
)
def test_what_can_not_be_read_is_left_out_and_said(
    reader: Client, catalog: Catalog, query: dict[str, str], words: str
) -> None:
    assert words in assert_page(reader.get(URL, {"tab": "changes", **query})).text


# --- revision by revision ---------------------------------------------------------------------


@pytest.fixture
def history(catalog: Catalog) -> Catalog:
    """The second revision tells changes of twenty packages."""
    revision = catalog.revisions.get(number=2)
    for number in range(20):
        for kind in ("bundle added", "channel head moved"):
            CatalogChange.objects.create(
                revision=revision, kind=kind, package=f"p{number:02}", subject="s", after="x"
            )
    return catalog


def test_revisions_are_told_by_package_and_those_that_concern_you_first(
    reader: Client, history: Catalog, prod: Cluster
) -> None:
    installed(prod, "p19", channel="s")
    page = assert_page(reader.get(URL, {"tab": "changes"}))
    assert "Revision 2" in page.text
    assert "20 heads moved, 20 bundles added." in page.text
    assert page.text.index("p19") < page.text.index("p00")
    assert "All 20 packages of revision 2" in page.text
    assert "p15" not in page.text
    assert "nothing to compare with" in page.text, "of revision 1"


def test_one_revision_by_itself_has_all_its_packages_in_pages(
    reader: Client, history: Catalog
) -> None:
    query = {"tab": "changes", "revision": "2", "show": "changed"}
    page = assert_page(reader.get(URL, query))
    assert "20 packages changed" in page.text
    assert all(f"p{number:02}" in page.text for number in range(20))
    assert not any("format=md" in link for link in page.links)


def test_a_filter_narrows_revisions_and_stays_in_the_links(
    reader: Client, history: Catalog
) -> None:
    page = assert_page(
        reader.get(URL, {"tab": "changes", "kind": "bundle added", "package": "p03"})
    )
    assert "1 bundle added." in page.text
    assert "head moved" not in page.text.split("Revision 2")[1]
    assert any("package=p03" in link and "revision=2" in link for link in page.links)
    assert (
        "Nothing that matches the filters"
        in assert_page(reader.get(URL, {"tab": "changes", "package": "nobody"})).text
    )


def test_without_a_change_a_revision_says_so(reader: Client, catalog: Catalog) -> None:
    page = assert_page(reader.get(URL, {"tab": "changes"}))
    assert "No package, channel or bundle differs from the revision before." in page.text


# --- any two compared -------------------------------------------------------------------------


def test_without_a_choice_there_are_two_pickers_with_every_revision(
    reader: Client, catalog: Catalog, other: Catalog
) -> None:
    response = reader.get(COMPARE)
    page = assert_page(response)
    assert "Pick two catalogs" in page.text
    html = response.content.decode()
    for value in ("prod/redhat-operators", "prod/redhat-operators@1"):
        assert html.count(f'<option value="{value}"') == 2
    assert html.count('<option value="-/next">-/next (File)</option>') == 2
    assert html.count('<optgroup label="prod/redhat-operators (ClusterCatalog)">') == 2


def test_a_catalog_with_two_access_methods_is_offered_once(
    reader: Client, prod: Cluster, catalog: Catalog, other: Catalog
) -> None:
    source = make_catalog(
        cluster=prod,
        name="redhat-operators",
        namespace="olm",
        slug="olm.redhat-operators",
        source_kind=Catalog.SourceKind.CATALOG_SOURCE,
        revision=0,
    )
    write_packages(source, {"kept": ["1.0.0"]})
    assert "olm.redhat-operators" not in reader.get(COMPARE).content.decode()
    chosen = reader.get(COMPARE, {"from": str(source), "to": "-/next"}).content.decode()
    option = '<option value="prod/olm.redhat-operators" selected>'
    assert f"{option}prod/olm.redhat-operators (CatalogSource)</option>" in chosen


def test_two_catalogs_are_compared_in_sections(
    reader: Client, catalog: Catalog, other: Catalog, prod: Cluster
) -> None:
    query = {"from": "prod/redhat-operators", "to": "-/next"}
    page = assert_page(reader.get(COMPARE, query))
    assert "1 package only in redhat-operators, 1 in both with differences; a move" in page.text
    assert "1 bundle only in next" in page.text
    first = page.text.index("Only in redhat-operators 1 package")
    assert first < page.text.index("In both with differences 1 package")
    assert "Only in next 0 packages" not in page.text
    heads = "stable: moved.v1.2.0 in redhat-operators, moved.v2.0.0 in next (newer in next)"
    assert heads in page.text
    for word in ("pruned", "removed", "head moved"):
        assert word not in page.text.lower().replace("leftovers of removed operators", "")
    assert "/software/prod/redhat-operators/new" in page.links, "where it can still be seen"
    assert "/software/-/next/moved" in page.links
    swapped = next(link for link in page.links if link.startswith("?from=-"))
    back = assert_page(reader.get(f"{COMPARE}{swapped}"))
    assert "1 package only in redhat-operators, 1 in both with differences" in back.text
    assert "(newer in next)" in back.text


def test_another_catalog_affects_an_installed_operator_only_if_it_moves(
    reader: Client, catalog: Catalog, other: Catalog, prod: Cluster
) -> None:
    query = {"from": "prod/redhat-operators", "to": "-/next"}
    page = assert_page(reader.get(COMPARE, query))
    assert "a move to next would affect none of your installed operators" in page.text
    installed(prod, "new", "3.0.0")
    page = assert_page(reader.get(COMPARE, query))
    assert "a move to next would affect 1 of your installed operators" in page.text
    assert "Installed new on prod: its package is not in next" in page.text
    assert "Affects you" not in page.text
    assert "affected" not in page.text


def written(catalog: Catalog, **facts: Any) -> None:
    """One package with one bundle, as its outline and as its rows."""
    package = make_package(name="kept", catalog=catalog, channels={})
    provides = [("example.com", "v1", kind) for kind in ("Thing", *facts["kinds"])]
    make_bundle(package=package, install_modes=facts["modes"], provides=provides)
    write_packages(catalog, {"kept": ["1.0.0"]}, install_modes=facts["modes"], image=facts["image"])


@pytest.fixture
def pair(prod: Cluster) -> tuple[Catalog, Catalog]:
    first = make_catalog(cluster=prod, name="first", revision=0)
    second = make_catalog(cluster=prod, name="second", revision=0)
    written(first, modes=["OwnNamespace"], kinds=[], image="registry.example/kept:1")
    written(second, modes=["AllNamespaces"], kinds=["Other"], image="")
    return first, second


def test_requirements_and_apis_that_differ_are_named(
    reader: Client, pair: tuple[Catalog, Catalog]
) -> None:
    page = assert_page(reader.get(COMPARE, {"from": str(pair[0]), "to": str(pair[1])}))
    assert "kept.v1.0.0: install modes OwnNamespace in first, install modes AllNames" in page.text
    assert "AllNamespaces; provided APIs Other.v1.example.com in second" in page.text
    assert "Images differ" in page.text.split("From prod/first")[1]
    assert "not compared" not in page.text


def test_a_display_name_that_differs_is_no_requirement(
    reader: Client, pair: tuple[Catalog, Catalog]
) -> None:
    Bundle.objects.filter(package__catalog=pair[1]).update(display_name="Kept (community)")
    query = {"from": str(pair[0]), "to": str(pair[1])}
    page = assert_page(reader.get(COMPARE, query))
    assert "1 bundle with different requirements or APIs" in page.text
    assert "1 bundle with different display names" in page.text
    names = "kept.v1.0.0: Kept (community) only in second"
    assert names in page.text.split("Display names differ")[-1]
    Bundle.objects.filter(package__catalog=pair[1]).update(
        install_modes=["OwnNamespace"], display_name="Other"
    )
    page = assert_page(reader.get(COMPARE, query))
    assert "kept.v1.0.0: provided APIs Other.v1.example.com only in second" in page.text
    BundleGVK.objects.all().delete()
    page = assert_page(reader.get(COMPARE, query))
    assert "1 bundle with different display names" in page.text
    assert "1 bundle with different requirements or APIs" not in page.text
    page = assert_page(reader.get(COMPARE, query | {"kind": "display name changed"}))
    assert "Display names differ" in page.text
    assert "Images differ" not in page.text.split("From prod/first")[1]
    api = {**query, "kind": "display-name-changed"}
    rows = reader.get("/api/v1/compare", api).json()["items"]
    assert [(row["kind"], row["after"]) for row in rows] == [("display-name-changed", "Other")]


def test_a_display_name_in_past_revisions_is_no_requirement(reader: Client, prod: Cluster) -> None:
    for name in ("first", "second"):
        catalog = make_catalog(cluster=prod, name=name, revision=0)
        for _ in range(2):  # the bundles of the first revision are not stored any more
            write_packages(catalog, {"kept": ["1.0.0"]}, display_name=f"Kept {name}")
    query = {"from": "prod/first@1", "to": "prod/second@1"}
    page = assert_page(reader.get(COMPARE, query))
    assert "1 bundle with different display names" in page.text
    assert "Display names differ kept.v1.0.0" in page.text
    assert "different requirements or APIs" not in page.text
    for catalog in Catalog.objects.all():
        modes = [f"{catalog.name}Namespace"]
        write_packages(catalog, {"kept": ["1.0.0"]}, display_name=catalog.name, install_modes=modes)
        write_packages(catalog, {})
    page = assert_page(reader.get(COMPARE, {"from": "prod/first@3", "to": "prod/second@3"}))
    assert "1 bundle with different requirements or APIs" in page.text


def test_each_difference_is_on_a_line_of_its_own_with_short_digests(
    reader: Client, prod: Cluster
) -> None:
    digests = {name: f"registry.example/kept@sha256:{name * 64}" for name in ("a", "b")}
    for name, digest in digests.items():
        catalog = make_catalog(cluster=prod, name=name, revision=0)
        package = make_package(name="kept", catalog=catalog, channels={})
        for version in ("1.0.0", "1.1.0"):
            make_bundle(package=package, name=f"kept.v{version}", display_name=f"Kept {name}")
        modes = [f"{name.upper()}Namespace"]  # the outlines have no display names
        write_packages(catalog, {"kept": ["1.0.0", "1.1.0"]}, image=digest, install_modes=modes)
    response = reader.get(COMPARE, {"from": "prod/a", "to": "prod/b", "package": "kept"})
    page = assert_page(response)
    names = "2 versions (kept.v1.0.0, kept.v1.1.0): Kept a in a, Kept b in b"
    assert names in page.text
    short = ", ".join(f"registry.example/kept@sha256:{name * 12}… in {name}" for name in "ab")
    full = ", ".join(f"{digest} in {name}" for name, digest in digests.items())
    assert f": {short} Full digests " in page.text
    assert f"Full digests 2 versions (kept.v1.0.0, kept.v1.1.0): {full}" in page.text
    assert "Channels Same channels and heads in both catalogs" in page.text
    assert {"/software/prod/a/kept", "/software/prod/b/kept"} <= set(page.links)


def test_differences_of_single_versions_are_a_list() -> None:
    lines = text.lines(
        [
            PackageChange("images changed", "p", f"p.v{number}", f"a:{number}", f"b:{number}")
            for number in range(2)
        ],
        Sides("east", "west"),
    )
    assert [line.listed for line in lines] == [True]
    assert lines[0].items == ["p.v0: a:0 in east, b:0 in west", "p.v1: a:1 in east, b:1 in west"]
    (line,) = text.lines(
        [PackageChange("channel head moved", "p", "stable", "p.v1")], Sides("a", "b")
    )
    assert line.items == ["stable: p.v1 in a, missing in b"]


def test_a_catalog_alone_has_no_changed_display_names(reader: Client, catalog: Catalog) -> None:
    page = assert_page(reader.get(URL, {"tab": "changes", "kind": "display name changed"}))
    assert "others are left out" in page.text
    assert "Display name changed" not in page.text
    api = f"/api/v1/catalogs/{catalog}/changes"
    assert reader.get(api, {"kind": "display-name-changed"}).status_code == 400


def test_what_the_packagemanifest_api_omits_is_not_known_and_no_difference(
    reader: Client, pair: tuple[Catalog, Catalog]
) -> None:
    Catalog.objects.filter(pk=pair[1].pk).update(access_method="PackageManifest")
    page = assert_page(reader.get(COMPARE, {"from": str(pair[0]), "to": str(pair[1])}))
    assert "No package differs." in page.text
    assert "prod/second is read with the PackageManifest API, so its images, " in page.text
    assert "differ" not in page.text.split("not known and not compared")[1].split("Markdown")[1]


def test_revisions_may_be_named_and_an_export_leads_to_the_same(
    reader: Client, catalog: Catalog
) -> None:
    query = {
        "from": "prod/redhat-operators@1",
        "to": "prod/redhat-operators@2",
        "kind": "package added",
    }
    page = assert_page(reader.get(COMPARE, query))
    assert "1 package added; " in page.text
    for form in ("csv", "json", "md"):
        link = next(link for link in page.links if link.endswith(f"format={form}"))
        answer: Any = reader.get(link)
        assert answer.status_code == 200
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert b"new" in body
        assert b"gone" not in body


@pytest.mark.parametrize(
    ("value", "status", "words"),
    [
        ("nonsense", 400, "“nonsense” names no catalog."),
        ("prod/nobody", 404, "There is no catalog “nobody” on cluster “prod”"),
        (
            "prod/redhat-operators@7",
            404,
            "Revision 7 of catalog prod/redhat-operators is not stored",
        ),
        ("prod/redhat-operators@x", 404, "There is no catalog “redhat-operators@x”"),
        (EVIL, 404, "There is no catalog"),
    ],
)
def test_what_can_not_be_compared_is_said_beside_the_pickers(
    reader: Client, catalog: Catalog, value: str, status: int, words: str
) -> None:
    response = reader.get(COMPARE, {"from": value, "to": "prod/redhat-operators"})
    page = assert_page(response, status)
    assert words in page.text
    assert "Pick two catalogs" in page.text


def test_a_catalog_that_was_never_read_says_so(reader: Client, catalog: Catalog) -> None:
    make_catalog(name="fresh", revision=0)
    page = assert_page(reader.get(COMPARE, {"from": "-/fresh", "to": str(catalog)}), 404)
    assert "Catalog -/fresh was not read yet" in page.text


def test_catalog_pages_lead_to_comparisons_and_feeds(reader: Client, catalog: Catalog) -> None:
    page = assert_page(reader.get(URL, {"tab": "changes"}))
    assert "/catalogs/compare?from=prod%2Fredhat-operators" in page.links
    assert f"{URL}/changes.atom" in page.links


def test_names_of_a_catalog_are_text_wherever_they_are_shown(
    reader: Client, catalog: Catalog, other: Catalog
) -> None:
    write_packages(other, {EVIL: ["1.0.0"], "moved": ["1.0.0", EVIL]})
    revision = other.revisions.get(number=2)
    for kind in CatalogChange.Kind.values:
        CatalogChange.objects.create(
            revision=revision, kind=kind, package=EVIL, subject=EVIL, before=EVIL, after=EVIL
        )
    for path, query in (
        (COMPARE, {"from": str(catalog), "to": "-/next"}),
        ("/catalogs/-/next", {"tab": "changes"}),
        ("/catalogs/-/next", {"tab": "changes", "since": "1"}),
        ("/catalogs/-/next", {"tab": "changes", "revision": "2", "package": EVIL}),
    ):
        response = reader.get(path, query)
        assert_page(response)
        assert EVIL not in response.content.decode()


def test_long_sections_come_in_pages_and_many_items_fold(reader: Client, catalog: Catalog) -> None:
    many = make_catalog(name="many", revision=0)
    versions = [f"1.{minor}.0" for minor in range(30)]
    write_packages(many, {f"p{i:03}": ["1.0.0"] for i in range(120)} | {"moved": versions})
    query = {"from": str(catalog), "to": "-/many"}
    page = assert_page(reader.get(COMPARE, query))
    assert "All 120 packages only in many" in page.text
    assert "and 22 more" in page.text, "of 28 versions"
    assert "1.8.0" not in page.text
    [rest] = [link for link in page.links if "package=moved" in link]
    assert "1.8.0" in assert_page(reader.get(COMPARE + rest)).text
    last = assert_page(reader.get(COMPARE, {**query, "show": "added", "page": "6"}))
    assert "101 to 120 of 120" in last.text
    assert "p119" in last.text
    assert "p099" not in last.text


def test_comparing_332_packages_keeps_to_the_budget_of_a_page(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    one, other = make_catalog(cluster=prod, revision=0), make_catalog(name="next", revision=0)
    write_packages(one, {f"p{i:03}": ["1.0.0", "1.1.0"] for i in range(332)})
    write_packages(other, {f"p{i:03}": ["1.1.0", "1.2.0"] for i in range(10, 342)})
    for number in range(30):
        installed(prod, f"p{number:03}")
    with django_assert_max_num_queries(12):
        response = reader.get(COMPARE, {"from": str(one), "to": str(other)})
    page = assert_page(response)
    assert len(response.content) <= 60_000
    assert (
        "10 packages only in redhat-operators, 10 only in next, 322 in both with differences"
        in page.text
    )
    assert "would affect 30 of your installed operators" in page.text
    with django_assert_max_num_queries(12):
        reader.get(URL, {"tab": "changes"})


def test_comparisons_need_the_same_right_as_other_pages(client: Client, catalog: Catalog) -> None:
    for path in (COMPARE, f"{URL}?tab=changes", f"{URL}/changes.atom", "/catalogs/changes.atom"):
        response = client.get(path)
        assert response.status_code == 302
        assert response["Location"].startswith("/login/")


def test_a_changed_package_can_be_exported_from_either_catalog(
    reader: Client, catalog: Catalog, other: Catalog
) -> None:
    page = assert_page(
        reader.get(COMPARE, {"from": "prod/redhat-operators", "to": "-/next", "show": "changed"})
    )
    assert "Export from moved from redhat-operators or moved from next" in page.text
    assert "/software/prod/redhat-operators/moved/export" in page.links
    assert "/software/-/next/moved/export" in page.links
    revisions = {"from": "prod/redhat-operators@1", "to": "prod/redhat-operators@2"}
    assert "Export from" not in assert_page(reader.get(COMPARE, revisions)).text
