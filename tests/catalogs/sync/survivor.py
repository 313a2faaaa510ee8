"""Run as a process of its own by test_sync_processes: one scenario with real workers, forked.

Usage: survivor.py SCENARIO FOLDER. Prints a JSON object of what is there at the end. Every step
uses the database that the environment names, in real transactions.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import django

django.setup()

from django.db import connection, connections, transaction  # noqa: E402

from catalogs import tasks  # noqa: E402
from catalogs.models import (  # noqa: E402
    Blob,
    BlobPack,
    BlobRef,
    Bundle,
    BundleGVK,
    Catalog,
    ChannelEntry,
    Package,
    RelatedImage,
)
from catalogs.sources.file import FileSource  # noqa: E402
from catalogs.sync import catalog as sync  # noqa: E402
from catalogs.sync import replace  # noqa: E402
from catalogs.sync.deletion import delete_catalog  # noqa: E402
from olmweb.models import SyncRun  # noqa: E402
from tests.worlds.fbc import jsonl, package  # noqa: E402

OLD, NEW = ["etcd", "redis"], ["etcd", "mongo", "nats"]


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fork(work: Callable[[], object]) -> int:
    connections.close_all()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            connections.close_all()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int) -> int:
    """What became of the process: 0, its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def catalog_of(folder: Path, name: str, packages: list[str]) -> Catalog:
    path = folder / f"{name}.jsonl"
    path.write_bytes(jsonl(blob for each in packages for blob in package(each)))
    found, _ = Catalog.objects.get_or_create(
        name=name, slug=name, defaults={"source_kind": "File", "source": str(path)}
    )
    return found


def packages_of(catalog: Catalog) -> list[str]:
    return sorted(Package.objects.filter(catalog=catalog).values_list("name", flat=True))


def orphans() -> int:
    """Rows whose parent isn't there: no constraint of the large tables would refuse them."""
    return sum(
        found.count()
        for found in (
            BundleGVK.objects.exclude(bundle__in=Bundle.objects.all()),
            RelatedImage.objects.exclude(bundle__in=Bundle.objects.all()),
            ChannelEntry.objects.exclude(channel__package__in=Package.objects.all()),
            BlobRef.objects.exclude(blob__in=Blob.objects.all()),
            Blob.objects.exclude(pack__in=BlobPack.objects.all()),
        )
    )


def killed(folder: Path, step: str) -> dict[str, object]:
    """The worker is killed at `step` of reading a second content; another one reads it again."""
    catalog = catalog_of(folder, step, OLD)
    assert sync.sync_catalog(catalog).outcome == "changed"
    catalog_of(folder, step, NEW)

    def work() -> None:
        if step == "fetch":
            FileSource._chunks = die  # type: ignore[method-assign, assignment]
        elif step == "index":
            sync.index_spool = die  # type: ignore[assignment, attr-defined]
        elif step == "before-commit":
            replace.Replacement._count = die  # type: ignore[method-assign, assignment]
        elif step == "before-sweep":
            sync.sweep = die  # type: ignore[assignment, attr-defined]

        def progress(done: int, total: int) -> None:
            if step == "write" and done == 2:
                die()

        sync.sync_catalog(Catalog.objects.get(pk=catalog.pk), progress=progress)

    code = ended(fork(work))
    served = packages_of(catalog)
    again = sync.sync_catalog(Catalog.objects.get(pk=catalog.pk), force=step == "before-sweep")
    return {
        "code": code,
        "served": served,
        "again": again.outcome,
        "packages": packages_of(catalog),
        "blobs": Blob.objects.count(),
        "orphans": orphans(),
        "running": SyncRun.objects.filter(outcome="running").count(),
    }


def one_catalog(folder: Path) -> dict[str, object]:
    """Two workers are given the same catalog at once."""
    catalog = catalog_of(folder, "one", OLD)
    workers = [fork(lambda: tasks.sync_catalog(catalog.pk)) for _ in range(2)]
    codes = [ended(pid) for pid in workers]
    catalog.refresh_from_db()
    return {"codes": codes, "revision": catalog.revision, "packages": packages_of(catalog)}


def many_catalogs(folder: Path) -> dict[str, object]:
    """Four catalogs with content in common, in different orders, by four workers at once."""
    names = [f"{letter}-operator" for letter in "abcdefgh"]
    catalogs = [catalog_of(folder, f"many{i}", names if i % 2 else names[::-1]) for i in range(4)]
    workers = [fork(lambda pk=each.pk: tasks.sync_catalog(pk)) for each in catalogs]  # type: ignore[misc]
    codes = [ended(pid) for pid in workers]
    return {
        "codes": codes,
        "states": sorted(Catalog.objects.values_list("state", flat=True)),
        "packages": Package.objects.count(),
        "blobs": Blob.objects.count(),
        "orphans": orphans(),
    }


def deleted(folder: Path) -> dict[str, object]:
    """The catalog is deleted while a worker writes it."""
    catalog = catalog_of(folder, "deleted", NEW)
    flag = folder / "writing"

    def progress(done: int, total: int) -> None:
        if done == 1:
            flag.touch()
            time.sleep(0.5)

    worker = fork(lambda: sync.sync_catalog(Catalog.objects.get(pk=catalog.pk), progress=progress))
    while not flag.exists():
        time.sleep(0.02)
    with transaction.atomic():
        delete_catalog(catalog.pk)
    code = ended(worker)
    replace.sweep()
    left = {
        model.__name__: model.objects.count()
        for model in (Catalog, Package, Bundle, BlobRef, Blob, BlobPack)
    }
    return {"code": code, "left": left, "orphans": orphans()}


def main() -> None:
    scenario, _, step = sys.argv[1].partition(":")
    folder = Path(sys.argv[2])
    Catalog.objects.all().delete()
    replace.sweep()
    if scenario == "killed":
        found = killed(folder, step)
    else:
        found = {"one": one_catalog, "many": many_catalogs, "deleted": deleted}[scenario](folder)
    connection.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
