"""Install pressed by two at the same moment, and twice by one: in threads, on PostgreSQL."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from catalogs.models import Package
from installs.actions import claims, follow, record
from installs.actions.plan import plan_install
from installs.models import Action, ActionBatch
from olmweb.models import ApiToken
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_package

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "icon-demo"  # of the sandbox's catalog, and not installed there
FORM_URL = f"/software/prod/redhat-operators/{NAME}/install"
ASKED = {"cluster": "prod", "path": "PlatformOperator", "name": ""}


@pytest.fixture
def package(sandbox: Sandbox) -> Package:
    catalog = make_catalog(cluster=make_cluster(name="prod", context="sandbox"))
    return make_package(name=NAME, catalog=catalog)


@pytest.fixture
def people(db: None) -> list[User]:
    group, _ = Group.objects.get_or_create(name="olmweb-operators")
    found = [User.objects.create_user(name) for name in ("olivia", "oscar")]
    for one in found:
        one.groups.add(group)
    return found


def reviewed(user: User, **asked: str) -> tuple[Client, dict[str, str]]:
    """Somebody in front of a review that passed, and what their button sends."""
    client = Client()
    client.force_login(user)
    context = client.post(FORM_URL, ASKED | asked | {"step": "review"}).context
    sealed = {"reviewed": context["reviewed"], "key": context["key"]}
    return client, ASKED | asked | sealed | {"step": "confirm"}


def at_once(*presses: Callable[[], Any]) -> list[Any]:
    """What each returned; none begins before all are there.

    One after another on SQLite, whose tables in memory no two connections may write to at once.
    """
    if connection.vendor == "sqlite":
        return [one() for one in presses]
    barrier = threading.Barrier(len(presses))
    found: dict[int, Any] = {}

    def press(number: int, one: Callable[[], Any]) -> None:
        barrier.wait(10)
        try:
            found[number] = one()
        finally:
            connection.close()

    threads = [threading.Thread(target=press, args=pair) for pair in enumerate(presses)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[number] for number in range(len(presses))]


def work() -> None:
    """Two workers that both pick up all that waits, until nothing does."""
    for _ in range(100):
        due = follow.waiting()
        if not due:
            return
        runs = [lambda pk=pk: follow.run(pk, pause=lambda _: time.sleep(0.05)) for pk in due]
        at_once(*runs, *runs)
        Action.objects.filter(state__in=Action.OPEN).update(next_attempt_at=None)  # due again
    raise AssertionError(f"these never ended: {follow.waiting()}")


def applies(sandbox: Sandbox) -> list[str]:
    """The writes that the cluster kept."""
    asked = sandbox.script.requests
    return [path for method, path in asked if method == "PATCH" and "dryRun" not in path]


def test_two_people_at_the_same_moment_make_one_action_and_one_write(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    presses = [reviewed(user) for user in people]
    answers = at_once(*[lambda c=c, f=f: c.post(FORM_URL, f) for c, f in presses])
    action = Action.objects.get()
    assert [one.status_code for one in answers] == [303, 303]
    assert {one["Location"] for one in answers} == {f"/activity/actions/{action.pk}"}
    work()
    action.refresh_from_db()
    assert (action.state, action.outcome) == ("succeeded", f"{NAME} is installed.")
    assert len(applies(sandbox)) == 1
    assert action.user is not None
    told = f"{action.user.get_username()} requested the same change just before"
    pages = [one.get(f"/activity/actions/{action.pk}").content.decode() for one, _ in presses]
    assert [told in page for page in pages] == [one != action.user for one in people]


def test_two_people_who_ask_for_different_things_of_one_name_get_one_and_one_sentence(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    other = make_package(name="markup-demo", catalog=package.catalog)
    first = reviewed(people[0])
    client, form = Client(), {}
    client.force_login(people[1])
    url = FORM_URL.replace(NAME, other.name)
    context = client.post(url, ASKED | {"name": NAME, "step": "review"}).context
    sealed = {"reviewed": context["reviewed"], "key": context["key"]}
    form = ASKED | sealed | {"name": NAME, "step": "confirm"}
    answers = at_once(lambda: first[0].post(FORM_URL, first[1]), lambda: client.post(url, form))
    assert sorted(one.status_code for one in answers) == [303, 422]
    loser = next(one for one in answers if one.status_code == 422)
    told = f"Another install of PlatformOperator {NAME} on cluster prod is not finished."
    assert told in loser.content.decode()
    work()
    assert Action.objects.get().state == "succeeded"
    assert len(applies(sandbox)) == 1


def test_one_person_who_presses_twice_makes_one_action_and_one_write(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    client, form = reviewed(people[0])
    again = Client()
    again.force_login(people[0])
    answers = at_once(lambda: client.post(FORM_URL, form), lambda: again.post(FORM_URL, form))
    action = Action.objects.get()
    assert {one["Location"] for one in answers} == {f"/activity/actions/{action.pk}"}
    work()
    assert len(applies(sandbox)) == 1
    late = client.post(FORM_URL, form)
    assert late["Location"] == f"/activity/actions/{action.pk}", "the form's key lasts"
    assert Action.objects.count() == len(applies(sandbox)) == 1


def test_one_key_that_is_used_for_two_requests_at_once_makes_one_action(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    """Different bodies, so that the object of the action does not keep them apart."""
    make_package(name="markup-demo", catalog=package.catalog)
    token, _row = ApiToken.issue(people[0].pk, "act")

    def post(name: str) -> Any:
        return Client().post(
            "/api/v1/actions",
            {"cluster": "prod", "verb": "install", "package": name},
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "k"},
        )

    answers = at_once(lambda: post(NAME), lambda: post("markup-demo"))
    assert sorted(one.status_code for one in answers) == [202, 422]
    assert Action.objects.count() == 1
    winner = Action.objects.get().package
    again = at_once(lambda: post(winner), lambda: post(winner), lambda: post(winner))
    assert {(one.status_code, one["Idempotency-Replayed"]) for one in again} == {(202, "true")}


def test_one_attempt_of_an_action_is_claimed_by_one_of_many_workers(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    cluster = package.catalog.cluster
    assert cluster is not None
    action = record.request(plan_install(cluster, package, ""), people[0])
    results = at_once(*[lambda: claims.claim(action.pk)] * 8)
    assert sum(claimed is not None for claimed in results) == 1
    action.refresh_from_db()
    assert action.attempt == 1


def test_a_bulk_install_that_is_confirmed_twice_at_once_is_one(
    sandbox: Sandbox, package: Package, people: list[User]
) -> None:
    make_package(name="markup-demo", catalog=package.catalog)
    keys = [f"prod/redhat-operators/{one}" for one in (NAME, "markup-demo")]
    form: dict[str, Any] = {"cluster": "prod", "path": "PlatformOperator"}
    form |= {"of": "prod/PlatformOperator", "package": keys, "pick": keys}
    clients = [Client(), Client()]
    for one in clients:
        one.force_login(people[0])
    context = clients[0].post("/bulk-install/", form | {"step": "review"}).context
    form |= {"key": context["key"], "reviewed": context["reviewed"], "step": "confirm"}
    answers = at_once(*[lambda c=c: c.post("/bulk-install/", form) for c in clients])
    batch = ActionBatch.objects.get()
    assert {one["Location"] for one in answers} == {f"/activity/bulk-installs/{batch.pk}"}
    work()
    assert sorted(batch.actions.values_list("name", "state")) == [
        (NAME, "succeeded"),
        ("markup-demo", "succeeded"),
    ]
    assert len(applies(sandbox)) == 2
