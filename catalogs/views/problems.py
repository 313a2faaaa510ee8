"""The problems of a catalog's content: the tab of its page, and the report to download."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.fbc.lint_impact import INSTALLS, REACTIONS, REFUSES, SKIPS, Reactions, reactions_of
from catalogs.models import Catalog, ContentProblem
from catalogs.views import forms, presenters
from olmweb.web.forms import OptionField, QueryForm, TextField, read_page
from olmweb.web.pagination import paginate

ROWS = 10  # of the table on one page; messages and excerpts are long
PACKAGES = 40  # that the page counts by name; the filter takes any
READERS = (
    ("opm", "opm"),
    ("olm_v0", "OLM v0"),
    ("operator_controller", "operator-controller"),
    ("platform_operator", "PlatformOperator"),
)
FORMATS = (("csv", "CSV"), ("ndjson", "JSON Lines"), ("json", "JSON"))


class ProblemsForm(QueryForm):
    """Filters of the problems."""

    severity = OptionField("severity", ("", *ContentProblem.Severity.values))
    code = TextField()
    package = TextField(max_length=forms.MAX_VALUE)

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        if code and code not in REACTIONS:
            raise ValidationError(f"There is no kind of fault “{code[:60]}”; all kinds are shown.")
        return code


def problems_tab(request: HttpRequest, catalog: Catalog, notices: list[str]) -> dict[str, Any]:
    """Context of `_catalog_problems.html`, narrowed by the filters of the query string."""
    filters = ProblemsForm(request.GET, notices).cleaned_data
    everything = count_problems(find_problems(catalog))
    problems = find_problems(catalog, **filters)
    narrowed = count_problems(problems) if any(filters.values()) else everything
    number = read_page(request.GET, notices)
    page = paginate(problems, number, ROWS, notices, total=narrowed.total)
    return {
        **filters,
        "severities": ContentProblem.Severity.choices,
        "codes": [(group.code, group.about.title, group.count) for group in everything.groups],
        "counts": narrowed,
        "sentence": sentence(narrowed, catalog),
        "filtered": any(filters.values()),
        "downloads": _downloads(catalog, filters),
        "page": page,
        **described(list(page)),
    }


def described(problems: Sequence[ContentProblem]) -> dict[str, Any]:
    """The rows of `_problem_table.html`, each with the description of its code."""
    return {"problems": [(problem, reactions_of(problem.code)) for problem in problems]}


@require_safe
def report(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """The problems that the filters leave, as Markdown."""
    catalog_row = lookup.get_catalog(cluster, catalog)
    notices: list[str] = []
    problems = find_problems(catalog_row, **ProblemsForm(request.GET, notices).cleaned_data)
    if request.method == "HEAD":
        response: HttpResponseBase = HttpResponse()
    else:
        response = StreamingHttpResponse(markdown(catalog_row, problems))
    response["Content-Type"] = "text/markdown; charset=utf-8"
    name = presenters.file_name(catalog_row.slug)
    response["Content-Disposition"] = f'attachment; filename="{name}-problems.md"'
    return response


def _downloads(catalog: Catalog, filters: dict[str, str]) -> list[tuple[str, str]]:
    """(title, URL) of the filtered problems in each format."""
    chosen = {name: value for name, value in filters.items() if value}
    address = (catalog.cluster_name, catalog.slug)
    rest = reverse("api:list_problems", args=address)
    listed = [(title, f"{rest}?{urlencode({**chosen, 'format': kind})}") for kind, title in FORMATS]
    written = reverse("catalogs:problem-report", args=address)
    return [("Markdown", f"{written}?{urlencode(chosen)}" if chosen else written), *listed]


# -- counts and texts ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """The problems of one code: their number, their packages, and the reactions of readers."""

    code: str
    count: int
    packages: int
    about: Reactions

    @property
    def reactions(self) -> list[tuple[str, list[str]]]:
        """Each reaction with the readers that have it, the hardest first."""
        by_word: dict[str, list[str]] = {REFUSES: [], SKIPS: [], INSTALLS: []}
        for name, title in READERS:
            by_word[getattr(self.about, name)].append(title)
        return [(word, titles) for word, titles in by_word.items() if titles]


@dataclass(frozen=True, slots=True)
class Counts:
    """`refused` problems make opm refuse the whole catalog."""

    total: int
    refused: int
    packages: int
    groups: list[ProblemGroup]
    by_package: list[tuple[str, int]]  # most problems first


def find_problems(
    catalog: Catalog, *, severity: str = "", code: str = "", package: str = ""
) -> QuerySet[ContentProblem]:
    """Content problems, errors first. Filters with empty values don't narrow."""
    problems = catalog.problems.order_by("severity", "package", "id")
    filters = {"severity": severity, "code": code, "package": package}
    return problems.filter(**{name: value for name, value in filters.items() if value})


def count_problems(problems: QuerySet[ContentProblem]) -> Counts:
    """Three queries, whatever the number of problems."""
    plain = problems.order_by()
    codes = plain.values("code").annotate(n=Count("id"), p=Count("package", distinct=True))
    groups = [
        ProblemGroup(row["code"], row["n"], row["p"], reactions_of(row["code"])) for row in codes
    ]
    groups.sort(key=lambda group: (group.about.severity, -group.count, group.code))
    names = plain.values_list("package").annotate(n=Count("id")).order_by("-n", "package")
    whole = plain.aggregate(
        total=Count("id"),
        refused=Count("id", filter=Q(severity=ContentProblem.Severity.ERROR)),
        packages=Count("package", distinct=True),
    )
    return Counts(groups=groups, by_package=list(names[:PACKAGES]), **whole)


def sentence(counts: Counts, catalog: Catalog) -> str:
    """The consequence of the problems for the catalog as a whole; at most one query."""
    if not counts.total:
        return ""
    if not counts.refused:
        return "opm reads the catalog in spite of them, and so does every installer."
    too = any(group.about.operator_controller == REFUSES for group in counts.groups)
    v1 = "catalogd refuses it, too" if too else "catalogd serves it as it is"
    sentences = (
        f"opm refuses this content because of {counts.refused:,} "
        f"problem{'' if counts.refused == 1 else 's'}: the pod of a CatalogSource that serves it "
        "does not start, and Subscriptions and PlatformOperators get nothing from it then; "
        f"{v1}. OLM Web shows the packages without such a problem.",
        *(
            f"CatalogSource {source.namespace}/{source.name} of the cluster serves "
            f"{source.package_count:,} packages now."
            for source in _serving_sources(catalog)
        ),
    )
    return " ".join(sentences)


def _serving_sources(catalog: Catalog) -> QuerySet[Catalog]:
    """The CatalogSources of its name that serve packages on its cluster."""
    return Catalog.objects.filter(
        cluster=catalog.cluster_id,
        name=catalog.name,
        source_kind=Catalog.SourceKind.CATALOG_SOURCE,
        state=Catalog.State.SERVING,
        package_count__gt=0,
    ).exclude(cluster=None)


def place(problem: ContentProblem) -> str:
    """`catalog.yaml line 12, byte 4,711`, as far as it is known."""
    parts = []
    if problem.line is not None:
        parts.append(f"{problem.file} line {problem.line:,}".strip())
    if problem.offset is not None:
        parts.append(f"byte {problem.offset:,}")
    return ", ".join(parts)


def markdown(catalog: Catalog, problems: QuerySet[ContentProblem]) -> Iterator[str]:
    """A report by package and code, a piece at a time. Content is quoted as code throughout."""
    counts = count_problems(problems)
    yield f"# Problems of catalog {_code(catalog.slug)}\n\n"
    packages = "1 package" if counts.packages == 1 else f"{counts.packages:,} packages"
    yield f"{counts.total:,} in {packages}. {sentence(counts, catalog)}\n\n"
    yield f"Content: sha256 `{catalog.content_hash or 'unknown'}`, revision {catalog.revision}.\n"
    for group in counts.groups:
        yield f"\n## {group.about.title} (`{group.code}`, {group.count:,})\n\n"
        yield f"{group.about.remedy}\n\n"
        for word, titles in group.reactions:
            yield f"- **{word}**: {', '.join(titles)}\n"
        yield "\n"
        for problem in problems.filter(code=group.code).order_by("package", "id").iterator():
            yield from _item(problem)


def _item(problem: ContentProblem) -> Iterator[str]:
    named = [_code(part) for part in (problem.package, problem.subject, problem.field) if part]
    yield f"- {' · '.join(named) or 'the catalog'}: {_code(problem.message)}"
    if where := place(problem):
        yield f"; {_code(where)}"
    if problem.excerpt:
        yield f"\n  {_code(problem.excerpt)}"
    yield "\n"


def _code(text: str) -> str:
    """Inline code that no text can break out of: a fence longer than any run of backticks in it."""
    plain = " ".join(text.split())
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"
