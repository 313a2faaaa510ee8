"""Actions that people request, single or in batches, and answers of access reviews."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from catalogs.models import Catalog
from installs.models.steps import Apply, Step, from_json
from olmweb.models import Cluster


def approval_title(plan: str, csvs: Sequence[str]) -> str:
    """Names the version that the InstallPlan carries, `Approve kettle 1.2.0 (InstallPlan
    install-gnbql)`, or their number."""
    if not csvs:
        return f"Approve InstallPlan {plan}"
    name, _, version = csvs[0].partition(".v")
    carried = f"{name} {version}".strip() if len(csvs) == 1 else f"{len(csvs)} operators"
    return f"Approve {carried} (InstallPlan {plan})"


class ActionBatch(models.Model):
    """Many actions that one person confirmed at once, sent a few at a time: installs, or the same
    change of many operators."""

    NOUNS: ClassVar = {
        "install": "Bulk install",
        "migrate": "Bulk migration",
        "approve": "Bulk approval",
        "retry": "Bulk retry",
        "remove": "Bulk removal",
    }

    replayed = False  # not stored: it was returned for an Idempotency-Key that was used before

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="batches")
    path = models.CharField(max_length=30)  # empty for objects of several kinds
    verb = models.CharField(max_length=20, default="install", db_default="install")  # of NOUNS
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    left_out = models.JSONField(default=list)  # [{"package", "reason"}] of the selection
    asked_hash = models.CharField(max_length=64)  # of the selection and the common form values
    idempotency_key = models.CharField(max_length=100)
    created_at = models.DateTimeField(default=timezone.now)
    stopped_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=150, blank=True)

    class Meta:
        verbose_name = "bulk action"
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=("user", "idempotency_key"), name="one_batch_per_key"),
        )

    def __str__(self) -> str:
        return f"{self.noun} {self.pk}" + (f" by {self.path}" if self.path else "")

    @property
    def noun(self) -> str:
        return self.NOUNS.get(self.verb, self.NOUNS["install"])


class Action(models.Model):
    """A change that a person requested. Recorded before it is sent; at most one open per object."""

    class Verb(models.TextChoices):
        INSTALL = "install"
        UPGRADE = "upgrade"
        CONFIGURE = "configure"
        APPROVE = "approve"
        RETRY = "retry"
        REMOVE = "remove"
        CLEAN_UP = "clean-up", "Clean up"  # deletes what a removed operator left

    class State(models.TextChoices):
        PENDING = "pending"  # recorded, not yet sent
        APPLIED = "applied"  # accepted by the cluster; followed until its outcome
        SUCCEEDED = "succeeded"
        NO_CHANGE = "no_change", "No change"  # the object was so already, nothing was written
        FAILED = "failed"  # the operator ended in a failure, see outcome
        REFUSED = "refused"  # by the cluster
        LOST = "lost"  # no outcome within the time limit
        STOPPED = "stopped"  # with its batch, before a worker began

    OPEN = (State.PENDING, State.APPLIED)
    replayed = False  # not stored: it was returned for an Idempotency-Key that was used before

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="actions")
    verb = models.CharField(max_length=20, choices=Verb.choices)
    path = models.CharField(max_length=30, default="PlatformOperator")  # kind of the object
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)  # of the object
    package = models.CharField(max_length=253, blank=True)
    catalog = models.CharField(max_length=253, blank=True)  # its name in the object
    # The catalog that the package was chosen in; an object may name another of the same name.
    chosen_catalog = models.ForeignKey(
        Catalog, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    state = models.CharField(max_length=20, choices=State.choices, default=State.PENDING)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    as_user = models.CharField(max_length=250, blank=True)  # the identity that the cluster sees
    as_groups = models.JSONField(default=list)
    stored_steps = models.JSONField(default=list)  # in their order, see installs.models.steps
    done = models.JSONField(default=list)  # labels of applied steps
    force = models.BooleanField(default=False)  # takes fields over from other managers
    target = models.CharField(max_length=500, blank=True)  # expected bundle
    # Of an upgrade in several steps: the bundles from the one that was installed, empty for an
    # install, to the last, which later actions lead to.
    route = models.JSONField(null=True, blank=True)
    # Whether its operator blocked the next minor version of the cluster when it was requested.
    of_blocker = models.BooleanField(default=False, db_default=False)
    channel = models.CharField(max_length=300, blank=True)
    version = models.CharField(max_length=300, blank=True)
    dry_run = models.JSONField(default=dict)  # {"ok", "message", "fields"}
    outcome = models.TextField(blank=True)
    outcome_code = models.CharField(max_length=60, blank=True)
    outcome_hint = models.TextField(blank=True)
    finding = models.CharField(max_length=100, blank=True)
    object_uid = models.CharField(max_length=64, blank=True)
    # metadata.generation of the object with the applied change; 0 of other actions
    object_generation = models.PositiveBigIntegerField(default=0, db_default=0)
    idempotency_key = models.CharField(max_length=100, blank=True)
    request_hash = models.CharField(max_length=64, blank=True, default="", db_default="")
    # Primary keys of the API token and the allow rule that it was requested with; they stay when
    # those are deleted, which ends the right to send it.
    by_token = models.BigIntegerField(null=True, blank=True)
    by_rule = models.BigIntegerField(null=True, blank=True)
    batch = models.ForeignKey(
        ActionBatch, null=True, on_delete=models.SET_NULL, related_name="actions"
    )
    begun_at = models.DateTimeField(null=True, blank=True)  # of a batch: a worker has begun
    # From this time on a worker may claim the next attempt, null: at once; `attempt` counts claims.
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0, db_default=0)
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
            models.UniqueConstraint(
                fields=("user", "idempotency_key"),
                condition=~Q(idempotency_key="") & ~Q(request_hash=""),
                name="one_action_per_key",
            ),
        )
        indexes = (models.Index(fields=("state",)),)

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.name}: {self.state}"

    @property
    def title(self) -> str:
        """What it does to which object, in words."""
        if self.verb == self.Verb.APPROVE:
            return approval_title(self.name, list(filter(None, self.target.split(","))))
        return f"{self.get_verb_display()} {self.name}"

    @property
    def steps(self) -> tuple[Step, ...]:
        return from_json(self.stored_steps)

    @property
    def main(self) -> Apply:
        """The apply of the object that the action is about; a removal has none."""
        return next(step for step in self.steps if isinstance(step, Apply) and step.main)

    @property
    def config(self) -> dict[str, Any]:
        """The `spec.config` that it applies; empty for none."""
        applied = (step for step in self.steps if isinstance(step, Apply) and step.main)
        spec = next((step.manifest.get("spec") for step in applied), None)
        return dict((spec or {}).get("config") or {})


class ActionKey(models.Model):
    """An Idempotency-Key that was answered with an equal open action, which another request had
    recorded with its own key or none."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=100)
    request_hash = models.CharField(max_length=64)
    action = models.ForeignKey(Action, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="one_answer_per_key"),)

    def __str__(self) -> str:
        return self.key


class AccessAnswer(models.Model):
    """A cluster's answer to an access review about one user, for the buttons of pages.

    It holds for the name and groups of `identity_hash` only. `reason` is a sentence if not allowed.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=60)
    verb = models.CharField(max_length=20)
    namespace = models.CharField(max_length=63, blank=True)  # empty: all namespaces
    identity_hash = models.CharField(max_length=64)
    allowed = models.BooleanField()
    reason = models.TextField(blank=True)
    checked_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("user", "cluster", "kind", "verb", "namespace")
        constraints = (
            models.UniqueConstraint(
                fields=("user", "cluster", "kind", "verb", "namespace"),
                name="one_answer_per_question",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user}: {self.verb} {self.kind} on {self.cluster}: {self.allowed}"
