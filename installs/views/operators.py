"""The operators list, by cause or as a table, and the page of one operator."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs import actions
from installs.models import NEEDS_ATTENTION, Health, Operator
from installs.queries import operators as queries
from installs.queries.filters import (
    ATTENTION,
    OperatorFilters,
    read_choice,
    read_operator_filters,
    read_sort,
)
from installs.views.live import render_live
from installs.views.story import chain, moments, spans, steps
from olmweb.context import attention
from olmweb.errors import Missing
from olmweb.polling import cluster_revision, revision_token, unchanged

VIEWS = ("cause", "all")
FILTER_WORDS = {
    "cluster": "Cluster",
    "kind": "Path",
    "namespace": "Namespace",
    "health": "Health",
    "reason": "Reason",
    "finding": "Cause",
    "package": "Package",
    "q": "Text",
}


@require_safe
def operator_list(request: HttpRequest) -> HttpResponse:
    """By cause when anything needs attention and nothing else was asked, else the table."""
    filters = read_operator_filters(request.GET)
    sort = read_sort(request.GET)
    chosen = read_choice(request.GET, "view", VIEWS)
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    view = chosen or _default_view(request, filters)
    context = {
        "filters": filters,
        "chips": _chips(filters),
        "sort": sort,
        "view": view,
        "facets": queries.facets(),
        "attention": sum(attention(request).values()),
        "ATTENTION": ATTENTION,
    }
    if view == "cause":
        found = queries.causes(filters)
        blocks = [(one, steps(one.finding.remedy) if one.finding else []) for one in found]
        context |= {"causes": blocks, "total": sum(cause.count for cause in found)}
    else:
        page = queries.operator_page(filters, sort=sort, cursor=request.GET.get("cursor", ""))
        rows = [(operator, queries.why(operator)) for operator in page.rows]
        context |= {"page": page, "rows": rows, "total": page.total}
    return render_live(request, "installs/operators.html", context, token=token)


def _default_view(request: HttpRequest, filters: OperatorFilters) -> str:
    narrowed = filters.finding or filters.reason or filters.q or filters.health
    return "cause" if not narrowed and any(attention(request).values()) else "all"


def _chips(filters: OperatorFilters) -> list[tuple[str, str, str]]:
    """(parameter, its word, value in words) of every filter in use."""
    titles = queries.finding_titles()
    healths = dict(Health.choices)
    words = []
    for name, value in filters.chosen():
        shown = value
        if name == "finding":
            shown = "not known" if value == "-" else titles.get(value, value)
        elif name == "health":
            shown = "needs attention" if value == ATTENTION else str(healths[value])
        elif name == "namespace" and value == "-":
            shown = "none"
        words.append((name, FILTER_WORDS[name], shown))
    return words


@require_safe
def operator_detail(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """One operator: where exactly it broke, since when, what to type."""
    operator = find_or_404(cluster, kind, namespace, name)
    action = queries.open_action(operator)
    token = revision_token(cluster_revision(request), action and (action.pk, action.state))
    if (answer := unchanged(request, token)) is not None:
        return answer
    components = queries.components_of(operator)
    diagnosis = queries.diagnose_row(operator, components)
    finding = queries.finding_of(operator) or diagnosis.finding
    transitions = queries.history(operator.cluster_id, kind, operator.namespace, name)
    context = {
        "operator": operator,
        "needs_attention": operator.health in NEEDS_ATTENTION,
        "why": queries.why(operator),
        "finding": finding,
        "steps": steps(finding.remedy) if finding else [],
        "diagnosis": diagnosis,
        "chain": chain(operator, diagnosis.chain, components),
        "components": components,
        "moments": moments(transitions),
        "spans": spans(transitions, operator),
        "same": queries.same_cause(operator),
        "packages": queries.packages_of(operator),
        "action": action,
        "removable": operator.kind in actions.REMOVABLE,
        "may_remove": _may_remove(request),
    }
    return render_live(request, "installs/operator.html", context, token=token)


def _may_remove(request: HttpRequest) -> tuple[bool, str]:
    """Whether to offer removal, and why not. Who is not signed in is offered it, by signing in."""
    if not request.user.is_authenticated:
        return True, ""
    return actions.may_act(request.user)


def find_or_404(cluster: str, kind: str, namespace: str, name: str) -> Operator:
    """The operator a URL names. Raises Missing with a sentence."""
    operator = None
    if "\x00" not in f"{cluster}{kind}{namespace}{name}":
        operator = queries.find_operator(cluster, kind, namespace, name)
    if operator is None:
        raise Missing(
            f"There is no {kind[:80]} {name[:120]} on cluster {cluster[:80]}.",
            code="unknown-operator",
            hint="It may have been removed; Activity and the operators list show what is there.",
        )
    return operator
