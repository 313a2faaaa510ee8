"""`manage.py sandbox`: prints where it is and ends on SIGTERM."""

import signal
import subprocess
import sys
from pathlib import Path

import urllib3
import yaml

from tests.conftest import ROOT


def test_the_command_serves_until_sigterm_and_writes_a_kubeconfig(tmp_path: Path) -> None:
    kubeconfig, state = tmp_path / "kubeconfig", tmp_path / "state.json"
    process = subprocess.Popen(
        [
            sys.executable,
            "manage.py",
            "sandbox",
            f"--kubeconfig={kubeconfig}",
            f"--state={state}",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        url = process.stdout.readline().removeprefix("Sandbox cluster: ").strip()
        assert process.stdout.readline().strip() == f"Kubeconfig: {kubeconfig}"
        config = yaml.safe_load(kubeconfig.read_text())
        assert config["clusters"][0]["cluster"]["server"] == url
        token = config["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        with urllib3.PoolManager() as pool:
            assert pool.request("GET", f"{url}/version", headers=headers).status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    assert state.exists()
