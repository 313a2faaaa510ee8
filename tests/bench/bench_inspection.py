"""Inspection of 300 bundle images in a real registry, with the usual limits.

In a process of its own (inspecting.py). Peak memory is that of the process, less that before the
run. The images are of recorded bundles, twice with other bytes.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from catalogs.sources.oci.source import BundleSource, RegistryAccess
from tests.bench.bench_sync import CATALOG
from tests.bench.tools import ROOT, environment, migrate, row
from tests.peers.controllers import Registry, registry
from tests.worlds.recorded_bundles import RecordedBundle, catalog_lines, recorded_bundles

COUNT = 300


def run() -> list[dict[str, Any]]:
    """Rows of the table; none without the recorded bundles and a registry's program."""
    data = CATALOG.parent.parent
    if not (data / "truth").is_dir() or shutil.which("docker-registry") is None:
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name, registry() as images:
        folder = Path(name)
        environ = environment(folder, OLMWEB_INSECURE_REGISTRIES=images.host)
        migrate(environ)
        pushed = list(_push(images, data))
        needed = sum(size for *_, size in pushed)
        source = folder / "catalog.jsonl"
        lines = catalog_lines((bundle, reference) for bundle, reference, _ in pushed)
        source.write_bytes(b"".join(lines))
        sync = [str(ROOT / "manage.py"), "sync_catalog", "recorded", "--file", str(source)]
        subprocess.run([sys.executable, *sync], check=True, capture_output=True, env=environ)
        report = _inspect(environ)
        again = _inspect(environ)
    return [
        row(f"inspecting {COUNT} bundle images", report["seconds"], "s", 60),
        row("the same, seconds of the processor", report["cpu"], "s", 60),
        row("inspecting, peak memory", report["memory"], "MB", 100),
        row(
            "inspecting, bytes pulled",
            report["bytes"] / 1e6,
            "MB",
            1.1,
            beside=("layers needed", needed / 1e6),
        ),
        row("inspecting again, requests", again["requests"], "requests", 0),
    ]


def _push(images: Registry, data: Path) -> Iterator[tuple[RecordedBundle, str, int]]:
    """COUNT bundles with their references by digest, and the bytes of the layers needed."""
    bundles = recorded_bundles(data)
    access = RegistryAccess(frozenset([images.host]))
    for number in range(COUNT):
        bundle, salt = bundles[number % len(bundles)], str(number // len(bundles))
        reference, needed = bundle.push(images, salt)
        digest = BundleSource(reference, access=access).resolve()
        named = replace(bundle, package=f"{bundle.package}-{salt}", name=f"{bundle.name}-{salt}")
        yield named, f"{reference.rpartition(':')[0]}@{digest}", needed


def _inspect(environ: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.inspecting"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
