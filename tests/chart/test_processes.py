"""The containers of the chart as processes of this machine: each starts with the command and the
environment that the chart gives it, answers its probe and ends within its grace."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.chart.rendering import ci_values, named, pod_templates, rendered
from tests.conftest import ROOT, need
from tests.peers.client import wait_until
from tests.peers.processes import with_parent
from tests.services import free_port, memory, postgres, postgres_bin

pytestmark = [pytest.mark.peers, pytest.mark.slow]

BIN = Path(sys.executable).parent
SECONDS = 120  # for a process to be ready on a busy machine
DEPLOYMENTS = ("web", "worker-actions", "worker-sync", "worker-reports", "watcher", "beat")


def as_random_user() -> list[str]:
    """Command prefix for a user id that nobody has, in group 0, as OpenShift assigns; none where
    the kernel allows no user namespaces."""
    prefix = ["unshare", "--user", "--map-user=1000680000", "--map-group=0", "--"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return []
    return prefix if allowed else []


class Pods:
    """The chart's pods, their volumes below `home`, on a PostgreSQL and a Redis of the test."""

    def __init__(self, home: Path, database_url: str, redis_url: str) -> None:
        self.home = home
        objects = rendered(ci_values("minimal"))
        self.templates = pod_templates(objects)
        secret = named(objects, "Secret", "olmweb-generated")["data"]
        values = {key: base64.b64decode(value).decode() for key, value in secret.items()}
        values |= {"database-url": database_url, "redis-url": redis_url}
        self.port = free_port()
        self.user = as_random_user()
        self.running: list[subprocess.Popen[bytes]] = []
        for template in self.templates.values():
            for volume in template["spec"]["volumes"]:
                for source in volume.get("projected", {}).get("sources", [volume]):
                    for item in source.get("secret", {}).get("items", ()):
                        path = self.path(volume["name"]) / item["path"]
                        path.write_text(values[item["key"]])

    def path(self, volume: str, pod: str = "") -> Path:
        path = self.home / "volumes" / (f"{pod}-{volume}" if pod else volume)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def container(self, component: str, kind: str = "containers") -> dict[str, Any]:
        return dict(self.templates[component]["spec"][kind][0])

    def environment(self, pod: str, container: dict[str, Any]) -> dict[str, str]:
        """What the container sees, with the paths of its mounts moved to this machine."""
        values = {item["name"]: item["value"].replace("$$", "$") for item in container["env"]}
        for mount in container["volumeMounts"]:
            own = mount["name"] in ("tmp", "data")
            path = str(self.path(mount["name"], pod if own else ""))
            for name, value in values.items():
                if value == mount["mountPath"] or value.startswith(mount["mountPath"] + "/"):
                    values[name] = path + value.removeprefix(mount["mountPath"])
        image = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "OLMWEB_DATA_DIR": str(self.path("data", pod)),
        }
        return {**image, **values}

    def command(self, pod: str, command: list[str]) -> list[str]:
        """The command with this machine's programs and the pod's folders."""
        tmp = f"{self.path('tmp', pod)}/"
        moved = [part.replace("/tmp/", tmp) for part in command]  # noqa: S108 - the container's
        return [str(BIN / part) if part in ("python", "celery") else part for part in moved]

    def run(self, component: str) -> None:
        """Runs the container of a Job to its end."""
        assert self.start(component, component).wait(SECONDS) == 0, self.log(component)

    def start(self, pod: str, component: str, kind: str = "containers") -> subprocess.Popen[bytes]:
        container = self.container(component, kind)
        command = self.command(pod, container["command"])
        if component == "web" and kind == "containers":
            command += ["--port", str(self.port)]
        with (self.home / f"{pod}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.user, *with_parent(command)],
                cwd=ROOT,
                env=self.environment(pod, container),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def log(self, pod: str) -> str:
        return (self.home / f"{pod}.log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def is_well(self, component: str, pod: str) -> bool:
        """Whether the probe of the container passes."""
        container = self.container(component)
        if component == "web":
            return all(
                self.answers(container[probe]["httpGet"]["path"])
                for probe in ("livenessProbe", "readinessProbe")
            )
        command = self.command(pod, container["livenessProbe"]["exec"]["command"])
        environment = self.environment(pod, container)
        done = subprocess.run(
            [*self.user, *command], cwd=ROOT, env=environment, capture_output=True
        )
        return done.returncode == 0

    def answers(self, path: str) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}{path}"
            return urllib3.request("GET", url, retries=False, timeout=5).status == 200
        except urllib3.exceptions.HTTPError:
            return False


@pytest.fixture
def pods(tmp_path: Path, redis_server: str) -> Iterator[Pods]:
    need("postgres", postgres_bin() is not None)
    with postgres() as url:
        running = Pods(tmp_path, url, redis_server)
        try:
            yield running
        finally:
            running.close()


def test_every_process_starts_answers_its_probe_and_ends_within_its_grace(
    pods: Pods, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = pods.start("waiting", "web", "initContainers")
    pods.run("migrate")
    assert waiting.wait(SECONDS) == 0, pods.log("waiting")
    for _ in range(2):  # the second time there is such an account
        pods.run("createadmin")

    names = {component: component for component in DEPLOYMENTS} | {"second": "beat"}
    running = {pod: pods.start(pod, component) for pod, component in names.items()}
    sizes = {}
    for pod, process in running.items():
        what = f"{pod} being well"
        wait_until(partial(pods.is_well, names[pod], pod), what, SECONDS, pause=1)
        assert process.poll() is None, pods.log(pod)
        sizes[pod] = memory(process)
    with capsys.disabled():
        print(f"\nMB: {sizes}")

    for process in running.values():
        process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    for pod, process in running.items():
        process.wait(SECONDS)
        grace = pods.templates[names[pod]]["spec"]["terminationGracePeriodSeconds"]
        assert time.monotonic() - started < grace, pod
        requested = pods.container(names[pod])["resources"]["requests"]["memory"]
        assert sizes[pod] < int(requested.removesuffix("Mi")), pod
