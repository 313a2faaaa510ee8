"""Settling a catalog: which images are inspected, in which order, and what becomes of them."""

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from catalogs.contents import bulk_inspection, inspection
from catalogs.contents.bulk_inspection import Summary, inspect_images
from catalogs.management.commands import inspect_catalog
from catalogs.models import Bundle, BundleInspection, Catalog, Prediction
from catalogs.sources.oci.client import Pace
from catalogs.tasks import inspect_bundle
from catalogs.verdicts.settle import images_to_inspect
from installs.facts import evaluate
from olmweb.runtime import reports
from olmweb.runtime.leases import held_names
from tests.worlds.bundle_images import bundle_image
from tests.worlds.image_registry_fake import RegistryFake, registry_fake, send, status
from tests.worlds.inspected_catalogs import ship, ship_many

pytestmark = pytest.mark.django_db


def test_chosen_bundles_come_first_then_heads_then_the_rest_newest_first(catalog: Catalog) -> None:
    channels = {
        "stable": ("1.0.0", "1.1.0", "1.2.0"),
        "fast": ("1.3.0", "2.0.0"),
        "old": ("0.9.0",),
    }
    ship(catalog, "etcd", channels, "registry.example/etcd:{}")
    listed = images_to_inspect(catalog)
    # 2.0.0 is the highest of all channels, 1.2.0 the head of the default channel.
    assert {image.rpartition(":")[2] for image in listed[:2]} == {"2.0.0", "1.2.0"}
    assert [image.rpartition(":")[2] for image in listed[2:]] == ["0.9.0"]
    every = images_to_inspect(catalog, all_versions=True)
    assert [image.rpartition(":")[2] for image in every[3:]] == ["1.3.0", "1.1.0", "1.0.0"]


def test_bundles_whose_objects_the_catalog_has_are_left_out(catalog: Catalog) -> None:
    ship(catalog, "etcd", {"stable": ("1.0.0",)}, "registry.example/etcd:{}")
    Bundle.objects.update(webhooks=0)
    assert images_to_inspect(catalog) == []


def test_what_was_unknown_is_settled_and_a_second_run_sends_nothing(
    catalog: Catalog, fake: RegistryFake
) -> None:
    image = f"{fake.host}/olm/kettle@{bundle_image(fake)}"
    for name in ("kettle", "teapot"):
        ship(catalog, name, {"stable": ("1.0.0",)}, image)
    evaluate.refresh(catalog)
    platform = Prediction.objects.filter(path="PlatformOperator", cluster=None)
    assert set(platform.values_list("verdict", flat=True)) == {"unknown"}
    fake.seen.clear()
    first = inspect_images(images_to_inspect(catalog))
    assert (first.wanted, first.inspected, first.reused, first.failed) == (1, 1, 0, {})
    assert first.requests == len(fake.seen) > 0
    assert first.bytes > 0
    evaluate.refresh(catalog)
    assert set(platform.values_list("verdict", flat=True)) == {"not_installable"}
    fake.seen.clear()
    again = inspect_images(images_to_inspect(catalog))
    assert (again.inspected, again.reused, again.requests, again.bytes) == (0, 1, 0, 0)
    assert not fake.seen


def test_one_missing_image_never_ends_the_run(catalog: Catalog, fake: RegistryFake) -> None:
    ship(catalog, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    result = inspect_images(images_to_inspect(catalog))
    assert (result.inspected, result.failed) == (1, {"not-found": 1})


def test_a_registry_that_can_not_be_reached_is_not_asked_for_every_image(
    catalog: Catalog, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "hold", lambda *_: None)
    settings.INSECURE_REGISTRIES = frozenset(["127.0.0.1:1"])
    ship(catalog, "etcd", {"stable": tuple(f"1.{n}.0" for n in range(9))}, "127.0.0.1:1/etcd:{}")
    result = inspect_images(images_to_inspect(catalog, all_versions=True))
    assert result.failed == {"unreachable": 9}
    assert BundleInspection.objects.count() == 3


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_failing_registry_is_not_asked_for_every_image(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(Pace, "hold", lambda *_: None)
    versions = tuple(f"1.{n}.0" for n in range(9))
    ship(catalog, "etcd", {"stable": versions}, f"{fake.host}/olm/etcd:{{}}")
    fake.wrong.update({version: status(code) for version in versions})
    result = inspect_images(images_to_inspect(catalog, all_versions=True))
    assert (result.failed.total(), result.failed["unreachable"]) == (9, 6)
    assert BundleInspection.objects.count() == 3


def test_an_unexpected_error_never_ends_the_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    monkeypatch.setattr("catalogs.contents.inspection.pack", broken)
    assert inspect_images(images_to_inspect(catalog)).failed == {"internal": 1}


def test_an_interrupted_image_is_inspected_by_the_next_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    with monkeypatch.context() as patch:
        patch.setattr("catalogs.contents.inspection.pack", interrupt)
        with pytest.raises(KeyboardInterrupt):
            inspect_images(images_to_inspect(catalog))
    assert inspect_images(images_to_inspect(catalog)).inspected == 1


def test_no_worker_inspects_an_image_of_the_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []
    save = inspection.save

    def meanwhile(*args: Any) -> None:
        ran.append(reports.run_next())
        save(*args)

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    monkeypatch.setattr("catalogs.contents.inspection.save", meanwhile)
    assert inspect_images(images_to_inspect(catalog)).inspected == 1
    assert ran == [False]
    assert reports._kinds["inspection"].run is inspect_bundle


class Clock:
    """A clock that only a pause moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.paused: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now += seconds


def test_a_registry_that_asks_to_wait_gets_its_time_once_for_all_images(
    catalog: Catalog, fake: RegistryFake
) -> None:
    digests = ship_many(catalog, fake, 6)
    for digest in digests:
        fake.wrong[digest] = status(429, **{"Retry-After": "600"})
    clock, lines = Clock(), []

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        if clock.now >= 600:
            fake.wrong.clear()

    def progress(summary: Summary) -> None:
        lines.append(dict(summary.waiting))

    result = inspect_images(images_to_inspect(catalog), progress, clock=clock, pause=pause)
    assert (result.inspected, result.failed) == (6, {})
    assert 600 <= sum(clock.paused) < 602
    assert max(clock.paused) <= bulk_inspection.TICK
    assert [line[fake.host] for line in lines if line][:2] == [600, 599]
    refused = [path for _, path, _ in fake.seen if path.endswith(digests[0])]
    assert len(refused) == 2
    assert len(fake.seen) == result.requests == 1 + 6 * 3


def test_a_wait_that_is_too_long_ends_the_run_or_leaves_the_registry_out(
    catalog: Catalog, fake: RegistryFake
) -> None:
    [digest, *_] = ship_many(catalog, fake, 3)
    fake.wrong[digest] = status(429, **{"Retry-After": "60"})
    images = images_to_inspect(catalog)
    short = inspect_images(images, patience=5)
    assert (short.stopped, short.left) == (bulk_inspection.WAITING, 3)
    assert 55 < short.waiting[fake.host] <= 60
    fake.wrong[digest] = status(429, **{"Retry-After": "7200"})
    long = inspect_images(images)
    assert (long.failed, long.left, long.left_out) == ({"rate-limited": 3}, 0, {fake.host})


def test_a_registry_is_asked_for_one_image_until_it_answers_then_for_a_few(
    catalog: Catalog, fake: RegistryFake, settings: Any
) -> None:
    settings.REGISTRY_PULLS, settings.REGISTRY_RATE = 3, 1000
    digests = ship_many(catalog, fake, 9)
    at_once: list[int] = []
    open_now: set[str] = set()
    lock = threading.Lock()
    three_at_once = threading.Event()

    def manifest_of(digest: str) -> Any:
        media_type, data = fake.manifests[digest]

        def answer(request: Any) -> None:
            with lock:
                open_now.add(digest)
                at_once.append(len(open_now))
            if len(open_now) == 3:
                three_at_once.set()
            if len(at_once) > 1:
                three_at_once.wait(5)
            time.sleep(0.05)
            with lock:
                open_now.discard(digest)
            send(request, 200, data, {"Content-Type": media_type})

        return answer

    fake.wrong.update({digest: manifest_of(digest) for digest in digests})
    assert inspect_images(images_to_inspect(catalog)).inspected == 9
    assert at_once[0] == 1
    assert max(at_once) == 3


def test_the_requests_to_a_registry_are_spaced_out() -> None:
    clock = Clock()
    pace = Pace(20, clock=clock, pause=clock.pause)
    for _ in range(41):
        pace.wait("a.example")
    assert clock.now == pytest.approx(2.0)
    pace.wait("b.example")
    assert clock.now == pytest.approx(2.0)
    pace.hold("a.example", 30)
    pace.wait("a.example")
    assert clock.now == pytest.approx(32.0)


def test_no_image_is_begun_once_the_budget_of_the_day_is_used(
    catalog: Catalog, fake: RegistryFake, settings: Any
) -> None:
    ship_many(catalog, fake, 4)
    settings.INSPECTION_BUDGET = 1
    images = images_to_inspect(catalog)
    first = inspect_images(images)
    assert (first.inspected, first.left, first.stopped) == (1, 3, bulk_inspection.BUDGET)
    fake.seen.clear()
    again = inspect_images(images)
    assert (again.reused, again.left, again.stopped) == (1, 3, bulk_inspection.BUDGET)
    assert not fake.seen
    BundleInspection.objects.update(finished_at=timezone.now() - timedelta(days=1))
    assert inspect_images(images).inspected == 1


def test_a_run_that_is_cancelled_ends_its_pulls_and_leaves_the_rest(
    catalog: Catalog, fake: RegistryFake
) -> None:
    ship_many(catalog, fake, 5)
    reasons = iter(["", "", bulk_inspection.CANCELLED])
    result = inspect_images(
        images_to_inspect(catalog), stop=lambda: next(reasons, bulk_inspection.CANCELLED)
    )
    assert result.stopped == bulk_inspection.CANCELLED
    assert result.left > 0
    assert not BundleInspection.objects.filter(state__in=("queued", "reading")).exists()
    assert not held_names("inspection:")
    assert inspect_images(images_to_inspect(catalog)).left == 0


def test_one_image_under_two_names_is_pulled_once(catalog: Catalog, fake: RegistryFake) -> None:
    digest = bundle_image(fake)
    for name in ("kettle", "teapot", "urn"):
        ship(catalog, name, {"stable": ("1.0.0",)}, f"{fake.host}/olm/{name}@{digest}")
    result = inspect_images(images_to_inspect(catalog))
    assert (result.inspected, result.reused, result.requests) == (1, 2, 3)
    assert len(fake.seen) == 3


def test_another_registry_goes_on_while_one_asks_to_wait(
    catalog: Catalog, fake: RegistryFake, settings: Any
) -> None:
    with registry_fake() as busy:
        settings.INSECURE_REGISTRIES = frozenset([fake.host, busy.host])
        digest = bundle_image(busy)
        busy.wrong[digest] = status(429, **{"Retry-After": "60"})
        ship(catalog, "aaa", {"stable": ("1.0.0",)}, f"{busy.host}/olm/aaa@{digest}")
        ship_many(catalog, fake, 3)
        result = inspect_images(images_to_inspect(catalog), patience=5)
    assert (result.inspected, result.left) == (3, 1)
    assert set(result.waiting) == {busy.host}


def test_the_command_reports_in_words_and_as_json(
    catalog: Catalog, fake: RegistryFake, capsys: pytest.CaptureFixture[str]
) -> None:
    ship(catalog, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    with pytest.raises(SystemExit) as ended:
        call_command("inspect_catalog", "community", "--json")
    assert ended.value.code == 1
    values = json.loads(capsys.readouterr().out)
    assert values.pop("seconds") >= 0
    assert values.pop("bytes") > 0
    assert values.pop("requests") > 0
    assert values == {
        "catalog": str(catalog),
        "wanted": 2,
        "inspected": 1,
        "reused": 0,
        "failed": {"not-found": 1},
    }
    Bundle.objects.filter(package__name="absent").delete()
    call_command("inspect_catalog", "community")
    assert "0 of 1 images inspected, 1 stored before; 0 B, 0 requests" in capsys.readouterr().out
    with pytest.raises(CommandError, match='No catalog is called "nope"') as refused:
        call_command("inspect_catalog", "nope")
    assert refused.value.returncode == 2


def test_the_command_says_why_it_stopped_and_whom_it_waits_for(
    catalog: Catalog,
    fake: RegistryFake,
    settings: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ship_many(catalog, fake, 2)
    settings.INSPECTION_BUDGET = 1
    with pytest.raises(SystemExit):
        call_command("inspect_catalog", "community")
    printed = capsys.readouterr()
    assert "1 of 2 images inspected, 1 left" in printed.out
    assert "OLMWEB_INSPECTION_BUDGET are used for today" in printed.err
    waiting = Summary(wanted=2, waiting={"quay.example": 41.6})
    assert inspect_catalog._words(waiting).endswith("; quay.example asks to wait, 42 s left")
    settings.REGISTRIES_CONF = str(tmp_path / "absent.conf")
    with pytest.raises(CommandError, match=r"absent\.conf, can't be read") as refused:
        call_command("inspect_catalog", "community")
    assert refused.value.returncode == 2
