"""The bundle images that the verdicts on a catalog need, the most needed first.

A catalog with `olm.csv.metadata` does not have the webhooks and objects of its bundles; their
images do. An image is pulled once for all catalogs and clusters, so a run that was interrupted
goes on where it ended, and a run without new images sends no request.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from catalogs.models import Bundle, Catalog, Channel, Package
from catalogs.resolve.stored import BUNDLE_FIELDS
from catalogs.verdicts.store import chosen_bundles

PACKAGES_AT_ONCE = 200


def images_to_inspect(catalog: Catalog, *, all_versions: bool = False) -> list[str]:
    """The images of bundles whose objects the catalog does not have: those of the bundles that an
    install method would choose, then of channel heads, then, with `all_versions`, of all others,
    newest first."""
    chosen: dict[str, None] = {}
    heads: dict[str, None] = {}
    others: list[tuple[str, str]] = []
    packages = catalog.packages.order_by("name").iterator(chunk_size=500)
    while batch := list(islice(packages, PACKAGES_AT_ONCE)):
        for bundle, is_chosen, is_head in _bundles(batch):
            if is_chosen:
                chosen[bundle.image] = None
            elif is_head:
                heads[bundle.image] = None
            elif all_versions:
                others.append((bundle.version_key, bundle.image))
    newest = dict.fromkeys(image for _, image in sorted(others, reverse=True))
    return list(chosen | heads | newest)


def _bundles(packages: Sequence[Package]) -> Iterator[tuple[Bundle, bool, bool]]:
    """The bundles whose objects are in their image alone, whether an install method would choose
    them, and whether they are the head of a channel."""
    rows = Bundle.objects.filter(package__in=packages).order_by("package_id", "ordinal")
    bundles = list(rows.only(*BUNDLE_FIELDS, "webhooks", "version_key"))
    chosen = {choice.bundle for choice in chosen_bundles(packages, bundles).values()}
    channels = Channel.objects.filter(package__in=packages)
    heads = set(channels.values_list("package_id", "head"))
    for bundle in bundles:
        if bundle.webhooks is None and bundle.image:
            yield bundle, bundle.pk in chosen, (bundle.package_id, bundle.name) in heads
