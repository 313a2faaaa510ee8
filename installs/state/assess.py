"""Puts what follows from the rows into the rows of operators: version, upgrade, diagnosis.

Its changes of health go into the history, and to whoever wants to be told of them.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

import installs
from catalogs.models import Catalog
from installs.diagnosis import Observation, diagnose
from installs.models import Component, Operator, Reference, Transition
from installs.notifications import select
from installs.state import unknown, upgrades
from installs.state.bulk import insert, update
from installs.state.decode import Key, read_time
from installs.state.history import HEALTH, Moment, transition
from installs.state.observation import Part, observe, parts_of
from installs.state.offers import Offer, bundles_by_image, offers_of, usable
from installs.state.store import among, batched

_COLUMNS = (
    "version",
    "bundle",
    "health",
    "finding",
    "facts",
    "reason",
    "message",
    "broken_kind",
    "broken_name",
    "since",
    "deprecated",
    "upgrade",
    "upgrade_held",
)


@cache
def rules_version() -> str:
    """Changes whenever the code or the knowledge that rows are derived with does."""
    package = Path(installs.__file__).parent
    hashed = hashlib.sha256()
    folders = (package / "diagnosis", package / "knowledge", package / "state")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in sorted(one for one in paths if one.suffix in (".py", ".yaml")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def basis(cluster_id: int) -> str:
    """What the derived columns rest on beside the rows: our rules, and the catalogs' contents."""
    catalogs = Catalog.objects.filter(usable(cluster_id)).order_by("pk")
    told = list(catalogs.values_list("pk", "name", "priority", "revision", "content_hash"))
    return hashlib.sha256(msgspec.json.encode((rules_version(), told))).hexdigest()


@dataclass(slots=True)
class _Scene:
    """Some operators and everything around them."""

    rows: list[Operator]
    parts: dict[int, list[Part]]  # of each: owned ones and those it refers to
    offers: dict[str, list[Offer]] = field(default_factory=dict)
    images: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    observed: dict[int, Observation] = field(default_factory=dict)

    def around(self, row: Operator) -> list[Observation]:
        """The operator's parts; what many share is read once."""
        for part in self.parts[row.pk]:
            if part.id not in self.observed:
                self.observed[part.id] = observe(part)
        return [self.observed[part.id] for part in self.parts[row.pk]]


def assess(cluster_id: int, ids: Collection[int], fresh: Collection[Key], moment: Moment) -> int:
    """Brings the derived columns of these operators up to date; returns how many rows it wrote.

    `fresh` are those seen for the first time, whose state began before we looked.
    """
    written = 0
    for batch in batched(sorted(ids)):
        scene = _load(cluster_id, batch)
        history: list[Transition] = []
        touched: list[Operator] = []
        sayings: list[Operator] = []
        for row in scene.rows:
            before = [getattr(row, name) for name in _COLUMNS]
            was_unknown = unknown.saying(row)
            is_fresh = (row.kind, row.namespace, row.name) in fresh
            _derive(row, scene)
            history += _diagnose(row, scene, moment, fresh=is_fresh)
            if (now := unknown.saying(row)) is not None and now != was_unknown:
                sayings.append(row)
            if before != [getattr(row, name) for name in _COLUMNS]:
                touched.append(row)
        update(Operator, touched, _COLUMNS)
        insert(Transition, history)
        select.remember(history, scene.rows)
        unknown.count(sayings, moment)
        written += len(touched)
    return written


def _load(cluster_id: int, ids: Sequence[int]) -> _Scene:
    rows = list(Operator.objects.filter(id__in=ids).order_by("id"))
    owned = Component.objects.filter(operator_id__in=ids).order_by("-created_at", "id")
    parts: dict[int, dict[int, Part]] = defaultdict(dict)
    for part in parts_of(owned):
        parts[part.operator_id or 0][part.id] = part
    wanted: dict[Key, list[int]] = defaultdict(list)
    references = Reference.objects.filter(operator_id__in=ids).order_by()
    for pk, kind, namespace, name in references.values_list(
        "operator_id", "kind", "namespace", "name"
    ):
        wanted[kind, namespace, name].append(pk)
    here = {
        (one.kind, one.namespace, one.name): one for near in parts.values() for one in near.values()
    }
    for batch in batched(sorted(set(wanted) - set(here))):
        near = Component.objects.filter(among(batch), cluster_id=cluster_id).order_by("id")
        for part in parts_of(near):
            here[part.kind, part.namespace, part.name] = part
    for key, pks in wanted.items():
        if key in here:
            for pk in pks:
                parts[pk][here[key].id] = here[key]
    scene = _Scene(rows, {row.pk: list(parts[row.pk].values()) for row in rows})
    scene.offers = offers_of(cluster_id, {row.package for row in rows if row.package} - {""})
    scene.images = _images(cluster_id, scene)
    return scene


def _images(cluster_id: int, scene: _Scene) -> dict[str, tuple[str, str, bool]]:
    platform = [row for row in scene.rows if row.kind == "PlatformOperator"]
    images = {_image(scene.parts[row.pk]) for row in platform} - {""}
    return bundles_by_image(cluster_id, {row.package for row in platform}, images)


def _image(parts: Iterable[Part]) -> str:
    return next((one.image for one in parts if one.kind == "BundleDeployment"), "")


def _derive(row: Operator, scene: _Scene) -> None:
    """Version, deprecation and upgrade.

    A PlatformOperator names neither bundle nor version; its BundleDeployment names an image, and a
    catalog that has that image knows the rest. Without one the image stands for the bundle.
    """
    parts, offers = scene.parts[row.pk], scene.offers.get(row.package, [])
    if row.kind == "PlatformOperator":
        image = _image(parts)
        row.bundle, row.version, row.deprecated = scene.images.get(image, (image, "", False))
    elif row.kind == "Subscription":
        offer = upgrades.offer_of_subscription(row, offers)
        csvs = {one.name: one for one in parts if one.kind == "ClusterServiceVersion"}
        row.version = upgrades.version_of(row.bundle, csvs, offer) if row.bundle else ""
        row.deprecated = upgrades.is_deprecated(row, row.conditions, offer)
        found = upgrades.of_subscription(row, parts, offer)
        row.upgrade, row.upgrade_held = found.version, found.held
    elif row.kind == "ClusterExtension":
        usable_ones = [one for one in offers if row.catalog in ("", one.catalog)]
        has_it = next((one for one in usable_ones if row.bundle in one.versions), None)
        row.deprecated = upgrades.is_deprecated(row, row.conditions, has_it)
        found = upgrades.of_extension(row, offers)
        row.upgrade, row.upgrade_held = found.version, found.held


def _diagnose(row: Operator, scene: _Scene, moment: Moment, *, fresh: bool) -> list[Transition]:
    found = diagnose(observe(row), scene.around(row), now=moment.now)
    reason = found.reason[:1024]
    was_health, was_reason = ("", "") if fresh else (row.health, row.reason)
    broken = next((link for link in found.chain if link.first_broken), None)
    row.health, row.reason, row.message = found.health, reason, found.message
    row.finding = found.finding.id[:100] if found.finding else ""
    row.facts = dict(found.finding.facts) if found.finding else {}
    row.broken_kind = broken.kind[:100] if broken else ""
    row.broken_name = broken.name[:253] if broken else ""
    if (was_health, was_reason) == (row.health, reason):
        return []
    row.since = _began([row, *scene.parts[row.pk]], reason) or moment.now if fresh else moment.now
    return [
        transition(
            moment,
            (row.kind, row.namespace, row.name),
            row.uid,
            HEALTH,
            from_status=was_health,
            from_reason=was_reason,
            to_status=row.health,
            to_reason=reason,
            message=row.message,
        )
    ]


def _began(rows: Sequence[Operator | Part], reason: str) -> datetime | None:
    """Since when a state that was there before we looked has held, as far as the objects say; the
    operator's own words come first."""
    for own in (rows[:1], rows[1:]):
        times = [at for row in own if reason for at in _times(row, reason)]
        if times:
            return max(times)
    return None


def _times(row: Operator | Part, reason: str) -> Iterator[datetime]:
    """When the object came to this reason; a ClusterServiceVersion has no condition but a phase."""
    told = [one.get("lastTransitionTime") for one in row.conditions if one.get("reason") == reason]
    if row.details.get("reason") == reason:
        told += [row.details.get("last_transition") or row.details.get("last_update")]
    for one in told:
        if at := read_time(one):
            yield at
