"""The alert rules and the dashboard, with promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, ci_values, named, of_kind, rendered
from tests.conftest import ROOT, need

pytestmark = pytest.mark.peers

ALERTS = CHART / "files" / "alerts.yaml"
TESTS = Path(__file__).with_name("alerts_test.yaml")


@pytest.fixture(autouse=True, scope="module")
def promtool_is_there() -> None:
    need("promtool", shutil.which("promtool") is not None)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[str]:
    """Expressions of the dashboard, with a value for its variable."""
    board = json.loads((CHART / "files" / "dashboard.json").read_text())
    return [
        target["expr"].replace("$cluster", "prod")
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def test_each_alert_fires_and_keeps_silent_when_it_should(tmp_path: Path) -> None:
    promtool("check", "rules", ALERTS)
    tests = yaml.safe_load(TESTS.read_text())
    copy = tmp_path / "tests.yaml"
    copy.write_text(yaml.safe_dump({**tests, "rule_files": [str(ALERTS)]}))
    promtool("test", "rules", copy)


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [
        case
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


def test_the_dashboards_queries_can_be_parsed(tmp_path: Path) -> None:
    recorded = [
        {"record": f"query:{number}", "expr": query} for number, query in enumerate(queries())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", file)


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    """docs/metrics.md is compared with /metrics by another test."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(olmweb_\w+)`", text, re.M))
    used = {
        re.sub(r"_seconds_(bucket|count|sum)$", "_seconds", name)  # of a histogram
        for expression in [*queries(), *(rule["expr"] for rule in rules())]
        for name in re.findall(r"\bolmweb_\w+", expression)
    }
    assert used <= documented
    assert len(used) > 15


def test_the_label_namespace_of_metrics_is_kept_and_its_other_name_is_grouped_by() -> None:
    monitor = of_kind(rendered(ci_values("everything")), "ServiceMonitor")[0]
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])
    expressions = [*queries(), *(rule["expr"] for rule in rules())]
    grouped = [part for text in expressions for part in re.findall(r"by \((.+?)\)", text)]
    with_namespace = [labels for labels in grouped if " namespace" in labels]
    assert len(with_namespace) == 6
    assert all("exported_namespace" in labels for labels in with_namespace)


def test_the_alerts_watch_the_job_of_the_services_name() -> None:
    objects = rendered(ci_values("everything"))
    rule = of_kind(objects, "PrometheusRule")[0]["spec"]
    assert 'up{job="olm-web-web"}' in json.dumps(rule).replace("\\", "")
    assert "olmweb-web" not in json.dumps(rule)
    assert len(rule["groups"][0]["rules"]) == len(rules())
    board = named(objects, "ConfigMap", "olm-web-dashboard")["data"]["olmweb.json"]
    assert json.loads(board)["title"] == "OLM Web"
