"""Catalog sync beside its floor and beside opm, on SQLite and PostgreSQL; memory and sizes.

Every measured run is a process of its own (tests/bench/syncing.py) on the same decoded file.
"""

import base64
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.tools import ROOT, environment, migrate, row
from tests.peers.build import binary
from tests.services import postgres, postgres_bin

CATALOG = ROOT.parent / "shared" / "data" / "catalogs" / "community-full.jsonl.xz"
RUNS = 3  # the best of so many: other work on the machine only ever adds
TIMES = 10  # how much larger the large catalog is
EVERY = 100  # one bundle of so many is another in the second revision
MAX_FLOORS = {"SQLite": 2.0, "PostgreSQL": 2.5}

Found = dict[str, float]
Sync = Callable[[Path, str], Found]


def run() -> list[dict[str, Any]]:
    """Rows of the table; none when the catalog isn't beside the checkout."""
    if not CATALOG.is_file():
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name:
        folder = Path(name)
        source = folder / "catalog.jsonl"
        with lzma.open(CATALOG) as packed, source.open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 20)
        floors = [
            _process(folder, "floor", str(source), str(folder / f"floor{number}.db"))["seconds"]
            for number in range(RUNS)
        ]
        references = {"floor": min(floors)} | _opm(folder, source)
        rows = _on("SQLite", folder, source, references)
        if postgres_bin() is not None:
            rows += _on("PostgreSQL", folder, source, references)
        return rows + _large(folder, source)


def _opm(folder: Path, source: Path) -> Found:
    """Seconds of `opm validate`, the best of a few; empty where opm isn't built."""
    program = binary("opm")
    if program is None:
        return {}
    directory = folder / "opm"
    directory.mkdir()
    with (directory / "catalog.json").open("wb") as catalog, source.open("rb") as lines:
        catalog.writelines(map(_with_sound_icon, lines))
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        done = subprocess.run([program, "validate", directory], check=False, capture_output=True)
        if done.returncode not in (0, 1):  # 1: it read all, and found packages invalid
            raise RuntimeError(f"opm ended with {done.returncode}: {done.stderr.decode()}")
        seconds.append(time.perf_counter() - start)
    return {"opm validate": min(seconds)}


def _with_sound_icon(line: bytes) -> bytes:
    """The blob, without its icon if opm would end at that."""
    if b'"schema":"olm.package"' not in line:
        return line
    blob = json.loads(line)
    try:
        base64.b64decode(blob.get("icon", {}).get("base64data", ""), validate=True)
    except ValueError:
        del blob["icon"]
    return json.dumps(blob).encode() + b"\n"


def _on(database: str, folder: Path, original: Path, references: Found) -> list[dict[str, Any]]:
    """What one kind of database takes for a first sync and for those after it."""
    source, colds = folder / "source.jsonl", []
    for _ in range(RUNS - 1):
        with _empty(database, folder) as (_, sync):
            colds.append(sync(original, "changed"))
    shutil.copyfile(original, source)
    with _empty(database, folder) as (empty_bytes, sync):
        first = sync(source, "changed")
        unchanged = sync(source, "unchanged")
        _replace(source, shutil.copyfile)
        same = sync(source, "unchanged")
        _replace(source, _change_one_package)
        one = sync(source, "changed")
        _replace(source, _change_some_bundles)
        second = sync(source, "changed")
    cold = min(*colds, first, key=lambda each: each["seconds"])
    limits = {"floor": MAX_FLOORS[database], "opm validate": 0.4}
    size = first["bytes"] - empty_bytes
    more = second["bytes"] - one["bytes"]
    name = f"catalog on {database}"
    rows = [
        row(f"{name}: first sync", cold["seconds"], "s", limits[what], beside=(what, seconds))
        for what, seconds in references.items()
    ]
    return [
        *rows,
        row(f"{name}: first sync, memory over idle", cold["peak_rss_mb"], "MB", 100),
        row(f"{name}: unchanged file", unchanged["seconds"] * 1000, "ms", 50),
        row(f"{name}: unchanged file, rows written", unchanged["rows"], "rows", 1),
        row(f"{name}: same content in a new file", same["seconds"] * 1000, "ms", 250),
        row(f"{name}: one package changed", one["seconds"], "s", 1.0),
        row(f"{name}: one package changed, rows written", one["rows"], "rows", 100),
        row(
            f"{name}: size in the database",
            size / 1e6,
            "MB",
            0.35,
            beside=("FBC", original.stat().st_size / 1e6),
        ),
        row(
            f"{name}: a revision with 1 % of the bundles changed",
            more / 1e6,
            "MB more",
            0.02,
            beside=("first", size / 1e6),
        ),
    ]


def _large(folder: Path, original: Path) -> list[dict[str, Any]]:
    """Memory for a catalog ten times as large: every package again under other names."""
    source = folder / "large.jsonl"
    with source.open("wb") as large:
        for number in range(TIMES):
            for blob in _blobs(original):
                large.write(msgspec.json.encode(_renamed(blob, f"-{number}")) + b"\n")
    with _empty("SQLite", folder) as (_, sync):
        found = sync(source, "changed")
    name = f"catalog of {source.stat().st_size / 1e9:.1f} GB on SQLite: first sync"
    return [
        row(f"{name}, memory over idle", found["peak_rss_mb"], "MB", 100),
        row(name, found["seconds"], "s", 1000),
    ]


def _blobs(source: Path) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder().decode
    with source.open("rb") as lines:
        yield from map(decode, lines)


def _renamed(blob: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The blob as one of the package whose name has this suffix more."""
    if blob["schema"] == "olm.package":
        return blob | {"name": blob["name"] + suffix}
    properties = [
        one | {"value": one["value"] | {"packageName": one["value"]["packageName"] + suffix}}
        if one["type"] == "olm.package"
        else one
        for one in blob.get("properties", ())
    ]
    more = {"properties": properties} if properties else {}
    return blob | {"package": blob["package"] + suffix} | more


@contextmanager
def _empty(database: str, folder: Path) -> Iterator[tuple[int, Sync]]:
    """A migrated database without rows: its bytes, and what syncs a file into it."""
    with ExitStack() as stack:
        more = {"DATABASE_URL": stack.enter_context(postgres())} if database != "SQLite" else {}
        shutil.rmtree(folder / "data", ignore_errors=True)
        migrate(environment(folder, **more))
        empty = _process(folder, "size", **more)
        yield (
            int(empty["bytes"]),
            lambda source, outcome: _process(folder, "sync", str(source), outcome, **more),
        )


def _process(folder: Path, *arguments: str, **more: str) -> Found:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.syncing", *arguments],
        check=True,
        cwd=ROOT,
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        text=True,
    )
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def _replace(source: Path, make: Callable[[Path, Path], Any]) -> None:
    """Puts another file in the place of this one, made from it."""
    other = source.with_suffix(".other")
    make(source, other)
    other.replace(source)


def _change_one_package(old: Path, new: Path) -> None:
    """Changes the text of the first bundle, and of nothing else."""
    _change_bundles(old, new, lambda number: number == 0)


def _change_some_bundles(old: Path, new: Path) -> None:
    _change_bundles(old, new, lambda number: number % EVERY == EVERY // 2)


def _change_bundles(old: Path, new: Path, is_chosen: Callable[[int], bool]) -> None:
    number = 0
    with old.open("rb") as lines, new.open("wb") as changed:
        for line in lines:
            if b'"schema":"olm.bundle"' in line:
                if is_chosen(number):
                    line = line.replace(b'"displayName":"', b'"displayName":"New ', 1)
                number += 1
            changed.write(line)
