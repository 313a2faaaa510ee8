"""Bulk install: the form with review and confirmation, the page that follows it, Stop.

A GET sends no request to a cluster. Forms work without JavaScript; htmx swaps the same form in
place.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalogs.install_methods import InstallMethod
from installs import methods
from installs.actions import bulk, record
from installs.actions.bulk import CAP, SHARED, BulkCandidate, Item, Selection
from installs.actions.plan import known_fields, served_version
from installs.facts.configuration import read_values
from installs.methods.configuration_fields import offered_fields
from installs.models import Action
from installs.queries.activity import progress_of
from installs.queries.lookup import get_batch
from installs.readiness import readiness
from installs.readiness.request import tone
from installs.readiness.request import verdict as readiness_verdict
from installs.views.forms import (
    METHODS,
    ConfigurationForm,
    form_key,
    go_to,
    refusals_shown,
    show_form,
)
from olmweb.accounts.roles import may_act, person, sign_in_required
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster
from olmweb.web.context import clusters_with_kinds
from olmweb.web.forms import ValueField
from olmweb.web.pages import cluster_revision, cluster_topic, render_live, revision_token, unchanged

FOLLOW_SECONDS = 2.0
ATTENTION_SHOWN = 10  # operators
FOLLOW_ON = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """The parsed form: target, install method, ticked candidates, shared fields, and the fields of
    the configuration among its `values` that the cluster serves."""

    selection: Selection
    places: dict[Cluster, list[InstallMethod]]
    cluster: Cluster
    path: InstallMethod
    shared: dict[str, str]
    values: dict[str, str]
    configurable: frozenset[str]
    candidates: list[BulkCandidate]
    ticked: frozenset[str]

    @property
    def chosen(self) -> list[BulkCandidate]:
        return [candidate for candidate in self.candidates if str(candidate.key) in self.ticked]


class BatchForm(ConfigurationForm):
    """Where and by which method; `of` is the choice of both that the ticks belong to.

    The fields of SHARED and the configuration are the same for all packages.
    """

    cluster = ValueField()
    path = ValueField()
    of = ValueField()
    namespace = ValueField()
    targets = ValueField()
    approval = ValueField()
    policy = ValueField()
    service_account = ValueField()


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def new_batch(request: HttpRequest) -> HttpResponse:
    """The form: packages, target and shared fields; review with dry runs; confirmation."""
    values = request.POST if request.method == "POST" else request.GET
    form = BatchForm(values)
    context: dict[str, Any] = {"cap": CAP, "key": form_key(request), "form": form}
    try:
        query = _read(request, values, form.cleaned_data)
    except BadRequest as error:
        context |= {"refusal": error, "nowhere": True}
        return show_form(request, "batch_new", context, failed=request.method == "POST")
    context |= _shown(query)
    try:
        if request.method != "POST":
            if len(query.ticked) > CAP:
                bulk.require_few(len(query.ticked))
            return show_form(request, "batch_new", context)
        return _review(request, query, context)
    except OlmwebError as error:
        if error.status == 403:
            raise
        form.refuse(error.fields)
        context["refusal"] = error
        return show_form(request, "batch_new", context, failed=True)


def _read(request: HttpRequest, params: QueryDict, values: dict[str, str]) -> BatchQuery:
    """Raises BadRequest when nothing is selected or nowhere can it be installed, OlmwebError (403)
    for a cluster that is not on offer."""
    keys = bulk.read_keys(params.getlist("package"))
    if not keys:
        raise BadRequest(
            "Nothing is selected.",
            code="none-selected",
            hint="Select packages in the software catalog or on the audit page.",
        )
    chosen = bulk.read_selection(keys)
    places = bulk.target_clusters(chosen, clusters_with_kinds(request))
    if not places:
        raise BadRequest(
            "No cluster can install the selected packages.",
            code="not-served",
            hint="The page of each package shows its install methods and clusters.",
        )
    name = values["cluster"]
    cluster = next((place for place in places if place.name == name), None)
    if cluster is None and name and request.method == "POST":
        raise OlmwebError(
            f"None of these packages can be installed on cluster {name[:80]}.",
            code="not-allowed",
            status=403,
            hint="Choose one of the clusters that the form offers.",
        )
    cluster = cluster or next(iter(places))
    shared = {name: values[name].strip() for name in SHARED}
    path = _method(values["path"], places[cluster])
    if path is None:
        path, offered = bulk.best_method(chosen, cluster, places[cluster])
    else:
        offered = bulk.candidates(chosen, cluster, path, shared["targets"])
    if values["of"] == f"{cluster.name}/{path}":
        ticked = frozenset(params.getlist("pick"))
    else:  # nothing was ticked yet for this cluster and path
        ticked = frozenset(
            str(candidate.key)
            for candidate in offered
            if not (candidate.hindrance or candidate.doubt)
        )
    fields = known_fields(cluster, path, served_version(cluster, path))
    configurable = offered_fields(path, fields)
    return BatchQuery(chosen, places, cluster, path, shared, values, configurable, offered, ticked)


def _method(text: str, allowed: list[InstallMethod]) -> InstallMethod | None:
    try:
        method = InstallMethod.parse(text)
    except ValueError:
        return None
    return method if method in allowed else None


def _shown(query: BatchQuery) -> dict[str, Any]:
    version = served_version(query.cluster, query.path)
    fields = known_fields(query.cluster, query.path, version)
    method = methods.METHODS[query.path]
    choice = methods.InstallChoice(
        method=query.path, package="", name="", api_version=version, known_fields=fields
    )
    return {
        "keys": [str(key) for key in query.selection.keys],
        "places": list(query.places),
        "paths": query.places[query.cluster],
        "cluster": query.cluster,
        "path": query.path,
        "method": method,
        "shared": query.shared,
        "values": query.values,
        "configurable": query.configurable,
        "offered": method.offered(choice) if method.needs_namespace else frozenset(),
        "approvals": (methods.AUTOMATIC, methods.MANUAL),
        "policies": methods.POLICIES,
        "targets": ("all", "own"),
        "rows": _rows([Item(candidate) for candidate in query.candidates], query),
        "ticked_count": len(query.chosen),
    }


def _rows(items: list[Item], query: BatchQuery) -> list[dict[str, Any]]:
    """The rows of the table: an item, the namespace that it is installed in, whether it is ticked,
    and whether it can be."""
    namespaces = bulk.namespaces_of(query.candidates, query.cluster, query.path, query.shared)
    return [
        {
            "item": item,
            "namespace": item.plan.namespace
            if item.plan
            else namespaces.get(item.candidate.key, ""),
            "candidate": item.candidate,
            "key": str(item.candidate.key),
            "ticked": str(item.candidate.key) in query.ticked and not item.problem,
            "possible": not item.candidate.hindrance,
        }
        for item in items
    ]


def _review(request: HttpRequest, query: BatchQuery, context: dict[str, Any]) -> HttpResponse:
    """Runs the dry runs first; records the batch on confirmation of those that passed."""
    confirming = request.POST.get("step") == "confirm"
    config = read_values(query.path, query.values, query.configurable)
    keys = [candidate.key for candidate in query.chosen]
    hashed = bulk.hash_of(query.cluster, query.path, keys, query.shared, config=config)
    if confirming and (earlier := bulk.earlier_batch(request.user, context["key"], hashed)):
        return go_to(request, reverse("installs:batch", args=[earlier.pk]))
    items = bulk.plan_items(query.chosen, query.cluster, query.path, query.shared, config)
    if confirming:
        plans = [item.plan for item in items if item.plan is not None]
        token = request.POST.get("reviewed", "")
        record.require_reviewed(token, plans, request.user, "bulk")
    items = bulk.dry_run(items, request.user)
    if confirming:
        left = [
            Item(candidate, problem=candidate.hindrance)
            for candidate in query.candidates
            if candidate.hindrance
        ]
        chosen = {item.candidate.key for item in items}
        batch = bulk.record_batch(
            [*items, *(item for item in left if item.candidate.key not in chosen)],
            query.cluster,
            query.path,
            request.user,
            key=context["key"],
            request_hash=hashed,
        )
        return go_to(request, reverse("installs:batch", args=[batch.pk]))
    accepted = bulk.accepted(items)
    by_key = {item.candidate.key: item for item in items}
    rows = [by_key.get(candidate.key, Item(candidate)) for candidate in query.candidates]
    context |= refusals_shown(rows) | {
        "rows": _rows(rows, query),
        "reviewed": record.reviewed(accepted, request.user, "bulk") if accepted else "",
        "accepted": len(accepted),
        "ticked_count": len(accepted),
        "was_reviewed": True,
    }
    return show_form(request, "batch_new", context, failed=not accepted)


@require_safe
@sign_in_required()
def batch_detail(request: HttpRequest, id: int) -> HttpResponse:
    """A bulk install: the state of each action and the left-out packages; live until all ended.

    A bulk change also says whether the cluster update is blocked after it, and stays live for
    FOLLOW_ON, as the ClusterOperators follow the operators.
    """
    progress = progress_of(get_batch(id))
    states = [(row.pk, row.state, row.begun_at, row.finished_at) for row in progress.rows]
    changes = progress.batch.verb != Action.Verb.INSTALL
    final = not (progress.open or (changes and progress.ended_within(FOLLOW_ON)))
    token = revision_token(states, progress.batch.stopped_at, final, cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    allowed, why_not = may_act(request.user)
    succeeded = progress.counts.get(Action.State.SUCCEEDED, 0)
    report = None
    if changes and succeeded and not progress.open:
        (report,) = readiness([progress.batch.cluster])
    needing = progress.needing_attention()
    attention_count = 0 if progress.open else needing.count()
    is_known = report is not None and report.following
    context = {
        "attention": list(needing[:ATTENTION_SHOWN]) if attention_count else [],
        "attention_count": attention_count,
        "attention_more": attention_count - ATTENTION_SHOWN,
        "batch": progress.batch,
        "shell_removed": [progress.batch.cluster] if progress.batch.cluster.removed else [],
        "progress": progress,
        "ended": not progress.open,
        "final": final,
        "readiness": readiness_verdict(report) if report and is_known else "",
        "tone": tone(report) if report else "",
        "may_stop": allowed,
        "why_not": why_not,
        "seconds": FOLLOW_SECONDS,
    }
    return render_live(
        request,
        "installs/batch.html",
        context,
        token=token,
        topics=("actions", "minute", cluster_topic(request)),
        final=final,
    )


@require_POST
@sign_in_required(check=person, return_to="installs:batch")
def stop_batch(request: HttpRequest, id: int) -> HttpResponse:
    """Cancels the actions that have not begun."""
    batch = get_batch(id)
    count = bulk.stop(batch, request.user)
    if count:
        messages.success(request, f"Stopped: {count} not applied. Started actions continue.")
    else:
        messages.info(request, "No action was left to stop.")
    return redirect("installs:batch", batch.pk)
