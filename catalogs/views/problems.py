"""The problems of a catalog's content: the tab of its page, and the report to download."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.fbc.lint_impact import REACTIONS, reactions_of
from catalogs.models import Catalog, ContentProblem
from catalogs.views import forms, presenters
from catalogs.views.problem_report import count_problems, find_problems, markdown, sentence
from olmweb.web.forms import OptionField, QueryForm, TextField

ROWS = 50  # of the table on one page
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
    number = forms.read_page(request.GET, notices)
    page = presenters.paginate(problems, number, ROWS, notices, total=narrowed.total)
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
