"""Real OLM v0 as a pytest fixture; tests that ask for it carry the marker `peers`."""

from collections.abc import Iterator

import pytest

from tests.peers import servers
from tests.real.world import World, world


@pytest.fixture(scope="session")
def olm(real_etcd: servers.Etcd, olm_is_built: None) -> Iterator[World]:
    """Real OLM v0 for the whole run; a test takes a namespace of its own on it."""
    with world(real_etcd) as running:
        yield running
