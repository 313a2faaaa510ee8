"""Plans the removal of an operator. Makes no request.

A removal is refused while CustomResourceDefinitions that stay need the operator's conversion
webhook: without it the API server can't read their objects in another version than the one they are
stored in, and the garbage collector and the deletion of namespaces, which list the objects of every
kind, stop for the whole cluster.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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

# helm pkg/action/install.go: before Helm creates the first object and stores the release, it looks
# for objects that belong to another release. An upgrade words it as "with update".
_REFUSED_INSTALL = "Unable to continue with install"
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


class RemovalRows:
    """The rows that the removals of these operators of one cluster are planned from, each table
    read once: four queries, however many operators."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._operators = [row for row in operators if row.kind in METHODS]
        self._subscriptions = [
            row for row in self._operators if row.kind == InstallMethod.SUBSCRIPTION
        ]
        self._cluster_id = self._operators[0].cluster_id if self._operators else None

    @cached_property
    def _components(self) -> list[Component]:
        """The OperatorGroups of the namespaces and the installed ClusterServiceVersions, by name;
        one query."""
        if not self._subscriptions:
            return []
        csvs = Q(kind=CSV, name__in={installed_csv(row) for row in self._subscriptions} - {""})
        rows = Component.objects.filter(
            Q(kind=OPERATOR_GROUPS.kind) | csvs,
            cluster=self._cluster_id,
            namespace__in={row.namespace for row in self._subscriptions},
        )
        return list(rows.order_by("name"))

    def csv(self, operator: Operator) -> Component | None:
        """The ClusterServiceVersion that a Subscription installed."""
        wanted = (CSV, operator.namespace, installed_csv(operator))
        rows = (row for row in self._components if (row.kind, row.namespace, row.name) == wanted)
        return next(rows, None)

    def groups(self, namespace: str) -> list[str]:
        """The names of the OperatorGroups of the namespace."""
        wanted = (OPERATOR_GROUPS.kind, namespace)
        return [row.name for row in self._components if (row.kind, row.namespace) == wanted]

    @cached_property
    def _generated(self) -> list[Operator]:
        """The Subscriptions of the namespaces that OLM generated for a dependency, by name.

        OLM notes the InstallPlan that made them (operator-lifecycle-manager
        pkg/controller/operators/catalog/operator.go: generatedByKey). One query.
        """
        if not self._subscriptions:
            return []
        rows = Operator.objects.filter(
            cluster=self._cluster_id,
            kind=InstallMethod.SUBSCRIPTION,
            namespace__in={row.namespace for row in self._subscriptions},
            details__has_key="generated_by",
        ).exclude(details__generated_by="")
        return list(rows.order_by("name").select_related("cluster"))

    def dependencies(self, operator: Operator) -> list[Operator]:
        """The other Subscriptions of its namespace that OLM generated for a dependency, by name."""
        return [
            row
            for row in self._generated
            if row.namespace == operator.namespace and row.pk != operator.pk
        ]

    @cached_property
    def _crds(self) -> list[CRDState]:
        """The CustomResourceDefinitions that one of the operators owns, or converts by its
        ClusterServiceVersion, by name; one query."""
        owned: dict[str, set[str]] = defaultdict(set)
        for row in self._operators:
            owner = METHODS[row.kind].crd_owner(row)
            owned[owner.kind].add(owner.name)
        wanted = Q(pk__in=())
        for kind, names in owned.items():
            wanted |= Q(owner_kind=kind, owner_name__in=names)
        if csvs := [row for row in self._components if row.kind == CSV]:
            of_csvs = [CsvNames.read(row) for row in csvs]
            wanted |= Q(name__in={name for row in of_csvs for name in row.crds})
            services = {name for row in of_csvs for name in row.services}
            wanted |= Q(details__conversion__name__in=sorted(services))
        return list(CRDState.objects.filter(wanted, cluster=self._cluster_id).order_by("name"))

    def owned_crds(self, operator: Operator) -> list[CRDState]:
        """The CustomResourceDefinitions of the operator, by name."""
        owner = METHODS[operator.kind].crd_owner(operator)
        wanted = (owner.kind, owner.name)
        return [crd for crd in self._crds if (crd.owner_kind, crd.owner_name) == wanted]

    def related_crds(self, operator: Operator) -> list[CRDState]:
        """`owned_crds` and those that its ClusterServiceVersion owns or converts, by name."""
        owner = METHODS[operator.kind].crd_owner(operator)
        names = self.names_in_csv(operator)
        return [
            crd
            for crd in self._crds
            if (crd.owner_kind, crd.owner_name) == (owner.kind, owner.name)
            or crd.name in names.crds
            or text(crd.details, "conversion", "name") in names.services
        ]

    def names_in_csv(self, operator: Operator) -> "CsvNames":
        """Those of the ClusterServiceVersion that a Subscription installed."""
        csv = self.csv(operator)
        return CsvNames() if csv is None else CsvNames.read(csv)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The numbers of custom resources by definition when the cluster was read last; one
        query."""
        rows = ClusterInventory.objects.filter(cluster=self._cluster_id)
        return rows.values_list("instances", flat=True).first() or {}


@dataclass(frozen=True, slots=True)
class CsvNames:
    """The names in a ClusterServiceVersion: the CustomResourceDefinitions whose conversion OLM v0
    resets, these and those that it owns, and the Services of its webhooks."""

    reset: frozenset[str] = frozenset()
    crds: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()

    @classmethod
    def read(cls, csv: Component) -> "CsvNames":
        details = details_of(csv)
        reset = frozenset(texts(details, "conversion_crds"))
        return cls(
            reset,
            reset | set(texts(details, "owned_crds")),
            # operator-lifecycle-manager pkg/controller/install/certresources.go: ServiceName
            frozenset(f"{name}-service" for name in texts(details, "deployments")),
        )


def plan_remove(
    operator: Operator, rows: RemovalRows | None = None, *, without_conversion: bool = False
) -> Plan:
    """Deletes the object; after a Subscription also its ClusterServiceVersion, in this order, as
    the Subscription would install that again. `rows` are those of several removals.

    Raises OlmwebError (409) for other kinds and, unless `without_conversion`, for an operator whose
    conversion webhook is still needed.
    """
    if operator.kind not in METHODS:
        raise OlmwebError(
            f"OLM Web does not remove objects of the kind {operator.kind}.",
            code="not-removable",
            status=409,
        )
    rows = rows or RemovalRows([operator])
    if not without_conversion and (converted := converted_crds(operator, rows)):
        raise conversion_refusal(operator, converted)
    steps = [Delete(operator.kind, operator.namespace, operator.name, operator.uid, main=True)]
    if csv := installed_csv(operator):
        row = rows.csv(operator)
        steps.append(Delete(CSV, operator.namespace, csv, row.uid if row else ""))
    return plan_for(
        operator,
        Action.Verb.REMOVE,
        tuple(steps),
        version="" if _has_created_nothing(operator) else operator.version,
        consequences=removal_effect(operator, rows).sentences,
    )


def removal_effect(
    operator: Operator,
    rows: RemovalRows | None = None,
    counted: Mapping[str, int | None] | None = None,
) -> RemovalEffect:
    """The objects that a removal deletes and those that stay. `counted` are the numbers of custom
    resources by definition, None if unknown; else those of the inventory."""
    rows = rows or RemovalRows([operator])
    crds = object_counts(operator, rows) if counted is None else counted
    if operator.kind != InstallMethod.SUBSCRIPTION and not crds and _has_created_nothing(operator):
        sentence = (
            f"{operator.kind} {operator.name} is deleted. It has not installed anything, so no "
            "other object is deleted."
        )
        return RemovalEffect((sentence, *_conflict_stays(operator)))
    method = METHODS[operator.kind]
    deleted = method.removal_consequences(operator, crds)
    if operator.kind != InstallMethod.SUBSCRIPTION:
        return RemovalEffect(deleted)
    dependencies = rows.dependencies(operator)
    stay = method.objects_that_stay(
        operator, crds, rows.groups(operator.namespace), [row.package for row in dependencies]
    )
    return RemovalEffect(deleted, stay, tuple(dependencies))


def _has_created_nothing(operator: Operator) -> bool:
    """Also whether Helm refused to create its first release, because an object of it exists."""
    return has_installed_nothing(operator) or _is_refused_install(operator)


def _is_refused_install(operator: Operator) -> bool:
    is_conflict = operator.finding == "helm-ownership-conflict"
    return is_conflict and _REFUSED_INSTALL in operator.message


def _conflict_stays(operator: Operator) -> Iterator[str]:
    """A sentence about the object that kept Helm from creating the release."""
    name = operator.facts.get("object_name")
    if not (name and _is_refused_install(operator)):
        return
    resource = f"{operator.facts.get('object_kind', '')} {name}".strip()
    if namespace := operator.facts.get("object_namespace"):
        resource += f" in namespace {namespace}"
    owner = operator.facts.get("owner")
    why = f"it belongs to the release {owner}" if owner else "it is not of this installation"
    yield f"{resource}, with which it is in conflict, stays as it is: {why}."


def object_counts(operator: Operator, rows: RemovalRows | None = None) -> dict[str, int | None]:
    """The CustomResourceDefinitions of the operator with their numbers of custom resources when
    the cluster was read last, None if unknown."""
    rows = rows or RemovalRows([operator])
    names = [crd.name for crd in rows.owned_crds(operator)]
    counts = rows.counts if names else {}
    return {name: counts.get(name) for name in names}


def installed_csv(operator: Operator) -> str:
    """The ClusterServiceVersion that a Subscription installed; empty for other kinds."""
    if operator.kind != InstallMethod.SUBSCRIPTION:
        return ""
    return str(details_of(operator).get("installed_csv") or "")


# -- conversion webhooks ---------------------------------------------------------------------------


def converted_crds(operator: Operator, rows: RemovalRows | None = None) -> list[ConvertedCrd]:
    """The CustomResourceDefinitions that the removal leaves without their conversion webhook, by
    name.

    Those of a Subscription stay, and so count if they have several versions. Those of other install
    methods are deleted, too; they count if objects may be stored in several versions, which their
    deletion has to convert. Conversion is not called between equal versions
    (k8s.io/apiextensions-apiserver pkg/apiserver/conversion/converter.go).
    """
    if operator.kind not in METHODS:
        return []
    rows = rows or RemovalRows([operator])
    stays = operator.kind == InstallMethod.SUBSCRIPTION
    reset = rows.names_in_csv(operator).reset
    matches = []
    for crd in rows.related_crds(operator):
        namespace = text(crd.details, "conversion", "namespace")
        service = text(crd.details, "conversion", "name")
        if not service or (stays and namespace != operator.namespace):
            continue
        versions = {*crd.served, *crd.stored} if stays else {*crd.stored}
        if len(versions) > 1:
            matches.append((crd, f"{namespace}/{service}"))
    counts = rows.counts if matches else {}
    return [
        ConvertedCrd(crd, service, counts.get(crd.name), crd.name in reset)
        for crd, service in matches
    ]


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
