"""Catalogs: the list, one catalog's state, changes and problems, and asking for a sync."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from catalogs.models import Catalog, CatalogChange, CatalogRevision
from catalogs.views.problems import ROWS
from olmweb.models import NOT_CONFIGURED, SyncRun
from tests.factories import (
    make_catalog,
    make_cluster,
    make_operator,
    make_package,
    make_problem,
)

pytestmark = pytest.mark.django_db
LIST = "/catalogs/"
URL = "/catalogs/prod/redhat-operators"
EVIL = '"><script>alert(1)</script>'


@pytest.fixture
def catalog():
    return make_catalog(cluster=make_cluster(), priority=7, bundle_count=321)


def text_of(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_without_catalogs_the_list_says_where_they_come_from(reader):
    assert "No catalogs yet" in text_of(reader.get(LIST))


def test_an_attempt_that_failed_is_no_sync(reader, catalog):
    now = timezone.now()
    Catalog.objects.update(
        state="failed", error_text="No pod.", synced_at=now - timedelta(hours=5), checked_at=now
    )
    for path in (LIST, "/catalogs/prod/redhat-operators"):
        text = text_of(reader.get(path))
        assert "5 h ago" in text
        assert "tried <time" in text
    Catalog.objects.update(synced_at=None)
    assert "never synced" in text_of(reader.get(LIST))


def test_the_list_tells_each_catalogs_state_content_and_cost(reader, catalog):
    make_catalog(name="local")
    page = text_of(reader.get(LIST))
    for words in (
        'href="/catalogs/prod/redhat-operators"',
        'href="/catalogs/-/local"',
        "ClusterCatalog",
        "no cluster",
        "Serving",
        "321",
        "200, 35 ms",
        "priority 7",
        "none needs attention",
    ):
        assert words in page


@pytest.mark.parametrize(
    ("fields", "word", "sentence"),
    [
        ({"state": "failed", "error_text": "connection refused"}, "Failed", "connection refused"),
        ({"state": "failed"}, "Failed", "The last attempt to read it failed."),
        ({"state": "disabled"}, "Disabled", "availabilityMode is Unavailable"),
        ({"state": "new", "synced_at": None}, "Not read yet", ""),
        (
            {"synced_at": timezone.now() - timedelta(days=1)},
            "Stale",
            "Not synced for more than three polling intervals",
        ),
        ({}, "Serving", ""),
    ],
)
def test_every_state_is_told_in_words(reader, fields, word, sentence):
    make_catalog(cluster=make_cluster(), **fields)
    for path in (LIST, URL):
        page = text_of(reader.get(path))
        assert f">{word}<" in page
        assert sentence in page


STALE = {
    "ClusterCatalog": {"base_url": "https://catalogd.olm.svc/catalogs/redhat-operators"},
    "CatalogSource": {"namespace": "olm", "base_url": "redhat-operators.olm.svc:50051"},
    "File": {"source": "/srv/catalog.json"},
    "URL": {"source": "https://example.com/catalog.json"},
    "Image": {"source": "registry.example/catalog:v1"},
}


@pytest.mark.parametrize("kind", STALE)
def test_content_that_no_sync_confirmed_for_hours_is_of_an_earlier_time(reader, settings, kind):
    settings.EMBEDDED = False
    prod = make_cluster()
    synced_at = timezone.now() - timedelta(hours=5)
    fields = {"source_kind": kind, "synced_at": synced_at, "checked_at": synced_at, **STALE[kind]}
    catalog = make_catalog(cluster=prod if "base_url" in fields else None, **fields)
    url = f"/catalogs/{catalog}"
    why = "Not synced for more than three polling intervals."
    for path in (LIST, url, "/"):
        page = text_of(reader.get(path))
        assert "Stale</span>" in page, path
        assert ">Serving<" not in page
        assert re.search(r"ontent (is shown )?as of <time[^>]*>5 h ago", page), path
        assert why in page
        assert "Check that beat and a worker of the queue sync run" in page
    assert "<strong>0</strong> serving, <strong>1</strong> stale" in page
    for row in (
        reader.get("/api/v1/catalogs").json()["items"][0],
        reader.get(f"/api/v1/catalogs/{catalog}").json(),
    ):
        assert (row["state"], row["stale"], row["error"]["code"]) == (
            *("serving", True),
            "not-synced",
        )
        assert row["error"]["message"] == why
        assert row["error"]["hint"].startswith("Check that beat and a worker")


@pytest.mark.parametrize(
    "fields",
    [
        {"source_kind": "File", "source": ""},
        {"source_kind": "PackageManifest"},
    ],
    ids=["file without a path", "packagemanifests"],
)
def test_a_catalog_that_no_poll_reads_does_not_become_stale(reader, fields):
    make_cluster()
    make_catalog(name="own", synced_at=timezone.now() - timedelta(days=9), **fields)
    assert not Catalog.objects.get().stale
    for path in (LIST, "/catalogs/-/own", "/"):
        assert "Stale" not in text_of(reader.get(path))


def test_a_disabled_clustercatalog_is_not_stale(reader):
    old = timezone.now() - timedelta(days=9)
    make_catalog(
        cluster=make_cluster(), state="disabled", availability="Unavailable", synced_at=old
    )
    assert not Catalog.objects.get().stale
    for path in (LIST, URL, "/"):
        assert "Stale" not in text_of(reader.get(path))


@pytest.mark.parametrize("kind", ["ClusterCatalog", "CatalogSource"])
def test_a_stale_catalog_without_an_address_is_not_blamed_on_the_worker(reader, kind):
    old = timezone.now() - timedelta(hours=5)
    make_catalog(cluster=make_cluster(), source_kind=kind, synced_at=old)
    for path in (LIST, URL):
        page = text_of(reader.get(path))
        assert f"three polling intervals: the {kind} reports no address to read it from." in page
        assert "a worker of the queue sync" not in page


def test_a_stale_catalog_of_an_embedded_server_is_not_blamed_on_a_queue(reader, catalog, settings):
    settings.EMBEDDED = True
    base = "https://catalogd.olm.svc/catalogs/redhat-operators"
    Catalog.objects.update(synced_at=timezone.now() - timedelta(hours=5), base_url=base)
    page = text_of(reader.get(URL))
    assert "The log of OLM Web says more." in page
    assert "a worker of the queue sync" not in page


@pytest.mark.parametrize("fields", [{}, {"state": "failed", "error_text": "no route to host"}])
def test_a_catalog_of_a_removed_cluster_is_not_due(reader, fields):
    why = "Cluster prod is no longer named in OLMWEB_CLUSTERS."
    removed = make_cluster(error_code=NOT_CONFIGURED, error_text=why, reachable=None)
    old = timezone.now() - timedelta(hours=5)
    base = "https://catalogd.olm.svc/catalogs/redhat-operators"
    make_catalog(cluster=removed, synced_at=old, base_url=base, **fields)
    for path in (LIST, URL, "/?cluster=prod"):
        page = text_of(reader.get(path))
        assert why in page, path
        assert "polling intervals" not in page, path
        assert "no route to host" not in page, path
    for row in (
        reader.get("/api/v1/catalogs").json()["items"][0],
        reader.get("/api/v1/catalogs/prod/redhat-operators").json(),
    ):
        assert (row["error"]["code"], row["error"]["message"]) == (NOT_CONFIGURED, why)


def test_the_open_overview_is_renewed_when_the_error_of_a_catalog_changes(reader, catalog):
    Catalog.objects.update(state="failed", error_text="no route to host")
    rev = reader.get("/").context["rev"]
    Catalog.objects.update(error_text="connection refused")
    assert reader.get("/", {"rev": rev}, headers={"HX-Request": "true"}).status_code == 200


def test_an_open_page_is_renewed_when_its_catalog_becomes_stale(reader, catalog):
    pages = {path: reader.get(path).context["rev"] for path in (LIST, URL)}
    Catalog.objects.update(synced_at=timezone.now() - timedelta(hours=5))
    for path, rev in pages.items():
        assert reader.get(path, {"rev": rev}, headers={"HX-Request": "true"}).status_code == 200


def test_one_alert_says_why_a_catalog_of_an_unreachable_cluster_is_old(reader):
    cluster = make_cluster(reachable=False, error_text="no route to host", error_hint="Check VPN.")
    make_catalog(cluster=cluster)
    page = text_of(reader.get(URL))
    assert "Unreachable" in page
    assert page.count("no route to host") == page.count("Check VPN.") == 1
    assert page.count("pf-v6-c-alert__title") == 2, "the shell's, and that of the toasts' template"
    assert "Cluster prod can&#x27;t be reached." in text_of(reader.get(LIST))


def test_the_detail_shows_conditions_and_the_last_runs(reader, catalog):
    catalog.conditions = [
        {
            "type": "Serving",
            "status": "True",
            "reason": "Available",
            "message": "Serving desired content",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    catalog.resolved_digest = "registry.example/index@sha256:abc"
    catalog.save()
    SyncRun.objects.create(
        kind="catalog",
        target=str(catalog),
        outcome="changed",
        counts={
            **{"rows_written": 1234, "requests": 1, "bytes_read": 2_000_000},
            **{"added": 2, "changed": 0, "removed": 1},
        },
        started_at=(started := timezone.now()),
        finished_at=started + timedelta(seconds=75),
    )
    page = text_of(reader.get(URL))
    for words in (
        *("Serving desired content", "sha256:abc", "1234", "Changed", "1.9"),
        *("2 added, 0 changed, 1 removed", "1 min 15 s"),
    ):
        assert words in page


def test_changes_say_what_affects_an_installed_operator(reader, catalog):
    revision = CatalogRevision.objects.create(catalog=catalog, number=2, content_hash="b")
    for package in ("etcd", "other"):
        CatalogChange.objects.create(
            revision=revision,
            kind="channel head moved",
            package=package,
            subject="stable",
            before="1.0.0",
            after="1.1.0",
        )
    make_operator(cluster=catalog.cluster, name="etcd")
    page = text_of(reader.get(URL, {"tab": "changes"}))
    assert "Revision 2" in page
    assert "2 heads moved." in page
    assert page.count("Affects you") == 1
    assert "on prod: upgrade available: the head of channel stable is now 1.1.0" in page


def test_a_first_revision_has_nothing_to_compare_with(reader, catalog):
    CatalogRevision.objects.create(catalog=catalog, number=1, content_hash="a")
    assert "nothing to compare with" in text_of(reader.get(URL, {"tab": "changes"}))


def test_a_catalog_that_was_never_read_is_not_offered_for_comparison(reader: Client) -> None:
    make_catalog(name="broken", synced_at=None, state="failed", revision=0)
    page = reader.get("/catalogs/-/broken", {"tab": "changes"}).content.decode()
    assert "Atom feed" in page
    assert "/catalogs/compare" not in page


def test_problems_filter_by_severity_and_package_errors_first(reader, catalog):
    make_problem(catalog=catalog, severity="warning", package="b", message="a loose end")
    make_problem(catalog=catalog, severity="error", package="a", message="no head", offset=4711)
    page = reader.get(URL, {"tab": "problems"})
    assert [each.message for each in page.context["page"].object_list] == ["no head", "a loose end"]
    assert "4711" in text_of(page)
    warnings = reader.get(URL, {"tab": "problems", "severity": "warning"})
    assert [each.message for each in warnings.context["page"].object_list] == ["a loose end"]
    of_a = reader.get(URL, {"tab": "problems", "package": "a"})
    assert [each.message for each in of_a.context["page"].object_list] == ["no head"]
    none = reader.get(URL, {"tab": "problems", "package": "zzz"})
    assert "No problem of the content matches." in text_of(none)


def test_problems_of_a_catalog_without_any_say_whether_its_content_was_checked(reader, catalog):
    page = text_of(reader.get(URL, {"tab": "problems"}))
    assert "No problem in the content." in page
    assert "Kind of problem" not in page, "there is nothing to filter"
    make_catalog(name="broken", synced_at=None, state="failed", revision=0)
    page = text_of(reader.get("/catalogs/-/broken", {"tab": "problems"}))
    assert "No content was read yet, so none was checked." in page


def test_the_consequence_of_problems_names_the_catalogsource_that_serves(reader, catalog):
    make_problem(catalog=catalog)
    source = {"name": catalog.name, "cluster": catalog.cluster, "source_kind": "CatalogSource"}
    make_catalog(slug="t.x", namespace="team", state="failed", package_count=5, **source)
    make_catalog(slug="n.x", namespace="new", package_count=0, **source)
    page = text_of(reader.get(f"{URL}?tab=problems"))
    assert "the pod of a CatalogSource that serves it does not start" in page
    assert "packages now" not in page
    make_catalog(slug="m.x", namespace="openshift-marketplace", package_count=82, **source)
    page = text_of(reader.get(f"{URL}?tab=problems"))
    assert "openshift-marketplace/redhat-operators of the cluster serves 82 packages now" in page


def test_problems_come_in_pages(reader, catalog):
    for number in range(ROWS + 5):
        make_problem(catalog=catalog, message=f"problem {number}")
    second = reader.get(URL, {"tab": "problems", "page": "2"})
    assert len(second.context["page"].object_list) == 5


@pytest.mark.parametrize(
    "params",
    [
        {"tab": "x"},
        {"tab": "problems", "severity": "x"},
        {"tab": "problems", "page": "-1"},
        {"tab": "problems", "page": "99"},
        {"tab": "problems", "package": "\x07" + "a" * 9000},
        {"tab": ["problems", "changes"]},
    ],
)
def test_odd_query_strings_are_answered(reader, catalog, params):
    assert reader.get(URL, params).status_code == 200


def test_hostile_content_is_escaped_everywhere(reader, catalog):
    catalog.error_text = catalog.source = catalog.resolved_digest = EVIL
    catalog.state = "failed"
    catalog.conditions = [{"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL}]
    catalog.save()
    make_problem(catalog=catalog, package=EVIL, subject=EVIL, field=EVIL, message=EVIL)
    revision = CatalogRevision.objects.create(catalog=catalog, number=2, content_hash="b")
    CatalogChange.objects.create(revision=revision, kind="deprecated", package=EVIL, subject=EVIL)
    SyncRun.objects.create(kind="catalog", target=str(catalog), error_text=EVIL)
    for path in (LIST, URL, f"{URL}?tab=changes", f"{URL}?tab=problems"):
        page = reader.get(path).content.decode()
        assert "<script>alert" not in page
        assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", page)


def test_conditions_of_odd_shape_do_not_break_the_page(reader, catalog):
    catalog.conditions = [{}, {"type": "Serving"}, {"type": "X", "status": None, "message": None}]
    catalog.save()
    assert reader.get(URL).status_code == 200


@pytest.mark.parametrize("path", ["/catalogs/prod/gone", "/catalogs/gone/x"])
def test_an_unknown_catalog_is_a_404_with_a_sentence(reader, catalog, path):
    response = reader.get(path)
    assert response.status_code == 404
    text = text_of(response)
    assert "There is no catalog" in text
    assert "See the list of catalogs." in text
    assert "/api/" not in response.content.decode().partition("<main")[2]
    assert f'href="{LIST}">Catalogs</a>' in response.content.decode().partition("<main")[2]


@pytest.mark.parametrize("path", [LIST, URL])
def test_polls_get_the_fragment_only_when_something_changed(reader, catalog, path):
    htmx = {"HX-Request": "true"}
    first = reader.get(path, headers=htmx)
    assert "<html" not in first.content.decode()
    rev = first.context["rev"]
    assert reader.get(path, {"rev": rev}, headers=htmx).status_code == 204
    catalog.state = "failed"
    catalog.error_text = "gone"
    catalog.save()
    changed = reader.get(path, {"rev": rev}, headers=htmx)
    assert changed.status_code == 200
    assert "gone" in changed.content.decode()


@pytest.mark.parametrize("path", [LIST, URL, f"{URL}?tab=problems", f"{URL}?tab=changes"])
def test_pages_cost_few_queries(reader, catalog, path, django_assert_max_num_queries):
    for number in range(5):
        make_catalog(name=f"c{number}", cluster=catalog.cluster)
        CatalogRevision.objects.create(catalog=catalog, number=number, content_hash="x")
    make_package(catalog=catalog)
    make_problem(catalog=catalog)
    with django_assert_max_num_queries(13):  # two of them read the permissions of the reader
        reader.get(path)


def test_the_list_costs_six_queries_however_many_catalogs_there_are(
    reader, django_assert_num_queries
):
    for number in range(5):
        cluster = make_cluster(name=f"c{number}", reachable=number != 3)
        make_catalog(cluster=cluster, state="failed", error_text="refused", error_hint="Retry.")
        make_catalog(cluster=cluster, source_kind="CatalogSource", namespace="olm", slug="second")
    make_catalog(source_kind="URL", checked_at=timezone.now(), problem_count=3)
    with django_assert_num_queries(6):  # session, user, clusters, catalogs, packages, syncs
        reader.get("/catalogs/")


def test_an_admin_starts_a_sync_that_a_worker_does(
    client, alice, catalog, monkeypatch, django_capture_on_commit_callbacks
):
    asked = []
    monkeypatch.setattr(
        "catalogs.tasks.sync_catalog.apply_async",
        lambda *args, **kwargs: asked.append(args),
    )
    client.force_login(alice)
    assert "Sync now" in text_of(client.get(URL))
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(f"{URL}/sync", follow=True)
    assert asked == [((catalog.pk,),)] or asked == [((catalog.pk,), {})]
    assert "A sync of prod/redhat-operators was requested" in text_of(response)


@pytest.mark.parametrize("staff", [False, True])
def test_a_role_and_not_the_staff_flag_lets_a_person_start_or_cancel_a_sync(
    client, bob, catalog, staff
):
    bob.is_staff = staff
    bob.save()
    client.force_login(bob)
    assert "Sync now" not in text_of(client.get(URL))
    for verb in ("sync", "cancel"):
        response = client.post(f"{URL}/{verb}")
        assert response.status_code == 403
        assert "Your role may not start or cancel a sync." in text_of(response)
    bob.groups.add(Group.objects.get(name="olmweb-admins"))
    assert "Sync now" in text_of(client.get(URL))
    for verb in ("sync", "cancel"):
        assert client.post(f"{URL}/{verb}").status_code == 302


def test_a_sync_is_started_by_post_with_a_token_only(alice, catalog):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice)
    assert strict.get(f"{URL}/sync").status_code == 405
    assert strict.post(f"{URL}/sync").status_code == 403


def test_a_catalog_with_two_access_methods_needs_attention_once(reader):
    cluster = make_cluster()
    for kind, namespace in (
        (Catalog.SourceKind.CLUSTER_CATALOG, ""),
        (Catalog.SourceKind.CATALOG_SOURCE, "marketplace"),
    ):
        make_catalog(
            name="community",
            cluster=cluster,
            source_kind=kind,
            namespace=namespace,
            slug=f"{namespace}.community".strip("."),
            state=Catalog.State.FAILED,
        )
    page = text_of(reader.get(LIST))
    assert "<strong>1</strong> catalog with" in page
    assert "<strong>1</strong> needs attention" in page
