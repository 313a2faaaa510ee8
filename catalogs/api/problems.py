"""REST list of a catalog's faults of content, with what each reader makes of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.api.routes import state_of
from catalogs.fbc.lint_impact import reactions_of
from catalogs.models import ContentProblem
from olmweb.api.lists import Filter, Key, ListOf, Page, answer_list, exact

router = Router(tags=["Catalogs"])


@dataclass(frozen=True, slots=True)
class ReactionRow:
    """Each is "refuses the whole catalog", "skips it" or "installs anyway"."""

    opm: str
    olm_v0: str
    operator_controller: str
    platform_operator: str


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """`subject` is a channel or bundle; `offset` a byte of the decoded catalog, `line` counts from
    1 in `file` ("" for a catalog of one file): where it was when its package was last written."""

    package: str
    subject: str
    field: str
    code: str
    title: str
    severity: str
    message: str
    offset: int | None
    file: str
    line: int | None
    excerpt: str
    remedy: str
    reactions: ReactionRow


def problem_rows(problems: Iterable[ContentProblem]) -> list[ProblemRow]:
    rows = []
    for problem in problems:
        found = reactions_of(problem.code)
        rows.append(
            ProblemRow(
                package=problem.package,
                subject=problem.subject,
                field=problem.field,
                code=problem.code,
                title=found.title,
                severity=problem.severity,
                message=problem.message,
                offset=problem.offset,
                file=problem.file,
                line=problem.line,
                excerpt=problem.excerpt,
                remedy=found.remedy,
                reactions=ReactionRow(*found[2:]),
            )
        )
    return rows


PROBLEMS: ListOf[ContentProblem] = ListOf(
    name="problems",
    row=ProblemRow,
    order=(Key("package"), Key("id")),
    rows=problem_rows,
    filters=(
        exact("package", "Name of the package.", "package"),
        exact("subject", "Name of the channel or bundle.", "subject"),
        exact("code", "Code of the problem.", "code"),
        Filter(
            "severity",
            "error: opm refuses the whole catalog.",
            lambda value: Q(severity=value),
            choices=tuple(ContentProblem.Severity.values),
        ),
    ),
)


@router.get(
    "/catalogs/{cluster}/{catalog}/problems",
    response=Page[ProblemRow],
    openapi_extra=PROBLEMS.openapi(),
)
def list_problems(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """Faults of the catalog's content, in opm's wording where opm has one."""
    found = lookup.get_catalog(cluster, catalog)
    problems = ContentProblem.objects.filter(catalog=found)
    return answer_list(request, PROBLEMS, problems, state_of(found))
