"""Catalog content as the last good sync left it. Keys are always scoped to their catalog.

The tables with many rows have no foreign key constraints (`db_constraint=False`): only
`catalogs.sync` writes them, parents and children in one transaction, and PostgreSQL would check the
parent of every row at its end, a fifth of a sync's time.
"""

from typing import Any

from django.db import models

from catalogs.models.catalogs import Catalog


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
    """The search terms of a package, built by `catalogs.fbc.search_words`.

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
        ordering = ("channel", "ordinal")

    def __str__(self) -> str:
        return self.name


class DigestStart(models.Func):
    """The first 12 characters of the sha256 digest that ends an image reference.

    Whole references would make an index many times as large; without a digest it is any text.
    Numbers stand in the text: SQLite uses no index of an expression for one with parameters.
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
    # A BlobRef keeps the blob; an index here would cost half a megabyte and serve no query.
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


class BundleGVK(models.Model):
    bundle = models.ForeignKey(
        Bundle, on_delete=models.CASCADE, related_name="gvks", db_constraint=False
    )
    group = models.CharField(max_length=253)
    version = models.CharField(max_length=63)
    kind = models.CharField(max_length=100)
    required = models.BooleanField(default=False)  # False: provided

    class Meta:
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
