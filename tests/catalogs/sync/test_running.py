"""A sync that goes on: how far it is, where that is shown, and cancelling it."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from catalogs import tasks
from catalogs.models import Catalog
from catalogs.sync import progress as running
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.progress import Run, Standing
from olmweb.models import Lease, SyncRun
from olmweb.runtime import leases
from tests.worlds.fbc import package
from tests.worlds.syncing import make, rewrite, snapshot

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word of progress is a report."""
    monkeypatch.setattr(running, "REPORT_INTERVAL", 0)


@pytest.fixture
def going_on(db: None) -> tuple[Catalog, Run]:
    """A catalog that is being synced: its lease is held and its run writes."""
    catalog = Catalog.objects.create(name="big", slug="big", source_kind="File", source="x")
    assert leases.acquire(f"catalog:{catalog.pk}", 60)
    run = Run(catalog, timezone.now())
    run.enter()
    run.report("writing", 0, 0)
    return catalog, run


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_run_reports_its_steps_and_at_most_twice_a_second(
    django_assert_num_queries: Any,
) -> None:
    catalog = Catalog.objects.create(name="a", slug="a", source_kind="File", source="x")
    clock = Clock()
    run = Run(catalog, timezone.now(), clock)
    run.reading(10, 100)
    assert not SyncRun.objects.exists()  # a short read is no run yet
    clock.now = 0.6
    run.reading(50, 100)
    row = SyncRun.objects.get()
    assert (row.step, row.done, row.total, row.outcome) == ("reading", 50, 100, "running")
    with django_assert_num_queries(0):
        clock.now = 1.0
        run.reading(90, 100)
    clock.now = 1.2
    run.reading(95, 100)
    run.indexing(1, 100)  # a new step is told at once
    row.refresh_from_db()
    assert (row.step, row.done) == ("indexing", 1)


def test_what_the_transaction_hides_is_told_through_the_cache(
    going_on: tuple[Catalog, Run], eager: None
) -> None:
    catalog, run = going_on
    run.writing(12, 48)
    assert run.row is not None
    row = SyncRun.objects.get()
    assert (row.step, row.done) == ("writing", 0)
    found = running.standings([catalog])[catalog.pk]
    assert found == Standing(row.pk, "writing", 12, 48)
    assert found.percent == 25


def test_a_run_whose_worker_died_is_not_shown_as_going_on(
    going_on: tuple[Catalog, Run],
) -> None:
    catalog, _ = going_on
    assert catalog.pk in running.standings([catalog])
    Lease.objects.all().delete()
    assert running.standings([catalog]) == {}


@pytest.mark.parametrize("how", ["cache", "row"])
def test_a_cancelled_sync_leaves_what_was_there_and_the_next_one_completes(
    tmp_path: Any, eager: None, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = make(tmp_path, package())
    assert sync_catalog(catalog).outcome == "changed"
    before = snapshot(catalog)
    rewrite(catalog, [*package(), *package("redis"), *package("mongo")])
    held = leases.acquire(f"catalog:{catalog.pk}", 60)
    assert held is not None
    asked: list[int] = []

    def ask(done: int, total: int) -> None:
        if done == 1:
            asked.append(done)
            if how == "cache":
                assert running.cancel(catalog)
            else:
                monkeypatch.setattr(running, "cache", _NoCache())
                SyncRun.objects.filter(outcome="running").update(cancel_requested=True)
                monkeypatch.setattr(connection, "vendor", "any")

    result = sync_catalog(catalog, progress=ask)
    monkeypatch.undo()
    assert asked == [1]
    assert (result.outcome, result.error_code) == ("cancelled", "cancelled")
    assert snapshot(catalog) == before
    run = SyncRun.objects.first()
    assert run is not None
    assert (run.outcome, run.error_code) == ("cancelled", "cancelled")
    catalog.refresh_from_db()
    assert (catalog.state, catalog.revision, catalog.failing_since) == ("serving", 1, None)
    assert not tasks.is_due(catalog, timezone.now())
    leases.release(held)
    assert sync_catalog(catalog).packages == 3


class _NoCache:
    """A cache that another process doesn't share."""

    def get(self, key: str) -> None:
        return None

    def set(self, key: str, value: object, seconds: int) -> None:
        return None

    def delete_many(self, keys: list[str]) -> None:
        return None


def test_the_pages_show_the_bar_and_staff_a_button(
    client: Client, alice: Any, bob: Any, going_on: tuple[Catalog, Run], eager: None
) -> None:
    _, run = going_on
    run.writing(3, 4)
    client.force_login(bob)
    for path in ("/catalogs/-/big", "/catalogs/"):
        text = client.get(path).content.decode()
        assert "3 of 4 changed packages written" in text
        assert '<progress id="sync-bar-' in text
        assert 'value="75"' in text
        assert "/catalogs/-/big/cancel" not in text
    client.force_login(alice)
    assert "/catalogs/-/big/cancel" in client.get("/catalogs/-/big").content.decode()
    assert "/catalogs/-/big/progress" in client.get("/activity/?show=syncs").content.decode()


def test_the_bar_polls_until_the_run_is_over(
    client: Client, bob: Any, going_on: tuple[Catalog, Run], eager: None
) -> None:
    _, run = going_on
    client.force_login(bob)
    run.writing(1, 4)
    assert "1 of 4" in client.get("/catalogs/-/big/progress", headers=HTMX).content.decode()
    assert client.get("/catalogs/-/big/progress").status_code == 302
    run.finish("changed", {}, None)
    assert client.get("/catalogs/-/big/progress", headers=HTMX).status_code == 286


def test_only_staff_may_cancel(
    client: Client, alice: Any, bob: Any, going_on: tuple[Catalog, Run]
) -> None:
    catalog, run = going_on
    client.force_login(bob)
    assert client.post("/catalogs/-/big/cancel").status_code == 403
    assert not running.standings([catalog])[catalog.pk].cancelling
    client.force_login(alice)
    answer = client.post("/catalogs/-/big/cancel", follow=True)
    assert "stops now; what was read before stays" in answer.content.decode()
    assert "Stopping the sync" in answer.content.decode()
    run.finish("cancelled", {}, None)
    answer = client.post("/catalogs/-/big/cancel", follow=True)
    assert "there is nothing to cancel" in answer.content.decode()
