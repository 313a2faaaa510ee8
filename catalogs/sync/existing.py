"""What of a package's rows is right already: it stays, and what differs is deleted.

Knows the models and the rows that are wanted; `catalogs.sync.write` writes those that are missing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Model, QuerySet

from catalogs.fbc.json_text import as_json
from catalogs.models import (
    BlobRef,
    Bundle,
    BundleGVK,
    Channel,
    ChannelEntry,
    ContentProblem,
    PackageSearch,
    PackageText,
    Prediction,
    RelatedImage,
)
from catalogs.sync.row_types import (
    CHANNEL,
    ENTRY,
    PROBLEM,
    SEARCH,
    TEXT,
    BundleRows,
    PackageRows,
    Row,
)
from olmweb.bulk import delete

KEYS = 500  # in one IN (...), below every database's limit

Fit = Callable[[Sequence[Any]], Sequence[Any]]  # a row as it will be stored


@dataclass(frozen=True, slots=True)
class Kept:
    """What needs no writing: bundles by (name, ordinal), channels by name, refs whole."""

    bundles: frozenset[tuple[str, int]] = frozenset()
    channels: frozenset[str] = frozenset()
    refs: frozenset[tuple[Any, ...]] = frozenset()
    problems: bool = False
    text: bool = False
    search: bool = False
    deleted: int = 0  # rows


@dataclass(frozen=True, slots=True)
class Fits:
    channel: Fit
    entry: Fit
    problem: Fit


def keep(catalog_id: int, package_id: int | None, rows: PackageRows, fits: Fits) -> Kept:
    """Deletes the package's rows that differ from `rows`, which the same derivation made.

    `package_id` is None for blobs without an olm.package. At most seven queries, and a few for what
    is deleted.
    """
    refs, deleted = _refs(catalog_id, rows)
    problems, gone = _problems(catalog_id, rows, fits.problem)
    deleted += gone
    if package_id is None:
        return Kept(refs=refs, problems=problems, deleted=deleted)
    bundles, gone = _bundles(package_id, rows.bundles)
    deleted += gone
    channels, gone = _channels(package_id, rows, fits)
    deleted += gone
    text, gone = _one(PackageText, package_id, TEXT, rows.text)
    deleted += gone
    search, gone = _one(PackageSearch, package_id, SEARCH, rows.search)
    return Kept(bundles, channels, refs, problems, text, search, deleted + gone)


def _refs(catalog_id: int, rows: PackageRows) -> tuple[frozenset[tuple[Any, ...]], int]:
    wanted = {tuple(ref) for ref in rows.refs}
    stored = BlobRef.objects.filter(catalog=catalog_id, package=rows.name).order_by()
    kept, gone = set(), []
    for pk, *ref in stored.values_list("id", "schema", "name", "ordinal", "blob_id"):
        if (place := tuple(ref)) in wanted:
            kept.add(place)
        else:
            gone.append(pk)
    return frozenset(kept), _delete(BlobRef, "id", gone)


def _problems(catalog_id: int, rows: PackageRows, fit: Fit) -> tuple[bool, int]:
    stored = ContentProblem.objects.filter(catalog=catalog_id, package=rows.name).order_by("id")
    if list(stored.values_list(*PROBLEM)) == [tuple(fit(row)) for row in rows.problems]:
        return True, 0
    where = "catalog_id = %s AND package = %s"
    return False, delete(ContentProblem, where, (catalog_id, rows.name))


def _bundles(
    package_id: int, wanted: Iterable[BundleRows]
) -> tuple[frozenset[tuple[str, int]], int]:
    """A bundle's rows are made of its blob and its deprecation, and of nothing else."""
    now = {
        (one.name, one.ordinal): (one.blob, one.deprecation is not None, one.deprecation or "")
        for one in wanted
    }
    stored = Bundle.objects.filter(package=package_id).order_by()
    kept, gone = set(), []
    for pk, name, ordinal, *made_of in stored.values_list(
        "id", "name", "ordinal", "blob_id", "deprecated", "deprecation"
    ):
        if now.get((name, ordinal)) == tuple(made_of):
            kept.add((name, ordinal))
        else:
            gone.append(pk)
    deleted = sum(
        _delete(each, "bundle_id", gone) for each in (BundleGVK, RelatedImage, Prediction)
    )
    return frozenset(kept), deleted + _delete(Bundle, "id", gone)


def _channels(package_id: int, rows: PackageRows, fits: Fits) -> tuple[frozenset[str], int]:
    entries: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    stored = ChannelEntry.objects.filter(channel__package=package_id)
    for channel_id, *entry in stored.order_by("channel", "ordinal").values_list(
        "channel_id", *ENTRY
    ):
        ordinal, name, replaces, skips, skip_range = entry
        entries[channel_id].append((ordinal, name, replaces, as_json(skips), skip_range))
    now = {
        channel.values[0]: (
            tuple(fits.channel(channel.values)),
            [tuple(fits.entry(entry)) for entry in channel.entries],
        )
        for channel in rows.channels
    }
    kept, gone = set(), []
    for pk, *values in Channel.objects.filter(package=package_id).values_list("id", *CHANNEL):
        if now.get(values[0]) == (tuple(values), entries[pk]):
            kept.add(values[0])
        else:
            gone.append(pk)
    return frozenset(kept), _delete(ChannelEntry, "channel_id", gone) + _delete(Channel, "id", gone)


def _one(
    model: type[PackageText | PackageSearch], package_id: int, fields: Sequence[str], wanted: Row
) -> tuple[bool, int]:
    """The one row that a package has of the model: a text first, then JSON."""
    found: QuerySet[Any, Any] = model._default_manager.filter(package=package_id)
    text, *lists = wanted
    now = (text, *map(msgspec.json.decode, lists))
    if found.values_list(*fields).first() == now:
        return True, 0
    return False, _delete(model, "package_id", [package_id])


def _delete(model: type[Model], column: str, keys: Sequence[int]) -> int:
    """Deletes the rows with these keys; returns how many."""
    deleted = 0
    for start in range(0, len(keys), KEYS):
        some = keys[start : start + KEYS]
        deleted += delete(model, f"{column} IN ({', '.join(['%s'] * len(some))})", some)
    return deleted
