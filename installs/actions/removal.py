"""Plans the removal of an operator. Makes no request.

A removal is refused while CustomResourceDefinitions that stay need the operator's conversion
webhook: without it the API server can't read their objects in another version than the one they are
stored in, and the garbage collector and the deletion of namespaces, which list the objects of every
kind, stop for the whole cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from catalogs.install_methods import InstallMethod
from installs.actions.plan import Plan
from installs.actions.plan_changes import CSV, plan_for
from installs.diagnosis.approvals import listing
from installs.methods import METHODS
from installs.models import Action, ClusterInventory, Component, CRDState, Operator
from installs.models.steps import Delete
from installs.queries.operators import has_installed_nothing
from installs.state.observation import details_of
from olmweb.errors import OlmwebError
from olmweb.kube.fields import text, texts
from olmweb.kube.resources import OPERATOR_GROUPS

CONVERTED = "conversion-webhook"  # code: CRDs need the conversion webhook of the operator


@dataclass(frozen=True, slots=True)
class ConvertedCrd:
    """A CustomResourceDefinition whose objects the operator's Service `service` converts.

    `objects` is their number when the cluster was read last, None if unknown. `is_reset`: OLM v0
    sets the conversion strategy to None when it deletes the ClusterServiceVersion.
    """

    crd: CRDState
    service: str
    objects: int | None
    is_reset: bool


@dataclass(frozen=True, slots=True)
class RemovalEffect:
    """The sentences about the objects that a removal deletes, and the objects that stay as noun
    phrases; `dependencies` are the operators among these."""

    deleted: tuple[str, ...]
    stay: tuple[str, ...] = ()
    dependencies: tuple[Operator, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Both, for plans."""
        return (*self.deleted, *((f"Not deleted: {listing(self.stay)}.",) if self.stay else ()))


def plan_remove(operator: Operator, *, without_conversion: bool = False) -> Plan:
    """Deletes the object; after a Subscription also its ClusterServiceVersion, in this order, as
    the Subscription would install that again.

    Raises OlmwebError (409) for other kinds and, unless `without_conversion`, for an operator whose
    conversion webhook is still needed.
    """
    if operator.kind not in METHODS:
        raise OlmwebError(
            f"OLM Web does not remove objects of the kind {operator.kind}.",
            code="not-removable",
            status=409,
        )
    if not without_conversion and (converted := converted_crds(operator)):
        raise conversion_refusal(operator, converted)
    steps = [Delete(operator.kind, operator.namespace, operator.name, operator.uid, main=True)]
    if csv := _installed_csv(operator):
        row = _csv_row(operator, csv)
        steps.append(Delete(CSV, operator.namespace, csv, row.uid if row else ""))
    return plan_for(
        operator,
        Action.Verb.REMOVE,
        tuple(steps),
        version="" if has_installed_nothing(operator) else operator.version,
        consequences=removal_consequences(operator),
    )


def removal_consequences(operator: Operator) -> tuple[str, ...]:
    """The objects that a removal deletes and those that stay, in sentences."""
    return removal_effect(operator).sentences


def removal_effect(
    operator: Operator, counted: Mapping[str, int | None] | None = None
) -> RemovalEffect:
    """The objects that a removal deletes and those that stay. `counted` are the numbers of custom
    resources by definition, None if unknown; else those of the inventory. Two queries more for a
    Subscription."""
    crds = object_counts(operator) if counted is None else counted
    if operator.kind != InstallMethod.SUBSCRIPTION and has_installed_nothing(operator) and not crds:
        sentence = (
            f"{operator.kind} {operator.name} is deleted. It has not installed anything, so no "
            "other object is deleted."
        )
        return RemovalEffect((sentence,))
    method = METHODS[operator.kind]
    deleted = method.removal_consequences(operator, crds)
    if operator.kind != InstallMethod.SUBSCRIPTION:
        return RemovalEffect(deleted)
    groups = Component.objects.filter(
        cluster=operator.cluster_id, kind=OPERATOR_GROUPS.kind, namespace=operator.namespace
    ).order_by("name")
    dependencies = dependencies_in_namespace(operator)
    stay = method.objects_that_stay(
        operator,
        crds,
        list(groups.values_list("name", flat=True)),
        [row.package for row in dependencies],
    )
    return RemovalEffect(deleted, stay, tuple(dependencies))


def dependencies_in_namespace(operator: Operator) -> list[Operator]:
    """The other Subscriptions of its namespace that OLM generated for a dependency, by name.

    OLM notes the InstallPlan that made them (operator-lifecycle-manager
    pkg/controller/operators/catalog/operator.go: generatedByKey). One query.
    """
    rows = Operator.objects.filter(
        cluster=operator.cluster_id,
        kind=InstallMethod.SUBSCRIPTION,
        namespace=operator.namespace,
        details__has_key="generated_by",
    )
    rows = rows.exclude(details__generated_by="").exclude(pk=operator.pk)
    return list(rows.order_by("name").select_related("cluster"))


def owned_crds(operator: Operator) -> list[CRDState]:
    """The CustomResourceDefinitions of the operator, by name."""
    method = METHODS.get(operator.kind)
    if method is None:
        return []
    owner = method.crd_owner(operator)
    rows = CRDState.objects.filter(
        cluster=operator.cluster_id, owner_kind=owner.kind, owner_name=owner.name
    )
    return list(rows.order_by("name"))


def object_counts(operator: Operator) -> dict[str, int | None]:
    """The CustomResourceDefinitions of the operator with their numbers of custom resources when
    the cluster was read last, None if unknown. At most two queries."""
    names = [crd.name for crd in owned_crds(operator)]
    counts = _counts(operator) if names else {}
    return {name: counts.get(name) for name in names}


def _installed_csv(operator: Operator) -> str:
    """The ClusterServiceVersion that a Subscription installed; empty for other kinds."""
    if operator.kind != InstallMethod.SUBSCRIPTION:
        return ""
    return str(details_of(operator).get("installed_csv") or "")


def _csv_row(operator: Operator, name: str) -> Component | None:
    return Component.objects.filter(
        cluster=operator.cluster_id, kind=CSV, namespace=operator.namespace, name=name
    ).first()


# -- conversion webhooks ---------------------------------------------------------------------------


def converted_crds(operator: Operator) -> list[ConvertedCrd]:
    """The CustomResourceDefinitions that the removal leaves without their conversion webhook, by
    name. At most four queries.

    Those of a Subscription stay, and so count if they have several versions. Those of other install
    methods are deleted, too; they count if objects may be stored in several versions, which their
    deletion has to convert. Conversion is not called between equal versions
    (k8s.io/apiextensions-apiserver pkg/apiserver/conversion/converter.go).
    """
    method = METHODS.get(operator.kind)
    if method is None:
        return []
    owner = method.crd_owner(operator)
    wanted = Q(owner_kind=owner.kind, owner_name=owner.name)
    services: set[str] = set()
    reset: set[str] = set()
    stays = operator.kind == InstallMethod.SUBSCRIPTION
    if (csv := _installed_csv(operator)) and (row := _csv_row(operator, csv)):
        details = details_of(row)
        reset = set(texts(details, "conversion_crds"))
        wanted |= Q(name__in=reset | set(texts(details, "owned_crds")))
        # operator-lifecycle-manager pkg/controller/install/certresources.go: ServiceName
        services = {f"{name}-service" for name in texts(details, "deployments")}
        wanted |= Q(details__conversion__name__in=sorted(services))
    crds = CRDState.objects.filter(wanted, cluster=operator.cluster_id).order_by("name")
    matches = []
    for crd in crds:
        namespace = text(crd.details, "conversion", "namespace")
        service = text(crd.details, "conversion", "name")
        if not service or (stays and namespace != operator.namespace):
            continue
        versions = {*crd.served, *crd.stored} if stays else {*crd.stored}
        if len(versions) > 1:
            matches.append((crd, f"{namespace}/{service}"))
    counts = _counts(operator) if matches else {}
    return [
        ConvertedCrd(crd, service, counts.get(crd.name), crd.name in reset)
        for crd, service in matches
    ]


def _counts(operator: Operator) -> dict[str, int]:
    rows = ClusterInventory.objects.filter(cluster=operator.cluster_id)
    return rows.values_list("instances", flat=True).first() or {}


def conversion_refusal(operator: Operator, converted: Sequence[ConvertedCrd]) -> OlmwebError:
    """The refusal (409) to remove the operator before its CRDs."""
    names = ", ".join(row.crd.name for row in converted[:5])
    more = " and more" if len(converted) > 5 else ""
    noun = "CustomResourceDefinition" + ("s" if len(converted) > 1 else "")
    verb = "need" if len(converted) > 1 else "needs"
    return OlmwebError(
        f"{noun} {names}{more} {verb} the conversion webhook of {operator.name} (Service "
        f"{converted[0].service}), which its removal deletes. Without it their objects can't be "
        "read in other versions than the stored one, and garbage collection and the deletion of "
        "namespaces stop on the whole cluster.",
        code=CONVERTED,
        status=409,
        hint="First delete the objects, then the definitions, and then remove the operator: "
        + " ".join(removal_order(converted)),
    )


def removal_order(converted: Sequence[ConvertedCrd]) -> tuple[str, ...]:
    """The steps that make the removal safe."""
    names = ",".join(row.crd.name for row in converted)
    return (
        "Save the objects while the operator converts them.",
        f"kubectl get {names} -A -o yaml > objects.yaml",
        "Delete the objects while the operator runs: it removes their finalizers.",
        f"kubectl delete {names} -A --all",
        "Delete the definitions.",
        f"kubectl delete crd {names.replace(',', ' ')}",
        "Then remove the operator.",
    )


def keep_objects(converted: Sequence[ConvertedCrd]) -> tuple[str, ...]:
    """The steps for a removal that keeps the objects."""
    names = ",".join(row.crd.name for row in converted)
    steps = [
        "Write every object once, so that it is stored in the current version.",
        f"kubectl get {names} -A -o yaml > objects.yaml",
        "kubectl replace -f objects.yaml",
        "Remove the operator, and then set the conversion strategy to None. Objects that are read "
        "in another version keep only the fields that both versions have.",
    ]
    patch = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
    steps += [
        f"kubectl patch crd {row.crd.name} --type=merge -p '{patch}'"
        for row in converted
        if not row.is_reset
    ]
    if reset := [row.crd.name for row in converted if row.is_reset]:
        steps.append(
            f"OLM v0 sets it for {', '.join(reset)} itself when it deletes the "
            "ClusterServiceVersion; check that it did."
        )
        steps.append(
            f"kubectl get crd {' '.join(reset)} "
            "-o custom-columns=NAME:.metadata.name,STRATEGY:.spec.conversion.strategy"
        )
    return tuple(steps)
