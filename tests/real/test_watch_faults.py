"""Two real workers watch a real API server while one component after the other fails.

After each fault the rows equal a new list within seconds, and no change is recorded twice. The
tests share one world, which every test leaves in order.
"""

import json
import time
from collections.abc import Iterator

import pytest

from tests.peers.client import wait_until
from tests.real.watching import ACCOUNT, AFTER_OUTAGE, TAKE_OVER, Watched, watched

pytestmark = pytest.mark.peers

DEFINITION = "CustomResourceDefinition"


@pytest.fixture(scope="module")
def world(real_etcd: object, redis_server: str) -> Iterator[Watched]:
    """Shared; the fixtures are named for the components that they need."""
    with watched() as running:
        yield running


@pytest.fixture
def real(world: Watched) -> Watched:
    world.keep_two_workers()
    world.follows(60)
    wait_until(world.all_watched, "every feed being watched", 60)
    return world


def test_changes_become_rows_within_seconds(real: Watched) -> None:
    delays = []
    for reason in ("SourceFailed", "UnpackPending", "InstallSuccessful"):
        real.put("quick", reason)
        delays.append(real.follows())
    real.delete("quick")
    delays.append(real.follows())
    print("seconds from change to row:", [round(delay, 2) for delay in delays])
    real.settle()


def test_a_quiet_cluster_is_neither_listed_nor_watched_anew_nor_written(real: Watched) -> None:
    assert _quiet(real) or _quiet(real)  # a session may end and the next may begin meanwhile


def _quiet(real: Watched, seconds: float = 15) -> bool:
    def observed() -> object:
        history = real.database.rows("select count(*) from installs_transition")
        return len(_requests(real)), real.watches(), history

    before = observed()
    time.sleep(seconds)
    return observed() == before


def _requests(real: Watched) -> list[dict[str, str]]:
    """The requests of OLM Web in the audit log of the API server."""
    return [
        event for event in real.server.audit_events() if event["user"].get("username") == ACCOUNT
    ]


def test_a_killed_worker_is_replaced_and_nothing_is_lost(real: Watched) -> None:
    (victim,) = [worker for worker in real.workers if worker.pid == real.holder()]
    lists = sum(count for count, _ in real.watches().values())
    real.put("before-the-kill", "SourceFailed")
    victim.kill()
    real.put("after-the-kill", "UnpackPending")
    delay = real.follows(TAKE_OVER)
    print("seconds until another worker took over:", round(delay, 1))
    assert sum(count for count, _ in real.watches().values()) == lists
    real.settle()


def test_a_killed_api_server_is_reported_and_followed_again_after_its_start(real: Watched) -> None:
    real.put("before-the-crash", "SourceFailed")
    real.follows()
    real.server.kill()
    wait_until(lambda: real.cluster()[0] is False, "the cluster being unreachable", 20)
    assert "Can't reach cluster real" in real.cluster()[2]
    real.server.start()
    real.put("after-the-crash", "SourceFailed")
    real.delete("before-the-crash")
    delay = real.follows(AFTER_OUTAGE)
    print("seconds after the API server was back:", round(delay, 1))
    assert real.cluster() == (True, "", "")
    real.settle()


def test_a_killed_etcd_loses_nothing(real: Watched) -> None:
    real.etcd.kill()
    time.sleep(2)
    real.etcd.start()
    wait_until(lambda: _works(real), "the API server writing again", 60)
    print("seconds after etcd was back:", round(real.follows(), 1))
    real.settle()


def _works(real: Watched) -> bool:
    try:
        real.put("after-etcd", "SourceFailed")
    except Exception as error:  # whatever the server says while its store is away
        print(f"not yet: {str(error)[:80]}")
        return False
    return True


def test_objects_deleted_before_a_compaction_are_removed_by_a_list(real: Watched) -> None:
    real.put("to-go", "SourceFailed")
    real.follows()
    lists = real.watches()["PlatformOperator"][0]
    real.stop_workers()
    real.delete("to-go")
    real.put("meanwhile", "SourceFailed")
    real.server.stop()
    real.etcd.compact()
    real.server.start()
    real.keep_two_workers()
    real.follows(TAKE_OVER)
    wait_until(lambda: real.watches()["PlatformOperator"][0] > lists, "the list being counted", 60)
    real.settle()


def test_a_revoked_token_is_reported_and_the_next_token_is_used(real: Watched) -> None:
    tokens = real.server.home / "tokens.csv"
    old = real.server.tokens[ACCOUNT]
    real.server.kill()
    tokens.write_text(tokens.read_text().replace(old, f"{old}-next"))
    real.server.tokens[ACCOUNT] = f"{old}-next"
    real.server.start()
    try:
        wait_until(lambda: real.cluster()[1] == "unauthorized", "the refusal being reported", 60)
    finally:
        real.write_kubeconfig(f"{old}-next")
    assert old not in real.log()
    real.put("after-the-token", "SourceFailed")
    print("seconds after the new token was there:", round(real.follows(2 * TAKE_OVER), 1))
    assert real.cluster() == (True, "", "")
    real.settle()


def test_nothing_is_written_while_another_worker_holds_the_lease(real: Watched) -> None:
    real.database.take_lease("thief", 8)
    real.put("stolen", "SourceFailed")
    time.sleep(4)
    assert "stolen" not in {name for name, _, _ in real.shown()}
    real.follows(TAKE_OVER)
    real.settle()


def test_a_database_crash_during_a_burst_loses_nothing(real: Watched) -> None:
    if real.postgres is None:
        pytest.skip("PostgreSQL is not installed")
    for number in range(60):
        real.put(f"burst-{number}", "SourceFailed")
        if number == 20:
            real.postgres.restart(pause=1)
    print("seconds after the burst:", round(real.follows(TAKE_OVER), 1))
    for number in range(60):
        real.delete(f"burst-{number}")
    real.follows()
    real.settle()


def test_a_restart_of_redis_stops_no_watch(real: Watched) -> None:
    real.redis.kill()
    real.put("without-redis", "SourceFailed")
    real.follows()
    real.redis.launch()
    (victim,) = [worker for worker in real.workers if worker.pid == real.holder()]
    time.sleep(2)
    victim.kill()
    real.put("after-redis", "SourceFailed")
    real.follows(2 * TAKE_OVER)
    real.settle()


def test_a_deleted_or_new_kind_is_noticed_within_seconds(real: Watched) -> None:
    name = "clusterobjectsets.olm.operatorframework.io"
    definition = real.kubectl.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
    definition["metadata"] = {"name": name}
    definition.pop("status")
    states = "select state from olmweb_resourcewatch where resource = 'ClusterObjectSet'"
    real.kubectl.delete(definition)
    wait_until(lambda: real.database.rows(states) == [("absent",)], "it being absent", 20)
    real.kubectl.apply(definition)
    wait_until(lambda: real.database.rows(states) == [("watching",)], "it being watched", 20)
    real.settle()


def test_a_crd_nested_too_deep_to_decode_hides_nothing(real: Watched) -> None:
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    schema = f'{{"openAPIV3Schema": {{"type": "object", "example": {deep}}}}}'
    version = f'{{"name": "v1", "served": true, "storage": true, "schema": {schema}}}'
    names = '{"plural": "deeps", "kind": "Deep"}'
    spec = f'"group": "example.com", "scope": "Cluster", "names": {names}, "versions": [{version}]'
    named = f'"kind": "{DEFINITION}", "metadata": {{"name": "deeps.example.com"}}'
    real.kubectl.post(
        real.kubectl.path("apiextensions.k8s.io/v1", DEFINITION),
        f'{{"apiVersion": "apiextensions.k8s.io/v1", {named}, "spec": {{{spec}}}}}',
    )
    wait_until(lambda: _deep_versions(real) == ["v1"], "the definition by its watch", 30)
    real.put("beside-the-deep-one")
    real.follows()
    real.stop_workers()
    lists, _ = real.watches()[DEFINITION]
    forget = "update olmweb_resourcewatch set resource_version = '' where resource = '{}'"
    real.database.execute(forget.format(DEFINITION))
    real.keep_two_workers()
    wait_until(lambda: real.watches()[DEFINITION][0] > lists, "the definitions' list", TAKE_OVER)
    real.settle()


def _deep_versions(real: Watched) -> list[str]:
    query = "select stored from installs_crdstate where name = 'deeps.example.com'"
    rows = real.database.rows(query)
    stored = rows[0][0] if rows else []
    return list(json.loads(stored) if isinstance(stored, str) else stored)


def test_workers_stop_within_seconds_of_a_signal(real: Watched) -> None:
    (holder,) = [worker for worker in real.workers if worker.pid == real.holder()]
    began = time.monotonic()
    holder.stop()
    seconds = time.monotonic() - began
    print("seconds until the worker ended:", round(seconds, 1))
    assert seconds < 9
    real.put("after-the-stop", "SourceFailed")
    real.follows(TAKE_OVER)
    real.settle()


def test_only_reading_requests_were_sent_to_the_cluster(real: Watched) -> None:
    verbs = {event["verb"] for event in _requests(real)}
    assert verbs <= {"get", "list", "watch"}
    assert {"list", "watch"} <= verbs
    assert "crashed" not in real.log()
