"""The schemas of CRDs that a real API server has, read with the rights that are shipped."""

from pathlib import Path
from typing import Any

import pytest

from catalogs.contents.crd_upgrade import crd_upgrade
from installs.facts.crd_schemas import refresh_schemas, schemas_of
from installs.models import CRDSchema
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from tests.factories import make_cluster
from tests.peers import servers
from tests.real.rights import ship_rights
from tests.real.test_crd_upgrade import crd

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
OWNER = "olm.operatorframework.io/owner"
CRD = "apiextensions.k8s.io/v1"


def test_a_crd_changed_by_hand_is_read_again_and_compared_as_it_is(
    fresh_apiserver: servers.ApiServer, tmp_path: Path, settings: Any
) -> None:
    server = fresh_apiserver
    servers.apply_crds(server)
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=ship_rights(server, tmp_path / "kubeconfig"))
    bundled = crd("kettles", "v1", "v1beta1", type="integer", maximum=9, description="Litres.")
    name = bundled["metadata"]["name"]
    labels = {f"{OWNER}-kind": "ClusterExtension", f"{OWNER}-name": "kettle"}
    server.admin.create({**bundled, "metadata": {"name": name, "labels": labels}})
    foreign = crd("teapots")
    server.admin.create(foreign)

    assert sync_cluster(cluster).error == ""
    with client_for(cluster) as client:
        assert refresh_schemas(cluster, client) == 1
        assert CRDSchema.objects.get().name == name
        stored = schemas_of(cluster, [name])[name]
        assert crd_upgrade(stored, bundled) == (), "the API server adds nothing that counts"
        assert crd_upgrade(bundled, stored) == ()

        # The API server sets the status when it begins to serve the CRD: read again, not written.
        read_at = CRDSchema.objects.get().read_at
        assert sync_cluster(cluster).error == ""
        assert refresh_schemas(cluster, client) <= 1
        assert CRDSchema.objects.get().read_at == read_at

        by_hand = server.admin.get(CRD, "CustomResourceDefinition", name)
        for version in by_hand["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["spec"]["properties"]["size"]["maximum"] = 20
        server.admin.merge(by_hand, {"spec": {"versions": by_hand["spec"]["versions"]}})
        assert sync_cluster(cluster).error == ""
        assert refresh_schemas(cluster, client) == 1
        assert refresh_schemas(cluster, client) == 0
    findings = crd_upgrade(schemas_of(cluster, [name])[name], bundled)
    assert [(row.version, row.path, row.note) for row in findings] == [
        ("v1", "^.spec.size", "maximum was 20, now 9."),
        ("v1beta1", "^.spec.size", "maximum was 20, now 9."),
    ]
    server.admin.delete(by_hand)
