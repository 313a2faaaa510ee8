"""API servers whose watch cache is no help: one has none, one is behind what we have seen of it."""

from collections.abc import Iterator

import pytest

from tests.peers.client import ApiRefused, wait_until
from tests.real.watching import ACCOUNT, PLATFORM, TAKE_OVER, Watched, watched

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def real(real_etcd: object, redis_server: str) -> Iterator[Watched]:
    """Shared; the fixtures are named for the components that they need."""
    with watched(watch_cache=False) as made:
        yield made


def test_a_server_without_a_watch_cache_is_followed_all_the_same(real: Watched) -> None:
    lists = sum(one for one, _ in real.watches().values())
    real.put("uncached", "SourceFailed")
    taken = [real.follows()]
    real.put("uncached", "UnpackPending")
    taken.append(real.follows())
    real.delete("uncached")
    taken.append(real.follows())
    print("seconds from change to row:", [round(one, 2) for one in taken])
    assert sum(one for one, _ in real.watches().values()) == lists
    real.settle()


def test_what_history_has_forgotten_is_listed_again(real: Watched) -> None:
    real.put("to-go", "SourceFailed")
    real.follows()
    real.stop_workers()
    real.delete("to-go")
    real.put("meanwhile", "SourceFailed")
    real.etcd.compact()
    real.keep_two_workers()
    print("seconds after the compaction:", round(real.follows(TAKE_OVER), 1))
    real.settle()


def test_a_server_behind_what_was_seen_of_it_is_waited_for_or_read_anew(real: Watched) -> None:
    """As behind a load balancer whose next server has an older cache, or after a restore."""
    real.stop_workers()
    path = real.kubectl.path(PLATFORM, "PlatformOperator")
    ahead = int(real.kubectl.call("GET", path)["metadata"]["resourceVersion"]) + 100_000
    with pytest.raises(ApiRefused, match="Too large resource version"):
        real.kubectl.call("GET", f"{path}?resourceVersion={ahead}&limit=1")
    statement = "update olmweb_resourcewatch set resource_version = '{}'"
    real.database.execute(statement.format(ahead))
    real.put("behind", "SourceFailed")
    real.keep_two_workers()
    print("seconds until the rows follow:", round(real.follows(TAKE_OVER), 1))
    real.put("behind", "UnpackPending")
    real.follows()
    real.settle()
    wait_until(lambda: _highest(real) < ahead, "positions of this server", 60)


def _highest(real: Watched) -> int:
    rows = real.database.rows("select resource_version from olmweb_resourcewatch")
    return max(int(version or 0) for (version,) in rows)


def test_nothing_was_written_to_it(real: Watched) -> None:
    ours = [one for one in real.server.audit_events() if one["user"].get("username") == ACCOUNT]
    assert {one["verb"] for one in ours} <= {"get", "list", "watch"}
