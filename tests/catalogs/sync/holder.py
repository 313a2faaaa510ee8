"""Run as a process of its own by test_takeover: a worker that syncs a catalog under its lease.

Usage: holder.py CATALOG FILE. Prints "held", reads the source after a line on stdin, and prints the
outcome: changed, or lost when another worker took over.
"""

import sys
from pathlib import Path

import django

django.setup()

from catalogs.models import Catalog  # noqa: E402
from catalogs.sources.base import Fetched  # noqa: E402
from catalogs.sources.file import FileSource  # noqa: E402
from catalogs.sync.catalog import sync_catalog  # noqa: E402
from olmweb.runtime.leases import LeaseLost, renewed_lease  # noqa: E402

SECONDS = 2


class Slow(FileSource):
    """Answers when the test says so."""

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        print("held", flush=True)
        sys.stdin.readline()
        return super().fetch(if_modified_since=if_modified_since)


def main(catalog_id: str, file: str) -> None:
    held = None
    while held is None:
        with renewed_lease(f"catalog:{catalog_id}", SECONDS) as held:
            if held is None:
                continue
            catalog = Catalog.objects.get(pk=catalog_id)
            try:
                outcome = sync_catalog(catalog, source=Slow(Path(file))).outcome
            except LeaseLost:
                outcome = "lost"
    print(outcome, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
