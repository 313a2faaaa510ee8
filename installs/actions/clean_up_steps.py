"""Tries and sends the steps that only a clean-up has. Every step can be repeated.

All requests, reads included, are made as the person who requested the clean-up.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from installs.actions.objects import delete_step, resource_of, version_of
from installs.models.steps import Delete, DeleteAll, EndConversion, Step
from installs.queries.leftovers import WEBHOOKS
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Conflict, Forbidden, KubeError, NotFound
from olmweb.kube.fields import text, texts
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from olmweb.models import Cluster

AT_ONCE = 500  # objects that one attempt deletes
SHOWN = 3
# k8s.io/apiserver pkg/admission/plugin/webhook/errors: no answer, and not a refusal.
_WEBHOOK_FAILED = "failed calling webhook"
VERSION = CUSTOM_RESOURCE_DEFINITIONS.versions[0]


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a step has not deleted yet, in a sentence, and what a person can do."""

    sentence: str
    hint: str = ""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    deleted_at: str = msgspec.field(name="deletionTimestamp", default="")
    finalizers: list[str] = []

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def dry_run(
    client: KubeClient,
    cluster: Cluster,
    step: Delete | DeleteAll | EndConversion,
    steps: Sequence[Step],
    as_user: Impersonation | None,
) -> str:
    """The result of a dry run of one of the `steps`, in words. Raises KubeError.

    Objects whose conversion is ended by an earlier step can't be read before, and a webhook that an
    earlier step deletes may refuse their deletion before: access reviews replace the dry run then.
    """
    if isinstance(step, Delete):
        there = _meta(client, cluster, step, as_user)
        if there is None:
            return "does not exist any more"
        with suppress(NotFound, Conflict):  # as `_delete`
            delete_step(client, cluster, step, as_user, uid=there.uid, dry_run=True)
        return "deleted"
    if isinstance(step, EndConversion):
        where = (CUSTOM_RESOURCE_DEFINITIONS, VERSION, step.name)
        try:
            client.merge(*where, step.patch, dry_run=True, as_user=as_user)
        except NotFound:
            return "does not exist any more"
        return "ended"
    resource = _resource(step)
    for verb in ("list", "delete"):
        review = client.may(verb, resource, as_user=as_user)
        if not review.allowed:
            raise Forbidden(
                f"Cluster {client.name} does not allow this: {step.resource} in all namespaces: "
                f"{review.reason or f'no rule allows to {verb} them'}.",
                status=403,
            )
    if any(isinstance(other, EndConversion) and other.name == step.resource for other in steps):
        return "allowed; they can be read after the end of their conversion"
    try:
        objects = _objects(client, step, as_user)
        first = next(objects, None)
        if first is not None:
            client.delete(
                *(resource, step.version, first.name, first.namespace),
                uid=first.uid,
                dry_run=True,
                as_user=as_user,
            )
    except NotFound:
        first = None
    except KubeError as error:
        webhooks = any(isinstance(other, Delete) and other.kind in WEBHOOKS for other in steps)
        if not webhooks or _WEBHOOK_FAILED not in error.message:
            raise
        return "allowed; they can be deleted after the webhooks"
    if first is None:
        return "no object"
    number = 1 + sum(1 for _ in objects)
    return f"{number} object{'s' if number > 1 else ''} deleted"


def carry_out(
    client: KubeClient,
    cluster: Cluster,
    step: Delete | DeleteAll | EndConversion,
    as_user: Impersonation | None,
) -> Remaining | None:
    """Sends the requests of the step that are left; None once nothing remains to be deleted. An
    object that does not exist any more counts as deleted. Raises KubeError."""
    if isinstance(step, DeleteAll):
        return _delete_all(client, step, as_user)
    if isinstance(step, Delete):
        return _delete(client, cluster, step, as_user)
    with suppress(NotFound):
        client.merge(
            *(CUSTOM_RESOURCE_DEFINITIONS, VERSION, step.name, step.patch), as_user=as_user
        )
    return None


def subject(step: Step) -> Delete:
    """The deletion of the leftover that the step is for: itself, that of the definition of custom
    resources and of a conversion, that of the original of copies."""
    if isinstance(step, DeleteAll) and step.name:
        return Delete(step.kind, step.selector.partition("=")[2], step.name)
    if isinstance(step, DeleteAll):
        return Delete(EndConversion.kind, "", step.resource)
    return Delete(step.kind, step.namespace, step.name)


def exists(client: KubeClient, cluster: Cluster, step: Step, as_user: Impersonation | None) -> bool:
    """Whether the object that the step is for exists and is not being deleted. Raises KubeError."""
    meta = _meta(client, cluster, subject(step), as_user)
    return meta is not None and not meta.deleted_at


def _meta(
    client: KubeClient, cluster: Cluster, step: Delete, as_user: Impersonation | None
) -> _Meta | None:
    resource = resource_of(step.kind)
    version = version_of(cluster, resource)
    try:
        obj = client.get(resource, version, step.name, step.namespace, as_user=as_user)
    except NotFound:
        return None
    return _Meta(
        name=step.name,
        namespace=step.namespace,
        uid=text(obj, "metadata", "uid"),
        deleted_at=text(obj, "metadata", "deletionTimestamp"),
        finalizers=list(texts(obj.get("metadata") or {}, "finalizers")),
    )


def _delete(
    client: KubeClient, cluster: Cluster, step: Delete, as_user: Impersonation | None
) -> Remaining | None:
    there = _meta(client, cluster, step, as_user)
    if there is not None and not there.deleted_at:
        with suppress(NotFound, Conflict):  # deleted or replaced since: the next read says which
            delete_step(client, cluster, step, as_user, uid=there.uid)
        there = _meta(client, cluster, step, as_user)
    if there is None:
        return None
    waits = f" It waits for {', '.join(there.finalizers)}." if there.finalizers else ""
    return Remaining(f"{step.label} is being deleted.{waits}")


def _delete_all(
    client: KubeClient, step: DeleteAll, as_user: Impersonation | None
) -> Remaining | None:
    resource = _resource(step)
    try:
        waiting = [meta for meta in _objects(client, step, as_user) if not meta.deleted_at]
        for meta in waiting[:AT_ONCE]:
            where = (resource, step.version, meta.name, meta.namespace)
            with suppress(NotFound, Conflict):  # deleted or replaced since
                client.delete(*where, uid=meta.uid, as_user=as_user)
        remaining = list(_objects(client, step, as_user))
    except NotFound:
        return None  # its definition is gone
    return _remaining(step, remaining) if remaining else None


def _remaining(step: DeleteAll, objects: Sequence[_Meta]) -> Remaining:
    number = f"{len(objects)} object{'s' if len(objects) > 1 else ''}"
    held = [meta for meta in objects if meta.deleted_at and meta.finalizers]
    if not held:
        return Remaining(f"{number} of {step.resource} not deleted yet.")
    shown = "; ".join(f"{meta.place}: {', '.join(meta.finalizers)}" for meta in held[:SHOWN])
    more = " and more" if len(held) > SHOWN else ""
    namespace = f" -n {held[0].namespace}" if held[0].namespace else ""
    return Remaining(
        f"{number} of {step.resource} not deleted yet, held by finalizers: {shown}{more}.",
        "The controller that removes a finalizer may be gone with the operator. If nothing is left "
        f"for it to release: kubectl patch {step.resource} {held[0].name}{namespace} --type=merge "
        """-p '{"metadata":{"finalizers":null}}'""",
    )


def _objects(client: KubeClient, step: DeleteAll, as_user: Impersonation | None) -> Iterator[_Meta]:
    """The objects of the step. A list that starts again has objects twice, which does no harm."""
    pages = client.list_metadata(
        *(_resource(step), step.version, _Meta), label_selector=step.selector, as_user=as_user
    )
    for page in pages:
        yield from (meta for meta in page.items if step.name in ("", meta.name))


def _resource(step: DeleteAll) -> Resource:
    plural, _, group = step.resource.partition(".")
    return Resource(group, (step.version,), plural, step.kind)
