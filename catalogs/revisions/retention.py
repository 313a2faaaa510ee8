"""Forgetting old revisions of catalogs: with them go their changes and what packages were then.

Knows rows; when it runs and how long things are kept is its caller's.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from catalogs.models import Catalog, CatalogChange, CatalogRevision, PackageOutline

BATCH = 1000


def prune(limit: datetime) -> dict[str, int]:
    """Deletes the revisions that had been superseded before `limit`; returns how many rows.

    The one that was current at `limit` stays, however old: without it nobody could tell what
    changed since then. So a catalog's current revision always stays.
    """
    deleted = {"revisions": 0, "outlines": 0}
    for catalog in Catalog.objects.filter(revision__gt=1).only("id"):
        revisions = CatalogRevision.objects.filter(catalog=catalog)
        kept = revisions.filter(created_at__lt=limit).order_by("-number").first()
        if kept is None:
            continue
        old = revisions.filter(number__lt=kept.number)
        sum(_delete(CatalogChange.objects.filter(revision__in=old)))
        deleted["revisions"] += sum(_delete(old))
        outlines = PackageOutline.objects.filter(catalog=catalog, last__lt=kept.number)
        deleted["outlines"] += sum(_delete(outlines))
    return deleted


def _delete(rows: QuerySet[Any]) -> Iterator[int]:
    """In small transactions: whoever writes meanwhile waits only for one."""
    manager = rows.model._default_manager
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        manager.filter(pk__in=ids).delete()
        yield len(ids)
