"""How long pages take: the audit's cluster, and ten catalogs of 332 real packages each.

`run()` starts a child with a database of its own, so that neither settings nor data of the caller
are touched. The child syncs the sandbox, and the real catalog ten times where it is there, then
asks pages in-process, signed in, through every middleware. Times are wall-clock of one request at
a time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.tools import p95, row

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT.parent / "shared" / "data" / "catalogs" / "community-full.jsonl.xz"
CATALOGS = 10
ROUNDS = 60  # requests timed per page
LISTS = ("catalog list", "catalog table", "catalog facets", "catalog search")
MAX_LIST_MS, MAX_MS, MAX_QUERIES, MAX_KB = 30.0, 100.0, 12, 60.0
WORDS = ("operator", "data base", "grafana", "kafka", "red hat", "storage", "a", "monitoring")
CATEGORIES = ("Database", "Monitoring", "Storage", "Security", "Networking")


def run() -> list[dict[str, Any]]:
    """Rows of p95 milliseconds, queries and gzip kilobytes per page."""
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OLMWEB_")}
        kept.pop("DATABASE_URL", None)
        kept.pop("REDIS_URL", None)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.bench_pages"],
            cwd=ROOT,
            env={
                **kept,
                "OLMWEB_DATA_DIR": folder,
                "KUBECONFIG": f"{folder}/kubeconfig",
                "OLMWEB_CLUSTERS": "sandbox=sandbox",
                "DJANGO_SETTINGS_MODULE": "olmweb.settings",
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def operator_pages() -> dict[str, list[str]]:
    """Page name to the addresses asked in turn: what the audit's cluster has."""
    operator = "/operators/sandbox/PlatformOperator/-"
    return {
        "overview": ["/"],
        "operators by cause": ["/operators/?view=cause"],
        "operators": ["/operators/?view=all", "/operators/?view=all&health=Failed"],
        "operator": [f"{operator}/{name}" for name in ("web-terminal", "amq-streams", "eap")],
        "cluster operators": ["/cluster-operators/"],
        "aggregated cluster operator": ["/cluster-operators/sandbox/platform-operators-aggregated"],
        "activity": ["/activity/"],
    }


def catalog_pages() -> dict[str, list[str]]:
    """Page name to the addresses asked in turn: what the ten catalogs have."""
    package = "/software/-/c0/grafana-operator"
    return {
        "catalog list": [f"/software/?page={number}" for number in range(1, 8)],
        "catalog table": [f"/software/?view=table&page={number}" for number in range(1, 8)],
        "catalog facets": [
            f"/software/?category={category}&deprecated=no&catalog=c{number}"
            for number, category in enumerate(CATEGORIES)
        ],
        "catalog search": [f"/software/?q={word.replace(' ', '+')}" for word in WORDS],
        "catalog search without a match": ["/software/?q=promethues", "/software/?q=grafanna"],
        "package": [package, f"{package}?tab=installs"],
        "package channels": [f"{package}?tab=channels", f"{package}?tab=channels&channel=v4"],
        "package versions": [f"{package}?tab=versions"],
        "bundle": [f"{package}/grafana-operator.v5.4.1"],
        "catalogs": ["/catalogs/"],
        "catalog problems": ["/catalogs/-/c0?tab=problems"],
    }


def measure() -> list[dict[str, Any]]:
    """Prepares the database and measures; runs in the child."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    _sync_sandbox()
    pages = operator_pages()
    rows = []
    if CATALOG.exists():
        for number in range(CATALOGS):
            _quietly("sync_catalog", f"c{number}", file=str(CATALOG), json=True)
        pages |= catalog_pages()
        rows.append(row("pages: catalog index built (once a change)", _build(), "ms", 1000.0))
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(User.objects.create_superuser("bench"))
    rows += [row for name, urls in pages.items() for row in _page_rows(client, name, urls)]
    return rows


def _quietly(*command: str, **options: Any) -> None:
    from django.core.management import call_command

    with Path(os.devnull).open("w") as nowhere:
        call_command(*command, stdout=nowhere, **options)


def _sync_sandbox() -> None:
    from olmweb.sandbox.server import Sandbox

    sandbox = Sandbox(scenario="audit")
    sandbox.start()
    try:
        sandbox.write_kubeconfig(Path(os.environ["KUBECONFIG"]), context="sandbox")
        _quietly("sync_cluster", "sandbox", json=True)
    finally:
        sandbox.stop()


def _build() -> float:
    from catalogs import search

    search.current_index(search.catalog_stamps()[:-1])  # of another set of catalogs
    started = time.perf_counter()
    search.current_index(search.catalog_stamps())
    return (time.perf_counter() - started) * 1000


def _page_rows(client: Any, name: str, urls: list[str]) -> list[dict[str, Any]]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    queries, kilobytes = 0, 0.0
    for url in urls:
        with CaptureQueriesContext(connection) as captured:
            response = client.get(url)
        if response.status_code != 200:
            raise RuntimeError(f"{url} answered {response.status_code}")
        queries = max(queries, len(captured))
        kilobytes = max(kilobytes, len(response.content) / 1000)
    times = []
    for turn in range(ROUNDS):
        started = time.perf_counter()
        client.get(urls[turn % len(urls)])
        times.append((time.perf_counter() - started) * 1000)
    limit = MAX_LIST_MS if name.startswith(LISTS) else MAX_MS
    return [
        row(f"pages: {name}: p95", p95(times), "ms", limit),
        row(f"pages: {name}: queries", queries, "queries", MAX_QUERIES),
        row(f"pages: {name}: size", kilobytes, "kB gzip", MAX_KB),
    ]


if __name__ == "__main__":
    print(json.dumps(measure()))
