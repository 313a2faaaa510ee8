"""Real OLM v0 as a pytest fixture; tests that ask for it carry the marker `peers`."""

from collections.abc import Iterator

import pytest

from tests.peers import servers
from tests.real.world import World, world


@pytest.fixture(scope="module")
def olm(real_etcd: servers.Etcd, olm_is_built: None) -> Iterator[World]:
    """Real OLM v0 for the tests of one file; each takes a namespace of its own on it.

    Not for the whole run: what stories leave unresolved keeps OLM busy until its end.
    """
    with world(real_etcd) as running:
        yield running
