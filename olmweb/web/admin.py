"""The admin site: groups and names of its lists; rows written by a sync are shown, never edited.

Knows no model of the apps but by name.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.db import DataError
from django.db.models import JSONField, Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import slugify

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # generic for the type checker only
    ModelAdmin = admin.ModelAdmin

# Group -> its models, both in the order of the index and of the navigation.
GROUPS = {
    "Accounts and permissions": (
        *("auth.User", "auth.Group", "olmweb.ApiToken", "installs.AllowRule"),
        *("olmweb.OidcIdentity", "olmweb.Preferences", "axes.AccessAttempt", "olmweb.AuditEvent"),
    ),
    "Catalogs": ("catalogs.Catalog", "catalogs.CatalogInspection", "catalogs.BundleInspection"),
    "Clusters and operators": ("olmweb.Cluster", "installs.Operator"),
    "Installations": ("installs.InstallRequest", "installs.Action", "installs.ActionBatch"),
    "Operation": (
        *("olmweb.SyncRun", "olmweb.ResourceWatch", "installs.Notification"),
        *("installs.WebhookReceiver", "installs.WebhookDelivery"),
        *("installs.UnknownMessage", "installs.CopyReport"),
    ),
}
NO_VALUE = "-"


class AdminSite(admin.AdminSite):
    """Django's site with GROUPS in place of the apps; see `olmweb.apps.AdminConfig`.

    The attribute `about` of a ModelAdmin is a sentence on what its list is for.
    """

    site_header = site_title = index_title = "OLM Web administration"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """The lists that this person may open, by group."""
        apps = super().get_app_list(request, app_label)
        rows = {row["model"]._meta.label: row for app in apps for row in app["models"]}
        for row in rows.values():
            row["about"] = getattr(self._registry[row["model"]], "about", "")
        groups = []
        for name, labels in GROUPS.items():
            if models := [rows[label] for label in labels if label in rows]:
                slug = slugify(name)
                address = f"{reverse('admin:index', current_app=self.name)}#{slug}"
                groups.append(
                    {"name": name, "app_label": slug, "app_url": address, "models": models}
                )
        return groups

    def app_index(
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """The index, as its groups replace the pages of the apps."""
        return self.index(request, extra_context)


def as_text(value: Any) -> Any:
    """A list or object of a JSON column in words, such as `requests: 1; rows written: 3`; any other
    value unchanged. By name, as PostgreSQL keeps the names of an object in an order of its own."""
    if isinstance(value, dict):
        return "; ".join(f"{key.replace('_', ' ')}: {_part(value[key])}" for key in sorted(value))
    return _part(value) if isinstance(value, list) else value


def _part(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_part, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_part(value[key])}" for key in sorted(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


@cache
def labelled(name: str, label: str) -> Callable[[Model], Any]:
    """The field as a column, or as a line of a read-only page, under another name."""

    @admin.display(description=label, ordering=name, empty_value=NO_VALUE)
    def value(row: Model) -> Any:
        choice = getattr(row, f"get_{name}_display", None)
        shown = choice() if choice else as_text(getattr(row, name))
        return display_for_value(shown, NO_VALUE, boolean=isinstance(shown, bool))

    value.__name__ = name
    return value


def filter_by(name: str, title: str) -> tuple[str, type[admin.AllValuesFieldListFilter]]:
    """A filter by the stored values of the field, under another name."""

    class ValuesFilter(admin.AllValuesFieldListFilter):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.title = title

    return name, ValuesFilter


def _titled(name: str, title: str) -> tuple[str, Callable[..., admin.ListFilter]]:
    """Django's own filter by the field, under another name."""

    def create(*args: Any, **kwargs: Any) -> admin.ListFilter:
        made = admin.FieldListFilter.create(*args, **kwargs)
        made.title = title
        return made

    return name, create


class ReadOnlyAdmin(ModelAdmin):
    """An admin page without add, change and delete.

    `hidden` names columns that are never shown: binary, very long or internal ones, which are not
    read either. `labels` has other names for fields, in filters too.
    """

    about = ""
    hidden: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return [
            _titled(name, self.labels[name]) if name in self.labels else name
            for name in super().get_list_filter(request)
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.hidden)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """As Django's; an address that no database can look up is one of nothing, not a crash."""
        try:
            return super().get_object(request, object_id, from_field)
        except (OverflowError, ValueError, DataError):
            return None

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return self._labelled(super().get_list_display(request))

    def get_list_select_related(self, request: HttpRequest) -> bool | list[str] | tuple[str, ...]:
        """The foreign keys among the columns, unless `list_select_related` says otherwise."""
        relations = {field.name for field in self.model._meta.concrete_fields if field.is_relation}
        return self.list_select_related or [
            str(name) for name in self.list_display if name in relations
        ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self._labelled(
            field.name
            for field in self.model._meta.concrete_fields
            if field.name not in self.hidden
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_fields(request, obj)

    def _labelled(self, names: Any) -> list[Any]:
        """The names, with `labelled` for fields that have another name or hold JSON."""
        json = {
            field.name: str(field.verbose_name)
            for field in self.model._meta.concrete_fields
            if isinstance(field, JSONField)
        }
        labels = json | self.labels
        return [labelled(name, labels[name]) if name in labels else name for name in names]
