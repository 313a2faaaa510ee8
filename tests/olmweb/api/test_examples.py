"""The examples of docs/api.md that read, run with curl against a web server."""

import csv
import io
import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from tests.worlds.examples import example, run
from tests.worlds.rest import World


def test_status_is_written_into_a_spreadsheet(
    world: World, server: str, bob: User, tmp_path: Path
) -> None:
    run(example("Status into a spreadsheet"), server, bob, tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "operators.csv").read_text())))
    assert {row["name"] for row in rows} == {"argocd", "etcd", "grafana", "old"}
    assert [*rows[0]] == ["cluster", "namespace", "name", "kind", "version", "health", "reason"]


@pytest.mark.parametrize(
    ("since", "names"), [("2001-01-01", {"etcd", "grafana"}), ("2999-01-01", set())]
)
def test_new_failures_come_with_their_cause(
    world: World, server: str, bob: User, tmp_path: Path, since: str, names: set[str]
) -> None:
    output = run(example("Alert on new failures"), server, bob, tmp_path, SINCE=since)
    rows = [json.loads(line) for line in output.splitlines()]
    assert {row["name"] for row in rows} == names
    assert all(row["finding"]["remedy"] for row in rows if row["name"] == "etcd")


def test_events_are_followed_from_an_id(
    world: World, server: str, bob: User, tmp_path: Path
) -> None:
    first = json.loads(run(example("Follow events"), server, bob, tmp_path, AFTER="0"))["items"]
    last = first[-1]["id"] if first else 0
    rest = json.loads(run(example("Follow events"), server, bob, tmp_path, AFTER=str(last)))
    assert rest["items"] == []
