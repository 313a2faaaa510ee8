"""Packages and bundles that use an image.

A repository (or a part of one, with or without a tag) is looked up in the index's repositories; a
digest in the database's index of digest prefixes.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q, Value
from django.db.models.lookups import Exact

from catalogs.fbc.package_texts import repository_of
from catalogs.models import Bundle, DigestStart, RelatedImage
from catalogs.search.index import Row, SearchIndex

DIGEST_START = 12  # characters of a digest that the database's index knows
# Of a bundle in the list of those that use an image: some columns are long texts.
_SHOWN = (
    *("name", "version", "deprecated", "image", "package__name"),
    *("package__catalog__slug", "package__catalog__cluster__name"),
)
_DIGEST = re.compile(r"(?:.*@)?(?:sha256:)?([0-9a-f]{12,64})", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class BundleImages:
    """A bundle and those of its images that match."""

    bundle: Bundle
    images: Sequence[str]


def digest_of(image: str) -> str:
    """The sha256 digest in `image`, or its first 12 or more characters; else empty."""
    match = _DIGEST.fullmatch(image)
    return match[1].lower() if match else ""


def packages_with_image(index: SearchIndex, image: str) -> set[int]:
    """Ids of the packages with a bundle that uses `image`; one query for a digest, else none."""
    if digest_of(image):
        listed = Bundle.objects.filter(_with_digest(digest_of(image)))
        return set(listed.order_by().values_list("package_id", flat=True).distinct())
    repository = repository_of(image).lower()
    return {row for name, rows in index.using.items() if repository in name for row in rows}


def using_image(image: str, packages: Collection[int]) -> Q:
    """The condition of bundles of `packages` (ids) whose own or related images match `image`.

    Give those of `packages_with_image` or fewer: without a digest it checks every image of each.
    """
    inside, digest = Q(package_id__in=packages), digest_of(image)
    if digest:
        return inside & _with_digest(digest)
    has = Q(image__contains=image) | Q(image__contains=image.lower())
    related = RelatedImage.objects.filter(has, bundle__package_id__in=packages).order_by()
    return inside & (has | Q(pk__in=related.values("bundle_id")))


def bundles_with(image: str, packages: Iterable[Row]) -> list[int]:
    """Ids of bundles of `packages` that use `image`: packages by name, the latest of each first,
    of one version that of the catalog that wins; one query."""
    rows = {row.id: row for row in packages}
    bundles = list(
        Bundle.objects.filter(using_image(image, rows.keys()))
        .order_by()
        .values_list("package_id", "version_key", "pk")
    )
    bundles.sort(key=lambda bundle: rows[bundle[0]].rank)
    bundles.sort(key=lambda bundle: bundle[1], reverse=True)
    bundles.sort(key=lambda bundle: rows[bundle[0]].name)
    return [key for _, _, key in bundles]


def _with_digest(digest: str) -> Q:
    start = Exact(DigestStart("image"), Value(digest[:DIGEST_START]))
    related = RelatedImage.objects.filter(start, image__contains=f":{digest}")
    own = Bundle.objects.filter(start, image__contains=f":{digest}")
    # A union: with OR between the two conditions PostgreSQL scans every bundle.
    keys = related.order_by().values_list("bundle_id").union(own.order_by().values_list("pk"))
    return Q(pk__in=keys)


def with_images(bundles: Sequence[int], image: str) -> list[BundleImages]:
    """Each bundle (of these ids) with the references that match `image`; two queries."""
    wanted = digest_of(image) or image.lower()
    rows = Bundle.objects.select_related("package__catalog__cluster").only(*_SHOWN)
    listed = rows.in_bulk(bundles)
    images = {key: {bundle.image: None} for key, bundle in listed.items()}
    related = RelatedImage.objects.filter(bundle__in=bundles).order_by("id")
    for key, reference in related.values_list("bundle_id", "image"):
        images[key][reference] = None
    return [
        BundleImages(
            listed[key], [reference for reference in images[key] if wanted in reference.lower()]
        )
        for key in bundles
    ]
