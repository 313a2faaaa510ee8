"""Admin of clusters, sync runs, leases, watches and API tokens."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from olmweb.accounts.roles import SYNC, may
from olmweb.models import ApiToken, Cluster, Lease, OidcIdentity, ResourceWatch, SyncRun
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
    """Tokens are created by `manage.py apitoken`, which shows them once; here they are revoked."""

    hidden = ("digest",)
    list_display = ("user", "scope", "created_at", "expires_at", "last_used_on")
    list_filter = ("scope",)
    search_fields = ("user__username",)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


@admin.register(OidcIdentity)
class OidcIdentityAdmin(ReadOnlyAdmin):
    """Deleted with its account only."""

    list_display = ("user", "issuer", "subject")
    list_filter = ("issuer",)
    search_fields = ("user__username", "subject")
