"""Admin of clusters, sync runs, leases, watches, API tokens, the audit log and locked accounts."""

from typing import Any

from axes.admin import AccessAttemptAdmin
from axes.models import AccessAttempt
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from olmweb.accounts import audit
from olmweb.accounts.roles import SYNC, may
from olmweb.models import (
    ApiToken,
    AuditEvent,
    Cluster,
    Lease,
    OidcIdentity,
    Preferences,
    ResourceWatch,
    SyncRun,
)
from olmweb.tasks import enqueue
from olmweb.web.admin import ReadOnlyAdmin


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    list_display = ("name", "version", "reachable", "synced_at", "checked_at", "error_code")
    list_filter = ("reachable",)
    search_fields = ("name", "server")
    actions = ("sync_now",)

    @admin.action(description="Sync now", permissions=["sync"])
    def sync_now(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        for cluster in queryset:
            enqueue("installs.sync_cluster", cluster.pk)
        messages.success(request, f"Sync of {len(queryset)} cluster(s) was asked for.")

    def has_sync_permission(self, request: HttpRequest) -> bool:
        return may(request.user, SYNC)


@admin.register(SyncRun)
class SyncRunAdmin(ReadOnlyAdmin):
    list_display = ("started_at", "kind", "target", "outcome", "finished_at", "error_code")
    list_filter = ("kind", "outcome")
    search_fields = ("target", "error_text")
    date_hierarchy = "started_at"


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """A lease whose holder died expires by itself."""

    list_display = ("name", "owner", "expires_at")
    search_fields = ("name", "owner")


@admin.register(ResourceWatch)
class ResourceWatchAdmin(ReadOnlyAdmin):
    list_display = (
        "cluster",
        "resource",
        "state",
        "last_event_at",
        "listed_at",
        "lists",
        "watches",
    )
    list_filter = ("resource", "state")
    search_fields = ("kind", "cluster__name")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are made on the page API tokens or by `manage.py apitoken`, which show them once; here
    they are revoked."""

    hidden = ("digest",)
    list_display = ("user", "name", "scope", "created_at", "expires_at", "last_used_on")
    list_filter = ("scope",)
    search_fields = ("user__username", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


@admin.register(OidcIdentity)
class OidcIdentityAdmin(ReadOnlyAdmin):
    """Deleted with its account only."""

    list_display = ("user", "issuer", "subject")
    list_filter = ("issuer",)
    search_fields = ("user__username", "subject")


@admin.register(Preferences)
class PreferencesAdmin(ReadOnlyAdmin):
    """Written by each person, on the page Preferences."""

    list_display = ("user", "theme", "density", "time_zone", "cluster")
    search_fields = ("user__username",)


class AuditUserFilter(admin.SimpleListFilter):
    """One user name: the chosen one, or one of the latest events. Never all accounts."""

    title = "user"
    parameter_name = "username"
    latest = 200  # events

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = AuditEvent.objects.values_list("username", flat=True)[: self.latest]
        return [(name, name) for name in sorted({*rows, self.value() or ""} - {""})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEvent]) -> Any:
        return queryset.filter(username=self.value()) if self.value() else queryset


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("time", "event", "of_user", "actor", "address", "details")
    list_filter = ("event", AuditUserFilter, "at")
    search_fields = ("username", "actor", "address")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = ("time", "event", "username", "user", "actor", "address", "user_agent", "details")
        return list(names)

    @admin.display(description="time (UTC)", ordering="at")
    def time(self, row: AuditEvent) -> str:
        """To the second, which Django's own format leaves out."""
        return f"{row.at:%d %b %Y %H:%M:%S}"

    @admin.display(description="user", ordering="username")
    def of_user(self, row: AuditEvent) -> str:
        """The name, which leads to all events of it."""
        address = reverse("admin:olmweb_auditevent_changelist", query={"username": row.username})
        return format_html('<a href="{}">{}</a>', address, row.username) if row.username else "-"

    @admin.display(description="details")
    def details(self, row: AuditEvent) -> str:
        return "; ".join(f"{key.replace('_', ' ')}: {_text(row.detail[key])}" for key in row.detail)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(value[key])}" for key in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


admin.site.unregister(AccessAttempt)


@admin.register(AccessAttempt)
class UnlockingAdmin(AccessAttemptAdmin):  # type: ignore[misc]
    """Deleting an attempt unlocks its account and address, which the audit log records."""

    def delete_model(self, request: HttpRequest, obj: AccessAttempt) -> None:
        audit.unlocked(obj.username or "", obj.ip_address or "")
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[AccessAttempt]) -> None:
        with transaction.atomic():
            for username, address in set(queryset.values_list("username", "ip_address")):
                audit.unlocked(username or "", address or "")
            super().delete_queryset(request, queryset)
