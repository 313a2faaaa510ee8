"""The schemas of CRDs as a cluster has them: which are read, when, and what is written."""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalogs.contents import stored
from catalogs.contents.crd_upgrade import crd_upgrade, is_too_deep
from catalogs.contents.objects import Packed
from catalogs.models import InspectedCRD
from installs import tasks
from installs.facts import crd_schemas
from installs.facts.crd_schemas import refresh_schemas, schemas_of
from installs.models import CRDSchema, CRDState
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from olmweb.kube.client import KubeClient
from olmweb.kube.decode import decoded
from olmweb.kube.errors import Broken, Forbidden
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_cluster

pytestmark = pytest.mark.django_db
KIND = "CustomResourceDefinition"


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    cluster = make_cluster(name="prod", context="sandbox")
    sync_cluster(cluster)
    return cluster


@pytest.fixture
def client(prod: Cluster) -> Iterator[KubeClient]:
    with client_for(prod) as opened:
        yield opened


def owned(cluster: Cluster) -> list[str]:
    rows = CRDState.objects.filter(cluster=cluster).exclude(owner_name="")
    return list(rows.order_by("name").values_list("name", flat=True))


def change(sandbox: Sandbox, name: str, **fields: Any) -> None:
    crd = sandbox.store.get(KIND, name, "")
    assert crd is not None
    with sandbox.store.changed:
        sandbox.store.put({**crd, **fields})


def writes(queries: CaptureQueriesContext) -> list[str]:
    return [row["sql"] for row in queries if row["sql"].split()[0] in ("INSERT", "UPDATE")]


def test_only_crds_of_operators_and_known_packages_are_read_and_only_once(
    prod: Cluster, client: KubeClient
) -> None:
    names = owned(prod)
    assert 0 < len(names) < CRDState.objects.filter(cluster=prod).count()
    before = client.requests
    assert refresh_schemas(prod, client) == client.requests - before == len(names)
    assert list(CRDSchema.objects.order_by("name").values_list("name", flat=True)) == names
    with CaptureQueriesContext(connection) as queries:
        assert refresh_schemas(prod, client) == 0
    assert len(queries) == 2
    assert writes(queries) == []


def test_a_crd_of_an_inspected_image_is_read_without_an_owner(
    prod: Cluster, client: KubeClient
) -> None:
    name = CRDState.objects.filter(cluster=prod, owner_name="").order_by("name")[0].name
    manifest = {"apiVersion": "apiextensions.k8s.io/v1", "kind": KIND, "metadata": {"name": name}}
    too_long = {**manifest, "metadata": {"name": "x" * 254}}
    objects = [manifest, manifest, too_long, {**manifest, "apiVersion": "v1"}]
    packed = Packed([msgspec.Raw(json.dumps(item).encode()) for item in objects])
    for _ in range(2):
        manifests = stored.save("sha256:1", packed)
    assert list(InspectedCRD.objects.values_list("name", flat=True)) == [name]
    refresh_schemas(prod, client)
    assert CRDSchema.objects.filter(name=name).exists()
    # As an upgrade of the database does for images that were inspected before it.
    InspectedCRD.objects.all().delete()
    migration = import_module("catalogs.migrations.0010_inspected_crd")
    migration.add_names(apps, None)
    assert [crd.name for crd in manifests.crds.all()] == [name]
    manifests.delete()
    assert not InspectedCRD.objects.exists()
    refresh_schemas(prod, client)
    assert not CRDSchema.objects.filter(name=name).exists()


def test_a_changed_crd_is_read_again_and_written_only_if_its_schema_changed(
    prod: Cluster, client: KubeClient, sandbox: Sandbox
) -> None:
    refresh_schemas(prod, client)
    name = owned(prod)[0]
    read_at = CRDSchema.objects.get(name=name).read_at
    crd = sandbox.store.get(KIND, name, "")
    assert crd is not None
    change(sandbox, name, status={**crd["status"], "storedVersions": ["v0"]})
    sync_cluster(prod)
    assert refresh_schemas(prod, client) == 1
    assert CRDSchema.objects.get(name=name).read_at == read_at

    versions = crd["spec"]["versions"]
    schema = {"openAPIV3Schema": {"type": "object", "maxProperties": 3}}
    spec = {**crd["spec"], "versions": [{**versions[0], "schema": schema}]}
    change(sandbox, name, spec=spec)
    sync_cluster(prod)
    assert refresh_schemas(prod, client) == 1
    assert CRDSchema.objects.get(name=name).read_at > read_at
    (version,) = schemas_of(prod, [name])[name]["spec"]["versions"]
    assert version["schema"] == schema
    assert refresh_schemas(prod, client) == 0


def test_a_crd_that_is_gone_takes_its_schema_along(
    prod: Cluster, client: KubeClient, sandbox: Sandbox
) -> None:
    refresh_schemas(prod, client)
    name = owned(prod)[0]
    with sandbox.store.changed:
        sandbox.store.delete(KIND, name, "")
    sync_cluster(prod)
    assert refresh_schemas(prod, client) == 0
    assert not CRDSchema.objects.filter(name=name).exists()


def test_a_reading_is_bounded_and_ends_where_crds_may_not_be_read(
    prod: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crd_schemas, "PER_READING", 1)
    assert refresh_schemas(prod, client) == 1
    assert CRDSchema.objects.count() == 1
    monkeypatch.setattr(crd_schemas, "PER_READING", 50)
    monkeypatch.setattr(client, "get", Mock(side_effect=Forbidden("no")))
    assert refresh_schemas(prod, client) == 1
    assert CRDSchema.objects.count() == 1


def test_a_crd_that_cannot_be_decoded_hides_none_behind_it(
    prod: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = owned(prod)
    get = client.get

    def answer(resource: Any, version: str, name: str) -> Any:
        if name == first:
            raise Broken("not JSON")
        return get(resource, version, name)

    monkeypatch.setattr(client, "get", answer)
    assert refresh_schemas(prod, client) == 1 + len(others)
    assert list(CRDSchema.objects.order_by("name").values_list("name", flat=True)) == others


@pytest.mark.parametrize("levels", [60, 400, 480, 900, 4_900])
def test_a_crd_that_is_nested_too_deep_is_stored_as_deep_as_it_is_compared(
    prod: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    """With the JSON of an API server, which accepts 10,000 levels."""
    name, *others = owned(prod)
    crd = client.get(CRDS, "v1", name)
    leaf = '{"type": "integer"}'
    schema = '{"properties":{"a":' * levels + leaf + "}}" * levels
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": "SCHEMA"}
    document = json.dumps(crd).replace('"SCHEMA"', schema).encode()
    get = client.get

    def answer(resource: Any, version: str, crd: str) -> Any:
        if crd == name:
            return decoded(msgspec.json.decode, document)
        return get(resource, version, crd)

    monkeypatch.setattr(client, "get", answer)
    assert refresh_schemas(prod, client) == 1 + len(others)
    assert refresh_schemas(prod, client) == 0
    stored = schemas_of(prod, [name])[name]
    assert is_too_deep(stored)
    assert json.dumps(stored).count("properties") < 50 * len(stored["spec"]["versions"])
    assert crd_upgrade(stored, stored) == ()


def test_the_worker_reads_schemas_after_the_other_facts(prod: Cluster) -> None:
    tasks.read_inventory(prod.pk)
    assert CRDSchema.objects.filter(cluster=prod).count() == len(owned(prod))
