"""Plans the deletion of what a removed operator left on a cluster. Makes no request.

The steps are in an order that works: webhooks and APIServices first, as the API server calls them
for other requests; then the end of conversions by webhooks that are gone, without which objects
can't be read; custom resources before their definitions; namespaces last.
"""

from collections.abc import Collection, Iterator, Sequence

from installs.actions.clean_up_steps import subject
from installs.actions.plan import Plan
from installs.actions.removal import CONVERTED
from installs.models import Action, CRDState
from installs.models.steps import Delete, DeleteAll, EndConversion, Step
from installs.queries.leftovers import (
    CRD,
    CSV,
    GROUP,
    NAMESPACE,
    ORDER,
    Leftover,
    RemovedOwner,
    is_read,
    removed_owners,
)
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS
from olmweb.models import Cluster

_LAST = (CSV, GROUP, NAMESPACE)


def chosen_first(owner: RemovedOwner) -> frozenset[str]:
    """The labels of the leftovers that a form selects by itself: all but namespaces, which may hold
    what other people need."""
    return frozenset(row.label for row in owner.leftovers if row.kind != NAMESPACE)


def plan_clean_up(
    cluster: Cluster,
    owner: RemovedOwner,
    labels: Collection[str],
    *,
    without_conversion: bool = False,
) -> Plan:
    """Deletes the leftovers of `owner` with these labels, and the custom resources of the
    CustomResourceDefinitions among them.

    Raises OlmwebError: 400 for no label and for one that `owner` does not have; 409 unless
    `without_conversion` for a CustomResourceDefinition that names a conversion webhook, and for a
    namespace with the Service that another definition needs for its conversion.
    """
    known = {row.label: row for row in owner.leftovers}
    if unknown := sorted(set(labels) - set(known)):
        message = f"{unknown[0][:300]} is not among the leftovers of {owner.name}."
        raise BadRequest(message, code="invalid", objects=message)
    rows = [row for label, row in known.items() if label in labels]
    if not rows:
        raise BadRequest("Select at least one leftover.", code="none-selected")
    converting = [row.name for row in rows if row.converts]
    if converting and not without_conversion:
        raise conversion_refusal(converting)
    _require_services(cluster, rows)
    return Plan(
        cluster=cluster,
        verb=Action.Verb.CLEAN_UP,
        kind=owner.kind,
        namespace=owner.namespace,
        name=owner.name,
        steps=tuple(_steps(cluster, rows)),
        consequences=tuple(_consequences(rows)),
    )


def conversion_refusal(names: Sequence[str]) -> OlmwebError:
    """The refusal (409) to delete these CustomResourceDefinitions without an explicit word."""
    listed = ", ".join(names[:5]) + (" and more" if len(names) > 5 else "")
    names_it = "name" if len(names) > 1 else "names"
    return OlmwebError(
        f"{listed} {names_it} a conversion webhook of the removed operator. Without it the objects "
        "can't be read, so neither they nor the definition can be deleted.",
        code=CONVERTED,
        status=409,
        hint="Confirm that the conversion is ended first: objects that are read in another version "
        "than the stored one then keep only the fields that both versions have. Save them before.",
    )


def _require_services(cluster: Cluster, rows: Sequence[Leftover]) -> None:
    """Raises OlmwebError (409) for a namespace that holds the Service of a conversion webhook of a
    CustomResourceDefinition that stays."""
    namespaces = {row.name for row in rows if row.kind == NAMESPACE}
    if not namespaces:
        return
    crds = CRDState.objects.filter(
        cluster=cluster, details__conversion__namespace__in=sorted(namespaces)
    )
    staying = crds.exclude(name__in=[row.name for row in rows if row.kind == CRD])
    names = list(staying.order_by("name").values_list("name", flat=True)[:5])
    if names:
        raise OlmwebError(
            f"Namespace {', '.join(sorted(namespaces))} holds the Service of the conversion "
            f"webhook of {', '.join(names)}, which would stay. Without it their objects can't be "
            "read, and garbage collection and the deletion of namespaces stop on the whole "
            "cluster.",
            code=CONVERTED,
            status=409,
            hint="Delete these CustomResourceDefinitions, too, or keep the namespace.",
        )


def _steps(cluster: Cluster, rows: Sequence[Leftover]) -> Iterator[Step]:
    kinds = {row.kind for row in rows}
    first = [kind for kind in ORDER if kind not in _LAST]
    for kind in (*first, *sorted(kinds - set(ORDER)), *_LAST):
        of_kind = [row for row in rows if row.kind == kind]
        if kind == CSV:
            yield from map(_copies, of_kind)
            continue
        if kind == CRD and of_kind:
            yield from (EndConversion(row.name) for row in of_kind if row.converts)
            yield from _custom_resources(cluster, [row.name for row in of_kind])
        for row in of_kind:
            yield Delete(kind, row.namespace, row.name)


def _custom_resources(cluster: Cluster, names: Sequence[str]) -> Iterator[DeleteAll]:
    crds = CRDState.objects.filter(cluster=cluster, name__in=names).order_by("name")
    for crd in crds.only("name", "served_kind", "served"):
        if crd.served:
            yield DeleteAll(crd.served_kind, crd.name, crd.served[-1])


def _copies(row: Leftover) -> DeleteAll:
    resource = CLUSTER_SERVICE_VERSIONS
    return DeleteAll(
        row.kind,
        f"{resource.plural}.{resource.group}",
        resource.versions[0],
        selector=f"olm.copiedFrom={row.namespace}",
        name=row.name,
    )


def _consequences(rows: Sequence[Leftover]) -> Iterator[str]:
    crds = [row for row in rows if row.kind == CRD]
    if crds:
        known = [row.objects for row in crds if row.objects is not None]
        count = f"{sum(known)} when the cluster was read last" if len(known) == len(crds) else ""
        yield (
            f"All custom resources of {len(crds)} CustomResourceDefinition"
            f"{'s' if len(crds) > 1 else ''} are deleted{f' ({count})' if count else ''}, then the "
            f"definition{'s' if len(crds) > 1 else ''}. Nothing brings them back."
        )
    if converting := [row.name for row in crds if row.converts]:
        yield (
            f"The conversion of {', '.join(converting)} is ended first, as its webhook is gone: "
            "without that its objects can't be read or deleted."
        )
    for row in rows:
        if row.kind == NAMESPACE:
            yield f"Namespace {row.name} is deleted with everything in it."


def adopted_again(cluster: Cluster, steps: Sequence[Step]) -> set[str] | None:
    """The labels of the steps for objects that are no leftovers by the rows: deleted, or of an
    operator that exists. None while the operators of the cluster are not known. Queries as
    removed_owners."""
    if not is_read(cluster):
        return None
    left = {row.label for owner in removed_owners([cluster]) for row in owner.leftovers}
    return {step.label for step in steps if subject(step).label not in left}
