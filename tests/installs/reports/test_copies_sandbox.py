"""The report of copies of a cluster with many of them: the sandbox, over its socket."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installs import tasks
from installs.models import CopyReport
from installs.reports import copied_csvs
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox

OPERATORS, NAMESPACES = 3, 200


def csv(name: str, namespace: str, source: str = "", **labels: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    if source:
        meta["labels"]["olm.copiedFrom"] = source
    else:
        meta["annotations"] = {"olm.targetNamespaces": ""}
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": meta,
        "spec": {"description": "x" * 2000},
    }


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    running = Sandbox()
    with running.store.changed:
        for item in running.store.items("ClusterServiceVersion")[0]:  # the scenario's own
            meta = item["metadata"]
            running.store.delete(item["kind"], meta["name"], meta["namespace"])
        for number in range(OPERATORS):
            running.store.put(csv(f"op{number}.v1", "operators"))
            for namespace in range(NAMESPACES):
                running.store.put(csv(f"op{number}.v1", f"ns{namespace}", "operators"))
    running.start()
    yield running
    running.stop()


def test_six_hundred_copies_are_two_pages_of_metadata(
    sandbox: Sandbox, tmp_path: Path, settings: Any, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_csvs, "WATCH_SECONDS", 2)
    sandbox.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = Cluster.objects.create(name="sandbox", context="sandbox")
    report = CopyReport.objects.create(cluster=cluster)
    stop = threading.Event()

    def meddle() -> None:
        number = 0
        while not stop.wait(0.05):
            number += 1
            with sandbox.store.changed:
                sandbox.store.put(csv("op1.v1", "ns7", "operators", meddled=str(number)))

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        tasks.count_copies(report.pk)
    finally:
        stop.set()
        meddler.join()
    report.refresh_from_db()
    assert report.error_text == ""
    result = report.result
    assert (result["originals"], result["copies"]) == (OPERATORS, OPERATORS * NAMESPACES)
    assert result["namespaces_total"] == NAMESPACES
    assert {one["namespace"]: one["copies"] for one in result["namespaces"]}["ns7"] == OPERATORS
    updates = {one["name"]: one["updates"] for one in result["operators"]}
    assert updates["op1.v1"] == result["watch"]["modified"] > 10
    assert updates["op0.v1"] == 0
    assert result["bytes"] > OPERATORS * NAMESPACES * 2000
    assert 1.5 < result["watch"]["seconds"] < 4
    # Two pages, the originals, the watch, a copy of each operator, the setting.
    assert result["requests"] == 2 + 1 + 1 + OPERATORS + 1
