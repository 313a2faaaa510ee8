"""ClusterCatalog rows as a cluster's list says, and when catalogs are due."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs import tasks
from catalogs.models import Blob, Bundle, Catalog, CatalogRevision
from catalogs.sources.file import FileSource
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_cluster_catalogs
from catalogs.sync.progress import request_sync
from olmweb.models import NOT_CONFIGURED, Cluster
from olmweb.runtime import leases
from tests.factories import make_catalog, make_cluster
from tests.worlds.fbc import jsonl, package

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="prod")


@pytest.fixture
def enqueued(monkeypatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(tasks.sync_catalog, "delay", found.append)
    return found


def cluster_catalog(name: str = "operatorhubio", digest: str = "1", **spec) -> dict:
    return {
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": f"r/{name}:latest"}}, **spec},
        "status": {
            "conditions": [{"type": "Serving", "status": "True", "reason": "Available"}],
            "resolvedSource": {"image": {"ref": f"r/{name}@sha256:{digest}"}},
            "urls": {"base": f"https://catalogd.olm.svc/catalogs/{name}"},
        },
    }


def unavailable(name: str = "operatorhubio") -> dict:
    found = cluster_catalog(name, availabilityMode="Unavailable")
    del found["status"]["resolvedSource"], found["status"]["urls"]
    return found


def synced(cluster: Cluster, tmp_path) -> Catalog:
    """A ClusterCatalog with content."""
    record_cluster_catalogs(cluster, [cluster_catalog()])
    catalog = Catalog.objects.get()
    path = tmp_path / "c.jsonl"
    path.write_bytes(jsonl(package()))
    assert sync_catalog(catalog, source=FileSource(path)).outcome == "changed"
    return catalog


def test_a_new_cluster_catalog_is_recorded_and_its_content_enqueued(
    cluster, enqueued, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        assert record_cluster_catalogs(cluster, [cluster_catalog(priority=5)]) == 1
    catalog = Catalog.objects.get()
    assert (catalog.slug, catalog.priority, catalog.state) == ("operatorhubio", 5, "new")
    assert catalog.resolved_digest == "r/operatorhubio@sha256:1"
    assert catalog.conditions[0]["type"] == "Serving"
    assert enqueued == [catalog.pk]


def test_an_unchanged_list_writes_and_enqueues_nothing(
    cluster, enqueued, django_capture_on_commit_callbacks
):
    record_cluster_catalogs(cluster, [cluster_catalog()])
    with (
        django_capture_on_commit_callbacks(execute=True),
        CaptureQueriesContext(connection) as queries,
    ):
        assert record_cluster_catalogs(cluster, [cluster_catalog()]) == 0
    assert not [query for query in queries if query["sql"].startswith(("UPDATE", "INSERT"))]
    assert enqueued == []


def test_another_digest_enqueues_the_content(
    cluster, enqueued, tmp_path, django_capture_on_commit_callbacks
):
    catalog = synced(cluster, tmp_path)
    with django_capture_on_commit_callbacks(execute=True):
        assert record_cluster_catalogs(cluster, [cluster_catalog(digest="2")]) == 1
    assert enqueued == [catalog.pk]


def test_an_unavailable_catalog_is_disabled_and_keeps_its_content(cluster, enqueued, tmp_path):
    catalog = synced(cluster, tmp_path)
    record_cluster_catalogs(cluster, [unavailable()])
    catalog.refresh_from_db()
    assert (catalog.state, Bundle.objects.count()) == ("disabled", 2)
    record_cluster_catalogs(cluster, [cluster_catalog()])
    catalog.refresh_from_db()
    assert catalog.state == "serving"


def test_a_catalog_that_is_gone_is_deleted_with_all_its_rows_and_no_others(
    cluster, enqueued, tmp_path
):
    synced(cluster, tmp_path)
    other = Cluster.objects.create(name="other")
    record_cluster_catalogs(other, [cluster_catalog()])
    local = Catalog.objects.create(name="f", slug="f", source_kind="File", source="x")
    assert record_cluster_catalogs(cluster, []) > 10
    assert set(Catalog.objects.values_list("pk", flat=True)) == {
        local.pk,
        other.catalogs.get().pk,
    }
    assert (Bundle.objects.count(), CatalogRevision.objects.count()) == (0, 0)
    connection.check_constraints()


def test_blobs_of_a_deleted_catalog_are_collected_by_the_next_change(cluster, enqueued, tmp_path):
    synced(cluster, tmp_path)
    record_cluster_catalogs(cluster, [])
    path = tmp_path / "d.jsonl"
    path.write_bytes(jsonl(package("redis")))
    sync_catalog(Catalog.objects.create(name="d", slug="d", source_kind="File", source=str(path)))
    assert Blob.objects.count() == 4


NOW = timezone.now()


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, True),
        ({"checked_at": NOW, "state": "serving"}, False),
        ({"checked_at": NOW - timedelta(hours=1), "state": "serving"}, True),
        ({"checked_at": NOW, "state": "serving", "resolved_digest": "2"}, True),
        ({"checked_at": NOW, "state": "failed", "failing_since": NOW}, False),
        ({"checked_at": NOW - timedelta(seconds=31), "state": "failed"}, True),
        (
            {
                "checked_at": NOW - timedelta(seconds=60),
                "failing_since": NOW - timedelta(seconds=180),
                "state": "failed",
            },
            False,
        ),
        (
            {
                "checked_at": NOW - timedelta(seconds=121),
                "failing_since": NOW - timedelta(seconds=240),
                "state": "failed",
            },
            True,
        ),
        (
            {
                "checked_at": NOW - timedelta(minutes=11),
                "failing_since": NOW - timedelta(days=9),
                "state": "failed",
            },
            True,
        ),
    ],
)
def test_when_a_catalog_is_due(fields, due, settings):
    settings.CATALOG_POLL = 600
    assert tasks.is_due(Catalog(source_kind="File", **fields), NOW) is due


def test_only_readable_and_enabled_catalogs_are_enqueued(monkeypatch, cluster):
    asked: list[int] = []
    monkeypatch.setattr(tasks.sync_catalog, "delay_on_commit", asked.append)
    wanted = Catalog.objects.create(name="a", slug="a", source_kind="File", source="x")
    Catalog.objects.create(name="b", slug="b", source_kind="File", source="x", state="disabled")
    Catalog.objects.create(name="c", slug="c", source_kind="PackageManifest", source="x")
    Catalog.objects.create(name="d", slug="d", source_kind="ClusterCatalog", cluster=cluster)
    Catalog.objects.create(name="e", slug="e", source_kind="File")  # read from a stream
    removed = make_cluster(name="removed", error_code=NOT_CONFIGURED)
    make_catalog(cluster=removed, base_url="https://catalogd.olm.svc/c", checked_at=None)
    tasks.sync_due_catalogs()
    assert asked == [wanted.pk]


def test_the_task_leaves_a_leased_or_vanished_catalog_alone(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(jsonl(package()))
    catalog = Catalog.objects.create(name="a", slug="a", source_kind="File", source=str(path))
    held = leases.acquire(f"catalog:{catalog.pk}", 60)
    assert held is not None
    tasks.sync_catalog(catalog.pk)
    tasks.sync_catalog(catalog.pk + 1)
    catalog.refresh_from_db()
    assert catalog.revision == 0
    leases.release(held)
    tasks.sync_catalog(catalog.pk)
    tasks.sync_catalog(catalog.pk)
    catalog.refresh_from_db()
    assert (catalog.revision, catalog.state) == (1, "serving")


def test_a_requested_sync_whose_message_is_lost_is_due_until_it_was_tried() -> None:
    catalog = make_catalog()
    now = timezone.now()
    assert not tasks.is_due(catalog, now)
    request_sync(catalog.pk)  # the message is sent after the commit, which never comes
    catalog.refresh_from_db()
    assert tasks.is_due(catalog, now)
    catalog.checked_at = timezone.now()
    assert not tasks.is_due(catalog, now)


def test_a_due_catalog_is_queued_once_and_not_while_it_is_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = make_catalog(checked_at=None, source="/srv/catalog.json")
    sent: list[int] = []
    monkeypatch.setattr(tasks.sync_catalog, "delay_on_commit", sent.append)
    tasks.sync_due_catalogs()
    tasks.sync_due_catalogs()
    assert sent == [catalog.pk]
    with leases.lease(f"catalog:{catalog.pk}", 20):
        tasks.sync_catalog(catalog.pk)  # left to the holder, and no longer queued
        tasks.sync_due_catalogs()
    assert sent == [catalog.pk]
    tasks.sync_due_catalogs()
    assert sent == [catalog.pk] * 2
