"""`python -m tests.soak [--short] [--clusters N]`: load and chaos on real processes.

Prints a table and writes `.local/soak.json`. Exit status 1 when a promise was broken, 2 when a
component is missing.
"""

import argparse
import json
import shutil
import signal
import sys
from dataclasses import replace

from tests.bench.__main__ import print_table
from tests.bench.tools import ROOT
from tests.services import HOW_TO_GET, postgres_bin
from tests.soak.run import FULL, SHORT, soak

OUT = ROOT / ".local" / "soak.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--short", action="store_true", help="three clusters, no load")
    parser.add_argument("--clusters", type=int, metavar="N", help="so many instead of 50")
    asked = parser.parse_args()
    size = SHORT if asked.short else FULL
    size = replace(size, clusters=asked.clusters or size.clusters)
    for name, found in (("postgres", postgres_bin()), ("redis", shutil.which("redis-server"))):
        if found is None:
            print(HOW_TO_GET[name], file=sys.stderr)
            return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes are ended
    rows = soak(size)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print_table(rows)
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
