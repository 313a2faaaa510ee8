"""Runs the test suites: `make test` (python -m tests.run) and `make unit` (with --unit).

`make test` runs the suite on SQLite, on PostgreSQL, on the real components, in the browser, and
while processes are killed; all must pass. A component that is missing is named in one line; with
OLMWEB_TEST_REQUIRE naming it, its absence fails the run. The runs follow each other: at the same
time they would keep the components busy and exceed their time limits. The failed tests of all runs
are named at the end.

`make unit` runs the tests that need no database, server, process or real catalog, with fewer
examples of each property.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from tests import migrated
from tests.peers.build import PEERS, binary
from tests.services import HOW_TO_GET, postgres, postgres_bin, required

TESTS = Path(__file__).resolve().parent

# Browser journeys start the product itself with its own database, and what the real components do
# does not depend on ours: once is enough.
EVERYWHERE = "not e2e and not peers and not soak"
# A test that asks no database has nothing to say about a second one.
ASKING = f"{EVERYWHERE} and database and not one_database"
# Where the first run names the files with such tests: to import all takes four times as long.
ASKING_FILES = "OLMWEB_TEST_ASKING_FILES"
# The database that others are copies of, while pytest still collects.
PREPARE = (sys.executable, "-m", migrated.__name__)
MESSAGE = 300  # characters of a failure at the end

UNIT = (
    "-m",
    f"{EVERYWHERE} and not database and not data and not slow",
    "--ignore=tests/conformance",
    "--ignore=tests/olmweb/sandbox",
    "--hypothesis-profile=quick",
)


def run_pytest(title: str, *arguments: str, **environment: str) -> list[str]:
    """The failed tests as "CLASSNAME::NAME: MESSAGE"; the title if there are none."""
    print(f"\n--- {title}", flush=True)
    with tempfile.TemporaryDirectory(prefix="olmweb-tests-") as folder:
        report = Path(folder) / "report.xml"
        status = subprocess.call(
            [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments],
            env={**os.environ, **environment},
        )
        return (failed_tests(report) or [title]) if status else []


def failed_tests(report: Path) -> list[str]:
    """The tests of a JUnit report that failed or could not begin; none without a report."""
    if not report.exists():
        return []
    # Pytest wrote it in this run.
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314
    return [
        f"{case.get('classname')}::{case.get('name')}: "
        + " ".join(problem.get("message", "").split())[:MESSAGE]
        for case in cases
        for problem in case
        if problem.tag in ("failure", "error")
    ]


def files_of_peers() -> list[str]:
    """The files with the marker `peers`, a folder whose conftest.py has it: to import all takes
    twice the time. tests/conftest.py refuses tests with the marker in other files."""
    paths = [*sorted(TESTS.rglob("test_*.py")), *sorted(TESTS.rglob("*/conftest.py"))]
    named = [path for path in paths if "pytest.mark.peers" in path.read_text(encoding="utf-8")]
    return [str(path.parent if path.name == "conftest.py" else path) for path in named]


def main() -> int:
    extra = sys.argv[1:]
    if extra[:1] == ["--unit"]:
        cores = str(os.cpu_count() or 1)
        return int(bool(run_pytest("unit tests", "-n", cores, "-q", *UNIT, *extra[1:])))
    # One more than there are cores, as many tests wait for something.
    workers = ["-n", str(min(4, 1 + (os.cpu_count() or 1)))]
    by_file = ["--dist", "loadfile", "--no-loadscope-reorder"]
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as named:
        with subprocess.Popen(PREPARE):
            failed = run_pytest(
                "tests on SQLite", *workers, "-m", EVERYWHERE, *extra, **{ASKING_FILES: named.name}
            )
        asking_files = named.read().split()
    if postgres_bin() is None:
        print(f"\nskipped: tests on PostgreSQL: {HOW_TO_GET['postgres']}")
        failed += required() & {"postgres"}
    else:
        with postgres() as url:
            asking = [*workers, "-m", ASKING, *extra, *asking_files]
            with subprocess.Popen(PREPARE, env={**os.environ, "DATABASE_URL": url}):
                failed += run_pytest("tests on PostgreSQL", *asking, DATABASE_URL=url)
    if any(binary(name) for peer in PEERS for name in peer.binaries):
        # A file's tests share a cluster, and wait for it most of the time.
        marked = ["-m", "peers and not e2e", *extra, *files_of_peers()]
        real = ["-n", "4", *by_file, *marked]
        failed += run_pytest("tests on the real components", *real)
    else:
        print("\nskipped: tests on the real components: none is built (`make peers` builds them)")
        failed += required() & {"apiserver", "opm", "olm", "catalogd", "helm"}
    # Browsers keep the cores busy: more than two at a time wait for each other beyond their limits.
    journeys = ["-n", "2", *by_file, "-m", "e2e", "-p", "no:randomly", *extra, "tests/e2e"]
    failed += run_pytest("browser journeys", *journeys)
    soak = ["-q", "-m", "soak", *extra, "tests/soak"]
    failed += run_pytest("processes killed during actions", *soak)
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
