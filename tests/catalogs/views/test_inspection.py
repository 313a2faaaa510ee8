"""Inspecting a bundle's image: who may, once only, how it goes, what it settles."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from catalogs import tasks
from catalogs.contents import inspection, stored
from catalogs.contents.stored import contents_of, manifests_of
from catalogs.models import Bundle, BundleInspection, BundleManifests, Prediction
from catalogs.sources.oci.source import BundleSource
from installs.facts import evaluate
from olmweb.models import ApiToken
from olmweb.runtime import leases
from olmweb.runtime.reports import run_next, run_report
from tests.factories import make_bundle, make_catalog, make_package
from tests.worlds.bundle_images import CRD, SERVICE, bundle_image, csv, files
from tests.worlds.image_registry_fake import RegistryFake, registry_fake, status, tar

pytestmark = pytest.mark.django_db
State = BundleInspection.State


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


@pytest.fixture
def fake(running: RegistryFake, settings) -> RegistryFake:
    running.wrong.clear()
    running.seen.clear()
    settings.INSECURE_REGISTRIES = frozenset([running.host])
    return running


@pytest.fixture
def bundle(fake: RegistryFake) -> Bundle:
    digest = bundle_image(fake)
    package = make_package(name="kettle", catalog=make_catalog(name="community"), channels={})
    return make_bundle(
        package=package,
        version="1.0.0",
        image=f"{fake.host}/olm/kettle@{digest}",
        blob=b'{"schema":"olm.bundle","name":"kettle.v1.0.0","package":"kettle","properties":['
        b'{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}',
    )


@pytest.fixture
def queued(monkeypatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(
        run_report,
        "delay_on_commit",
        lambda: found.append(BundleInspection.objects.latest("asked_at").pk),
    )
    return found


@pytest.fixture
def admin(client: Client, alice) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def operator(client: Client, olivia) -> Client:
    client.force_login(olivia)
    return client


def url(bundle: Bundle, route: str = "catalogs:inspection") -> str:
    return reverse(route, args=("-", "community", bundle.package.name, bundle.name))


def inspected(bundle: Bundle) -> BundleInspection:
    row = inspection.start(bundle.image, "alice")
    assert row is not None
    tasks.inspect_bundle(row.pk)
    row.refresh_from_db()
    return row


def test_an_operator_asks_for_it_once_and_a_worker_settles_what_was_unknown(
    operator, bundle, queued, fake
):
    page = operator.get(url(bundle, "catalogs:bundle")).content.decode()
    assert "Inspect bundle image" in page
    assert contents_of(bundle) is None
    for _ in range(2):
        assert operator.post(url(bundle)).status_code == 302
    row = BundleInspection.objects.get()
    assert queued == [row.pk]
    assert (row.state, row.asked_by) == (State.QUEUED, "olivia")
    tasks.inspect_bundle(row.pk)
    row.refresh_from_db()
    assert (row.state, row.requests) == (State.READ, 3)
    assert BundleManifests.objects.get().objects_held == 3
    contents = contents_of(bundle)
    assert contents is not None
    assert (contents.webhooks, contents.owned_crds) == (1, ("kettles.tea.example.com",))
    assert {each.kind.kind for each in contents.shipped or ()} == {
        "CustomResourceDefinition",
        "Service",
    }
    evaluate.refresh_all()
    page = operator.get(url(bundle, "catalogs:bundle")).content.decode()
    assert "the bundle defines 1 webhook" in page


def test_stored_predictions_are_made_anew_with_what_the_image_tells(bundle):
    catalog = bundle.package.catalog
    evaluate.refresh(catalog)
    assert evaluate.refresh(catalog) is None
    assert po_verdict(bundle) == "unknown"
    inspected(bundle)
    assert evaluate.refresh(catalog) is not None
    assert po_verdict(bundle) == "not_installable"


def test_folders_among_the_manifests_of_an_image_are_refused(fake, bundle):
    members = files(csv(webhookdefinitions=[]), CRD, SERVICE, **{"crds/extra": b"kind: Secret"})
    digest = bundle_image(fake, tar(*members))
    Bundle.objects.filter(pk=bundle.pk).update(image=f"{fake.host}/olm/kettle@{digest}")
    bundle.refresh_from_db()
    inspected(bundle)
    evaluate.refresh(bundle.package.catalog)
    rows = Prediction.objects.filter(bundle=bundle, target="all").order_by("path")
    assert {row.path: row.rule for row in rows} == {
        "ClusterExtension": "ce-folder",
        "PlatformOperator": "po-folder",
        "Subscription": "",
    }


def po_verdict(bundle: Bundle) -> str:
    row = Prediction.objects.filter(bundle=bundle, path="PlatformOperator").first()
    assert row is not None
    return row.verdict


def test_others_may_not_ask_and_see_why(client, bob, bundle, queued):
    client.force_login(bob)
    page = client.get(url(bundle, "catalogs:bundle")).content.decode()
    assert "Inspect bundle image" not in page
    assert "Operators and admins of OLM Web may have the image inspected." in page
    assert client.post(url(bundle)).status_code == 403
    client.logout()
    assert "/login/" in client.post(url(bundle))["Location"]
    assert (queued, BundleInspection.objects.count()) == ([], 0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"image": ""}, "names no image"), ({"webhooks": 0}, "has its objects in the catalog")],
)
def test_a_bundle_without_anything_to_pull_is_refused(admin, bundle, queued, fields, words):
    Bundle.objects.filter(pk=bundle.pk).update(**fields)
    response = admin.post(url(bundle))
    assert (response.status_code, words in response.content.decode(), queued) == (409, True, [])


def test_what_a_digest_holds_is_pulled_once_whatever_names_it(bundle, fake):
    inspected(bundle)
    fake.seen.clear()
    again = inspected(bundle)
    assert (again.state, again.requests, fake.seen) == (State.READ, 0, [])
    bundle.image = f"{fake.host}/olm/kettle:v1"
    by_tag = inspected(bundle)
    assert (by_tag.requests, [method for method, _, _ in fake.seen]) == (1, ["HEAD"])
    assert BundleManifests.objects.count() == 1
    manifests = manifests_of(bundle)
    assert manifests is not None
    assert manifests.csv["metadata"]["name"] == "kettle.v1.0.0"


def test_a_task_that_is_delivered_again_or_while_another_works_does_nothing(bundle, fake):
    row = inspected(bundle)
    fake.seen.clear()
    tasks.inspect_bundle(row.pk)
    BundleInspection.objects.update(state=State.QUEUED, manifests=None)
    BundleManifests.objects.all().delete()
    with leases.lease(f"inspection:{row.pk}", 60):
        assert not run_next()
    assert fake.seen == []
    tasks.inspect_bundle(row.pk + 1)
    assert run_next()
    assert BundleInspection.objects.get().state == State.READ
    assert not run_next()


def test_a_failure_is_one_sentence_with_what_to_do_and_can_be_tried_again(
    admin, bundle, queued, fake
):
    fake.wrong[bundle.image.rpartition("@")[2]] = status(404)
    row = inspected(bundle)
    assert (row.state, row.error_code) == (State.FAILED, "not-found")
    page = admin.get(url(bundle, "catalogs:bundle")).content.decode()
    assert "is not in its registry: it answered 404." in page
    assert "Try again" in page
    fake.wrong.clear()
    admin.post(url(bundle))
    assert queued == [row.pk]
    tasks.inspect_bundle(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error_text) == (State.READ, "")


def wait_over(row: BundleInspection) -> None:
    BundleInspection.objects.update(next_attempt_at=timezone.now() - timedelta(seconds=1))
    row.refresh_from_db()


def test_a_registry_that_asks_to_wait_gets_its_time_and_no_worker_waits(admin, bundle, fake):
    digest = bundle.image.rpartition("@")[2]
    fake.wrong[digest] = status(429, Retry_After="600")
    row = inspected(bundle)
    assert (row.state, row.attempts, row.error_text) == (State.QUEUED, 0, "")
    assert row.next_attempt_at is not None
    assert 590 < (row.next_attempt_at - timezone.now()).total_seconds() <= 600
    assert inspection.start(bundle.image, "olivia") is None
    assert not run_next()
    page = admin.get(url(bundle, "catalogs:bundle")).content.decode()
    assert "The registry limits requests" in page
    assert admin.get(url(bundle, "api:get_inspection")).json()["next_attempt_at"]
    fake.wrong.clear()
    wait_over(row)
    assert run_next()
    row = BundleInspection.objects.get()
    assert (row.state, row.next_attempt_at, row.waits) == (State.READ, None, 0)


def test_a_registry_that_asks_to_wait_again_and_again_is_left_after_five_times(bundle, fake):
    fake.wrong[bundle.image.rpartition("@")[2]] = status(429, Retry_After="60")
    row = inspected(bundle)
    for waits in range(2, inspection.WAITS + 1):
        wait_over(row)
        assert run_next()
        row.refresh_from_db()
        assert (row.state, row.waits) == (State.QUEUED, waits)
    wait_over(row)
    assert run_next()
    row.refresh_from_db()
    assert (row.state, row.error_code) == (State.FAILED, "rate-limited")
    assert row.error_text.endswith("It asked to wait 6 times.")
    assert inspection.start(bundle.image, "olivia") is not None
    row.refresh_from_db()
    assert (row.state, row.waits, row.next_attempt_at) == (State.QUEUED, 0, None)


@pytest.mark.parametrize(("seconds", "state"), [("3600", "queued"), ("3601", "failed")])
def test_a_registry_that_asks_to_wait_more_than_an_hour_is_left_at_once(
    bundle, fake, seconds, state
):
    fake.wrong[bundle.image.rpartition("@")[2]] = status(503, Retry_After=seconds)
    row = inspected(bundle)
    assert row.state == state
    if state == "failed":
        assert row.error_text.endswith("It asks to wait 3,601 s, longer than the 3,600 s allowed.")


def test_a_fault_of_ours_is_told_and_raised(bundle, monkeypatch):
    monkeypatch.setattr(BundleSource, "fetch", lambda self: 1 / 0)
    row = inspection.start(bundle.image, "alice")
    assert row is not None
    with pytest.raises(ZeroDivisionError):
        tasks.inspect_bundle(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error_code) == (State.FAILED, "internal")


def test_one_whose_worker_was_killed_can_be_asked_for_again(bundle):
    row = inspection.start(bundle.image, "alice")
    assert inspection.start(bundle.image, "olivia") is None
    long_ago = timezone.now() - timedelta(seconds=inspection.LIMIT + 61)
    BundleInspection.objects.update(state=State.READING, asked_at=long_ago)
    assert not inspection.in_progress(BundleInspection.objects.get())
    assert inspection.start(bundle.image, "olivia") == row


def test_htmx_polls_while_it_goes_on_and_stops_then(admin, bundle, queued):
    headers = {"HX-Request": "true"}
    admin.post(url(bundle))
    BundleInspection.objects.update(done=50, total=200)
    going = admin.get(url(bundle), headers=headers)
    assert (going.status_code, 'value="25"' in going.content.decode()) == (200, True)
    tasks.inspect_bundle(queued[0])
    done = admin.get(url(bundle), headers=headers)
    assert (done.status_code, "hx-trigger" in done.content.decode()) == (286, False)
    assert admin.get(url(bundle))["Location"] == url(bundle, "catalogs:bundle")


def test_only_people_with_an_account_see_whom_it_was_inspected_for(client, bob, bundle, settings):
    settings.PUBLIC_READ = True
    inspected(bundle)
    addresses = [url(bundle, "catalogs:bundle"), url(bundle, "api:get_inspection")]
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200
        assert b"alice" not in answer.content, address
    client.force_login(bob)
    for address in addresses:
        assert b"alice" in client.get(address).content, address


def test_an_inspected_bundle_costs_few_queries(client, bob, bundle, django_assert_max_num_queries):
    inspected(bundle)
    client.force_login(bob)
    client.get(url(bundle, "catalogs:bundle"))
    with django_assert_max_num_queries(16):
        client.get(url(bundle, "catalogs:bundle"))


def test_the_package_page_links_to_the_contents_of_the_bundle_that_it_shows(client, bob, bundle):
    client.force_login(bob)
    page = client.get("/software/-/community/kettle?tab=installs").content.decode()
    assert f'href="{url(bundle, "installs:contents")}"' in page


def ask_by_rest(user, bundle, scope="act"):
    token, _ = ApiToken.issue(user.pk, scope)
    return Client().post(
        url(bundle, "api:create_inspection"), headers={"Authorization": f"Bearer {token}"}
    )


def test_by_rest_it_is_asked_for_once_and_told_how_it_goes(client, olivia, bundle, queued):
    client.force_login(olivia)
    assert client.get(url(bundle, "api:get_inspection")).status_code == 404
    for _ in range(2):
        answer = ask_by_rest(olivia, bundle)
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    assert len(queued) == 1
    tasks.inspect_bundle(queued[0])
    told = client.get(url(bundle, "api:get_inspection")).json()
    assert (told["state"], told["objects"], told["error"]) == ("read", 3, None)
    assert told["digest"] == bundle.image.rpartition("@")[2]


def test_by_rest_scope_role_and_bundle_are_refused_as_on_the_page(
    client, olivia, bob, bundle, queued
):
    assert ask_by_rest(olivia, bundle, scope="read").json()["error"]["code"] == "scope"
    assert ask_by_rest(bob, bundle).status_code == 403
    assert Client().post(url(bundle, "api:create_inspection")).status_code == 401
    Bundle.objects.update(image="")
    told = ask_by_rest(olivia, bundle)
    assert (told.status_code, told.json()["error"]["code"]) == (409, "nothing-to-inspect")
    assert queued == []


def test_what_no_bundle_names_any_more_is_forgotten_and_nothing_else(bundle):
    inspected(bundle)
    BundleInspection.objects.create(image="registry.example/gone:1", asked_at=timezone.now())
    later = timezone.now() + timedelta(seconds=1)
    assert stored.prune(later - timedelta(days=1)) == 0
    assert stored.prune(later) == 1
    assert BundleInspection.objects.get().image == bundle.image
    assert BundleManifests.objects.count() == 1
    Bundle.objects.update(image="registry.example/other:1")
    BundleInspection.objects.create(image="busy", state=State.READING, asked_at=later)
    assert stored.prune(later) == 1
    assert BundleManifests.objects.count() == 1, "while another is read"
    BundleInspection.objects.all().delete()
    assert stored.prune(later) == 2, "the manifests and the CRD that is named for them"
    assert not BundleManifests.objects.exists()
