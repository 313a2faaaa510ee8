"""The product as a user starts it, in a process of its own: for journeys and screenshots."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.migrated import fill_database
from tests.services import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 240  # other tests may keep the machine busy
END_SECONDS = 40  # the product takes 10 at most, if it gets the CPU
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    folder: Path
    process: subprocess.Popen[str]


@contextmanager
def demo(*, judged: bool = True) -> Iterator[Product]:
    """`manage.py serve --demo` with a data folder of its own; yields when it says it is ready and,
    if `judged`, has the verdicts on all packages for its cluster. Otherwise it begins without a
    database, as a person's first demo does."""
    with product_folder(migrated=judged) as folder:
        environment = {
            "KUBECONFIG": str(folder / "kubeconfig"),
            "OLMWEB_CLUSTERS": "sandbox=sandbox",
            "OLMWEB_PUBLIC_READ": "true",
            "OLMWEB_STATE_POLL": "2s",
            "OLMWEB_CATALOG_POLL": "1m",
        }
        with serve(folder, environment, "--demo") as running:
            if judged:
                wait_until_judged(folder)
            yield running


@contextmanager
def product_folder(*, migrated: bool = True) -> Iterator[Path]:
    """A data folder; `migrated`: with an empty database of the current schema."""
    with tempfile.TemporaryDirectory(prefix="olmweb-product-") as name:
        folder = Path(name)
        if migrated:
            fill_database(f"sqlite:///{folder / 'olmweb.sqlite3'}")
        yield folder


@contextmanager
def serve(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[Product]:
    """`manage.py serve` with its data in `folder`; yields when it says it is ready."""
    with ExitStack() as stack:
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(port), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((folder / "stderr").open("w")),
            text=True,
            env={
                **os.environ,
                "OLMWEB_DATA_DIR": str(folder),
                "PYTHONUNBUFFERED": "1",
                **environment,
            },
        )
        try:
            _wait_until_ready(process, folder)
            yield Product(f"http://127.0.0.1:{port}", folder, process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _wait_until_ready(process: subprocess.Popen[str], folder: Path) -> None:
    ready = threading.Event()

    def read() -> None:
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                if line.startswith("OLM Web is ready"):
                    ready.set()

    threading.Thread(target=read, daemon=True).start()
    deadline = time.monotonic() + START_SECONDS
    while not ready.wait(0.1):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the product did not start:\n{(folder / 'stderr').read_text()}")


def wait_until_judged(folder: Path) -> None:
    query = """
        SELECT catalog.name FROM catalogs_catalog AS catalog
        WHERE checked_at IS NULL OR revision > 0 AND NOT EXISTS (
            SELECT 1 FROM catalogs_predictionrun AS run
            WHERE run.catalog_id = catalog.id AND run.cluster_id IS NOT NULL)
    """
    ready = "SELECT count(*) FROM catalogs_predictionrun WHERE cluster_id IS NOT NULL"
    deadline = time.monotonic() + START_SECONDS
    with closing(sqlite3.connect(folder / "olmweb.sqlite3", timeout=30)) as database:
        while True:
            waiting = [name for (name,) in database.execute(query)]
            if not waiting and database.execute(ready).fetchone()[0]:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"no verdicts after {START_SECONDS} s on catalogs: {waiting}")
            time.sleep(0.2)
