"""Which packages and bundles use an image.

A repository (or a part of one, with or without a tag) is looked up in the index's repositories; a
digest in the database's index of how digests begin.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.lookups import Exact

from catalogs.models import Bundle, DigestStart, RelatedImage
from catalogs.search.rows import Index
from catalogs.words import repository_of

DIGEST_START = 12  # characters of a digest that the database's index knows
_DIGEST = re.compile(r"(?:.*@)?(?:sha256:)?([0-9a-f]{12,64})", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class BundleImages:
    """A bundle and those of its images that were asked for."""

    bundle: Bundle
    images: Sequence[str]


def digest_of(image: str) -> str:
    """The sha256 digest, or its first 12 or more characters, that `image` asks for; else empty."""
    found = _DIGEST.fullmatch(image)
    return found[1].lower() if found else ""


def packages_with(index: Index, image: str) -> set[int]:
    """Ids of the packages with a bundle that uses `image`; one query for a digest, else none."""
    if digest_of(image):
        listed = Bundle.objects.filter(_with_digest(digest_of(image)))
        return set(listed.order_by().values_list("package_id", flat=True).distinct())
    repository = repository_of(image).lower()
    return {
        row.id for row in index.rows if any(repository in each.lower() for each in row.repositories)
    }


def using(index: Index, image: str) -> Q:
    """The condition of bundles whose own or related images are meant by `image`."""
    digest = digest_of(image)
    if digest:
        return _with_digest(digest)
    related = RelatedImage.objects.filter(bundle=OuterRef("pk"), image__icontains=image)
    # Without the packages, every image of every bundle would be looked at.
    inside = Q(package_id__in=packages_with(index, image))
    return inside & (Q(image__icontains=image) | Q(Exists(related)))


def bundles_with(index: Index, image: str, packages: Collection[int]) -> QuerySet[Bundle]:
    """Bundles of `packages` (ids) that use `image`, the latest of each package first."""
    found = Bundle.objects.filter(using(index, image), package_id__in=packages)
    return found.order_by("package__name", "-version_key", "name", "package__catalog__slug", "id")


def _with_digest(digest: str) -> Q:
    start = Exact(DigestStart("image"), Value(digest[:DIGEST_START]))
    related = RelatedImage.objects.filter(start, image__contains=f":{digest}")
    own = Bundle.objects.filter(start, image__contains=f":{digest}")
    return Q(pk__in=related.order_by().values("bundle_id")) | Q(pk__in=own.order_by().values("pk"))


def with_images(bundles: Sequence[Bundle], image: str) -> list[BundleImages]:
    """Each bundle with the references that `image` means; one query."""
    wanted = digest_of(image) or image.lower()
    found = {bundle.pk: {bundle.image: None} for bundle in bundles}
    listed = RelatedImage.objects.filter(bundle__in=found).order_by("id")
    for bundle, reference in listed.values_list("bundle_id", "image"):
        found[bundle][reference] = None
    return [
        BundleImages(bundle, [each for each in found[bundle.pk] if wanted in each.lower()])
        for bundle in bundles
    ]
