"""Inspects the bundle images that the verdicts on a catalog need, the most needed first.

A catalog with `olm.csv.metadata` does not have the webhooks and objects of its bundles; their
images do. An image is pulled once for all catalogs and clusters, so a run that was interrupted
goes on where it ended, and a run without new images sends no request.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import structlog
from django.utils import timezone

from catalogs.contents import inspection
from catalogs.contents.stored import inspected_images
from catalogs.models import Bundle, BundleInspection, Catalog, Channel, Package
from catalogs.resolve.stored import BUNDLE_FIELDS
from catalogs.verdicts.store import chosen_bundles
from olmweb.runtime.leases import renewed_lease

log = structlog.get_logger(__name__)
PACKAGES_AT_ONCE = 200
UNREACHABLE_LIMIT = 3  # images in a row; then the other images of the registry are left out
UNREACHABLE, IN_PROGRESS = "unreachable", "in-progress"
# Failures of a registry, not of one image.
SILENT = (UNREACHABLE, "http-status", "rate-limited", "too-slow")
# Codes of SourceError that are a reason under another name.
REASONS = {"forbidden": "no-credentials", "token-server": "no-credentials"}


@dataclass(slots=True)
class Settlement:
    """The outcome of a run. `wanted` images are `reused` (their objects were stored), `inspected`,
    or `failed`, by reason; `requests` were sent and `bytes` received for both."""

    wanted: int
    inspected: int = 0
    reused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    requests: int = 0

    @property
    def left(self) -> int:
        """The number of images that were not looked at."""
        return self.wanted - self.inspected - self.reused - self.failed.total()


def images_to_inspect(catalog: Catalog, *, all_versions: bool = False) -> list[str]:
    """The images of bundles whose objects the catalog does not have: those of the bundles that an
    install method would choose, then of channel heads, then, with `all_versions`, of all others,
    newest first."""
    chosen: dict[str, None] = {}
    heads: dict[str, None] = {}
    others: list[tuple[str, str]] = []
    packages = Package.objects.filter(catalog=catalog).order_by("name").iterator(chunk_size=500)
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
    rows = Bundle.objects.filter(package__in=packages).order_by("ordinal")
    bundles = list(rows.only(*BUNDLE_FIELDS, "webhooks", "version_key"))
    chosen = {choice.bundle for choice in chosen_bundles(packages, bundles).values()}
    channels = Channel.objects.filter(package__in=packages)
    heads = set(channels.values_list("package_id", "head"))
    for bundle in bundles:
        if bundle.webhooks is None and bundle.image:
            yield bundle, bundle.pk in chosen, (bundle.package_id, bundle.name) in heads


def settle(
    images: Sequence[str],
    progress: Callable[[Settlement], None] = lambda _: None,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Settlement:
    """Inspects the images that are not stored, one after another; `progress` is called after each.

    A registry that asks to wait gets its time. A registry that is silent, refuses for too many
    requests or fails UNREACHABLE_LIMIT times in a row is left out from then on. One image never
    ends the run.
    """
    result = Settlement(len(images))
    stored = inspected_images(images)
    silent: Counter[str] = Counter()
    for image in images:
        registry = image.partition("/")[0]
        if image in stored:
            result.reused += 1
        elif silent[registry] >= UNREACHABLE_LIMIT:
            result.failed[UNREACHABLE] += 1
        else:
            reason = _inspect(image, result, pause)
            if reason:
                result.failed[reason] += 1
            silent[registry] = silent[registry] + 1 if reason in SILENT else 0
        progress(result)
    return result


def _inspect(image: str, result: Settlement, pause: Callable[[float], None]) -> str:
    """Inspects an image under its lease and counts it; returns the reason of a failure. A row that
    an interrupted run or a killed worker left behind is inspected again."""
    row = inspection.start(image, "") or BundleInspection.objects.get(image=image)
    with renewed_lease(f"inspection:{row.pk}") as held:
        if held is None:
            return IN_PROGRESS
        row.refresh_from_db()
        _run(row, pause)
    result.requests += row.requests
    result.bytes += row.bytes_read
    if row.state == BundleInspection.State.READ:
        result.inspected += 1
        return ""
    return REASONS.get(row.error_code, row.error_code)


def _run(row: BundleInspection, pause: Callable[[float], None]) -> None:
    """Runs the inspection until it ends, through the waits that its registry requests."""
    while row.state in inspection.IN_PROGRESS:
        if row.next_attempt_at is not None:
            pause(max(0.0, (row.next_attempt_at - timezone.now()).total_seconds()))
        try:
            inspection.run(row)
        except Exception:
            log.exception("inspection failed", image=row.image)
            inspection.fail(row)
        row.refresh_from_db()
