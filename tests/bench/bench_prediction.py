"""Prediction: every bundle of three catalogs in every way, alone, from blobs to rows.

A process of its own; seconds are of the judging alone, without the start of Python. Peak memory is
the process's, less that before it; `flat` is how much the large catalog adds to the small ones'.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from tests.bench.bench_sync import CATALOG
from tests.bench.tools import ROOT, environment, migrate, row

CATALOGS = ("community-4.16", "community-4.20", "community-full")  # the large one last
RUNS = 3  # the best of so many: other work on the machine only ever adds
JUDGE = textwrap.dedent(
    """
    import collections, json, resource, time
    import django
    django.setup()
    from catalogs.verdicts.store import VerdictContext, evaluate_catalog
    from catalogs.models import Catalog, Prediction
    from catalogs.prediction.surroundings import NO_CLUSTER
    from installs.surroundings import market_of
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Prediction.objects.all().delete()
    catalogs = list(Catalog.objects.order_by("slug"))
    idle, peaks, seconds, cpu, bundles, written = peak(), [], {}, {}, {}, 0
    for catalog in catalogs:
        start, busy = time.perf_counter(), time.process_time()
        context = VerdictContext(None, NO_CLUSTER, market_of(catalog, None))
        judged = evaluate_catalog(catalog, [context])
        seconds[catalog.slug] = time.perf_counter() - start
        cpu[catalog.slug] = time.process_time() - busy
        bundles[catalog.slug] = judged.bundles
        written += judged.written
        peaks.append(peak() - idle)
    found = collections.Counter()
    rows = Prediction.objects.filter(bundle__isnull=False)
    for path, target, said in rows.values_list("path", "target", "found"):
        way = path if target == "all" else f"{path} ({target})"
        found.update((one["rule"], way, one["verdict"]) for one in said)
    print(json.dumps({
        "seconds": seconds, "cpu": cpu, "peaks": peaks, "bundles": bundles, "rows": written,
        "rules": [[*key, count] for key, count in found.most_common(10)],
    }))
    """
)


def run() -> list[dict[str, Any]]:
    """Rows of the table; none when the catalog isn't beside the checkout."""
    if not CATALOG.is_file():
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name:
        folder = Path(name)
        environ = environment(folder)
        migrate(environ)
        for slug in CATALOGS:
            source = folder / f"{slug}.jsonl"
            packed_file = CATALOG.with_name(f"{slug}.jsonl.xz")
            with lzma.open(packed_file) as packed, source.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
            sync = [str(ROOT / "manage.py"), "sync_catalog", slug, "--file", str(source)]
            subprocess.run([sys.executable, *sync], check=True, capture_output=True, env=environ)
        found = [_python(JUDGE, environ) for _ in range(RUNS)]
    large = CATALOGS[-1]
    best = min(found, key=lambda each: float(each["seconds"][large]))
    _show(best["rules"])
    everything, all_bundles = sum(best["seconds"].values()), sum(best["bundles"].values())
    small, peak = best["peaks"][-2:]
    return [
        row(
            f"judging {best['bundles'][large]:,} bundles in 4 ways", best["seconds"][large], "s", 3
        ),
        row("the same, seconds of the processor", best["cpu"][large], "s", 3),
        row(f"judging {all_bundles:,} bundles of 3 catalogs in 4 ways", everything, "s", 4),
        row("judging, peak memory", peak, "MB", 60),
        row("judging, memory of the large catalog over the small", peak - small, "MB", 20),
    ]


def _show(rules: list[tuple[str, str, str, int]]) -> None:
    """The rules that speak of the most bundles."""
    print(f"{'rule':<22}  {'path':<20}  {'verdict':<15}  {'bundles':>7}", file=sys.stderr)
    for rule, way, verdict, count in rules:
        print(f"{rule:<22}  {way:<20}  {verdict:<15}  {count:>7,}", file=sys.stderr)


def _python(code: str, environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
