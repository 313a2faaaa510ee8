"""How long pages take: the audit's cluster, and ten catalogs of 332 real packages each.

`run()` starts a child with a database of its own for each kind of database, so that neither
settings nor data of the caller are touched. The child syncs the sandbox, and the real catalog ten
times where it is there, then asks pages in-process, signed in, through every middleware. Times are
wall-clock of one request at a time. On PostgreSQL only the catalog's lists and searches are asked.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench.tools import ROOT, environment, p95, row
from tests.services import postgres, postgres_bin

CATALOG = ROOT.parent / "shared" / "data" / "catalogs" / "community-full.jsonl.xz"
CATALOGS = 10
ROUNDS = 60  # requests timed per page
LISTS = "catalog: "  # how the names of lists, facets and searches begin
MAX_LIST_MS = {"SQLite": 60.0, "PostgreSQL": 30.0}
LARGEST = "largest package"
MAX_MS, MAX_LARGEST_MS, MAX_QUERIES, MAX_KB, MAX_INDEX_MB = 100.0, 80.0, 12, 60.0, 20.0
WORDS = ("operator", "data base", "grafana", "kafka", "red hat", "storage", "a", "monitoring")
CATEGORIES = ("Database", "Monitoring", "Storage", "Security", "Networking")


def run() -> list[dict[str, Any]]:
    """Rows of p95 milliseconds, queries and kilobytes of HTML per page."""
    rows = _run_child("SQLite")
    if CATALOG.exists() and postgres_bin():
        with postgres() as url:
            rows += _run_child("PostgreSQL", DATABASE_URL=url)
    return rows


def _run_child(database: str, **more: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.bench_pages", database],
            cwd=ROOT,
            env=environment(
                Path(folder),
                KUBECONFIG=f"{folder}/kubeconfig",
                OLMWEB_CLUSTERS="sandbox=sandbox",
                **more,
            ),
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
        "CRDs": ["/crds/", "/crds/?sort=owner"],
        "readiness": ["/readiness/"],
        "actions": ["/activity/?show=actions"],
        "sync runs": ["/activity/?show=syncs"],
    }


def catalog_pages() -> dict[str, list[str]]:
    """Page name to the addresses asked in turn: what the ten catalogs have."""
    package = "/software/-/c0/grafana-operator"
    largest, channel = _largest()
    return list_pages() | {
        LARGEST: [f"/software/-/c0/{largest}"],
        f"{LARGEST}, graph": [f"/software/-/c0/{largest}?tab=channels&channel={channel}"],
        "package": [package, f"{package}?tab=installs"],
        "package channels": [f"{package}?tab=channels", f"{package}?tab=channels&channel=v4"],
        "package versions": [f"{package}?tab=versions"],
        "bundle": [f"{package}/grafana-operator.v5.4.1"],
        "catalogs": ["/catalogs/"],
        "catalog problems": ["/catalogs/-/c0?tab=problems"],
    }


def _largest() -> tuple[str, str]:
    """The package with the longest channel, and that channel."""
    from django.db.models import Count

    from catalogs.models import Channel

    channels = Channel.objects.filter(package__catalog__slug="c0").annotate(size=Count("entries"))
    found = channels.order_by("-size", "pk").select_related("package")[0]
    return found.package.name, found.name


def list_pages() -> dict[str, list[str]]:
    """Those of the pages that show many packages: lists, facets and searches of every kind."""
    from catalogs.models import RelatedImage

    image = RelatedImage.objects.filter(image__contains="@sha256:").order_by("id")[0].image
    return {
        "catalog: list": [f"/software/?page={number}" for number in range(1, 8)],
        "catalog: table": [f"/software/?view=table&page={number}" for number in range(1, 8)],
        "catalog: one facet": [f"/software/?category={category}" for category in CATEGORIES],
        "catalog: two facets": [
            f"/software/?category={category}&deprecated=no&catalog=c{number}"
            for number, category in enumerate(CATEGORIES)
        ],
        "catalog: search": [f"/software/?q={word.replace(' ', '+')}" for word in WORDS],
        "catalog: search, mistyped": ["/software/?q=promethus", "/software/?q=grafanna"],
        "catalog: search without a match": ["/software/?q=zzzzzz", "/software/?q=quantenrechner"],
        "catalog: provides:": [
            "/software/?q=provides:Kafka",
            "/software/?q=provides:monitoring.coreos.com/Prometheus",
        ],
        "catalog: image:": [
            "/software/?q=image:quay.io/strimzi",
            "/software/?q=image:quay.io",
            f"/software/?q=image:{image.partition('@')[2]}",
        ],
    }


def measure(database: str) -> list[dict[str, Any]]:
    """Prepares the database and measures; runs in the child."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    import_module("olmweb.asgi")  # collects garbage as a web process does
    _sync_sandbox()
    pages, rows = operator_pages(), []
    if CATALOG.exists():
        for number in range(CATALOGS):
            _quietly("sync_catalog", f"c{number}", file=str(CATALOG), json=True)
        with connection.cursor() as cursor:  # as PostgreSQL does by itself within a minute
            cursor.execute("ANALYZE")
        milliseconds, megabytes = _build()
        name = f"pages on {database}: catalog index"
        rows.append(row(f"{name} built (once a change)", milliseconds, "ms", 1000.0))
        rows.append(row(f"{name} in memory", megabytes, "MB", MAX_INDEX_MB))
        pages = pages | catalog_pages() if database == "SQLite" else list_pages()
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(User.objects.create_superuser("bench"))
    for name, urls in pages.items():
        rows += _page_rows(client, f"pages on {database}: {name}", urls, _limit(name, database))
    return rows


def _limit(name: str, database: str) -> float:
    """Milliseconds that a page may take."""
    if name.startswith(LISTS):
        return MAX_LIST_MS[database]
    return MAX_LARGEST_MS if name.startswith(LARGEST) else MAX_MS


def _quietly(*command: str, **options: Any) -> None:
    from django.core.management import call_command

    with Path(os.devnull).open("w") as nowhere:
        call_command(*command, stdout=nowhere, **options)


def _sync_sandbox() -> None:
    from olmweb.sandbox.cluster import Sandbox

    sandbox = Sandbox(scenario="audit")
    sandbox.start()
    try:
        sandbox.write_kubeconfig(Path(os.environ["KUBECONFIG"]), context="sandbox")
        _quietly("sync_cluster", "sandbox", json=True)
    finally:
        sandbox.stop()


def _build() -> tuple[float, float]:
    """Milliseconds that the index of a process takes to build, megabytes that it keeps."""
    from catalogs.search import index
    from catalogs.search.index import catalog_stamps, current_index

    stamps = catalog_stamps()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    current_index(stamps)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    index._index = None
    started = time.perf_counter()
    current_index(stamps)
    return (time.perf_counter() - started) * 1000, kept / 1e6


def _page_rows(client: Any, name: str, urls: list[str], limit: float) -> list[dict[str, Any]]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.get(urls[0])  # the first page after a change reads what others have of that revision
    queries, kilobytes = 0, 0.0
    for url in urls:
        with CaptureQueriesContext(connection) as captured:
            response = client.get(url)
        if response.status_code != 200:
            raise RuntimeError(f"{url} answered {response.status_code}")
        queries = max(queries, len(captured))
        kilobytes = max(kilobytes, len(gzip.decompress(response.content)) / 1000)
    times = []
    for turn in range(ROUNDS):
        started = time.perf_counter()
        client.get(urls[turn % len(urls)])
        times.append((time.perf_counter() - started) * 1000)
    return [
        row(f"{name}: p95", p95(times), "ms", limit),
        row(f"{name}: queries", queries, "queries", MAX_QUERIES),
        row(f"{name}: size", kilobytes, "kB", MAX_KB),
    ]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
