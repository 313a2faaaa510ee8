"""Following a large cluster: a real API server with 76,000 objects, rows in PostgreSQL.

What is counted (rows, lists, watches, bytes) is exact; seconds are of this machine, which also runs
the API server, etcd and the database.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import urllib3

from tests.bench.crowd import EtcdWriter, Size, copies, csv, namespace_of, real_objects
from tests.bench.tools import ROOT, environment, migrate, one, p95, row, until
from tests.peers import servers
from tests.peers.build import binary
from tests.peers.client import ApiRefused
from tests.services import postgres, postgres_bin

SIZE = Size()
CRDS_MORE = 185  # beside those of the kinds themselves
STEADY_SECONDS = 60
BURST = 5000
SINGLES = 60
CSV_KEY = "/operators.coreos.com/clusterserviceversions"
CSV = "/apis/operators.coreos.com/v1alpha1/clusterserviceversions"


def run() -> list[dict[str, Any]]:
    """Rows of the table; none when the components aren't built."""
    if not (binary("kube-apiserver") and binary("etcd") and postgres_bin()):
        return []
    with (
        tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name,
        postgres() as url,
        servers.etcd() as etcd,
        servers.apiserver(etcd, prefix="bench", audit_log=True) as server,
    ):
        before, after = _fill(server, EtcdWriter(etcd.url, "/bench"))
        kubeconfig = server.write_kubeconfig(Path(name) / "kubeconfig")
        environ = environment(
            Path(name), DATABASE_URL=url, KUBECONFIG=str(kubeconfig), OLMWEB_CLUSTERS="bench=real"
        )
        migrate(environ)
        with psycopg.connect(url, autocommit=True) as database, _watcher(environ) as watcher:
            rows = _measure(database, watcher, EtcdWriter(etcd.url, "/bench"))
        writes = [
            asked
            for asked in server.audit_events()
            if asked["userAgent"] == "olmweb" and asked["verb"] not in ("get", "list", "watch")
        ]
    return [
        *rows,
        row(
            "watch: bytes of the CSV list with copies", after, "B", 1.01, beside=("without", before)
        ),
        row("watch: writes to the cluster", len(writes), "requests", 0),
    ]


def _fill(server: servers.ApiServer, writer: EtcdWriter) -> tuple[int, int]:
    """Makes the objects; bytes of the list that we ask for, before and after the copies came."""
    servers.apply_crds(server)
    for number in range(CRDS_MORE):
        server.admin.apply(_crd(number))
    writer.put(real_objects(SIZE))
    before = _list_bytes(server)
    writer.put(copies(SIZE))
    return before, _list_bytes(server)


def _crd(number: int) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.op{number}.example"},
        "spec": {
            "group": f"op{number}.example",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def _list_bytes(server: servers.ApiServer) -> int:
    """Size of all real CSVs as OLM Web asks for them: by selector, in pages."""
    deadline = time.monotonic() + 120
    size = count = 0
    while time.monotonic() < deadline:
        try:
            size, count = _list(server)
        except (ApiRefused, urllib3.exceptions.HTTPError):  # its cache is behind etcd yet
            count = 0
        if count == SIZE.operators:
            return size
        time.sleep(1)
    raise RuntimeError(f"the API server shows {count} real CSVs")


def _list(server: servers.ApiServer) -> tuple[int, int]:
    size = count = 0
    token = "first"
    while token:
        more = "" if token == "first" else f"&continue={token}"
        page = server.admin.call("GET", f"{CSV}?labelSelector=!olm.copiedFrom&limit=50{more}")
        size += len(json.dumps(page["items"]))
        count += len(page["items"])
        token = page["metadata"].get("continue", "")
    return size, count


def _measure(
    database: psycopg.Connection[Any], watcher: "Watcher", writer: EtcdWriter
) -> list[dict[str, Any]]:
    expected = SIZE.operators + SIZE.waiting
    started = time.perf_counter()
    until(lambda: one(database, "select count(*) from installs_operator") == expected, 240)
    until(lambda: one(database, _NOT_WATCHING) == 0, 60)
    first = time.perf_counter() - started
    first_rss = watcher.peak_rss_mb() - watcher.idle_mb
    time.sleep(15)  # what the first moments still bring; PostgreSQL counts rows with a delay
    before = _counters(database)
    time.sleep(STEADY_SECONDS)
    steady = {key: value - before[key] for key, value in _counters(database).items()}
    latencies = [_single(database, writer, number) for number in range(SINGLES)]
    seconds = _burst(database, watcher, writer)
    lost = SIZE.operators - one(database, _IN_LAST_STATE)
    return [
        row("watch: 76,000 objects: first list and rows", first, "s", 60),
        row("watch: 76,000 objects: memory over idle", first_rss, "MB", 200),
        row(f"watch: steady {STEADY_SECONDS} s: rows written", steady["rows"], "rows", 0),
        row(f"watch: steady {STEADY_SECONDS} s: full lists", steady["lists"], "lists", 0),
        row(f"watch: steady {STEADY_SECONDS} s: watches opened", steady["watches"], "watches", 0),
        row(
            "watch: status changes a second, watch to rows",
            BURST / seconds,
            "1/s",
            1000,
            at_least=True,
        ),
        row("watch: last states lost in the burst", lost, "objects", 0),
        row("watch: event to row, p95", p95(latencies), "s", 1.0),
        row(
            "watch: memory over idle at the end", watcher.peak_rss_mb() - watcher.idle_mb, "MB", 200
        ),
    ]


_NOT_WATCHING = (
    "select count(*) from olmweb_resourcewatch where state not in ('watching', 'absent')"
    " or (state = 'watching' and watches = 0)"
)
_IN_LAST_STATE = (
    "select count(*) from installs_component"
    " where kind = 'ClusterServiceVersion' and details->>'message' = 'last'"
)


def _counters(database: psycopg.Connection[Any]) -> dict[str, int]:
    """Row writes as PostgreSQL counts them (heartbeats of cluster, lease and feeds apart)."""
    rows = one(
        database,
        "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_user_tables"
        " where relname not in ('olmweb_cluster', 'olmweb_lease', 'olmweb_resourcewatch')",
    )
    lists = one(database, "select coalesce(sum(lists), 0) from olmweb_resourcewatch")
    watches = one(database, "select coalesce(sum(watches), 0) from olmweb_resourcewatch")
    return {"rows": rows, "lists": lists, "watches": watches}


def _single(database: psycopg.Connection[Any], writer: EtcdWriter, number: int) -> float:
    """Seconds from one CSV's failure to its operator's row."""
    number = SIZE.operators - 1 - number
    started = time.perf_counter()
    _fail(writer, [number], "alone")
    health = "select count(*) from installs_operator where health = 'Healthy' and name = %s"
    until(lambda: one(database, health, f"op-{number}") == 0, 30, pause=0.02)
    return time.perf_counter() - started


def _burst(database: psycopg.Connection[Any], watcher: "Watcher", writer: EtcdWriter) -> float:
    """Seconds until BURST changes are rows: every CSV changes, most of them twice.

    They wait in the API server until the last one is there: writing them into etcd takes this
    machine longer than what is measured.
    """
    everyone = range(SIZE.operators)
    watcher.process.send_signal(signal.SIGSTOP)
    _fail(writer, everyone[: BURST - SIZE.operators], "first")
    _fail(writer, everyone, "last")
    time.sleep(2)
    watcher.process.send_signal(signal.SIGCONT)
    started = time.perf_counter()
    until(lambda: one(database, _IN_LAST_STATE) == SIZE.operators, 120, pause=0.1)
    return time.perf_counter() - started


def _fail(writer: EtcdWriter, numbers: Sequence[int], message: str) -> None:
    def changed() -> Iterator[tuple[str, dict[str, Any]]]:
        for number in numbers:
            found = csv(number, namespace_of(number, SIZE), "Failed")
            found["status"]["message"] = message
            meta = found["metadata"]
            yield f"{CSV_KEY}/{meta['namespace']}/{meta['name']}", found

    writer.change(changed())


class Watcher:
    """The process that follows the cluster, started before anything is in the database."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.watching", "900"],
            env=environ,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.idle_mb = float(json.loads(self.process.stdout.readline())["peak_rss_mb"])

    def peak_rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024


@contextmanager
def _watcher(environ: dict[str, str]) -> Iterator[Watcher]:
    running = Watcher(environ)
    try:
        yield running
    finally:
        running.process.communicate("stop\n", timeout=60)
