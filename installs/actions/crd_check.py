"""The check of a cluster's CRDs and objects before an upgrade, which may be requested.

It reads the CRDs of the cluster and their objects as the person who requests it, where
`installs.actions.crd_safety` compares stored rows. A worker makes it, and it is shown for SHOWN.
`CrdCheck.result`:

    crds       by name, those of the bundle that the cluster has, each with
        name, kind
        error          a sentence if the CRD or its objects could not be read, else ""
        changes        [{"version", "path", "rule", "note", "outcome": a field of CrdSafety}],
                       at most ROWS
        versions       the versions whose objects were checked; the others do not change
        objects        number of the objects that were checked
        complete       false if the bounds of a check ended it
        unchecked      parts of the schema that only a cluster can evaluate, at most ROWS
        refused, olm_v0, dropped
                       numbers of objects by their worst reason (catalogs.contents.crd_objects)
        already        number of those objects that break the current schema in the same ways
        misfits        at most ROWS of them, worst first: {"namespace", "name", "version",
                       "outcome", "already",
                       "reasons": [{"path", "rule", "note", "outcome", "already"}]}
    requests   number of API requests
    bytes      of the objects that were read

No value of an object is stored.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Max
from django.utils import timezone

from catalogs.contents.crd_objects import (
    Misfit,
    Outcome,
    UnreadableSchema,
    VersionSchema,
    checked_versions,
    schema_of,
)
from catalogs.contents.crd_upgrade import crd_upgrade, is_too_deep
from catalogs.install_methods import InstallMethod
from installs.actions.crd_safety import CRD_OUTCOMES, crds_of, outcome_of
from installs.actions.plan_changes import catalog_package
from installs.models import CrdCheck, Operator
from olmweb.accounts.roles import AnyUser, impersonation_for, may_read_yaml, person, sign_in_problem
from olmweb.clusters import client_for, require_configured
from olmweb.errors import Missing, OlmwebError
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.decode import DEPTH
from olmweb.kube.errors import Forbidden, KubeError, NotFound
from olmweb.kube.fields import Object, text
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from olmweb.kube.resources import Resource
from olmweb.models import Cluster
from olmweb.runtime.reports import ATTEMPTS, TIME_LIMIT, Job, run_report

SHOWN = timedelta(minutes=30)  # after the request
ROWS = 100
EXISTING = 1_000  # reasons of the current schema that those of the new one are compared with
PAGE = 50  # objects of a request
OBJECTS = 5_000  # of one check
BYTES = 64 * 1024 * 1024
HIDDEN_KIND = "Secret"
_OPEN = timedelta(seconds=2 * TIME_LIMIT)  # after which a request that no worker took is given up


def current_check(user: User, operator: Operator, bundle: str, now: datetime) -> CrdCheck | None:
    """The check of this user that is not older than SHOWN; one query."""
    rows = CrdCheck.objects.filter(user=user, requested_at__gt=now - SHOWN, bundle=bundle)
    return rows.filter(**_identity(operator)).first()


class CheckSummary(NamedTuple):
    """A finished check in numbers: objects that would be refused, of all that were read, and those
    of them that break the current schema already; `changes` of the CRDs of the cluster itself."""

    finished_at: datetime
    objects: int
    refused: int
    already: int
    changes: int
    complete: bool


def finished_check(user: AnyUser, operator: Operator, bundle: str) -> CheckSummary | None:
    """That of the user's last check, if it has a result; at most one query."""
    if not isinstance(user, User) or not bundle:
        return None
    row = current_check(user, operator, bundle, timezone.now())
    if row is None or row.finished_at is None or row.error_text:
        return None
    crds = row.result.get("crds", [])
    # OLM v0 refuses the upgrade for both outcomes, the API server one of them.
    outcomes = ("refused",) + (("olm_v0",) if operator.kind == InstallMethod.SUBSCRIPTION else ())
    return CheckSummary(
        row.finished_at,
        objects=sum(crd["objects"] for crd in crds),
        refused=sum(crd[outcome] for crd in crds for outcome in outcomes),
        already=sum(crd.get("already", 0) for crd in crds),
        changes=sum(len(crd["changes"]) for crd in crds),
        complete=all(crd["complete"] for crd in crds),
    )


def is_pending(row: CrdCheck, now: datetime) -> bool:
    """Whether a worker may still make it."""
    return row.finished_at is None and now - row.requested_at < _OPEN


def request_check(user: User, operator: Operator, bundle: str, now: datetime) -> CrdCheck:
    """Has a worker check the objects of the operator's cluster against the CRDs of the bundle,
    unless this user's last request is pending.

    Raises OlmwebError: 403 for a user who may not read objects, 404 for a bundle that the package
    does not have, 409 for one whose CRDs are not stored and for a removed cluster.
    """
    acting = person(user, may_read_yaml)
    require_configured(operator.cluster)
    _new_crds(operator, bundle)
    row = current_check(acting, operator, bundle, now)
    if row is not None and is_pending(row, now):
        return row
    fresh = {
        "result": {},
        "error_text": "",
        "error_hint": "",
        "attempts": 0,
        "requested_at": now,
        "started_at": None,
        "finished_at": None,
    }
    row, _ = CrdCheck.objects.update_or_create(
        user=acting, bundle=bundle, **_identity(operator), defaults=fresh
    )
    run_report.delay_on_commit()
    return row


def _identity(operator: Operator) -> dict[str, Any]:
    return {
        "cluster": operator.cluster,
        "kind": operator.kind,
        "namespace": operator.namespace,
        "name": operator.name,
    }


def _new_crds(operator: Operator, bundle: str) -> dict[str, Object]:
    """The CRDs of the bundle by name. Raises as request_check."""
    package = catalog_package(operator)
    row = package.bundles.filter(name=bundle).first() if package else None
    if row is None:
        raise Missing(
            f"The catalogs of cluster {operator.cluster} have no bundle {bundle[:120]} of package "
            f"{operator.package or operator.name}.",
            code="unknown-bundle",
            hint="The upgrade form lists the versions that can follow.",
        )
    crds = crds_of(row)
    if crds is None:
        raise OlmwebError(
            f"The catalog does not have the CRDs of {bundle[:120]}.",
            code="not-inspected",
            status=409,
            hint="Inspect the image of the bundle first.",
        )
    return crds


def unfinished() -> list[Job]:
    """The checks that wait or run."""
    rows = CrdCheck.objects.filter(finished_at=None, requested_at__gt=timezone.now() - _OPEN)
    values = rows.values_list("pk", "user__username", "requested_at")
    return [Job("crds", key, username, at) for key, username, at in values]


def served() -> dict[str, datetime]:
    """When the last check of each person began."""
    rows = CrdCheck.objects.exclude(started_at=None).order_by()
    return dict(rows.values_list("user__username").annotate(Max("started_at")))


def read_check(row: CrdCheck) -> None:
    """Reads the cluster as the user, whose rights are checked again, and completes the row."""
    CrdCheck.objects.filter(requested_at__lt=timezone.now() - SHOWN).delete()
    if row.attempts >= ATTEMPTS:
        text_ = f"The check ended {ATTEMPTS} times without a result."
        fail(row, text_, "The workers of the queue reports may lack memory; look at their logs.")
        return
    row.attempts, row.started_at = row.attempts + 1, timezone.now()
    CrdCheck.objects.filter(pk=row.pk).update(attempts=row.attempts, started_at=row.started_at)
    try:
        require_configured(row.cluster)
        as_user = impersonation_for(row.user, may_read_yaml)
        if problem := sign_in_problem(row.user):
            fail(row, problem, "")
            return
        named = {"kind": row.kind, "namespace": row.namespace, "name": row.name}
        rows = Operator.objects.select_related("cluster").filter(cluster=row.cluster_id, **named)
        if (operator := rows.first()) is None:
            fail(row, f"{row.kind} {row.name} was removed from cluster {row.cluster}.", "")
            return
        crds = _new_crds(operator, row.bundle)
        with client_for(row.cluster) as client:
            reading = _Reading(client, row.cluster, as_user)
            checked = [reading.check(operator.kind, name, crds[name]) for name in sorted(crds)]
            row.result = {
                "crds": [crd for crd in checked if crd is not None],
                "requests": client.requests,
                "bytes": reading.size,
            }
    except (KubeError, OlmwebError) as error:
        fail(row, error.message, error.hint)
        return
    _finish(row)


def fail(row: CrdCheck, message: str, hint: str) -> None:
    row.result, row.error_text, row.error_hint = {}, message, hint
    _finish(row)


def _finish(row: CrdCheck) -> None:
    """Not written over a newer request, and not made again after its user was deleted."""
    CrdCheck.objects.filter(pk=row.pk, requested_at=row.requested_at).update(
        result=row.result,
        error_text=row.error_text,
        error_hint=row.error_hint,
        finished_at=timezone.now(),
    )


@dataclass(slots=True)
class _Objects:
    """What was read of the objects of one CRD."""

    count: int = 0
    complete: bool = True
    unchecked: set[str] = field(default_factory=set)
    by_outcome: Counter[str] = field(default_factory=Counter)
    already: int = 0
    misfits: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, item: Object, version: str, reasons: tuple[Misfit, ...], existing: tuple[Misfit, ...]
    ) -> None:
        """`reasons` are those of the new schema, `existing` those of the current one."""
        self.count += 1
        if not reasons:
            return
        worst = str(reasons[0].outcome)
        self.by_outcome[worst] += 1
        rows = [asdict(reason) | {"already": _is_among(reason, existing)} for reason in reasons]
        already = all(row["already"] for row in rows)
        self.already += already
        if self.by_outcome[worst] <= ROWS:
            self.misfits.append(
                {
                    "namespace": text(item, "metadata", "namespace", limit=63),
                    "name": text(item, "metadata", "name", limit=253),
                    "version": version,
                    "outcome": worst,
                    "already": already,
                    "reasons": rows,
                }
            )


def _is_among(reason: Misfit, existing: tuple[Misfit, ...]) -> bool:
    """Whether the current schema has this reason, too, with the same outcome or a worse one."""
    worse = list(Outcome)[: list(Outcome).index(reason.outcome) + 1]
    return any(
        (misfit.path, misfit.rule) == (reason.path, reason.rule) and misfit.outcome in worse
        for misfit in existing
    )


class _Reading:
    """Reads CRDs and objects of one cluster as one person, within the bounds of a check."""

    def __init__(self, client: KubeClient, cluster: Cluster, as_user: Impersonation | None) -> None:
        self._client, self._cluster, self._as_user = client, cluster, as_user
        self._left = OBJECTS
        self.size = 0  # bytes of the objects

    def check(self, kind: str, name: str, new: Object) -> dict[str, Any] | None:
        """The row of one CRD; None if the cluster does not have it. `kind` is the operator's."""
        who = self._as_user.user if self._as_user else "the account of OLM Web"
        row: dict[str, Any] = {
            "name": name,
            "kind": text(new, "spec", "names", "kind"),
            "error": "",
        }
        old: Object | None = None
        versions: list[str] = []
        objects = _Objects()
        try:
            old = self._client.get(CRDS, CRDS.versions[0], name, as_user=self._as_user)
            if text(old, "spec", "names", "kind") == HIDDEN_KIND:
                row["error"] = "OLM Web never reads Secrets."
            elif is_too_deep(old) or is_too_deep(new):
                row["error"] = (
                    f"The schema is nested deeper than {DEPTH} levels: the objects are not "
                    "checked, and changes below that depth are not listed."
                )
            else:
                versions = checked_versions(old, new)
                for version in versions:
                    self._objects(old, new, version, objects)
        except NotFound:
            if old is None:
                return None
            row["error"] = f"Cluster {self._cluster} does not serve {name} any more."
        except Forbidden as error:
            what = f"CustomResourceDefinition {name}" if old is None else f"objects of {name}"
            row["error"] = f"Cluster {self._cluster} does not let {who} read {what}."
            row["error"] += f" {error.message}" if error.message else ""
        except UnreadableSchema:
            row["error"] = "The new schema is not one that an API server accepts."
        changes = [] if old is None else list(_changes(kind, old, new))
        misfits = sorted(objects.misfits, key=lambda misfit: list(Outcome).index(misfit["outcome"]))
        return row | {
            "changes": changes[:ROWS],
            "versions": versions,
            "objects": objects.count,
            "complete": objects.complete and not row["error"],
            "unchecked": sorted(objects.unchecked)[:ROWS],
            "refused": objects.by_outcome[Outcome.REFUSED],
            "olm_v0": objects.by_outcome[Outcome.OLM_V0],
            "dropped": objects.by_outcome[Outcome.DROPPED],
            "already": objects.already,
            "misfits": misfits[:ROWS],
        }

    def _objects(self, old: Object, new: Object, version: str, objects: _Objects) -> None:
        schema = VersionSchema(schema_of(new, version))
        objects.unchecked.update(schema.unchecked)
        try:
            current = VersionSchema(schema_of(old, version))
        except UnreadableSchema:  # of a cluster that accepted it all the same
            current = VersionSchema(None)
        group, plural = text(old, "spec", "group"), text(old, "spec", "names", "plural")
        resource = Resource(group, (version,), plural, text(old, "spec", "names", "kind"))
        if self._left <= 0 or self.size >= BYTES:
            objects.complete = False
            return
        pages = self._client.list_pages(resource, version, limit=PAGE, as_user=self._as_user)
        for page in pages:
            if page.restart:  # the list began again; its objects would count twice
                objects.complete = False
                return
            self.size += page.size
            self._left -= len(page.items)
            for item in page.items:
                reasons = schema.misfits(item)
                existing = current.misfits(item, EXISTING) if reasons else ()
                objects.add(item, version, reasons, existing)
            if page.continue_token and (self._left <= 0 or self.size >= BYTES):
                objects.complete = False
                return


def _changes(kind: str, old: Object, new: Object) -> Iterator[dict[str, Any]]:
    """The findings by outcome, the refused ones first."""
    findings = [(outcome_of(kind, finding), finding) for finding in crd_upgrade(old, new)]
    for outcome, finding in sorted(findings, key=lambda row: CRD_OUTCOMES.index(row[0])):
        yield {
            "version": finding.version,
            "path": finding.path,
            "rule": finding.rule,
            "note": finding.note,
            "outcome": outcome,
        }
