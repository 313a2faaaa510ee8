"""Install requests of people without the right to install, and the allow-list."""

import re
from fnmatch import fnmatchcase

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from catalogs.semver import masterminds_range, parse
from installs.models.actions import Action
from olmweb.models import Cluster

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")


def names_in(text: str) -> tuple[str, ...]:
    """The names in a comma-separated text."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


class AllowRule(models.Model):
    """One rule of the allow-list. If there is any, requests must match one."""

    package = models.CharField(
        max_length=253, help_text="Name of the package; * stands for any characters."
    )
    versions = models.CharField(
        max_length=200,
        blank=True,
        help_text="Range such as >=1.2 <2.0 or ~1.4; empty for every version.",
    )
    path = models.CharField(
        max_length=30,
        blank=True,
        choices=[(method, method) for method in InstallMethod],
        help_text="Empty for every install method.",
    )
    cluster = models.ForeignKey(
        Cluster,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        help_text="Empty for every cluster.",
    )
    without_approval = models.BooleanField(
        default=False,
        help_text="Approve matching requests automatically, in the name of the person who last "
        "saved this rule. The rule must have a version range, an install method, a cluster, "
        "catalogs and namespaces, and the ServiceAccount that a request names. All other requests "
        "wait for approval.",
    )
    catalogs = models.CharField(
        max_length=1000,
        blank=True,
        default="",
        db_default="",
        help_text="Catalogs to install from: NAME of a ClusterCatalog or NAMESPACE/NAME of a "
        "CatalogSource, separated by commas.",
    )
    namespaces = models.CharField(
        max_length=1000,
        blank=True,
        default="",
        db_default="",
        help_text="Namespaces to install into and to watch, separated by commas.",
    )
    service_accounts = models.CharField(
        max_length=1000,
        blank=True,
        default="",
        db_default="",
        help_text="ServiceAccounts that a ClusterExtension may use, separated by commas.",
    )
    note = models.CharField(max_length=300, blank=True)
    saved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("package", "id")

    def __str__(self) -> str:
        return f"{self.package} {self.versions or 'in every version'}"

    def permits(self, cluster: Cluster, path: str, package: str, version: str) -> bool:
        """Whether the rule is about this install; an empty cluster and method are about all."""
        return (
            self.cluster_id in (None, cluster.pk)
            and self.path in ("", path)
            and self.matches(package, version)
        )

    def matches(self, package: str, version: str) -> bool:
        """Whether the rule is about this package and version; an invalid version matches no
        range."""
        if not fnmatchcase(package, self.package.replace("[", "[[]")):
            return False
        if not self.versions:
            return True
        try:
            return masterminds_range(self.versions)(parse(version))
        except ValueError:
            return False

    @property
    def left_open(self) -> list[str]:
        """The fields that a rule without approval has to pin, and that are empty."""
        needed = ("versions", "path", "cluster_id", "catalogs", "namespaces")
        return [name.removesuffix("_id") for name in needed if not getattr(self, name)]

    def clean(self) -> None:
        """Raises ValidationError for a range that can't be read, and for a rule without approval
        that leaves open what it has to pin."""
        problems: dict[str, str] = {}
        try:
            if self.versions:
                masterminds_range(self.versions)
        except ValueError as error:
            problems["versions"] = str(error)
        if self.without_approval and self.path == InstallMethod.PLATFORM_OPERATOR:
            problems["path"] = (
                "A PlatformOperator names neither catalog nor version, so each needs approval."
            )
        for name in ("catalogs", "namespaces", "service_accounts"):
            wrong = [text for text in names_in(getattr(self, name)) if not _NAME.fullmatch(text)]
            if wrong:
                problems[name] = f'"{wrong[0][:80]}" is not a name; separate names with commas.'
        if self.without_approval:
            open_fields = dict.fromkeys(self.left_open, "Required for a rule without approval.")
            problems = open_fields | problems
        if problems:
            raise ValidationError(problems)


class InstallRequest(models.Model):
    """A requested install of a package, with a reason.

    `asked` has the form values of the plan, `config` the `spec.config` of its object, empty for
    none; `bundle` is the bundle that they resolved to then.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        APPROVED = "approved"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="requests")
    catalog = models.ForeignKey(Catalog, null=True, on_delete=models.SET_NULL, related_name="+")
    catalog_name = models.CharField(max_length=253)
    package = models.CharField(max_length=253)
    version = models.CharField(max_length=300)
    bundle = models.CharField(max_length=500, blank=True)
    path = models.CharField(max_length=30)
    name = models.CharField(max_length=253)  # of the object
    namespace = models.CharField(max_length=63, blank=True)
    asked = models.JSONField(default=dict)
    config = models.JSONField(default=dict, db_default={})
    reason = models.TextField()
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    state = models.CharField(max_length=20, choices=State.choices, default=State.WAITING)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    word = models.TextField(blank=True)  # of the person who decided, or why no rule approved it
    rule = models.ForeignKey(AllowRule, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.ForeignKey(Action, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        permissions = (
            ("decide_installrequest", "Can approve or decline what others ask for"),
            ("decide_own_installrequest", "Can approve what oneself asked for"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "path", "namespace", "name", "version", "user"),
                condition=Q(state="waiting"),
                name="one_waiting_request_per_person",
            ),
        )
        indexes = (models.Index(fields=("state", "created_at")),)

    def __str__(self) -> str:
        return f"{self.package} {self.version} by {self.path}: {self.state}"
