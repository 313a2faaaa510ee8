"""compose.yaml: every setting reaches every process, secrets are files, limits are set."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from olmweb import settings
from tests.compose import EXAMPLE, SECRETS, app_services, compose, environment, read_env_file
from tests.conftest import ROOT

PROCESSES = {
    "web", "worker-actions", "worker-sync", "worker-reports", "watcher", "beat", "migrate",
}  # fmt: skip
# Given to one command, or for development; the image sets the data folder.
NOT_IN_EXAMPLE = {"OLMWEB_ADMIN_PASSWORD", "OLMWEB_DEBUG", "OLMWEB_DATA_DIR", "DOCKER_CONFIG"}


def readme_settings() -> set[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("### Settings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|", table, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"[A-Z_]+", row)}


def seconds(value: str) -> int:
    assert value.endswith("s")
    return int(value[:-1])


def test_the_table_of_the_readme_has_the_settings_that_are_read() -> None:
    of_libraries = {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}  # urllib reads them
    assert readme_settings() == settings.env.names | of_libraries


def test_the_processes_are_those_of_the_documentation() -> None:
    assert set(app_services()) == PROCESSES


@pytest.mark.parametrize("process", sorted(PROCESSES))
def test_every_setting_reaches_every_process(process: str) -> None:
    service = app_services()[process]
    resolved = environment(service, dict.fromkeys(readme_settings(), "from-the-file"))
    for name in readme_settings():
        value = resolved.get(f"{name}_FILE") or resolved[name]
        if value.startswith(SECRETS):
            assert value.removeprefix(SECRETS) in service["secrets"], name
        else:
            assert value == "from-the-file", name


def test_compose_names_only_settings_that_exist() -> None:
    names = settings.env.names | {f"{name}_FILE" for name in settings.env.names} | {"TMPDIR"}
    for service in app_services().values():
        assert set(service["environment"]) <= names


def test_the_example_has_every_setting_that_is_no_secret() -> None:
    secret = {
        name if name in settings.env.names else name.removesuffix("_FILE")
        for name, value in app_services()["web"]["environment"].items()
        if value.startswith(SECRETS)
    }
    example = read_env_file(EXAMPLE, commented=True).keys()
    assert settings.env.names - secret - NOT_IN_EXAMPLE == example & settings.env.names
    assert example - settings.env.names == {"REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}


def test_every_secret_is_a_file_that_the_script_makes(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    script = tmp_path / "deploy" / "make-secrets.sh"
    script.write_bytes((ROOT / "deploy" / "make-secrets.sh").read_bytes())
    script.chmod(0o755)
    (tmp_path / "config").write_text("kind: Config", encoding="utf-8")
    subprocess.run([str(script), "config"], cwd=tmp_path, check=True, capture_output=True)
    secrets = tmp_path / "deploy" / "secrets"
    for secret in compose()["secrets"].values():
        file = tmp_path / secret["file"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        if os.getuid() == 0:
            expected = 999 if file.name in ("redis.conf", "postgres-password") else 10001
            assert file.stat().st_uid == expected
    key = (secrets / "secret-key").read_text(encoding="utf-8")
    assert re.fullmatch(r"[0-9a-f]{80}", key)
    password = (secrets / "postgres-password").read_text(encoding="utf-8")
    assert f":{password}@postgres/" in (secrets / "database-url").read_text(encoding="utf-8")
    before = {file.name: file.read_bytes() for file in secrets.iterdir()}
    subprocess.run([str(script)], cwd=tmp_path, check=True, capture_output=True)
    assert before == {file.name: file.read_bytes() for file in secrets.iterdir()}


def test_the_script_asks_for_the_kubeconfig_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    script = tmp_path / "deploy" / "make-secrets.sh"
    script.write_bytes((ROOT / "deploy" / "make-secrets.sh").read_bytes())
    run = subprocess.run(["bash", str(script)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "kubeconfig" in run.stderr


def test_processes_are_confined() -> None:
    for name, service in app_services().items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] not in ("0", "root")
        assert service["mem_limit"], name
        assert service["pids_limit"]
        # Memory that a tmpfs takes is the container's.
        assert all(":size=" in folder for folder in service["tmpfs"])
        assert service["environment"]["TMPDIR"] == "/data"
        assert "/data" in service["volumes"]


def test_a_process_has_more_time_to_stop_than_it_takes() -> None:
    services = compose()["services"]
    for name, service in services.items():
        if service.get("restart") != "no":
            assert "stop_grace_period" in service, name
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name
    for name, service in services.items():
        if "worker" in (service.get("command") or ()):
            grace = seconds(service["stop_grace_period"])
            assert grace > settings.WORKER_STOP_SECONDS + 10, name


def test_the_stores_are_reached_by_the_processes_alone() -> None:
    read = compose()
    assert read["networks"]["stores"]["internal"] is True
    for name in ("postgres", "redis"):
        service = read["services"][name]
        assert service["networks"] == ["stores"]
        assert "ports" not in service
    [published] = [s["ports"] for s in read["services"].values() if "ports" in s]
    assert published == ["${OLMWEB_PORT:-127.0.0.1:8000}:8000"]


def test_every_queue_has_a_worker() -> None:
    queues = [
        service["command"][service["command"].index("--queues") + 1]
        for service in app_services().values()
        if "--queues" in (service.get("command") or ())
    ]
    assert sorted(queues) == ["actions", "reports", "sync", "watch"]
