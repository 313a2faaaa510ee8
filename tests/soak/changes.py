"""What changes in the clusters and catalogs while faults are applied, so that much is recorded."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

from tests.soak.fleet import Fleet
from tests.soak.requested import Api
from tests.soak.stack import Stack
from tests.worlds.fbc import jsonl, package

# No other part of the soak touches them.
OBJECTS = ("etcd", "ingress", "network", "service-ca", "storage")
CATALOGS = ("changing-0", "changing-1")
CATALOG_SECONDS = 4.0


class Changes:
    """All OBJECTS of one cluster after the other change, `rate` objects a second, and catalogs of
    files, which a worker is requested to read, until `stop`."""

    def __init__(self, product: Stack, fleet: Fleet, api: Api, rate: float) -> None:
        self._fleet, self._api = fleet, api
        self._files = {slug: product.folder / f"{slug}.json" for slug in CATALOGS}
        for slug, path in self._files.items():
            _write_catalog(path, 0)
            product.manage("sync_catalog", slug, "--file", str(path))
        self._over = threading.Event()
        self._errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._repeat, args=arguments, daemon=True)
            for arguments in ((self._touch, len(OBJECTS) / rate), (self._publish, CATALOG_SECONDS))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Raises what a change raised."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _repeat(self, change: Callable[[int], None], pause: float) -> None:
        try:
            for number in itertools.count(1):
                change(number)
                if self._over.wait(pause):
                    return
        except Exception as error:
            self._errors.append(error)

    def _touch(self, number: int) -> None:
        self._fleet.touch(f"Change{number}", number % len(self._fleet.names), 1, OBJECTS)

    def _publish(self, number: int) -> None:
        for slug, path in self._files.items():
            _write_catalog(path, number)
            self._api.post(f"catalogs/-/{slug}/sync", {}, f"sync-{slug}-{number}")


def _write_catalog(path: Path, number: int) -> None:
    """Replaces the catalog by one whose package has this patch version."""
    part = path.with_suffix(".part")
    part.write_bytes(jsonl(package(versions=[f"1.0.{number}"])))
    part.replace(path)
