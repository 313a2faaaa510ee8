"""The completion scripts in real shells, and `olmweb serve` as a process."""

import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from django.conf import settings

from tests.bench.tools import environment
from tests.conftest import need
from tests.services import free_port, wait_for_port

pytestmark = pytest.mark.slow
SECONDS = 60
# What a person types: the script is loaded, and the shell asks it for `olmweb token cr`.
COMMANDS = {
    "zsh": """
autoload -Uz compinit && compinit -u -d "$HOME/.zcompdump"
source <(olmweb completion zsh)
[[ -n ${_comps[olmweb]} ]] || exit 3
compadd() { print -r -- "$@" }
_describe() { print -rl -- ${(P)3} ${(P)4} }
words=(olmweb token cr) CURRENT=3
_olmweb_completion
""",
    "fish": """
olmweb completion fish | source
complete -C "olmweb token cr"
""",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """`olmweb` is found on the path, as after an installation."""
    script = tmp_path / "bin" / "olmweb"
    script.parent.mkdir()
    module = shlex.join([sys.executable, "-m", "olmweb.cli"])
    script.write_text(f'#!/bin/sh\nexec {module} "$@"\n')
    script.chmod(0o755)
    environ = environment(tmp_path, HOME=str(tmp_path), PYTHONPATH=str(settings.BASE_DIR))
    return environ | {"PATH": f"{script.parent}:{environ['PATH']}"}


@pytest.mark.parametrize("shell", [*COMMANDS])
def test_a_shell_loads_its_script_and_completes_a_subcommand(
    shell: str, environ: dict[str, str], tmp_path: Path
) -> None:
    need(shell, shutil.which(shell) is not None)
    options = ["-f"] if shell == "zsh" else ["--no-config"]
    run = subprocess.run(
        [shell, *options, "-c", COMMANDS[shell]],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "create" in run.stdout, run.stdout + run.stderr
    assert "revoke" not in run.stdout


def test_serve_answers_pages_and_ends_with_sigterm(environ: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    own = tmp_path / "config"
    own.write_text("my own kubeconfig")
    environ |= {"KUBECONFIG": str(own), "OLMWEB_PUBLIC_READ": "true"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["olmweb", "serve", "--demo", f"--port={port}"],
            env=environ, cwd=settings.BASE_DIR, stdout=log, stderr=log,
            executable=shutil.which("olmweb", path=environ["PATH"]),
        )  # fmt: skip
    try:
        wait_for_port(port, process, "olmweb serve")
        page = urllib3.request("GET", f"http://127.0.0.1:{port}/operators/", timeout=30)
        assert page.status == 200
        assert "Installed operators" in page.data.decode()
        assert own.read_text() == "my own kubeconfig"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
