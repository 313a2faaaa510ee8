"""REST routes of changes: what each revision of a catalog changed, what changed since one, and
what differs between any two catalogs or revisions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router
from pydantic import AfterValidator, Field

from catalogs import lookup
from catalogs.api.catalogs import catalog_state
from catalogs.api.schemas import (
    CatalogChangeRow,
    CatalogDifferenceRow,
    ChangeKind,
    DifferenceKind,
)
from catalogs.models import Catalog, CatalogChange
from catalogs.revisions.compare import PackageChange
from catalogs.revisions.differences import (
    FATE_LABELS,
    PackageDifference,
    Point,
    differences,
    find_point,
    find_point_at,
    read_number,
    read_point,
)
from catalogs.revisions.effects import AffectedOperator, Effect, effects, installed_from
from catalogs.revisions.text import markdown
from olmweb.api.formats import refuse
from olmweb.api.lists import (
    MARKDOWN,
    ComputedRows,
    Keyed,
    Page,
    ReportParameters,
    StoredRows,
    answer_list,
)
from olmweb.api.parameters import (
    SINCE,
    UNTIL,
    Moment,
    Values,
    at_or_after,
    before,
    own_value,
    read_moment,
    text,
    values,
)
from olmweb.errors import OlmwebError
from olmweb.models import Cluster

Row = Callable[[PackageDifference, PackageChange, list[str]], object]
router = Router(tags=["Catalogs"])


def read_revision(value: str) -> str:
    if read_number(value) is None:
        raise ValueError(f'must be the number of a revision, not "{value[:60]}".')
    return value


class ChangesParameters(ReportParameters):
    """`format=md` needs `from`, which takes one package and no revision, `since` or `until`."""

    origin: str = text(
        "Number of a revision, or a time: one net difference from then to the current revision, "
        "by package, instead of every revision's changes.",
        alias="from",
    )
    kind: Annotated[list[ChangeKind] | None, FilterLookup("kind__in")] = values("What changed.")
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    revision: Annotated[
        list[Annotated[str, AfterValidator(read_revision)]] | None,
        FilterLookup("revision__number__in"),
    ] = values("Number of the revision that changed it.")

    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=UNTIL)

    def filter_origin(self, _: str) -> Q:
        return Q()

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("revision__created_at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("revision__created_at", moment)


class CompareParameters(ReportParameters):
    first: str = Field(
        alias="from",
        description="CLUSTER/CATALOG or CLUSTER/CATALOG@REVISION; `-` for no cluster.",
    )
    second: str = Field(alias="to", description="The same for the other side.")
    kind: list[DifferenceKind] | None = values("What changed.")
    package: str = text("Name of the package.")


@router.get("/catalogs/{cluster}/{catalog}/changes", response=Page[CatalogChangeRow])
def list_changes(
    request: HttpRequest, cluster: str, catalog: str, query: Query[ChangesParameters]
) -> HttpResponseBase:
    """The changes of each revision, newest first; with `from` one net difference by package."""
    row = lookup.get_catalog(cluster, catalog)
    if query.origin:
        return _changes_from(request, row, query)
    if query.format == MARKDOWN:
        raise refuse("format", "format md needs from.")
    changes = query.filter(CatalogChange.objects.filter(revision__catalog=row))
    changes = changes.select_related("revision__catalog__cluster")
    source = StoredRows(changes, ("-id",), _history_rows)
    return answer_list(request, query, "changes", CatalogChangeRow, source, _state(row))


def _changes_from(
    request: HttpRequest, catalog: Catalog, query: ChangesParameters
) -> HttpResponseBase:
    for name in ("revision", "since", "until"):
        if getattr(query, name):
            raise refuse(name, f"{name} can't be given with from.", code="unknown-parameter")
    packages = query.package or [""]
    if len(packages) > 1:
        raise refuse("package", f"package is given {len(packages)} times; give it once.")
    start, end = _origin(catalog, query.origin), find_point(catalog)

    def row(_: PackageDifference, change: PackageChange, affects: list[str]) -> CatalogChangeRow:
        return CatalogChangeRow(
            end.number, end.at, own_value(change.kind), *change[1:], affects=affects
        )

    report = _Differences(start, end, packages[0], frozenset(query.kind or ()))
    rows, state = ComputedRows(lambda: report.rows(row)), [*_state(catalog), start.number]
    return answer_list(request, query, "changes", CatalogChangeRow, rows, state, report.markdown)


@router.get("/compare", response=Page[CatalogDifferenceRow])
def compare(request: HttpRequest, query: Query[CompareParameters]) -> HttpResponseBase:
    """The difference of two catalogs or revisions: packages removed, added and changed."""
    start, end = _point("from", query.first), _point("to", query.second)
    moves = start.sides(end) is not None

    def row(
        difference: PackageDifference, change: PackageChange, affects: list[str]
    ) -> CatalogDifferenceRow:
        return CatalogDifferenceRow(
            FATE_LABELS[difference.fate],
            own_value(change.kind),
            *change[1:],
            affects=[] if moves else affects,
            affects_if_moved=affects if moves else [],
        )

    report = _Differences(start, end, query.package, frozenset(query.kind or ()))
    rows = ComputedRows(lambda: report.rows(row))
    state = [part for point in (start, end) for part in (*_state(point.catalog), point.number)]
    return answer_list(
        request, query, "compare", CatalogDifferenceRow, rows, state, report.markdown
    )


@dataclass(frozen=True, slots=True)
class _Differences:
    """What differs from `before` to `after`; an empty package or kinds narrow nothing."""

    before: Point
    after: Point
    package: str
    kinds: frozenset[str]

    def matching(self) -> Iterator[PackageDifference]:
        for difference in differences(self.before, self.after, self.package):
            changes = [c for c in difference.changes if not self.kinds or c.kind in self.kinds]
            if changes:
                yield PackageDifference(difference.package, difference.fate, changes)

    def rows(self, row: Row) -> Iterator[Keyed]:
        installed = installed_from(self.before.catalog)
        sides = self.before.sides(self.after)
        for difference in self.matching():
            for number, change in enumerate(difference.changes):
                affects = _sentences(effects([change], installed, sides))
                yield Keyed((difference.package, number), row(difference, change, affects))

    def markdown(self) -> Iterable[str]:
        title = f"From {self.before} to {self.after}"
        installed = installed_from(self.before.catalog)
        return markdown(title, self.matching(), installed, self.before.sides(self.after))


def _state(catalog: Catalog) -> list[object]:
    """What changes whenever its changes do, or what is installed: rows name whom they affect."""
    cluster = catalog.cluster
    return [
        *catalog_state(catalog),
        cluster.revision if cluster else list(Cluster.objects.values_list("name", "revision")),
    ]


def _origin(catalog: Catalog, value: str) -> Point:
    """Raises the 400 for what is neither a revision nor a time, and Missing."""
    if (number := read_number(value)) is not None:
        return find_point(catalog, number)
    try:
        return find_point_at(catalog, read_moment(value))
    except ValueError as error:
        sentence = f'from must be the number of a revision or a time, not "{value[:60]}".'
        raise refuse("from", sentence) from error


def _point(side: str, value: str) -> Point:
    try:
        return read_point(value)
    except OlmwebError as error:
        error.fields = {side: error.message}
        raise


def _history_rows(changes: Sequence[CatalogChange]) -> list[CatalogChangeRow]:
    """`changes` are of one catalog and come with their revision and its catalog; one query."""
    installed: Mapping[str, Sequence[AffectedOperator]] = {}
    if changes:
        installed = installed_from(changes[0].revision.catalog)
    rows = []
    for row in changes:
        change = PackageChange(row.kind, row.package, row.subject, row.before, row.after)
        created_at = row.revision.created_at
        affects = _sentences(effects([change], installed))
        rows.append(
            CatalogChangeRow(
                row.revision.number,
                created_at,
                own_value(change.kind),
                *change[1:],
                affects=affects,
            )
        )
    return rows


def _sentences(affected: Iterable[Effect]) -> list[str]:
    return [
        f"{effect.installed.name} on {effect.installed.cluster}: {effect.text}"
        for effect in affected
    ]
