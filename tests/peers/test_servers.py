"""The servers that other tests rely on: isolation, restarts, compaction, no process left behind."""

import pytest

from tests.peers import servers

pytestmark = pytest.mark.peers


def test_every_kind_that_is_read_is_served_with_its_status_subresource(apiserver) -> None:
    crds = apiserver.admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert {crd["metadata"]["name"] for crd in crds} >= {
        path.stem.removesuffix(".v1alpha1")
        for path in servers.CRDS.glob("*.yaml")
        if path.stem not in servers.NOT_BY_DEFAULT
    }
    assert all("status" in v["subresources"] for crd in crds for v in crd["spec"]["versions"])
