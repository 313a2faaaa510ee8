"""compose.yaml as an engine resolves it, for the services that run OLM Web."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

Service = dict[str, Any]
EXAMPLE = ROOT / "deploy" / "olmweb.env.example"
SECRETS = "/run/secrets/"


def compose() -> dict[str, Any]:
    """The file, with its anchors and merges applied."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return read


def app_services() -> dict[str, Service]:
    """The services that run OLM Web's image, by name."""
    services = compose()["services"]
    return {name: service for name, service in services.items() if service["image"] == "olmweb"}


def environment(service: Service, env_file: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service: the lines of its `environment` win over those of the file."""
    assert service["env_file"] == "deploy/olmweb.env"
    return {**env_file, **service["environment"]}


def read_env_file(path: Path, *, commented: bool = False) -> dict[str, str]:
    """NAME=value lines of an env file; with `commented`, those that a `#` turns off, too."""
    pattern = r"^#?([A-Z_]+)=(.*)$" if commented else r"^([A-Z_]+)=(.*)$"
    return dict(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))


def image_command() -> list[str]:
    """CMD of the Dockerfile, which services without `command` run."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    command: list[str] = yaml.safe_load(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[-1])
    return command
