"""The objects that actions write: kinds, requests, checks before a write, refusals in words."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from catalogs.install_methods import InstallMethod
from installs.diagnosis.approvals import listing
from installs.methods import METHODS
from installs.models.steps import Apply, Delete, DeleteAll, EndConversion, Manifest, Step
from olmweb.errors import OlmwebError
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from olmweb.kube.fields import dig
from olmweb.kube.resources import (
    API_SERVICES,
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SERVICE_VERSIONS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    INSTALL_PLANS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    OPERATOR_GROUPS,
    PLATFORM_OPERATORS,
    SERVICE_ACCOUNTS,
    SHIPPED_CLUSTER_WIDE,
    SUBSCRIPTIONS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from olmweb.models import Cluster

WRITTEN: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        NAMESPACES,
        SERVICE_ACCOUNTS,
        OPERATOR_GROUPS,
        SUBSCRIPTIONS,
        INSTALL_PLANS,
        CLUSTER_SERVICE_VERSIONS,
        CLUSTER_EXTENSIONS,
        PLATFORM_OPERATORS,
        # Of a retry only:
        BUNDLE_DEPLOYMENTS,
        BUNDLES,
        CONFIG_MAPS,
        JOBS,
    )
}
# Of a clean-up only, as the person who requested it: no right of OLM Web's own is needed.
DELETED: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        VALIDATING_WEBHOOKS,
        MUTATING_WEBHOOKS,
        API_SERVICES,
        CUSTOM_RESOURCE_DEFINITIONS,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        *SHIPPED_CLUSTER_WIDE,
    )
}
_MANAGER = re.compile(r'"([^"]{1,128})"')
_CONFIG = "spec.config"
RETRIED = "olmweb.operatorframework.io/retry-asked"  # annotation


def version_of(cluster: Cluster, resource: Resource) -> str:
    """The version that the cluster was last listed with, else the preferred one."""
    return cluster.kinds.get(resource.kind, {}).get("version") or resource.versions[0]


def resource_of(kind: str) -> Resource:
    """The resource of a kind that an action writes or deletes."""
    return WRITTEN.get(kind) or DELETED[kind]


def full_name(kind: str) -> str:
    """`subscriptions.operators.coreos.com`, as RBAC rules and CRDs name the resource of a kind;
    such a name itself stays as it is."""
    if kind not in WRITTEN and kind not in DELETED:
        return kind
    resource = resource_of(kind)
    return f"{resource.plural}.{resource.group}".rstrip(".")


def read_object(
    client: KubeClient, cluster: Cluster, kind: str, namespace: str, name: str
) -> Manifest | None:
    """An object that actions write; None if it does not exist. Raises as KubeClient.get."""
    try:
        return client.get(WRITTEN[kind], version_of(cluster, WRITTEN[kind]), name, namespace)
    except NotFound:
        return None


def apply_step(
    client: KubeClient,
    step: Apply,
    as_user: Impersonation | None,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Sends the apply; returns the object. Raises as KubeClient.apply."""
    return client.apply(
        WRITTEN[step.kind],
        step.version,
        step.manifest,
        dry_run=dry_run,
        force=force,
        as_user=as_user,
    )


def delete_step(
    client: KubeClient,
    cluster: Cluster,
    step: Delete,
    as_user: Impersonation | None,
    *,
    uid: str = "",
    dry_run: bool = False,
) -> None:
    """Sends the deletion, by `uid` or that of the step. Raises as KubeClient.delete."""
    client.delete(
        resource_of(step.kind),
        version_of(cluster, resource_of(step.kind)),
        step.name,
        step.namespace,
        uid=uid or step.uid,
        dry_run=dry_run,
        as_user=as_user,
    )


def is_there(client: KubeClient, step: Apply, as_user: Impersonation | None) -> bool:
    """Whether an object that an install needs, besides its main object, exists.

    For an OperatorGroup: whether its namespace has any, as OLM v0 allows no second one. False for
    users who may not read it; the apply that follows then decides.
    """
    resource = WRITTEN[step.kind]
    try:
        if resource is OPERATOR_GROUPS:
            pages = client.list_pages(resource, step.version, namespace=step.namespace)
            return any(page.items for page in pages)
        client.get(resource, step.version, step.name, step.namespace, as_user=as_user)
    except (NotFound, Forbidden):
        return False
    return True


def may_write(client: KubeClient, step: Apply, as_user: Impersonation | None) -> None:
    """Raises Forbidden, with the reason of the cluster's RBAC, if create or patch is denied."""
    for verb in ("create", "patch"):
        review = client.may(verb, WRITTEN[step.kind], step.namespace, as_user=as_user)
        if not review.allowed:
            raise Forbidden(
                f"Cluster {client.name} does not allow this: {full_name(step.kind)} in namespace "
                f"{step.namespace}: {review.reason or f'no rule allows to {verb} them'}.",
                status=403,
            )


CONFIG_KEPT = "config-kept"  # code: another manager owns a field that the configuration lacks
NEEDS_NAMESPACE = "allowed; its namespace does not exist yet"  # result for one object


def other_config(there: Manifest, manifest: Manifest) -> list[str]:
    """The paths of the fields that an object has in `spec.config` and the manifest has not.

    Lists count as one value: server-side apply replaces them as a whole, and the API server fills
    in defaults in their items only.
    """
    return sorted(".".join((_CONFIG, *path)) for path in _other_paths(there, manifest))


def _other_paths(there: Manifest, manifest: Manifest) -> list[tuple[str, ...]]:
    return list(_others(dig(there, "spec", "config"), dig(manifest, "spec", "config"), ()))


def _others(there: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(there, Mapping):
        return
    mine = wanted if isinstance(wanted, Mapping) else {}
    for name, value in there.items():
        if name in mine:
            yield from _others(value, mine[name], (*path, name))
        elif value != {}:
            yield (*path, name)


def remove_others(
    client: KubeClient,
    step: Apply,
    there: Manifest,
    as_user: Impersonation | None,
    *,
    dry_run: bool = False,
) -> Manifest:
    """Removes what the object `there` has in `spec.config` and the manifest has not, whoever owns
    it; returns the object. Raises as KubeClient.merge."""
    config: dict[str, Any] = {}
    for path in _other_paths(there, step.manifest):
        inner = config
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = None
    has_config = bool(dig(step.manifest, "spec", "config"))
    return client.merge(
        WRITTEN[step.kind],
        step.version,
        step.name,
        {
            "metadata": {"uid": dig(there, "metadata", "uid")},
            "spec": {"config": config if has_config else None},
        },
        namespace=step.namespace,
        dry_run=dry_run,
        as_user=as_user,
    )


def config_refusal(applied: Manifest, step: Apply) -> "DryRun | None":
    """The refusal of a configuration without fields that `applied`, the answer to its dry run,
    still has: other managers own them, so server-side apply leaves them."""
    paths = other_config(applied, step.manifest)
    if not paths:
        return None
    words = "was set by another manager, so it would stay"
    if len(paths) > 1:
        words = "were set by another manager, so they would stay"
    where = f" -n {step.namespace}" if step.namespace else ""
    return DryRun(
        False,
        f"{listing(paths[:10])} of {step.label} {words}.",
        CONFIG_KEPT,
        "Keep what it sets in the configuration, remove it where it is managed, such as with "
        f"kubectl edit {step.kind.lower()} {step.name}{where}, or confirm that OLM Web removes it.",
    )


def config_changes(there: Manifest, applied: Manifest) -> tuple[str, ...]:
    """`spec.config` with its changes, as the lines of a unified diff of YAML; none without any."""
    before, after = (_config_lines(manifest) for manifest in (there, applied))
    lines = difflib.unified_diff(before, after, lineterm="", n=len(before) + len(after))
    return tuple(lines)[3:]  # without the names of files and the range of lines


def _config_lines(manifest: Manifest) -> list[str]:
    config = dig(manifest, "spec", "config")
    if not config:
        return []
    return str(yaml.safe_dump({"config": config}, allow_unicode=True)).splitlines()


@dataclass(frozen=True, slots=True)
class DryRun:
    """The cluster's answers. `fields`: form or object field -> sentence; `objects`: (object, its
    result in words) in the order of application; `changes`: the lines of a unified diff, of
    another configuration."""

    ok: bool
    message: str
    code: str = ""
    hint: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    objects: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "message": self.message, "fields": self.fields}

    def as_error(self, status: int) -> OlmwebError:
        return OlmwebError(
            self.message, code=self.code, status=status, hint=self.hint, fields=self.fields
        )


def explain(error: KubeError, cluster: str, as_user: str, *, verb: str, kind: str) -> DryRun:
    """The refusal in words. `verb` is that of an Action or "change"; `kind` is one that an action
    writes or deletes, or PLURAL.GROUP."""
    if isinstance(error, Forbidden):
        return _forbidden(error, cluster, as_user, verb, kind)
    if isinstance(error, Conflict) and error.causes:
        return _conflict(error, kind)
    fields = _fields(error, kind) if isinstance(error, Invalid) else {}
    message = error.message
    if isinstance(error, NotFound):
        message = f"{message.rstrip('.')}. The kind {kind} or the namespace may not exist any more."
    return DryRun(False, message, error.code, error.hint, fields)


def explain_step(
    error: KubeError, cluster: str, as_user: Impersonation | None, step: Step, verb: str
) -> DryRun:
    """The refusal of a step of an action `verb` in words."""
    deletes = isinstance(step, Delete | DeleteAll)
    kind = step.resource if isinstance(step, DeleteAll) else step.kind
    verb = "remove" if deletes else "change" if isinstance(step, EndConversion) else verb
    return explain(error, cluster, as_user.user if as_user else "", verb=verb, kind=kind)


def _fields(error: Conflict | Invalid, kind: str) -> dict[str, str]:
    method = METHODS.get(kind) or METHODS[InstallMethod.PLATFORM_OPERATOR]
    return {method.form_field(cause.field): cause.message for cause in error.causes if cause.field}


def _forbidden(error: Forbidden, cluster: str, as_user: str, verb: str, kind: str) -> DryRun:
    if as_user and "impersonate" in error.message:
        return DryRun(
            False,
            f"OLM Web may not act as {as_user} on cluster {cluster}: {error.message}",
            "impersonation-forbidden",
            "Ask the cluster's administrator to let OLM Web impersonate this person and each of "
            "their groups, as the second ClusterRole in deploy/ does.",
        )
    reason = error.message.removeprefix(f"Cluster {cluster} does not allow this: ")
    person = as_user or "The service account of OLM Web"
    verbs = "delete" if verb == "remove" else "create and patch"
    return DryRun(
        False,
        f"{person} may not {verb} this on cluster {cluster}: {reason}",
        error.code,
        f"Ask the cluster's administrator for permission to {verbs} {full_name(kind)}.",
    )


def _conflict(error: Conflict, kind: str) -> DryRun:
    owners = {match[1] for cause in error.causes if (match := _MANAGER.search(cause.message))}
    named = ", ".join(sorted(owners)) or "another manager"
    paths = ", ".join(cause.field.removeprefix(".") for cause in error.causes if cause.field)
    return DryRun(
        False,
        f"Nothing was changed: {paths or 'a field'} belongs to {named}.",
        error.code,
        f"Change it where {named} manages it; OLM Web takes over no field without confirmation.",
        _fields(error, kind),
    )
