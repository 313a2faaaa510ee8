"""Bulk install: many packages, one review, one confirmation, an Action each.

The selected packages become candidates, these are planned and tried, and a batch records their
actions. Workers run AT_ONCE of them at a time. A worker begins an action by one conditional update
and Stop ends it by another, so that exactly one of them gets it.
"""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, Prediction
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import (
    StoredVerdict,
    best_rows,
    chosen_rows,
    chosen_rows_by_method,
    stored_verdict,
)
from catalogs.verdicts.rules import Verdict
from installs.actions import record
from installs.actions.events import record_actions
from installs.actions.execute import finish
from installs.actions.install_rows import SUGGESTED_NAMESPACE, default_namespaces
from installs.actions.objects import DryRun
from installs.actions.plan import (
    CatalogSources,
    Plan,
    paths_of,
    plan_install,
    read_catalog_sources,
)
from installs.methods.configuration import CONFIG
from installs.models import Action, ActionBatch, Operator
from olmweb.accounts.roles import AnyUser, person
from olmweb.errors import BadRequest, OlmwebError
from olmweb.eventlog.types import EventType
from olmweb.models import LOCAL, ApiToken, Cluster
from olmweb.tasks import enqueue

log = structlog.get_logger(__name__)

CAP = 50  # packages that one batch installs
SHOWN = 200  # packages read of a selection
DRY_RUN_SECONDS = 25.0  # for all dry runs together: a person waits
SHARED = ("namespace", "targets", "approval", "policy", "service_account")
AT_ONCE = 3
STOPPED = "stopped"  # outcome code
WAIT = timedelta(hours=9)  # enough for CAP installs that are each sent and followed to the timeout


# --- selection ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """Names a package as the address of its page does: `prod/redhat-operators/etcd`."""

    cluster: str
    catalog: str
    package: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.catalog}/{self.package}"


@dataclass(frozen=True, slots=True)
class BulkCandidate:
    """A selected package on one cluster by one install method.

    `hindrance` says why it can't be installed with the others, `doubt` why it is not ticked by
    default; `package` is None only with a hindrance. `prediction` is the stored verdict on
    `bundle`, which the install method would choose; None before the first evaluation.
    """

    key: Key
    package: Package | None = None
    prediction: StoredVerdict | None = None
    bundle: str = ""
    hindrance: str = ""
    doubt: str = ""

    @property
    def name(self) -> str:
        return self.key.package


def read_keys(texts: Iterable[str]) -> list[Key]:
    """The first SHOWN distinct keys; invalid texts are left out."""
    keys = [
        Key(*parts)
        for text in texts
        if len(parts := text.split("/")) == 3 and all(parts) and len(text) <= 1000
    ]
    return list(dict.fromkeys(keys))[:SHOWN]


@dataclass(frozen=True, slots=True)
class Selection:
    """The packages that the keys name, on any cluster."""

    keys: Sequence[Key]
    packages: Mapping[Key, Package]
    sources: CatalogSources  # with the names of their catalogs

    def on(self, cluster: Cluster, key: Key) -> Package | None:
        """The package that the key means on this cluster: from the catalog that it names, or
        from the catalog of the same name that belongs to the cluster or to none."""
        package = self.packages.get(key)
        if package is not None and package.catalog.cluster_id in (None, cluster.pk):
            return package
        others = (replace(key, cluster=name) for name in (cluster.name, LOCAL))
        return next((self.packages[other] for other in others if other in self.packages), None)

    def paths(self, cluster: Cluster) -> dict[Catalog, list[InstallMethod]]:
        """Catalog of a selected package on the cluster -> its install methods there."""
        packages = [self.on(cluster, key) for key in self.keys]
        catalogs = {package.catalog for package in packages if package is not None}
        return {catalog: paths_of(cluster, catalog, sources=self.sources) for catalog in catalogs}


def read_selection(keys: Sequence[Key]) -> Selection:
    rows = (
        Package.objects.filter(
            name__in={key.package for key in keys}, catalog__slug__in={key.catalog for key in keys}
        )
        .annotate(suggested_namespace=SUGGESTED_NAMESPACE)
        .select_related("catalog", "catalog__cluster")
    )
    packages = {Key(row.catalog.cluster_name, row.catalog.slug, row.name): row for row in rows}
    sources = read_catalog_sources({row.catalog.name for row in packages.values()})
    return Selection(keys, packages, sources)


def target_clusters(
    selection: Selection, clusters: Sequence[Cluster]
) -> dict[Cluster, list[InstallMethod]]:
    """Cluster -> the install methods of at least one selected package there. The cluster of the
    first key comes first."""
    methods: dict[Cluster, list[InstallMethod]] = {}
    for cluster in clusters:
        usable = {path for paths in selection.paths(cluster).values() for path in paths}
        if usable:
            methods[cluster] = [path for path in InstallMethod if path in usable]
    first = next((key.cluster for key in selection.keys if key.cluster != LOCAL), "")
    return dict(sorted(methods.items(), key=lambda item: (item[0].name != first, item[0].name)))


def best_method(
    selection: Selection, cluster: Cluster, methods: Sequence[InstallMethod]
) -> tuple[InstallMethod, list[BulkCandidate]]:
    """The install method, of `methods`, that can install most of the selection on the cluster by
    the stored verdicts, with its candidates; of equal ones that with fewer unknown verdicts, then
    the first. Queries as `candidates`."""
    state = _selected_state(selection, cluster)
    rows = chosen_rows_by_method(_rows_of(state.present), cluster.pk)
    by_method = {
        method: _candidates(state, method, _verdicts(rows.get(method, []))) for method in methods
    }

    def rank(method: InstallMethod) -> tuple[int, int]:
        able = [row for row in by_method[method] if not (row.hindrance or row.doubt)]
        verdicts = [row.prediction.verdict for row in able if row.prediction is not None]
        return len(able), sum(verdict != Verdict.UNKNOWN for verdict in verdicts)

    best = max(methods, key=rank)
    return best, by_method[best]


def candidates(
    selection: Selection, cluster: Cluster, path: InstallMethod, targets: str = ""
) -> list[BulkCandidate]:
    """All selected packages by name. `targets` is the form value: what the OperatorGroup of a
    Subscription selects, all or own; empty: what each package supports.

    The number of queries does not depend on the selection, except one for each catalog.
    """
    state = _selected_state(selection, cluster)
    verdicts = chosen_verdicts(state.present, cluster, path, targets)
    return _candidates(state, path, verdicts)


@dataclass(frozen=True, slots=True)
class _SelectedState:
    """The packages of a selection on one cluster, whatever the install method: the methods of their
    catalogs; package -> sentence about its open action, and about its operator."""

    cluster: Cluster
    packages: dict[Key, Package | None]
    paths: dict[Catalog, list[InstallMethod]]
    busy: dict[str, str]
    installed: dict[str, str]

    @property
    def present(self) -> list[Package]:
        return [package for package in self.packages.values() if package is not None]


def _selected_state(selection: Selection, cluster: Cluster) -> _SelectedState:
    on = {key: selection.on(cluster, key) for key in selection.keys}
    packages = [package for package in on.values() if package is not None]
    return _SelectedState(
        cluster,
        on,
        selection.paths(cluster),
        _busy(packages, cluster),
        _installed(packages, cluster),
    )


def _candidates(
    state: _SelectedState, path: InstallMethod, verdicts: Mapping[int, BulkCandidate]
) -> list[BulkCandidate]:
    results: list[BulkCandidate] = []
    names: dict[str, Key] = {}
    for key in sorted(state.packages, key=lambda key: (key.package, str(key))):
        package = state.packages[key]
        if package is None:
            where = f"Cluster {state.cluster.name} has no catalog {key.catalog} with it."
            results.append(BulkCandidate(key, hindrance=where))
            continue
        candidate = verdicts.get(package.pk, BulkCandidate(key))
        candidate = replace(candidate, key=key, package=package)
        if path not in state.paths[package.catalog]:
            why = f"Packages of catalog {package.catalog.name} can't be installed as {path} there."
        elif package.name in names:
            why = f"It is already selected from {names[package.name].catalog}."
        else:
            why = state.busy.get(package.name, "")
        names.setdefault(package.name, key)
        doubt = state.installed.get(package.name, "") or _doubt(candidate)
        results.append(replace(candidate, hindrance=why, doubt="" if why else doubt))
    return results


def namespaces_of(
    candidates: Sequence[BulkCandidate], cluster: Cluster, path: str, values: Mapping[str, str]
) -> dict[Key, str]:
    """The namespace that each package would be installed in with these values of SHARED, as its
    plan has it; empty for a method without namespaces. At most one query."""
    targets = {
        candidate.package: candidate.prediction.target if candidate.prediction else None
        for candidate in candidates
        if candidate.package is not None and not candidate.hindrance
    }
    namespaces = default_namespaces(targets, cluster, path, values)
    return {
        candidate.key: namespaces[candidate.package]
        for candidate in candidates
        if candidate.package in namespaces
    }


def _doubt(candidate: BulkCandidate) -> str:
    if candidate.prediction is None or candidate.prediction.verdict != Verdict.NOT_INSTALLABLE:
        return ""
    return candidate.prediction.sentence


def chosen_verdicts(
    packages: Sequence[Package], cluster: Cluster, path: InstallMethod, targets: str
) -> dict[int, BulkCandidate]:
    """Package key -> verdict on the bundle that the method would choose; one query."""
    target = None  # the best target of each package
    if targets:  # named namespaces have no verdicts of their own
        target = WatchTarget.OWN if targets == WatchTarget.OWN else WatchTarget.ALL
    return _verdicts(chosen_rows(_rows_of(packages), path, cluster.pk, target))


def _rows_of(packages: Sequence[Package]) -> QuerySet[Package]:
    return Package.objects.filter(pk__in=[package.pk for package in packages])


def _verdicts(rows: Iterable[Prediction]) -> dict[int, BulkCandidate]:
    return {
        row.package_id: BulkCandidate(
            Key("", "", row.package.name),
            prediction=stored_verdict(row),
            bundle=row.bundle.name if row.bundle else "",
        )
        for row in best_rows(rows)
    }


def _busy(packages: Sequence[Package], cluster: Cluster) -> dict[str, str]:
    """Package -> sentence about its open action on the cluster; one query."""
    rows = Action.objects.filter(
        cluster=cluster, state__in=Action.OPEN, package__in={package.name for package in packages}
    ).only("pk", "package", "verb")
    return {
        row.package: f"Its {row.verb}, action {row.pk}, is not finished."
        for row in rows.order_by("-pk")
    }


def _installed(packages: Sequence[Package], cluster: Cluster) -> dict[str, str]:
    """Package -> sentence about its operator on the cluster; one query."""
    rows = Operator.objects.filter(
        cluster=cluster, kind__in=InstallMethod, package__in={package.name for package in packages}
    ).order_by("kind", "namespace", "name")
    return {
        row.package: f"Already installed as {row.kind} {row.name}"
        + (f" in {row.namespace}." if row.namespace else ".")
        for row in rows
    }


# --- review -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One package of a review. Without `problem` the cluster would accept `plan`."""

    candidate: BulkCandidate
    plan: Plan | None = None
    dry_run_result: DryRun | None = None
    problem: str = ""
    hint: str = ""


def require_few(count: int) -> None:
    """Raises BadRequest for no package and for more than CAP."""
    if not count:
        raise BadRequest("Select at least one package.", code="none-selected")
    if count > CAP:
        raise BadRequest(
            f"These are {count} packages, and at most {CAP} can be installed at once.",
            code="too-many",
            hint=f"Deselect {count - CAP} of them.",
        )


def plan_items(
    chosen: Sequence[BulkCandidate],
    cluster: Cluster,
    path: str,
    values: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
) -> list[Item]:
    """A plan for each candidate, or the reason against it. `config` is the `spec.config` of all.

    Raises OlmwebError as `require_few`, and with `fields` for a wrong value of SHARED or `config`.
    """
    require_few(len(chosen))
    shared = {name: values.get(name, "") for name in SHARED}
    items = []
    for candidate in chosen:
        if candidate.package is None or candidate.hindrance:
            items.append(Item(candidate, problem=candidate.hindrance))
            continue
        try:
            items.append(
                Item(
                    candidate,
                    plan_install(cluster, candidate.package, "", path, shared, config=config),
                )
            )
        except OlmwebError as error:
            if error.code == "not-served" or _is_shared(error, values):
                raise
            items.append(Item(candidate, problem=error.message, hint=error.hint))
    return items


def _is_shared(error: OlmwebError, values: Mapping[str, str]) -> bool:
    """Whether a value of SHARED or the configuration is wrong, and not a default of the package."""
    if any(name == CONFIG or name.startswith(f"{CONFIG}.") for name in error.fields):
        return True
    without_default = {"service_account"}
    return any(
        name in without_default or values.get(name) for name in error.fields if name in SHARED
    )


def dry_run(items: Sequence[Item], user: AnyUser, seconds: float = DRY_RUN_SECONDS) -> list[Item]:
    """Lets the cluster try each plan, within `seconds` in total. After a request that the cluster
    does not answer, the others are not sent."""
    until = time.monotonic() + seconds
    results: list[Item] = []
    silent = ""
    for item in items:
        if item.plan is None:
            results.append(item)
            continue
        if not silent and time.monotonic() > until:
            silent = f"No dry run: those before it took more than {seconds:.0f} s."
        if silent:
            results.append(replace(item, problem=silent, hint="Select fewer, or review again."))
            continue
        try:
            result = record.dry_run(item.plan, user)
        except OlmwebError as error:
            if error.status == 403:
                raise
            results.append(replace(item, problem=error.message, hint=error.hint))
            continue
        if result.code == "unreachable":
            silent = result.message
        problem = "" if result.ok else _problem(result)
        results.append(replace(item, dry_run_result=result, problem=problem, hint=result.hint))
    return results


def _problem(result: DryRun) -> str:
    fields = [
        f"{name}: {text}" for name, text in result.fields.items() if text not in result.message
    ]
    return " ".join([result.message, *fields])


def accepted(items: Sequence[Item]) -> list[Plan]:
    """The plans that the cluster would accept."""
    return [item.plan for item in items if item.plan is not None and not item.problem]


def refusals(items: Iterable[Item]) -> dict[str, list[str]]:
    """Reason -> names of what can't be changed because of it; reasons of most first."""
    names: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if reason := item.problem or item.candidate.hindrance:
            names[reason].append(item.candidate.name)
    return dict(sorted(names.items(), key=lambda pair: -len(pair[1])))


# --- batches ------------------------------------------------------------------------------------


def hash_of(
    cluster: Cluster,
    path: str,
    keys: Sequence[Key],
    values: Mapping[str, str],
    *,
    config: Mapping[str, Any] | None = None,
    anyway: bool = False,
) -> str:
    """A hash of a selection, its values of SHARED and its configuration, and whether doubtful
    packages are part of it."""
    shared = [values.get(name, "").strip() for name in SHARED]
    selected = sorted(str(key) for key in keys)
    content = [cluster.pk, path, selected, shared, dict(config or {}), anyway]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def earlier_batch(user: AnyUser, key: str, request_hash: str) -> ActionBatch | None:
    """The user's batch with this key, marked as replayed. Raises OlmwebError (422) if its selection
    is another."""
    batch = ActionBatch.objects.filter(user=user.pk, idempotency_key=key).first()
    if batch is None:
        return None
    if batch.asked_hash != request_hash:
        raise record.key_reused("bulk action")
    batch.replayed = True
    return batch


def record_batch(
    items: Sequence[Item],
    cluster: Cluster,
    path: str,
    user: AnyUser,
    *,
    key: str,
    request_hash: str,
    token: ApiToken | None = None,
    verb: str = Action.Verb.INSTALL,
) -> ActionBatch:
    """Records the accepted items as a batch of actions, with the reasons why others are left out.

    A second call with the same key returns the first batch, marked as replayed. `token` is what
    the user acts by, if not by a session; `verb` names a bulk change that is no install. Raises
    OlmwebError: 403 for users who may not act, 409 when nothing can be done, 422 when the key was
    used for another selection.
    """
    acting = person(user)
    with transaction.atomic():
        batch, created = ActionBatch.objects.get_or_create(
            user=acting,
            idempotency_key=key,
            defaults={
                "cluster": cluster,
                "path": path,
                "verb": verb,
                "asked_hash": request_hash,
            },
        )
        if created:
            _fill(batch, items, acting, token)
    batch.replayed = not created
    if batch.asked_hash != request_hash:
        raise record.key_reused("bulk action")
    if created:
        log.info("batch recorded", batch=batch.pk, path=path, left_out=len(batch.left_out))
    return batch


def _fill(batch: ActionBatch, items: Sequence[Item], acting: User, token: ApiToken | None) -> None:
    made: list[int] = []
    for item in items:
        reason = item.problem
        if not reason and item.plan is not None:
            try:
                action = record.request(
                    item.plan,
                    acting,
                    dry_run_result=item.dry_run_result,
                    token=token,
                    batch=batch,
                )
            except OlmwebError as error:
                reason = error.message
            else:
                if action.batch_id == batch.pk and action.pk not in made:
                    made.append(action.pk)
                else:
                    reason = f"Action {action.pk} does this already."
        if reason:
            batch.left_out.append({"package": item.candidate.name, "reason": reason})
    if not made:
        raise OlmwebError(
            "Nothing of this can be done now: " + _first_reasons(batch.left_out),
            code="nothing-left",
            status=409,
            hint="Review it again.",
        )
    # `next_after` enqueues the others; messages for them would only be in the way.
    for first in made[:AT_ONCE]:
        enqueue("installs.run_action", first)
    batch.save(update_fields=["left_out"])


def _first_reasons(left_out: list[dict[str, str]]) -> str:
    reasons = "; ".join(f"{entry['package']}: {entry['reason']}" for entry in left_out[:3])
    return reasons + (f"; and {len(left_out) - 3} more." if len(left_out) > 3 else "")


def stop(batch: ActionBatch, user: AnyUser) -> int:
    """Stops the actions that no worker has begun; returns their number. Any user who may act may
    stop a batch. Raises OlmwebError (403) for others."""
    username = person(user).get_username()[:150]
    outcome, code = f"Stopped by {username} before it was applied.", STOPPED
    waiting = Action.objects.filter(batch=batch, state=Action.State.PENDING, begun_at=None)
    with transaction.atomic():
        # Locked, so that these are the ones that are stopped.
        rows = waiting.select_related("user").defer("stored_steps").order_by("pk")
        actions = list(rows.select_for_update(of=("self",)))
        count = waiting.filter(pk__in=[action.pk for action in actions]).update(
            state=Action.State.STOPPED,
            finished_at=timezone.now(),
            outcome=outcome,
            outcome_code=code,
        )
        for action in actions:
            action.state = Action.State.STOPPED
        record_actions(EventType.ACTION_FINISHED, actions, outcome=outcome, outcome_code=code)
        if count:
            batch.stopped_at, batch.stopped_by = timezone.now(), username
            batch.save(update_fields=["stopped_at", "stopped_by"])
            log.info("batch stopped", batch=batch.pk, actions=count)
    return count


def waiting_in_batches() -> set[int]:
    """Ids of the open actions of batches that have to wait for others."""
    rows = Action.objects.filter(batch__isnull=False, state__in=Action.OPEN).order_by("id")
    by_batch: dict[int | None, list[int]] = defaultdict(list)
    for batch, action in rows.values_list("batch_id", "id"):
        by_batch[batch].append(action)
    return {action for ids in by_batch.values() for action in ids[AT_ONCE:]}


def begin(action: Action) -> bool:
    """Begins a pending action, which can't be stopped from then on; False if it has to wait or was
    stopped. An action that waited longer than WAIT is refused. An action without a batch always
    begins."""
    if action.batch_id is None or action.begun_at is not None:
        return True
    same_batch = Action.objects.filter(batch=action.batch_id, state__in=Action.OPEN)
    if same_batch.filter(pk__lt=action.pk).count() >= AT_ONCE:
        return False
    now = timezone.now()
    if now - action.created_at > WAIT:
        hours = WAIT.seconds // 3600
        text = f"It was queued for more than {hours} hours, so it will not be applied."
        finish(action, Action.State.REFUSED, text, code="not-sent", hint="Request it again.")
        return False
    waiting = Action.objects.filter(pk=action.pk, state=Action.State.PENDING, begun_at=None)
    if not waiting.update(begun_at=now):
        return False
    action.begun_at = now
    return True


def next_after(action_id: int) -> list[int]:
    """Ids of the actions of its batch to begin next, once this action has ended."""
    ended = Action.objects.filter(pk=action_id, batch__isnull=False).exclude(state__in=Action.OPEN)
    batch = ended.values_list("batch_id", flat=True).first()
    if batch is None:
        return []
    rows = Action.objects.filter(batch=batch, state__in=Action.OPEN).order_by("id")
    first = rows.values_list("id", "begun_at")[:AT_ONCE]
    return [action for action, begun in first if begun is None]
