"""Shared by the forms that change a cluster: key, rendering, dry run and confirmation."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from catalogs.models import Bundle, Package
from installs.actions import bulk, plan_changes, record
from installs.actions.bulk import Item
from installs.actions.plan import Plan, paths_of, read_catalog_sources
from installs.actions.refusals import CARRIES_MORE
from installs.diagnosis.approvals import Approval
from installs.methods import AUTOMATIC, MANUAL, MANUAL_APPROVAL, InstallChoice
from installs.methods.base import FOLLOWS_NAMESPACE
from installs.methods.configuration_fields import form_problems
from installs.models import Action, Component, Operator
from installs.presenters.object_details import listed
from installs.queries.activity import later_actions
from olmweb.accounts.roles import AnyUser
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster
from olmweb.web.context import clusters
from olmweb.web.forms import ValueField, ValuesForm
from olmweb.web.pages import render_page, wants_fragment

METHODS = ("GET", "HEAD", "POST")
UNPROCESSABLE = 422
CHANGE = "change"  # the page of upgrade, approval and retry
EDIT = "edit"  # value of `step`: shows the plan of the values, sends nothing to a cluster
CHANGED = OlmwebError(
    "Form changed, nothing applied. Review again.", code="not-reviewed", status=UNPROCESSABLE
)
UNSURE = OlmwebError(
    "Tick the box to confirm that you understand what will be deleted.",
    code="not-sure",
    status=UNPROCESSABLE,
)
LINES_LIMIT = 20_000  # characters of a field with several lines
REASONS_SHOWN = 5  # against items of a bulk review
KEY_LIMIT = 100  # characters, as the column holds


class ConfigurationForm(ValuesForm):
    """The fields of `spec.config`; see installs.methods.configuration_fields."""

    config_env = ValueField(LINES_LIMIT, label="Environment variables (env)")
    config_node_selector = ValueField(LINES_LIMIT, label="Node selector (nodeSelector)")
    config_tolerations = ValueField(LINES_LIMIT, label="Tolerations")
    config_requests_cpu = ValueField(label="CPU request")
    config_requests_memory = ValueField(label="Memory request")
    config_limits_cpu = ValueField(label="CPU limit")
    config_limits_memory = ValueField(label="Memory limit")
    config_watch_namespace = ValueField(label="Namespace to watch (watchNamespace)")
    config_more = ValueField(LINES_LIMIT, label="More fields, as YAML")

    def refuse(self, sentences: Mapping[str, str]) -> None:
        """A problem of the configuration is shown at the field that has the value."""
        super().refuse(form_problems(sentences, self.cleaned_data))


class RadioOption(NamedTuple):
    """A radio button: its value, its words, a sentence beside it, and whether it is disabled."""

    value: str
    words: str
    hint: str = ""
    disabled: bool = False


APPROVALS = (
    RadioOption(AUTOMATIC, "Automatic", "Updates install automatically."),
    RadioOption(MANUAL, "Manual", MANUAL_APPROVAL),
)
ALL, OWN, SELECTED = "all", "own", "selected"  # installation modes; targets knows the first two
# Install modes of bundles, any of which an installation mode needs.
MODES = (
    (ALL, "All namespaces on the cluster", ("AllNamespaces",)),
    (OWN, "This namespace only", ("OwnNamespace",)),
    (SELECTED, "Selected namespaces", ("SingleNamespace", "MultiNamespace")),
)


class ModeForm(ValuesForm):
    """The installation mode, which follows an entered namespace until it is chosen."""

    mode = ValueField()  # ALL, OWN or SELECTED; empty: as `targets` says
    targets = ValueField()  # ALL, OWN, or names with commas
    suggested_mode = ValueField()  # the one that the form chose by itself

    def clean(self) -> dict[str, Any]:
        """Leaves a suggested mode open, and puts a chosen one into `targets`."""
        values = self.cleaned_data
        if values["mode"] and values["mode"] == values["suggested_mode"]:
            values |= {"mode": "", "targets": ""}
        if values["mode"] in (ALL, OWN):
            values["targets"] = values["mode"]
        elif values["mode"] == SELECTED and values["targets"] in (ALL, OWN):
            values["targets"] = ""
        is_open = not values["mode"] and not values["targets"].strip(" ,")
        values[FOLLOWS_NAMESPACE] = "yes" if is_open else ""
        return values

    def require_names(self) -> None:
        """Raises BadRequest for selected namespaces without a name."""
        values = self.cleaned_data
        if values["mode"] == SELECTED and not values["targets"].strip(" ,"):
            sentence = "Name the namespaces to watch; separate several with commas."
            raise BadRequest(sentence, code="invalid", targets=sentence)


# Of a ModeForm, beside `targets`.
MODE_VALUES = frozenset({"mode", "suggested_mode", FOLLOWS_NAMESPACE})


def installation_modes(
    choice: InstallChoice | None, values: Mapping[str, str], bundle: Bundle | None
) -> dict[str, Any]:
    """The installation modes that the values of a ModeForm can have; `choice` is None for values
    that are refused. Those that the bundle does not support are disabled, but not the chosen one,
    whose value the form would lose."""
    if values["mode"] == SELECTED or choice is None:
        mode = values["mode"] or (SELECTED if values["targets"] else ALL)
    elif choice.targets:
        mode = OWN if choice.targets == (choice.namespace,) else SELECTED
    else:
        mode = ALL
    supported = set(bundle.install_modes) if bundle and bundle.install_modes_known else None
    options = []
    for value, words, needed in MODES:
        unsupported = supported is not None and supported.isdisjoint(needed)
        hint = f"{bundle} does not support {' or '.join(needed)}." if unsupported else ""
        options.append(RadioOption(value, words, hint, unsupported and value != mode))
    follows = bool(values[FOLLOWS_NAMESPACE]) and choice is not None
    namespace = values["namespace"].strip()
    if follows and mode == OWN and namespace and bundle and bundle.supports("AllNamespaces"):
        hint = (
            f"Selected because {namespace} has no OperatorGroup yet. If the operator has to watch "
            "more, select another mode."
        )
        options[1] = options[1]._replace(hint=hint)
    named = values["targets"] if values["targets"] not in (ALL, OWN) else ""
    return {
        "mode": mode,
        "modes": options,
        "target_names": named,
        "suggested_mode": mode if follows else "",
    }


def form_key(request: HttpRequest) -> str:
    """The form's own key, which makes sending it twice one action; a new one for a new form."""
    key = request.POST.get("key", "")
    return key if key and key.isprintable() and len(key) <= KEY_LIMIT else uuid.uuid4().hex


def refusals_shown(items: Iterable[Item]) -> dict[str, Any]:
    """What the outcome of a bulk review shows of the items that can't be changed."""
    reasons = bulk.refusals(items)
    return {
        "refused": sum(map(len, reasons.values())),
        "refusals": [(why, listed(names)) for why, names in reasons.items()][:REASONS_SHOWN],
        "more_reasons": max(0, len(reasons) - REASONS_SHOWN),
    }


def targets_of(request: HttpRequest, package: Package) -> list[Cluster]:
    """The catalog's own cluster, or for a catalog without one every cluster that could take it;
    without removed ones."""
    if package.catalog.cluster is not None:
        return [] if package.catalog.on_removed else [package.catalog.cluster]
    sources = read_catalog_sources({package.catalog.name})
    return [
        cluster
        for cluster in clusters(request)
        if paths_of(cluster, package.catalog, sources=sources)
    ]


def show_form(
    request: HttpRequest, page: str, context: dict[str, Any], *, failed: bool = False
) -> HttpResponse:
    """`failed` makes it a 422 with the focus on the error, except while the form is edited. A page
    that opens with an error leaves the focus at its beginning."""
    editing = request.POST.get("step") == EDIT
    status = UNPROCESSABLE if failed and not editing else 200
    context["keep_focus"] = editing or not failed
    return render_page(request, f"installs/{page}.html", context, partial="", status=status)


def review(request: HttpRequest, page: str, plan: Plan, context: dict[str, Any]) -> HttpResponse:
    """Handles the POST of a form that shows a plan: the plan alone while the form is being edited,
    else a dry run first, and the recorded action on confirmation of the plan that was shown. A form
    that changed since its review is shown for another one.

    Raises OlmwebError as actions.record.request.
    """
    if request.POST.get("step") == EDIT:
        return show_form(request, page, context)
    dry_run = record.dry_run(plan, request.user)
    context["dry_run"] = dry_run
    if not dry_run.ok:
        if dry_run.code == CARRIES_MORE:
            record.record_refusal(plan, request.user, dry_run)
        context["form"].refuse(dry_run.fields)
        return show_form(request, page, context, failed=True)
    if request.POST.get("step") != "confirm":
        context["reviewed"] = record.reviewed([plan], request.user, page)
        return show_form(request, page, context)
    try:
        record.require_reviewed(request.POST.get("reviewed", ""), [plan], request.user, page)
    except OlmwebError:
        context |= {"refusal": CHANGED, "dry_run": None}
        return show_form(request, page, context, failed=True)
    action = record.request(
        plan, request.user, dry_run_result=dry_run, idempotency_key=context["key"]
    )
    return follow_action(request, action, context.get("continued", ""))


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """The hidden values of a button that approves an InstallPlan whose content is beside it.
    `step` is `step 2 of 3` of an upgrade in several steps, empty if unknown."""

    approval: Approval
    key: str
    reviewed: str
    step: str = ""


def approval_form_of(user: AnyUser, operator: Operator) -> ApprovalForm | None:
    """For the InstallPlan of the operator that requires approval; at most two queries."""
    waiting = plan_changes.waiting_install_plan(operator)
    return approval_form(user, operator.cluster, *waiting) if waiting else None


def approval_form(
    user: AnyUser, cluster: Cluster, plan: Component, approval: Approval
) -> ApprovalForm | None:
    """None for an InstallPlan that requires no approval any more."""
    if not approval.needed:
        return None
    reviewed = approval_reviewed(user, cluster, plan, approval)
    return ApprovalForm(approval, uuid.uuid4().hex, reviewed)


def approval_reviewed(user: AnyUser, cluster: Cluster, plan: Component, approval: Approval) -> str:
    """The token that this user is shown all that the InstallPlan carries: it approves all of it, or
    limits the approval to one version. The confirmed form is tried with a dry run first."""
    limits = ("", *(change.csv for change in approval.carried))
    plans = [plan_changes.plan_approval(cluster, plan, approval, only) for only in limits]
    return record.reviewed(plans, user, CHANGE)


def follow_action(request: HttpRequest, action: Action, continued: str = "") -> HttpResponse:
    """Redirects to the page of the action, which may be an equal one of another user.

    `continued` is the id of the action on whose page it was requested: if that page lists it, it is
    followed there. A request of htmx that replaces the live part of that page gets it.
    """
    if action.user is not None and action.user_id != request.user.pk:
        username = action.user.get_username()
        messages.info(
            request,
            f"{username} requested the same change just before, so it is not applied twice.",
        )
        return go_to(request, reverse("installs:action", args=[action.pk]))
    earlier = _continued_action(continued, action)
    address = reverse("installs:action", args=[(earlier or action).pk])
    htmx = request.htmx  # type: ignore[attr-defined]
    lives = wants_fragment(request) and htmx.target == "live"
    if earlier and lives and htmx.current_url_abs_path == address:
        return _see_other(f"{address}?rev=")  # a poll without a token
    return go_to(request, address)


def _continued_action(pk: str, action: Action) -> Action | None:
    earlier = Action.objects.filter(pk=pk).first() if pk.isdecimal() and len(pk) < 19 else None
    return earlier if earlier and action in later_actions(earlier) else None


def go_to(request: HttpRequest, address: str) -> HttpResponse:
    if wants_fragment(request):
        return HttpResponseClientRedirect(address)
    return _see_other(address)


def _see_other(address: str) -> HttpResponse:
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response
