"""Readers of the log of events, as an integrator writes them, and whether they received the log.

`StreamReader` follows server-sent events and connects again with Last-Event-ID, `PageReader` asks
for the list again and again and reads on from its cursor. Both lose their connections whenever a
process of the product ends; neither knows the database.
"""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import urllib3

from tests.bench.tools import one, until
from tests.soak.requested import Api

Event = Mapping[str, Any]
PAUSE_SECONDS = 0.2  # before a connection is opened again
POLL_SECONDS = 1.0
NUMBERED_SECONDS = 30.0  # beat publishes every 10 s what an ended writer has not
RECEIVED_SECONDS = 30.0
_LOG = """
    select e.position, e.type, c.name, e.kind, e.namespace, e.name, e.catalog, e.data
    from olmweb_changeevent e left join olmweb_cluster c on c.id = e.cluster_id
    where e.position is not null order by e.position
"""
_FIELDS = ("id", "type", "cluster", "kind", "namespace", "name", "catalog", "data")
_UNNUMBERED = "select count(*) from olmweb_changeevent where position is null"
_GONE = ("operator.deleted", "object.deleted", "operator.appeared", "object.appeared")


class StreamReader:
    """Follows the stream from its beginning, at one of some web processes after the other."""

    name = "the stream"

    def __init__(self, addresses: list[str], token: str) -> None:
        self._addresses = itertools.cycle(addresses)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        self._pool = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(5, 20))
        self.received: list[Event] = []
        self.refusals: list[str] = []
        self.connections = 0

    def follow(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            for event in self._events():
                self.received.append(event)
                if is_enough():
                    return
            time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        self._pool.clear()

    def _events(self) -> Iterator[Event]:
        """The events of one connection, until it ends."""
        for block in self._blocks():
            lines = (line.partition(": ") for line in block.decode().splitlines())
            fields = {name: value for name, _, value in lines}
            if "id" in fields:
                event: Event = json.loads(fields["data"])
                assert (str(event["id"]), event["type"]) == (fields["id"], fields["event"])
                yield event

    def _blocks(self) -> Iterator[bytes]:
        last = {"Last-Event-ID": str(self.received[-1]["id"])} if self.received else {}
        try:
            response = self._pool.request(
                "GET",
                f"{next(self._addresses)}/api/v1/events?after=0",
                headers=self._headers | last,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError:
            return
        try:
            if response.status != 200:  # 500 and above while a server is away
                if response.status < 500:
                    self.refusals.append(f"{self.name}: {response.status} {response.data[:300]!r}")
                return
            self.connections += 1
            text = b""
            for part in response.stream(65_536):
                *blocks, text = (text + part).split(b"\n\n")
                yield from blocks
        except urllib3.exceptions.HTTPError:
            return
        finally:
            response.close()


class PageReader:
    """Reads the list in pages, then what follows the last event, without end."""

    name = "the list"

    def __init__(self, api: Api) -> None:
        self._api = api
        self.received: list[Event] = []
        self.refusals: list[str] = []

    def follow(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            last = self.received[-1]["id"] if self.received else 0
            cursor: dict[str, str] = {}
            while True:
                try:
                    page = self._api.get("events", after=str(last), limit="200", **cursor)
                except TimeoutError as error:
                    self.refusals.append(f"{self.name}: {error}")
                    break
                self.received += page["items"]
                if not page["next"]:
                    break
                cursor = {"cursor": page["next"]}
            time.sleep(POLL_SECONDS)


Reader = StreamReader | PageReader


class Followers:
    """Readers in threads of their own, beside everything else."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self.readers = list(readers)
        self._over = threading.Event()
        for reader in self.readers:
            work = threading.Thread(target=reader.follow, args=(self._over.is_set,), daemon=True)
            work.start()

    def problems(self, database: psycopg.Connection[Any]) -> list[str]:
        """Waits until all events have a number and were received, ends the readers, and returns
        how what they received differs from the log up to then."""
        until(lambda: not one(database, _UNNUMBERED), NUMBERED_SECONDS)
        log = read_log(database)
        last = log[-1]["id"] if log else 0
        until(lambda: all(_last(reader) >= last for reader in self.readers), RECEIVED_SECONDS)
        self._over.set()
        found = []
        for reader in self.readers:
            received = list(reader.received)
            while received and received[-1]["id"] > last:  # recorded since
                received.pop()
            found += reader.refusals + differences(reader.name, received, log)
        return found


def _last(reader: Reader) -> int:
    """The id of the last event that it received."""
    return int(reader.received[-1]["id"]) if reader.received else 0


def read_log(database: psycopg.Connection[Any]) -> list[Event]:
    return [dict(zip(_FIELDS, row, strict=True)) for row in database.execute(_LOG)]


def differences(reader: str, received: Sequence[Event], log: Iterable[Event]) -> list[str]:
    """How the received events differ from those of the log: lost, doubled, moved, changed."""
    expected = {event["id"]: event for event in log}
    counts = Counter(event["id"] for event in received)
    found = [f"{reader} lost event {id_}" for id_ in expected if id_ not in counts]
    found += [f"{reader} has event {id_} {n} times" for id_, n in counts.items() if n > 1]
    found += [f"{reader} has event {id_}, the log does not" for id_ in counts.keys() - expected]
    found += [
        f"{reader} has event {after['id']} behind {before['id']}"
        for before, after in itertools.pairwise(received)
        if after["id"] < before["id"]
    ]
    found += [
        f"{reader} has other content in event {event['id']}"
        for event in received
        if event["id"] in expected
        and any(event[name] != value for name, value in expected[event["id"]].items())
    ]
    return found


def broken_histories(log: Iterable[Event]) -> list[str]:
    """Events of the log that do not continue the one before of the same object: an event is
    missing, recorded twice or out of order."""
    found = []
    conditions: dict[tuple[str, ...], dict[str, tuple[str, str]]] = {}
    revisions: dict[str, int] = {}
    actions: dict[int, list[str]] = {}
    for event in log:
        type_, data = event["type"], event["data"]
        key = (event["cluster"] or "-", event["kind"], event["namespace"], event["name"])
        what = f"event {event['id']}, {type_} of {'/'.join(key)}"
        if type_ in _GONE:
            is_known = bool(conditions.pop(key, None))
            conditions.pop((*key, "health"), None)
            if is_known and type_.endswith("appeared"):
                found.append(f"{what}: it had not been deleted")
        elif type_ in ("operator.condition", "object.condition"):
            states = conditions.setdefault(key, {})
            before = states.get(data["condition"])
            if before not in (None, (data["from_status"], data["from_reason"])):
                found.append(f"{what}: {data['condition']} was {before}, not {data}")
            states[data["condition"]] = (data["status"], data["reason"])
        elif type_ in ("operator.discovered", "operator.health"):
            states = conditions.setdefault((*key, "health"), {})
            before = states.get("")
            if before not in (None, (data["from_health"], data["from_reason"])):
                found.append(f"{what}: its health was {before}, not {data}")
            states[""] = (data["health"], data["reason"])
        elif type_ == "catalog.revision":
            before_it = revisions.get(event["catalog"], data["revision"] - 1)
            if data["revision"] != before_it + 1:
                found.append(f"{what}: revision {data['revision']} follows {before_it}")
            revisions[event["catalog"]] = data["revision"]
        elif type_.startswith("action."):
            actions.setdefault(data["action"], []).append(type_.removeprefix("action."))
    for action, steps in actions.items():
        if steps not in (["requested", "applied", "finished"], ["requested", "finished"]):
            found.append(f"events of action {action}: {', '.join(steps)}")
    return found
