"""deploy/kubernetes/make-kubeconfig.sh: the kubeconfig of OLM Web's ServiceAccount, by kubectl."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

SCRIPT = Path(__file__).parents[2] / "deploy/kubernetes/make-kubeconfig.sh"
KUBECTL = shutil.which("kubectl")
OWN: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "admin@prod",
    "clusters": [
        {"name": "prod", "cluster": {"server": "https://prod.example.com:6443"}},
        {"name": "other", "cluster": {"server": "https://other.example.com:6443"}},
    ],
    "users": [
        {"name": "admin", "user": {"token": "token-of-the-admin"}},
        {"name": "somebody", "user": {"token": "token-of-somebody"}},
    ],
    "contexts": [
        {
            "name": "admin@prod",
            "context": {"cluster": "prod", "user": "admin", "namespace": "default"},
        },
        {"name": "other", "context": {"cluster": "other", "user": "somebody"}},
    ],
}


def run(
    folder: Path,
    *arguments: str,
    server: str = "https://prod.example.com:6443",
    token: str = "issued-token",  # noqa: S107
) -> subprocess.CompletedProcess[str]:
    """Runs the script beside a cluster at `server` that issues `token` for each request for it."""
    fake = folder / "bin/kubectl"
    fake.parent.mkdir(exist_ok=True)
    wanted = '"--namespace olmweb create token olmweb --duration 8760h"'
    fake.write_text(
        f'#!/bin/sh\nif [ "$*" = {wanted} ]; then echo {token}; else exec {KUBECTL} "$@"; fi\n'
    )
    fake.chmod(0o755)
    own = folder / "own"
    clusters = [{"name": "prod", "cluster": {"server": server}}, *OWN["clusters"][1:]]
    own.write_text(yaml.safe_dump(OWN | {"clusters": clusters}))
    environment = os.environ | {
        "PATH": f"{fake.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(own),
    }
    return subprocess.run(
        [SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", ["east", "admin@prod"])
def test_the_kubeconfig_has_the_token_and_no_other_credential(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, name)
    assert (result.returncode, result.stderr) == (0, "")
    document: dict[str, Any] = yaml.safe_load(result.stdout)
    assert document["current-context"] == name
    assert [entry["name"] for entry in document["contexts"]] == [name]
    assert document["contexts"][0]["context"] == {"cluster": name, "user": name}
    assert document["users"] == [{"name": name, "user": {"token": "issued-token"}}]
    assert document["clusters"] == [{"name": name, "cluster": OWN["clusters"][0]["cluster"]}]
    assert yaml.safe_load((tmp_path / "own").read_text()) == OWN


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_the_kubeconfigs_of_clusters_of_one_name_can_be_merged(tmp_path: Path) -> None:
    """kubeadm names every cluster `kubernetes`."""
    for name in ("east", "west"):
        folder = tmp_path / name
        folder.mkdir()
        result = run(folder, name, server=f"https://{name}.example.com:6443", token=f"of-{name}")
        (tmp_path / f"{name}.kubeconfig").write_text(result.stdout)
    files = f"{tmp_path}/east.kubeconfig:{tmp_path}/west.kubeconfig"
    merged = subprocess.run(
        [str(KUBECTL), "config", "view", "--flatten", "--output", "json", "--raw"],
        env=os.environ | {"KUBECONFIG": files}, capture_output=True, check=True,
    )  # fmt: skip
    document = json.loads(merged.stdout)
    clusters = {entry["name"]: entry["cluster"]["server"] for entry in document["clusters"]}
    tokens = {entry["name"]: entry["user"]["token"] for entry in document["users"]}
    for name in ("east", "west"):
        [context] = [each["context"] for each in document["contexts"] if each["name"] == name]
        assert clusters[context["cluster"]] == f"https://{name}.example.com:6443"
        assert tokens[context["user"]] == f"of-{name}"


def test_without_a_name_it_says_what_to_give(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Give the name of the cluster" in result.stderr
