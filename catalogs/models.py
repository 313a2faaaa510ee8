"""Catalogs, their content as of the last good sync, their revisions, and verdicts on bundles.

Keys are always scoped to their catalog. The tables with many rows have no foreign key constraints
(`db_constraint=False`): only `catalogs.sync` writes them, parents and children in one transaction,
and PostgreSQL would check the parent of every row at its end, a fifth of a sync's time.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
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
    sync_requested_at = models.DateTimeField(null=True, blank=True)  # by a person
    synced_at = models.DateTimeField(null=True, blank=True)  # last attempt that succeeded
    changed_at = models.DateTimeField(null=True, blank=True)  # content last changed
    last_cost = models.CharField(max_length=100, blank=True)  # "304, 12 ms"
    revision = models.PositiveIntegerField(default=0)  # number of the revision now shown
    package_count = models.PositiveIntegerField(default=0)
    channel_count = models.PositiveIntegerField(default=0)
    bundle_count = models.PositiveIntegerField(default=0)
    problem_count = models.PositiveIntegerField(default=0)

    class Meta:
        permissions = (
            ("sync_catalog", "Can start and cancel syncs"),
            ("read_server_files", "Can add catalogs from files of the server"),
        )
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
    def on_removed(self) -> bool:
        """Whether its cluster is no longer configured."""
        return self.cluster is not None and self.cluster.removed

    @property
    def stale(self) -> bool:
        return is_stale(self.state, self.source_kind, self.source, self.synced_at)

    @property
    def polled(self) -> bool:
        return is_polled(self.state, self.source_kind, self.source)


def is_polled(state: str, source_kind: str, source: str) -> bool:
    """Whether polls read a catalog: not a disabled one, one of PackageManifests, and one of a file
    without a path."""
    states, kinds = Catalog.State, Catalog.SourceKind
    without_path = source_kind == kinds.FILE and not source
    return state != states.DISABLED and source_kind != kinds.PACKAGE_MANIFEST and not without_path


def is_stale(state: str, source_kind: str, source: str, synced_at: datetime | None) -> bool:
    """Whether the last attempt to read a catalog failed, or none succeeded for longer than three
    catalog polls (at least 10 minutes).

    A catalog that no poll reads does not become stale.
    """
    if state == Catalog.State.FAILED:
        return True
    if synced_at is None or not is_polled(state, source_kind, source):
        return False
    limit = timedelta(seconds=max(600, 3 * settings.CATALOG_POLL))
    return timezone.now() - synced_at > limit


class ProvidedCatalog(Protocol):
    """What tells catalogs apart, of a Catalog, CatalogState or CatalogStamp."""

    @property
    def pk(self) -> Any: ...
    @property
    def cluster_id(self) -> Any: ...
    @property
    def slug(self) -> Any: ...
    @property
    def source_kind(self) -> Any: ...
    @property
    def namespace(self) -> Any: ...
    @property
    def name(self) -> Any: ...


_Row = TypeVar("_Row", bound=ProvidedCatalog)


def distinct_catalogs(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Groups the rows that serve one catalog; no query.

    A ClusterCatalog and a CatalogSource of one name on one cluster are one catalog, as in the
    install form; CatalogSources of several namespaces are several.
    """
    groups: dict[tuple[object, ...], list[_Row]] = {}
    ordered = sorted(rows, key=lambda row: row.source_kind == Catalog.SourceKind.CLUSTER_CATALOG)
    spaces: dict[tuple[int, str], str] = {}
    for row in ordered:
        if row.cluster_id is None:
            groups[row.pk,] = [row]
            continue
        name = (row.cluster_id, row.name)
        namespace = row.namespace or spaces.get(name, "")
        spaces.setdefault(name, namespace)
        groups.setdefault((*name, namespace), []).append(row)
    return list(groups.values())


def source_slugs(rows: Iterable[_Row]) -> dict[int, str]:
    """Catalog key -> slug that stands for all access methods of the catalog: that of a
    ClusterCatalog before that of a CatalogSource, as all of its content can be read. Copies of a
    catalog on several clusters share it."""
    return {row.pk: entries[-1].slug for entries in distinct_catalogs(rows) for row in entries}


class CatalogRevision(models.Model):
    """One synced content of a catalog; its changes are the differences from the one before."""

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
    """A difference between a revision and the one before."""

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
    """The outline of a package in a range of revisions, enough to compare any two of them.

    A row is written only when the package changes: `first` and `last` are revision numbers, both
    included; `last` is None for the present outline.
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
    # Its position when its package was last written: the content before it may have grown since.
    offset = models.PositiveBigIntegerField(null=True, blank=True)  # byte in the decoded body
    file = models.CharField(max_length=500, blank=True)  # of a source with several
    line = models.PositiveIntegerField(null=True, blank=True)  # in the file, from 1
    excerpt = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("catalog", "package", "id")

    def __str__(self) -> str:
        return self.message


# -- content


class Icon(models.Model):
    """An icon, stored once by content; the media type is detected, never the declared one."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    media_type = models.CharField(max_length=40)
    data = models.BinaryField()

    def __str__(self) -> str:
        return self.sha256


class Package(models.Model):
    """A package, with the fields of its default channel's head bundle that lists and cards show."""

    catalog = models.ForeignKey(
        Catalog, db_index=False, on_delete=models.CASCADE, related_name="packages"
    )
    name = models.CharField(max_length=253)
    content_hash = models.CharField(max_length=64)  # over every blob of the package
    display_name = models.CharField(max_length=300, blank=True)
    summary = models.CharField(max_length=500, blank=True)  # one line of plain text
    provider = models.CharField(max_length=300, blank=True)
    default_channel = models.CharField(max_length=300, blank=True)
    head_bundle = models.CharField(max_length=500, blank=True)  # of the default channel
    head_version = models.CharField(max_length=200, blank=True)
    icon = models.ForeignKey(Icon, null=True, blank=True, on_delete=models.SET_NULL)
    categories = models.JSONField(default=list)
    keywords = models.JSONField(default=list)
    capability = models.CharField(max_length=60, blank=True)
    infrastructure_features = models.JSONField(default=list)
    install_modes = models.JSONField(default=list)  # names of the supported ones
    deprecated = models.BooleanField(default=False)
    deprecation = models.TextField(blank=True)
    channel_count = models.PositiveIntegerField(default=0)
    bundle_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("catalog", "name"), name="package_in_catalog"),
        )
        indexes = (models.Index(fields=("name", "catalog")),)

    def __str__(self) -> str:
        return self.name


class PackageSearch(models.Model):
    """The search terms of a package, built by `catalogs.fbc.package_texts`.

    The database maintains the index of `words` (migration 0001_initial): SQLite by triggers into
    the FTS5 table catalogs_packagesearch_fts, PostgreSQL by an index that the function
    catalogs_packagesearch_with uses.
    """

    package = models.OneToOneField(
        Package, on_delete=models.CASCADE, primary_key=True, related_name="search"
    )
    words = models.TextField(blank=True)  # folded, each once, with spaces between
    provides = models.JSONField(default=list)  # GROUP/KIND of the head bundle
    provided_before = models.JSONField(default=list)  # GROUP/KIND of other bundles only
    repositories = models.JSONField(default=list)  # of bundle images and related images
    # Versions of the longest series of upgrades that OLM v0 makes in the default channel, from the
    # listed edges; null if not known.
    upgrade_path = models.JSONField(null=True)

    class Meta:
        verbose_name_plural = "package searches"

    def __str__(self) -> str:
        return str(self.package_id)


class PackageText(models.Model):
    """Long texts of a package, apart from the rows that lists read."""

    package = models.OneToOneField(
        Package, on_delete=models.CASCADE, primary_key=True, related_name="text"
    )
    description_html = models.TextField(blank=True)  # sanitised at sync
    links = models.JSONField(default=list)  # [{"name", "url"}], http(s) only
    maintainers = models.JSONField(default=list)  # [{"name", "email"}]

    def __str__(self) -> str:
        return str(self.package_id)


class Channel(models.Model):
    package = models.ForeignKey(
        Package, db_index=False, on_delete=models.CASCADE, related_name="channels"
    )
    name = models.CharField(max_length=300)
    head = models.CharField(max_length=500, blank=True)  # empty when there is not exactly one
    head_version = models.CharField(max_length=200, blank=True)
    is_default = models.BooleanField(default=False)
    deprecated = models.BooleanField(default=False)
    deprecation = models.TextField(blank=True)
    entry_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("package", "name")
        constraints = (
            models.UniqueConstraint(fields=("package", "name"), name="channel_in_package"),
        )

    def __str__(self) -> str:
        return self.name


class ChannelEntry(models.Model):
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="entries", db_constraint=False
    )
    ordinal = models.PositiveIntegerField()  # position in the channel blob
    name = models.CharField(max_length=500)
    replaces = models.CharField(max_length=500, blank=True)
    skips = models.JSONField(default=list)
    skip_range = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name_plural = "channel entries"
        ordering = ("channel", "ordinal")

    def __str__(self) -> str:
        return self.name


class DigestStart(models.Func):
    """The first 12 characters of the sha256 digest that ends an image reference, for a small index;
    any text for a reference without a digest.

    The template has literal numbers: SQLite uses no expression index for parameters.
    """

    template = "LEFT(RIGHT(%(expressions)s, 64), 12)"
    output_field = models.CharField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "SUBSTR(SUBSTR(%(expressions)s, -64), 1, 12)"
        return self.as_sql(compiler, connection, template=template, **context)


class Bundle(models.Model):
    """A bundle. (package, name) is not guaranteed unique by the format, hence `ordinal`."""

    package = models.ForeignKey(
        Package,
        db_index=False,
        db_constraint=False,
        on_delete=models.CASCADE,
        related_name="bundles",
    )
    name = models.CharField(max_length=500)
    ordinal = models.PositiveIntegerField(default=0)
    version = models.CharField(max_length=200, blank=True)
    release = models.CharField(max_length=100, blank=True)
    version_key = models.CharField(max_length=400, blank=True)  # sorts as text in semver order
    image = models.CharField(max_length=1000, blank=True)
    display_name = models.CharField(max_length=300, blank=True)
    install_modes = models.JSONField(default=list)
    install_modes_known = models.BooleanField(default=False)
    webhooks = models.PositiveIntegerField(null=True, blank=True)  # None: needs the full CSV
    owned_api_services = models.PositiveIntegerField(null=True, blank=True)
    min_kube_version = models.CharField(max_length=60, blank=True)
    max_openshift_version = models.CharField(max_length=60, blank=True)
    suggested_namespace = models.CharField(max_length=200, blank=True)
    released_at = models.CharField(max_length=60, blank=True)  # createdAt as its author wrote it
    deprecated = models.BooleanField(default=False)
    deprecation = models.TextField(blank=True)
    required_packages = models.JSONField(default=list)  # [{"name", "range"}]
    constraint_count = models.PositiveIntegerField(default=0)
    # A BlobRef protects the blob; an index here would cost half a megabyte and serve no query.
    blob = models.ForeignKey(
        "Blob", null=True, on_delete=models.DO_NOTHING, db_index=False, db_constraint=False
    )

    class Meta:
        ordering = ("package", "-version_key", "name", "ordinal")
        constraints = (
            models.UniqueConstraint(
                fields=("package", "name", "ordinal"), name="bundle_in_package"
            ),
        )
        indexes = (
            models.Index(fields=("name",)),
            models.Index(DigestStart("image"), name="bundle_image_digest"),
        )

    def __str__(self) -> str:
        return self.name

    def supports(self, install_mode: str) -> bool:
        """Whether it is known to support an install mode such as OwnNamespace."""
        return self.install_modes_known and install_mode in self.install_modes


class BundleGVK(models.Model):
    bundle = models.ForeignKey(
        Bundle, on_delete=models.CASCADE, related_name="gvks", db_constraint=False
    )
    group = models.CharField(max_length=253)
    version = models.CharField(max_length=63)
    kind = models.CharField(max_length=100)
    required = models.BooleanField(default=False)  # False: provided

    class Meta:
        verbose_name = "provided or required API"
        ordering = ("group", "kind", "version")
        indexes = (models.Index(fields=("group", "kind", "required")),)

    def __str__(self) -> str:
        return f"{self.kind}.{self.version}.{self.group}"


class RelatedImage(models.Model):
    """Both fields may be empty and names repeat: real catalogs do that."""

    bundle = models.ForeignKey(
        Bundle, on_delete=models.CASCADE, related_name="related_images", db_constraint=False
    )
    name = models.CharField(max_length=500, blank=True)
    image = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(DigestStart("image"), name="related_image_digest"),)

    def __str__(self) -> str:
        return self.image


# -- blobs


class BlobPack(models.Model):
    """Blobs of one package in one zstd frame; see catalogs.storage."""

    size = models.PositiveIntegerField()  # bytes before compression
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.pk} ({self.size} bytes)"


class Blob(models.Model):
    """A blob of FBC, stored once for all catalogs: its position in a pack."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    pack = models.ForeignKey(
        BlobPack, on_delete=models.CASCADE, related_name="blobs", db_constraint=False
    )
    start = models.PositiveIntegerField(default=0)  # in the pack's bytes before compression
    size = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.sha256


class BlobRef(models.Model):
    """The position of a blob in a catalog; every blob of every schema has a row."""

    catalog = models.ForeignKey(
        Catalog, on_delete=models.CASCADE, related_name="blob_refs", db_index=False
    )  # the index below begins with it
    package = models.CharField(max_length=253, blank=True)
    schema = models.CharField(max_length=253, blank=True)
    name = models.CharField(max_length=500, blank=True)
    ordinal = models.PositiveIntegerField()  # position in the package's part of the catalog
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, db_index=False, db_constraint=False)

    class Meta:
        ordering = ("catalog", "package", "ordinal")
        indexes = (
            models.Index(fields=("catalog", "package")),
            # An index of the field itself would add another for LIKE, which no query uses.
            models.Index(fields=("blob",), name="catalogs_blobref_blob"),
        )

    def __str__(self) -> str:
        return f"{self.schema} {self.name}"


# -- images of bundles


class BundleManifests(models.Model):
    """The contents of a bundle's image, stored once by its digest; see catalogs.contents."""

    digest = models.CharField(max_length=140, primary_key=True)
    data = models.BinaryField()  # zstd of JSON
    size = models.PositiveIntegerField()  # bytes before compression
    objects_held = models.PositiveIntegerField()  # the ClusterServiceVersion among them

    class Meta:
        verbose_name_plural = "bundle manifests"

    def __str__(self) -> str:
        return self.digest


class InspectedCRD(models.Model):
    """A CustomResourceDefinition among the contents of a bundle's image, which need not be in the
    olm.gvk properties of the bundle."""

    manifests = models.ForeignKey(BundleManifests, on_delete=models.CASCADE, related_name="crds")
    name = models.CharField(max_length=253)

    class Meta:
        verbose_name = "inspected CRD"
        constraints = (
            models.UniqueConstraint(fields=("name", "manifests"), name="inspected_crd_once"),
        )

    def __str__(self) -> str:
        return self.name


class BundleInspection(models.Model):
    """A request to inspect a bundle's image, by its reference in catalogs."""

    class State(models.TextChoices):
        QUEUED = "queued"
        READING = "reading"
        READ = "read"
        FAILED = "failed"

    image = models.CharField(max_length=1000, unique=True)
    state = models.CharField(max_length=20, choices=State.choices, default=State.QUEUED)
    manifests = models.ForeignKey(
        BundleManifests, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )  # of the last inspection
    asked_by = models.CharField(max_length=150, blank=True)
    asked_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)  # the last attempt
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Its registry asked to wait until then; `waits` counts how often.
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    waits = models.PositiveSmallIntegerField(default=0, db_default=0)
    finished_at = models.DateTimeField(null=True, blank=True)
    done = models.PositiveBigIntegerField(default=0)  # bytes, while it is read
    total = models.PositiveBigIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)

    class Meta:
        verbose_name = "image inspection"
        ordering = ("-asked_at", "-id")

    def __str__(self) -> str:
        return self.image


class CatalogInspection(models.Model):
    """The inspection of all bundle images of a catalog by workers, in turns.

    The counts are of the run for `revision` of the catalog; `wanted` images are `reused` (stored
    before the run), `inspected`, `failed` ({reason: images}), or left. The run is over when
    `finished_at` is set.
    """

    catalog = models.OneToOneField(
        Catalog, primary_key=True, on_delete=models.CASCADE, related_name="image_inspection"
    )
    # None: as OLMWEB_INSPECT_CATALOGS says.
    enabled = models.BooleanField(null=True, blank=True)
    requested_by = models.CharField(max_length=150, blank=True)
    revision = models.PositiveIntegerField(null=True, blank=True)
    retry_failed = models.BooleanField(default=False)  # also those that failed for good before
    started_at = models.DateTimeField(null=True, blank=True)
    turn_at = models.DateTimeField(null=True, blank=True)  # when the last turn began
    next_turn_at = models.DateTimeField(null=True, blank=True)  # not before then
    finished_at = models.DateTimeField(null=True, blank=True)
    wanted = models.PositiveIntegerField(default=0)
    inspected = models.PositiveIntegerField(default=0)
    reused = models.PositiveIntegerField(default=0)
    failed = models.JSONField(default=dict, blank=True)
    bytes_read = models.PositiveBigIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    waiting_for = models.JSONField(default=list, blank=True)  # registries, or ["budget"]
    left_out = models.JSONField(default=list, blank=True)  # registries that failed too often

    class Meta:
        verbose_name = "catalog inspection"

    def __str__(self) -> str:
        return f"inspection of {self.catalog}"

    @property
    def is_enabled(self) -> bool:
        """The stored choice, or that of OLMWEB_INSPECT_CATALOGS."""
        default: bool = settings.INSPECT_CATALOGS
        return default if self.enabled is None else self.enabled

    @property
    def left(self) -> int:
        """The number of images that were not looked at."""
        failed: int = sum(self.failed.values())
        return max(0, self.wanted - self.inspected - self.reused - failed)


class RegistryMirrors(models.Model):
    """The mirrors of image registries that a cluster names, as a worker last read them."""

    cluster = models.OneToOneField(
        Cluster, primary_key=True, on_delete=models.CASCADE, related_name="registry_mirrors"
    )
    rules = models.JSONField(default=list)  # of catalogs.sources.oci.mirrors.Rule
    read_at = models.DateTimeField()
    error = models.TextField(blank=True)  # of the last attempt; the rules are those of one before

    class Meta:
        verbose_name_plural = "registry mirrors"

    def __str__(self) -> str:
        return f"mirrors of {self.cluster}"


# -- verdicts


class Prediction(models.Model):
    """The verdict on whether a bundle can be installed by one install method (`path`).

    `cluster` is None for the verdict from catalog facts alone; a row with a cluster exists only
    where the cluster's facts change it, and replaces it for readers. `chosen`: the bundle that the
    method's controller would install when nothing is installed; if it has none, `bundle` is None.
    `target`: a Subscription's OperatorGroup selects all namespaces, or its own.
    """

    package = models.ForeignKey(
        "catalogs.Package", on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    bundle = models.ForeignKey(
        "catalogs.Bundle",
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=20)
    target = models.CharField(max_length=5)
    chosen = models.BooleanField(default=False)
    channel = models.CharField(max_length=300, blank=True)  # of the chosen bundle
    verdict = models.CharField(max_length=20)
    rule = models.CharField(max_length=60, blank=True)  # the deciding one; empty: installable
    sentence = models.TextField(blank=True)  # of the worst rule
    results = models.JSONField(default=list)  # [{"rule", "verdict", "sentence"}], worst first

    class Meta:
        ordering = ("package", "bundle", "path", "target")
        indexes = (
            # Lists read the chosen rows only, a tenth of all.
            models.Index(
                fields=("package", "path"),
                condition=Q(chosen=True),
                name="prediction_chosen",
            ),
        )

    def __str__(self) -> str:
        return f"{self.bundle_id or '-'} {self.path}: {self.verdict}"


class PredictionRun(models.Model):
    """The outcome of evaluating a catalog, for one cluster or from the catalog alone.

    A row is written for each outcome that differs from the one before: the newest summarizes the
    rows of Prediction. `inputs` is a hash of all inputs, empty while an evaluation is under way;
    `counts` maps path to {verdict: packages}, of the chosen bundles.
    """

    catalog = models.ForeignKey(
        "catalogs.Catalog", on_delete=models.CASCADE, related_name="prediction_runs"
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    revision = models.PositiveIntegerField(default=0)  # of the catalog
    rules_version = models.PositiveIntegerField()
    inputs = models.CharField(max_length=64)
    counts = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)
    evaluated_at = models.DateTimeField(
        default=timezone.now
    )  # of the last evaluation, also without a new outcome
    changed_at = models.DateTimeField(
        default=timezone.now, db_default=Now()
    )  # of the last evaluation that changed rows of Prediction of the cluster

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("catalog", "cluster", "-id")),)

    def __str__(self) -> str:
        return f"predictions of {self.catalog_id} #{self.revision}"
