"""During an upgrade processes of the version before run on the schema of the new one."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from olmweb.sandbox.cluster import Sandbox
from tests.conftest import ROOT, need
from tests.e2e.installation import FILL, READ_AGAIN, Installation
from tests.services import postgres, postgres_bin

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else ""


def version_before() -> str:
    """The last release; before the first one, the commit that all later migrations follow. Empty
    where the history is not there."""
    released = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    if released:
        return released
    every = git("ls-files", "--", ":(glob)*/migrations/0*.py").splitlines()
    later = [name for name in every if "/0001_" not in name]
    added = git("log", "--diff-filter=A", "--format=%H", "--reverse", "--", *later).splitlines()
    return git("rev-parse", "--verify", "--quiet", f"{added[0]}^") if later and added else ""


@pytest.fixture
def before(tmp_path: Path) -> Iterator[Path]:
    """A checkout of the version before."""
    commit = version_before() if shutil.which("git") else ""
    if not commit:
        whole = shutil.which("git") and git("rev-parse", "--is-shallow-repository") == "false"
        need("history", bool(whole))
        pytest.skip("there is no version before this one")
    folder = tmp_path / "before"
    subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", str(folder), commit],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    yield folder
    git("worktree", "remove", "--force", str(folder))


def test_the_version_before_works_on_the_new_schema(before: Path, tmp_path: Path) -> None:
    need("postgres", postgres_bin() is not None)
    sandbox = Sandbox(step_seconds=0.01)
    sandbox.start()
    sandbox.write_kubeconfig(tmp_path / "kubeconfig", context="sandbox")
    try:
        with postgres() as server:
            installation = Installation(server, tmp_path)
            installation.manage("migrate", "--verbosity", "0")
            installation.code = before
            installation.manage("check")
            installation.manage("migrate", "--check")
            installation.sync()
            token = installation.manage("shell", "-c", FILL).partition("TOKEN ")[2].strip()
            installation.manage("shell", "-c", READ_AGAIN % token)
            rows = installation.rows()
            assert len(rows["catalogs_bundle"]) == 4
            assert len(rows["installs_operator"]) > 69
            # The new version goes on with the rows of the one before.
            installation.code = ROOT
            installation.sync()
            installation.manage("shell", "-c", READ_AGAIN % token)
    finally:
        sandbox.stop()
