"""Admin of accounts, API tokens, the audit log, locked accounts, clusters and sync runs."""

from typing import TYPE_CHECKING, Any, ClassVar

from axes.models import AccessAttempt
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.html import format_html

from olmweb.accounts import audit
from olmweb.accounts.roles import ROLES, SYNC, may
from olmweb.models import (
    ApiToken,
    AuditEvent,
    Cluster,
    OidcIdentity,
    Preferences,
    ResourceWatch,
    SyncRun,
)
from olmweb.tasks import enqueue
from olmweb.web.admin import NO_VALUE, ReadOnlyAdmin, as_text, labelled

if TYPE_CHECKING:
    DjangoUserAdmin = UserAdmin[User]
else:  # generic for the type checker only
    DjangoUserAdmin = UserAdmin

LAST_SIGN_IN = labelled("last_login", "last sign-in")
ROLE_OF_GROUP = {role.group: role.name for role in ROLES}

admin.site.unregister((User, Group))


@admin.register(User)
class AccountAdmin(DjangoUserAdmin):
    about = "Accounts that may sign in, and the groups that give them a role."
    list_display = (
        *("username", "email", "group_names", "is_active", "is_staff"),
        LAST_SIGN_IN,
    )
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    readonly_fields: ClassVar[Any] = (LAST_SIGN_IN, "date_joined")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("username", "password")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Single permissions", {"fields": ("user_permissions",), "classes": ("collapse",)}),
        ("Dates", {"fields": (LAST_SIGN_IN, "date_joined")}),
    )
    help_texts = {
        "is_active": "May sign in. Clear it to end the sessions and API tokens of the account at "
        "once, and keep its history.",
        "is_staff": "May open these administration pages. Grants nothing else.",
        "is_superuser": "May do everything, also manage accounts.",
        "groups": "A role comes with its group: "
        + ", ".join(f"{role.name} with {role.group}" for role in ROLES)
        + ".",
        "user_permissions": "In addition to those of the groups; rarely needed.",
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in self.help_texts:
            kwargs["help_text"] = self.help_texts[db_field.name]
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Identities are deleted with their account, though not by themselves."""
        objects, counts, missing, protected = super().get_deleted_objects(objs, request)
        return objects, counts, missing - {OidcIdentity._meta.verbose_name}, protected

    @admin.display(description="groups", empty_value=NO_VALUE)
    def group_names(self, user: User) -> str:
        return ", ".join(sorted(group.name for group in user.groups.all()))


@admin.register(Group)
class RoleAdmin(GroupAdmin):
    about = "Groups of accounts; three of them are the roles viewer, operator and admin."
    list_display = ("name", "role", "accounts")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(accounts=Count("user"))

    @admin.display(empty_value=NO_VALUE)
    def role(self, group: Group) -> str:
        return ROLE_OF_GROUP.get(group.name, "")

    @admin.display(ordering="accounts")
    def accounts(self, group: Any) -> int:
        return int(group.accounts)


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin):
    about = "Clusters of OLMWEB_CLUSTERS, as of their last sync."
    hidden = ("kinds", "revision", "assessed", "error_code")
    labels = {
        "server": "API server",
        "synced_at": "last complete sync",
        "checked_at": "last attempt",
        "error_text": "problem",
        "error_hint": "what to do",
    }
    list_display = ("name", "version", "answers", "synced_at", "checked_at", "error_text")
    list_filter = ("reachable",)
    search_fields = ("name", "server")
    actions = ("sync_now",)

    def view_on_site(self, row: Cluster) -> str:
        return reverse("installs:cluster", args=[row.name])

    @admin.display(description="reachable", boolean=True)
    def answers(self, row: Cluster) -> bool | None:
        return row.answers

    @admin.action(description="Sync now", permissions=["sync"])
    def sync_now(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        configured = [cluster for cluster in queryset if not cluster.removed]
        for cluster in configured:
            enqueue("installs.sync_cluster", cluster.pk)
        if count := len(configured):
            messages.success(request, f"Sync of {count} cluster{pluralize(count)} requested.")
        if removed := len(queryset) - count:
            text = f"{removed} cluster{pluralize(removed)} removed from the configuration: no sync."
            messages.warning(request, text)

    def has_sync_permission(self, request: HttpRequest) -> bool:
        return may(request.user, SYNC)


@admin.register(SyncRun)
class SyncRunAdmin(ReadOnlyAdmin):
    about = "Each sync of a catalog or a cluster, with its outcome."
    hidden = ("step", "done", "total", "cancel_requested", "error_code")
    labels = {
        "started_at": "started",
        "finished_at": "finished",
        "error_text": "problem",
        "error_hint": "what to do",
    }
    list_display = ("started_at", "kind", "name", "outcome", "finished_at", "error_text")
    list_filter = ("kind", "outcome")
    search_fields = ("target", "error_text")
    date_hierarchy = "started_at"

    @admin.display(description="target", ordering="target")
    def name(self, row: SyncRun) -> str:
        return row.target_name

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = super().get_fields(request, obj)
        return ["name" if name == "target" else name for name in names]


@admin.register(ResourceWatch)
class ResourceWatchAdmin(ReadOnlyAdmin):
    about = "Sync status of each kind of each cluster."
    hidden = ("resource_version",)
    labels = {
        "last_event_at": "last event",
        "listed_at": "last full list",
        "lists": "full lists",
        "watches": "watch requests",
        "error": "problem",
    }
    list_display = ("resource", "cluster", "state", "error", "last_event_at", "listed_at")
    list_filter = ("state", "cluster", "resource")
    search_fields = ("kind", "cluster__name")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are made on the page API tokens or by `olmweb token create`, which show them once;
    here they are revoked."""

    about = "Tokens of accounts for the REST API. Delete one to revoke it."
    hidden = ("digest",)
    labels = {"created_at": "created", "expires_at": "valid until", "last_used_on": "last used"}
    list_display = ("user", "name", "scope", "created_at", "expires_at", "last_used_on")
    list_filter = ("scope", "expires_at", "last_used_on")
    search_fields = ("user__username", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


@admin.register(OidcIdentity)
class OidcIdentityAdmin(ReadOnlyAdmin):
    """Deleted with its account only."""

    about = "Accounts that sign in with OpenID Connect, with their issuer and subject."
    list_display = ("user", "issuer", "subject")
    list_filter = ("issuer",)
    search_fields = ("user__username", "subject")


@admin.register(Preferences)
class PreferencesAdmin(ReadOnlyAdmin):
    """Deletable: an account cannot be deleted here by a person who may not delete what it owns."""

    about = "How the pages look for an account. Delete a row to return to the defaults."
    labels = {"cluster": "default cluster", "columns": "shown columns"}
    list_display = ("user", "theme", "density", "time_zone", "cluster")
    list_filter = ("theme", "density")
    search_fields = ("user__username",)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


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
    about = "Sign-ins, uses of API tokens, and changes of accounts and permissions."
    list_display = ("time", "event", "of_user", "actor", "address", "details")
    list_filter = ("event", AuditUserFilter, "at")
    search_fields = ("username", "actor", "address")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        names = ("time", "event", "username", "user", "actor", "address", "user_agent", "details")
        return list(names)

    @admin.display(description="time (UTC)", ordering="at")
    def time(self, row: AuditEvent) -> str:
        """To the second, which Django's own format leaves out."""
        return f"{row.at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="user", ordering="username")
    def of_user(self, row: AuditEvent) -> str:
        """The name, which leads to all events of it."""
        address = reverse("admin:olmweb_auditevent_changelist", query={"username": row.username})
        return format_html('<a href="{}">{}</a>', address, row.username) if row.username else "-"

    @admin.display(description="details")
    def details(self, row: AuditEvent) -> str:
        return str(as_text(row.detail))


# What the rows are. Migrations compare the names that the class of django-axes declares.
AccessAttempt._meta.verbose_name = "failed sign-in"
AccessAttempt._meta.verbose_name_plural = "failed sign-ins"


@admin.register(AccessAttempt)
class FailedSignInAdmin(ReadOnlyAdmin):
    """Deleting a row unlocks its account and address, which the audit log records."""

    about = "Wrong passwords that count for a lock. Delete a row to unlock its account and address."
    hidden = ("http_accept", "path_info", "get_data", "post_data")
    labels = {
        "username": "user",
        "ip_address": "address",
        "user_agent": "user agent",
        "failures_since_start": "failures",
        "attempt_time": "last failure",
    }
    list_display = (
        *("username", "ip_address", "failures_since_start"),
        *("attempt_time", "user_agent"),
    )
    list_filter = ("attempt_time",)
    search_fields = ("username", "ip_address")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: AccessAttempt) -> None:
        audit.unlocked(obj.username or "", obj.ip_address or "")
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[AccessAttempt]) -> None:
        with transaction.atomic():
            for username, address in set(queryset.values_list("username", "ip_address")):
                audit.unlocked(username or "", address or "")
            super().delete_queryset(request, queryset)
