"""Admin of catalogs. Only catalogs of no cluster can be edited: a sync writes all other rows."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from catalogs import models
from catalogs.models import Catalog
from catalogs.sources import own_catalogs
from catalogs.sources.base import SourceError
from catalogs.sources.own_catalogs import check_name, check_source, forget_source
from catalogs.sync.progress import request_sync
from olmweb.accounts.roles import SYNC, may
from olmweb.web.admin import ModelAdmin, ReadOnlyAdmin

if TYPE_CHECKING:
    CatalogForm = forms.ModelForm[Catalog]
else:  # generic for the type checker only
    CatalogForm = forms.ModelForm


class OwnCatalogForm(CatalogForm):
    """A catalog of no cluster."""

    source_kind = forms.ChoiceField(
        label="Kind",
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
    form = OwnCatalogForm
    list_display = (
        *("slug", "cluster", "source_kind", "state", "revision", "package_count"),
        *("bundle_count", "problem_count", "synced_at", "error_code"),
    )
    list_filter = ("state", "source_kind", "cluster")
    search_fields = ("name", "slug")
    list_select_related = ("cluster",)
    actions = ("sync_now",)

    @admin.action(description="Sync now", permissions=["sync"])
    def sync_now(self, request: HttpRequest, queryset: QuerySet[Catalog]) -> None:
        for catalog in queryset:
            request_sync(catalog.pk)
        messages.success(request, f"Sync of {len(queryset)} catalog(s) was asked for.")

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
        return super().get_fields(request, obj) if obj else list(OwnCatalogForm.Meta.fields)

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


_register = partial(admin.site.register, admin_class=ReadOnlyAdmin)
_register(
    models.CatalogRevision,
    list_display=("catalog", "number", "created_at", "content_hash"),
    search_fields=("catalog__slug", "digest"),
    list_select_related=("catalog__cluster",),
)
_register(
    models.CatalogChange,
    list_display=("revision", "kind", "package", "subject", "before", "after"),
    list_filter=("kind",),
    search_fields=("package", "subject"),
    list_select_related=("revision__catalog__cluster",),
)
_register(
    models.Icon,
    list_display=("sha256", "media_type"),
    hidden=("data",),
    list_filter=("media_type",),
    search_fields=("sha256",),
)
_register(
    models.Package,
    list_display=("name", "catalog", "default_channel", "head_version", "provider", "deprecated"),
    list_filter=("deprecated", "catalog"),
    search_fields=("name", "display_name", "provider"),
    list_select_related=("catalog__cluster",),
)
_register(
    models.PackageText,
    list_display=("package",),
    hidden=("description_html",),
    search_fields=("package__name",),
    list_select_related=("package",),
)
_register(
    models.PackageSearch,
    list_display=("package",),
    search_fields=("package__name",),
    list_select_related=("package",),
)
_register(
    models.PackageOutline,
    list_display=("package", "catalog", "first", "last"),
    hidden=("data",),
    search_fields=("package",),
    list_select_related=("catalog__cluster",),
)
_register(
    models.Channel,
    list_display=("name", "package", "head", "is_default", "deprecated", "entry_count"),
    list_filter=("is_default", "deprecated"),
    search_fields=("name", "package__name"),
    list_select_related=("package",),
)
_register(
    models.ChannelEntry,
    list_display=("name", "channel", "replaces", "skip_range"),
    search_fields=("name", "channel__package__name"),
    list_select_related=("channel",),
)
_register(
    models.Bundle,
    list_display=("name", "package", "version", "deprecated", "released_at"),
    list_filter=("deprecated",),
    search_fields=("name", "package__name"),
    list_select_related=("package",),
)
_register(
    models.BundleGVK,
    list_display=("kind", "group", "version", "bundle", "required"),
    list_filter=("required",),
    search_fields=("kind", "group", "bundle__name"),
    list_select_related=("bundle",),
)
_register(
    models.RelatedImage,
    list_display=("image", "name", "bundle"),
    search_fields=("image", "bundle__name"),
    list_select_related=("bundle",),
)
_register(
    models.Blob, list_display=("sha256", "size", "pack_id", "start"), search_fields=("sha256",)
)
_register(models.BlobPack, list_display=("id", "size"), hidden=("data",))
_register(
    models.BlobRef,
    list_display=("schema", "name", "package", "catalog", "ordinal"),
    search_fields=("name", "package", "schema"),
    list_select_related=("catalog__cluster", "blob"),
)
_register(
    models.ContentProblem,
    list_display=("package", "subject", "severity", "code", "catalog"),
    list_filter=("severity", "code", "catalog"),
    search_fields=("package", "subject", "message"),
    list_select_related=("catalog__cluster",),
)
_register(
    models.BundleInspection,
    list_display=("image", "state", "asked_by", "asked_at", "finished_at", "error_code"),
    list_filter=("state", "error_code"),
    search_fields=("image",),
)
_register(
    models.BundleManifests,
    list_display=("digest", "size", "objects_held"),
    hidden=("data",),
    search_fields=("digest",),
)
_register(
    models.Prediction,
    list_display=("package", "bundle", "path", "target", "cluster", "verdict", "rule", "chosen"),
    list_filter=("verdict", "path", "chosen", "cluster"),
    search_fields=("package__name", "rule"),
    list_select_related=("package", "bundle", "cluster"),
)
_register(
    models.PredictionRun,
    list_display=("catalog", "cluster", "revision", "rules_version", "at"),
    list_filter=("cluster",),
    list_select_related=("catalog__cluster", "cluster"),
)
