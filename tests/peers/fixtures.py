"""The real components as pytest fixtures; tests that ask for them carry the marker `peers`."""

import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import need
from tests.peers import servers
from tests.peers.build import binary

BINARIES = {
    "apiserver": ("etcd", "kube-apiserver"),
    "opm": ("opm",),
    "olm": ("olm", "catalog"),
    "catalogd": ("catalogd",),
    "helm": ("helm", "kubeconform", "routes.yaml"),
}


def built(component: str) -> bool:
    """Whether a component of HOW_TO_GET is there, with what it needs from the system."""
    there = all(binary(name) for name in BINARIES[component])
    return there and (component != "catalogd" or shutil.which("docker-registry") is not None)


@pytest.fixture(scope="session")
def real_etcd() -> Iterator[servers.Etcd]:
    """One etcd for the run. Every API server on it has a prefix of its own."""
    need("apiserver", built("apiserver"))
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


@pytest.fixture(scope="session")
def opm_is_built() -> None:
    need("opm", built("opm"))


@pytest.fixture(scope="session")
def olm_is_built(opm_is_built: None) -> None:
    need("olm", built("olm"))


@pytest.fixture(scope="session")
def catalogd_is_built() -> None:
    need("catalogd", built("catalogd"))


@pytest.fixture
def fresh_apiserver(real_etcd: servers.Etcd) -> Iterator[servers.ApiServer]:
    """An API server of the test's own, empty, without CRDs: it may be killed and started again."""
    with servers.apiserver(real_etcd, audit_log=True) as running:
        yield running
