from collections.abc import Iterator
from pathlib import Path

import pytest

from olmweb.kube.client import KubeClient
from olmweb.kube.session import open_client
from tests.kubefake import KubeFake


@pytest.fixture
def fake() -> Iterator[KubeFake]:
    with KubeFake() as running:
        yield running


@pytest.fixture
def client(fake: KubeFake, tmp_path: Path) -> Iterator[KubeClient]:
    kubeconfig = fake.write_kubeconfig(tmp_path / "kubeconfig")
    with open_client("prod", str(kubeconfig), timeout=(1, 0.5)) as opened:
        yield opened
