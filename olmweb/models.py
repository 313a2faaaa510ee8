"""Rows shared by both apps: clusters, sync runs, leases, watches, accounts' rows, the audit log,
the log of events."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.utils import timezone

from olmweb.errors import OlmwebError
from olmweb.kube.errors import Internal

LOCAL = "-"  # stands for "no cluster" in URLs: a catalog read from a file or URL
CLUSTER_STATES = ("silent", "attention", "waiting", "healthy", "removed")  # worst first
NOT_CONFIGURED = "not-configured"  # `Cluster.error_code`: no longer named in OLMWEB_CLUSTERS
REMOVED_TEXT = "Cluster {} is no longer named in OLMWEB_CLUSTERS."


def configured_clusters(prefix: str = "") -> models.Q:
    """Clusters that are not removed; with the path to the cluster as `prefix`, the rows of such
    clusters and of none."""
    return ~models.Q(**{f"{prefix}error_code": NOT_CONFIGURED})


class Cluster(models.Model):
    """A configured cluster; never holds a credential.

    `kinds` maps Kubernetes kind to `{"state": "served|absent|forbidden|failed", "version",
    "objects", "synced_at", "error"}` as of the last pass. `revision` grows by one whenever any row
    of the cluster changes: open pages poll with it. `assessed` identifies the rules and catalogs
    that its operators were last diagnosed with.
    """

    name = models.CharField(max_length=100, unique=True)
    context = models.CharField(max_length=250, blank=True)
    server = models.CharField(max_length=500, blank=True)
    version = models.CharField(max_length=100, blank=True)
    # Address of its OpenShift Console, as the cluster reports it.
    console = models.CharField(max_length=500, blank=True, default="", db_default="")
    kinds = models.JSONField(default=dict, blank=True)
    reachable = models.BooleanField(null=True)  # as of the last attempt that could tell
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    unreachable_since = models.DateTimeField(null=True, blank=True)  # first failed attempt
    synced_at = models.DateTimeField(null=True, blank=True)  # last complete pass
    checked_at = models.DateTimeField(null=True, blank=True)  # last attempt
    revision = models.PositiveBigIntegerField(default=0)
    assessed = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def removed(self) -> bool:
        """Whether it is no longer configured: it stays for its history and is not synced."""
        return self.error_code == NOT_CONFIGURED

    @property
    def answers(self) -> bool | None:
        """Whether it answered the last attempt. None if that is not known: before the first one, of
        a removed cluster, and of one that did not answer before a fault inside OLM Web."""
        unknown = self.removed or (self.error_code == Internal.code and not self.reachable)
        return None if unknown else self.reachable

    @property
    def unreachable(self) -> bool:
        """Whether the last attempt did not reach it, or was refused."""
        return self.answers is False

    @property
    def stale(self) -> bool:
        """Whether the last attempt failed, it was removed, or the last complete pass is older than
        five state polls (at least a minute)."""
        limit = timedelta(seconds=max(60, 5 * settings.STATE_POLL))
        old = self.synced_at is not None and timezone.now() - self.synced_at > limit
        return old or self.unreachable or bool(self.error_code)

    def state(self, failing: int) -> str:
        """One of CLUSTER_STATES, with the number of operators that need attention."""
        if self.removed:
            return "removed"
        if self.stale:
            return "silent"
        if self.synced_at is None:
            return "waiting"
        return "attention" if failing else "healthy"


class SyncRun(models.Model):
    """One attempt to sync one target; written even when the sync itself rolled back."""

    class Kind(models.TextChoices):
        CATALOG = "catalog"
        CLUSTER = "cluster"

    class Outcome(models.TextChoices):
        RUNNING = "running"
        CHANGED = "changed"
        UNCHANGED = "unchanged"
        FAILED = "failed"
        CANCELLED = "cancelled"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    target = models.CharField(max_length=400)  # cluster, or cluster and catalog
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=20, choices=Outcome.choices, default=Outcome.RUNNING)
    counts = models.JSONField(default=dict, blank=True)  # rows_written, requests, bytes_read, ...
    # While it runs: its step, and how many of how many (bytes or packages; 0: unknown).
    step = models.CharField(max_length=40, blank=True)
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    cancel_requested = models.BooleanField(default=False)
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)

    class Meta:
        ordering = ("-started_at", "-id")
        indexes = (models.Index(fields=("kind", "target", "-started_at")),)

    def __str__(self) -> str:
        return f"{self.kind} {self.target_name} {self.outcome}"

    @property
    def target_name(self) -> str:
        """The target as pages name it: a catalog that belongs to no cluster by its name alone."""
        return self.target.removeprefix(f"{LOCAL}/")


class Lease(models.Model):
    """A named lock that expires; see olmweb.runtime.leases."""

    name = models.CharField(max_length=250, unique=True)
    owner = models.CharField(max_length=200, blank=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class ResourceWatch(models.Model):
    """The watch of one resource (a kind, or a selection of it) of one cluster.

    `resource_version` is saved in the transaction of the rows that it produced, so a watch that
    resumes from it misses nothing. `last_event_at` is the time of the last event, including
    bookmarks; it is written at most every half minute while nothing changes.
    """

    class State(models.TextChoices):
        WATCHING = "watching"
        LISTED = "listed"  # read by a list; no watch is open
        RETRYING = "retrying"  # the watch or list failed; `error` says why
        ABSENT = "absent"  # the cluster does not serve the kind
        FORBIDDEN = "forbidden"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="watches")
    resource = models.CharField(max_length=100)
    kind = models.CharField(max_length=100)
    resource_version = models.CharField(max_length=100, blank=True)
    state = models.CharField(max_length=20, choices=State.choices, default=State.LISTED)
    error = models.TextField(blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)  # last full list
    last_event_at = models.DateTimeField(null=True, blank=True)
    lists = models.PositiveBigIntegerField(default=0)  # full lists so far
    watches = models.PositiveBigIntegerField(default=0)  # watch requests so far

    class Meta:
        ordering = ("cluster", "resource")
        verbose_name = "watched resource"
        constraints = (
            models.UniqueConstraint(fields=("cluster", "resource"), name="one_watch_per_resource"),
        )

    def __str__(self) -> str:
        return f"{self.cluster} {self.resource}"


class ChangeEvent(models.Model):
    """An entry of the log of what happened; see olmweb.eventlog. Append-only.

    `position` is the id that readers see and follow: null until the transaction of the event is
    committed. `kind`, `namespace` and `name` are of the object that it is about, `catalog` is
    `cluster/catalog` or empty, `data` is that of its type in olmweb.eventlog.types.
    """

    position = models.PositiveBigIntegerField(null=True, unique=True)
    type = models.CharField(max_length=40)
    at = models.DateTimeField()
    cluster = models.ForeignKey(
        Cluster,
        null=True,
        db_index=False,
        on_delete=models.CASCADE,
        # The version before does not know this table, and deletes clusters all the same.
        db_constraint=False,
        related_name="+",
    )
    kind = models.CharField(max_length=100)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    catalog = models.CharField(max_length=400, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ("position",)
        indexes = (
            models.Index(fields=("at",), name="change_event_by_time"),
            models.Index(fields=("type", "position"), name="change_event_by_type"),
            models.Index(
                fields=("id",), condition=models.Q(position=None), name="change_event_unpublished"
            ),
        )

    def __str__(self) -> str:
        return f"{self.position or '-'} {self.type} {self.name}"


class EventCounter(models.Model):
    """One row: the last position of the log of events, and the last one that retention deleted.

    Its lock makes one publisher of events wait for the other.
    """

    ONLY = 1

    position = models.PositiveBigIntegerField(default=0)
    pruned = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.pruned}-{self.position}"


class OidcIdentity(models.Model):
    """Identity of an account at an OpenID Connect provider: issuer and subject, never the name."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="oidc_identity"
    )
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)

    class Meta:
        verbose_name = "OpenID Connect identity"
        verbose_name_plural = "OpenID Connect identities"
        constraints = (
            models.UniqueConstraint(fields=("issuer", "subject"), name="one_account_per_subject"),
        )

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"


class ApiToken(models.Model):
    """A bearer token for the REST API; only its hash is stored. Valid for MAX_DAYS at most."""

    MAX_DAYS = 365
    MAX_COUNT = 20  # valid tokens of a user
    MAX_NAME = 60

    class Scope(models.TextChoices):
        READ = "read", "Read"
        ACT = "act", "Read and act"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    name = models.CharField(max_length=MAX_NAME, blank=True, default="", db_default="")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.READ)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_on = models.DateField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.user), self.scope, self.name)))

    @property
    def ends_at(self) -> datetime:
        """The end of its validity, at most MAX_DAYS after it was made."""
        latest = self.created_at + timedelta(days=self.MAX_DAYS)
        return min(self.expires_at or latest, latest)

    @classmethod
    def issue(
        cls, user_id: int, scope: str, days: int = 90, name: str = ""
    ) -> tuple[str, "ApiToken"]:
        """Makes a token valid for `days`; returns (the token, shown once; its row).

        Raises OlmwebError for more than MAX_DAYS, for a user with MAX_COUNT valid tokens, and for
        the name of another valid token of the user.
        """
        if not 0 < days <= cls.MAX_DAYS:
            text = f"A token is valid for 1 to {cls.MAX_DAYS} days."
            raise OlmwebError(text, code="invalid", status=400)
        token = f"olmweb_{secrets.token_urlsafe(32)}"
        now = timezone.now()
        with transaction.atomic():
            # The lock makes two calls at once count one after the other.
            get_user_model().objects.select_for_update().get(pk=user_id)
            tokens = cls.objects.filter(user=user_id).only("created_at", "expires_at", "name")
            valid = [row for row in tokens if row.ends_at > now]
            if len(valid) >= cls.MAX_COUNT:
                raise OlmwebError(
                    f"The user has {cls.MAX_COUNT} valid tokens already.",
                    code="too-many-tokens",
                    status=409,
                    hint="Revoke one that is no longer used.",
                )
            if name and any(row.name == name for row in valid):
                text = f"The user has a valid token with the name {name} already."
                hint = "Choose another name, or revoke that token."
                raise OlmwebError(
                    text, code="token-name-taken", status=409, hint=hint, fields={"name": text}
                )
            row = cls.objects.create(
                user_id=user_id,
                name=name,
                digest=cls.hash(token),
                scope=scope,
                expires_at=now + timedelta(days=days),
            )
        return token, row

    @staticmethod
    def hash(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()


class Preferences(models.Model):
    """How the pages look for one account; an account without a row has the defaults.

    `time_zone` is BROWSER or a name of the IANA database; `cluster` is the name of the default
    cluster, or empty; `columns` maps the name of a table to those of its shown columns.
    Notifications until `notifications_read_at` are read.
    """

    BROWSER = "browser"

    class Theme(models.TextChoices):
        SYSTEM = "system", "As the system"
        LIGHT = "light", "Light"
        DARK = "dark", "Dark"

    class Density(models.TextChoices):
        COMFORTABLE = "comfortable", "Comfortable"
        COMPACT = "compact", "Compact"

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        # The version before does not know this table, and deletes accounts all the same.
        db_constraint=False,
        related_name="preferences",
    )
    theme = models.CharField(max_length=10, choices=Theme.choices, default=Theme.SYSTEM)
    density = models.CharField(max_length=20, choices=Density.choices, default=Density.COMFORTABLE)
    time_zone = models.CharField(max_length=64, default="UTC")
    cluster = models.CharField(max_length=100, blank=True)
    columns = models.JSONField(null=True, blank=True)
    notifications_read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = verbose_name_plural = "preferences"

    def __str__(self) -> str:
        return f"Preferences of {self.user}"


class AppendOnlyQuerySet(models.QuerySet["AuditEvent"]):
    """Refuses to change or delete rows; `bulk_update` and `update_or_create` end here, too."""

    def update(self, **kwargs: Any) -> int:
        raise TypeError("Audit events can't be changed.")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("Audit events can't be deleted; retention deletes them.")


class AuditEvent(models.Model):
    """One entry of the audit log: a sign-in, a use of a token, a change of somebody's rights.

    Written by `olmweb.accounts.audit`. Append-only: retention and the deletion of an account, which
    empties `user`, use the base manager. `username` is the name at the time and stays, like
    `actor`, the user name of who did it if that is another person. `detail` never holds a secret.
    """

    class Event(models.TextChoices):
        SIGNED_IN = "signed-in", "Signed in"
        SIGN_IN_FAILED = "sign-in-failed", "Sign-in failed"
        LOCKED_OUT = "locked-out", "Locked out"
        UNLOCKED = "unlocked", "Unlocked"
        SIGNED_OUT = "signed-out", "Signed out"
        PASSWORD_CHANGED = "password-changed", "Password changed"
        TOKEN_ISSUED = "token-issued", "Token issued"
        TOKEN_REVOKED = "token-revoked", "Token revoked"
        TOKEN_USED = "token-used", "Token used"
        TOKEN_REFUSED = "token-refused", "Token refused"
        ACCOUNT_CREATED = "account-created", "Account created"
        ACCOUNT_RENAMED = "account-renamed", "Account renamed"
        ACCOUNT_DELETED = "account-deleted", "Account deleted"
        ROLES_CHANGED = "roles-changed", "Roles changed"
        GROUP_CHANGED = "group-changed", "Group changed"
        CATALOG_ADDED = "catalog-added", "Catalog added"
        CATALOG_CHANGED = "catalog-changed", "Source of a catalog changed"
        CATALOG_DELETED = "catalog-deleted", "Catalog deleted"
        RULE_CREATED = "rule-created", "Allow rule created"
        RULE_CHANGED = "rule-changed", "Allow rule changed"
        RULE_DELETED = "rule-deleted", "Allow rule deleted"
        RULE_ENDED = "rule-ended", "Allow rule ended with its owner"
        RULE_RESUMED = "rule-resumed", "Allow rule resumed with its owner"
        RECEIVER_CREATED = "receiver-created", "Webhook receiver created"
        RECEIVER_CHANGED = "receiver-changed", "Webhook receiver changed"
        RECEIVER_SECRET_CHANGED = "receiver-secret-changed", "Secret of a webhook receiver changed"
        RECEIVER_TESTED = "receiver-tested", "Webhook receiver tested"
        RECEIVER_DELETED = "receiver-deleted", "Webhook receiver deleted"
        DELIVERIES_SENT_AGAIN = "deliveries-sent-again", "Webhook deliveries sent again"

    at = models.DateTimeField("time", default=timezone.now)
    event = models.CharField(max_length=40, choices=Event.choices)
    username = models.CharField("user", max_length=150, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name="account",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        # The version before does not know this table, and deletes accounts all the same.
        db_constraint=False,
        related_name="+",
    )
    actor = models.CharField(max_length=150, blank=True)
    address = models.CharField("client address", max_length=45, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("-at", "-id"), name="audit_by_time"),
            models.Index(fields=("event", "at"), name="audit_by_event"),
        )

    def __str__(self) -> str:
        return f"{self.get_event_display()} {self.username}".rstrip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("Audit events can't be changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("Audit events can't be deleted; retention deletes them.")
