"""Topics of open pages: a page that would show something else is told of one of its topics."""

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.models import Catalog, PredictionRun
from installs.models import Action, CopyReport, InstallRequest, Operator
from olmweb.models import Cluster, Lease, ResourceWatch, SyncRun
from olmweb.serving import events
from olmweb.serving.events import TOPIC, TOPICS, StampFeed
from tests.factories import make_cluster
from tests.worlds.operators import make_action
from tests.worlds.rest import World, build_world

pytestmark = pytest.mark.django_db

LIVE = re.compile(r'data-live="([^"]+)"[^>]*[?&;]rev=([0-9a-f]+)')
NOW = timezone.now()
HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> World:
    world = build_world()
    make_action(world.prod, "etcd")
    CopyReport.objects.create(cluster=world.prod, state="running")
    return world


@pytest.fixture
def pages() -> dict[str, str]:
    """Every page with a live element, by its template."""
    action = Action.objects.get(state="applied")
    return {
        "overview": "/",
        "overview of one": "/?cluster=prod",
        "operators": "/operators/?view=all",
        "operator": "/operators/prod/PlatformOperator/-/etcd",
        "cluster operators": "/cluster-operators/",
        "cluster operator": "/cluster-operators/prod/dns",
        "cluster": "/clusters/prod",
        "crds": "/crds/",
        "readiness": "/readiness/?cluster=prod",
        "olm v1": "/readiness/olm-v1/",
        "copied csvs": "/reports/copied-csvs/?cluster=prod",
        "actions": "/activity/?show=actions",
        "syncs": "/activity/?show=syncs",
        "requests": "/activity/requests/",
        "action": f"/activity/actions/{action.pk}",
        "software": "/software/",
        "catalogs": "/catalogs/",
        "catalog": "/catalogs/prod/redhat-operators",
    }


def _begin_sync() -> None:
    catalog = Catalog.objects.get(slug="redhat-operators")
    SyncRun.objects.create(kind="catalog", target=str(catalog), cluster=catalog.cluster)
    Lease.objects.create(name=f"catalog:{catalog.pk}", owner="w", expires_at=NOW + HOUR)


CHANGES: dict[str, Callable[[], object]] = {
    "a row of a cluster": lambda: Cluster.objects.filter(name="prod").update(
        revision=F("revision") + 1
    ),
    "a silent cluster": lambda: Cluster.objects.filter(name="prod").update(synced_at=NOW - HOUR),
    "an unreachable cluster": lambda: Cluster.objects.filter(name="prod").update(reachable=False),
    "a new cluster": lambda: make_cluster(name="third"),
    "content of a catalog": lambda: Catalog.objects.update(revision=9, content_hash="other"),
    "a failing catalog": lambda: Catalog.objects.update(state="failed", error_text="gone"),
    "a look at a catalog": lambda: Catalog.objects.update(checked_at=NOW + HOUR),
    "conditions of a catalog": lambda: (
        Catalog.objects.update(conditions=[{"type": "Serving"}]),
        Cluster.objects.update(revision=F("revision") + 1),
    ),
    "access to a catalog": lambda: Catalog.objects.update(
        access_methods=[{"way": "grpc"}], checked_at=NOW + 2 * HOUR
    ),
    "verdicts": lambda: PredictionRun.objects.update(changed_at=NOW + HOUR),
    "the begin of a sync": _begin_sync,
    "a sync of a cluster": lambda: SyncRun.objects.create(kind="cluster", target="prod"),
    "a new action": lambda: make_action(Cluster.objects.get(name="prod"), "loki"),
    "the end of an action": lambda: Action.objects.filter(state="applied").update(
        state="succeeded", finished_at=NOW
    ),
    "a request": lambda: InstallRequest.objects.create(
        cluster=Cluster.objects.get(name="prod"), package="x", path="Subscription", reason="y"
    ),
    "a decision": lambda: InstallRequest.objects.filter(state="waiting").update(
        state="declined", decided_at=NOW
    ),
    "the end of a report": lambda: CopyReport.objects.filter(state="running").update(
        state="failed"
    ),
    "a living watch": lambda: ResourceWatch.objects.update(last_event_at=NOW),
}


def _look(client: Client, pages: dict[str, str]) -> dict[str, tuple[frozenset[str], str]]:
    """Page -> its topics and the token of its content; a finished page has neither."""
    seen = {}
    for name, address in pages.items():
        response = client.get(address)
        assert response.status_code == 200, address
        if found := LIVE.search(response.content.decode()):
            seen[name] = (frozenset(found[1].split()), found[2])
    return seen


def test_a_page_that_changed_is_told(
    reader: Client, world: World, pages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOPICS, "minute", lambda: 0)  # none passes meanwhile
    before = _look(reader, pages)
    assert before.keys() == pages.keys()
    topics = {topic for page, _ in before.values() for topic in page}
    assert all(TOPIC.fullmatch(topic) for topic in topics)
    feed = StampFeed()
    assert feed.read(topics) == set()  # the first reading has nothing to compare with
    for change, make in CHANGES.items():
        assert feed.read(topics) == set()
        make()
        told = feed.read(topics) or set()
        after = _look(reader, pages)
        changed = {name for name in before if before[name] != after.get(name)}
        assert changed, f"{change}: no page shows it"
        missed = {name for name in changed if told.isdisjoint(before[name][0])}
        assert not missed, f"{change}: {missed} are not told"
        before = {name: after[name] for name in before if name in after}


def test_a_page_of_one_cluster_is_not_told_of_another(world: World) -> None:
    feed = StampFeed()
    feed.read(set())
    Cluster.objects.filter(name="edge").update(revision=99)
    assert feed.read(set()) == {f"cluster-{world.edge.pk}", "clusters"}


def test_an_operator_in_progress_follows_the_minute(
    reader: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time alone makes a step a slow one."""
    page = {"operator": "/operators/prod/PlatformOperator/-/etcd"}
    assert "minute" not in _look(reader, page)["operator"][0]
    Operator.objects.filter(name="etcd").update(health="Installing")
    assert "minute" in _look(reader, page)["operator"][0]
    feed, now = StampFeed(), [60_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    feed.read({"minute"})
    now[0] += 59
    assert feed.read({"minute"}) == set()
    now[0] += 1
    assert feed.read({"minute"}) == {"minute"}


def test_the_numbers_in_the_masthead_follow_changes_once_a_minute(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page at rest is not told of each minute."""
    feed, now = StampFeed(), [60_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def is_told() -> bool:
        return "attention" in (feed.read({"attention"}) or set())

    feed.read({"attention"})
    now[0] += 60
    assert not is_told()
    Cluster.objects.filter(name="edge").update(revision=99)
    now[0] += 59
    assert not is_told()
    now[0] += 1
    assert is_told()
    assert not is_told()
    Catalog.objects.update(checked_at=timezone.now())
    now[0] += 60
    assert not is_told()
    Catalog.objects.update(state=Catalog.State.FAILED)
    now[0] += 60
    assert is_told()


def test_pages_of_catalogs_are_told_when_time_alone_makes_one_stale(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Catalog.objects.update(synced_at=(now := timezone.now()))
    feed = StampFeed()
    feed.read({"catalogs"})
    for hours, topics in ((0, set()), (5, {"catalogs"})):
        later = now + timedelta(hours=hours)
        monkeypatch.setattr(timezone, "now", lambda later=later: later)
        assert (feed.read({"catalogs"}) or set()) & {"catalogs"} == topics


def test_only_followed_topics_are_read(world: World) -> None:
    feed = StampFeed()
    costs = {"": 1, "clusters": 1, "catalogs": 4, "syncs": 3, "watches": 2, "actions": 3,
             "requests": 3, "reports": 3, "minute": 1, "attention": 2}  # fmt: skip
    for topic, cost in costs.items():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            feed.read({topic} - {""})
        assert len(queries) == cost, topic


def test_what_was_written_while_the_database_was_away_is_told_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    feed = StampFeed()
    monkeypatch.setattr(feed, "close", lambda: None)  # it is the connection of this test
    feed.read({"actions"})
    make_action(world.prod, "loki")
    with monkeypatch.context() as away:
        away.setitem(events.TOPICS, "actions", _fail)
        assert feed.read({"actions"}) is None
        assert feed.read({"actions"}) is None
    assert sum("open pages" in record.getMessage() for record in caplog.records) == 1
    assert feed.read({"actions"}) == {"actions"}


def _fail() -> object:
    raise OperationalError("server closed the connection")


def test_events_carry_when_each_cluster_was_last_heard_from(world: World) -> None:
    Cluster.objects.filter(name="prod").update(synced_at=NOW)
    Cluster.objects.filter(name="edge").update(synced_at=None)
    feed = StampFeed()
    feed.read(set())
    assert json.loads(feed.synced) == {"prod": NOW.isoformat()}


def test_the_head_of_a_stream_and_refusals(reader: Client) -> None:
    response = reader.get("/events/?of=clusters&of=cluster-7&of=minute")
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    assert "no-store" in response["Cache-Control"]
    assert response["X-Accel-Buffering"] == "no"
    assert response.content == b"retry: 3000\n\n"
    for query in ("", "?of=", "?of=clusters&of=users", "?of=cluster-x"):
        assert reader.get(f"/events/{query}").status_code == 400
    assert reader.post("/events/?of=clusters").status_code == 405
