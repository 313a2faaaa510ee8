"""History of changes, unknown messages, reports and notifications."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from olmweb.models import Cluster


class Transition(models.Model):
    """An observed change of one condition, or of an object's existence. Append-only.

    `type` is the condition type, `Object` (appeared or deleted) or `Health` (by the diagnosis).
    `at` is the time of the observation: controllers keep lastTransitionTime when only the reason
    changes. `resource_version` is that of a deletion; events about older states are ignored.
    """

    cluster = models.ForeignKey(
        Cluster, db_index=False, on_delete=models.CASCADE, related_name="transitions"
    )
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
    """Messages without a knowledge entry, equal but for names and numbers."""

    fingerprint = models.CharField(max_length=64)
    kind = models.CharField(max_length=100)  # of the object with the message
    reason = models.CharField(max_length=1024, blank=True)
    sample = models.TextField()
    example = models.CharField(max_length=500, blank=True)  # cluster, namespace, name
    count = models.PositiveBigIntegerField(default=1)  # times that it appeared on an operator
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
    """The cost of copied ClusterServiceVersions for a cluster; made on request."""

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
    result = models.JSONField(default=dict)  # as installs.reports.copied_csvs describes it
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)  # the last attempt
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "copied CSV report"
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"copied CSVs of {self.cluster}: {self.state}"


class ObjectYaml(models.Model):
    """An object of a cluster as YAML, read for one user, who alone sees it for a few minutes.

    Requested again, the row is used again. `error_text` is a sentence; `text` is empty then.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    text = models.TextField(blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    requested_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)  # None: not read yet

    class Meta:
        verbose_name_plural = "YAML of objects"
        constraints = (
            models.UniqueConstraint(
                fields=("user", "cluster", "kind", "namespace", "name"), name="yaml_identity"
            ),
        )
        indexes = (models.Index(fields=("requested_at",)),)

    def __str__(self) -> str:
        return f"YAML of {self.kind} {self.namespace or '-'}/{self.name}"


class CrdCheck(models.Model):
    """The CRDs of a bundle against those of a cluster and their objects, read for one user, who
    alone sees it for a while (installs.actions.crd_check).

    `kind`, `namespace` and `name` are those of the operator, `bundle` is the one that it would be
    upgraded to. Requested again, the row is used again.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    bundle = models.CharField(max_length=300)
    result = models.JSONField(default=dict)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    requested_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)  # None: not read yet

    class Meta:
        verbose_name = "CRD check"
        constraints = (
            models.UniqueConstraint(
                fields=("user", "cluster", "kind", "namespace", "name", "bundle"),
                name="crd_check_identity",
            ),
        )
        indexes = (models.Index(fields=("requested_at",)),)

    def __str__(self) -> str:
        return f"CRDs of {self.kind} {self.namespace or '-'}/{self.name} against {self.bundle}"


class Notification(models.Model):
    """A change of health for the webhook, written in the transaction of its Transition."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        GIVEN_UP = "given-up", "given up"

    transition = models.OneToOneField(
        Transition, on_delete=models.CASCADE, related_name="notification"
    )
    body = models.JSONField(default=dict)  # see installs.notifications.select
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    error = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("state", "next_at")),)

    def __str__(self) -> str:
        return f"{self.transition.kind} {self.transition.name}: {self.get_state_display()}"
