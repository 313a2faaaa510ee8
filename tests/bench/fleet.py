"""`python -m tests.bench.fleet NUMBER KUBECONFIG`: so many sandbox clusters in one process.

The first is slow: every answer comes two seconds late. For each line on stdin a ClusterOperator of
every cluster, one that no controller of the sandbox writes, changes. Must not know what watches.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from olmweb.sandbox.apiserver.store import copied
from olmweb.sandbox.cluster import Sandbox

SLOW_SECONDS = 2.0
TOUCHED = "dns"
REASON = "Touched"


def main() -> None:
    number, kubeconfig = int(sys.argv[1]), Path(sys.argv[2])
    # Their worlds are settled; controllers that look whether they still are would cost as much as
    # what is measured.
    sandboxes = [Sandbox(bookmark_seconds=30, step_seconds=3600) for _ in range(number)]
    for sandbox in sandboxes:
        sandbox.start()
    for _ in range(5_000):
        sandboxes[0].script.delay_next(SLOW_SECONDS)
    kubeconfig.write_text(yaml.safe_dump(merged(sandboxes)), encoding="utf-8")
    print("ready", flush=True)
    for turn, _ in enumerate(sys.stdin):
        for sandbox in sandboxes:
            touch(sandbox, f"{REASON}{turn}")
        print("touched", flush=True)
    for sandbox in sandboxes:
        sandbox.stop()


def merged(sandboxes: list[Sandbox]) -> dict[str, Any]:
    """One kubeconfig with a context for each: c0, c1, ..."""
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    config |= {"clusters": [], "users": [], "contexts": []}
    for number, sandbox in enumerate(sandboxes):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kubeconfig"
            sandbox.write_kubeconfig(path, context=f"c{number}")
            one = yaml.safe_load(path.read_text(encoding="utf-8"))
        for part in ("clusters", "users", "contexts"):
            config[part] += one[part]
    return config


def touch(sandbox: Sandbox, reason: str, name: str = TOUCHED) -> None:
    """Lets a ClusterOperator be degraded for another reason."""
    found = sandbox.store.get("ClusterOperator", name)
    assert found
    changed = copied(found)
    for condition in changed["status"]["conditions"]:
        if condition["type"] == "Degraded":
            condition |= {"status": "True", "reason": reason}
    sandbox.store.put(changed)


if __name__ == "__main__":
    main()
