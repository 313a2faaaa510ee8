"""Prediction: every bundle of three catalogs by every install method, from blobs to rows.

In a process of its own (evaluating.py); seconds are of the evaluation alone, without the start of
Python. Peak memory is that of the process, less that before the evaluation.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.bench_sync import CATALOG
from tests.bench.tools import ROOT, environment, migrate, row

CATALOGS = ("community-4.16", "community-4.20", "community-full")  # the large one last
RUNS = 3  # the best of so many: other work on the machine only ever adds


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
        reports = [_evaluate(environ) for _ in range(RUNS)]
    large = CATALOGS[-1]
    best = min(reports, key=lambda report: float(report["seconds"][large]))
    _show(best["rules"])
    everything, all_bundles = sum(best["seconds"].values()), sum(best["bundles"].values())
    small, peak = best["peaks"][-2:]
    return [
        row(
            f"evaluating {best['bundles'][large]:,} bundles by 4 methods",
            best["seconds"][large],
            "s",
            3,
        ),
        row("the same, seconds of the processor", best["cpu"][large], "s", 3),
        row(f"evaluating {all_bundles:,} bundles of 3 catalogs by 4 methods", everything, "s", 4),
        row("evaluating, peak memory", peak, "MB", 60),
        row("evaluating, memory of the large catalog over the small", peak - small, "MB", 20),
    ]


def _show(rules: list[tuple[str, str, str, int]]) -> None:
    """The rules that hit the most bundles."""
    print(f"{'rule':<22}  {'path':<20}  {'verdict':<15}  {'bundles':>7}", file=sys.stderr)
    for rule, method, verdict, count in rules:
        print(f"{rule:<22}  {method:<20}  {verdict:<15}  {count:>7,}", file=sys.stderr)


def _evaluate(environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.evaluating"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
