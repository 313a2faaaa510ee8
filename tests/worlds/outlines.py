"""Outlines written without a sync, for tests of what is made of them."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from django.utils import timezone

from catalogs.fbc.bundle import ParsedBundle
from catalogs.graph import GraphEntry
from catalogs.models import Catalog, CatalogRevision, PackageOutline
from catalogs.revisions.outline import Outline, bundle_outline, channel_outline, encode


def outline(name: str, versions: Sequence[str], channel: str = "stable", **facts: Any) -> Outline:
    """A package of one channel in which each version replaces the one before. With `facts` of its
    bundles, their blobs differ from those of other facts."""
    names = [f"{name}.v{version}" for version in versions]
    entries = [GraphEntry(one, before) for one, before in zip(names, ["", *names], strict=False)]
    blank: dict[str, Any] = dict.fromkeys(ParsedBundle._fields, "")
    blank |= {"install_modes": [], "required_packages": [], "gvks": [], "images": []} | facts
    blob = sha256(repr(facts).encode()).hexdigest() if facts else ""
    return Outline(
        default_channel=channel,
        channels={channel: channel_outline(names[-1], entries)},
        bundles={
            one: bundle_outline(ParsedBundle(**{**blank, "name": one, "version": version}), blob)
            for one, version in zip(names, versions, strict=True)
        },
    )


def write_packages(catalog: Catalog, packages: Mapping[str, Sequence[str]], **facts: Any) -> None:
    """One more revision of `catalog`, its packages given as name to versions; tells no changes.
    `facts` are fields of all bundles."""
    catalog.revision += 1
    catalog.save()
    CatalogRevision.objects.create(
        catalog=catalog, number=catalog.revision, content_hash="h", created_at=timezone.now()
    )
    PackageOutline.objects.filter(catalog=catalog, last=None).update(last=catalog.revision - 1)
    rows = []
    for name, versions in packages.items():
        content_hash, data = encode(outline(name, versions, **facts))
        rows.append(
            PackageOutline(
                catalog=catalog, package=name, first=catalog.revision,
                content_hash=content_hash, data=data,
            )
        )  # fmt: skip
    PackageOutline.objects.bulk_create(rows)
