"""Admin of catalogs and image inspections. Only catalogs of no cluster can be edited: a sync writes
all others."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse

from catalogs.models import BundleInspection, Catalog
from catalogs.sources import own_catalogs
from catalogs.sources.base import SourceError
from catalogs.sources.own_catalogs import check_name, check_source, forget_source
from catalogs.sync.progress import request_sync
from olmweb.accounts.roles import SYNC, may
from olmweb.web.admin import ModelAdmin, ReadOnlyAdmin, filter_by

if TYPE_CHECKING:
    CatalogForm = forms.ModelForm[Catalog]
else:  # generic for the type checker only
    CatalogForm = forms.ModelForm


KIND_OF_SOURCE = "kind of source"


class OwnCatalogForm(CatalogForm):
    """A catalog of no cluster."""

    source_kind = forms.ChoiceField(
        label=KIND_OF_SOURCE.capitalize(),
        choices=[
            (own_catalogs.FILE, "File, folder or tar on this server"),
            (own_catalogs.URL, "URL"),
            (own_catalogs.IMAGE, "Image in a registry"),
        ],
    )
    source = forms.CharField(
        max_length=2000,
        help_text="/path/of/catalog, https://host/catalog.json or registry/repository:tag",
        widget=forms.TextInput(attrs={"size": 80}),
    )

    class Meta:
        model = Catalog
        fields = ("name", "source_kind", "source", "priority")

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        _field(check_name, name)
        if Catalog.objects.filter(cluster=None, slug=name).exists():
            raise forms.ValidationError(
                f"There is a catalog -/{name} already; choose another name."
            )
        return name

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if "source" in values and "source_kind" in values:
            try:
                _field(check_source, values["source_kind"], values["source"])
            except forms.ValidationError as error:
                self.add_error("source", error)
        return values


def _field(check: Callable[..., None], *values: str) -> None:
    try:
        check(*values)
    except SourceError as error:
        raise forms.ValidationError(f"{error.message} {error.hint}".rstrip()) from error


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
        return _is_own(obj) and ModelAdmin.has_change_permission(self, request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Catalog | None = None) -> bool:
        return _is_own(obj) and ModelAdmin.has_delete_permission(self, request, obj)

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

    def save_model(self, request: HttpRequest, obj: Catalog, form: Any, change: bool) -> None:
        obj.slug = obj.name
        if {"source", "source_kind"} & set(form.changed_data):
            forget_source(obj)
        super().save_model(request, obj, form, change)
        request_sync(obj.pk)


def _is_own(catalog: Catalog | None) -> bool:
    """Whether a person added the catalog; those of a cluster follow its objects."""
    return (
        catalog is not None
        and catalog.cluster_id is None
        and catalog.source_kind in own_catalogs.KINDS
    )


@admin.register(BundleInspection)
class BundleInspectionAdmin(ReadOnlyAdmin):
    about = "Bundle images that people had inspected, and those that wait for a worker."
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
