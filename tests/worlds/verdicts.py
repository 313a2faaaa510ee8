"""What predictions are made of: a package's blobs, and a cluster whose CRDs are watched."""

from typing import Any

from catalogs.models import Bundle
from olmweb.models import Cluster
from tests.factories import make_cluster, make_stream
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, package_blob


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
    make_stream(cluster=cluster, kind="CustomResourceDefinition", feed="CustomResourceDefinition")
    return cluster
