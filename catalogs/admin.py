"""Admin of catalog content: everything is written by a sync, so everything is read-only."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from catalogs.models import (
    Blob,
    BlobPack,
    BlobRef,
    Bundle,
    BundleGVK,
    Catalog,
    CatalogChange,
    CatalogRevision,
    Channel,
    ChannelEntry,
    ContentProblem,
    Icon,
    Package,
    PackageText,
    RelatedImage,
)
from olmweb.admin_tools import ReadOnlyAdmin, enqueue


@admin.register(Catalog)
class CatalogAdmin(ReadOnlyAdmin):
    list_display = (
        *("slug", "cluster", "source_kind", "state", "revision", "package_count"),
        *("bundle_count", "problem_count", "synced_at", "error_code"),
    )
    list_filter = ("state", "source_kind", "cluster")
    search_fields = ("name", "slug")
    list_select_related = ("cluster",)
    actions = ("sync_now",)

    @admin.action(description="Sync now", permissions=["view"])
    def sync_now(self, request: HttpRequest, queryset: QuerySet[Catalog]) -> None:
        for catalog in queryset:
            enqueue("catalogs.sync_catalog", catalog.pk, queue="sync")
        messages.success(request, f"Sync of {len(queryset)} catalog(s) was asked for.")


@admin.register(CatalogRevision)
class CatalogRevisionAdmin(ReadOnlyAdmin):
    list_display = ("catalog", "number", "created_at", "content_hash")
    search_fields = ("catalog__slug", "digest")
    list_select_related = ("catalog__cluster",)


@admin.register(CatalogChange)
class CatalogChangeAdmin(ReadOnlyAdmin):
    list_display = ("revision", "kind", "package", "subject", "before", "after")
    list_filter = ("kind",)
    search_fields = ("package", "subject")
    list_select_related = ("revision__catalog__cluster",)


@admin.register(Icon)
class IconAdmin(ReadOnlyAdmin):
    hidden = ("data",)
    list_display = ("sha256", "media_type")
    list_filter = ("media_type",)
    search_fields = ("sha256",)


@admin.register(Package)
class PackageAdmin(ReadOnlyAdmin):
    list_display = ("name", "catalog", "default_channel", "head_version", "provider", "deprecated")
    list_filter = ("deprecated", "catalog")
    search_fields = ("name", "display_name", "provider")
    list_select_related = ("catalog__cluster",)


@admin.register(PackageText)
class PackageTextAdmin(ReadOnlyAdmin):
    hidden = ("description_html",)
    list_display = ("package",)
    search_fields = ("package__name",)
    list_select_related = ("package",)


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin):
    list_display = ("name", "package", "head", "is_default", "deprecated", "entry_count")
    list_filter = ("is_default", "deprecated")
    search_fields = ("name", "package__name")
    list_select_related = ("package",)


@admin.register(ChannelEntry)
class ChannelEntryAdmin(ReadOnlyAdmin):
    list_display = ("name", "channel", "replaces", "skip_range")
    search_fields = ("name", "channel__package__name")
    list_select_related = ("channel",)


@admin.register(Bundle)
class BundleAdmin(ReadOnlyAdmin):
    list_display = ("name", "package", "version", "deprecated", "released_at")
    list_filter = ("deprecated",)
    search_fields = ("name", "package__name")
    list_select_related = ("package",)


@admin.register(BundleGVK)
class BundleGVKAdmin(ReadOnlyAdmin):
    list_display = ("kind", "group", "version", "bundle", "required")
    list_filter = ("required",)
    search_fields = ("kind", "group", "bundle__name")
    list_select_related = ("bundle",)


@admin.register(RelatedImage)
class RelatedImageAdmin(ReadOnlyAdmin):
    list_display = ("image", "name", "bundle")
    search_fields = ("image", "bundle__name")
    list_select_related = ("bundle",)


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ("sha256", "size", "pack_id", "start")
    search_fields = ("sha256",)


@admin.register(BlobPack)
class BlobPackAdmin(ReadOnlyAdmin):
    hidden = ("data",)
    list_display = ("id", "size")


@admin.register(BlobRef)
class BlobRefAdmin(ReadOnlyAdmin):
    list_display = ("schema", "name", "package", "catalog", "ordinal")
    search_fields = ("name", "package", "schema")
    list_select_related = ("catalog__cluster", "blob")


@admin.register(ContentProblem)
class ContentProblemAdmin(ReadOnlyAdmin):
    list_display = ("package", "subject", "severity", "code", "catalog")
    list_filter = ("severity", "code", "catalog")
    search_fields = ("package", "subject", "message")
    list_select_related = ("catalog__cluster",)
