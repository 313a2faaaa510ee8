"""Runs the test suites: `make test` (python -m tests.run) and `make unit` (with --unit).

`make test` runs the suite on SQLite, on PostgreSQL, on the real components, in the browser, and
while processes are killed; all must pass. A component that is missing is named in one line; with
OLMWEB_TEST_REQUIRE naming it, its absence fails the run. The runs follow each other: at the same
time they would keep the components busy and exceed their time limits.

`make unit` runs the tests that need no database, server, process or real catalog, with fewer
examples of each property.
"""

import os
import subprocess
import sys

from tests.peers.build import PEERS, binary
from tests.services import HOW_TO_GET, postgres, postgres_bin, required

# Browser journeys start the product itself with its own database, and what the real components do
# does not depend on ours: once is enough.
EVERYWHERE = "not e2e and not peers and not soak"
# A test that asks no database has nothing to say about a second one.
ASKING = f"{EVERYWHERE} and database"


UNIT = (
    "-m",
    f"{EVERYWHERE} and not database and not data and not slow",
    "--ignore=tests/conformance",
    "--ignore=tests/olmweb/sandbox",
    "--hypothesis-profile=quick",
)


def run_pytest(title: str, *arguments: str, **environment: str) -> int:
    print(f"\n--- {title}", flush=True)
    return subprocess.call(
        [sys.executable, "-m", "pytest", *arguments], env={**os.environ, **environment}
    )


def main() -> int:
    extra = sys.argv[1:]
    if extra[:1] == ["--unit"]:
        return run_pytest("unit tests", "-n", str(os.cpu_count() or 1), "-q", *UNIT, *extra[1:])
    # One more than there are cores, as many tests wait for something.
    workers = ["-n", str(min(4, 1 + (os.cpu_count() or 1)))]
    by_file = ["--dist", "loadfile", "--no-loadscope-reorder"]
    failed = [run_pytest("tests on SQLite", *workers, "-m", EVERYWHERE, *extra)]
    if postgres_bin() is None:
        print(f"\nskipped: tests on PostgreSQL: {HOW_TO_GET['postgres']}")
        failed.append(int("postgres" in required()))
    else:
        with postgres() as url:
            asking = [*workers, "-m", ASKING, *extra]
            failed.append(run_pytest("tests on PostgreSQL", *asking, DATABASE_URL=url))
    if any(binary(name) for peer in PEERS for name in peer.binaries):
        # A file's tests share a cluster.
        real = [*workers, *by_file, "-m", "peers and not e2e", *extra]
        failed.append(run_pytest("tests on the real components", *real))
    else:
        print("\nskipped: tests on the real components: none is built (`make peers` builds them)")
        failed.append(int(bool(required() & {"apiserver", "opm", "olm", "catalogd", "helm"})))
    # Browsers keep the cores busy: more than two at a time wait for each other beyond their limits.
    journeys = ["-n", "2", *by_file, "-m", "e2e", "-p", "no:randomly", *extra]
    failed.append(run_pytest("browser journeys", *journeys))
    failed.append(run_pytest("processes killed during actions", "-q", "-m", "soak", *extra))
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
