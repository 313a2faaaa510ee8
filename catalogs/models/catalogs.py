"""Catalogs, what their revisions changed, and what is wrong in them."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from olmweb.models import LOCAL, Cluster


class Catalog(models.Model):
    """One catalog of one source. `slug` names it in URLs under its cluster (`-` when none)."""

    class SourceKind(models.TextChoices):
        CLUSTER_CATALOG = "ClusterCatalog"
        CATALOG_SOURCE = "CatalogSource"
        PACKAGE_MANIFEST = "PackageManifest"
        FILE = "File"
        URL = "URL"
        IMAGE = "Image"

    class State(models.TextChoices):
        NEW = "new"  # never read
        SERVING = "serving"
        FAILED = "failed"  # last attempt failed; the last good content stays
        DISABLED = "disabled"  # availability is UNAVAILABLE

    UNAVAILABLE = "Unavailable"  # of a ClusterCatalog that is switched off

    cluster = models.ForeignKey(
        Cluster, null=True, blank=True, on_delete=models.CASCADE, related_name="catalogs"
    )
    source_kind = models.CharField(max_length=20, choices=SourceKind.choices)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    slug = models.CharField(max_length=253, db_index=True)
    source = models.CharField(max_length=2000, blank=True)  # path, URL or image reference
    # How the source can be read, best first: [{"way", "state", "why"}]. `access_method` is the one
    # that the content shown was read by; see catalogs.sources.access_methods.
    access_methods = models.JSONField(default=list, blank=True)
    access_method = models.CharField(max_length=40, blank=True)
    priority = models.IntegerField(default=0)
    availability = models.CharField(max_length=20, default="Available")  # spec.availabilityMode
    resolved_digest = models.CharField(max_length=1000, blank=True)
    base_url = models.CharField(max_length=2000, blank=True)  # ClusterCatalog status.urls.base
    conditions = models.JSONField(default=list, blank=True)
    synced_digest = models.CharField(max_length=1000, blank=True)  # what the rows were read from
    last_modified = models.CharField(max_length=60, blank=True)  # HTTP header of that body
    content_hash = models.CharField(max_length=64, blank=True)  # sha256 of the decoded body
    derivation = models.PositiveIntegerField(default=0)  # which code's rules derived the rows
    state = models.CharField(max_length=20, choices=State.choices, default=State.NEW)
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    failing_since = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)  # last attempt
    synced_at = models.DateTimeField(null=True, blank=True)  # last attempt that succeeded
    changed_at = models.DateTimeField(null=True, blank=True)  # content last changed
    last_cost = models.CharField(max_length=100, blank=True)  # "304, 12 ms"
    revision = models.PositiveIntegerField(default=0)  # number of the revision now shown
    package_count = models.PositiveIntegerField(default=0)
    channel_count = models.PositiveIntegerField(default=0)
    bundle_count = models.PositiveIntegerField(default=0)
    problem_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("cluster__name", "name")
        constraints = (
            models.UniqueConstraint(fields=("cluster", "slug"), name="catalog_slug_in_cluster"),
            models.UniqueConstraint(
                fields=("slug",), condition=Q(cluster=None), name="catalog_slug_without_cluster"
            ),
        )

    def __str__(self) -> str:
        return f"{self.cluster_name}/{self.slug}"

    @property
    def cluster_name(self) -> str:
        return self.cluster.name if self.cluster else LOCAL

    @property
    def stale(self) -> bool:
        """The last attempt failed, or none succeeded for longer than three catalog polls."""
        limit = timedelta(seconds=max(600, 3 * settings.CATALOG_POLL))
        return self.state == self.State.FAILED or (
            self.source_kind == self.SourceKind.CLUSTER_CATALOG
            and self.synced_at is not None
            and timezone.now() - self.synced_at > limit
        )


class CatalogRevision(models.Model):
    """One content of a catalog that was synced: what changed from the one before."""

    catalog = models.ForeignKey(Catalog, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)
    digest = models.CharField(max_length=1000, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    counts = models.JSONField(default=dict)  # packages, channels, bundles, added, removed, changed

    class Meta:
        ordering = ("-number",)
        constraints = (
            models.UniqueConstraint(fields=("catalog", "number"), name="revision_number"),
        )

    def __str__(self) -> str:
        return f"{self.catalog} #{self.number}"


class CatalogChange(models.Model):
    """One difference between a revision and the one before."""

    class Kind(models.TextChoices):
        PACKAGE_ADDED = "package added"
        PACKAGE_REMOVED = "package removed"
        BUNDLE_ADDED = "bundle added"
        BUNDLE_REMOVED = "bundle removed"
        BUNDLE_PRUNED = "bundle pruned"  # removed below the oldest version that is left
        BUNDLE_CHANGED = "bundle changed"  # another content under the same name
        IMAGES_CHANGED = "images changed"  # of a bundle that kept its name
        CHANNEL_ADDED = "channel added"
        CHANNEL_REMOVED = "channel removed"
        CHANNEL_CHANGED = "channel changed"  # other entries, or what they replace and skip
        HEAD_MOVED = "channel head moved"
        DEFAULT_CHANNEL_CHANGED = "default channel changed"
        DEPRECATED = "deprecated"
        UNDEPRECATED = "no longer deprecated"

    revision = models.ForeignKey(CatalogRevision, on_delete=models.CASCADE, related_name="changes")
    kind = models.CharField(max_length=30, choices=Kind.choices)
    package = models.CharField(max_length=253)
    subject = models.CharField(max_length=500, blank=True)  # channel or bundle
    before = models.CharField(max_length=500, blank=True)
    after = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.kind} {self.package} {self.subject}"


class PackageOutline(models.Model):
    """What one package was from one revision of a catalog up to another: enough to compare any two.

    A row is written when the package changes, and for no other revision: `first` and `last` are
    revision numbers, both included; `last` is None while the package is still so.
    """

    catalog = models.ForeignKey(
        Catalog, on_delete=models.CASCADE, related_name="outlines", db_index=False
    )  # the index below begins with it
    package = models.CharField(max_length=253)
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField(null=True, blank=True)
    content_hash = models.CharField(max_length=64)
    data = models.BinaryField()  # zstd of JSON; see catalogs.revisions.outline

    class Meta:
        ordering = ("catalog", "package", "first")
        constraints = (
            models.UniqueConstraint(
                fields=("catalog", "package", "first"), name="outline_of_package"
            ),
        )

    def __str__(self) -> str:
        return f"{self.package} #{self.first}"


class ContentProblem(models.Model):
    """A fault of the content, in opm's wording where opm has one."""

    class Severity(models.TextChoices):
        ERROR = "error"  # opm refuses the whole catalog
        WARNING = "warning"

    catalog = models.ForeignKey(Catalog, on_delete=models.CASCADE, related_name="problems")
    package = models.CharField(max_length=253, blank=True)
    subject = models.CharField(max_length=500, blank=True)  # channel or bundle
    field = models.CharField(max_length=200, blank=True)
    code = models.CharField(max_length=60)
    severity = models.CharField(max_length=10, choices=Severity.choices)
    message = models.TextField()
    # Where it was when its package was last written: what stands before it may have grown since.
    offset = models.PositiveBigIntegerField(null=True, blank=True)  # byte in the decoded body
    file = models.CharField(max_length=500, blank=True)  # of a source with several
    line = models.PositiveIntegerField(null=True, blank=True)  # in the file, from 1
    excerpt = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("catalog", "package", "id")

    def __str__(self) -> str:
        return self.message
