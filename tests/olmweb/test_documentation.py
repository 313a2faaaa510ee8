"""docs/operations.md, docs/metrics.md and docs/security.md name what exists."""

import re
from importlib import import_module

import yaml

from tests.conftest import ROOT

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_limit_names_a_constant_that_exists() -> None:
    names = set(re.findall(r"`((?:olmweb|catalogs|installs)\.[a-z_.]+)\.([A-Z_]+)`", SECURITY))
    assert len(names) > 30
    missing = [name for name in sorted(names) if not hasattr(import_module(name[0]), name[1])]
    assert not missing


def test_every_alert_has_a_line_when_it_fires_and_one_what_to_do() -> None:
    path = ROOT / "deploy" / "helm" / "olmweb" / "files" / "alerts.yaml"
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert alerts == set(re.findall(r"`(Olmweb\w+)`", OPERATIONS))
    assert alerts == set(re.findall(r"`(Olmweb\w+)`", METRICS))
