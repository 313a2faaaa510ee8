"""The queue of reports is fair: many requests of one person don't keep another's waiting."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from catalogs.contents import inspection
from catalogs.models import BundleInspection
from catalogs.sources.base import SourceError
from installs import tasks
from installs.models import CopyReport
from installs.reports import copied_csvs
from olmweb import celery_app
from olmweb.runtime import reports
from olmweb.runtime.leases import lease
from olmweb.runtime.reports import ATTEMPTS, Job, in_order, resume_reports, run_next, run_report
from tests.factories import make_cluster

pytestmark = pytest.mark.django_db
State = BundleInspection.State
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def kinds() -> None:
    """Workers import the tasks of the apps, which register what they do."""
    celery_app.loader.import_default_modules()


def job(person: str, key: int, minute: int = 0) -> Job:
    return Job("inspection", key, person, NOON + timedelta(minutes=minute))


def test_the_person_with_fewest_running_and_served_longest_ago_comes_first() -> None:
    ann, ben, cid = job("ann", 1, 0), job("ben", 2, 1), job("cid", 3, 2)
    waiting = [ann, ben, cid]
    assert in_order(waiting, {}, {}) == [ann, ben, cid]
    assert in_order(waiting, {"ann": 1}, {}) == [ben, cid, ann]
    served = {"ann": NOON, "ben": NOON - timedelta(hours=1)}
    assert in_order(waiting, {}, served) == [cid, ben, ann]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who is served, in order; the work itself is done at once."""
    people: list[str] = []

    def pull(image: str, *_: object) -> Any:
        people.append(image.partition("/")[2].partition(":")[0])
        raise SourceError("There is no such image.", code="not-found")

    def count(report: CopyReport) -> None:
        assert report.user
        people.append(report.user.username)
        report.started_at = timezone.now()
        report.state = CopyReport.State.DONE
        report.save()

    monkeypatch.setattr(inspection, "pull", pull)
    monkeypatch.setattr(copied_csvs, "make_report", count)
    return people


def ask(person: str, number: int) -> None:
    for n in range(number):
        assert inspection.start(f"registry.example/{person}:{n}", person)


def test_fifty_inspections_of_one_person_are_not_in_front_of_anothers(ran: list[str]) -> None:
    ask("ann", 50)
    assert run_next()
    ask("ben", 2)
    while run_next():
        pass
    assert ran[:5] == ["ann", "ben", "ann", "ben", "ann"]
    assert len(ran) == 52


def test_reports_of_clusters_and_inspections_share_the_turns(ran: list[str]) -> None:
    ask("ann", 50)
    for _ in range(3):
        assert run_next()
    ben = User.objects.create_user("ben")
    CopyReport.objects.create(cluster=make_cluster(name="prod"), user=ben)
    assert run_next()
    assert ran[-1] == "ben"


def test_a_person_with_running_jobs_waits_for_others(ran: list[str]) -> None:
    ask("ann", 3)
    ask("ben", 1)
    row = BundleInspection.objects.filter(asked_by="ann").earliest("id")
    with lease(f"inspection:{row.pk}", 60):
        assert run_next()
    assert ran == ["ben"]


def test_a_job_whose_worker_died_is_done_again_and_given_up_after_some_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask("ann", 1)

    def die(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(inspection, "pull", die)
    for _ in range(ATTEMPTS):
        with pytest.raises(SystemExit):
            run_next()
        assert BundleInspection.objects.get().state == State.READING
    assert run_next()
    row = BundleInspection.objects.get()
    assert (row.state, row.error_code, row.attempts) == (State.FAILED, "interrupted", ATTEMPTS)
    assert not run_next()


def test_a_report_of_copies_is_given_up_after_some_attempts() -> None:
    report = CopyReport.objects.create(cluster=make_cluster(name="prod"), attempts=ATTEMPTS)
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert report.state == CopyReport.State.FAILED


def test_rows_whose_message_was_lost_wake_workers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(run_report, "delay", lambda: sent.append(1))
    resume_reports()
    assert sent == []
    ask("ann", 30)
    resume_reports()
    assert len(sent) == reports.WOKEN
    BundleInspection.objects.update(state=State.READ)
    sent.clear()
    resume_reports()
    assert sent == []


def test_a_worker_that_did_a_job_wakes_another_for_the_next(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(run_report, "delay", lambda: sent.append(1))
    ask("ann", 1)
    run_report()
    run_report()
    assert (ran, sent) == (["ann"], [1])


@pytest.mark.django_db(transaction=True)
def test_two_workers_do_a_job_once(ran: list[str]) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("threads share the tests' SQLite database in memory, which locks whole tables")
    ask("ann", 8)

    def work() -> None:
        while run_next():
            pass
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ran) == 8
