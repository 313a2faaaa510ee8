"""Base of the admin pages: rows written by a sync are shown, never edited.

Knows no model of the apps.
"""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import DataError
from django.db.models import QuerySet
from django.http import HttpRequest

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:  # generic for the type checker only
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """An admin page without add, change and delete.

    `hidden` names columns that are never shown nor read: binary or very long ones.
    """

    hidden: tuple[str, ...] = ()
    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

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

    def get_list_select_related(self, request: HttpRequest) -> bool | list[str] | tuple[str, ...]:
        """The foreign keys among the columns, unless `list_select_related` says otherwise."""
        relations = {field.name for field in self.model._meta.concrete_fields if field.is_relation}
        return self.list_select_related or [
            str(name) for name in self.list_display if name in relations
        ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [
            field.name
            for field in self.model._meta.concrete_fields
            if field.name not in self.hidden
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_fields(request, obj)
