"""The environment is read strictly: every problem is named, none is ignored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from olmweb import settings
from olmweb.runtime.env import Env, EnvError
from tests.conftest import ROOT


def reading(**environ: str) -> Env:
    return Env(environ, "OLMWEB_", ignore="OLMWEB_TEST_")


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400)]
)
def test_durations_are_read_with_their_unit(text: str, seconds: int) -> None:
    assert reading(OLMWEB_POLL=text).seconds("OLMWEB_POLL", "1s") == seconds


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ("redis://redis:6379/0", "redis://redis:6379/0"),
        ("rediss://:p%40@redis/0", "rediss://:p%40@redis/0?ssl_cert_reqs=required"),
        ("rediss://redis/0?health=1", "rediss://redis/0?health=1&ssl_cert_reqs=required"),
        ("rediss://redis/0?ssl_cert_reqs=none", "rediss://redis/0?ssl_cert_reqs=none"),
        ("", ""),
    ],
)
def test_the_certificate_of_redis_is_verified(address: str, read: str) -> None:
    assert reading(REDIS_URL=address).redis_url("REDIS_URL") == read


@pytest.mark.parametrize(
    ("environ", "read", "sentence"),
    [
        ({"OLMWEB_A": "maybe"}, lambda e: e.boolean("OLMWEB_A", True), '"true" or "false"'),
        ({"OLMWEB_A": "10"}, lambda e: e.seconds("OLMWEB_A", "1s"), "duration such as 30s"),
        ({"OLMWEB_A": "-1"}, lambda e: e.integer("OLMWEB_A", 1), "whole number from 0"),
        ({"OLMWEB_A": "0"}, lambda e: e.integer("OLMWEB_A", 1, minimum=1), "from 1 up"),
        ({"OLMWEB_A": "c"}, lambda e: e.choice("OLMWEB_A", "a", ("a", "b")), "one of a, b"),
        ({"OLMWEB_A_FILE": "/nowhere"}, lambda e: e.text("OLMWEB_A"), "/nowhere"),
        (
            {"OLMWEB_A": "x", "OLMWEB_A_FILE": "/dev/null"},
            lambda e: e.text("OLMWEB_A"),
            "both set",
        ),
        ({"OLMWEB_MISSPELT": "x"}, lambda e: None, "OLMWEB_MISSPELT is not a setting"),
    ],
)
def test_a_wrong_value_is_named_in_a_sentence(environ, read, sentence: str) -> None:
    env = reading(**environ)
    read(env)
    with pytest.raises(EnvError, match=sentence):
        env.finish()


def test_every_problem_is_said_at_once() -> None:
    env = reading(OLMWEB_A="maybe", OLMWEB_B="soon", OLMWEB_C="x")
    env.boolean("OLMWEB_A", True)
    env.seconds("OLMWEB_B", "1s")
    with pytest.raises(EnvError) as caught:
        env.finish()
    assert len(str(caught.value).splitlines()) == 3


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    assert reading(OLMWEB_KEY_FILE=str(tmp_path / "key")).text("OLMWEB_KEY") == "s3cret"


def test_names_of_the_test_suite_are_left_alone() -> None:
    reading(OLMWEB_TEST_REQUIRE="redis").finish()


def start(**environ: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "OLMWEB_DATA_DIR": os.environ["OLMWEB_DATA_DIR"]}
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT, env=base | environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.slow
def test_a_misspelt_setting_stops_the_start_with_one_sentence() -> None:
    run = start(OLMWEB_PUBLIC_RAED="true")
    assert run.returncode == 1
    assert "OLMWEB_PUBLIC_RAED is not a setting of OLM Web" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_production_without_a_secret_key_or_hosts_does_not_start() -> None:
    run = start(REDIS_URL="redis://127.0.0.1:1")
    assert run.returncode == 1
    assert "OLMWEB_SECRET_KEY is not set" in run.stderr
    assert "OLMWEB_HOSTS is not set" in run.stderr


@pytest.mark.slow
def test_a_console_without_an_https_address_stops_the_start() -> None:
    run = start(OLMWEB_CONSOLES="prod=http://console.example.com,test=https://console.example.com/")
    assert run.returncode == 1
    assert 'OLMWEB_CONSOLES has "prod=http://console.example.com"' in run.stderr
    assert "test=" not in run.stderr


def test_every_setting_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in settings.env.names if f"`{name}`" not in readme]
    assert not missing
