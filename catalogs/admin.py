"""Admin of catalogs and image inspections. Only catalogs of no cluster can be edited: a sync writes
all others."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse

from catalogs.models import BundleInspection, Catalog, CatalogInspection
from catalogs.sources.own_catalogs import OwnCatalogForm, is_own, save_catalog
from catalogs.sync.deletion import delete_own_catalog
from catalogs.sync.progress import request_sync
from olmweb.accounts.roles import INSPECT_ALL, READ_FILES, SYNC, may
from olmweb.web.admin import ModelAdmin, ReadOnlyAdmin, filter_by

KIND_OF_SOURCE = "kind of source"


@admin.register(Catalog)
class CatalogAdmin(ReadOnlyAdmin):
    about = "Catalogs of clusters, and those added here: files, URLs and images."
    form = OwnCatalogForm
    hidden = (
        *("access_methods", "resolved_digest", "base_url", "conditions", "synced_digest"),
        *("last_modified", "content_hash", "derivation", "error_code", "last_cost"),
    )
    labels = {
        "slug": "name in addresses",
        "access_method": "access method in use",
        "package_count": "packages",
        "channel_count": "channels",
        "bundle_count": "bundles",
        "problem_count": "problems",
        "sync_requested_at": "sync requested",
        "checked_at": "last attempt",
        "synced_at": "last successful sync",
        "changed_at": "content changed",
        "error_text": "problem",
        "error_hint": "what to do",
    }
    list_display = (
        *("name", "namespace", "cluster", "kind", "state", "package_count"),
        *("synced_at", "error_text"),
    )
    list_filter = ("state", filter_by("source_kind", KIND_OF_SOURCE), "cluster")
    search_fields = ("name", "slug", "source")
    list_select_related = ("cluster",)
    actions = ("sync_now",)

    @admin.display(description=KIND_OF_SOURCE, ordering="source_kind")
    def kind(self, row: Catalog) -> str:
        """Spelled as Kubernetes does."""
        return row.source_kind

    def view_on_site(self, row: Catalog) -> str:
        return reverse("catalogs:catalog", args=[row.cluster_name, row.slug])

    @admin.action(description="Sync now", permissions=["sync"])
    def sync_now(self, request: HttpRequest, queryset: QuerySet[Catalog]) -> None:
        for catalog in queryset:
            request_sync(catalog.pk)
        count = len(queryset)
        messages.success(request, f"Sync of {count} catalog{pluralize(count)} requested.")

    def has_sync_permission(self, request: HttpRequest) -> bool:
        return may(request.user, SYNC)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    def has_change_permission(self, request: HttpRequest, obj: Catalog | None = None) -> bool:
        return (
            obj is not None and is_own(obj) and ModelAdmin.has_change_permission(self, request, obj)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Catalog | None = None) -> bool:
        return (
            obj is not None and is_own(obj) and ModelAdmin.has_delete_permission(self, request, obj)
        )

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, ...]:
        """Names the catalog alone: its content is hundreds of thousands of rows."""
        return [str(catalog) for catalog in objs], {}, set(), []

    def get_fields(self, request: HttpRequest, obj: Catalog | None = None) -> list[Any]:
        if obj is None:
            return list(OwnCatalogForm.Meta.fields)
        names = super().get_fields(request, obj)
        if self.has_change_permission(request, obj):
            return names
        return ["kind" if name == "source_kind" else name for name in names]

    def get_readonly_fields(self, request: HttpRequest, obj: Catalog | None = None) -> list[Any]:
        if obj is None:
            return []
        typed = OwnCatalogForm.Meta.fields[1:] if self.has_change_permission(request, obj) else ()
        return [name for name in self.get_fields(request, obj) if name not in typed]

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        reads_files = may(request.user, READ_FILES)
        form = super().get_form(request, *args, **kwargs)

        class PersonalForm(form):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, reads_files=reads_files, **kwargs)

        return PersonalForm

    def save_model(self, request: HttpRequest, obj: Catalog, form: Any, change: bool) -> None:
        save_catalog(obj)
        request_sync(obj.pk)

    def delete_model(self, request: HttpRequest, obj: Catalog) -> None:
        delete_own_catalog(obj)


@admin.register(BundleInspection)
class BundleInspectionAdmin(ReadOnlyAdmin):
    about = "Inspections of bundle images: queued, running and finished."
    hidden = ("error_code",)
    labels = {
        "manifests": "contents",
        "asked_by": "requested by",
        "asked_at": "requested",
        "started_at": "started",
        "next_attempt_at": "next attempt",
        "waits": "waits for the registry",
        "finished_at": "finished",
        "done": "bytes done",
        "total": "bytes in total",
        "error_text": "problem",
        "error_hint": "what to do",
    }
    list_display = ("image", "state", "asked_by", "asked_at", "finished_at", "error_text")
    list_filter = ("state", "asked_at")
    search_fields = ("image", "asked_by")


@admin.register(CatalogInspection)
class CatalogInspectionAdmin(ReadOnlyAdmin):
    about = "Catalogs whose bundle images workers inspect in the background."
    hidden = ("retry_failed", "left_out")
    labels = {
        "requested_by": "requested by",
        "started_at": "started",
        "turn_at": "last turn",
        "next_turn_at": "next turn",
        "finished_at": "finished",
        "bytes_read": "bytes pulled",
        "waiting_for": "waits for",
    }
    list_display = ("catalog", "on", "wanted", "inspected", "reused", "failed", "finished_at")
    list_select_related = ("catalog__cluster",)

    @admin.display(description="enabled", boolean=True, ordering="enabled")
    def on(self, row: CatalogInspection) -> bool:
        """As stored, or as OLMWEB_INSPECT_CATALOGS says."""
        return row.is_enabled

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request.user, INSPECT_ALL)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request.user, INSPECT_ALL)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return ["catalog", "enabled"] if obj is None else super().get_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [] if obj is None else [f for f in self.get_fields(request, obj) if f != "enabled"]
