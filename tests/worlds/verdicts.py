"""What predictions are made of: a package's blobs, and a cluster whose CRDs are watched."""

import base64
import json
from pathlib import Path
from typing import Any

from catalogs.models import Bundle, Catalog
from catalogs.sync.catalog import sync_catalog
from installs.models import ClusterInventory
from olmweb.models import Cluster
from tests.factories import make_cluster, make_watch
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, package_blob
from tests.worlds.syncing import make


def package_blobs(name: str, *versions: str, **csv_fields: Any) -> list[dict[str, Any]]:
    metadata = csv_metadata(**{"apiServiceDefinitions": {}} | csv_fields)
    names = [f"{name}.v{each}" for each in versions]
    entries = [
        {"name": each, **({"replaces": names[i - 1]} if i else {})} for i, each in enumerate(names)
    ]
    return [
        package_blob(name),
        channel_blob(name, "stable", entries),
        *(bundle_blob(each, name, csv=metadata) for each in versions),
    ]


def bundle_called(name: str) -> Bundle:
    return Bundle.objects.get(name=name)


def judged_cluster(version: str = "v1.30.0") -> Cluster:
    cluster = make_cluster(version=version)
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    return cluster


def read_cluster(version: str = "v1.30.0") -> Cluster:
    """A cluster of which every fact was read: it is empty."""
    cluster = judged_cluster(version)
    facts: dict[str, Any] = {"namespaces": [], "roles": {}, "shared": {}, "foreign_apis": []}
    ClusterInventory.objects.create(cluster=cluster, kinds=["apps/v1/Deployment"], **facts)
    return cluster


def bundle_object(manifest: dict[str, Any]) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(manifest).encode()).decode()
    return {"type": "olm.bundle.object", "value": {"data": data}}


def monitored_catalog(tmp_path: Path) -> Catalog:
    """The package m, which ships a ServiceMonitor."""
    csv = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "m.v1.0.0"},
        "spec": {"installModes": [{"type": "AllNamespaces", "supported": True}]},
    }
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "m"},
    }
    blob = bundle_blob("1.0.0", "m", csv=bundle_object(csv), properties=[bundle_object(monitor)])
    catalog = make(
        tmp_path, [package_blob("m"), channel_blob("m", "stable", [{"name": "m.v1.0.0"}]), blob]
    )
    sync_catalog(catalog)
    return catalog
