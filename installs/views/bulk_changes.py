"""Bulk changes of the operators of a cause, or of selected ones: one review, one confirmation.

A GET sends no request to a cluster. The form works without JavaScript; htmx swaps it in place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from installs.actions import bulk, bulk_changes, record
from installs.actions.bulk import CAP, Item
from installs.actions.bulk_changes import BulkChange, BulkOptions, OperatorItem, cluster_of
from installs.actions.refusals import CARRIES_MORE
from installs.diagnosis.knowledge import Finding
from installs.methods import AUTOMATIC
from installs.models import NEEDS_ATTENTION, Action, Operator
from installs.models.steps import Delete, Step
from installs.presenters.diagnosis import resource_conflicts
from installs.queries import operators as queries
from installs.queries.operator_index import CauseFacts
from installs.queries.operators import OperatorFilters, cause_title
from installs.views.forms import (
    APPROVALS,
    CHANGED,
    METHODS,
    UNSURE,
    form_key,
    go_to,
    refusals_shown,
    show_form,
)
from installs.views.operators import OperatorsForm, list_query
from olmweb.accounts.roles import person, sign_in_required
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.resources import NAMESPACES, OPERATOR_GROUPS
from olmweb.models import Cluster
from olmweb.web.addresses import address
from olmweb.web.context import clusters

_LIST_LIMIT = 2000  # characters of the query of a list
VERBS = {
    BulkChange.MIGRATE: "Migrate",
    BulkChange.APPROVE: "Approve",
    BulkChange.RETRY: "Retry",
    BulkChange.REMOVE: "Remove",
}
NEXT_STEPS = {
    BulkChange.MIGRATE: "Migrate to Subscriptions",
    BulkChange.RETRY: "Retry all",
    BulkChange.REMOVE: "Remove all",
}


def next_step(
    finding: Finding | None,
    targets: Iterable[tuple[str, str]],
    operators: Sequence[Operator],
    **params: str,
) -> tuple[str, str]:
    """(words, address) of the first bulk change that the remedy of a cause names for its
    `operators`, by the (cluster, kind) of `targets`; empty ones without such a change. Of two that
    bring the same object a person decides which one stays: the page of causes has both."""
    for cluster, kind in targets:
        for change in bulk_changes.changes_for(finding, kind):
            query = {"cluster": cluster, "kind": kind, "finding": finding.id if finding else ""}
            if finding and resource_conflicts(operators, {}):
                listed = f"{address('installs:operators')}?{urlencode({'view': 'cause', **query})}"
                return "Choose one of two operators", f"{listed}#cause-{finding.id}"
            query |= {"change": change, **params}
            return NEXT_STEPS[change], f"{address('installs:bulk-change')}?{urlencode(query)}"
    return "", ""


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def bulk_change(request: HttpRequest) -> HttpResponse:
    """The operators of a cause that are of one kind on one cluster, or those that the parameters
    `operator` name; review with dry runs; confirmation, which makes one action for each."""
    is_post = request.method == "POST"
    params = request.POST if is_post else request.GET
    values = OperatorsForm.read(params)
    filters = OperatorFilters(**{k: v for k, v in values.items() if k not in ("sort", "view")})
    addresses = params.getlist("operator")
    if params.get("selection"):
        addresses = addresses or [""]
    context: dict[str, Any] = {"key": form_key(request), "cap": CAP, "filters": filters.chosen()}
    came_from = QueryDict(params.get("list", "")[:_LIST_LIMIT])
    context["list"] = came_from.urlencode()
    context["back"] = f"{reverse('installs:operators')}?{list_query(came_from) or 'view=cause'}"
    if params.get("from") == "overview":
        context["came_from"] = "overview"
        context["cancel"] = f"{reverse('overview')}?{urlencode({'cluster': values['cluster']})}"
    try:
        change = _change(params.get("change", ""))
        selected = bulk_changes.operators_of(addresses) if addresses else None
        cluster = _cluster(request, filters) if selected is None else cluster_of(selected)
    except BadRequest as error:
        context |= {"refusal": error, "nowhere": True, "verb_word": "Change"}
        return show_form(request, "bulk_change", context, failed=is_post)
    context |= {"change": change, "verb_word": VERBS[change], "cluster": cluster}
    picked = frozenset(params.getlist("pick"))
    options = BulkOptions(
        only=change == BulkChange.APPROVE and params.get("only") == "yes",
        approval=params.get("approval") or AUTOMATIC,
    )
    context |= {"options": options, "approvals": APPROVALS}
    hashed = bulk_changes.hash_of(change, cluster, picked, options)
    if params.get("step") == "confirm" and (
        earlier := bulk.earlier_batch(request.user, context["key"], hashed)
    ):
        return go_to(request, reverse("installs:batch", args=[earlier.pk]))
    if selected is None:
        matching = queries.operators_matching(filters).filter(health__in=NEEDS_ATTENTION)
        operators, total = list(matching.order_by("name", "pk")[:CAP]), matching.count()
        facts = [CauseFacts(row.finding, row.reason, row.kind, row.facts) for row in operators]
        finding = "" if filters.finding == "-" else filters.finding
        context["cause"] = cause_title(finding, filters.reason, facts)
    else:
        operators, total = selected, len(selected)
        context["addresses"] = [bulk_changes.address_of(row) for row in selected]
        query = list_query(came_from or QueryDict("view=all"), context["addresses"])
        context["back"] = f"{reverse('installs:operators')}?{query}"
    rows = bulk_changes.candidates(change, cluster, operators)
    ticked = picked if is_post else frozenset(row.key for row in rows if row.by_default)
    context |= _shown(rows, ticked, total=total) | {"kind": filters.kind}
    if not operators:
        context["refusal"] = BadRequest(
            "No operator needs this change any more.", code="none-selected"
        )
    if not is_post:
        context["reviews"] = bool(context["ticked_count"])  # at once, where scripts run
        return show_form(request, "bulk_change", context)
    try:
        return _review(request, change, cluster, rows, hashed, context)
    except OlmwebError as error:
        if error.status == 403:
            raise
        context["refusal"] = error
        return show_form(request, "bulk_change", context, failed=True)


def _change(text: str) -> BulkChange:
    try:
        return BulkChange(text)
    except ValueError:
        raise BadRequest(
            "This change is not available for several operators.",
            code="none-selected",
            hint="Open it from the list of operators or from the page of causes.",
        ) from None


def _cluster(request: HttpRequest, filters: OperatorFilters) -> Cluster:
    cluster = next((row for row in clusters(request) if row.name == filters.cluster), None)
    if cluster is None or not filters.kind or not filters.finding:
        raise BadRequest(
            "A bulk change needs a cluster, a kind and a cause.",
            code="none-selected",
            hint="Open it from the list of operators or from the page of causes.",
        )
    return cluster


def _shown(rows: list[OperatorItem], ticked: frozenset[str], total: int) -> dict[str, Any]:
    lines = _plan_lines(rows)
    shown = [
        {
            "row": row,
            "ticked": row.key in ticked and not row.item.problem,
            "lines": lines.get(row.key, ()),
        }
        for row in rows
    ]
    ticked_rows = [row for row in rows if row.key in ticked and not row.item.problem]
    replaced = sum(row.replaced_by is not None for row in ticked_rows)
    return {
        "rows": shown,
        "ticked_count": len(ticked_rows),
        "possible_count": sum(row.possible for row in rows),
        "replaced_count": replaced,
        "migrated_count": len(ticked_rows) - replaced,
        "total": total,
    }


def _plan_lines(rows: Iterable[OperatorItem]) -> dict[str, list[str]]:
    """By key of the row, what its plan does. A namespace that several installs need, and its
    OperatorGroup, are created with the first of them."""
    lines: dict[str, list[str]] = {}
    creators: dict[str, str] = {}  # label of an object -> name of the operator
    for row in rows:
        if (plan := row.item.plan) is None:
            continue
        lines[row.key] = texts = []
        if plan.verb == Action.Verb.INSTALL and (package := row.item.candidate.package):
            texts.append(f"Installs from catalog {package.catalog.name}")
        new = {}
        for step in plan.steps:
            verb = "Deletes" if step.verb == Delete.verb else "Updates"
            if step.verb == Delete.verb or plan.verb != Action.Verb.INSTALL:
                texts.append(f"{verb} {step.label}")
            elif not step.main:
                new[step.kind] = creators.setdefault(step.label, row.operator.name)
            else:
                texts.append(_creation(step, new, row.operator.name))
    return lines


def _creation(step: Step, new: Mapping[str, str], operator: str) -> str:
    """The creation of the main object of an install. `new` has the kinds of the objects that are
    created with it, and the name of the first operator that needs each."""
    place = f" in namespace {step.namespace}"
    if new.get(NAMESPACES.kind) == operator:
        place = f" in new namespace {step.namespace}"
    elif first := new.get(NAMESPACES.kind):
        place += f", which is created with {first}"
    group = ", with an OperatorGroup" if new.get(OPERATOR_GROUPS.kind) == operator else ""
    return f"Creates {step.kind} {step.name}{place}{group}"


def _review(
    request: HttpRequest,
    change: BulkChange,
    cluster: Cluster,
    rows: list[OperatorItem],
    request_hash: str,
    context: dict[str, Any],
) -> HttpResponse:
    """Runs the dry runs first; records the batch on confirmation of those that passed."""
    confirming = request.POST.get("step") == "confirm"
    picked = frozenset(request.POST.getlist("pick"))
    chosen = [row for row in rows if row.key in picked]
    if not chosen:
        raise BadRequest("Select at least one operator.", code="none-selected")
    planned = bulk_changes.plan_items(change, chosen, context["options"])
    purpose = f"bulk-{change}"
    if confirming:
        plans = [row.item.plan for row in planned if row.item.plan is not None]
        try:
            record.require_reviewed(request.POST.get("reviewed", ""), plans, request.user, purpose)
        except OlmwebError:
            raise CHANGED from None
    items = bulk.dry_run([row.item for row in planned], request.user)
    for item in items:
        result = item.dry_run_result
        if item.plan is not None and result is not None and result.code == CARRIES_MORE:
            record.record_refusal(item.plan, request.user, result)
    accepted = bulk.accepted(items)
    if confirming and (change != BulkChange.REMOVE or request.POST.get("sure") == "yes"):
        kinds = {plan.kind for plan in accepted}
        left = [Item(row.item.candidate, problem=row.item.candidate.hindrance) for row in rows]
        batch = bulk.record_batch(
            [*items, *(item for item in left if item.problem)],
            cluster,
            kinds.pop() if len(kinds) == 1 else "",
            request.user,
            key=context["key"],
            request_hash=request_hash,
            verb=change,
        )
        return go_to(request, reverse("installs:batch", args=[batch.pk]))
    migrations = sum(plan.verb == Action.Verb.INSTALL for plan in accepted)
    by_key = {row.key: item for row, item in zip(planned, items, strict=True)}
    results = [replace(row, item=by_key.get(row.key, row.item)) for row in rows]
    context |= _shown(results, picked, context["total"]) | {
        "reviewed": record.reviewed(accepted, request.user, purpose) if accepted else "",
        "accepted": len(accepted),
        "accepted_migrations": migrations,
        "accepted_deletions": len(accepted) - migrations,
        "was_reviewed": True,
    }
    context |= refusals_shown(row.item for row in results)
    if confirming:
        context["refusal"] = UNSURE
    return show_form(request, "bulk_change", context, failed=confirming or not accepted)
