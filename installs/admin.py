"""Admin of what clusters said and people asked for: a record, so everything is read-only.

A notification that did not arrive can be sent again.
"""

import re
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from installs.actions.authority import rule_problem
from installs.models import (
    AccessAnswer,
    Action,
    ActionBatch,
    ActionKey,
    AllowRule,
    ClusterInventory,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    CopyReport,
    CRDState,
    Event,
    InstallRequest,
    Notification,
    Operator,
    OperatorReference,
    Transition,
    UnknownMessage,
)
from installs.notifications.select import send_again
from olmweb.web.admin import ModelAdmin, ReadOnlyAdmin

TEXT = 200  # characters of a message in a list

READ_ONLY: dict[type[Model], dict[str, Any]] = {
    Operator: {
        "list_display": (
            *("name", "kind", "namespace", "cluster", "health"),
            *("finding", "version", "since"),
        ),
        "list_filter": ("health", "kind", "cluster", "finding"),
        "search_fields": ("name", "package", "reason"),
    },
    Component: {
        "list_display": (
            *("name", "kind", "namespace", "cluster", "operator"),
            *("phase", "observed_at"),
        ),
        "list_filter": ("kind", "cluster"),
        "search_fields": ("name", "owner_name"),
    },
    ClusterOperator: {
        "list_display": ("name", "cluster", "available", "progressing", "degraded", "aggregated"),
        "list_filter": ("available", "degraded", "aggregated", "cluster"),
        "search_fields": ("name", "reason"),
    },
    ClusterOperatorMember: {
        "list_display": ("name", "reason", "cluster_operator", "operator"),
        "search_fields": ("name", "reason"),
    },
    Transition: {
        "list_display": ("at", "cluster", "kind", "name", "type", "to_status", "to_reason"),
        "list_filter": ("kind", "type", "cluster"),
        "search_fields": ("name", "to_reason"),
        "date_hierarchy": "at",
    },
    AccessAnswer: {
        "list_display": ("user", "cluster", "verb", "kind", "namespace", "allowed", "checked_at"),
        "list_filter": ("allowed", "kind", "verb", "cluster"),
        "search_fields": ("user__username", "namespace"),
    },
    Action: {
        "list_display": ("created_at", "verb", "path", "name", "cluster", "state", "as_user"),
        "list_filter": ("state", "verb", "cluster"),
        "search_fields": ("name", "package", "as_user"),
        "date_hierarchy": "created_at",
    },
    ActionKey: {
        "list_display": ("key", "user", "action"),
        "search_fields": ("key", "user__username"),
    },
    ActionBatch: {
        "list_display": ("created_at", "path", "cluster", "user", "stopped_at", "stopped_by"),
        "list_filter": ("path", "cluster"),
        "date_hierarchy": "created_at",
    },
    InstallRequest: {
        "list_display": ("created_at", "package", "version", "path", "cluster", "user", "state"),
        "list_filter": ("state", "path", "cluster"),
        "search_fields": ("package", "reason", "user__username"),
        "date_hierarchy": "created_at",
    },
    OperatorReference: {
        "list_display": ("operator", "kind", "namespace", "name"),
        "list_filter": ("kind",),
        "search_fields": ("name", "operator__name"),
    },
    CRDState: {
        "list_display": (
            *("name", "cluster", "served", "stored", "owner_kind"),
            *("owner_name", "finding"),
        ),
        "list_filter": ("finding", "owner_kind", "cluster"),
        "search_fields": ("name", "served_kind", "owner_name"),
    },
    Event: {
        "list_display": (
            *("last_at", "cluster", "kind", "namespace", "name", "type", "reason", "count"),
            "source",
        ),
        "list_filter": ("type", "kind", "cluster"),
        "search_fields": ("name", "reason", "message"),
        "date_hierarchy": "last_at",
    },
    ClusterInventory: {
        "list_display": ("cluster", "read_at"),
    },
}
for model, options in READ_ONLY.items():
    admin.site.register(model, ReadOnlyAdmin, **options)


@admin.register(AllowRule)
class AllowRuleAdmin(ModelAdmin):
    """The allow-list: the one thing here that people keep."""

    fields = (
        *("package", "versions", "path", "cluster", "note", "without_approval"),
        *("catalogs", "namespaces", "service_accounts", "approves"),
    )
    readonly_fields = ("approves",)
    list_display = ("package", "versions", "path", "cluster", "approves", "saved_by")
    list_filter = ("without_approval", "path", "cluster")
    search_fields = ("package", "note")
    list_select_related = ("cluster", "saved_by__oidc_identity")

    def save_model(self, request: HttpRequest, obj: AllowRule, form: Any, change: bool) -> None:
        """What goes through without approval does so as whoever saved the rule last."""
        if isinstance(request.user, User):
            obj.saved_by = request.user
        super().save_model(request, obj, form, change)

    @admin.display(description="approves")
    def approves(self, rule: AllowRule) -> str:
        """Whether requests go through by this rule, or why not."""
        if not rule.without_approval:
            return "No, requests wait for approval."
        reason = rule_problem(rule)
        return f"No. {reason}" if reason else "Yes, what it pins."


@admin.register(UnknownMessage)
class UnknownMessageAdmin(ReadOnlyAdmin):
    """What the knowledge base does not know yet: messages that are alike are one row."""

    list_display = ("count", "text", "kind", "reason", "example", "first_at", "last_at")
    list_display_links = ("text",)
    list_filter = ("kind", "last_at")
    search_fields = ("sample", "reason", "fingerprint")

    @admin.display(description="message", ordering="sample")
    def text(self, row: UnknownMessage) -> str:
        cut = row.sample if len(row.sample) <= TEXT else f"{row.sample[:TEXT]}…"
        # Django's lists break no words, and image references are long ones.
        return re.sub(r"(\S{30})", "\\1\u200b", cut)


@admin.register(CopyReport)
class CopyReportAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "cluster", "state", "copies", "user", "finished_at", "error_text")
    list_filter = ("state", "cluster")
    date_hierarchy = "created_at"

    @admin.display(description="copies")
    def copies(self, row: CopyReport) -> Any:
        return row.result.get("copies")


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    list_display = ("subject", "change", "state", "error", "attempts", "next_at", "sent_at")
    list_filter = ("state", "transition__cluster")
    search_fields = ("transition__name", "error")
    date_hierarchy = "transition__at"
    actions = ("send_again",)

    @admin.display(description="operator", ordering="transition__name")
    def subject(self, row: Notification) -> str:
        body = row.body
        place = "/".join(filter(None, (body.get("namespace"), body.get("name"))))
        return f"{body.get('cluster')}: {body.get('kind')} {place}"

    @admin.display(description="change")
    def change(self, row: Notification) -> str:
        return f"{row.body.get('was') or 'new'} → {row.body.get('to')}"

    @admin.action(description="Send again", permissions=["view"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[Notification]) -> None:
        chosen = len(queryset)
        again = send_again(queryset)
        messages.success(request, f"{again} notification(s) will be sent again.")
        if again < chosen:
            messages.warning(
                request,
                f"{chosen - again} left out: they wait already, or a later change of the same "
                "operator was told.",
            )
