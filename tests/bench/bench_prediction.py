"""Prediction: every bundle of a large catalog by every path, alone, from blobs to rows.

A process of its own; seconds are of the judging alone, without the start of Python. Peak memory is
the process's, less that before it.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench.bench_sync import CATALOG
from tests.bench.tools import ROOT, environment, migrate, row

RUNS = 2  # the best of so many: other work on the machine only ever adds
RULES_SHOWN = 10
JUDGE = textwrap.dedent(
    """
    import json, resource, time
    import django
    django.setup()
    from catalogs.judge import Place, judge
    from catalogs.models import Catalog, Prediction
    from catalogs.prediction.surroundings import NO_CLUSTER
    from installs.surroundings import market_of
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    catalog = Catalog.objects.get()
    Prediction.objects.all().delete()
    idle, start = peak(), time.perf_counter()
    judged = judge(catalog, [Place(None, NO_CLUSTER, market_of(catalog, None))])
    seconds = time.perf_counter() - start
    rules = [row["rule"] for found in Prediction.objects.values_list("found", flat=True)
             for row in found]
    print(json.dumps({
        "seconds": seconds, "peak_rss_mb": peak() - idle, "bundles": judged.bundles,
        "rows": judged.written, "rules": rules,
    }))
    """
)


def run() -> list[dict[str, Any]]:
    """Rows of the table; none when the catalog isn't beside the checkout."""
    if not CATALOG.is_file():
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name:
        folder = Path(name)
        source = folder / "catalog.jsonl"
        with lzma.open(CATALOG) as packed, source.open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 20)
        environ = environment(folder)
        migrate(environ)
        sync = [
            sys.executable,
            str(ROOT / "manage.py"),
            "sync_catalog",
            "bench",
            "--file",
            str(source),
        ]
        subprocess.run(sync, check=True, capture_output=True, env=environ)
        found = [_python(JUDGE, environ) for _ in range(RUNS)]
    best = min(found, key=lambda each: float(each["seconds"]))
    for rule, count in Counter(best["rules"]).most_common(RULES_SHOWN):
        print(f"{count:>8,}  {rule}", file=sys.stderr)
    return [
        row(f"judging {best['bundles']:,} bundles", best["seconds"], "s", 3),
        row("judging, peak memory", best["peak_rss_mb"], "MB", 60),
    ]


def _python(code: str, environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
