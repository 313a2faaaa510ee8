"""Forms to upgrade, configure, approve, retry, remove and clean up: plan, dry run, confirmation.

A GET sends no request to a cluster. Only the plan that was shown can be confirmed.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from installs import methods
from installs.actions import configuration, crd_check, crd_safety, plan_changes, record, removal
from installs.actions import retry as retries
from installs.actions.clean_up import chosen_first, plan_clean_up
from installs.actions.plan import Plan
from installs.facts import inventory
from installs.facts.configuration import read_values
from installs.methods.configuration_fields import offered_fields, to_values
from installs.models import Operator, approval_title
from installs.presenters.diagnosis import remedy_steps
from installs.queries.leftovers import removed_owner
from installs.queries.lookup import NO_NAMESPACE, get_install_plan, get_operator
from installs.state.observation import details_of
from installs.views.forms import (
    CHANGE,
    METHODS,
    UNSURE,
    ConfigurationForm,
    approval_form,
    approval_reviewed,
    follow_action,
    form_key,
    review,
    show_form,
)
from olmweb.accounts.roles import person, sign_in_required
from olmweb.clusters import get_cluster
from olmweb.errors import Missing, OlmwebError
from olmweb.web.forms import ValueField, ValuesForm
from olmweb.web.pages import render_page, wants_fragment

EDIT_CONFIGURATION = "Edit configuration"
LOAD = "load"  # value of `step`: reads the current configuration from the cluster


class UpgradeForm(ValuesForm):
    channel = ValueField(300)
    version = ValueField(300)
    approval = ValueField(300)
    policy = ValueField(300)
    take = ValueField(300)


class ConfigureForm(ConfigurationForm):
    take = ValueField(300)


class ApproveForm(ValuesForm):
    only = ValueField(300)
    continued = ValueField(20)  # id of the action on whose page the approval is requested


class RemoveForm(ValuesForm):
    continued = ValueField(20)  # as of ApproveForm


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def upgrade(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Another channel, version or approval: the possible targets and the manifests."""
    operator = get_operator(cluster, kind, namespace, name)
    form = UpgradeForm(request.POST if request.method == "POST" else request.GET)
    values = form.cleaned_data
    offer = plan_changes.catalog_offer(operator)
    package = offer.package if offer else None
    context: dict[str, Any] = {
        "operator": operator,
        "values": values,
        "approvals": (methods.AUTOMATIC, methods.MANUAL),
        "policies": methods.POLICIES,
        "method": methods.METHODS.get(operator.kind),
        "choices": True,
        "can_take": True,
        "installed": plan_changes.installed_bundle(operator),
        "channels": [],
        "targets": [],
        "package": package,
    }
    targets: list[plan_changes.UpgradeTarget] = []
    if offer is not None:
        context["channels"] = sorted(offer.facts.channels)
        targets = plan_changes.targets_of(operator, offer.facts, values["channel"])
        verdicts = plan_changes.verdicts_on_targets(operator, offer.package, targets)
        context["targets"] = [(target, verdicts.get(target.bundle)) for target in targets]
        context["over"] = plan_changes.path_over(operator, offer.facts, targets)
        if len(targets) < plan_changes.TARGETS_SHOWN:
            further = plan_changes.further_channels(operator, offer.facts, targets)
            context["further"] = [(name, ", ".join(versions[:3])) for name, versions in further]
    if waiting := plan_changes.waiting_plan(operator):
        reach = plan_changes.explain_reach(operator, waiting, targets)
        context |= {"waiting": waiting, "reach": reach, "cluster": operator.cluster}
        if package is not None:
            target = str(details_of(operator).get("current_csv") or "")
            context["crds"] = crd_safety.crd_safety(operator, package, target)

    def plan() -> Plan:
        planned = plan_changes.plan_upgrade(operator, values, offer)
        if package is not None:
            context["crds"] = crd_safety.crd_safety(operator, package, planned.target)
            context["checked"] = crd_check.finished_check(request.user, operator, planned.target)
        return planned

    return _carry_out(request, "Upgrade", context, plan, form)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def configure(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Another `spec.config`. If rows don't tell the current one, the form offers to load it, which
    reads the object from the cluster as the user."""
    operator = get_operator(cluster, kind, namespace, name)
    choice = configuration.configurable(operator)
    posted = request.method == "POST"
    form = ConfigureForm(request.POST if posted else request.GET)
    values, loads = form.cleaned_data, request.POST.get("step") == LOAD
    current: dict[str, Any] | None = None
    offered = offered_fields(choice.method, choice.known_fields)
    context: dict[str, Any] = {
        "operator": operator,
        "values": values,
        "can_take": True,
        "configurable": offered,
        "offered": offered,  # the summary of a refusal leads to these
        "confirm_word": "Apply",
    }
    if loads:
        try:
            current = configuration.read_current(operator, request.user)
        except OlmwebError as error:
            context["refusal"] = error
    elif not posted:
        current = plan_changes.applied_config(operator)
    if loads or not posted:
        values |= to_values(choice.method, current or {})
        context["unloaded"] = current is None

    def plan() -> Plan:
        config = read_values(choice.method, values, offered)
        return configuration.plan_configure(operator, config, take=values["take"] == "yes")

    if context.get("unloaded"):
        context |= _frame(request, EDIT_CONFIGURATION, form, operator)
        return show_form(request, CHANGE, context, failed=loads)
    return _carry_out(request, EDIT_CONFIGURATION, context, plan, form)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def retry(request: HttpRequest, cluster: str, kind: str, namespace: str, name: str) -> HttpResponse:
    """Lets the controller try again, by the remedy of the failure."""
    operator = get_operator(cluster, kind, namespace, name)
    return _carry_out(
        request, "Retry", {"operator": operator}, lambda: retries.plan_retry(operator)
    )


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def approve(request: HttpRequest, cluster: str, namespace: str, name: str) -> HttpResponse:
    """Approves an InstallPlan, with all that it carries shown first. A GET of htmx is answered with
    what the approval changes and the button, for the page that names the InstallPlan."""
    plan = get_install_plan(cluster, namespace, name)
    approval = plan_changes.approval_of(plan.cluster, plan)
    if request.method != "POST" and wants_fragment(request):
        approving = approval_form(request.user, plan.cluster, plan, approval)
        shown = {"cluster": plan.cluster, "form": approving}
        return render_page(request, "installs/_approval.html", shown, partial="")
    form = ApproveForm(request.POST if request.method == "POST" else request.GET)
    only = form.cleaned_data["only"]
    context = {
        "title": approval_title(plan.name, [change.csv for change in approval.carried]),
        "approval": approval,
        "only": only,
        "continued": form.cleaned_data["continued"],
        "choices_of_only": [
            (change.csv, f"{change.csv}, if the InstallPlan contains nothing else")
            for change in approval.carried
        ],
        "back": reverse("installs:operators") + f"?view=all&namespace={plan.namespace}",
        "cluster": plan.cluster,
    }
    if request.method != "POST" and approval.needed:
        # The page shows all that is approved: no further review. The dry run comes first all the
        # same.
        context["reviewed"] = approval_reviewed(request.user, plan.cluster, plan, approval)
    return _carry_out(
        request,
        "Approve",
        context,
        lambda: plan_changes.plan_approval(plan.cluster, plan, approval, only),
        form,
    )


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def remove(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Removes one operator: consequences, counts on request, confirmation, dry run. `continued` is
    the id of the action on whose page the form is opened, which then shows the outcome."""
    form = RemoveForm(request.POST if request.method == "POST" else request.GET)
    operator = get_operator(cluster, kind, namespace, name)
    rows = removal.RemovalRows([operator])
    plan = removal.plan_remove(operator, rows, without_conversion=True)
    converted = removal.converted_crds(operator, rows)
    context: dict[str, Any] = {
        "operator": operator,
        "effect": removal.removal_effect(operator, rows),
        "plan": plan,
        "crds": (crds := rows.owned_crds(operator)),
        "converted": converted,
        "removal_order": remedy_steps(removal.removal_order(converted)),
        "keep_objects": remedy_steps(removal.keep_objects(converted)),
        "key": form_key(request),
        "reviewed": record.reviewed([plan], request.user, "remove"),
        "continued": (continued := form.cleaned_data["continued"]),
    }
    if request.method != "POST":
        return show_form(request, "remove", context)
    if request.POST.get("step") == "count":
        try:
            counted = inventory.count_instances(operator.cluster, crds, request.user)
        except OlmwebError as error:
            context["refusal"] = error
            return show_form(request, "remove", context, failed=True)
        numbers = {row.name: row.count for row in counted}
        context["counted"] = counted
        context["effect"] = removal.removal_effect(operator, rows, numbers)
        return show_form(request, "remove", context)
    if request.POST.get("sure") != "yes":
        context["refusal"] = UNSURE
        return show_form(request, "remove", context, failed=True)
    if converted and request.POST.get("without_conversion") != "yes":
        context["refusal"] = removal.conversion_refusal(operator, converted)
        return show_form(request, "remove", context, failed=True)
    record.require_reviewed(request.POST.get("reviewed", ""), [plan], request.user, "remove")
    try:
        dry_run = record.dry_run(plan, request.user)
        context["dry_run"] = dry_run
        if not dry_run.ok:
            return show_form(request, "remove", context, failed=True)
        action = record.request(
            plan, request.user, dry_run_result=dry_run, idempotency_key=context["key"]
        )
    except OlmwebError as error:
        context["refusal"] = error
        return show_form(request, "remove", context, failed=True)
    return follow_action(request, action, continued)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def clean_up(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Deletes selected leftovers of one removed operator: consequences, review with a dry run,
    confirmation."""
    row = get_cluster(cluster)
    owner = removed_owner(row, kind, "" if namespace == NO_NAMESPACE else namespace, name)
    if owner is None:
        raise Missing(
            f"Nothing is left over of {kind} {name} on cluster {row.name}.",
            code="unknown-operator",
        )
    is_post = request.method == "POST"
    picked = frozenset(request.POST.getlist("pick")) if is_post else chosen_first(owner)
    sure = request.POST.get("sure") == "yes"
    ended = request.POST.get("without_conversion") == "yes"
    context: dict[str, Any] = {
        "form": ValuesForm({}),
        "key": form_key(request),
        "owner": owner,
        "rows": [(leftover, leftover.label in picked) for leftover in owner.leftovers],
        "converts": any(leftover.converts for leftover in owner.leftovers),
        "ended": ended,
        "sure": sure,
        "by_hand": remedy_steps(owner.steps),
    }
    try:
        # Without a word from the person, what would be deleted is shown all the same.
        plan = plan_clean_up(row, owner, picked, without_conversion=ended or not is_post)
        context["plan"] = plan
        if not is_post:
            return show_form(request, "clean_up", context)
        if request.POST.get("step") == "confirm" and not sure:
            raise UNSURE
        return review(request, "clean_up", plan, context)
    except OlmwebError as error:
        if error.status == 403 and error is not UNSURE:
            raise
        if is_post:
            context["refusal"] = error
        return show_form(request, "clean_up", context, failed=is_post)


def _carry_out(
    request: HttpRequest,
    verb: str,
    context: dict[str, Any],
    make: Callable[[], Plan],
    form: ValuesForm | None = None,
) -> HttpResponse:
    """Shows the plan; a POST dry-runs it; a confirmed POST records it."""
    is_post = request.method == "POST"
    form = form or ValuesForm({})
    context |= _frame(request, verb, form, context.get("operator"))
    try:
        plan = make()
        context |= {"plan": plan, "by_hand": remedy_steps(plan.by_hand)}
        if not is_post or request.POST.get("step") == LOAD:
            return show_form(request, CHANGE, context)
        return review(request, CHANGE, plan, context)
    except OlmwebError as error:
        if error.status == 403:
            raise
        form.refuse(error.fields)
        if is_post or error.code != plan_changes.PLAN_WAITING:  # the page leads to the plan
            context["refusal"] = error
        return show_form(request, CHANGE, context, failed=is_post)


def _frame(
    request: HttpRequest, verb: str, form: ValuesForm, operator: Operator | None
) -> dict[str, Any]:
    """What every form of a change shows around its fields."""
    frame = {"form": form, "key": form_key(request), "verb_word": verb}
    if operator is None:
        return frame
    return frame | {
        "title": f"{verb}: {operator.name}"
        if verb == EDIT_CONFIGURATION
        else f"{verb} {operator.name}",
        "back": _page_of(operator),
    }


def _page_of(operator: Operator) -> str:
    where = (operator.cluster.name, operator.kind, operator.namespace or "-", operator.name)
    return reverse("installs:operator", args=where)
