"""REST routes of actions and bulk installs.

They make the same plans, dry runs, refusals and rows as the pages.
"""

import hashlib
import json
import uuid
from typing import Annotated, Literal

from django.db.models import Count, Max, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import FilterLookup, Query, Router
from pydantic import Field

from catalogs.api.parameters import Method, OptionalReference
from catalogs.install_methods import InstallMethod
from catalogs.lookup import precedence, referenced_catalog
from catalogs.models import Package
from catalogs.verdicts.rules import Verdict
from installs.actions import bulk, plan_changes, record, removal, retry
from installs.actions.bulk import Item, Key
from installs.actions.clean_up import chosen_first, plan_clean_up
from installs.actions.configuration import plan_configure
from installs.actions.objects import DryRun
from installs.actions.plan import Plan, paths_of, plan_install
from installs.actions.refusals import CARRIES_MORE
from installs.api.action_schemas import (
    ActionRow,
    ActionState,
    ActionVerb,
    BulkInstallRow,
    BulkInstallSummary,
    BulkVerb,
    Config,
    PlannedPackageRow,
    action_row,
    action_rows,
    bulk_install_row,
    bulk_install_summary,
)
from installs.api.operators import OnCluster
from installs.methods import METHODS
from installs.methods.configuration import CONFIG
from installs.models import Action, ActionBatch
from installs.queries import lookup
from installs.queries.activity import progress_of, with_progress
from installs.queries.leftovers import CSV, NAMESPACE, removed_owner
from olmweb.accounts.api_tokens import PEOPLE_ONLY, require_scope, token_of_request
from olmweb.accounts.roles import person
from olmweb.api.formats import answer_one, json_response
from olmweb.api.lists import (
    SORT,
    ListParameters,
    Page,
    StoredRows,
    answer_list,
    order_of,
)
from olmweb.api.parameters import (
    SINCE,
    UNTIL,
    Moment,
    OneOf,
    RequestBody,
    Values,
    at_or_after,
    before,
    own_value,
    text,
    values,
)
from olmweb.clusters import get_cluster, require_configured
from olmweb.errors import BadRequest, Missing, OlmwebError
from olmweb.models import LOCAL, Cluster

KEY_LIMIT = 100
FORM_FIELDS = (
    *("namespace", "channel", "version", "targets", "approval", "policy"),
    *("service_account", "crd_safety"),
)
ALWAYS = frozenset({"cluster", "verb", "dry_run"})
SortedBy = Literal[
    "created_at", "-created_at", "package", "-package", "name", "-name", "verb", "-verb", "state",
    "-state",
]  # fmt: skip
OwnerKind = Annotated[str, OneOf((CSV, NAMESPACE), "LeftoverOwnerKind")]
OF_OBJECT = frozenset({"method", "namespace", "name"})
router = Router(tags=["Actions"])


class ActionParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    verb: Annotated[list[ActionVerb] | None, FilterLookup("verb__in")] = values("Verb.")
    state: Annotated[list[ActionState] | None, FilterLookup("state__in")] = values("State.")
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    user: Annotated[Values, FilterLookup("user__username__in")] = values("Who asked for it.")
    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=UNTIL)
    sort: SortedBy = text(f"{SORT} Newest first without it.")

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("created_at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("created_at", moment)

    def filter_sort(self, _: str) -> Q:
        return Q()


class ActionBody(RequestBody):
    """An action to take. `name` is the object's; of an install empty for the default. `only`
    refuses an approval if the InstallPlan carries more than this ClusterServiceVersion. `catalog`
    is a reference, CLUSTER/NAME. `bundle` names the bundle to install instead of its `version`.
    `version` is a version or a range, in the grammar of the method; of a Subscription the first
    bundle in it, counted from the channel head, becomes startingCSV. `force_conflicts` takes fields
    over from other managers. `anyway` also installs what is predicted to fail. `config` is
    `spec.config` of a Subscription or ClusterExtension, if the cluster serves that field; the verb
    `configure` replaces it, and removes it if it is empty.
    `without_conversion` also removes an operator whose conversion webhook CustomResourceDefinitions
    still need, and ends the conversion of those that a clean-up deletes. A clean-up deletes the
    leftovers of a removed operator, as /leftovers lists them: `name` is its owner's, and `objects`
    are their `KIND NAMESPACE/NAME` or `KIND NAME`, empty for all but namespaces. `owner_kind` goes
    before `method` for an owner that /leftovers lists as a ClusterServiceVersion or Namespace."""

    cluster: str
    verb: ActionVerb
    method: Method = InstallMethod.PLATFORM_OPERATOR
    package: str = ""
    catalog: OptionalReference = ""
    name: str = ""
    namespace: str = ""
    channel: str = ""
    version: str = ""
    bundle: str = ""
    targets: str = ""
    approval: str = ""
    policy: str = ""
    service_account: str = ""
    crd_safety: str = ""
    config: Config = {}
    only: str = ""
    force_conflicts: bool = False
    anyway: bool = False
    without_conversion: bool = False
    objects: list[str] = []
    owner_kind: OwnerKind | Literal[""] = ""
    dry_run: bool = False


@router.get("/actions", response=Page[ActionRow], auth=PEOPLE_ONLY)
def list_actions(request: HttpRequest, query: Query[ActionParameters]) -> HttpResponseBase:
    """Actions on clusters: installs, upgrades, approvals, retries and removals, newest first."""
    by_state = Action.objects.order_by("state").values_list("state")
    state = list(by_state.annotate(Count("id"), Max("id"), Max("finished_at"), Max("sent_at")))
    actions = query.filter(Action.objects.select_related("cluster", "user"))
    source = StoredRows(actions, order_of(query.sort, ("-id",)), action_rows)
    return answer_list(request, query, "actions", ActionRow, source, state)


@router.post("/actions", response={202: ActionRow})
def create_action(request: HttpRequest, body: ActionBody) -> HttpResponseBase:
    """Starts an install, upgrade, configuration, approval, retry or removal after a dry run.

    202 with the action; with `dry_run` 200 with the manifests to apply and the results. The same
    request with the same `Idempotency-Key` header gives the same action again. `Location` is
    the address of the action, `Idempotency-Replayed` says whether it is repeated; another request
    with that key is refused (422, `key-reused`).
    Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    key, hashed = read_key(request), _hash_of(body)
    if not body.dry_run and (earlier := record.earlier_action(request.user, key, hashed)):
        return accepted(action_row(earlier), replayed=True)
    plan = _plan(body)
    if not body.anyway:
        _refuse_predicted_failure(plan)
    result = record.dry_run(plan, request.user)
    if body.dry_run:
        return tried(plan, result)
    if not result.ok:
        if result.code == CARRIES_MORE:
            record.record_refusal(plan, request.user, result, token_of_request(request))
        status = 403 if result.code in ("forbidden", "impersonation-forbidden") else 422
        raise result.as_error(status)
    action = record.request(
        plan,
        request.user,
        dry_run_result=result,
        idempotency_key=key,
        request_hash=hashed,
        token=token_of_request(request),
    )
    return accepted(action_row(action), replayed=action.replayed)


@router.get("/actions/{id}", response=ActionRow, auth=PEOPLE_ONLY)
def get_action(request: HttpRequest, id: int) -> HttpResponseBase:
    """One action."""
    row = action_row(lookup.get_action(id))
    return answer_one(request, (row,), lambda: row)


def read_key(request: HttpRequest) -> str:
    """The Idempotency-Key header, empty without one. Raises BadRequest for a value that is none."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_LIMIT or (key and not key.isprintable()):
        raise BadRequest(
            f"An Idempotency-Key has at most {KEY_LIMIT} printable characters.", code="bad-key"
        )
    return key


def _hash_of(body: RequestBody) -> str:
    content = json.dumps(body.model_dump(exclude={"dry_run"}), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def tried(plan: Plan, result: DryRun) -> HttpResponseBase:
    """The answer to a dry run: the catalog, the bundle and the verdict on it, what would be sent,
    and what the cluster said. `verdict` is null where none is stored."""
    outcome = {
        **result.as_json(),
        "code": result.code,
        "hint": result.hint,
        "objects": [list(names) for names in result.objects],
        "changes": list(result.changes),
    }
    verdict = plan.verdict and {
        "verdict": own_value(plan.verdict.verdict),
        "rule": plan.verdict.rule,
        "sentence": plan.verdict.sentence,
    }
    return json_response(
        {
            "catalog": str(plan.chosen_catalog) if plan.chosen_catalog else "",
            "bundle": plan.target,
            "verdict": verdict,
            "manifests": list(plan.manifests),
            "dry_run": outcome,
        }
    )


def accepted(row: ActionRow | BulkInstallRow, *, replayed: bool) -> HttpResponseBase:
    response = json_response(row)
    response.status_code = 202
    route = "get_action" if isinstance(row, ActionRow) else "get_bulk_install"
    response["Location"] = reverse(f"api:{route}", args=[row.id])
    response["Idempotency-Replayed"] = "true" if replayed else "false"
    return response


def _plan(body: ActionBody) -> Plan:
    cluster = get_cluster(body.cluster)
    require_configured(cluster)
    _refuse_foreign_fields(body)
    fields = body.model_dump(include=set(FORM_FIELDS))
    if body.verb == Action.Verb.INSTALL:
        package = find_package(cluster, body.package, body.catalog, body.method)
        fields["version"] = _version(body, package)
        return plan_install(cluster, package, body.name, body.method, fields, config=body.config)
    if body.verb == Action.Verb.APPROVE:
        plan = lookup.get_install_plan(cluster.name, body.namespace, body.name)
        return plan_changes.plan_approve(cluster, plan, body.only)
    if body.verb == Action.Verb.CLEAN_UP:
        return _clean_up(cluster, body)
    kind = body.method
    operator = lookup.get_operator(cluster.name, kind, body.namespace or "-", body.name)
    if body.verb == Action.Verb.UPGRADE:
        take = "yes" if body.force_conflicts else ""
        return plan_changes.plan_upgrade(operator, fields | {"take": take})
    if body.verb == Action.Verb.CONFIGURE:
        return plan_configure(operator, body.config, take=body.force_conflicts)
    if body.verb == Action.Verb.RETRY:
        return retry.plan_retry(operator)
    return removal.plan_remove(operator, without_conversion=body.without_conversion)


def _clean_up(cluster: Cluster, body: ActionBody) -> Plan:
    kind = body.owner_kind or body.method
    owner = removed_owner(cluster, kind, body.namespace, body.name)
    if owner is None:
        raise Missing(
            f"Nothing is left over of {kind} {body.name[:120]} on cluster {cluster.name}.",
            code="unknown-operator",
        )
    labels = body.objects or chosen_first(owner)
    return plan_clean_up(cluster, owner, labels, without_conversion=body.without_conversion)


def _refuse_foreign_fields(body: ActionBody) -> None:
    """Raises OlmwebError (422) that names the values for which the verb or method has no field."""
    method, verb = body.method, body.verb
    of_method = METHODS[method].form_fields()
    if "version" in of_method:
        of_method |= {"bundle"}
    usable = {
        Action.Verb.INSTALL: of_method | {"package", "catalog", "name", "method", "anyway"},
        Action.Verb.UPGRADE: METHODS[method].upgrade_fields | OF_OBJECT | {"force_conflicts"},
        Action.Verb.CONFIGURE: OF_OBJECT | {CONFIG, "force_conflicts"},
        Action.Verb.APPROVE: frozenset({"namespace", "name", "only"}),
        Action.Verb.REMOVE: OF_OBJECT | {"without_conversion"},
        Action.Verb.CLEAN_UP: OF_OBJECT | {"without_conversion", "objects", "owner_kind"},
    }.get(Action.Verb(verb), OF_OBJECT)
    given = {name for name in body.model_fields_set if getattr(body, name)} - ALWAYS
    by_method = verb == Action.Verb.INSTALL or verb == Action.Verb.UPGRADE
    problems = {
        name: f"A {method} has no {name}."
        if by_method and name in (*FORM_FIELDS, CONFIG, "bundle")
        else f"The verb {verb} has no {name}."
        for name in sorted(given - usable)
    }
    if problems:
        raise OlmwebError(
            " ".join(problems.values()),
            code="no-such-field",
            status=422,
            hint=METHODS[method].version_hint or "Leave it out, or choose another method.",
            fields=problems,
        )


def _version(body: ActionBody, package: Package) -> str:
    """The version to install, or the name of the bundle. Raises BadRequest for both, and for a
    bundle that the package does not have."""
    if not body.bundle:
        return body.version
    problem = ""
    if body.version:
        problem = "Give version or bundle, not both."
    elif not package.bundles.filter(name=body.bundle).exists():
        problem = f"Package {package.name} has no bundle {body.bundle[:120]}."
    if problem:
        raise BadRequest(problem, code="invalid", bundle=problem)
    return body.bundle


def _refuse_predicted_failure(plan: Plan) -> None:
    """Raises OlmwebError (422) for an install that is predicted to fail."""
    verdict = plan.verdict if plan.verb == Action.Verb.INSTALL else None
    if verdict is not None and verdict.verdict == Verdict.NOT_INSTALLABLE:
        raise OlmwebError(
            verdict.sentence,
            code="predicted-to-fail",
            status=422,
            hint='Send "anyway": true to install it all the same.',
        )


def find_package(cluster: Cluster, name: str, catalog: str, method: InstallMethod) -> Package:
    """The package in a catalog of the cluster, else in one without a cluster: of several catalogs
    in one that the method installs from, with the highest priority. `catalog` is a reference, empty
    for any. Raises Missing, and BadRequest for the catalog of another cluster."""
    rows = Package.objects.select_related("catalog__cluster").filter(name=name)
    if catalog:
        row = referenced_catalog(catalog)
        if row.cluster_id not in (None, cluster.pk):
            message = f"Catalog {row} is not of cluster {cluster.name}."
            raise BadRequest(message, code="invalid", catalog=message)
        rows = rows.filter(catalog=row)
    packages = sorted(rows.filter(catalog__cluster=cluster), key=precedence) or sorted(
        rows.filter(catalog__cluster=None), key=precedence
    )
    if not packages:
        where = f" in catalog {catalog[:120]}" if catalog else ""
        raise Missing(f"There is no package {name[:120]}{where}.", code="unknown-package")
    fitting = (row for row in packages if method in paths_of(cluster, row.catalog))
    return packages[0] if len(packages) == 1 else next(fitting, packages[0])


class BulkInstallBody(RequestBody):
    """Packages to install. `packages` are `CLUSTER/CATALOG/PACKAGE`, `-` for CLUSTER without one;
    the other values are the same for all, also `config`, the `spec.config` of each object. `anyway`
    also installs what is predicted to fail or is
    there already."""

    cluster: str
    packages: list[str]
    method: Method = InstallMethod.PLATFORM_OPERATOR
    namespace: str = ""
    targets: str = ""
    approval: str = ""
    policy: str = ""
    service_account: str = ""
    config: Config = {}
    anyway: bool = False
    dry_run: bool = False


@router.post("/bulk-installs", response={202: BulkInstallRow})
def create_bulk_install(request: HttpRequest, body: BulkInstallBody) -> HttpResponseBase:
    """Starts many installs at once, each after a server-side dry run.

    202 with the bulk install; installs that the cluster refuses are in `left_out` with the reason.
    With `dry_run` 200 with the manifests to apply and the results. The same request with the same
    `Idempotency-Key` header gives the same bulk install again, with the header
    `Idempotency-Replayed: true`; another request with that key is refused (422, `key-reused`).
    Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    key = read_key(request) or uuid.uuid4().hex
    cluster, method, keys = _bulk_target(body)
    shared = {name: getattr(body, name) for name in bulk.SHARED}
    hashed = bulk.hash_of(cluster, method, keys, shared, config=body.config, anyway=body.anyway)
    batch = None if body.dry_run else bulk.earlier_batch(request.user, key, hashed)
    if batch is None:
        items = _bulk_items(body, cluster, method, keys, shared, request)
        if body.dry_run:
            return json_response({"packages": [_dry_run_row(item) for item in items]})
        batch = bulk.record_batch(
            items,
            cluster,
            method,
            request.user,
            key=key,
            request_hash=hashed,
            token=token_of_request(request),
        )
    row = bulk_install_row(progress_of(lookup.get_batch(batch.pk)))
    return accepted(row, replayed=batch.replayed)


def _bulk_target(body: BulkInstallBody) -> tuple[Cluster, InstallMethod, list[Key]]:
    cluster = get_cluster(body.cluster)
    bulk.require_few(len(set(body.packages)))
    keys = bulk.read_keys(body.packages)
    if len(keys) != len(set(body.packages)):
        raise BadRequest(
            "Each of packages is CLUSTER/CATALOG/PACKAGE.",
            code="invalid",
            packages="For example prod/redhat-operators/etcd.",
        )
    foreign = next((key for key in keys if key.cluster not in (cluster.name, LOCAL)), None)
    if foreign is not None:
        message = f"{foreign} is not of cluster {cluster.name}."
        raise BadRequest(message, code="invalid", packages=message)
    return cluster, body.method, keys


def _bulk_items(
    body: BulkInstallBody,
    cluster: Cluster,
    method: InstallMethod,
    keys: list[Key],
    shared: dict[str, str],
    request: HttpRequest,
) -> list[Item]:
    require_configured(cluster)
    chosen = bulk.read_selection(keys)
    candidates = bulk.candidates(chosen, cluster, method, body.targets)
    wanted = [c for c in candidates if body.anyway or not c.doubt]
    doubted = [Item(c, problem=c.doubt) for c in candidates if c.doubt and not body.anyway]
    planned = bulk.plan_items(wanted, cluster, method, shared, body.config) if wanted else []
    return [*bulk.dry_run(planned, request.user), *doubted]


def _dry_run_row(item: Item) -> PlannedPackageRow:
    candidate = item.candidate
    prediction = candidate.prediction
    return PlannedPackageRow(
        package=candidate.name,
        catalog=f"{candidate.key.cluster}/{candidate.key.catalog}",
        verdict=own_value(prediction.verdict) if prediction else "",
        rule=prediction.rule if prediction else "",
        sentence=prediction.sentence if prediction else "",
        ok=item.plan is not None and not item.problem,
        reason=item.problem,
        hint=item.hint,
        bundle=item.plan.target if item.plan else "",
        manifests=list(item.plan.manifests) if item.plan else [],
    )


class BulkInstallParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    verb: Annotated[list[BulkVerb] | None, FilterLookup("verb__in")] = values("What it does.")
    user: Annotated[Values, FilterLookup("user__username__in")] = values("Who asked for it.")
    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=UNTIL)

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("created_at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("created_at", moment)


@router.get("/bulk-installs", response=Page[BulkInstallSummary], auth=PEOPLE_ONLY)
def list_bulk_installs(
    request: HttpRequest, query: Query[BulkInstallParameters]
) -> HttpResponseBase:
    """Bulk installs and bulk changes, newest first."""
    batches = query.filter(with_progress(ActionBatch.objects.select_related("cluster", "user")))
    source = StoredRows(batches, ("-id",), lambda rows: [bulk_install_summary(row) for row in rows])
    of_batches = Action.objects.filter(batch__isnull=False).order_by("state")
    counts = of_batches.values_list("state").annotate(Count("id"), Count("begun_at"))
    stops = ActionBatch.objects.aggregate(Max("id"), Max("stopped_at"))
    state = [*counts, stops]
    return answer_list(request, query, "bulk-installs", BulkInstallSummary, source, state)


@router.get("/bulk-installs/{id}", response=BulkInstallRow, auth=PEOPLE_ONLY)
def get_bulk_install(request: HttpRequest, id: int) -> HttpResponseBase:
    """One bulk install: each action with its state, how many are done, what was left out."""
    row = bulk_install_row(progress_of(lookup.get_batch(id)))
    return answer_one(request, (row,), lambda: row)


@router.post("/bulk-installs/{id}/stop", response=BulkInstallRow)
def stop_bulk_install(request: HttpRequest, id: int) -> HttpResponseBase:
    """Stops the pending actions, not the running ones. Needs a token with the scope act."""
    require_scope(request)
    person(request.user)
    bulk.stop(lookup.get_batch(id), request.user)
    return json_response(bulk_install_row(progress_of(lookup.get_batch(id))))
