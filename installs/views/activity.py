"""Activity: actions and sync runs; one action followed live."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalogs.install_methods import InstallMethod
from installs.actions import follow
from installs.actions.plan_changes import progress_of
from installs.actions.upgrade_route import UpgradeProgress
from installs.diagnosis.knowledge import finding_for
from installs.models import Action, Health, Operator
from installs.presenters.diagnosis import NextStep, chain, next_steps, remedy_steps
from installs.queries import activity as queries
from installs.queries import operator_detail as detail
from installs.queries.catalog_references import newest_of_channel
from installs.queries.lookup import get_action
from installs.readiness import readiness
from installs.readiness.request import tone
from installs.readiness.request import verdict as readiness_verdict
from installs.state.observation import diagnose_row
from installs.views.forms import ApprovalForm, approval_form_of
from olmweb.accounts.roles import AnyUser, may_act, sign_in_required
from olmweb.api.formats import fill
from olmweb.api.lists import StoredRows, export_table
from olmweb.kube.resources import INSTALL_PLANS
from olmweb.models import SyncRun
from olmweb.web.forms import ChoiceFilter, FilterForm, SortFilter, TextFilter, read_page
from olmweb.web.pages import cluster_revision, cluster_topic, render_live, revision_token, unchanged
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

SHOWS = ("actions", "syncs")
FOLLOW_SECONDS = 1.5
# A succeeded action of a Subscription stays live for so long: seconds after an InstallPlan has
# completed OLM makes that of the next version, which may require approval.
FOLLOW_ON = timedelta(seconds=60)
# Their outcome is not that the operator of the object is healthy.
_WITHOUT_HEALTH = (Action.Verb.APPROVE, Action.Verb.REMOVE, Action.Verb.CLEAN_UP)
# A free worker takes an action within seconds; beat sends the message again where it was lost.
NOT_STARTED = timedelta(minutes=1)


class ActivityForm(FilterForm):
    show = ChoiceFilter(SHOWS)


class ActionsForm(FilterForm):
    cluster = TextFilter()
    user = TextFilter()
    q = TextFilter()
    state = ChoiceFilter(queries.ACTION_STATES)
    sort = SortFilter(queries.ACTIONS.names)


class SyncRunsForm(FilterForm):
    cluster = TextFilter()
    q = TextFilter()
    outcome = ChoiceFilter(queries.OUTCOMES)


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A row of the exported table of actions; `kind` and `name` are those of the object, `seconds`
    how long the action took."""

    id: int
    verb: str
    kind: str
    name: str
    namespace: str
    state: str
    outcome: str
    user: str
    as_user: str
    cluster: str
    requested: datetime
    seconds: float | None


@require_safe
@sign_in_required()
def action_export(request: HttpRequest) -> HttpResponseBase:
    """The table of actions as CSV: every matching row, in its order, with the columns shown."""
    chosen = ActionsForm.read(request.GET)
    table = queries.ACTIONS.view(request, chosen.pop("sort"))
    rows = queries.actions_matching(**chosen)
    return export_table(request, table, StoredRows(rows, table.order, _export_rows))


def _export_rows(actions: Sequence[Action]) -> list[ExportRow]:
    return [
        fill(
            ExportRow,
            action,
            kind=action.path,
            user=action.user.username if action.user else "",
            cluster=action.cluster.name,
            requested=action.created_at,
            seconds=(action.finished_at - action.created_at).total_seconds()
            if action.finished_at
            else None,
        )
        for action in actions
    ]


def _repeated(runs: Iterable[SyncRun]) -> set[int]:
    """The runs below another one of the page with the same target and hint."""
    seen: set[tuple[str, str]] = set()
    repeats = set()
    for run in runs:
        if (key := (run.target, run.error_hint)) in seen:
            repeats.add(run.pk)
        seen.add(key)
    return repeats


@remember_view
@require_safe
def activity(request: HttpRequest) -> HttpResponse:
    """Actions or sync runs, newest first; visitors without an account see sync runs only."""
    signed_in = request.user.is_authenticated
    show = ActivityForm.read(request.GET)["show"] or ("actions" if signed_in else "syncs")
    syncs = show == "syncs"
    if not (syncs or signed_in):
        return redirect_to_login(request.get_full_path())
    form = SyncRunsForm if syncs else ActionsForm
    chosen = form.read(request.GET)
    revision = queries.syncs_revision() if syncs else queries.actions_revision()
    token = revision_token(show, revision)
    if (answer := unchanged(request, token)) is not None:
        return answer
    table = None if syncs else queries.ACTIONS.view(request, chosen.pop("sort"))
    if table is None:
        rows: QuerySet[Any] = queries.syncs_matching(**chosen)
    else:
        rows = queries.actions_matching(**chosen).order_by(*table.order)
    notices: list[str] = []
    page = paginate(rows, read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "notices": notices,
        "table": table,
        "rows": page.object_list,
        "repeated": _repeated(page.object_list) if syncs else (),
        "show": show,
        "page": page,
        "total": page.paginator.count,
        "chosen": chosen,
        "chips": form.chips(chosen),
        "outcomes": queries.OUTCOMES,
        "states": Action.State.choices,
    }
    topics = ("syncs",) if syncs else ("actions",)
    return render_live(request, "installs/activity.html", context, token=token, topics=topics)


@require_safe
@sign_in_required()
def action_detail(request: HttpRequest, id: int) -> HttpResponse:
    """One action: user, manifests, response of the cluster, outcome; live until it ended.

    The approvals of InstallPlans and the removal that continue it are followed here, so the outcome
    is that of the newest of them.
    """
    action = get_action(id)
    later = queries.later_actions(action)
    latest = later[-1] if later else action
    ended, final = latest.state not in Action.OPEN, _is_final(latest)
    not_started = _is_not_started(latest)
    token = revision_token(
        *(final, not_started),
        *((row.pk, row.state, row.sent_at, row.finished_at) for row in (action, *later)),
        cluster_revision(request, action.cluster.name),
    )
    if (answer := unchanged(request, token)) is not None:
        return answer
    operators = queries.operators_of(action, later)
    operator = _decisive(latest, operators)
    links = []
    if operator is not None:
        parts = detail.parts_of(operator)
        diagnosis = diagnose_row(operator, parts.components, parts.unread)
        links = chain(operator, diagnosis.chain, parts)
    subject = operator or latest
    kind = operator.kind if operator else latest.path
    names = {"name": subject.name, "namespace": subject.namespace, "kind": kind}
    facts, reason = (operator.facts, operator.reason) if operator else ({}, "")
    finding = finding_for(latest.finding, facts, names, reason=reason)
    # An InstallPlan whose approval is under way still waits until the next sync.
    acts = may_act(request.user)[0] and not (latest.verb == Action.Verb.APPROVE and not ended)
    was_blocker = any(row.of_blocker for row in (action, *later))
    succeeded = latest.state == Action.State.SUCCEEDED
    report = readiness([action.cluster])[0] if was_blocker and succeeded else None
    progress = _progress(action, later, operators)
    healthy = operator is not None and operator.health == Health.HEALTHY
    installed = succeeded and healthy and latest.verb != Action.Verb.REMOVE
    applied = latest.state == Action.State.APPLIED and latest.verb not in _WITHOUT_HEALTH
    context = {
        "action": action,
        "shell_removed": [action.cluster] if action.cluster.removed else [],
        "latest": latest,
        "earlier": _earlier(action, later),
        "ended": ended,
        "final": final,
        "reached": applied and operator is not None and follow.is_reached(latest, operator),
        "not_started": not_started,
        "timeout_minutes": follow.ACTION_TIMEOUT.seconds // 60,
        "embedded": settings.EMBEDDED,
        "operator": operator,
        "next_steps": (following := _next_steps(request.user, operators, progress, acts=acts)),
        # An approval comes first.
        "removes": acts and ended and len(following) == 1 and following[0][1] is None,
        "awaits_plan": healthy,
        "newest_of": newest_of_channel(operator) if operator and installed else "",
        "next_approval": latest.verb == Action.Verb.APPROVE,
        "progress": progress,
        "target": "" if ended or progress else _target(latest),
        "readiness": readiness_verdict(report) if report else "",
        "tone": tone(report) if report else "",
        "still_blocks": report is not None and report.is_blocked_by(operators),
        "chain": links,
        "finding": finding,
        "steps": remedy_steps(finding.remedy) if finding else [],
        "seconds": FOLLOW_SECONDS,
        "takes_focus": request.GET.get("rev") == "",  # shown after an approval on this page
    }
    return render_live(
        request,
        "installs/action.html",
        context,
        token=token,
        topics=("actions", "minute", cluster_topic(request, action.cluster.name)),
        final=final,
    )


def _earlier(action: Action, later: Sequence[Action]) -> list[tuple[Action, str]]:
    """The action and those that continue it without the newest, newest first, each with its outcome
    as it is now: an InstallPlan that required approval may be approved since."""
    approved = {row.name for row in later if row.verb == Action.Verb.APPROVE and _was_sent(row)}
    rows = []
    for row in reversed([action, *later][:-1]):
        outcome = row.outcome
        if row.outcome_code == "needs-approval":
            for plan in approved:
                outcome = outcome.replace(
                    f"InstallPlan {plan} requires approval",
                    f"InstallPlan {plan} was approved later",
                )
        rows.append((row, outcome))
    return rows


def _was_sent(action: Action) -> bool:
    return action.state in (Action.State.APPLIED, Action.State.SUCCEEDED)


def _is_not_started(latest: Action) -> bool:
    """Whether no worker has applied it for longer than any takes; an action of a batch waits for
    those before it."""
    waits = latest.state == Action.State.PENDING and latest.batch_id is None
    return waits and timezone.now() - latest.created_at > NOT_STARTED


def _is_final(latest: Action) -> bool:
    """Whether nothing that the page shows can change any more; `latest` is the newest of the action
    and those that continue it."""
    if latest.state in Action.OPEN:
        return False
    goes_on = latest.state == Action.State.SUCCEEDED and latest.verb != Action.Verb.REMOVE
    of_subscription = latest.path in (InstallMethod.SUBSCRIPTION, INSTALL_PLANS.kind)
    recent = latest.finished_at is not None and timezone.now() - latest.finished_at < FOLLOW_ON
    return not (goes_on and of_subscription and recent)


def _target(action: Action) -> str:
    """The bundles that the action leads to, of an upgrade in several steps the last."""
    if action.route and action.verb == Action.Verb.UPGRADE:
        return str(action.route[-1])
    return action.target.replace(",", ", ")


def _progress(
    action: Action, later: Sequence[Action], operators: Sequence[Operator]
) -> UpgradeProgress | None:
    """How far the upgrade in several steps is that the action or a later approval recorded."""
    latest = later[-1] if later else action
    going_on = latest.state in (*Action.OPEN, Action.State.SUCCEEDED)
    if len(operators) != 1 or not going_on:
        return None
    routes = (row.route for row in (*reversed(later), action) if row.route)
    return progress_of(operators[0], next(routes, None))


def _next_steps(
    user: AnyUser, operators: Sequence[Operator], progress: UpgradeProgress | None, *, acts: bool
) -> list[tuple[NextStep, ApprovalForm | None]]:
    """What leads on from the action, with the approval of each InstallPlan once."""
    steps: list[tuple[NextStep, ApprovalForm | None]] = []
    offered: set[tuple[str, str]] = set()
    for step in next_steps(operators, acts=acts):
        plan = (step.plan_namespace, step.plan)
        if plan in offered:
            step = replace(step, plan="")
        offered.add(plan)
        form = approval_form_of(user, step.operator) if step.plan else None
        if form and progress:
            carried = [change.csv for change in form.approval.carried]
            form = replace(form, step=progress.step_to(carried))
        steps.append((step, form))
    return steps


def _decisive(action: Action, operators: Sequence[Operator]) -> Operator | None:
    """The operator that explains the outcome: the one with the finding of the action, or the
    first; None without operators."""
    with_finding = (row for row in operators if action.finding and row.finding == action.finding)
    return next(with_finding, operators[0] if operators else None)
