"""Rows of inspected images: what is known of a bundle beyond what its catalog says.

Reads and writes rows; asks no registry.
"""

import base64
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import msgspec
import zstandard
from django.db.models import Exists, OuterRef

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.contents.objects import Manifests, Packed, decoded, objects_in
from catalogs.fbc import blob as fbc
from catalogs.models import Bundle, BundleInspection, BundleManifests, Catalog
from catalogs.storage import blobs

ZSTD_LEVEL = 9
QUERY_KEYS = 500
_Property = dict[str, object]


class _Properties(msgspec.Struct):
    name: str | None = None
    package: str | None = None
    properties: list[msgspec.Raw] | None = None


def save(digest: str, packed: Packed) -> BundleManifests:
    """The row of an image's objects; the one that is there when there is one."""
    text = msgspec.json.encode(packed)
    return BundleManifests.objects.get_or_create(
        digest=digest,
        defaults={
            "data": zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(text),
            "size": len(text),
            "objects_held": len(packed.objects),
        },
    )[0]


def inspection_of(bundle: Bundle) -> BundleInspection | None:
    """The row about the bundle's image, without what it holds. One query."""
    if not bundle.image:
        return None
    found = BundleInspection.objects.filter(image=bundle.image)
    return found.select_related("manifests").defer("manifests__data").first()


def manifests_of(bundle: Bundle) -> Manifests | None:
    """The bundle's objects, from its catalog or from its inspected image; None when neither tells.

    At most two queries.
    """
    blob = blobs.read_blob(bundle.blob_id) if bundle.blob_id else None
    told = decoded(objects_in(blob)) if blob else ()
    if told:
        return Manifests(told, {})
    row = _row(bundle.image)
    if row is None:
        return None
    packed = _unpacked(row)
    return Manifests(decoded(packed.objects), packed.annotations, tuple(packed.folders), row.digest)


def contents_of(bundle: Bundle) -> Contents | None:
    """Facts of the bundle from its full objects: None when only catalog metadata is known.

    `bundle` comes with its blob's key and its image; at most two queries.
    """
    blob = blobs.read_blob(bundle.blob_id) if bundle.blob_id else None
    if blob is None:
        return None
    packed = None
    if not objects_in(blob):
        row = _row(bundle.image)
        if row is None:
            return None
        packed = _unpacked(row)
        blob = with_objects(blob, packed)
    try:
        found = read_contents(blob, deprecated=bundle.deprecated)
    except fbc.DECODE_ERRORS:
        return None
    return replace(found, folders=tuple(packed.folders)) if packed else found


def settle(bundle: Bundle) -> None:
    """Fills what the catalog doesn't tell of the bundle in, from its inspected image; the row
    itself stays as its catalog has it. At most two queries, none when the catalog tells all."""
    if bundle.webhooks is not None:
        return
    row = _row(bundle.image)
    blob = blobs.read_blob(bundle.blob_id) if row and bundle.blob_id else None
    if row is None or blob is None:
        return
    found = read_contents(with_objects(blob, _unpacked(row)))
    bundle.webhooks = found.webhooks
    bundle.owned_api_services = found.owned_api_services
    if found.install_modes is not None:
        bundle.install_modes = sorted(found.install_modes)
        bundle.install_modes_known = True


def inspected_images(images: Iterable[str]) -> set[str]:
    """Those of the images whose objects are stored. One query per 500."""
    wanted = list(images)
    found: set[str] = set()
    for start in range(0, len(wanted), QUERY_KEYS):
        rows = BundleInspection.objects.filter(
            image__in=wanted[start : start + QUERY_KEYS], manifests__isnull=False
        )
        found.update(rows.values_list("image", flat=True))
    return found


def inspected_in(catalog: Catalog) -> list[tuple[str, str]]:
    """Images of the catalog's bundles whose objects are stored, each with the digest. One query."""
    images = Bundle.objects.filter(package__catalog=catalog).values("image")
    rows = BundleInspection.objects.filter(manifests__isnull=False, image__in=images)
    return list(rows.order_by("image").values_list("image", "manifests_id"))


def prune(before: datetime) -> int:
    """Forgets inspections of images that no bundle of any catalog names, asked for before then, and
    what no inspection holds any more; returns how many rows."""
    old = BundleInspection.objects.filter(asked_at__lt=before)
    images = list(old.values_list("image", flat=True))
    named: set[str] = set()
    for start in range(0, len(images), QUERY_KEYS):
        bundles = Bundle.objects.filter(image__in=images[start : start + QUERY_KEYS])
        named.update(bundles.order_by().values_list("image", flat=True).distinct())
    gone = [image for image in images if image not in named]
    count = 0
    for start in range(0, len(gone), QUERY_KEYS):
        count += old.filter(image__in=gone[start : start + QUERY_KEYS]).delete()[0]
    reading = BundleInspection.objects.filter(state=BundleInspection.State.READING)
    if reading.exists():
        return count  # what it stored may not be held by its row yet
    held = BundleInspection.objects.filter(manifests=OuterRef("pk"))
    return count + BundleManifests.objects.filter(~Exists(held)).delete()[0]


def with_objects(blob: bytes, packed: Packed) -> bytes:
    """The blob as a catalog with olm.bundle.object would have it. Raises one of
    `fbc.DECODE_ERRORS` for a blob that is no JSON object."""
    found = msgspec.json.decode(blob, type=_Properties)
    objects: list[_Property] = [
        {
            "type": "olm.bundle.object",
            "value": {"data": base64.b64encode(bytes(each)).decode()},
        }
        for each in packed.objects
    ]
    return msgspec.json.encode(
        {
            "schema": fbc.BUNDLE,
            "name": found.name,
            "package": found.package,
            "properties": [*(found.properties or ()), *objects],
        }
    )


def _row(image: str) -> BundleManifests | None:
    if not image:
        return None
    found = BundleInspection.objects.filter(image=image, manifests__isnull=False)
    row = found.select_related("manifests").first()
    return row.manifests if row else None


def _unpacked(row: BundleManifests) -> Packed:
    context = zstandard.ZstdDecompressor()
    return msgspec.json.decode(
        context.decompress(bytes(row.data), max_output_size=row.size), type=Packed
    )
