"""The inspection of whole catalogs in the background: turns, pauses, revisions, the switch."""

import importlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalogs.contents import inspection
from catalogs.lookup import get_catalog
from catalogs.models import BundleInspection, Catalog, CatalogInspection
from catalogs.verdicts import catalog_inspection as turns
from olmweb.models import ApiToken
from olmweb.runtime import reports
from olmweb.runtime.reports import run_next, run_report
from tests.worlds.bundle_images import bundle_image
from tests.worlds.image_registry_fake import RegistryFake, status
from tests.worlds.inspected_catalogs import ship, ship_many

pytestmark = pytest.mark.django_db
URL = "/catalogs/-/community"


assert importlib.import_module("catalogs.tasks")  # registers the kinds of work


@pytest.fixture(autouse=True)
def _no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "delay_on_commit", lambda: None)


@pytest.fixture
def switched_on(catalog: Catalog, alice: User) -> Catalog:
    turns.start(catalog, alice)
    return catalog


def state(catalog: Catalog) -> str:
    return turns.state_of(get_catalog("-", catalog.slug))


def row() -> CatalogInspection:
    return CatalogInspection.objects.get()


def test_a_worker_inspects_a_catalog_that_is_switched_on_and_then_rests(
    switched_on: Catalog, fake: RegistryFake
) -> None:
    ship_many(switched_on, fake, 3)
    ship(switched_on, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    assert state(switched_on) == turns.QUEUED
    assert [job.kind for job in turns.unfinished()] == [turns.KIND]
    assert run_next()
    done = row()
    assert (done.wanted, done.inspected, done.reused) == (4, 3, 0)
    switched_on.refresh_from_db()
    assert (done.failed, done.left, done.revision) == ({"not-found": 1}, 0, switched_on.revision)
    assert done.requests == len(fake.seen)
    assert done.bytes_read > 0
    assert state(switched_on) == turns.DONE
    assert not run_next()


def test_a_catalog_that_is_switched_off_is_left_alone(catalog: Catalog, fake: RegistryFake) -> None:
    ship_many(catalog, fake, 1)
    assert state(catalog) == turns.OFF
    assert not run_next()
    assert not fake.seen


def test_the_setting_switches_every_catalog_on_but_where_it_was_stopped(
    catalog: Catalog, fake: RegistryFake, settings: Any
) -> None:
    settings.INSPECT_CATALOGS = True
    ship_many(catalog, fake, 1)
    assert state(catalog) == turns.QUEUED
    turns.stop(catalog)
    assert state(catalog) == turns.OFF
    assert not run_next()
    CatalogInspection.objects.update(enabled=None)
    assert run_next()
    assert row().inspected == 1


def test_a_new_revision_inspects_its_new_images_only(
    switched_on: Catalog, fake: RegistryFake
) -> None:
    ship_many(switched_on, fake, 2)
    ship(switched_on, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    assert run_next()
    assert not run_next()
    first = row().revision
    # The revision of the catalog is one more with each package.
    ship(switched_on, "new", {"stable": ("1.0.0",)}, f"{fake.host}/olm/new@{bundle_image(fake)}")
    fake.seen.clear()
    assert run_next()
    done = row()
    assert (done.wanted, done.inspected, done.reused) == (4, 1, 2)
    assert done.revision != first
    assert done.failed == {"not-found": 1}
    assert {path.split("/")[3] for _, path, _ in fake.seen} == {"new"}


def test_a_person_has_everything_that_failed_tried_again(
    switched_on: Catalog, fake: RegistryFake, alice: User
) -> None:
    ship(switched_on, "late", {"stable": ("1.0.0",)}, f"{fake.host}/olm/late:v9")
    assert run_next()
    assert row().failed == {"not-found": 1}
    bundle_image(fake, tag="v9")
    turns.start(switched_on, alice)
    assert run_next()
    assert (row().inspected, row().failed) == (1, {})


def test_a_turn_ends_after_its_time_and_the_next_goes_on(
    switched_on: Catalog, fake: RegistryFake, settings: Any
) -> None:
    settings.REGISTRY_PULLS = 1
    ship_many(switched_on, fake, 5)
    ticks = iter(range(0, 10_000, 3))
    turns.take_turn(switched_on.pk, seconds=25, clock=lambda: next(ticks))
    first = row()
    assert 0 < first.inspected < 5
    assert first.left == 5 - first.inspected
    assert state(switched_on) == turns.RUNNING
    turns.take_turn(switched_on.pk)
    assert (row().inspected, row().reused, row().left) == (5, 0, 0)
    assert row().requests == len(fake.seen)
    assert state(switched_on) == turns.DONE


def test_a_turn_ends_when_the_work_of_a_person_waits(
    switched_on: Catalog, fake: RegistryFake, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REGISTRY_PULLS = 1
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0)
    ship_many(switched_on, fake, 5)
    assert inspection.start(f"{fake.host}/olm/other:v1", "olivia")
    assert reports.others_wait(turns.KIND)
    turns.take_turn(switched_on.pk)
    assert row().left == 5
    BundleInspection.objects.all().delete()
    turns.take_turn(switched_on.pk)
    assert row().left == 0


def test_a_stopped_run_ends_and_goes_on_when_it_is_switched_on_again(
    switched_on: Catalog, fake: RegistryFake, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0)
    ship_many(switched_on, fake, 6)
    save = inspection.save

    def stop_then_save(*args: Any) -> None:
        turns.stop(switched_on)
        save(*args)

    with monkeypatch.context() as patch:
        patch.setattr(inspection, "save", stop_then_save)
        assert run_next()
    stopped = row()
    assert stopped.left > 0
    assert stopped.inspected > 0
    assert state(switched_on) == turns.STOPPED
    assert not run_next()
    turns.start(switched_on, alice)
    assert run_next()
    assert (row().left, row().reused) == (0, stopped.inspected)


def test_a_registry_that_asks_to_wait_pauses_the_run_and_not_the_worker(
    switched_on: Catalog, fake: RegistryFake
) -> None:
    [digest, *_] = ship_many(switched_on, fake, 2)
    fake.wrong[digest] = status(429, **{"Retry-After": "600"})
    assert run_next()
    waiting = row()
    assert waiting.next_turn_at is not None
    assert waiting.next_turn_at > timezone.now() + timedelta(seconds=500)
    assert (waiting.waiting_for, waiting.left) == ([fake.host], 2)
    assert state(switched_on) == turns.PAUSED
    assert not run_next()
    fake.wrong.clear()
    CatalogInspection.objects.update(next_turn_at=timezone.now())
    assert run_next()
    assert row().left == 0


def test_the_used_budget_pauses_the_run_until_the_next_day(
    switched_on: Catalog, fake: RegistryFake, settings: Any
) -> None:
    settings.INSPECTION_BUDGET = 1
    ship_many(switched_on, fake, 3)
    assert run_next()
    assert (row().inspected, row().left, row().waiting_for) == (1, 2, ["budget"])
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    assert row().next_turn_at == datetime(*tomorrow.timetuple()[:3], tzinfo=UTC)


def test_a_registry_that_was_left_out_is_left_out_for_the_rest_of_the_run(
    switched_on: Catalog, fake: RegistryFake, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INSECURE_REGISTRIES = frozenset(["127.0.0.1:1", fake.host])
    monkeypatch.setattr("catalogs.sources.oci.client.Pace.hold", lambda *_: None)
    versions = tuple(f"1.{n}.0" for n in range(5))
    ship(switched_on, "gone", {"stable": versions}, "127.0.0.1:1/gone:{}")
    assert run_next()
    assert (row().failed, row().left_out) == ({"unreachable": 5}, ["127.0.0.1:1"])
    assert BundleInspection.objects.count() == 3
    CatalogInspection.objects.update(finished_at=None)  # as after a lost worker
    before = list(BundleInspection.objects.values_list("attempts", "finished_at"))
    assert run_next()
    assert row().failed == {"unreachable": 5}
    assert list(BundleInspection.objects.values_list("attempts", "finished_at")) == before


def test_an_admin_starts_and_stops_it_on_the_page_of_the_catalog(
    client: Client, alice: User, catalog: Catalog, fake: RegistryFake
) -> None:
    client.force_login(alice)
    ship_many(catalog, fake, 2)
    ship(catalog, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    page = client.get(URL).content.decode()
    assert "Inspect bundle images" in page
    assert client.post(f"{URL}/inspection").status_code == 302
    assert row().requested_by == "alice"
    assert "Waiting for a worker" in client.get(URL).content.decode()
    assert run_next()
    page = " ".join(client.get(URL).content.decode().split())
    assert "2 of 3 images inspected" in page
    assert "Not found (not-found)" in page
    assert "Retry failed images" in page
    client.post(f"{URL}/inspection", {"stop": "true"})
    assert row().enabled is False


def test_an_open_page_shows_the_progress(
    client: Client, alice: User, switched_on: Catalog, fake: RegistryFake
) -> None:
    client.force_login(alice)
    ship_many(switched_on, fake, 2)
    rev = client.get(URL).context["rev"]
    poll = {"HX-Request": "true"}
    assert client.get(f"{URL}?rev={rev}", headers=poll).status_code == 204
    assert run_next()
    fragment = client.get(f"{URL}?rev={rev}", headers=poll)
    assert fragment.status_code == 200
    assert "2 of 2 images inspected" in " ".join(fragment.content.decode().split())


def test_others_see_the_state_and_may_not_change_it(
    client: Client, olivia: User, switched_on: Catalog, fake: RegistryFake
) -> None:
    client.force_login(olivia)
    page = client.get(URL).content.decode()
    assert "Waiting for a worker" in page
    assert f"{URL}/inspection" not in page
    assert client.post(f"{URL}/inspection", {"stop": "true"}).status_code == 403
    assert row().enabled is True


def test_the_admin_site_switches_it(client: Client, alice: User, catalog: Catalog) -> None:
    alice.is_staff = True
    alice.save()
    client.force_login(alice)
    add = reverse("admin:catalogs_cataloginspection_add")
    assert client.post(add, {"catalog": catalog.pk, "enabled": "true"}).status_code == 302
    assert row().enabled is True
    change = reverse("admin:catalogs_cataloginspection_change", args=[catalog.pk])
    assert client.post(change, {"enabled": "false"}).status_code == 302
    assert row().enabled is False


def test_rest_reports_the_state(
    client: Client, bob: User, switched_on: Catalog, fake: RegistryFake
) -> None:
    headers = {"Authorization": f"Bearer {ApiToken.issue(bob.pk, 'read')[0]}"}
    address = "/api/v1/catalogs/-/community"
    ship_many(switched_on, fake, 1)
    first = client.get(address, headers=headers)
    assert first.json()["images"]["state"] == "queued"
    assert run_next()
    again = client.get(address, headers={**headers, "If-None-Match": first["ETag"]})
    assert again.status_code == 200
    images = again.json()["images"]
    assert images["finished_at"]
    assert {key: images[key] for key in ("state", "enabled", "wanted", "inspected", "left")} == {
        "state": "complete",
        "enabled": True,
        "wanted": 1,
        "inspected": 1,
        "left": 0,
    }
