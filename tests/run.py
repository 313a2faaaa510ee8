"""`make test`: the suite on SQLite, on PostgreSQL, on the real components, and in the browser.

All runs must pass. A component that is missing is named in one line; with OLMWEB_TEST_REQUIRE
naming it, its absence fails the run.

The real components and the browser mostly wait, each for worlds of its own: they run beside the
others, and what they print comes when they have ended.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.peers.build import PEERS, binary
from tests.services import HOW_TO_GET, postgres, postgres_bin, required

# Browser journeys start the product itself with its own database, and what the real components do
# does not depend on ours: once is enough.
EVERYWHERE = "not e2e and not peers"
# A test that asks no database has nothing to say about a second one.
ASKING = f"{EVERYWHERE} and database"
WORKERS = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadgroup"]
PYTEST = [sys.executable, "-m", "pytest"]


def run_pytest(title: str, *arguments: str, **environment: str) -> int:
    """What only computes: it gives way to those who wait with a time limit."""
    print(f"\n--- {title}", flush=True)
    command = ["nice", "-n", "5", *PYTEST, *WORKERS, *arguments]
    return subprocess.call(command, env={**os.environ, **environment})


def waiting(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """One test at a time: two worlds are more than their time limits bear."""
    return subprocess.run(
        [*PYTEST, *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def on_databases(extra: Iterable[str]) -> list[int]:
    failed = [run_pytest("tests on SQLite", "-m", EVERYWHERE, *extra)]
    if postgres_bin() is None:
        print(f"\nskipped: tests on PostgreSQL: {HOW_TO_GET['postgres']}")
        return [*failed, int("postgres" in required())]
    with postgres() as url:
        found = run_pytest("tests on PostgreSQL", "-m", ASKING, *extra, DATABASE_URL=url)
    return [*failed, found]


def shown(title: str, run: Future[subprocess.CompletedProcess[bytes]]) -> int:
    ended = run.result()
    print(f"\n--- {title}", flush=True)
    sys.stdout.buffer.write(ended.stdout)
    sys.stdout.flush()
    return ended.returncode


def main() -> int:
    extra = sys.argv[1:]
    built = any(binary(name) for peer in PEERS for name in peer.binaries)
    with ThreadPoolExecutor() as beside:
        if built:
            peers = beside.submit(waiting, "-m", "peers and not e2e", *extra)
        journeys = beside.submit(waiting, "-m", "e2e", "-p", "no:randomly", *extra)
        failed = on_databases(extra)
        failed.append(shown("browser journeys", journeys))
        if built:
            failed.append(shown("tests on the real components", peers))
        else:
            print("\nskipped: tests on the real components: none is built (`make peers`)")
            failed.append(int(bool(required() & {"apiserver", "opm", "olm", "catalogd"})))
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
