"""Settling a catalog: which images are inspected, in which order, and what becomes of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalogs.contents.objects import pack
from catalogs.models import Bundle, BundleInspection, Catalog, Prediction
from catalogs.tasks import inspect_bundle
from catalogs.verdicts.settle import images_to_inspect, settle
from installs.facts import evaluate
from olmweb.runtime import reports
from tests.factories import make_bundle, make_catalog, make_package
from tests.worlds.bundle_images import bundle_image
from tests.worlds.image_registry_fake import RegistryFake, registry_fake, status

pytestmark = pytest.mark.django_db
BLOB = (
    '{{"schema":"olm.bundle","name":"{name}.v{version}","package":"{name}","properties":['
    '{{"type":"olm.package","value":{{"packageName":"{name}","version":"{version}"}}}}]}}'
)


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


@pytest.fixture
def fake(running: RegistryFake, settings: Any) -> RegistryFake:
    running.wrong.clear()
    running.script.clear()
    running.seen.clear()
    settings.INSECURE_REGISTRIES = frozenset([running.host])
    return running


@pytest.fixture
def catalog() -> Catalog:
    return make_catalog(name="community", revision=1)


def ship(catalog: Catalog, name: str, channels: dict[str, tuple[str, ...]], image: str) -> None:
    """A package whose bundles have `image` with their version for `{}` and no objects."""
    package = make_package(name=name, catalog=catalog, channels=channels)
    Bundle.objects.filter(package=package).delete()
    for version in sorted({version for entries in channels.values() for version in entries}):
        make_bundle(
            package=package,
            version=version,
            image=image.format(version),
            blob=BLOB.format(name=name, version=version).encode(),
        )


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
    first = settle(images_to_inspect(catalog))
    assert (first.wanted, first.inspected, first.reused, first.failed) == (1, 1, 0, {})
    assert first.requests == len(fake.seen) > 0
    assert first.bytes > 0
    evaluate.refresh(catalog)
    assert set(platform.values_list("verdict", flat=True)) == {"not_installable"}
    fake.seen.clear()
    again = settle(images_to_inspect(catalog))
    assert (again.inspected, again.reused, again.requests, again.bytes) == (0, 1, 0, 0)
    assert not fake.seen


def test_one_missing_image_never_ends_the_run(catalog: Catalog, fake: RegistryFake) -> None:
    ship(catalog, "absent", {"stable": ("1.0.0",)}, f"{fake.host}/olm/absent:{{}}")
    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    result = settle(images_to_inspect(catalog))
    assert (result.inspected, result.failed) == (1, {"not-found": 1})


def test_a_registry_that_can_not_be_reached_is_not_asked_for_every_image(
    catalog: Catalog, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalogs.sources.oci.client.time.sleep", lambda _: None)
    settings.INSECURE_REGISTRIES = frozenset(["127.0.0.1:1"])
    ship(catalog, "etcd", {"stable": tuple(f"1.{n}.0" for n in range(9))}, "127.0.0.1:1/etcd:{}")
    result = settle(images_to_inspect(catalog, all_versions=True))
    assert result.failed == {"unreachable": 9}
    assert BundleInspection.objects.count() == 3


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_failing_registry_is_not_asked_for_every_image(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr("catalogs.sources.oci.client.time.sleep", lambda _: None)
    versions = tuple(f"1.{n}.0" for n in range(9))
    ship(catalog, "etcd", {"stable": versions}, f"{fake.host}/olm/etcd:{{}}")
    fake.wrong.update({version: status(code) for version in versions})
    result = settle(images_to_inspect(catalog, all_versions=True))
    assert (result.failed.total(), result.failed["unreachable"]) == (9, 6)
    assert BundleInspection.objects.count() == 3


def test_an_unexpected_error_never_ends_the_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    monkeypatch.setattr("catalogs.contents.inspection.pack", broken)
    assert settle(images_to_inspect(catalog)).failed == {"internal": 1}


def test_an_interrupted_image_is_inspected_by_the_next_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    with monkeypatch.context() as patch:
        patch.setattr("catalogs.contents.inspection.pack", interrupt)
        with pytest.raises(KeyboardInterrupt):
            settle(images_to_inspect(catalog))
    assert settle(images_to_inspect(catalog)).inspected == 1


def test_no_worker_inspects_an_image_of_the_run(
    catalog: Catalog, fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []

    def meanwhile(*args: Any) -> Any:
        ran.append(reports.run_next())
        return pack(*args)

    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/k@{bundle_image(fake)}")
    monkeypatch.setattr("catalogs.contents.inspection.pack", meanwhile)
    assert settle(images_to_inspect(catalog)).inspected == 1
    assert ran == [False]
    assert reports._kinds["inspection"].run is inspect_bundle


def test_a_registry_that_asks_to_wait_gets_its_time(catalog: Catalog, fake: RegistryFake) -> None:
    digest = bundle_image(fake)
    ship(catalog, "kettle", {"stable": ("1.0.0",)}, f"{fake.host}/olm/kettle@{digest}")
    fake.wrong[digest] = status(429, **{"Retry-After": "600"})
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        fake.wrong.clear()

    result = settle(images_to_inspect(catalog), pause=pause)
    assert result.inspected == 1
    [seconds] = waited
    assert 590 < seconds <= 600


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
    assert (
        "0 of 1 images inspected, 1 stored before; 0 bytes, 0 requests" in capsys.readouterr().out
    )
    with pytest.raises(CommandError, match='No catalog is called "nope"') as refused:
        call_command("inspect_catalog", "nope")
    assert refused.value.returncode == 2
