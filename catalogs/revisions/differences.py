"""The revisions of catalogs and the differences between any two, package by package.

The revisions may be of one catalog or of two. Outlines are read a few packages at a time, only
where they differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice

from django.db.models import F, Min, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from catalogs import lookup
from catalogs.models import Catalog, CatalogRevision, PackageOutline
from catalogs.revisions.bundle_facts import describe_bundles
from catalogs.revisions.compare import ChangeKind, PackageChange, Sides, compare
from catalogs.revisions.outline import Outline, decode
from catalogs.sources.access_methods import WITHOUT_GRAPH, fidelity
from olmweb.errors import BadRequest, Missing

PACKAGES_AT_ONCE = 200  # two outlines of each are in memory together

GONE, ADDED, CHANGED = FATES = ("gone", "added", "changed")
FATE_LABELS = {GONE: "removed", ADDED: "added", CHANGED: "changed"}


@dataclass(frozen=True, slots=True)
class Point:
    """A catalog at one of its revisions; `at` is when that content was read."""

    catalog: Catalog
    number: int
    at: datetime | None

    @property
    def current(self) -> bool:
        return self.number == self.catalog.revision

    def __str__(self) -> str:
        return f"{self.catalog}@{self.number}"

    def sides(self, other: "Point") -> Sides | None:
        """The names of this catalog and that of `other`; None if they are the same catalog."""
        if other.catalog.pk == self.catalog.pk:
            return None
        if self.catalog.slug == other.catalog.slug:
            return Sides(str(self.catalog), str(other.catalog))
        return Sides(self.catalog.slug, other.catalog.slug)

    @property
    def address(self) -> str:
        """The text that `read_point` reads; without a revision for the current one, so that a
        bookmark keeps naming the current one."""
        return str(self.catalog) if self.current else str(self)


@dataclass(frozen=True, slots=True)
class PackageDifference:
    """A package that differs. `fate` is one of FATES; `changes` are never empty."""

    package: str
    fate: str
    changes: Sequence[PackageChange]


def fate_label(fate: str, sides: Sides | None = None) -> str:
    """The word for a fate of revisions of one catalog, or of the two catalogs `sides`."""
    if sides is None:
        return FATE_LABELS[fate]
    return {GONE: f"only in {sides.before}", ADDED: f"only in {sides.after}"}.get(
        fate, "in both with differences"
    )


def fate_of(changes: Sequence[PackageChange]) -> str:
    """GONE, ADDED or CHANGED, by all changes of one package."""
    whole = {ChangeKind.PACKAGE_REMOVED.value: GONE, ChangeKind.PACKAGE_ADDED.value: ADDED}
    return whole.get(changes[0].kind, CHANGED)


def retained_revisions(catalog: Catalog) -> QuerySet[CatalogRevision]:
    """The revisions that can be compared, newest first: those whose outlines are stored. An empty
    catalog has no outline; its current revision can be compared."""
    outlines = PackageOutline.objects.filter(catalog=catalog).order_by().values("catalog")
    first = Subquery(outlines.annotate(oldest=Min("first")).values("oldest"))
    without = catalog.revision if not catalog.package_count else catalog.revision + 1
    return CatalogRevision.objects.filter(
        catalog=catalog, number__gte=Coalesce(first, Value(without))
    ).order_by("-number")


def newest_points(limit: int) -> list[tuple[Catalog, list[Point]]]:
    """Every catalog that can be compared, with its newest `limit` revisions; three queries."""
    first = dict(
        PackageOutline.objects.order_by().values_list("catalog").annotate(first=Min("first"))
    )
    catalogs = Catalog.objects.filter(revision__gt=0).select_related("cluster")
    points: dict[int, list[Point]] = {}
    by_id = {catalog.pk: catalog for catalog in catalogs}
    revisions = CatalogRevision.objects.filter(
        catalog__in=by_id, number__gt=F("catalog__revision") - limit
    ).order_by("-number")
    for catalog_id, number, at in revisions.values_list("catalog_id", "number", "created_at"):
        if number >= first.get(catalog_id, by_id[catalog_id].revision):
            points.setdefault(catalog_id, []).append(Point(by_id[catalog_id], number, at))
    return [(catalog, points[catalog.pk]) for catalog in catalogs if catalog.pk in points]


def find_point(catalog: Catalog, number: int | None = None) -> Point:
    """Revision `number` of `catalog`, by default the current one. Raises Missing."""
    wanted = catalog.revision if number is None else number
    retained = retained_revisions(catalog)
    revision = retained.filter(number=wanted).first()
    if revision is not None:
        return Point(catalog, revision.number, revision.created_at)
    if not catalog.revision:
        raise Missing(
            f"Catalog {catalog} was not read yet, so there is nothing to compare.",
            code="no-revision",
            hint="Its page says when it will be, or why it could not be.",
        )
    oldest = retained.last()
    if oldest is None:
        raise Missing(
            f"Catalog {catalog} was last read before its revisions were kept for comparing.",
            code="no-revision",
            hint="Sync it once; from then on every revision can be compared.",
        )
    raise Missing(
        f"Revision {wanted} of catalog {catalog} is not stored; there are {oldest.number} to "
        f"{catalog.revision}.",
        code="no-revision",
        hint="OLMWEB_RETENTION_DAYS sets how long revisions are stored.",
    )


def find_point_at(catalog: Catalog, moment: datetime) -> Point:
    """The revision that was current at `moment`, else the oldest retained one. Raises Missing when
    there is none."""
    retained = retained_revisions(catalog)
    revision = retained.filter(created_at__lte=moment).first() or retained.last()
    return find_point(catalog, revision.number if revision else None)


def read_number(text: str) -> int | None:
    """The number of a revision; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def read_point(value: str) -> Point:
    """The revision that CLUSTER/CATALOG@REVISION names; the current one without @REVISION.

    Raises BadRequest for another shape, Missing for an unknown catalog or revision.
    """
    path, _, text = value.rpartition("@")
    number = read_number(text) if path else None
    if number is None:
        path = value
    cluster, slash, slug = path.partition("/")
    if not (cluster and slash and slug):
        shown = "".join(char if char.isprintable() else " " for char in value[:100])
        raise BadRequest(
            f"“{shown}” names no catalog.",
            code="bad-parameter",
            hint="Write CLUSTER/CATALOG or CLUSTER/CATALOG@REVISION, with - for no cluster.",
        )
    return find_point(lookup.get_catalog(cluster, slug), number)


def without_details(before: Point, after: Point) -> list[Catalog]:
    """Of two catalogs that are compared, the one that is read without images, requirements and
    upgrade edges; empty where these can be compared."""
    partial = [
        point.catalog
        for point in (before, after)
        if fidelity(point.catalog.access_method) == WITHOUT_GRAPH
    ]
    return partial if before.catalog.pk != after.catalog.pk and len(partial) == 1 else []


def differences(before: Point, after: Point, package: str = "") -> Iterator[PackageDifference]:
    """Packages that differ, by name; only `package` if given. Two queries, and up to three for each
    PACKAGES_AT_ONCE differing packages."""
    old, new = _stamps(before, package), _stamps(after, package)
    names = iter(
        sorted(
            name
            for name in old.keys() | new.keys()
            if old.get(name, _NONE)[1] != new.get(name, _NONE)[1]
        )
    )
    same_catalog = before.catalog.pk == after.catalog.pk
    partial = bool(without_details(before, after))
    stored = before.current and after.current and not same_catalog
    while batch := list(islice(names, PACKAGES_AT_ONCE)):
        ids = {stamps[name][0] for name in batch for stamps in (old, new) if name in stamps}
        outlines = _outlines(ids)
        changes = [
            change
            for name in batch
            for change in compare(
                name,
                outlines.get(old.get(name, _NONE)[0]),
                outlines.get(new.get(name, _NONE)[0]),
                by_blob=same_catalog,
                partial=partial,
            )
        ]
        if stored:
            changes = describe_bundles(changes, before.catalog, after.catalog)
        for name, group in groupby(changes, key=lambda change: change.package):
            own = list(group)
            yield PackageDifference(name, fate_of(own), own)


_NONE = (0, "")


def _stamps(point: Point, package: str) -> dict[str, tuple[int, str]]:
    """Package name to the id and hash of its outline at that revision."""
    outlines = PackageOutline.objects.filter(
        Q(last=None) | Q(last__gte=point.number), catalog=point.catalog, first__lte=point.number
    )
    if package:
        outlines = outlines.filter(package=package)
    rows = outlines.order_by().values_list("package", "id", "content_hash")
    return {name: (pk, content_hash) for name, pk, content_hash in rows}


def _outlines(ids: set[int]) -> dict[int, Outline]:
    rows = PackageOutline.objects.filter(pk__in=ids).order_by().values_list("id", "data")
    return {pk: decode(data) for pk, data in rows}
