"""The schemas of CRDs as a cluster has them, which the watches of CRDs skip.

A worker reads one CRD at a time, and only one whose resourceVersion is another than that of its
stored schema: those that belong to an operator, define a kind that a known package provides, or are
in an inspected image of a bundle.
"""

import json
import zlib
from collections.abc import Collection

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from catalogs.contents.crd_upgrade import bounded
from catalogs.models import BundleGVK, InspectedCRD
from installs.models import CRDSchema, CRDState
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Broken, Forbidden, NotFound
from olmweb.kube.fields import Object, dig, items
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from olmweb.models import Cluster

MOST = 500  # CRDs of a cluster; those of operators come first
PER_READING = 100  # requests; the others follow in the next readings
_OF_VERSION = ("name", "served", "storage", "schema")


def refresh_schemas(cluster: Cluster, client: KubeClient) -> int:
    """Reads the CRDs that changed; returns the number of requests. Stops where CRDs may not be
    read. Raises Unreachable and Unauthorized."""
    wanted = dict(_wanted(cluster).values_list("name", "resource_version")[:MOST])
    rows = CRDSchema.objects.filter(cluster=cluster).order_by("name")
    stored = dict(rows.values_list("name", "resource_version"))
    if obsolete := stored.keys() - wanted.keys():
        rows.filter(name__in=obsolete).delete()
    changed = [name for name, version in wanted.items() if stored.get(name) != version]
    for number, name in enumerate(changed[:PER_READING], start=1):
        try:
            crd = client.get(CRDS, CRDS.versions[0], name)
        except (Broken, NotFound):  # one that can't be decoded must not hide those behind it
            continue
        except Forbidden:
            return number
        store(cluster, name, crd)
    return len(changed[:PER_READING])


def schemas_of(cluster: Cluster, names: Collection[str]) -> dict[str, Object]:
    """The stored CRDs of these names, with the parts that catalogs.contents.crd_upgrade compares.
    One query."""
    rows = CRDSchema.objects.filter(cluster=cluster, name__in=names)
    return {name: read_content(content) for name, content in rows.values_list("name", "content")}


def read_content(content: bytes | memoryview) -> Object:
    """The CRD in the `content` of a CRDSchema."""
    crd: Object = json.loads(zlib.decompress(content))
    return crd


def _wanted(cluster: Cluster) -> QuerySet[CRDState]:
    provided = BundleGVK.objects.filter(
        required=False, group=OuterRef("group"), kind=OuterRef("served_kind")
    )
    inspected = InspectedCRD.objects.filter(name=OuterRef("name"))
    owned = ~Q(owner_name="")
    wanted = owned | Exists(provided) | Exists(inspected)
    rows = CRDState.objects.filter(Q(cluster=cluster) & wanted)
    first = Case(When(owned, then=Value(True)), default=False, output_field=BooleanField())
    return rows.alias(first=first).order_by("-first", "name")


def store(cluster: Cluster, name: str, crd: Object) -> None:
    """Writes the content only if it is another: a status, too, changes the resourceVersion."""
    crd = bounded(crd)
    compared = {
        "metadata": {"name": name},
        "spec": {
            "scope": dig(crd, "spec", "scope"),
            "conversion": {"strategy": dig(crd, "spec", "conversion", "strategy")},
            "versions": [
                {field: version[field] for field in _OF_VERSION if field in version}
                for version in items(crd, "spec", "versions")
            ],
        },
    }
    content = zlib.compress(json.dumps(compared, sort_keys=True).encode())
    version = str(dig(crd, "metadata", "resourceVersion") or "")[:64]
    row = CRDSchema.objects.filter(cluster=cluster, name=name).first()
    if row is not None and bytes(row.content) == content:
        CRDSchema.objects.filter(pk=row.pk).update(resource_version=version)
        return
    CRDSchema.objects.update_or_create(
        cluster=cluster,
        name=name,
        defaults={"resource_version": version, "content": content, "read_at": timezone.now()},
    )
