"""Actions requested over REST while processes die, and whether each was carried out exactly once.

Each client removes healthy PlatformOperators of its cluster and installs them again, one after the
other, as an integrator would: with an Idempotency-Key, repeated until the request is accepted. The
cluster must see one deletion and one creation of each. A late attempt of a removal would delete the
new object, a late attempt of an install would create it a second time. The clients together request
no more than they were allowed to so far, so that actions are left for the last fault.
"""

import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3

FINAL = ("succeeded", "no-change", "failed", "refused", "lost", "stopped")
PATIENCE = 240  # seconds for which one request is repeated under its Idempotency-Key
ASK_SECONDS = 3.0  # between two looks at an action


class Api:
    """The REST API of any of some web processes, as a client with retries sees it."""

    def __init__(self, addresses: list[str], token: str) -> None:
        self._addresses = itertools.cycle(addresses)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._pool = urllib3.PoolManager(maxsize=64, retries=False, timeout=15)

    def get(self, path: str, **query: str) -> Any:
        """The decoded answer of a GET, tried until it is 200. Raises TimeoutError."""
        return self._repeat("GET", f"{path}?{urlencode(query)}", None, {})

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All items of a list, page by page."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.get(path, limit="500", **query, **({"cursor": cursor} if cursor else {}))
            found += page["items"]
            cursor = page["next"]
            if not cursor:
                return found

    def post(self, path: str, body: dict[str, Any], key: str) -> Any:
        """The decoded answer of a POST, repeated under the same key until it is accepted."""
        return self._repeat("POST", path, json.dumps(body), {"Idempotency-Key": key})

    def _repeat(self, method: str, path: str, body: str | None, more: dict[str, str]) -> Any:
        deadline, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                answer = self._pool.request(
                    method, f"{next(self._addresses)}/api/v1/{path}", body=body,
                    headers=self._headers | more,
                )  # fmt: skip
            except urllib3.exceptions.HTTPError as error:
                last = type(error).__name__
            else:
                if answer.status in (200, 202):
                    return answer.json()
                # 404 and 409 pass once the rows have followed the cluster.
                last = f"{answer.status} {answer.data[:300]!r}"
                if answer.status in (400, 401, 403):
                    break
            time.sleep(1)
        raise TimeoutError(f"{method} {path} was not accepted: {last}")


@dataclass(slots=True)
class Requests:
    """A client for each cluster. `actions` are the ids by key, `failures` those not accepted."""

    api: Api
    clusters: list[str]
    each: int  # actions of a cluster
    actions: dict[str, int] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)  # of those that did not succeed
    failures: list[str] = field(default_factory=list)
    wanted: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _allowed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def choose(self) -> None:
        """Takes healthy PlatformOperators, by their names and packages. Raises RuntimeError.

        One that owns an object for which another operator waits is not taken: while it is removed
        the other one becomes healthy, and then it can't be installed again.
        """
        for cluster in self.clusters:
            rows = self.api.items("operators", cluster=cluster, kind="PlatformOperator")
            healthy = [
                (row["name"], row["package"])
                for row in rows
                if row["health"] == "Healthy" and not _is_awaited(row["name"], rows)
            ]
            if len(healthy) < self.each // 2:
                raise RuntimeError(f"{cluster} has only {len(healthy)} healthy PlatformOperators")
            self.wanted[cluster] = healthy[: self.each // 2]

    def start(self) -> None:
        self._threads = [
            threading.Thread(target=self._client, args=(cluster,), daemon=True)
            for cluster in self.clusters
        ]
        for thread in self._threads:
            thread.start()

    def allow(self, number: int) -> None:
        """Lets the clients request so many actions more."""
        if number:
            self._allowed.release(number)

    @property
    def total(self) -> int:
        """The actions of all clients: a removal and an install of each operator."""
        return 2 * sum(len(operators) for operators in self.wanted.values())

    def join(self, seconds: float) -> None:
        """Waits for the clients; those that aren't done by then count as failures."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        running = sum(thread.is_alive() for thread in self._threads)
        if running:
            self.failures.append(f"{running} clients were not done after {seconds:g} s")

    @property
    def ended(self) -> int:
        return sum(state in FINAL for state in self.states.values())

    def doubled(self, counts: dict[str, dict[str, int]]) -> list[str]:
        """Operators that the clusters saw deleted or created more than once."""
        return [
            f"{how} {counts[how][name]} times: {name}"
            for how in ("created", "deleted")
            for name in counts[how]
            if counts[how][name] > 1
        ]

    def lost(self, counts: dict[str, dict[str, int]]) -> list[str]:
        """Requests without an action that ended, or of which a cluster saw nothing."""
        found = list(self.failures)
        for cluster, operators in self.wanted.items():
            for name, _ in operators:
                for verb, how in (("remove", "deleted"), ("install", "created")):
                    key = f"{verb}-{cluster}-{name}"
                    seen = counts[how].get(f"{cluster}/{name}", 0)
                    if key not in self.actions or not seen:
                        found.append(f"{key}: {self.states.get(key, 'no end')}, {how} {seen} times")
        return found

    def _client(self, cluster: str) -> None:
        for name, package in self.wanted[cluster]:
            what = {"cluster": cluster, "method": "PlatformOperator", "name": name}
            try:
                self._act(f"remove-{cluster}-{name}", what | {"verb": "remove"})
                more = {"verb": "install", "package": package}
                self._act(f"install-{cluster}-{name}", what | more)
            except TimeoutError as error:
                self.failures.append(f"{cluster}/{name}: {error}")

    def _act(self, key: str, body: dict[str, Any]) -> None:
        """Requests the action when it is allowed to, and waits for its end. Raises TimeoutError."""
        self._allowed.acquire()
        self.actions[key] = action = self.api.post("actions", body, key)["id"]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            row = self.api.get(f"actions/{action}")
            self.states[key] = row["state"]
            if row["state"] in FINAL:
                if row["state"] != "succeeded":
                    self.outcomes[key] = f"{row['state']}: {row['outcome']}"
                return
            time.sleep(ASK_SECONDS)
        raise TimeoutError(f"action {action} has not ended: {json.dumps(row)}")


def _is_awaited(name: str, rows: list[dict[str, Any]]) -> bool:
    return any(
        row["health"] != "Healthy" and name in json.dumps(row)
        for row in rows
        if row["name"] != name
    )
