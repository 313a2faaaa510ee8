"""OLMWEB_OIDC_*: each wrong setting is one sentence at the start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from olmweb.accounts.oidc_settings import ROLE_NAMES, OidcSettings, read_oidc
from olmweb.accounts.roles import ROLES
from olmweb.runtime.env import Env, EnvError
from tests.conftest import ROOT

GOOD = {
    "ISSUER": "https://idp.example/realms/a",
    "CLIENT_ID": "olmweb",
    "CLIENT_SECRET": "secret",
    "ROLES": "sre=operator",
}


def read(**changed: str) -> OidcSettings | None:
    given = {f"OLMWEB_OIDC_{name}": value for name, value in {**GOOD, **changed}.items()}
    env = Env(given, "OLMWEB_", ignore="OLMWEB_TEST_")
    result = read_oidc(env)
    env.finish()
    return result


def test_the_names_of_roles_are_those_of_the_table() -> None:
    assert tuple(role.name for role in ROLES) == ROLE_NAMES


def test_without_an_issuer_it_is_off() -> None:
    env = Env({}, "OLMWEB_", ignore="OLMWEB_TEST_")
    assert read_oidc(env) is None
    env.finish()


def test_groups_may_hold_equals_signs_and_stand_for_themselves() -> None:
    result = read(ROLES="cn=sre;dc=x=operator, boss=admin", CLUSTER_GROUPS="sre, boss=cluster-boss")
    assert result is not None
    assert result.roles == {"cn=sre;dc=x": "operator", "boss": "admin"}
    assert result.cluster_groups == {"sre": "sre", "boss": "cluster-boss"}
    assert result.default_role == ""


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ISSUER": "idp.example"}, "OLMWEB_OIDC_ISSUER is"),
        ({"ISSUER": "http://idp.example"}, "OLMWEB_OIDC_ISSUER is"),
        ({"ISSUER": "https://idp.example/?a=b"}, "OLMWEB_OIDC_ISSUER is"),
        ({"ISSUER": ""}, "OLMWEB_OIDC_ISSUER is not set"),
        ({"CLIENT_ID": ""}, "OLMWEB_OIDC_CLIENT_ID is not set"),
        ({"CLIENT_SECRET": ""}, "OLMWEB_OIDC_CLIENT_SECRET is not set"),
        ({"ROLES": "sre=boss"}, 'the role "boss"; the roles are viewer, operator, admin'),
        ({"ROLES": ""}, "nobody could sign in"),
        ({"DEFAULT_ROLE": "admin"}, "one of none, viewer, operator"),
        ({"SCOPES": "profile"}, 'must name "openid"'),
        ({"USERNAME_CLAIM": ""}, "OLMWEB_OIDC_USERNAME_CLAIM is empty"),
        ({"CLUSTER_GROUPS": "sre=system:masters"}, "system:masters"),
        ({"USERNAME_PREFIX": "system:"}, "OLMWEB_OIDC_USERNAME_PREFIX"),
    ],
)
def test_a_wrong_setting_is_one_sentence(changed: dict[str, str], sentence: str) -> None:
    with pytest.raises(EnvError) as caught:
        read(**changed)
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_the_check_command_stops_with_that_sentence(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s\n")
    environment = {
        **os.environ,
        "OLMWEB_DATA_DIR": str(tmp_path),
        "OLMWEB_OIDC_ISSUER": "https://idp.example",
        "OLMWEB_OIDC_CLIENT_SECRET_FILE": str(secret),
        "OLMWEB_OIDC_ROLES": "sre=operator",
    }
    command = [sys.executable, "manage.py", "check"]
    wrong = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "OLMWEB_OIDC_CLIENT_ID is not set" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    environment["OLMWEB_OIDC_CLIENT_ID"] = "olmweb"
    right = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert right.returncode == 0, "the provider is not asked at the start"


def test_no_local_sign_in_without_a_provider_stops_the_start(tmp_path: Path) -> None:
    environment = {
        **os.environ, "OLMWEB_DATA_DIR": str(tmp_path), "OLMWEB_LOCAL_SIGN_IN": "false",
    }  # fmt: skip
    command = [sys.executable, "manage.py", "check"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "OLMWEB_LOCAL_SIGN_IN is false but OLMWEB_OIDC_ISSUER is not set" in answer.stderr
