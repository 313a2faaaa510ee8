"""The report of copied ClusterServiceVersions: what is asked, counted, estimated and told."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from installs import tasks
from installs.models import CopyReport
from installs.reports import copied_csvs
from installs.reports.copied_csvs import CopyCounts, CopyEvents, request_report, summarise
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.runtime.leases import lease
from olmweb.runtime.reports import run_next, run_report
from tests.kubefake import Answer, KubeFake, status_answer

CSVS = "/apis/operators.coreos.com/v1alpha1/clusterserviceversions"
CONFIGS = "/apis/operators.coreos.com/v1/olmconfigs"
NAMESPACES = ("default", "demo", "prod")


def csv(name: str, namespace: str, source: str = "", targets: str | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "resourceVersion": "7"}
    if source:
        meta["labels"] = {"olm.copiedFrom": source, "olm.managed": "true"}
    if targets is not None:
        meta["annotations"] = {"olm.targetNamespaces": targets, "alm-examples": "[]"}
    return {"kind": "PartialObjectMetadata", "metadata": meta}


def listed(*items: dict[str, Any], more: str = "", version: str = "40") -> Answer:
    return Answer(
        200, {"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)}
    )


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def copy_path(namespace: str, name: str) -> str:
    return (
        f"/apis/operators.coreos.com/v1alpha1/namespaces/{namespace}/clusterserviceversions/{name}"
    )


COPIES = [csv("etcd.v1", namespace, "operators") for namespace in NAMESPACES]
LONELY = csv("gone.v1", "demo", "left")
ORIGINALS = [csv("etcd.v1", "operators", targets=""), csv("own.v1", "apps", targets="apps")]
BOOKMARK = event("BOOKMARK", {"metadata": {"resourceVersion": "50"}})
UPDATES = event("MODIFIED", COPIES[0]) * 3 + BOOKMARK + event("ADDED", LONELY)


@pytest.fixture
def report(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> CopyReport:
    monkeypatch.setattr(copied_csvs, "WATCH_SECONDS", 5)
    return CopyReport.objects.create(cluster=cluster)


def fill(fake: KubeFake, watch: Answer | None = None, config: Answer | None = None) -> None:
    """Two pages of copies, the originals, a watch, one copy of each to weigh, the setting."""
    pages = [listed(*COPIES[:2], more="next"), listed(COPIES[2], LONELY), listed(*ORIGINALS)]
    fake.script("GET", CSVS, *pages, watch or Answer(200, UPDATES))
    fake.script("GET", copy_path("default", "etcd.v1"), Answer(200, b"x" * 1000))
    fake.script("GET", copy_path("demo", "gone.v1"), Answer(200, b"x" * 400))
    answer = config or listed({"metadata": {"name": "cluster"}, "spec": {}})
    fake.script("GET", CONFIGS, answer)


def made(report: CopyReport) -> dict[str, Any]:
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert report.state == CopyReport.State.DONE, report.error_text
    assert report.finished_at is not None
    return report.result


def test_copies_are_counted_by_operator_and_by_namespace(
    fake: KubeFake, report: CopyReport
) -> None:
    fill(fake)
    result = made(report)
    assert (result["originals"], result["copies"], result["orphans"]) == (2, 4, 1)
    etcd, gone = result["operators"]
    assert (etcd["name"], etcd["namespace"], etcd["copies"]) == ("etcd.v1", "operators", 3)
    assert (etcd["orphan"], etcd["all_namespaces"]) == (False, True)
    assert (gone["name"], gone["orphan"], gone["all_namespaces"]) == ("gone.v1", True, None)
    assert result["namespaces"][0] == {"namespace": "demo", "copies": 2}
    assert result["namespaces_total"] == 3
    assert result["complete"]


def test_weights_are_one_copys_size_times_their_number(fake: KubeFake, report: CopyReport) -> None:
    fill(fake)
    result = made(report)
    assert result["bytes"] == 3 * 1000 + 400
    assert result["operators"][0]["bytes"] == 3000
    assert result["operators"][0]["measured"]


def test_updates_of_copies_are_seen_while_it_watches(fake: KubeFake, report: CopyReport) -> None:
    fill(fake)
    result = made(report)
    assert result["watch"]["modified"] == 3
    assert (result["watch"]["added"], result["watch"]["deleted"]) == (1, 0)
    assert [one["updates"] for one in result["operators"]] == [3, 0]
    assert result["watch"]["error"] == ""
    assert 0 <= result["watch"]["seconds"] < 5


def test_only_metadata_of_copies_crosses_the_wire(fake: KubeFake, report: CopyReport) -> None:
    fill(fake)
    result = made(report)
    asked = [seen for seen in fake.requests if seen.path == CSVS]
    assert len(fake.requests) == result["requests"] == 7
    assert all("as=PartialObjectMetadata" in seen.header("Accept")[0] for seen in asked)
    first, second, real, watch = asked
    assert first.query == {"limit": "500", "labelSelector": "olm.copiedFrom"}
    assert second.query["continue"] == "next"
    assert real.query["labelSelector"] == "!olm.copiedFrom"
    assert watch.query == {
        "watch": "1",
        "resourceVersion": "40",
        "timeoutSeconds": "5",
        "labelSelector": "olm.copiedFrom",
    }


@pytest.mark.parametrize(
    ("config", "state", "error"),
    [
        (listed({"metadata": {"name": "cluster"}}), "on", ""),
        (listed(), "on", ""),
        (listed({"metadata": {"name": "cluster"},
                 "spec": {"features": {"disableCopiedCSVs": True}}}), "off", ""),
        (status_answer(404, "the server could not find the requested resource"), "absent", ""),
        (status_answer(403, "olmconfigs is forbidden", "Forbidden"), "unreadable",
         "does not allow this"),
    ],
)  # fmt: skip
def test_the_setting_says_whether_olm_copies_and_what_off_would_save(
    fake: KubeFake, report: CopyReport, config: Answer, state: str, error: str
) -> None:
    fill(fake, config=config)
    setting = made(report)["setting"]
    assert setting["state"] == state
    assert error in setting["error"]
    assert bool(setting["error"]) == bool(error)
    assert (setting["copies"], setting["bytes"]) == (3, 3000)


@pytest.mark.parametrize(
    ("watch", "sentence"),
    [
        (status_answer(403, "not yours", "Forbidden"), "does not allow this: not yours"),
        (Answer(200, UPDATES + event("ERROR", {"kind": "Status", "code": 410, "message": "old"})),
         "no longer has that state: old"),
        (Answer(200, UPDATES + b"<html>\n"), "no event of a watch"),
        (Answer(200, UPDATES * 2, cut=True), "cut"),
    ],
)  # fmt: skip
def test_a_watch_that_fails_still_leaves_the_counts(
    fake: KubeFake, report: CopyReport, watch: Answer, sentence: str
) -> None:
    fill(fake, watch=watch)
    result = made(report)
    assert sentence in result["watch"]["error"]
    assert result["copies"] == 4
    assert result["watch"]["modified"] == (3 if watch.status == 200 else 0)


def test_a_copy_that_can_not_be_weighed_gets_the_mean(fake: KubeFake, report: CopyReport) -> None:
    fake.script("GET", copy_path("default", "etcd.v1"), status_answer(404, "gone", "NotFound"))
    fill(fake)
    result = made(report)
    assert result["operators"][0] == {
        "name": "etcd.v1",
        "namespace": "operators",
        "copies": 3,
        "bytes_each": 400,
        "bytes": 1200,
        "measured": False,
        "orphan": False,
        "all_namespaces": True,
        "updates": 3,
    }


def test_without_any_size_there_is_no_estimate(fake: KubeFake, report: CopyReport) -> None:
    refused = status_answer(403, "no get", "Forbidden")
    fake.script("GET", copy_path("default", "etcd.v1"), refused)
    fill(fake)
    result = made(report)
    assert result["bytes"] is None
    assert result["operators"][0]["bytes"] is None
    assert result["setting"]["bytes"] is None


def test_a_list_that_begins_again_counts_nothing_twice(fake: KubeFake, report: CopyReport) -> None:
    gone = status_answer(410, "The provided continue parameter is too old", "Expired")
    fake.script("GET", CSVS, listed(*COPIES, more="next"), gone)
    fill(fake)
    assert made(report)["copies"] == 4


def test_a_list_that_expires_twice_fails_the_report(fake: KubeFake, report: CopyReport) -> None:
    gone = status_answer(410, "The provided continue parameter is too old", "Expired")
    page = listed(*COPIES, more="next")
    fake.script("GET", CSVS, page, gone, page, gone)
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert "no longer has that state" in report.error_text


def test_more_pages_than_the_limit_are_not_counted_and_that_is_said(
    fake: KubeFake, report: CopyReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_csvs, "PAGES", 1)
    fake.script("GET", CSVS, listed(*COPIES[:2], more="next"), listed(*ORIGINALS), Answer(200))
    result = made(report)
    assert (result["copies"], result["complete"]) == (2, False)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (status_answer(403, "not yours", "Forbidden"), "does not allow this: not yours"),
        (status_answer(401, "Unauthorized"), "did not accept our credentials"),
        (status_answer(404, "not here", "NotFound"), "serves no ClusterServiceVersions"),
        (Answer(200, b"<html>sign in</html>"), "something that is not a list"),
        (Answer(200, {"items": []}), "something that is not a list"),
    ],
)
def test_a_cluster_that_does_not_tell_fails_the_report_with_a_sentence(
    fake: KubeFake, report: CopyReport, answer: Answer, text: str
) -> None:
    fake.script("GET", CSVS, answer)
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert report.state == CopyReport.State.FAILED
    assert text in report.error_text
    assert report.error_hint
    assert report.finished_at is not None


def test_a_crash_of_ours_ends_the_report_too(
    report: CopyReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(copied_csvs, "read", crash)
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert report.state == CopyReport.State.FAILED
    assert report.error_text == "The report could not be made (ZeroDivisionError)."


def test_the_task_may_come_twice(fake: KubeFake, report: CopyReport) -> None:
    fill(fake)
    made(report)
    requests = len(fake.requests)
    tasks.count_copies(report.pk)
    with lease(f"copies:{report.pk}", 60):
        CopyReport.objects.update(state=CopyReport.State.RUNNING)
        assert not run_next()
    tasks.count_copies(12345)
    assert len(fake.requests) == requests


def test_a_report_whose_worker_died_is_made_by_the_next(fake: KubeFake, report: CopyReport) -> None:
    CopyReport.objects.update(state=CopyReport.State.RUNNING)
    fill(fake)
    assert made(report)["copies"] == 4


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Mock:
    mock = Mock()
    monkeypatch.setattr(run_report, "delay_on_commit", mock)
    return mock


def test_asking_twice_gives_one_report(cluster: Cluster, bob: User, sent: Mock) -> None:
    first, second = request_report(cluster, bob), request_report(cluster, bob)
    assert first.pk == second.pk
    assert first.user == bob
    # A message may be lost with the broker: asking again sends it again.
    assert sent.call_count == 2
    CopyReport.objects.update(state=CopyReport.State.DONE)
    assert request_report(cluster, bob).pk != first.pk


def test_a_report_that_nobody_makes_any_more_does_not_block_the_next(
    cluster: Cluster, bob: User, sent: Mock
) -> None:
    first = request_report(cluster, bob)
    long_ago = timezone.now() - timedelta(seconds=2 * copied_csvs.TASK_LIMIT + 1)
    CopyReport.objects.update(created_at=long_ago, state=CopyReport.State.RUNNING)
    assert request_report(cluster, bob).pk != first.pk
    first.refresh_from_db()
    assert first.state == CopyReport.State.FAILED
    assert first.error_hint == "Request it again."


def test_a_visitor_can_not_make_a_cluster_count(cluster: Cluster, sent: Mock) -> None:
    with pytest.raises(OlmwebError, match="Sign in") as caught:
        request_report(cluster, AnonymousUser())
    assert caught.value.status == 403
    assert not CopyReport.objects.exists()


def test_long_lists_are_cut_with_their_totals_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_csvs, "ROWS", 2)
    keys = [(f"op{n}", "src") for n in range(5)]
    reading = CopyCounts(
        copies=Counter({key: n + 1 for n, key in enumerate(keys)}),
        namespaces=Counter({f"ns{n}": 1 for n in range(5)}),
        originals=dict.fromkeys(keys, True),
        sizes=dict.fromkeys(keys, 10),
        watched=CopyEvents(),
    )
    result = summarise(reading)
    assert [one["name"] for one in result["operators"]] == ["op4", "op3"]
    assert [one["namespace"] for one in result["namespaces"]] == ["ns0", "ns1"]
    assert (result["operators_total"], result["namespaces_total"]) == (5, 5)
    assert (result["copies"], result["bytes"]) == (15, 150)
