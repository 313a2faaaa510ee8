"""The real components as pytest fixtures; tests that ask for them carry the marker `peers`."""

from collections.abc import Iterator

import pytest

from tests.conftest import need
from tests.peers import servers
from tests.peers.build import binary


@pytest.fixture(scope="session")
def real_etcd() -> Iterator[servers.Etcd]:
    """One etcd for the run. Every API server on it has a prefix of its own."""
    need("apiserver", all(binary(name) for name in ("etcd", "kube-apiserver")))
    with servers.etcd() as running:
        yield running


@pytest.fixture(scope="session")
def apiserver(real_etcd: servers.Etcd) -> Iterator[servers.ApiServer]:
    """An API server for the whole run, with the CRDs of every kind that OLM Web reads.

    Shared: a test uses names and namespaces of its own and leaves the server running.
    """
    with servers.apiserver(real_etcd, audit_log=True) as running:
        servers.apply_crds(running)
        yield running


@pytest.fixture
def fresh_apiserver(real_etcd: servers.Etcd) -> Iterator[servers.ApiServer]:
    """An API server of the test's own, empty, without CRDs: it may be killed and started again."""
    with servers.apiserver(real_etcd, audit_log=True) as running:
        yield running
