"""The page of copied CSVs: asked for by POST, followed, shown; a GET asks no cluster."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.models import CopyReport
from olmweb.models import Cluster
from olmweb.runtime.reports import run_report
from tests.factories import make_cluster
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
PAGE = "/reports/copied-csvs/"
EVIL = '"><img src=x onerror=alert(1)>'


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reports there were whenever a worker was woken."""
    counts: list[int] = []
    monkeypatch.setattr(
        run_report,
        "delay_on_commit",
        lambda: counts.append(CopyReport.objects.count()),
    )
    return counts


def result(**changes: Any) -> dict[str, Any]:
    """What a report of a cluster with two operators in 1,200 namespaces says."""
    return {
        "originals": 3, "copies": 2400, "bytes": 48_000_000, "orphans": 0, "operators_total": 2,
        "operators": [
            {"name": "etcd.v1", "namespace": "operators", "copies": 1200, "bytes_each": 30_000,
             "bytes": 36_000_000, "measured": True, "orphan": False, "all_namespaces": True,
             "updates": 7},
            {"name": "loki.v2", "namespace": "loki", "copies": 1200, "bytes_each": 10_000,
             "bytes": 12_000_000, "measured": False, "orphan": True, "all_namespaces": None,
             "updates": 0},
        ],
        "namespaces_total": 1200,
        "namespaces": [{"namespace": f"ns-{n}", "copies": 2} for n in range(60)],
        "watch": {"seconds": 60.0, "added": 0, "modified": 0, "deleted": 0, "error": ""},
        "setting": {"state": "on", "error": "", "copies": 1200, "bytes": 36_000_000},
        "complete": True, "requests": 12, "seconds": 61.0,
        **changes,
    }  # fmt: skip


def make_report(cluster: Cluster, state: str = "done", **fields: Any) -> CopyReport:
    values: dict[str, Any] = {"finished_at": timezone.now(), **fields}
    if state == "done":
        values.setdefault("result", result())
    return CopyReport.objects.create(cluster=cluster, state=state, **values)


def test_nobody_has_asked_yet(reader: Client, prod: Cluster) -> None:
    page = assert_page(reader.get(PAGE))
    assert "The copies of this cluster have not been counted yet." in page.text
    assert "Count copies" in page.text


def test_asking_is_a_post_that_leads_back_to_the_page(
    reader: Client, prod: Cluster, sent: list[int], bob: Any
) -> None:
    response = reader.post(PAGE, {"cluster": "prod"})
    assert response.status_code == 303
    assert response["Location"] == PAGE + "?cluster=prod"
    report = CopyReport.objects.get()
    assert (report.user, sent) == (bob, [1])
    page = assert_page(reader.get(response["Location"]))
    assert "are being counted" in page.text


def test_a_stranger_is_asked_to_sign_in_and_refused(
    client: Client, prod: Cluster, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    page = assert_page(client.get(PAGE))
    assert "to have them counted" in page.text
    assert "Count copies" not in page.text
    refused = client.post(PAGE, {"cluster": "prod"})
    assert refused.status_code in (302, 403)
    assert not CopyReport.objects.exists()


def test_only_people_with_an_account_see_whom_it_was_counted_for(
    client: Client, prod: Cluster, bob: Any, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    make_report(prod, user=bob)
    assert "for bob" not in assert_page(client.get(PAGE)).text
    client.force_login(bob)
    assert "for bob" in assert_page(client.get(PAGE)).text


def test_a_report_says_what_the_copies_cost_and_what_to_do(reader: Client, prod: Cluster) -> None:
    make_report(prod)
    page = assert_page(reader.get(PAGE))
    assert "2,400 copies of 2 operators in 1,200 namespaces" in page.text
    assert "They weigh about 45.8" in page.text
    assert "No copy changed in 1 min" in page.text
    assert "Only copies of operators that target all namespaces can be switched off: 1,200" in (
        page.text
    )
    assert "disableCopiedCSVs" in page.text
    assert "etcd.v1 operators 1,200" in page.text
    assert "Original removed" in page.text
    assert "The first 50 of 1,200" in page.text
    assert "ns-49" in page.text
    assert "ns-50" not in page.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"copies": 0, "operators": [], "namespaces": []}, "none of them is copied"),
        ({"bytes": None}, "What they weigh could not be measured"),
        ({"orphans": 5}, "5 have no original any more"),
        ({"complete": False}, "all numbers are too low"),
        ({"setting": {"state": "off"}}, "OLMConfig disables copies"),
        ({"setting": {"state": "absent"}}, "has no OLMConfig"),
        ({"setting": {"state": "unreadable", "error": "no"}}, "could not be read: no"),
        ({"watch": {"seconds": 60.0, "modified": 1200}}, "1,200 updates of copies in 1 min"),
        ({"watch": {"seconds": 3.0, "error": "reset"}}, "Watching ended early: reset"),
        ({"watch": {"seconds": 9.0, "added": 3, "deleted": 4}}, "3 came, 4 went"),
    ],
)
def test_each_state_of_a_report_has_its_sentence(
    reader: Client, prod: Cluster, changes: dict[str, Any], said: str
) -> None:
    make_report(prod, result=result(**changes))
    assert said in assert_page(reader.get(PAGE)).text


def test_a_failed_report_says_why_and_leaves_the_one_before_it(
    reader: Client, prod: Cluster
) -> None:
    make_report(prod)
    make_report(prod, "failed", error_text="It serves no CSVs.", error_hint="OLM v0 is missing.")
    page = assert_page(reader.get(PAGE))
    assert "It serves no CSVs. OLM v0 is missing." in page.text
    assert "Shown below: the report of" in page.text
    assert "2,400 copies" in page.text
    assert "Earlier reports" in page.text


def test_a_running_report_is_followed_until_it_ends(reader: Client, prod: Cluster) -> None:
    report = make_report(prod, "running", finished_at=None)
    text = reader.get(PAGE).content.decode()
    assert "data-live" in text
    rev = text.split("rev=")[1][:18]
    htmx = {"HX-Request": "true"}
    assert reader.get(PAGE, {"rev": rev}, headers=htmx).status_code == 204
    CopyReport.objects.filter(pk=report.pk).update(state="done", result=result())
    fragment = reader.get(PAGE, {"rev": rev}, headers=htmx)
    assert "2,400 copies" in assert_fragment(fragment).text
    assert "data-live" not in fragment.content.decode(), "it is over"


def test_each_cluster_has_its_own(reader: Client, prod: Cluster) -> None:
    make_report(make_cluster(name="edge"))
    assert "have not been counted yet" in assert_page(reader.get(PAGE, {"cluster": "prod"})).text
    assert "2,400 copies" in assert_page(reader.get(PAGE, {"cluster": "edge"})).text
    assert_page(reader.get(PAGE, {"cluster": "nope"}), 404)
    assert_page(reader.post(PAGE, {"cluster": "nope"}), 404)


def test_without_a_cluster_it_leads_to_the_overview(reader: Client) -> None:
    assert "No cluster yet" in assert_page(reader.get(PAGE)).text


def test_hostile_texts_are_escaped(reader: Client, prod: Cluster) -> None:
    row = {**result()["operators"][0], "name": EVIL, "namespace": EVIL}
    make_report(
        prod, result=result(operators=[row], setting={"state": "unreadable", "error": EVIL})
    )
    make_report(prod, "failed", error_text=EVIL, error_hint=EVIL)
    page = assert_page(reader.get(PAGE))
    assert "img" not in page.tags[page.tags.index("main") :]


def test_it_costs_few_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for _ in range(4):
        make_report(prod)
    with django_assert_max_num_queries(4):  # session, user, clusters, reports
        reader.get(PAGE)
