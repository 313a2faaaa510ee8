from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from olmweb.models import Cluster
from tests.kubefake import KubeFake


@pytest.fixture
def fake() -> Iterator[KubeFake]:
    with KubeFake() as running:
        yield running


@pytest.fixture
def cluster(fake: KubeFake, tmp_path: Path, settings: Any, db: None) -> Cluster:
    """A cluster of the settings, never read so far, that is the fake."""
    settings.KUBECONFIG = str(fake.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.CLUSTERS = ["prod"]
    return Cluster.objects.create(name="prod", context="prod")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """What each pass hands to catalogs.sync.catalog, whose own tests see to the rest."""
    passes: list[list[dict[str, Any]]] = []

    def record(_: Cluster, given: Iterable[Any], only: Any = None) -> int:
        objects = list(given)
        is_same = bool(passes) and passes[-1] == objects
        passes.append(objects)
        return 0 if is_same else len(objects)

    monkeypatch.setattr("installs.state.write.record_cluster_catalogs", record)
    return passes
