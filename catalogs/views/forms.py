"""Query strings of the catalog pages, read tolerantly.

A bookmark must never end in an error: what can't be read is left out, and a notice says so.
"""

from dataclasses import dataclass, field

from django.http import HttpRequest, QueryDict

from catalogs import search
from catalogs.models import Catalog
from catalogs.views import forms
from olmweb.models import Cluster
from olmweb.web.context import clusters

MAX_QUERY = 200  # characters of a search
MAX_VALUE = 300  # characters of a facet value: the longest column behind one
MAX_VALUES = 20  # values of one facet
FILTER_NAMES = (search.INSTALLED, *search.FACETS)
ALONE = "-"  # the choice of no cluster, in the parameter `cluster`


@dataclass(slots=True)
class Query:
    """What a query string of the software catalog asks for. `page` counts from 1."""

    filters: search.Filters = field(default_factory=search.Filters)
    view: str = "cards"
    page: int = 1
    bundles_page: int = 1  # of the bundles that use an image
    notices: list[str] = field(default_factory=list)


def read_query(params: QueryDict) -> Query:
    """Reads search, facets, sort, view and page; unreadable values become notices."""
    notices: list[str] = []
    q = clean(params.get("q", ""))
    if len(q) > MAX_QUERY:
        q = q[:MAX_QUERY]
        notices.append(f"The search was cut to its first {MAX_QUERY} characters.")
    _notice_odd_search(q, notices)
    filters = search.Filters(
        q=q,
        chosen=_read_choices(params, notices),
        sort=one_of(params, "sort", search.SORTS, notices),
    )
    return Query(
        filters=filters,
        view=one_of(params, "view", ("cards", "table"), notices),
        page=read_page(params, notices),
        bundles_page=read_page(params, notices, "bundles_page"),
        notices=notices,
    )


def _notice_odd_search(q: str, notices: list[str]) -> None:
    asked = search.take_apart(q)
    if asked.ignored:
        notices.append(f"Only the first {search.MAX_WORDS} words of the search are used.")
    if any("sha256:" in each.lower() and not search.digest_of(each) for each in asked.images):
        notices.append(
            f"A digest needs its first {search.DIGEST_START} characters after “sha256:”."
        )


def _read_choices(params: QueryDict, notices: list[str]) -> dict[str, frozenset[str]]:
    chosen: dict[str, frozenset[str]] = {}
    for name in FILTER_NAMES:
        values = list(dict.fromkeys(value for value in map(clean, params.getlist(name)) if value))
        if len(values) > MAX_VALUES:
            values = values[:MAX_VALUES]
            notices.append(f"Only the first {MAX_VALUES} values of “{name}” are used.")
        answers = search.ANSWERS.get(name)
        if answers:
            by_lower = {answer.lower(): answer for answer in answers}
            readable = [by_lower[value.lower()] for value in values if value.lower() in by_lower]
        else:
            readable = [value for value in values if len(value) <= MAX_VALUE]
        if len(readable) < len(values):
            known = f" Use {', '.join(answers[:-1])} or {answers[-1]}." if answers else ""
            notices.append(f"A value of “{name}” can't be read and was left out.{known}")
        if readable:
            chosen[name] = frozenset(readable)
    return chosen


def one_of(
    params: QueryDict, name: str, known: tuple[str, ...], notices: list[str] | None = None
) -> str:
    """The parameter when it is one of `known`, in any case, else the first (with a notice)."""
    value = params.get(name, "")
    for answer in known:
        if value.lower() == answer.lower():
            return answer
    if value and notices is not None:
        notices.append(f"“{name}” can be {', '.join(known)}; {known[0]} is shown.")
    return known[0]


def read_page(params: QueryDict, notices: list[str], name: str = "page") -> int:
    """A page number from 1; anything else is page 1 with a notice."""
    value = params.get(name, "")
    if not value:
        return 1
    if value.isascii() and value.isdigit() and len(value) <= 6 and int(value) >= 1:
        return int(value)
    notices.append("Pages are counted from 1; the first page is shown.")
    return 1


def clean(value: str) -> str:
    """Control characters become spaces (PostgreSQL refuses NUL); no outer spaces."""
    return "".join(char if char.isprintable() else " " for char in value).strip()


@dataclass(frozen=True, slots=True)
class Standpoint:
    """`cluster` is None where the catalog alone is asked; `choices` are values of the parameter
    `cluster`, the chosen one among them, empty where there is nothing to choose."""

    cluster: Cluster | None
    choices: tuple[str, ...] = ()

    @property
    def cluster_id(self) -> int | None:
        return self.cluster.pk if self.cluster else None

    @property
    def chosen(self) -> str:
        return self.cluster.name if self.cluster else ALONE


def standpoint(request: HttpRequest, catalog: Catalog, notices: list[str]) -> Standpoint:
    """A catalog of a cluster is judged for that one, one of none for each and by itself. What the
    parameter `cluster` asks for beyond that becomes a notice."""
    asked = forms.clean(request.GET.get("cluster", ""))
    if catalog.cluster is not None:
        if asked not in ("", catalog.cluster.name):
            notices.append(
                f"The catalog is of cluster {catalog.cluster.name}: "
                f"it is not judged for “{asked[:60]}”."
            )
        return Standpoint(catalog.cluster)
    known = {each.name: each for each in clusters(request)}
    if asked not in ("", ALONE, *known):
        notices.append(f"There is no cluster “{asked[:60]}”: the catalog alone is asked.")
    return Standpoint(known.get(asked), (ALONE, *known) if known else ())
