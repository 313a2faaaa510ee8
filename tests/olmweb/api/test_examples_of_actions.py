"""The examples of docs/api.md that act, run with curl against a web server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from installs.models import Action, InstallRequest
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_package
from tests.worlds.examples import example, run


@pytest.fixture
def sandbox(db: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    cluster = Sandbox(step_seconds=0.02)
    cluster.start()
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    make_package(catalog=make_catalog(cluster=make_cluster(context="sandbox")))
    yield cluster
    cluster.stop()


def test_a_pipeline_approves_a_request_that_waits(
    sandbox: Sandbox, server: str, bob: User, olivia: User, tmp_path: Path
) -> None:
    body = {"cluster": "prod", "package": "etcd", "version": "1.1.0", "reason": "Needed."}
    ask = (
        'curl -fsS -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" '
        '-d "$BODY" $OLMWEB/api/v1/requests'
    )
    asked = json.loads(run(ask, server, bob, tmp_path, BODY=json.dumps(body)))
    commands = example("Approve from a pipeline")
    output = run(commands, server, olivia, tmp_path, REQUEST=str(asked["id"]))
    listed, end = json.JSONDecoder().raw_decode(output)
    assert [item["id"] for item in listed["items"]] == [asked["id"]]
    assert json.loads(output[end:])["user"] == "olivia"
    assert InstallRequest.objects.get().state == "approved"


def test_an_install_is_asked_for_once_and_its_action_is_read(
    sandbox: Sandbox, server: str, olivia: User, tmp_path: Path
) -> None:
    commands = example("Install and wait")
    request = commands.partition('"$OLMWEB/api/v1/actions"\n')
    ask = request[0] + request[1]
    first = json.loads(run(ask, server, olivia, tmp_path, KEY="k"))
    assert json.loads(run(ask, server, olivia, tmp_path, KEY="k"))["id"] == first["id"]
    Action.objects.update(state="no_change", outcome="It is there.")
    read = json.loads(run(request[2], server, olivia, tmp_path, ACTION=str(first["id"])))
    assert (read["state"], read["outcome"]) == ("no-change", "It is there.")
