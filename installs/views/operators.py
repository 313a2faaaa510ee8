"""Pages of operators: the list, by cause or as a table, one operator, and the messages without an
explanation."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalogs.models import Catalog
from catalogs.views.presenters import icon_url
from installs.actions import buttons
from installs.actions.alternatives import catalogs_beside
from installs.actions.bulk_changes import (
    BulkChange,
    address_of,
    changes_for,
    possible_changes,
)
from installs.actions.configuration import is_configurable
from installs.actions.plan_changes import progress_of
from installs.methods import METHODS
from installs.models import NEEDS_ATTENTION, AccessAnswer, Action, Health, Operator
from installs.presenters.diagnosis import (
    chain,
    condition_tables,
    notes_shown,
    related_objects,
    remedy_links,
    remedy_steps,
    resource_conflicts,
)
from installs.presenters.object_details import (
    deployments,
    facts_of,
    listed,
    requirements_of,
    waiting_pods,
)
from installs.presenters.timeline import (
    Span,
    condition_reports,
    flapping,
    healths_of,
    shares,
    spans,
    timeline,
)
from installs.queries import operator_detail as detail
from installs.queries import operators as queries
from installs.queries.activity import ACTIONS
from installs.queries.catalog_references import catalog_of_operator
from installs.queries.leftovers import leftovers_of
from installs.queries.lookup import NO_NAMESPACE, get_operator
from installs.queries.operator_detail import pending_plan, repeated_plans
from installs.queries.operator_table import (
    OPERATORS,
    OperatorLine,
    operator_lines,
    runs_beside_update,
    sorted_rows,
)
from installs.queries.operators import finding_of, why
from installs.queries.unknown_messages import matching, unknown_rows
from installs.state.dependencies import noted_package
from installs.state.observation import details_of, diagnose_row
from olmweb.accounts.roles import may_act
from olmweb.api.formats import fill
from olmweb.api.lists import StoredRows, export_table
from olmweb.errors import Missing
from olmweb.models import REMOVED_TEXT, Cluster
from olmweb.web.addresses import address
from olmweb.web.context import attention, clusters
from olmweb.web.forms import ChoiceFilter, FilterForm, SortFilter, TextFilter, read_page
from olmweb.web.pages import (
    cluster_revision,
    cluster_topic,
    render_live,
    render_page,
    revision_token,
    unchanged,
)
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

SPANS_SHOWN = 6
# Terms of facts that the page shows under another name.
_SHOWN_BESIDE = ("Version", "Starting CSV")
CHANGED_CLUSTERS = 2  # of a cause, with a button each
CHANGE_WORDS = {  # the count and the kind; plural by an s at the end
    BulkChange.MIGRATE: "Migrate {0} to Subscription",
    BulkChange.RETRY: "Retry {0} {1}",
    BulkChange.REMOVE: "Remove {0} {1}",
}
SELECTED_CHANGES = (  # each with its words, and those for a selection that does not allow it
    (BulkChange.APPROVE, "Approve", "No selected operator requires approval."),
    (BulkChange.RETRY, "Retry", "No selected operator failed."),
    (
        BulkChange.MIGRATE,
        "Migrate to Subscription",
        "No selected operator has a Subscription as its remedy.",
    ),
    (BulkChange.REMOVE, "Remove", ""),
)
VIEWS = ("cause", "all")
FILTER_WORDS = {
    "cluster": "Cluster",
    "kind": "Install method",
    "namespace": "Namespace",
    "health": "Health",
    "reason": "Reason",
    "finding": "Cause",
    "package": "Package",
    "upgrade": "Upgrade",
    "q": "Text",
}


@require_safe
def operator_detail(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Cause, remedy, chain, requirements, timeline and conditions of one operator; the history of
    one that was removed."""
    try:
        operator = get_operator(cluster, kind, namespace, name)
    except Missing:
        where = "" if namespace == NO_NAMESPACE else namespace
        removed = detail.removed_operator(cluster, kind, where, name)
        if removed is None:
            raise
        return _removed_page(request, removed)
    action = detail.open_action(operator)
    token = revision_token(
        cluster_revision(request, cluster), action and (action.pk, action.state), _minute(operator)
    )
    if (answer := unchanged(request, token)) is not None:
        return answer
    beside = cache(partial(catalogs_beside, operator))
    details, method = _diagnosis_context(operator, beside), METHODS.get(operator.kind)
    configurable = is_configurable(operator)
    upgradable = method is not None and method.upgradable and not _first_install(operator, details)
    context = {
        "operator": operator,
        "needs_attention": operator.health in NEEDS_ATTENTION,
        "runs_beside_update": runs_beside_update(operator),
        "action": action,
        "removable": operator.kind in METHODS,
        "may_remove": _may_remove(request, operator.cluster),
        **_offered_actions(
            request, operator, details, upgradable=upgradable, configurable=configurable
        ),
        "installed_nothing": queries.has_installed_nothing(operator)
        or queries.awaits_first_approval(operator),
        "progress": progress_of(operator, operator.route),  # type: ignore[attr-defined]
        **details,
        "steps": remedy_steps(
            details["remedy"],
            remedy_links(
                request.user, operator, details["finding"], beside, configurable=configurable
            ),
        ),
    }
    topics = [cluster_topic(request, cluster), "actions"]
    if _in_progress(operator):
        topics.append("minute")
    return render_live(request, "installs/operator.html", context, token=token, topics=topics)


@dataclass(frozen=True, slots=True)
class ActionLink:
    """An action on an operator: `refused` is the refusal of the cluster, if there was one."""

    verb: str
    words: str
    address: str
    refused: AccessAnswer | None


def _offered_actions(
    request: HttpRequest,
    operator: Operator,
    details: Mapping[str, Any],
    *,
    upgradable: bool,
    configurable: bool,
) -> dict[str, Any]:
    """`primary`: what the state of the operator calls for, if anything; `more`: the other actions,
    in the order of the menu."""
    refused = buttons.refusals(
        request.user,
        operator,
        details["pending"].approval.namespace if details["pending"] else "",
    )
    where = (
        operator.cluster.name,
        operator.kind,
        operator.namespace or NO_NAMESPACE,
        operator.name,
    )

    def link(verb: Action.Verb, words: str) -> ActionLink:
        address = reverse(f"installs:{verb}", args=where)
        return ActionLink(verb, words, address, refused.get(verb))

    verb, links, primary = Action.Verb, [], ""
    if details["pending"]:
        plan = details["pending"].approval
        address = reverse("installs:approve", args=(where[0], plan.namespace, plan.plan))
        links.append(ActionLink(verb.APPROVE, "Approve", address, refused.get(verb.APPROVE)))
        primary = verb.APPROVE
    if upgradable:
        links.append(link(verb.UPGRADE, _upgrade_words(operator)))
        if not primary and _has_upgrade(operator) and not operator.upgrade_held:
            primary = verb.UPGRADE
    if configurable:
        links.append(link(verb.CONFIGURE, "Edit configuration"))
    if operator.health in NEEDS_ATTENTION and operator.health != Health.NEEDS_APPROVAL:
        links.append(link(verb.RETRY, "Retry"))
        if not primary and (details["finding"] is None or details["finding"].retryable):
            primary = verb.RETRY
    if operator.kind in METHODS:
        links.append(link(verb.REMOVE, "Remove"))
    return {
        "primary": next((row for row in links if row.verb == primary), None),
        "more": [row for row in links if row.verb != primary],
    }


def _has_upgrade(operator: Operator) -> bool:
    return bool(operator.upgrade) and operator.upgrade != operator.version


def _upgrade_words(operator: Operator) -> str:
    """The action of the form `upgrade`, which also changes an operator of the newest version."""
    return "Upgrade" if _has_upgrade(operator) else METHODS[operator.kind].change_words


def _removed_page(request: HttpRequest, removed: detail.RemovedOperator) -> HttpResponse:
    """The page of a removed operator; visitors without a session are shown no actions. An open page
    of the operator is told to load it."""
    if "rev" in request.GET:
        return HttpResponse(headers={"HX-Refresh": "true"})
    row, signed_in = removed.deletion, request.user.is_authenticated
    packages = (action.package for action in removed.actions if action.package)
    package = next(packages, "") or noted_package(row.message)
    left = leftovers_of(row.cluster, row.kind, row.namespace, row.name, package)
    context = {
        "removed": removed,
        "row": row,
        "removal": removed.removal if signed_in else None,
        "rows": removed.actions if signed_in else (),
        "leftovers": [(owner, remedy_steps(owner.steps)) for owner in left],
        "acts": may_act(request.user)[0],
        "table": ACTIONS.view(request, ""),
        "timeline": timeline((row.kind, row.namespace, row.name), removed.transitions),
        "retention_days": settings.RETENTION_DAYS,
    }
    return render(request, "installs/operator_removed.html", context)


def _diagnosis_context(
    operator: Operator, beside: Callable[[], Sequence[Catalog]]
) -> dict[str, Any]:
    """Everything that the rows say of it; at most eight queries, and that of `beside`, the catalogs
    beside the operator, if its own catalog is none of those with the package."""
    parts = detail.parts_of(operator)
    diagnosis = diagnose_row(operator, parts.components, parts.unread)
    finding = finding_of(operator) or diagnosis.finding
    keys = parts.keys(operator)
    transitions = detail.history(operator.cluster_id, keys)
    events = detail.events_of(operator.cluster_id, keys)
    own_spans = spans(transitions, operator)
    notes = notes_shown(diagnosis.notes)
    packages = detail.packages_of(operator)
    return {
        "why": why(operator),
        "finding": finding,
        "remedy": finding.remedy if finding else (),
        "chain": chain(operator, diagnosis.chain, parts),
        "related_objects": related_objects(diagnosis.chain, parts),
        "tables": condition_tables(operator, parts.components),
        "facts": [fact for fact in facts_of(operator) if fact.term not in _SHOWN_BESIDE],
        "notes": notes,
        "deprecation_shown": any(note.state == "deprecated" for note in notes),
        "slow": any(note.state == "stuck" for note in notes),
        "flapping": flapping(healths_of(operator, transitions)),
        "pending": pending_plan(operator, parts),
        "repeated": repeated_plans(operator, parts),
        "requirements": requirements_of(operator.cluster, parts.components),
        "pods": waiting_pods(parts.components),
        "deployments": deployments(parts.components),
        "timeline": timeline(
            keys[0], transitions, events, condition_reports([operator, *parts.components])
        ),
        "since": _since(operator, own_spans),
        "spans": own_spans[-SPANS_SHOWN:],
        "earlier_spans": own_spans[:-SPANS_SHOWN],
        "shares": shares(own_spans) if len(own_spans) > SPANS_SHOWN else [],
        "packages": packages,
        "catalog": catalog_of_operator(operator, (package.catalog for package in packages), beside),
    }


def _since(operator: Operator, own_spans: Sequence[Span]) -> datetime | None:
    """Since when it has its health, as in the timeline."""
    if own_spans and own_spans[-1].health == operator.health:
        return own_spans[-1].since
    return operator.since


def _first_install(operator: Operator, details: Mapping[str, Any]) -> bool:
    """Whether the first InstallPlan waits for approval, so that nothing can be upgraded."""
    installed = details_of(operator).get("installed_csv")
    return bool(operator.kind == "Subscription" and details["pending"] and not installed)


def _minute(operator: Operator) -> int:
    """The current minute while a step is in progress: time alone makes a step a slow one."""
    return int(timezone.now().timestamp() // 60) if _in_progress(operator) else 0


def _in_progress(operator: Operator) -> bool:
    return operator.deleting or operator.health in (Health.INSTALLING, Health.UPGRADING)


def _may_remove(request: HttpRequest, cluster: Cluster | None = None) -> tuple[bool, str]:
    """Whether to offer removal and other actions, on `cluster` if it is given, and the reason if
    not. Visitors without a session are offered them.
    """
    if cluster is not None and cluster.removed:
        return False, REMOVED_TEXT.format(cluster.name)
    if not request.user.is_authenticated:
        return True, ""
    return may_act(request.user)


class OperatorsForm(FilterForm):
    """The fields of OperatorFilters, the order and the view of the list."""

    cluster = TextFilter()
    kind = TextFilter()
    namespace = TextFilter()
    health = ChoiceFilter((queries.ATTENTION, *Health.values), noun="health")
    reason = TextFilter()
    finding = TextFilter()
    package = TextFilter()
    upgrade = ChoiceFilter(("yes",))
    q = TextFilter()
    sort = SortFilter(OPERATORS.names)
    view = ChoiceFilter(VIEWS)


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A row of the exported table; `status` and `upgrade` are apart, as on the page."""

    name: str
    package: str
    cluster: str
    kind: str
    namespace: str
    managed_namespaces: str
    status: str
    why: str
    version: str
    upgrade: str
    channel: str
    approval: str
    catalog: str
    since: datetime | None


@require_safe
def operator_export(request: HttpRequest) -> HttpResponseBase:
    """The table as CSV: every matching operator, in its order, with the columns shown."""
    values = OperatorsForm.read(request.GET)
    sort, _view = values.pop("sort"), values.pop("view")
    table = OPERATORS.view(request, sort)
    rows = sorted_rows(queries.OperatorFilters(**values), table.order)
    return export_table(request, table, StoredRows(rows, table.order, _export_rows))


def _export_rows(operators: Sequence[Operator]) -> list[ExportRow]:
    return [
        fill(
            ExportRow,
            line.operator,
            cluster=line.operator.cluster.name,
            managed_namespaces=line.managed_words,
            status=line.health,
            why=line.why,
            version=line.version,
            upgrade=line.operator.upgrade if line.has_upgrade else "",
            approval=line.approval,
        )
        for line in operator_lines(operators)
    ]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: its line, the address of its page, of its icon (empty without one), and
    its menu, words to address. A row with a menu can be selected for its removal and `changes`."""

    line: OperatorLine
    url: str
    icon_url: str
    menu: dict[str, str]
    ticked: bool = False
    changes: tuple[BulkChange, ...] = ()

    @property
    def address(self) -> str:
        """Its value in a selection."""
        return address_of(self.line.operator)


def _rows(request: HttpRequest, operators: Sequence[Operator]) -> list[Row]:
    """The rows with the actions that the person may take; at most four queries beside those of the
    role."""
    lines = operator_lines(operators)
    acts, _why_not = may_act(request.user)
    refused = buttons.refused_verbs(request.user, operators) if acts else {}
    ticked = frozenset(request.GET.getlist("operator"))
    rows = []
    for line in lines:
        row = line.operator
        url = address(
            "installs:operator", row.cluster.name, row.kind, row.namespace or "-", row.name
        )
        menu = {}
        if acts and not row.cluster.removed:
            off = refused.get(row.pk, frozenset())
            menu = {
                (_upgrade_words(row) if verb == "upgrade" else verb.capitalize()): target
                for verb, target in _actions(row, url).items()
                if verb not in off
            }
        icon = icon_url(line.icon) if line.icon else ""
        possible = possible_changes(row) if menu else ()
        changes = tuple(change for change in possible if change != BulkChange.REMOVE)
        rows.append(Row(line, url, icon, menu, address_of(row) in ticked, changes))
    return rows


def _actions(row: Operator, url: str) -> dict[str, str]:
    """Verb -> address of its form, of the actions that the state of the operator allows; `url` is
    that of its page, which the routes of its actions begin with."""
    method, details = METHODS.get(row.kind), details_of(row)
    if method is None:
        return {}
    waits = row.health == Health.NEEDS_APPROVAL
    addresses = {}
    if waits and details.get("plan"):
        namespace = str(details.get("plan_namespace") or row.namespace)
        addresses["approve"] = address(
            "installs:approve", row.cluster.name, namespace, str(details["plan"])
        )
    if method.upgradable and not queries.awaits_first_approval(row):
        addresses["upgrade"] = f"{url}/upgrade"
    if row.health in NEEDS_ATTENTION and not waits:
        addresses["retry"] = f"{url}/retry"
    addresses["remove"] = f"{url}/remove"
    return addresses


@remember_view
@require_safe
def operator_list(request: HttpRequest) -> HttpResponse:
    """By cause when an operator needs attention and nothing is filtered, else the table."""
    values = OperatorsForm.read(request.GET)
    sort, chosen = values.pop("sort"), values.pop("view")
    filters = queries.OperatorFilters(**values)
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    view = chosen or _default_view(request, filters)
    facets, total = queries.facets(clusters(request), filters)
    alone = () if len(facets["cluster"]) > 1 else ("cluster",)
    table = OPERATORS.view(request, sort, without=alone)
    notices: list[str] = []
    context = {
        "notices": notices,
        "filters": filters,
        "chips": _chips(filters),
        "sort": sort,
        "table": table,
        "view": view,
        "facets": facets,
        "unread": all(cluster.synced_at is None for cluster in clusters(request)),
    }
    if view == "cause":
        why_not = _may_remove(request)[1]
        removed = {row.name for row in clusters(request) if row.removed}
        several = not filters.cluster and len(clusters(request)) > 1
        names = queries.NAMES_OF_SEVERAL if several else queries.NAMES_SHOWN
        remedies = names if several else queries.REMEDIES_SHOWN
        causes = queries.causes(clusters(request), filters, names=names, remedies=remedies)
        owners = queries.conflict_owners(causes)
        blocks = [
            (
                cause,
                [(listed(remedy.names), remedy_steps(remedy.steps)) for remedy in cause.remedies],
                _bulk_links(cause, filters, removed),
                len(cause.clusters) - CHANGED_CLUSTERS,
                resource_conflicts(cause.operators, owners),
                *_not_migrated(cause),
            )
            for cause in causes
        ]
        total = sum(cause.count for cause in causes)
        context |= {
            "causes": blocks,
            "all_causes": causes,
            "total": total,
            "why_not": why_not,
        }
    else:
        ordered = sorted_rows(filters, table.order)
        number = read_page(request.GET, notices)
        page = paginate(ordered, number, PAGE_SIZE, notices, total=total)
        rows = _rows(request, list(page))
        context |= {
            "page": page,
            "rows": rows,
            "menus": any(row.menu for row in rows),
            "bulk_changes": SELECTED_CHANGES,
            "list_query": list_query(request.GET),
            "total": total,
        }
    return render_live(
        request, "installs/operators.html", context, token=token, topics=("clusters",)
    )


def list_query(params: QueryDict, ticked: Sequence[str] = ()) -> str:
    """The query of the list with these filters, its page and the operators of the addresses
    ticked."""
    query = params.copy()
    for name in ("rev", "operator"):
        query.pop(name, None)
    query.setlist("operator", list(ticked))
    return query.urlencode()


def _bulk_links(
    cause: queries.CauseGroup, filters: queries.OperatorFilters, removed: Collection[str]
) -> list[tuple[str, str, BulkChange]]:
    """(words, address, change) of the changes that fix the cause for all its operators, on the
    CHANGED_CLUSTERS with the most of them; nothing on `removed` clusters."""
    clusters = cause.clusters
    several = len(clusters) > 1
    first = clusters[:CHANGED_CLUSTERS]
    links = []
    for target in cause.targets:
        if target.cluster not in first or target.cluster in removed:
            continue
        remedies = [remedy.templates for remedy in cause.remedies]
        for change in changes_for(cause.finding, target.kind, remedies):
            count = target.migratable if change == BulkChange.MIGRATE else target.count
            if not count:
                continue
            words = CHANGE_WORDS[change].format(count, target.kind)
            words += "s" if count != 1 else ""
            if change == BulkChange.MIGRATE and target.replaced:
                words += f", remove {target.replaced}"
            words += f" on {target.cluster}" if several else ""
            chosen = dict(filters.chosen())
            came_from = {"list": urlencode({"view": "cause", **chosen})} if chosen else {}
            chosen |= {"cluster": target.cluster, "kind": target.kind}
            query = urlencode(chosen | {"finding": cause.id, "change": change} | came_from)
            links.append((words, f"{address('installs:bulk-change')}?{query}", change))
    return links


def _not_migrated(cause: queries.CauseGroup) -> tuple[int, int]:
    """Of the operators whose remedy is a Subscription: the number of those whose package has one
    already, and of those that no catalog offers."""
    kinds = {
        kind
        for kind in {target.kind for target in cause.targets}
        if BulkChange.MIGRATE in changes_for(cause.finding, kind)
    }
    targets = [target for target in cause.targets if target.kind in kinds]
    replaced = sum(target.replaced for target in targets)
    return replaced, sum(target.count - target.migratable for target in targets) - replaced


def _default_view(request: HttpRequest, filters: queries.OperatorFilters) -> str:
    narrowed = any((filters.finding, filters.reason, filters.q, filters.health, filters.upgrade))
    return "cause" if not narrowed and any(attention(request).values()) else "all"


def _chips(filters: queries.OperatorFilters) -> list[tuple[str, str, str]]:
    """(parameter, its word, value in words) of every filter in use."""
    titles = queries.finding_titles()
    healths = dict(Health.choices)
    words = []
    for name, value in filters.chosen():
        shown = value
        if name == "finding":
            shown = "not known" if value == "-" else titles.get(value, value)
        elif name == "health":
            shown = "needs attention" if value == queries.ATTENTION else str(healths[value])
        elif name == "namespace" and value == "-":
            shown = "none"
        elif name == "upgrade":
            shown = "available"
        words.append((name, FILTER_WORDS[name], shown))
    return words


class UnknownMessagesForm(FilterForm):
    q = TextFilter("Text")


@require_safe
def unknown_messages(request: HttpRequest) -> HttpResponse:
    """Messages without an explanation, the most frequent ones first, with a text to report each."""
    chosen = UnknownMessagesForm.read(request.GET)
    notices: list[str] = []
    page = paginate(matching(chosen["q"]), read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "page": page,
        "notices": notices,
        "rows": unknown_rows(list(page)),
        "total": page.paginator.count,
        "chosen": chosen,
        "chips": UnknownMessagesForm.chips(chosen),
    }
    return render_page(request, "installs/unknown_messages.html", context, partial="live")
