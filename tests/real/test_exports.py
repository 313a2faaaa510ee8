"""Every exported object is taken by a real API server, tried without being kept."""

import io
import zipfile
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from django.test import Client

from catalogs.models import Catalog
from tests.factories import make_catalog, make_package
from tests.peers import servers

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
TRIED = "&dryRun=All&fieldValidation=Strict"
PACKAGES = ("grafana", 'x"\n: ][*&!', "a.b-c", "yes", "0x1F")
CHOICES = (
    "method=PlatformOperator",
    "method=ClusterExtension&service_account=installer",
    "method=ClusterExtension&service_account=installer&channel=stable&version=<2.0.0",
    "method=Subscription",
    "method=Subscription&targets=one,two&approval=Automatic",
)


@pytest.fixture
def reader(client: Client, bob: Any) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def catalog(db: None) -> Catalog:
    kind = Catalog.SourceKind.CATALOG_SOURCE
    return make_catalog(name="community", source_kind=kind, namespace="marketplace")


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("package", PACKAGES)
def test_an_exported_folder_passes_a_strict_dry_run_as_a_whole(
    apiserver: servers.ApiServer, reader: Client, catalog: Catalog, package: str, choice: str
) -> None:
    make_package(name=package, catalog=catalog, channels={"stable": ("1.0.0", "1.1.0+7")})
    namespace = "exported"
    apiserver.admin.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    answer = reader.get(
        f"/api/v1/packages/-/{catalog.slug}/{quote(package, safe='')}/export?format=kustomize"
        f"&name=exported-one&namespace={namespace}&{choice}"
    )
    if "ClusterExtension" in choice and package not in ("grafana", "a.b-c", "yes"):
        # Its CRD takes names of DNS only, as this server says, too: told before it is exported.
        assert (answer.status_code, list(answer.json()["error"]["fields"])) == (400, ["package"])
        return
    assert answer.status_code == 200, answer.content
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        listed = yaml.safe_load(archive.read("exported-one/kustomization.yaml"))["resources"]
        objects = [yaml.safe_load(archive.read(f"exported-one/{name}")) for name in listed]
    for one in objects:
        kept = apiserver.admin.apply(one, TRIED)
        assert kept["metadata"]["name"] == one["metadata"]["name"]
    assert objects[-1]["kind"] == choice.partition("&")[0].removeprefix("method=")
