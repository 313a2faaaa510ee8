"""Tests of the Helm chart need helm and kubeconform, and some a real API server."""

import pytest

from tests.conftest import need
from tests.peers.fixtures import built


@pytest.fixture(autouse=True, scope="session")
def helm_is_built() -> None:
    need("helm", built("helm"))
