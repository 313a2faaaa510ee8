"""The services of compose.yaml as local processes: their commands, their environment, their health
checks, on a real PostgreSQL and a Redis with a password. There is no engine: what it isolates
(networks, memory, the read-only root) is not tested here."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import compose
from tests.compose import SECRETS, Service
from tests.conftest import ROOT, need
from tests.services import free_port, memory, postgres, postgres_bin, stop

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BIN = Path(sys.executable).parent


@dataclass
class Stack:
    """What an engine does with the file: secrets mounted, hosts resolved, ports published."""

    folder: Path
    redis_port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)

    def local(self, text: str) -> str:
        """A word of a command or value, with the paths and ports of this machine."""
        for old, new in (
            ("/run/secrets/redis-conf", f"{self.folder}/deploy/secrets/redis.conf"),
            ("/run/secrets/registry-auth", f"{self.folder}/deploy/secrets/registry-auth.json"),
            (SECRETS, f"{self.folder}/deploy/secrets/"),
            ("127.0.0.1:8000", f"127.0.0.1:{self.web_port}"),
            ("redis-cli ", f"redis-cli -p {self.redis_port} "),
            ("$$", "$"),
        ):
            text = text.replace(old, new)
        return text

    def environment(self, name: str, service: Service) -> dict[str, str]:
        base = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOSTNAME": name}
        if "env_file" not in service:
            return base
        file = compose.read_env_file(compose.EXAMPLE)
        resolved = compose.environment(service, file)
        own = self.folder / name
        own.mkdir(exist_ok=True)
        resolved["TMPDIR"] = str(own)
        # From the environment of the image.
        resolved["OLMWEB_DATA_DIR"] = str(self.folder)
        return base | {name: self.local(value) for name, value in resolved.items()}

    def command(self, name: str, service: Service) -> list[str]:
        command = [self.local(word) for word in service.get("command") or compose.image_command()]
        if "worker" in command:  # several nodes on one host
            command += ["--hostname", f"celery@{name}"]
        if command[-1] == "web":
            command += ["--port", str(self.web_port)]
        return command

    def healthy(self, name: str, service: Service) -> bool:
        """Whether the health check of the service passes."""
        kind, *words = service["healthcheck"]["test"]
        words = [self.local(word) for word in words]
        check = ["sh", "-c", *words] if kind == "CMD-SHELL" else words
        run = subprocess.run(
            check, cwd=ROOT, env=self.environment(name, service), capture_output=True
        )
        return run.returncode == 0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    need("postgres", postgres_bin() is not None)
    need("redis", shutil.which("redis-server") is not None)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "kubeconfig").write_text("kind: Config\napiVersion: v1\n", encoding="utf-8")
    script = shutil.copy(ROOT / "deploy" / "make-secrets.sh", tmp_path / "deploy")
    subprocess.run([script, tmp_path / "kubeconfig"], check=True, capture_output=True)
    stack = Stack(tmp_path)
    secrets = tmp_path / "deploy" / "secrets"
    redis_url = (secrets / "redis-url").read_text(encoding="utf-8")
    (secrets / "redis-url").write_text(
        redis_url.replace("@redis:6379", f"@127.0.0.1:{stack.redis_port}"), encoding="utf-8"
    )
    with postgres() as url:
        (secrets / "database-url").write_text(url, encoding="utf-8")
        yield stack


def started(stack: Stack, name: str, service: Service, *more: str) -> subprocess.Popen[bytes]:
    with (stack.folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*stack.command(name, service), *more],
            cwd=ROOT, env=stack.environment(name, service), stdout=log, stderr=log,
        )  # fmt: skip


def wait_until_healthy(stack: Stack, name: str, service: Service) -> None:
    deadline = time.monotonic() + 90
    while not stack.healthy(name, service):
        if time.monotonic() > deadline:
            log = (stack.folder / f"{name}.log").read_text(encoding="utf-8")
            pytest.fail(f"{name} is not healthy after 90 s:\n{log[-2000:]}")
        time.sleep(0.5)


def test_every_service_becomes_healthy_and_stops_within_its_grace(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    services = compose.compose()["services"]
    apps = compose.app_services()
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        redis = services["redis"]
        more = ("--port", str(stack.redis_port), "--bind", "127.0.0.1", "--dir", str(stack.folder))
        running["redis"] = started(stack, "redis", redis, *more)
        wait_until_healthy(stack, "redis", redis)
        migrate = started(stack, "migrate", apps.pop("migrate"))
        assert migrate.wait(timeout=120) == 0, (stack.folder / "migrate.log").read_text()
        for name, service in apps.items():
            running[name] = started(stack, name, service)
        for name, service in apps.items():
            wait_until_healthy(stack, name, service)
            assert running[name].poll() is None
        with capsys.disabled():
            print(f"\nMB: { {name: memory(running[name]) for name in apps} }")
        begun = time.monotonic()
        for name in apps:
            running[name].send_signal(signal.SIGTERM)
        for name, service in apps.items():
            grace = int(service["stop_grace_period"].removesuffix("s"))
            running[name].wait(timeout=max(1, begun + grace - time.monotonic()))
            assert running.pop(name).returncode in (0, -signal.SIGTERM), name
        # Without the password Redis refuses, and its health check would not pass.
        wrong = {**redis, "healthcheck": {"test": ["CMD-SHELL", "redis-cli ping | grep -q PONG"]}}
        assert not stack.healthy("redis", wrong)
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                stop(process, signal.SIGTERM)
