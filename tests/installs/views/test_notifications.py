"""The notifications of the signed-in person: each kind of entry, marking as read, and the bell."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from catalogs.models import CatalogChange, CatalogRevision
from installs.models import ActionBatch, InstallRequest
from olmweb.models import Cluster, Preferences
from tests.factories import make_catalog, make_operator, make_transition
from tests.worlds.html import assert_page
from tests.worlds.operators import make_action

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'
PAGE = "/notifications/"
BELL = "/notifications/bell"
HOUR = timedelta(hours=1)


def change(prod: Cluster, name: str, before: str, after: str, **fields: Any) -> None:
    subject = make_operator(cluster=prod, name=name, health=after, since=timezone.now() - 9 * HOUR)
    make_transition(
        subject=subject, type="Health", from_status=before, to_status=after, **fields
    )  # fmt: skip


def test_visitors_sign_in_first(client: Client, db: None, settings: Any) -> None:
    settings.PUBLIC_READ = True
    assert client.get(PAGE)["Location"] == "/login/?next=/notifications/"
    assert 'id="bell"' not in client.get("/").content.decode()


def test_new_failures_and_recoveries_are_listed_and_other_changes_are_not(
    reader: Client, prod: Cluster
) -> None:
    change(prod, "etcd", "Healthy", "Failed", to_reason="UnpackFailed")
    change(prod, "kafka", "Degraded", "Healthy")
    change(prod, "first", "", "Failed")
    change(prod, "worse", "Degraded", "Failed")
    change(prod, "upgraded", "Upgrading", "Healthy")
    answer = reader.get(PAGE)
    page = assert_page(answer)
    source = answer.content.decode()
    assert "2 unread in the last" in page.text
    assert "New failures" in page.text
    assert "UnpackFailed" in page.text
    assert "Recoveries" in page.text
    for name in ("first", "worse", "upgraded"):
        assert f"/{name}" not in source, name
    assert "/operators/prod/PlatformOperator/-/etcd" in source


def test_a_new_account_starts_with_the_last_seven_days(reader: Client, prod: Cluster) -> None:
    change(prod, "old", "Healthy", "Failed", at=timezone.now() - timedelta(days=8))
    assert "No new notifications" in assert_page(reader.get(PAGE)).text


def test_approvals_and_requests_that_wait_are_listed_for_those_who_may_decide(
    client: Client, prod: Cluster, alice: Any, bob: Any
) -> None:
    make_operator(cluster=prod, name="kafka", health="NeedsApproval", upgrade="2.0.0")
    InstallRequest.objects.create(
        cluster=prod, package="etcd", version="1.0", path="Subscription", reason="r", user=bob
    )
    client.force_login(alice)
    page = assert_page(client.get(PAGE)).text
    assert "Upgrade to 2.0.0" in page
    assert "Installation request: etcd 1.0" in page
    assert "requested by bob" in page
    client.force_login(bob)
    page = assert_page(client.get(PAGE)).text
    assert "Upgrade to 2.0.0" not in page
    assert "Installation request" not in page
    assert client.get(BELL).context["count"] == 0


def test_own_finished_actions_and_decided_requests_are_listed_and_those_of_others_are_not(
    reader: Client, prod: Cluster, alice: Any, bob: Any
) -> None:
    now = timezone.now()
    make_action(prod, "etcd", user=bob, state="succeeded", finished_at=now)
    make_action(prod, "kafka", user=alice, state="failed", finished_at=now)
    make_action(prod, "pending", user=bob, state="applied")
    InstallRequest.objects.create(
        cluster=prod, package="quay", version="3", path="Subscription", reason="r", user=bob,
        state="declined", word="Not now.", decided_at=now,
    )  # fmt: skip
    page = assert_page(reader.get(PAGE)).text
    assert "Install etcd" in page
    assert "kafka" not in page
    assert "pending" not in page
    assert "Installation request: quay 3" in page
    assert "Not now." in page


def test_revisions_are_listed_that_change_an_installed_package(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, name="etcd", catalog="community")
    catalog = make_catalog(cluster=prod, name="community")
    other = make_catalog(cluster=prod, name="other")
    for row, number, package, kind in (
        (catalog, 7, "etcd", CatalogChange.Kind.HEAD_MOVED),
        (catalog, 8, "kafka", CatalogChange.Kind.HEAD_MOVED),
        (catalog, 9, "etcd", CatalogChange.Kind.BUNDLE_ADDED),
        (other, 10, "etcd", CatalogChange.Kind.HEAD_MOVED),
    ):
        revision = CatalogRevision.objects.create(catalog=row, number=number)
        CatalogChange.objects.create(revision=revision, kind=kind, package=package)
    page = assert_page(reader.get(PAGE)).text
    assert "community revision 7" in page
    for number in (8, 9, 10):
        assert f"revision {number}" not in page


def test_a_get_leaves_all_unread_and_a_post_marks_what_its_page_showed(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    change(prod, "etcd", "Healthy", "Failed", at=timezone.now() - HOUR)
    for _ in range(2):
        page = assert_page(reader.get(PAGE))
        assert "1 unread in the last" in page.text
    assert not Preferences.objects.exists()
    shown = (timezone.now() - HOUR / 2).isoformat()
    change(prod, "kafka", "Healthy", "Failed")
    answer = assert_page(reader.post(PAGE, {"until": shown}, follow=True)).text
    assert "All notifications marked as read." in answer
    assert "kafka" in answer
    assert "etcd" not in answer
    assert Preferences.objects.get(user=bob).notifications_read_at == datetime.fromisoformat(shown)


@pytest.mark.parametrize("until", ["", "yesterday", "2026-13-01", "9999-01-01T00:00:00+00:00"])
def test_marking_with_another_time_marks_until_now(
    reader: Client, prod: Cluster, bob: Any, until: str
) -> None:
    reader.post(PAGE, {"until": until})
    read_at = Preferences.objects.get(user=bob).notifications_read_at
    assert read_at is not None
    assert abs(timezone.now() - read_at) < timedelta(minutes=1)


def test_at_most_a_hundred_are_counted_on_pages_of_a_bounded_number_of_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(104):
        change(prod, f"operator-{number}", "Healthy", "Failed")
    with django_assert_max_num_queries(12):
        answer = reader.get(PAGE)
    page = assert_page(answer)
    assert "The newest 100 unread in the last" in page.text
    assert len(answer.content) < 60_000
    assert reader.get(PAGE, {"page": 2}).status_code == 200
    with django_assert_max_num_queries(10):
        bell = reader.get(BELL).content.decode()
    assert "99+" in bell


def test_names_and_messages_are_escaped(reader: Client, prod: Cluster, bob: Any) -> None:
    change(prod, "etcd", "Healthy", "Failed", to_reason=EVIL)
    make_action(prod, EVIL, user=bob, state="failed", finished_at=timezone.now(), outcome=EVIL)
    assert "<img src=x" not in reader.get(PAGE).content.decode()
    at = (timezone.now() - HOUR).isoformat()
    assert "<img src=x" not in reader.get(BELL, {"at": at}).content.decode()


def test_the_bell_counts_and_answers_nothing_while_unchanged(reader: Client, prod: Cluster) -> None:
    change(prod, "etcd", "Healthy", "Failed")
    answer = reader.get(BELL)
    assert "Notifications, 1 unread" in answer.content.decode()
    rev = answer.context["rev"]
    assert reader.get(BELL, {"rev": rev}).status_code == 204
    change(prod, "kafka", "Healthy", "Failed")
    assert "2 unread" in reader.get(BELL, {"rev": rev}).content.decode()


def test_the_bell_does_not_count_own_actions_that_succeeded(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    now = timezone.now()
    for name, state in (("etcd", "succeeded"), ("kafka", "no_change"), ("quay", "failed")):
        make_action(prod, name, user=bob, state=state, finished_at=now)
    assert reader.get(BELL).context["count"] == 1
    page = assert_page(reader.get(PAGE)).text
    assert "1 unread in the last" in page
    assert "and 2 of your own that succeeded, which the bell does not count." in page
    assert "Install etcd" in page


def test_the_answer_for_the_bell_has_the_badge_of_the_navigation(
    reader: Client, prod: Cluster
) -> None:
    operator = make_operator(cluster=prod, name="etcd", health="Failed")
    answer = reader.get(BELL)
    badge = '<span id="attention" hx-swap-oob="true">'
    assert badge in answer.content.decode()
    assert "1 needs attention" in answer.content.decode()
    rev = answer.context["rev"]
    assert reader.get(BELL, {"rev": rev}).status_code == 204
    operator.health = "Healthy"
    operator.save()
    fixed = reader.get(BELL, {"rev": rev}).content.decode()
    assert badge in fixed
    assert "attention</span>" not in fixed


def test_many_own_actions_that_finished_are_one_toast(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    at = (timezone.now() - HOUR).isoformat()
    for number in range(4):
        make_action(
            prod, f"op{number}", user=bob, finished_at=timezone.now(),
            state="failed" if number == 3 else "succeeded",
        )  # fmt: skip
    page = reader.get(BELL, {"at": at}).content.decode()
    assert page.count("data-toast") == 1
    assert "finished: 3 succeeded, 1 did not" in page


def test_an_own_action_that_finished_is_a_toast_once_and_not_on_its_own_page(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    at = (timezone.now() - HOUR).isoformat()
    action = make_action(prod, "etcd", user=bob, state="succeeded", finished_at=timezone.now())
    answer = reader.get(BELL, {"at": at})
    text = answer.content.decode()
    assert "Succeeded" in text
    assert f"/activity/actions/{action.pk}" in text
    assert "data-toast" not in reader.get(BELL, {"at": answer.context["at"]}).content.decode()
    own = f"http://testserver/activity/actions/{action.pk}"
    headers = {"HX-Request": "true", "HX-Current-URL": own}
    assert "data-toast" not in reader.get(BELL, {"at": at}, headers=headers).content.decode()


def test_actions_of_a_bulk_change_are_no_toasts_on_its_page(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    at = (timezone.now() - HOUR).isoformat()
    batch = ActionBatch.objects.create(cluster=prod, user=bob, idempotency_key="k")
    make_action(prod, "etcd", user=bob, state="succeeded", finished_at=timezone.now(), batch=batch)
    on_page = f"http://testserver/activity/bulk-installs/{batch.pk}"
    for address, toasts in ((on_page, 0), ("http://testserver/", 1)):
        headers = {"HX-Request": "true", "HX-Current-URL": address}
        page = reader.get(BELL, {"at": at}, headers=headers).content.decode()
        assert page.count("data-toast") == toasts


def test_an_approval_is_no_toast_on_the_page_of_the_action_that_it_continues(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    at = timezone.now() - HOUR
    of_package = {"namespace": "apps", "package": "etcd", "user": bob, "state": "succeeded"}
    first = make_action(prod, "etcd", path="Subscription", finished_at=at - HOUR, **of_package)
    other = make_action(prod, "kafka", path="Subscription", finished_at=at - HOUR, user=bob)
    make_action(
        prod, "install-1", verb="approve", path="InstallPlan", finished_at=timezone.now(),
        **of_package,
    )  # fmt: skip
    for address, toasts in (
        (f"/activity/actions/{first.pk}", 0),
        (f"/activity/actions/{other.pk}", 1),
        (f"/activity/actions/{'9' * 30}", 1),
        ("/activity/", 1),
    ):
        headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{address}"}
        page = reader.get(BELL, {"at": at.isoformat()}, headers=headers).content.decode()
        assert page.count("data-toast") == toasts, address


def test_a_bulk_action_that_finished_is_told_once_by_its_page_or_toasts_and_not_by_the_bell_as_well(
    reader: Client, prod: Cluster, bob: Any
) -> None:
    at = (timezone.now() - HOUR).isoformat()
    batch = ActionBatch.objects.create(cluster=prod, path="PlatformOperator", user=bob)
    ended = {"user": bob, "batch": batch, "finished_at": timezone.now()}
    make_action(prod, "etcd", state="succeeded", **ended)
    last = make_action(prod, "kafka", state="applied", **ended | {"finished_at": None})
    assert reader.get(BELL, {"at": at}).context["count"] == 0, "it has not finished"
    last.state, last.finished_at = "failed", timezone.now()
    last.save()
    assert reader.get(BELL).context["count"] == 1, "nobody was told of it yet"
    page = assert_page(reader.get("/notifications/")).text
    assert "Bulk install of 2 packages Failed prod 1 of 2 succeeded" in page
    assert "Install etcd" not in page
    toast = reader.get(BELL, {"at": at}).content.decode()
    assert toast.count("data-toast") == 1
    assert "</a> on prod: 1 of 2 succeeded" in toast
    reader.session.flush()
    reader.force_login(bob)
    own = f"http://testserver/activity/bulk-installs/{batch.pk}"
    on_its_page = reader.get(
        BELL, {"at": at}, headers={"HX-Request": "true", "HX-Current-URL": own}
    )
    assert "data-toast" not in on_its_page.content.decode()
    assert on_its_page.context["count"] == 0
    assert "Your actions" not in assert_page(reader.get("/notifications/")).text
    action = make_action(prod, "acme", state="succeeded", user=bob, finished_at=timezone.now())
    elsewhere = reader.get(BELL, {"at": on_its_page.context["at"]})
    assert elsewhere.content.decode().count("data-toast") == 1
    assert f"/activity/actions/{action.pk}" in elsewhere.content.decode()
    assert elsewhere.context["count"] == 0
