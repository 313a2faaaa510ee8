"""Objects of clusters: operators, their components, CRDs, events, ClusterOperators."""

from dataclasses import dataclass

from django.db import models
from django.utils import timezone

from olmweb.models import Cluster


class Health(models.TextChoices):
    """Order is from worst to best; values are part of the REST interface."""

    FAILED = "Failed"
    BLOCKED = "Blocked"
    DEGRADED = "Degraded"
    NEEDS_APPROVAL = "NeedsApproval", "Needs approval"
    UNKNOWN = "Unknown"
    INSTALLING = "Installing"
    UPGRADING = "Upgrading"
    HEALTHY = "Healthy"


FAILING = (Health.FAILED, Health.BLOCKED, Health.DEGRADED)
NEEDS_ATTENTION = (*FAILING, Health.NEEDS_APPROVAL)


class Observed(models.Model):
    """An object of a cluster. `digest` is that of the stored fields: equal rows aren't written."""

    cluster = models.ForeignKey(Cluster, db_index=False, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    resource_version = models.CharField(max_length=64, blank=True)
    generation = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(null=True, blank=True)  # creationTimestamp
    deleting = models.BooleanField(default=False)  # has a deletionTimestamp
    conditions = models.JSONField(default=list)  # as in the object
    details = models.JSONField(default=dict)  # see installs.state.decode
    observed_at = models.DateTimeField(default=timezone.now)  # last write of this row

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace or '-'}/{self.name}"


class Operator(Observed):
    """A PlatformOperator, ClusterExtension, Subscription, or ClusterServiceVersion without one."""

    package = models.CharField(max_length=253, blank=True)
    catalog = models.CharField(max_length=253, blank=True)
    catalog_namespace = models.CharField(max_length=63, blank=True)  # of a CatalogSource
    channel = models.CharField(max_length=300, blank=True)
    version_asked = models.CharField(max_length=200, blank=True)
    version = models.CharField(max_length=200, blank=True)  # installed, else attempted
    bundle = models.CharField(max_length=1000, blank=True)  # name or image reference
    health = models.CharField(max_length=20, choices=Health.choices, default=Health.UNKNOWN)
    finding = models.CharField(max_length=100, blank=True)  # id in the knowledge base
    facts = models.JSONField(default=dict)  # extracted by the pattern of the finding
    reason = models.CharField(max_length=1024, blank=True)
    message = models.TextField(blank=True)
    broken_kind = models.CharField(max_length=100, blank=True)  # first broken link of the chain
    broken_name = models.CharField(max_length=253, blank=True)
    since = models.DateTimeField(null=True, blank=True)  # health and reason first observed
    deprecated = models.BooleanField(default=False)
    upgrade = models.CharField(max_length=200, blank=True)  # version that can be installed
    upgrade_held = models.TextField(blank=True)  # why it is not installed, in a sentence

    class Meta:
        verbose_name = "installed operator"
        ordering = ("cluster", "name")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "namespace", "name"), name="operator_identity"
            ),
        )
        indexes = (
            models.Index(fields=("cluster", "health")),
            models.Index(fields=("finding",)),
            models.Index(fields=("package",)),
        )


class Component(Observed):
    """An object that operators are made of or depend on: BundleDeployment, InstallPlan, ...

    Objects that operators share (InstallPlan, CatalogSource, OperatorGroup) have no `operator`; an
    OperatorReference of each names them.
    """

    operator = models.ForeignKey(
        Operator, null=True, blank=True, on_delete=models.SET_NULL, related_name="components"
    )
    api_version = models.CharField(max_length=300, blank=True)
    owner_kind = models.CharField(max_length=100, blank=True)
    owner_namespace = models.CharField(max_length=63, blank=True)
    owner_name = models.CharField(max_length=253, blank=True)
    phase = models.CharField(max_length=60, blank=True)
    image = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ("cluster", "kind", "name")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "kind", "namespace", "name"), name="component_identity"
            ),
        )
        indexes = (models.Index(fields=("cluster", "owner_kind", "owner_namespace", "owner_name")),)


class OperatorReference(models.Model):
    """An object that an operator names or depends on, whether or not it exists."""

    # That of the operator, as clusters of a fleet have objects of the same names.
    cluster = models.ForeignKey(Cluster, db_index=False, on_delete=models.CASCADE, related_name="+")
    operator = models.ForeignKey(
        Operator, db_index=False, on_delete=models.CASCADE, related_name="references"
    )
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("operator", "kind", "namespace", "name"), name="reference_identity"
            ),
        )
        indexes = (models.Index(fields=("cluster", "kind", "namespace", "name")),)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace or '-'}/{self.name}"


@dataclass(frozen=True, slots=True)
class CrdOperator:
    """The operator that owns a CRD; `name` is a package when `kind` is Subscription."""

    kind: str
    namespace: str
    name: str


def crd_operator(kind: str, namespace: str, name: str) -> CrdOperator | None:
    """From the labels of a CRD: other owners as they are labelled, None without a name."""
    if kind == "Operator":  # OLM's own grouping, called PACKAGE.NAMESPACE
        name, _, namespace = name.rpartition(".")
        kind = "Subscription"
    elif kind == "BundleDeployment":
        kind, namespace = "PlatformOperator", ""
    return CrdOperator(kind, namespace, name) if name else None


class CRDState(Observed):
    """A CustomResourceDefinition: versions, owner, problem.

    `config_schemas`, for the kinds that OLM Web installs: served version -> schema of `spec.config`
    without descriptions, null without one. None for other kinds.
    """

    group = models.CharField(max_length=253, blank=True)
    served_kind = models.CharField(max_length=100, blank=True)  # the kind that it defines
    served = models.JSONField(default=list)  # names of served versions
    defined = models.JSONField(default=list)  # names in spec.versions, served or not
    stored = models.JSONField(default=list)  # status.storedVersions
    owner_kind = models.CharField(max_length=100, blank=True)
    owner_namespace = models.CharField(max_length=63, blank=True)
    owner_name = models.CharField(max_length=253, blank=True)
    finding = models.CharField(max_length=100, blank=True)  # id in the knowledge base
    facts = models.JSONField(default=dict)
    config_schemas = models.JSONField(null=True)

    class Meta:
        verbose_name = "CRD"
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="crd_identity"),)

    @property
    def operator(self) -> CrdOperator | None:
        return crd_operator(self.owner_kind, self.owner_namespace, self.owner_name)


class CRDSchema(models.Model):
    """The schemas of a CRD on a cluster, read by installs.facts.crd_schemas.

    `content` is JSON compressed with zlib; `read_at` is when it was read first.
    """

    cluster = models.ForeignKey(
        Cluster, db_index=False, on_delete=models.CASCADE, related_name="crd_schemas"
    )
    name = models.CharField(max_length=253)
    resource_version = models.CharField(max_length=64)
    content = models.BinaryField()
    read_at = models.DateTimeField()

    class Meta:
        verbose_name = "CRD schema"
        constraints = (
            models.UniqueConstraint(fields=("cluster", "name"), name="crd_schema_identity"),
        )

    def __str__(self) -> str:
        return self.name


class Event(models.Model):
    """A Kubernetes Event about a stored object; stays when the cluster has deleted it."""

    cluster = models.ForeignKey(
        Cluster, db_index=False, on_delete=models.CASCADE, related_name="events"
    )
    uid = models.CharField(max_length=64)
    resource_version = models.CharField(max_length=64, blank=True)
    kind = models.CharField(max_length=100)  # of the object it is about
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    type = models.CharField(max_length=20, blank=True)  # Normal or Warning
    reason = models.CharField(max_length=128, blank=True)
    message = models.TextField(blank=True)
    source = models.CharField(max_length=253, blank=True)  # component that reports it
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-last_at", "-id")
        constraints = (models.UniqueConstraint(fields=("cluster", "uid"), name="event_identity"),)
        indexes = (
            models.Index(fields=("cluster", "kind", "namespace", "name", "-last_at")),
            models.Index(fields=("last_at",)),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.reason}"


class ClusterOperator(Observed):
    """A ClusterOperator; `aggregated` when its message lists failing platform operators."""

    version = models.CharField(max_length=200, blank=True)
    available = models.CharField(max_length=10, default="Unknown")
    progressing = models.CharField(max_length=10, default="Unknown")
    degraded = models.CharField(max_length=10, default="Unknown")
    upgradeable = models.CharField(max_length=10, default="Unknown")
    reason = models.CharField(max_length=1024, blank=True)  # of the worst condition
    message = models.TextField(blank=True)
    aggregated = models.BooleanField(default=False)
    problem = models.TextField(blank=True)  # its message and the objects differ
    severity = models.PositiveSmallIntegerField(default=0)  # worst first: 3, 2, 1, 0

    class Meta:
        ordering = ("cluster", "-severity", "name")
        constraints = (
            models.UniqueConstraint(fields=("cluster", "name"), name="clusteroperator_identity"),
        )


class ClusterOperatorMember(models.Model):
    """One item of the aggregated ClusterOperator's message, joined with its PlatformOperator."""

    cluster_operator = models.ForeignKey(
        ClusterOperator, on_delete=models.CASCADE, related_name="members"
    )
    name = models.CharField(max_length=253)
    reason = models.CharField(max_length=1024)
    operator = models.ForeignKey(Operator, null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("cluster_operator", "name"), name="member_name"),
        )

    def __str__(self) -> str:
        return self.name


class ClusterInventory(models.Model):
    """The facts of a cluster that decide installs and are not watched. None where not readable.

    `kinds` are "GROUP/VERSION/KIND", the core group empty. `releases` maps a namespace to the Helm
    release that owns it, as NAMESPACE/NAME; `roles` maps so the Roles where PlatformOperators store
    their releases, empty for no owner; `shared`, by kind, the cluster-scoped objects, whose owner
    may be ClusterExtension/NAME too. `foreign_apis` are the APIServices that OLM v0 did not create.
    `instances`: CRD of an installer -> number of its objects, without those not counted. `gates`:
    feature gate in the arguments of operator-controller -> whether it is on. `orphans`: kind ->
    name -> NAMESPACE/NAME of the missing ClusterServiceVersion that owned the object. `catalogd`:
    the Deployment that serves ClusterCatalogs, see installs.facts.inventory; empty without one.
    `awaited_since`: when the first reading was requested, None after its end. `read_at`: None until
    a reading succeeded.
    """

    cluster = models.OneToOneField(
        Cluster, on_delete=models.CASCADE, primary_key=True, related_name="inventory"
    )
    kinds = models.JSONField(null=True)
    namespaces = models.JSONField(null=True)  # names
    releases = models.JSONField(default=dict)
    roles = models.JSONField(null=True)
    shared = models.JSONField(null=True)
    foreign_apis = models.JSONField(null=True)
    instances = models.JSONField(default=dict)
    gates = models.JSONField(null=True)
    orphans = models.JSONField(null=True)
    catalogd = models.JSONField(null=True)
    awaited_since = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True, default=timezone.now)

    class Meta:
        verbose_name_plural = "cluster inventories"

    def __str__(self) -> str:
        return str(self.cluster)
