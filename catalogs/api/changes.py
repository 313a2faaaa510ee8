"""REST routes of changes: what each revision of a catalog changed, what changed since one, and
what differs between any two catalogs or revisions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.models import Catalog, CatalogChange
from catalogs.revisions.compare import Change
from catalogs.revisions.differences import (
    PackageDifference,
    Point,
    differences,
    find_point,
    find_point_at,
    read_point,
)
from catalogs.revisions.effects import Effect, InstalledOperator, effects, installed_from
from catalogs.revisions.text import markdown
from olmweb.api.computed import ComputedList, Keyed, Parameter, answer_computed, check_parameters
from olmweb.api.formats import refuse
from olmweb.api.lists import Filter, Key, ListOf, Page, answer_list, exact, read_moment
from olmweb.errors import OlmwebError
from olmweb.models import Cluster

KINDS = tuple(CatalogChange.Kind.values)
router = Router(tags=["Catalogs"])


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """`affects`: a sentence for each installed operator that the change concerns."""

    revision: int
    at: datetime | None
    kind: str
    package: str
    subject: str
    before: str
    after: str
    affects: list[str]


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """`fate` of the package: gone, added or changed."""

    fate: str
    kind: str
    package: str
    subject: str
    before: str
    after: str
    affects: list[str]


def _revision(value: str) -> Q:
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise ValueError(f'must be the number of a revision, not "{value[:60]}".')
    return Q(revision__number=int(value))


CHANGES: ListOf[CatalogChange] = ListOf(
    name="changes",
    row=ChangeRow,
    order=(Key("id", descending=True),),
    rows=lambda changes: _history_rows(changes),
    filters=(
        exact("package", "Name of the package.", "package"),
        Filter("kind", "What changed.", lambda value: Q(kind=value), choices=KINDS),
        Filter("revision", "Number of the revision that changed it.", _revision),
    ),
)
_FILTERS = (
    Parameter("kind", "What changed; may be repeated.", KINDS),
    Parameter("package", "Name of the package."),
)
SINCE = ComputedList(
    "changes",
    ChangeRow,
    (
        Parameter(
            "since",
            "Number of a revision, or a time: one net difference from then to the current "
            "revision, by package, instead of every revision's changes.",
        ),
        *_FILTERS,
    ),
)
COMPARE = ComputedList(
    "compare",
    DifferenceRow,
    (
        Parameter("from", "CLUSTER/CATALOG or CLUSTER/CATALOG@REVISION; `-` for no cluster."),
        Parameter("to", "The same for the other side."),
        *_FILTERS,
    ),
)


def _openapi() -> dict[str, Any]:
    """Both forms of the list: `since` turns the one into the other."""
    history, since = CHANGES.openapi()["parameters"], SINCE.openapi()["parameters"]
    known = {one["name"] for one in since}
    return {"parameters": [*(one for one in history if one["name"] not in known), *since]}


@router.get(
    "/catalogs/{cluster}/{catalog}/changes",
    response=Page[ChangeRow],
    openapi_extra=_openapi(),
)
def list_changes(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """What each revision changed, newest first; with `since` one net difference by package."""
    found = lookup.get_catalog(cluster, catalog)
    state = _state(found)
    if "since" not in request.GET:
        changes = CatalogChange.objects.filter(revision__catalog=found)
        changes = changes.select_related("revision__catalog__cluster")
        return answer_list(request, CHANGES, changes, state)
    asked = check_parameters(request, SINCE)
    before, after = _since(found, asked["since"][0]), find_point(found)

    def row(_: PackageDifference, change: Change, affects: list[str]) -> ChangeRow:
        return ChangeRow(after.number, after.at, *change, affects=affects)

    return _answer(request, SINCE, (before, after), asked, row, [*state, before.number])


@router.get("/compare", response=Page[DifferenceRow], openapi_extra=COMPARE.openapi())
def compare(request: HttpRequest) -> HttpResponseBase:
    """What differs between two catalogs or revisions: what would be gone, added and changed."""
    asked = check_parameters(request, COMPARE)
    points = (_point(asked, "from"), _point(asked, "to"))

    def row(found: PackageDifference, change: Change, affects: list[str]) -> DifferenceRow:
        return DifferenceRow(found.fate, *change, affects=affects)

    state = [part for point in points for part in (*_state(point.catalog), point.number)]
    return _answer(request, COMPARE, points, asked, row, state)


def _answer(
    request: HttpRequest,
    spec: ComputedList,
    points: tuple[Point, Point],
    asked: Mapping[str, list[str]],
    row: Callable[[PackageDifference, Change, list[str]], object],
    state: Sequence[object],
) -> HttpResponseBase:
    before, after = points
    package = asked["package"][0] if asked["package"] else ""
    kinds = frozenset(asked["kind"])

    def wanted() -> Iterator[PackageDifference]:
        for each in differences(before, after, package):
            changes = [one for one in each.changes if not kinds or one.kind in kinds]
            if changes:
                yield PackageDifference(each.package, each.fate, changes)

    def rows() -> Iterator[Keyed]:
        installed = installed_from(before.catalog)
        for each in wanted():
            for number, change in enumerate(each.changes):
                affects = _sentences(effects([change], installed))
                yield (each.package, number), row(each, change, affects)

    def text() -> Iterator[str]:
        title = f"From {before} to {after}"
        return markdown(title, wanted(), installed_from(before.catalog))

    return answer_computed(request, spec, rows, state, text)


def _state(catalog: Catalog) -> list[object]:
    """What changes whenever its changes do, or what is installed: whom they affect is told."""
    cluster = catalog.cluster
    return [
        *(catalog.pk, catalog.revision, catalog.content_hash, catalog.changed_at),
        catalog.synced_digest,
        cluster.revision if cluster else list(Cluster.objects.values_list("name", "revision")),
    ]


def _since(catalog: Catalog, value: str) -> Point:
    """Raises the 400 for what is neither a revision nor a time, and Missing."""
    if value.isascii() and value.isdigit() and len(value) <= 9:
        return find_point(catalog, int(value))
    try:
        return find_point_at(catalog, read_moment(value))
    except ValueError as error:
        sentence = f'since must be the number of a revision or a time, not "{value[:60]}".'
        raise refuse("since", sentence) from error


def _point(asked: Mapping[str, list[str]], side: str) -> Point:
    if not asked[side]:
        raise refuse(side, f"{side} is missing; give CLUSTER/CATALOG or CLUSTER/CATALOG@REVISION.")
    try:
        return read_point(asked[side][0])
    except OlmwebError as error:
        raise OlmwebError(
            error.message,
            code=error.code,
            status=error.status,
            hint=error.hint,
            fields={side: error.message},
        ) from error


def _history_rows(changes: Sequence[CatalogChange]) -> list[ChangeRow]:
    """`changes` are of one catalog and come with their revision and its catalog; one query."""
    installed: Mapping[str, Sequence[InstalledOperator]] = {}
    if changes:
        installed = installed_from(changes[0].revision.catalog)
    rows = []
    for each in changes:
        change = Change(each.kind, each.package, each.subject, each.before, each.after)
        affects = _sentences(effects([change], installed))
        rows.append(
            ChangeRow(each.revision.number, each.revision.created_at, *change, affects=affects)
        )
    return rows


def _sentences(found: Iterable[Effect]) -> list[str]:
    return [f"{one.installed.name} on {one.installed.cluster}: {one.text}" for one in found]
