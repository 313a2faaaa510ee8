"""What people may ask a cluster for. Tries and records plans; sends nothing.

Sending and following is the worker's (installs.actions.follow). An Action row is written before
anything is sent, and at most one is open per object, so asking twice is asking once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from django.core import signing
from django.db import IntegrityError, transaction

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.actions import plan as planning
from installs.actions.change import removal_consequences
from installs.actions.objects import (
    RETRIED,
    WRITTEN,
    explain,
    is_there,
    may_write,
    remake_problem,
)
from installs.actions.plan import Plan
from installs.models import Action
from installs.models.steps import Apply, Delete, Manifest, Step, from_json, to_json
from olmweb.accounts.roles import AnyUser, impersonation_for, person
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import KubeError, NotFound
from olmweb.kube.resources import NAMESPACES
from olmweb.models import Cluster
from olmweb.tasks import enqueue

__all__ = ["DryRun", "Plan", "plan_install", "removal_consequences"]

DRY_RUN_TIMEOUT = (5.0, 5.0)  # seconds to connect and to wait for the answer: a person waits
REVIEW_SECONDS = 3600  # how long what was reviewed may be confirmed
_SALT = "installs.actions.review"


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the cluster said when it only tried. `fields`: form or object field -> sentence;
    `objects`: (what, what would become of it) in the order of application."""

    ok: bool
    message: str
    fields: dict[str, str] = field(default_factory=dict)
    code: str = ""
    hint: str = ""
    objects: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "message": self.message, "fields": self.fields}


def plan_install(
    cluster: Cluster,
    package: Package,
    name: str,
    user: AnyUser,
    method: str = InstallMethod.PLATFORM_OPERATOR,
    values: Mapping[str, str] | None = None,
) -> Plan:
    """planning.plan_install for somebody who may act; OlmwebError (403) for everybody else."""
    person(user)
    return planning.plan_install(cluster, package, name, method, values)


def dry_run(plan: Plan, user: AnyUser) -> DryRun:
    """Lets the cluster try the plan without keeping it, as the person who would ask for it.

    Waits at most five seconds an object. Never raises for what the cluster says or its absence.
    What can't be tried, because the namespace that it goes to is still to be made, is asked about
    by an access review.
    """
    as_user = impersonation_for(user)
    step = plan.main
    outcomes: list[tuple[str, str]] = []
    try:
        with client_for(plan.cluster, timeout=DRY_RUN_TIMEOUT) as client:
            if refused := _not_remade(client, plan):
                return refused
            new_namespaces: set[str] = set()
            for step in plan.steps:
                outcome = _try(client, plan, step, as_user, new_namespaces)
                outcomes.append((step.label, outcome))
    except KubeError as error:
        return _refused(error, plan, step, as_user)
    return DryRun(True, f"Cluster {plan.cluster.name} would accept this.", objects=tuple(outcomes))


def _not_remade(client: KubeClient, plan: Plan) -> DryRun | None:
    """The refusal to delete and make again what is not as it was shown."""
    step = plan.main
    if not plan.remakes or not isinstance(step, Apply):
        return None
    try:
        there = client.get(WRITTEN[step.kind], step.version, step.name, step.namespace)
    except NotFound:
        return None
    why = remake_problem(there, step.manifest)
    if not why:
        return None
    return DryRun(False, f"{step.label} can't be made again as it was: {why}.", code="changed")


def _refused(error: KubeError, plan: Plan, step: Step, as_user: Impersonation | None) -> DryRun:
    resource = WRITTEN[step.kind]
    refusal = explain(
        error,
        cluster=plan.cluster.name,
        as_user=as_user.user if as_user else "",
        verb=Action.Verb.REMOVE if isinstance(step, Delete) else plan.verb,
        plural=f"{resource.plural}.{resource.group}".rstrip("."),
        kind=step.kind,
    )
    return DryRun(False, refusal.message, refusal.fields, refusal.code, refusal.hint)


def _try(
    client: KubeClient,
    plan: Plan,
    step: Step,
    as_user: Impersonation | None,
    new_namespaces: set[str],
) -> str:
    """What would become of one object, in words. `new_namespaces` are made by the plan."""
    resource = WRITTEN[step.kind]
    if isinstance(step, Delete):
        version = plan.cluster.kinds.get(step.kind, {}).get("version") or resource.versions[0]
        try:
            client.delete(
                resource,
                version,
                step.name,
                step.namespace,
                uid=step.uid,
                dry_run=True,
                as_user=as_user,
            )
        except NotFound:
            return "is gone already"
        return "deleted"
    if step.namespace in new_namespaces:
        may_write(client, resource, step.namespace, as_user)
        return "allowed; can be tried only when its namespace is there"
    is_beside = plan.verb == Action.Verb.INSTALL and not step.main
    if is_beside and is_there(client, step, as_user):
        return "is there already and left as it is"
    client.apply(
        resource,
        step.version,
        step.manifest,
        dry_run=True,
        force=plan.force and step.main,
        as_user=as_user,
    )
    if step.kind == NAMESPACES.kind:
        new_namespaces.add(step.name)
    return "accepted"


def reviewed(plan: Plan, user: AnyUser) -> str:
    """A token that says that this person was shown exactly this plan; lasts an hour."""
    return signing.dumps(digest(plan, user), salt=_SALT)


def require_reviewed(token: str, plan: Plan, user: AnyUser) -> None:
    """Raises OlmwebError (403) unless the person was shown exactly this plan."""
    try:
        reviewed_digest = signing.loads(token, salt=_SALT, max_age=REVIEW_SECONDS)
    except signing.BadSignature:
        reviewed_digest = ""
    if reviewed_digest != digest(plan, user):
        raise OlmwebError(
            "This is not what was reviewed, so nothing was asked for.",
            code="not-reviewed",
            status=403,
            hint="Open the form again, review it, and confirm what it shows.",
        )


def digest(plan: Plan, user: AnyUser) -> str:
    """A hash of everything that would be sent and of who asks for it."""
    content = [
        user.pk,
        plan.cluster.pk,
        plan.verb,
        plan.kind,
        plan.namespace,
        plan.name,
        plan.uid,
        plan.force,
        to_json(_untimed(plan.steps)),
    ]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def _untimed(steps: Sequence[Step]) -> list[Step]:
    """Without the time at which a retry is requested, which is another at each look."""
    return [
        replace(step, manifest=_without_time(step.manifest)) if isinstance(step, Apply) else step
        for step in steps
    ]


def _without_time(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    if RETRIED not in metadata.get("annotations", {}):
        return manifest
    return {**manifest, "metadata": {k: v for k, v in metadata.items() if k != "annotations"}}


def request(
    plan: Plan,
    user: AnyUser,
    *,
    dry_run_result: DryRun | None = None,
    idempotency_key: str = "",
    waits: bool = False,
) -> Action:
    """Records the plan and lets a worker send it; with `waits` the caller sees to that.

    Asked twice, the second call returns the first one's action: while that is open, or for ever
    with the same `idempotency_key` of the same person. Raises OlmwebError (409) when the object
    has another open action or the key was used for something else, 403 when they may not act.
    """
    acting, identity = person(user), impersonation_for(user)
    values = {
        "cluster": plan.cluster,
        "verb": plan.verb,
        "path": plan.kind,
        "namespace": plan.namespace,
        "name": plan.name,
        "package": plan.package,
        "catalog": plan.catalog,
        "channel": plan.channel,
        "version": plan.version[:300],
        "target": plan.target,
        "stored_steps": to_json(plan.steps),
        "force": plan.force,
        "object_uid": "" if plan.verb == Action.Verb.INSTALL else plan.uid,
        "dry_run": dry_run_result.as_json() if dry_run_result else {},
        "user": acting,
        "as_user": identity.user if identity else "",
        "as_groups": list(identity.groups) if identity else [],
        "idempotency_key": idempotency_key,
    }
    if idempotency_key and (earlier := _with_key(values)):
        return earlier
    for _ in range(2):
        # The open action that is in the way may be finished when we look: then ask again.
        action = _create(values, waits=waits) or _open_action(values)
        if action:
            return action
    raise _busy(values, "action")


def _with_key(values: dict[str, Any]) -> Action | None:
    """The action that the person's key was used for; raises when that was something else."""
    earlier = Action.objects.filter(
        user=values["user"], idempotency_key=values["idempotency_key"]
    ).first()
    same = ("cluster", "verb", "path", "namespace", "name")
    if earlier is None or all(getattr(earlier, field) == values[field] for field in same):
        return earlier
    raise OlmwebError(
        "This Idempotency-Key was used for another action.",
        code="key-reused",
        status=409,
        hint="Take a new key for each thing you ask for.",
    )


def _create(values: dict[str, Any], *, waits: bool) -> Action | None:
    """The recorded action; None when its object has an open one."""
    try:
        with transaction.atomic():
            action = Action.objects.create(**values)
            if not waits:
                enqueue("installs.run_action", action.pk)
    except IntegrityError:
        return None
    return action


def _open_action(values: dict[str, Any]) -> Action | None:
    """The open action that the new one would double. Raises OlmwebError when it is another one."""
    identity = {key: values[key] for key in ("cluster", "path", "namespace", "name")}
    action = Action.objects.filter(**identity, state__in=Action.OPEN).first()
    if action is None:
        return None
    same_steps = _untimed(from_json(values["stored_steps"])) == _untimed(action.steps)
    if action.verb == values["verb"] and same_steps:
        return action
    raise _busy(values, str(action.verb))


def _busy(values: dict[str, Any], doing: str) -> OlmwebError:
    return OlmwebError(
        f"Another {doing} of {values['path']} {values['name']} on cluster "
        f"{values['cluster'].name} is not finished.",
        code="busy",
        status=409,
        retryable=True,
        hint="Wait until it is finished, then ask again.",
    )
