"""Catalog sync beside its floor: the least that reading a catalog into a database can cost.

Both run as processes of their own on the same decoded file; seconds are of the work alone, without
the start of Python and its imports. Peak memory is the process's, less that of an idle one.
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

from tests.bench.tools import ROOT, environment, migrate, row

CATALOG = ROOT.parent / "shared" / "data" / "catalogs" / "community-full.jsonl.xz"
RUNS = 3  # the best of so many: other work on the machine only ever adds

FLOOR = textwrap.dedent(
    """
    import hashlib, json, resource, sqlite3, sys, time
    import msgspec, zstandard
    start = time.perf_counter()
    db = sqlite3.connect(sys.argv[2])
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=normal")
    db.execute("create table blob (sha256 text primary key, size int, data blob)")
    insert = "insert or ignore into blob values (?, ?, ?)"
    compress = zstandard.ZstdCompressor(level=3).compress
    decode, body, rows = msgspec.json.Decoder().decode, hashlib.sha256(), []
    with open(sys.argv[1], "rb") as lines:
        for line in lines:
            body.update(line)
            decode(line)
            rows.append((hashlib.sha256(line).hexdigest(), len(line), compress(line)))
            if len(rows) > 200:
                db.executemany(insert, rows)
                rows.clear()
    db.executemany(insert, rows)
    db.commit()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": time.perf_counter() - start, "peak_rss_mb": peak}))
    """
)
SYNC = textwrap.dedent(
    """
    import json, resource, sys, time
    import django
    django.setup()
    from catalogs.models import Catalog
    from catalogs.sync import sync_catalog
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    catalog, _ = Catalog.objects.get_or_create(
        name="bench", slug="bench", defaults={"source_kind": "File", "source": sys.argv[1]}
    )
    idle, start = peak(), time.perf_counter()
    result = sync_catalog(catalog)
    assert result.outcome == sys.argv[2], result
    print(json.dumps({
        "seconds": time.perf_counter() - start,
        "peak_rss_mb": peak() - idle,
        "rows": result.rows_written,
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
        floors, colds = [], []
        for number in range(RUNS):
            floors.append(_python(folder, FLOOR, str(source), str(folder / f"floor{number}.db")))
            shutil.rmtree(folder / "data", ignore_errors=True)
            migrate(environment(folder))
            colds.append(_python(folder, SYNC, str(source), "changed"))
        floor, cold = (min(found, key=lambda one: one["seconds"]) for found in (floors, colds))
        unchanged = _python(folder, SYNC, str(source), "unchanged")
        _touch(source)
        same = _python(folder, SYNC, str(source), "unchanged")
        _change_one_package(source)
        one = _python(folder, SYNC, str(source), "changed")
    return [
        row("catalog: cold sync", cold["seconds"], "s", 3.0, beside=("floor", floor["seconds"])),
        row("catalog: cold sync, memory over idle", cold["peak_rss_mb"], "MB", 100),
        row("catalog: unchanged file", unchanged["seconds"] * 1000, "ms", 50),
        row("catalog: unchanged file, rows written", unchanged["rows"], "rows", 1),
        row("catalog: same content in a new file", same["seconds"] * 1000, "ms", 250),
        row("catalog: one package changed", one["seconds"], "s", 1.0),
        row("catalog: one package changed, rows written", one["rows"], "rows", 1000),
    ]


def _python(folder: Path, program: str, *args: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        check=True,
        capture_output=True,
        env=environment(folder),
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _touch(source: Path) -> None:
    """The same bytes under another file's identity."""
    copy = source.with_suffix(".copy")
    shutil.copyfile(source, copy)
    copy.replace(source)


def _change_one_package(source: Path) -> None:
    """Changes the text of the first bundle, and of nothing else."""
    changed, done = source.with_suffix(".changed"), False
    with source.open("rb") as old, changed.open("wb") as new:
        for line in old:
            if not done and b'"schema":"olm.bundle"' in line:
                line, done = line.replace(b'"displayName":"', b'"displayName":"New ', 1), True
            new.write(line)
    changed.replace(source)
