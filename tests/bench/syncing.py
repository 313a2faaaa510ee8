"""The processes that bench_sync times: `python -m tests.bench.syncing floor|size|sync ARGUMENT..`.

Each prints one JSON object; seconds are of the work alone, without the start of Python and its
imports, and peak memory is what the work added to the idle process, with all of the processes that
it started.
"""

import hashlib
import json
import re
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import zstandard

_OWN = Path("/proc/self/cmdline").read_bytes()


def peak_rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def floor(catalog: str, database: str) -> dict[str, float]:
    """The least that reading a catalog into a database costs: decode, hash, compress, insert."""
    idle, start = peak_rss_mb(), time.perf_counter()
    db = sqlite3.connect(database)
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=normal")
    db.execute("create table blob (sha256 text primary key, size int, data blob)")
    insert = "insert or ignore into blob values (?, ?, ?)"
    compress = zstandard.ZstdCompressor(level=3).compress
    decode, body, rows = msgspec.json.Decoder().decode, hashlib.sha256(), []
    with Path(catalog).open("rb") as lines:
        for line in lines:
            body.update(line)
            decode(line)
            rows.append((hashlib.sha256(line).hexdigest(), len(line), compress(line)))
            if len(rows) > 200:
                db.executemany(insert, rows)
                rows.clear()
    db.executemany(insert, rows)
    db.commit()
    return {"seconds": time.perf_counter() - start, "peak_rss_mb": peak_rss_mb() - idle}


class Children:
    """The most memory that this process's children had together, looked at all the time."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look)

    def __enter__(self) -> "Children":
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            found = " ".join(
                path.read_text() for path in Path("/proc/self/task").glob("*/children")
            )
            self.peak_mb = max(self.peak_mb, sum(map(_pss_mb, found.split())))


def _pss_mb(pid: str) -> float:
    """What the process adds to this one's memory: pages of Python and its libraries, which both
    have, count by shares. 0 for one that is gone, or that is still this process: forked, and not
    its program yet."""
    try:
        if Path(f"/proc/{pid}/cmdline").read_bytes() == _OWN:
            return 0.0
        sizes = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = re.search(r"^Pss: +([0-9]+) kB", sizes, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def sync(source: str, outcome: str) -> dict[str, float]:
    """One run of a catalog's sync from a file, all derived data included.

    Raises RuntimeError when it ends in another outcome than the one expected.
    """
    import django

    django.setup()
    from catalogs.models import Catalog
    from catalogs.sync.catalog import sync_catalog
    from olmweb.celery import freeze_loaded_objects

    catalog, _ = Catalog.objects.get_or_create(
        name="bench", slug="bench", defaults={"source_kind": "File", "source": source}
    )
    freeze_loaded_objects()  # as in a worker
    idle, start = peak_rss_mb(), time.perf_counter()
    with Children() as children:
        result = sync_catalog(catalog)
    seconds = time.perf_counter() - start
    if result.outcome != outcome:
        raise RuntimeError(f"the sync ended as {result.outcome}, not {outcome}: {result}")
    memory = peak_rss_mb() - idle + children.peak_mb
    return {
        "seconds": seconds,
        "peak_rss_mb": memory,
        "rows": result.rows_written,
        "bytes": database_bytes(),
    }


def size() -> dict[str, float]:
    """Of a database that nothing was synced into."""
    import django

    django.setup()
    return {"bytes": database_bytes()}


def database_bytes() -> int:
    """Size of the whole database once what was written is where it stays."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("select pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
        cursor.execute("pragma wal_checkpoint(truncate)")
        return Path(connection.settings_dict["NAME"]).stat().st_size


def main() -> dict[str, float]:
    program, *arguments = sys.argv[1:]
    programs: dict[str, Callable[..., dict[str, float]]] = {
        "floor": floor,
        "size": size,
        "sync": sync,
    }
    return programs[program](*arguments)


if __name__ == "__main__":
    print(json.dumps(main()))
