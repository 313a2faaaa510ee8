"""What is installed, as the clusters last said it, and what people asked OLM Web to do."""

from django.conf import settings
from django.db import models
from django.db.models import Q
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


NEEDS_ATTENTION = (Health.FAILED, Health.BLOCKED, Health.DEGRADED, Health.NEEDS_APPROVAL)


class Observed(models.Model):
    """An object of a cluster: identity and what of it we keep.

    `digest` is over the kept fields: a row is written only when it differs.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    resource_version = models.CharField(max_length=64, blank=True)
    generation = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(null=True, blank=True)  # creationTimestamp
    deleting = models.BooleanField(default=False)  # has a deletionTimestamp
    conditions = models.JSONField(default=list)  # the object's own, unchanged
    details = models.JSONField(default=dict)  # what else of its kind we keep: installs.sync.decode
    observed_at = models.DateTimeField(default=timezone.now)  # we last wrote this row

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace or '-'}/{self.name}"


class Operator(Observed):
    """One installed thing: a PlatformOperator, ClusterExtension or Subscription, or a
    ClusterServiceVersion that no Subscription stands for."""

    package = models.CharField(max_length=253, blank=True)
    catalog = models.CharField(max_length=253, blank=True)
    catalog_namespace = models.CharField(max_length=63, blank=True)  # of a CatalogSource
    channel = models.CharField(max_length=300, blank=True)
    version_asked = models.CharField(max_length=200, blank=True)
    version = models.CharField(max_length=200, blank=True)  # installed, or tried last
    bundle = models.CharField(max_length=1000, blank=True)  # name or image reference
    health = models.CharField(max_length=20, choices=Health.choices, default=Health.UNKNOWN)
    finding = models.CharField(max_length=100, blank=True)  # id in the knowledge base
    facts = models.JSONField(default=dict)  # what the finding's pattern extracted
    reason = models.CharField(max_length=1024, blank=True)
    message = models.TextField(blank=True)
    broken_kind = models.CharField(max_length=100, blank=True)  # first broken link of the chain
    broken_name = models.CharField(max_length=253, blank=True)
    since = models.DateTimeField(null=True, blank=True)  # we saw this health and reason begin
    deprecated = models.BooleanField(default=False)
    upgrade = models.CharField(max_length=200, blank=True)  # version that could be installed
    upgrade_held = models.TextField(blank=True)  # why it is not, in a sentence

    class Meta:
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

    `operator` is the one it belongs to. What several share (an InstallPlan, a CatalogSource, an
    OperatorGroup) belongs to none; a Reference of each names it.
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


class Reference(models.Model):
    """An object that an operator names or depends on, whether or not it exists."""

    # Of the operator: clusters of a fleet have objects of the same names, and who refers to one is
    # asked at every change.
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    operator = models.ForeignKey(Operator, on_delete=models.CASCADE, related_name="references")
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


class CRDState(Observed):
    """A CustomResourceDefinition without its schema: versions, who owns it, what is wrong."""

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

    class Meta:
        ordering = ("cluster", "name")
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="crd_identity"),)


class Event(models.Model):
    """A Kubernetes Event about an object that we keep; kept when the cluster forgets it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="events")
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
    problem = models.TextField(blank=True)  # its message and the objects disagree
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


class Transition(models.Model):
    """A change of one condition (or of an object's existence) that we saw. Append-only.

    `type` is the condition type, or `Object` for appeared/deleted, or `Health` for ours.
    `at` is when we saw it: clusters don't move lastTransitionTime when only the reason changes.
    `resource_version` is that of a deletion: what is told later of an older state is not news.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="transitions")
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    type = models.CharField(max_length=316)
    from_status = models.CharField(max_length=20, blank=True)
    from_reason = models.CharField(max_length=1024, blank=True)
    to_status = models.CharField(max_length=20, blank=True)
    to_reason = models.CharField(max_length=1024, blank=True)
    message = models.TextField(blank=True)
    resource_version = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("cluster", "kind", "namespace", "name", "-at")),
            models.Index(fields=("-at",)),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.type} {self.to_status}/{self.to_reason}"


class UnknownMessage(models.Model):
    """Messages that the knowledge base does not know, alike but for names and numbers."""

    fingerprint = models.CharField(max_length=64)
    kind = models.CharField(max_length=100)  # of the object that said it
    reason = models.CharField(max_length=1024, blank=True)
    sample = models.TextField()
    example = models.CharField(max_length=500, blank=True)  # cluster, namespace, name
    count = models.PositiveBigIntegerField(default=1)  # times that an operator came to say it
    first_at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-count", "-last_at")
        constraints = (
            models.UniqueConstraint(fields=("fingerprint", "kind"), name="unknown_identity"),
        )

    def __str__(self) -> str:
        return self.sample[:100]


class CopyReport(models.Model):
    """What copied ClusterServiceVersions cost one cluster; made when a person asks for it."""

    class State(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="copy_reports")
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    result = models.JSONField(default=dict)  # as installs.copies describes it
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"copied CSVs of {self.cluster_id}: {self.state}"


class Notification(models.Model):
    """A change of health that the webhook is to be told of: written with the Transition itself."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        GIVEN_UP = "given-up", "given up"

    transition = models.OneToOneField(
        Transition, on_delete=models.CASCADE, related_name="notification"
    )
    body = models.JSONField(default=dict)  # what happened, as it was then: installs.notify
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    error = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("state", "next_at")),)

    def __str__(self) -> str:
        return f"{self.transition_id}: {self.state}"


class Action(models.Model):
    """Something a person asked for. Recorded before it is sent; at most one open per object."""

    class Verb(models.TextChoices):
        INSTALL = "install"
        REMOVE = "remove"

    class State(models.TextChoices):
        PENDING = "pending"  # recorded, not yet sent
        APPLIED = "applied"  # the cluster took it; followed until its outcome
        SUCCEEDED = "succeeded"
        FAILED = "failed"  # the operator ended in a failure, see outcome
        REFUSED = "refused"  # the cluster did not take it
        LOST = "lost"  # no outcome within the time we follow

    OPEN = (State.PENDING, State.APPLIED)

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="actions")
    verb = models.CharField(max_length=20, choices=Verb.choices)
    path = models.CharField(max_length=30, default="PlatformOperator")  # kind of the object
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)  # of the object
    package = models.CharField(max_length=253, blank=True)
    catalog = models.CharField(max_length=253, blank=True)
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    as_user = models.CharField(max_length=250, blank=True)  # whom the cluster sees
    as_groups = models.JSONField(default=list)
    manifests = models.JSONField(default=list)
    dry_run = models.JSONField(default=dict)  # {"ok", "message", "fields"}
    outcome = models.TextField(blank=True)
    outcome_code = models.CharField(max_length=60, blank=True)
    outcome_hint = models.TextField(blank=True)
    finding = models.CharField(max_length=100, blank=True)
    object_uid = models.CharField(max_length=64, blank=True)
    idempotency_key = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "path", "namespace", "name"),
                condition=Q(state__in=("pending", "applied")),
                name="one_open_action_per_object",
            ),
        )
        indexes = (models.Index(fields=("state",)),)

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.name}: {self.state}"
