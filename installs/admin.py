"""Admin of the allow rules, and of what people requested and was reported, which is read-only.

A notification that did not arrive can be sent again.
"""

import re
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse

from installs.actions.authority import rule_problem
from installs.models import (
    Action,
    ActionBatch,
    AllowRule,
    CopyReport,
    InstallRequest,
    Notification,
    Operator,
    UnknownMessage,
)
from installs.notifications.select import send_again
from olmweb.web.admin import ModelAdmin, ReadOnlyAdmin, filter_by, labelled

if TYPE_CHECKING:
    RuleForm = forms.ModelForm[AllowRule]
else:  # generic for the type checker only
    RuleForm = forms.ModelForm

TEXT = 200  # characters of a message in a list
METHOD = "install method"
BY_METHOD = filter_by("path", METHOD)


@admin.register(Operator)
class OperatorAdmin(ReadOnlyAdmin):
    about = "Operators of all clusters, as of the last sync of each."
    hidden = (
        *("uid", "resource_version", "generation", "digest", "conditions", "details", "facts"),
        *("broken_kind", "broken_name"),
    )
    labels = {
        "kind": METHOD,
        "created_at": "created",
        "deleting": "being deleted",
        "observed_at": "last change",
        "catalog_namespace": "namespace of the catalog",
        "version_asked": "requested version",
        "finding": "cause",
        "upgrade": "available upgrade",
        "upgrade_held": "why it is not upgraded",
    }
    list_display = ("name", "namespace", "cluster", "kind", "health", "version", "since")
    list_filter = ("health", filter_by("kind", METHOD), "cluster")
    search_fields = ("name", "namespace", "package", "reason")

    def view_on_site(self, row: Operator) -> str:
        place = (row.cluster.name, row.kind, row.namespace or "-", row.name)
        return reverse("installs:operator", args=place)


@admin.register(InstallRequest)
class InstallRequestAdmin(ReadOnlyAdmin):
    about = "Packages that people requested, and what was decided."
    hidden = ("catalog", "asked")
    labels = {
        "catalog_name": "catalog",
        "path": METHOD,
        "user": "requested by",
        "word": "answer",
        "rule": "allow rule",
        "created_at": "requested",
        "decided_at": "decided",
    }
    list_display = ("created_at", "package", "version", "path", "cluster", "user", "state")
    list_filter = ("state", BY_METHOD, "cluster")
    list_select_related = ("cluster", "user")
    search_fields = ("package", "reason", "user__username")
    date_hierarchy = "created_at"

    def view_on_site(self, row: InstallRequest) -> str:
        return reverse("installs:request", args=[row.pk])


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    about = "What people changed on clusters: installs, upgrades, approvals, retries and removals."
    hidden = (
        *("stored_steps", "dry_run", "done", "finding", "object_uid", "object_generation"),
        "idempotency_key",
        *("request_hash", "by_token", "by_rule", "begun_at", "next_attempt_at", "attempt"),
    )
    labels = {
        "verb": "action",
        "path": METHOD,
        "as_user": "user on the cluster",
        "as_groups": "groups on the cluster",
        "target": "expected bundle",
        "force": "takes fields over",
        "outcome_hint": "what to do",
        "batch": "bulk action",
        "created_at": "requested",
        "sent_at": "applied",
        "finished_at": "finished",
    }
    list_display = ("created_at", "verb", "name", "path", "cluster", "user", "state")
    list_filter = ("state", "verb", BY_METHOD, "cluster")
    search_fields = ("name", "package", "as_user", "user__username")
    date_hierarchy = "created_at"

    def view_on_site(self, row: Action) -> str:
        return reverse("installs:action", args=[row.pk])


@admin.register(ActionBatch)
class ActionBatchAdmin(ReadOnlyAdmin):
    about = "Installs of many packages, or one change of many operators, confirmed at once."
    hidden = ("left_out", "asked_hash", "idempotency_key")
    labels = {
        "path": METHOD,
        "user": "requested by",
        "created_at": "requested",
        "stopped_at": "stopped",
    }
    list_display = ("created_at", "noun", "path", "cluster", "user", "stopped_at", "stopped_by")
    list_filter = (BY_METHOD, "cluster")
    search_fields = ("user__username",)
    date_hierarchy = "created_at"

    def view_on_site(self, row: ActionBatch) -> str:
        return reverse("installs:batch", args=[row.pk])

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_fields(request, obj)
        return ["noun", *(name for name in fields if name != "verb")]

    @admin.display(description="kind", ordering="verb")
    def noun(self, row: ActionBatch) -> str:
        return row.noun


class AllowRuleForm(RuleForm):
    class Meta:
        labels = {"path": METHOD.capitalize()}


@admin.register(AllowRule)
class AllowRuleAdmin(ModelAdmin):
    """The allow-list: the one thing here that people edit."""

    about = "Packages that people may request. Without any rule they may request every package."
    form = AllowRuleForm
    fieldsets = (
        (None, {"fields": ("package", "versions", "path", "cluster", "note")}),
        (
            "Without approval",
            {
                "fields": (
                    *("without_approval", "catalogs", "namespaces", "service_accounts"),
                    "approves",
                )
            },
        ),
    )
    readonly_fields = ("approves",)
    list_display = (
        *("package", "versions", labelled("path", METHOD), "cluster", "approves"),
        *("saved_by", "note"),
    )
    list_filter = ("without_approval", BY_METHOD, "cluster")
    search_fields = ("package", "note")
    list_select_related = ("cluster", "saved_by__oidc_identity")

    def save_model(self, request: HttpRequest, obj: AllowRule, form: Any, change: bool) -> None:
        """What goes through without approval does so as whoever saved the rule last."""
        if isinstance(request.user, User):
            obj.saved_by = request.user
        super().save_model(request, obj, form, change)

    @admin.display(description="approves automatically")
    def approves(self, rule: AllowRule) -> str:
        """Whether the rule approves requests, or why not."""
        if not rule.without_approval:
            return "No. Requests wait for approval."
        reason = rule_problem(rule)
        return f"No. {reason}" if reason else "Yes, requests that match all fields."


@admin.register(UnknownMessage)
class UnknownMessageAdmin(ReadOnlyAdmin):
    """Messages that are equal but for names and numbers are one row."""

    about = "Messages of operators that the knowledge base does not explain yet."
    hidden = ("fingerprint",)
    labels = {"first_at": "first seen", "last_at": "last seen", "sample": "message"}
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
    about = "Requested reports on the cost of copied ClusterServiceVersions."
    hidden = ("result",)
    labels = {
        "user": "requested by",
        "created_at": "requested",
        "started_at": "started",
        "finished_at": "finished",
        "error_text": "problem",
        "error_hint": "what to do",
    }
    list_display = ("created_at", "cluster", "state", "copies", "user", "finished_at", "error_text")
    list_filter = ("state", "cluster")
    date_hierarchy = "created_at"

    @admin.display(description="copies")
    def copies(self, row: CopyReport) -> Any:
        return row.result.get("copies")


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    about = "Changes of health for the webhook: sent, waiting, or given up."
    labels = {"error": "problem", "next_at": "next attempt", "sent_at": "sent"}
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
        messages.success(request, f"{again} notification{pluralize(again)} will be sent again.")
        if again < chosen:
            messages.warning(
                request,
                f"{chosen - again} not sent again: already waiting, or followed by a later change "
                "of the same operator.",
            )
