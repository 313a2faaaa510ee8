"""The schemas of CRDs that a real API server has, read with the rights that are shipped."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.contents.crd_upgrade import crd_upgrade, is_too_deep
from catalogs.models import BundleGVK
from installs.facts.crd_schemas import refresh_schemas, schemas_of
from installs.models import CRDSchema
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from tests.factories import make_catalog, make_cluster, make_component, make_package
from tests.installs.views.test_crd_safety import nested, ship
from tests.peers import servers
from tests.peers.client import ApiRefused, wait_until
from tests.real.rights import ship_rights
from tests.real.test_crd_upgrade import crd, installed
from tests.worlds.html import assert_page

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


NUMBER = {"type": "integer"}
GROUP = "crdsafety.example.com"
LEFTOVERS = f"/apis/{GROUP}/v1/namespaces/default/leftovers"


def write(server: servers.ApiServer, name: str, **spec: int) -> str:
    """Why the server refuses a new object, or ""."""
    meta = {"apiVersion": f"{GROUP}/v1", "kind": "Leftovers", "metadata": {"name": name}}
    try:
        server.admin.call("POST", f"{LEFTOVERS}?dryRun=All", meta | {"spec": spec})
    except ApiRefused as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("size", "finding", "refused"),
    [
        (NUMBER | {"maximum": 2}, "maximum is 2 now; there was none.", True),
        ({"type": "string"}, "The type was integer, now string.", True),
        ({"type": "number"}, "The type was integer, now number.", False),
        (NUMBER | {"description": "Litres."}, "", False),
    ],
    ids=["maximum", "other-type", "wider-type", "description"],
)
def test_an_install_over_a_leftover_crd_breaks_old_objects_only_if_the_form_warned(
    apiserver: servers.ApiServer,
    tmp_path: Path,
    settings: Any,
    client: Client,
    olivia: User,
    size: dict[str, Any],
    finding: str,
    refused: bool,
) -> None:
    servers.apply_crds(apiserver)
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=ship_rights(apiserver, tmp_path / "kubeconfig"))
    leftover = crd("leftovers", **NUMBER)
    leftover["metadata"]["labels"] = {"operators.coreos.com/teapot.tea": ""}
    installed(apiserver, leftover)
    wait_until(lambda: not write(apiserver, "old", size=3), "the leftover CRD being served")

    assert sync_cluster(cluster).error == ""
    with client_for(cluster) as connection:
        refresh_schemas(cluster, connection)
    catalog = make_catalog(name="tea", cluster=cluster)
    make_component(cluster=cluster, kind="CatalogSource", name="tea", namespace="tea")
    package = make_package(name="kettle", catalog=catalog, channels={"stable": ("1.0.0",)})
    kind = {"group": GROUP, "version": "v1", "kind": "Leftovers"}
    BundleGVK.objects.create(bundle=package.bundles.get(), required=False, **kind)
    new = crd("leftovers", **size)
    [version] = new["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["added"] = NUMBER | {"maximum": 1}
    ship("1.0.0", new)
    client.force_login(olivia)
    form = client.get("/software/real/tea/kettle/install", {"path": "Subscription"})
    text = assert_page(form).text
    assert "left over from the Subscription of package teapot in namespace tea" in text
    assert finding in text
    assert ("^.spec" in text) == bool(finding)
    warning = "OLM refuses to install kettle.v1.0.0 over the CRDs of real if an existing object"
    assert (warning in text) == refused

    installed(apiserver, new)
    wait_until(lambda: "added" in write(apiserver, "probe", added=2), "the new schema being served")
    assert bool(write(apiserver, "old", size=3)) == refused
    apiserver.admin.delete(new)


def test_a_crd_that_is_nested_too_deep_hides_none_behind_it(
    fresh_apiserver: servers.ApiServer, tmp_path: Path, settings: Any
) -> None:
    server = fresh_apiserver
    servers.apply_crds(server)
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=ship_rights(server, tmp_path / "kubeconfig"))
    labels = {f"{OWNER}-kind": "ClusterExtension", f"{OWNER}-name": "kettle"}
    for plural, size in (("anvils", nested(460)), ("kettles", NUMBER)):
        manifest = crd(plural, **size)
        manifest["metadata"]["labels"] = labels
        server.admin.create(manifest)
    with client_for(cluster) as client:

        def refresh() -> int:
            assert sync_cluster(cluster).error == ""
            return refresh_schemas(cluster, client)

        assert refresh() == 2
        wait_until(lambda: refresh() == 0, "no request once the API server has set both statuses")
    names = ["anvils.crdsafety.example.com", "kettles.crdsafety.example.com"]
    stored = schemas_of(cluster, names)
    assert [is_too_deep(stored[name]) for name in names] == [True, False]
