"""`python -m tests.soak.fleet NUMBER KUBECONFIG`: so many sandbox clusters in one process.

Commands are JSON lines on stdin, each is answered by one JSON line on stdout:

- `{"touch": REASON, "first": N, "number": M, "names": [NAME, ...]}`: these ClusterOperators of the
  M clusters from the Nth on are degraded for another reason; no controller writes them.
- `{"counts": true}`: how often each PlatformOperator was created and deleted since the start, as
  `{"created": {"CLUSTER/NAME": n}, "deleted": {...}}`.
- `{"objects": true}`: what the clusters have now, as lists of [CLUSTER, KIND, NAME, UID, [[TYPE,
  STATUS, REASON] of each condition]].

Must not know OLM Web's database or its actions. `Fleet` is the other end, for the harness.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from olmweb.sandbox.apiserver.kinds import by_kind
from olmweb.sandbox.cluster import Sandbox
from tests.bench.fleet import TOUCHED, merged, touch
from tests.soak.stack import DEFAULT_SHARES, start_process

KINDS = ("PlatformOperator", "ClusterOperator")
OPERATORS = by_kind("PlatformOperator")
STEP_SECONDS = 2.0  # of the controllers: an action takes a few of them
LOOK_SECONDS = 1.0


class Fleet:
    """The process of the sandbox clusters c0, c1, ...; safe to use from several threads."""

    def __init__(self, number: int, kubeconfig: Path) -> None:
        command = [sys.executable, "-m", "tests.soak.fleet", str(number), str(kubeconfig)]
        self.names = [f"c{place}" for place in range(number)]
        self._lock = threading.Lock()
        self._process = start_process(
            "fleet", command, DEFAULT_SHARES,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._read()

    def touch(
        self, reason: str, first: int = 0, number: int = 0, names: Sequence[str] = (TOUCHED,)
    ) -> None:
        number = number or len(self.names)
        self._ask({"touch": reason, "first": first, "number": number, "names": names})

    def counts(self) -> dict[str, dict[str, int]]:
        return dict(self._ask({"counts": True}))

    def objects(self) -> list[Any]:
        return list(self._ask({"objects": True}))

    def stop(self) -> None:
        self._process.communicate(timeout=120)

    def _ask(self, command: dict[str, Any]) -> Any:
        with self._lock:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            return self._read()

    def _read(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process of the sandbox clusters ended")
        return json.loads(line)


class Sandboxes:
    """The clusters themselves, and how often their PlatformOperators came and went."""

    def __init__(self, number: int) -> None:
        self.all = [Sandbox(bookmark_seconds=30, step_seconds=STEP_SECONDS) for _ in range(number)]
        self._seen = [sandbox.store.version for sandbox in self.all]
        self._counts: dict[str, Counter[str]] = {"created": Counter(), "deleted": Counter()}
        self._lock = threading.Lock()
        for sandbox in self.all:
            sandbox.start()
        threading.Thread(target=self._look, name="counts", daemon=True).start()

    def answer(self, command: dict[str, Any]) -> Any:
        if "touch" in command:
            for place in range(command["first"], command["first"] + command["number"]):
                for name in command["names"]:
                    touch(self.all[place % len(self.all)], command["touch"], name)
            return {}
        if "objects" in command:
            return [
                [f"c{place}", kind, item["metadata"]["name"], item["metadata"]["uid"],
                 _conditions(item)]
                for place, sandbox in enumerate(self.all)
                for kind in KINDS
                for item in sandbox.store.items(kind)[0]
            ]  # fmt: skip
        self._count()
        return self._counts

    def _look(self) -> None:
        # The store keeps its last 5,000 events.
        over = threading.Event()
        while not over.wait(LOOK_SECONDS):
            self._count()

    def _count(self) -> None:
        with self._lock:
            for place, sandbox in enumerate(self.all):
                version = sandbox.store.version
                events = sandbox.store.events_after(self._seen[place], OPERATORS)
                if events is None:
                    raise RuntimeError(f"the events of c{place} were dropped before they were read")
                for event in events:
                    if event.version <= version and event.type in ("ADDED", "DELETED"):
                        how = "created" if event.type == "ADDED" else "deleted"
                        self._counts[how][f"c{place}/{event.object['metadata']['name']}"] += 1
                self._seen[place] = version


def _conditions(item: dict[str, Any]) -> list[list[str]]:
    conditions = item.get("status", {}).get("conditions", [])
    return sorted([one["type"], one["status"], one.get("reason", "")] for one in conditions)


def main() -> None:
    sandboxes = Sandboxes(int(sys.argv[1]))
    Path(sys.argv[2]).write_text(yaml.safe_dump(merged(sandboxes.all)), encoding="utf-8")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(sandboxes.answer(json.loads(line))), flush=True)
    for sandbox in sandboxes.all:
        sandbox.stop()


if __name__ == "__main__":
    main()
