"""Rows that processes beside the worker make, and which of them a change of a package touches."""

import errno
import fcntl
import select
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from catalogs.fbc.split import index_spool
from catalogs.models import (
    BlobRef,
    Bundle,
    BundleGVK,
    Catalog,
    Channel,
    ChannelEntry,
    ContentProblem,
    Package,
    PackageText,
    RelatedImage,
)
from catalogs.sync import pool
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.package_rows import PackageJob
from catalogs.sync.pool import Pool
from tests.worlds.fbc import bundle_blob, channel_blob, jsonl, package, package_blob
from tests.worlds.syncing import PIXEL, make, rewrite, snapshot

pytestmark = pytest.mark.django_db


def faulty() -> list[dict]:
    """Whatever a package may have: an icon, deprecations, faults with a place, a blob of none."""
    icon = {"base64data": PIXEL, "mediatype": "image/png"}
    return [
        *package("etcd"),
        package_blob("mongo", "stable", icon=icon),
        channel_blob("mongo", entries=[{"name": "mongo.v2.0.0", "skipRange": "x"}]),
        bundle_blob("2.0.0", "mongo", relatedImages=[{"name": "a", "image": "oci://x"}]),
        bundle_blob("2.0.0", "mongo"),
        {
            "schema": "olm.deprecations",
            "package": "mongo",
            "entries": [
                {"reference": {"schema": "olm.package"}, "message": "Ended."},
                {
                    "reference": {"schema": "olm.bundle", "name": "mongo.v2.0.0"},
                    "message": "Old — \u00e9tag\u00e8re.",
                },
            ],
        },
        bundle_blob("1.0.0", "orphan"),
        {"schema": "custom", "name": "loose"},
    ]


def rows_of(catalog: Catalog) -> dict[str, list[dict]]:
    """All rows without the keys, which depend on who was written first."""
    keys = {"id", "catalog_id", "package_id", "bundle_id", "channel_id"}
    return {
        model: sorted(
            ({name: value for name, value in row.items() if name not in keys} for row in rows),
            key=str,
        )
        for model, rows in snapshot(catalog).items()
    }


def test_processes_make_the_rows_that_would_be_made_here(tmp_path, monkeypatch):
    here = make(tmp_path, faulty(), "here")
    there = make(tmp_path, faulty(), "there")
    assert sync_catalog(here).outcome == "changed"
    monkeypatch.setattr(pool, "MIN_BYTES", 0)
    monkeypatch.setattr(pool, "TICKETS", 1)  # the others are given one by one
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(pool, "_Process", _counting(pool._Process, started))
    assert sync_catalog(there).outcome == "changed"
    assert len(started) == pool.PROCESSES
    assert rows_of(there) == rows_of(here)
    assert {len(rows) > 0 for rows in rows_of(here).values()} == {True}
    assert all(program.poll() is not None for program in started), "they end with the sync"


def _counting(process_class, started):
    def start_process(*files):
        process = process_class(*files)
        started.append(process._program)
        return process

    return start_process


def test_a_killed_process_fails_the_sync_and_the_next_one_completes(tmp_path, monkeypatch):
    catalog = make(tmp_path, package("etcd"))
    sync_catalog(catalog)
    rewrite(catalog, [*package("etcd"), *package("mongo"), *package("nats")])
    monkeypatch.setattr(pool, "MIN_BYTES", 0)
    start_processes = pool.Pool.expect

    def start_and_kill(self, size):
        start_processes(self, size)
        for process in self._processes:
            process._program.kill()
            process._program.wait()

    monkeypatch.setattr(pool.Pool, "expect", start_and_kill)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error_code) == ("failed", "reader-ended")
    assert result.error == (
        "-/demo was not read to its end: a process that reads its packages ended with -9."
    )
    catalog.refresh_from_db()
    assert (catalog.state, catalog.error_code) == ("failed", "reader-ended")
    assert list(Package.objects.values_list("name", flat=True)) == ["etcd"]
    monkeypatch.undo()
    assert sync_catalog(catalog).packages == 3


def test_a_package_that_takes_too_much_memory_fails_the_sync_and_not_the_worker(
    tmp_path, monkeypatch
):
    catalog = make(tmp_path, package("etcd"))
    sync_catalog(catalog)
    (huge,) = [blob for blob in package("mongo") if blob["schema"] == "olm.package"]
    rest = [blob for blob in package("mongo") if blob["schema"] != "olm.package"]
    huge = huge | {"description": "x" * 30_000_000}
    rewrite(catalog, [*package("etcd"), huge, *rest, *package("nats")])
    monkeypatch.setattr(pool, "MIN_BYTES", 0)
    monkeypatch.setattr(pool, "MEMORY_LIMIT", 64 * 1024**2)
    result = sync_catalog(catalog)
    # A library that can't allocate may end the process instead of raising MemoryError.
    assert result.outcome == "failed"
    assert result.error_code in ("out-of-memory", "reader-ended")
    assert "64 MiB" in result.error_hint or "takes more than" in result.error
    assert list(Package.objects.values_list("name", flat=True)) == ["etcd"]
    rewrite(catalog, [*package("etcd"), *package("nats")])
    assert sync_catalog(catalog).packages == 2, "a package of usual size fits"
    monkeypatch.setattr(pool, "MEMORY_LIMIT", 1024**3)
    rewrite(catalog, [*package("etcd"), huge, *rest, *package("nats")])
    assert sync_catalog(catalog).packages == 3


@pytest.mark.parametrize("fails", ["TemporaryFile", "write"])
def test_no_room_for_the_jobs_fails_the_sync_with_a_sentence(tmp_path, monkeypatch, fails):
    catalog = make(tmp_path, package("etcd"))
    sync_catalog(catalog)
    rewrite(catalog, [*package("etcd"), *package("mongo")])
    monkeypatch.setattr(pool, "MIN_BYTES", 0)

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails == "write":
        monkeypatch.setattr(pool._JobFile, "flush", full)
    else:
        monkeypatch.setattr("catalogs.sync.pool.tempfile.TemporaryFile", full)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error_code) == ("failed", "no-room")
    assert "can't be kept in" in result.error
    assert "Make room there." in result.error_hint
    assert list(Package.objects.values_list("name", flat=True)) == ["etcd"]


@pytest.mark.parametrize("busy", [True, False])
def test_a_process_ends_when_its_owner_is_gone(tmp_path, busy):
    path = tmp_path / "catalog.jsonl"
    path.write_bytes(jsonl([*package("etcd"), *package("mongo")]))
    program = (
        "import os, sys, time\n"
        "from catalogs.sync import pool\n"
        "from tests.catalogs.sync.test_rows import jobs_of\n"
        f"body = open({str(path)!r}, 'rb')\n"
        "work = pool.Pool(body.fileno())\n"
        "work.expect(pool.MIN_BYTES)\n"
        f"next(work.build(jobs_of(body) * 20_000, print)) if {busy} else None\n"
        "print(work._processes[0]._program.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import django; django.setup()\n" + program],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    pid = int(done.stdout.split()[-1])
    deadline = time.monotonic() + 30
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def test_the_smallest_pipes_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "MIN_BYTES", 0)
    monkeypatch.setattr(pool, "PIPE_BYTES", select.PIPE_BUF)
    path = tmp_path / "catalog.jsonl"
    path.write_bytes(jsonl([*package("etcd"), *package("mongo")]))
    with path.open("rb") as body, Pool(body.fileno()) as work:
        fcntl.fcntl(work._tickets.reader, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        many = jobs_of(body) * pool.TICKETS
        assert sum(1 for _ in work.build(many, lambda _: None)) == len(many)


def jobs_of(body) -> list[PackageJob]:
    index = index_spool(body)
    return [PackageJob(name, part.packed, []) for name, part in index.packages.items()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_unused_pool_ends_its_processes(tmp_path):
    with (tmp_path / "empty").open("wb+") as body:
        with Pool(body.fileno()) as waiting:
            waiting.expect(pool.MIN_BYTES)
            programs = [process._program for process in waiting._processes]
            assert len(programs) == pool.PROCESSES
        assert all(program.poll() is not None for program in programs)


# -- what a change touches


def versions(*texts: str, deprecated: str = "") -> list[dict]:
    entries = [{"name": f"etcd.v{text}"} for text in texts[:1]]
    entries += [
        {"name": f"etcd.v{text}", "replaces": f"etcd.v{before}"} for before, text in pairwise(texts)
    ]
    deprecations = {
        "schema": "olm.deprecations",
        "package": "etcd",
        "entries": [
            {
                "reference": {"schema": "olm.bundle", "name": f"etcd.v{deprecated}"},
                "message": "Old.",
            }
        ],
    }
    return [
        package_blob(),
        channel_blob(entries=entries),
        channel_blob(name="old", entries=[{"name": f"etcd.v{texts[0]}"}]),
        *[bundle_blob(text, relatedImages=[{"name": "", "image": "q.io/a/b:1"}]) for text in texts],
        *([deprecations] if deprecated else []),
    ]


def keys_of(model, **where) -> set[int]:
    return set(model.objects.filter(**where).values_list("pk", flat=True))


def test_a_new_version_leaves_the_rows_of_the_others(tmp_path):
    catalog = make(tmp_path, versions("1.0.0", "1.1.0"))
    sync_catalog(catalog)
    children = (Bundle, BundleGVK, RelatedImage, BlobRef)
    before = {model: keys_of(model) for model in (*children, Channel, ChannelEntry)}
    old_channel = Channel.objects.get(name="old").pk
    rewrite(catalog, versions("1.0.0", "1.1.0", "1.2.0"))
    result = sync_catalog(catalog)
    for model in (Bundle, BundleGVK, RelatedImage):
        assert keys_of(model) > before[model], model
    assert Channel.objects.get(name="old").pk == old_channel
    assert Bundle.objects.get(name="etcd.v1.2.0").related_images.count() == 1
    assert Package.objects.get().head_version == "1.2.0"
    again = make(tmp_path, versions("1.0.0", "1.1.0", "1.2.0"), "again")
    sync_catalog(again)
    assert rows_of(again) == rows_of(catalog)
    assert result.rows_written < 30


def test_a_changed_bundle_is_written_alone(tmp_path):
    blobs = versions("1.0.0", "1.1.0", "1.2.0")
    catalog = make(tmp_path, blobs)
    sync_catalog(catalog)
    unchanged = keys_of(Bundle, name__in=["etcd.v1.0.0", "etcd.v1.2.0"])
    texts = list(PackageText.objects.values_list("pk", flat=True))
    blobs[4]["image"] = "quay.io/other/image:v2"
    rewrite(catalog, blobs)
    sync_catalog(catalog)
    assert keys_of(Bundle) > unchanged
    assert Bundle.objects.get(name="etcd.v1.1.0").image == "quay.io/other/image:v2"
    assert list(PackageText.objects.values_list("pk", flat=True)) == texts
    again = make(tmp_path, blobs, "again")
    sync_catalog(again)
    assert rows_of(again) == rows_of(catalog)


def test_a_deprecation_touches_the_bundle_that_it_names(tmp_path):
    catalog = make(tmp_path, versions("1.0.0", "1.1.0"))
    sync_catalog(catalog)
    unchanged = keys_of(Bundle, name="etcd.v1.1.0")
    rewrite(catalog, versions("1.0.0", "1.1.0", deprecated="1.0.0"))
    sync_catalog(catalog)
    assert keys_of(Bundle) > unchanged
    assert Bundle.objects.get(name="etcd.v1.0.0").deprecation == "Old."
    rewrite(catalog, versions("1.0.0", "1.1.0"))
    sync_catalog(catalog)
    assert not Bundle.objects.filter(deprecated=True).exists()


def test_a_mended_fault_and_a_removed_version_leave_nothing_behind(tmp_path):
    blobs = [*versions("1.0.0", "1.1.0"), channel_blob(name="broken")]
    catalog = make(tmp_path, blobs)
    sync_catalog(catalog)
    assert ContentProblem.objects.filter(subject="broken").exists()
    rewrite(catalog, versions("1.1.0"))
    sync_catalog(catalog)
    assert not ContentProblem.objects.exists()
    assert not Channel.objects.filter(name="broken").exists()
    assert list(Bundle.objects.values_list("name", flat=True)) == ["etcd.v1.1.0"]
    assert not BundleGVK.objects.exclude(bundle__in=Bundle.objects.all()).exists()
    assert not ChannelEntry.objects.exclude(channel__in=Channel.objects.all()).exists()


def test_a_package_that_loses_its_own_blob_and_gets_it_back(tmp_path):
    blobs = versions("1.0.0", "1.1.0")
    catalog = make(tmp_path, blobs)
    sync_catalog(catalog)
    rewrite(catalog, blobs[1:])
    assert sync_catalog(catalog).packages == 0
    assert not Bundle.objects.exists()
    assert BlobRef.objects.count() == len(blobs) - 1
    rewrite(catalog, blobs)
    assert sync_catalog(catalog).packages == 1
    again = make(tmp_path, blobs, "again")
    sync_catalog(again)
    assert rows_of(again) == rows_of(catalog)
