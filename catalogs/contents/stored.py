"""Reads and writes the rows of inspected images, the facts of bundles that a catalog does not have.

Uses no registry.
"""

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

import msgspec
import zstandard
from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.contents.objects import Manifests, Packed, crds_in, decoded, objects_in
from catalogs.fbc import blob as fbc
from catalogs.models import (
    Blob,
    Bundle,
    BundleInspection,
    BundleManifests,
    InspectedCRD,
)
from catalogs.storage import blobs
from olmweb.kube.decode import decoded as decoded_document

ZSTD_LEVEL = 9
QUERY_KEYS = 500
NAME_LIMIT = 253  # characters of the name of an object
_PACKED = msgspec.json.Decoder(Packed)
_Property = dict[str, object]


class _Properties(msgspec.Struct):
    name: str | None = None
    package: str | None = None
    properties: list[msgspec.Raw] | None = None


def save(digest: str, packed: Packed) -> BundleManifests:
    """Stores the objects of an image, unless its digest is stored already; returns the row."""
    text = msgspec.json.encode(packed)
    with transaction.atomic():
        row, created = BundleManifests.objects.get_or_create(
            digest=digest,
            defaults={
                "data": zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(text),
                "size": len(text),
                "objects_held": len(packed.objects),
            },
        )
        if created:
            names = (name for name in crds_in(decoded(packed.objects)) if name)
            InspectedCRD.objects.bulk_create(
                InspectedCRD(manifests=row, name=name) for name in names if len(name) <= NAME_LIMIT
            )
    return row


def inspection_of(bundle: Bundle) -> BundleInspection | None:
    """The inspection of the bundle's image, without its objects. One query."""
    if not bundle.image:
        return None
    inspections = BundleInspection.objects.filter(image=bundle.image)
    return inspections.select_related("manifests").defer("manifests__data").first()


def manifests_of(bundle: Bundle) -> Manifests | None:
    """The bundle's objects from its catalog or inspected image, or None; one query if its blob is
    stored, else two. Those of the image, if the catalog lacks some."""
    images = BundleInspection.objects.filter(image=bundle.image, manifests__isnull=False)
    columns = {
        f"image_{name}": Subquery(images.exclude(image="").values(f"manifests__{name}")[:1])
        for name in ("digest", "data", "size")
    }
    # One statement, as blobs.read_blob.
    rows = Blob.objects.select_related("pack").filter(pk=bundle.blob_id).annotate(**columns)
    if (row := rows.first()) is None:
        stored = _packed(bundle.image)
    else:
        digest, data, size = (getattr(row, name) for name in columns)
        of_catalog = Manifests(decoded(objects_in(blobs.unpacked(row))), {})
        if of_catalog.objects and not (digest and of_catalog.missing_crds):
            return of_catalog
        stored = (_unpacked(data, size), digest) if digest else None
    if stored is None:
        return None
    packed, digest = stored
    return Manifests(decoded(packed.objects), packed.annotations, tuple(packed.folders), digest)


def contents_of(bundle: Bundle) -> Contents | None:
    """Facts of the bundle from its full objects; None with catalog metadata only. Needs `blob_id`
    and `image` of the bundle; at most two queries."""
    blob = blobs.read_blob(bundle.blob_id) if bundle.blob_id else None
    if blob is None:
        return None
    folders: Sequence[str] = ()
    if not objects_in(blob):
        if (stored := _packed(bundle.image)) is None:
            return None
        blob, folders = with_objects(blob, stored[0]), stored[0].folders
    try:
        contents = read_contents(blob, deprecated=bundle.deprecated)
    except fbc.DECODE_ERRORS:
        return None
    return replace(contents, folders=tuple(folders)) if folders else contents


def fill_from_image(bundle: Bundle) -> None:
    """Sets fields that the catalog lacks from the inspected image, without saving; at most two
    queries."""
    if bundle.webhooks is not None:
        return
    stored = _packed(bundle.image)
    blob = blobs.read_blob(bundle.blob_id) if stored and bundle.blob_id else None
    if stored is None or blob is None:
        return
    contents = read_contents(with_objects(blob, stored[0]))
    bundle.webhooks = contents.webhooks
    bundle.owned_api_services = contents.owned_api_services
    if contents.install_modes is not None:
        bundle.install_modes = sorted(contents.install_modes)
        bundle.install_modes_known = True


def inspected_images(images: Iterable[str]) -> set[str]:
    """The subset of the images whose objects are stored. One query per 500 images."""
    inspected: set[str] = set()
    for batch in _batches(images):
        rows = BundleInspection.objects.filter(image__in=batch, manifests__isnull=False)
        inspected.update(rows.values_list("image", flat=True))
    return inspected


def failed_inspections(images: Iterable[str]) -> Iterator[tuple[str, str, datetime]]:
    """(image, error code, end) of the images whose last inspection failed and of which nothing is
    stored. One query per 500 images."""
    for batch in _batches(images):
        rows = BundleInspection.objects.filter(
            image__in=batch,
            state=BundleInspection.State.FAILED,
            manifests=None,
        )
        for image, code, finished_at in rows.values_list("image", "error_code", "finished_at"):
            if finished_at is not None:
                yield image, code, finished_at


def inspected_by_catalog() -> dict[int, list[tuple[str, str]]]:
    """Catalog id -> (image, digest) of its bundles whose objects are stored, by image. Two
    queries."""
    inspections = BundleInspection.objects.filter(manifests__isnull=False).order_by("image")
    digests = dict(inspections.values_list("image", "manifests_id"))
    images = Bundle.objects.filter(image__in=inspections.order_by().values("image")).order_by()
    by_catalog: dict[int, list[tuple[str, str]]] = defaultdict(list)
    named = images.values_list("package__catalog", "image").distinct()
    for catalog, image in named.order_by("image"):
        if image in digests:
            by_catalog[catalog].append((image, digests[image]))
    return by_catalog


def prune(before: datetime) -> int:
    """Deletes inspections requested before `before` whose image no bundle names, and manifests
    without an inspection; returns the number of rows."""
    old = BundleInspection.objects.filter(asked_at__lt=before)
    images = list(old.values_list("image", flat=True))
    named: set[str] = set()
    for batch in _batches(images):
        bundles = Bundle.objects.filter(image__in=batch)
        named.update(bundles.order_by().values_list("image", flat=True).distinct())
    gone = [image for image in images if image not in named]
    count = sum(old.filter(image__in=batch).delete()[0] for batch in _batches(gone))
    reading = BundleInspection.objects.filter(state=BundleInspection.State.READING)
    if reading.exists():
        return count  # its manifests may be stored before its row refers to them
    held = BundleInspection.objects.filter(manifests=OuterRef("pk"))
    return count + BundleManifests.objects.filter(~Exists(held)).delete()[0]


def with_objects(blob: bytes, packed: Packed) -> bytes:
    """The blob with the objects as olm.bundle.object properties. Raises one of
    `fbc.DECODE_ERRORS`."""
    bundle = msgspec.json.decode(blob, type=_Properties)
    objects: list[_Property] = [
        {
            "type": "olm.bundle.object",
            "value": {"data": base64.b64encode(bytes(manifest)).decode()},
        }
        for manifest in packed.objects
    ]
    return msgspec.json.encode(
        {
            "schema": fbc.BUNDLE,
            "name": bundle.name,
            "package": bundle.package,
            "properties": [*(bundle.properties or ()), *objects],
        }
    )


def _packed(image: str) -> tuple[Packed, str] | None:
    """The stored objects of an inspected image, and its digest. At most one query."""
    inspections = BundleInspection.objects.filter(image=image, manifests__isnull=False)
    inspection = inspections.select_related("manifests").first() if image else None
    row = inspection.manifests if inspection else None
    if row is None:
        return None
    return _unpacked(row.data, row.size), row.digest


def _unpacked(data: bytes | memoryview, size: int) -> Packed:
    text = zstandard.ZstdDecompressor().decompress(bytes(data), max_output_size=size)
    return decoded_document(_PACKED.decode, text)


def _batches(images: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(images)
    while batch := list(islice(rest, QUERY_KEYS)):
        yield batch
