"""Admin of the allow rules, and of what people requested and was reported, which is read-only.

People also edit the receivers of webhooks. A notification or delivery that did not arrive can be
sent again.
"""

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
    WebhookDelivery,
    WebhookReceiver,
)
from installs.notifications import receiver_audit, receivers
from installs.notifications.select import send_again
from olmweb.errors import OlmwebError
from olmweb.eventlog.types import EventType
from olmweb.models import Cluster
from olmweb.web.admin import NO_VALUE, ModelAdmin, ReadOnlyAdmin, filter_by, labelled

if TYPE_CHECKING:
    RuleForm = forms.ModelForm[AllowRule]
    ReceiverForm = forms.ModelForm[WebhookReceiver]
else:  # generic for the type checker only
    RuleForm = ReceiverForm = forms.ModelForm

TEXT = 200  # characters of a message in a list
METHOD = "install method"
TESTED = 5  # receivers at once: each request may take seconds
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
    about = "Requested installations and their decisions."
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
    about = "Changes of clusters: installs, upgrades, approvals, retries and removals."
    hidden = (
        *("stored_steps", "dry_run", "done", "finding", "object_uid", "object_generation"),
        *("route", "of_blocker"),
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
        labels = {"path": METHOD.capitalize(), "service_accounts": "ServiceAccounts"}


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


class WebhookReceiverForm(ReceiverForm):
    """The address and the secret are written, never shown."""

    new_url = forms.CharField(
        label="Address",
        max_length=2000,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "size": 80}),
        help_text="https://host/path. It is never shown again; leave it empty to keep it.",
    )
    new_secret = forms.CharField(
        label="Secret",
        max_length=200,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Requests are signed with it (HMAC-SHA256). Leave it empty to keep it.",
    )
    remove_secret = forms.BooleanField(label="Remove the secret", required=False)
    types = forms.MultipleChoiceField(
        label="Events",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=[(str(type_), str(type_)) for type_ in EventType],
        help_text="Without a choice: all.",
    )
    clusters = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Without a choice: all, and catalogs without a cluster.",
    )

    class Meta:
        model = WebhookReceiver
        fields = ("name", "format", "types", "clusters", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A cluster that is gone stays chosen until somebody removes it.
        names = set(Cluster.objects.values_list("name", flat=True)) | set(self.instance.clusters)
        self.fields["clusters"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]

    def clean_new_url(self) -> str:
        url: str = self.cleaned_data["new_url"]
        if not url:
            if not self.instance.url:
                raise forms.ValidationError("Give the address of the receiver.")
            return url
        try:
            receivers.check_address(url)
        except OlmwebError as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error
        return url

    def save(self, commit: bool = True) -> WebhookReceiver:
        row = self.instance
        row.url = self.cleaned_data["new_url"] or row.url
        removed = self.cleaned_data["remove_secret"]
        row.secret = "" if removed else self.cleaned_data["new_secret"] or row.secret
        return super().save(commit)


@admin.register(WebhookReceiver)
class WebhookReceiverAdmin(ModelAdmin):
    about = "Addresses that get events by webhook, beside the one of the settings."
    form = WebhookReceiverForm
    fields = (
        *("name", "format", "host", "new_url", "signed", "new_secret", "remove_secret"),
        *("types", "clusters", "enabled", "problem"),
    )
    readonly_fields = ("host", "signed", "problem")
    list_display = ("name", "host", "format", "enabled", "signed", "selected", "problem")
    list_filter = ("enabled", "format")
    search_fields = ("name",)
    actions = ("send_test",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if self.has_change_permission(request, obj) or obj is None:
            return self.fields
        # Nothing that was never a column can be shown to people who only read.
        return [field for field in self.fields if not field.startswith(("new_", "remove_"))]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Only what people edit: a worker may move the position meanwhile."""
        columns = [*("name", "url", "format", "types", "clusters", "secret", "enabled")]
        if not change or (obj.enabled and "enabled" in form.changed_data):
            receivers.skip_to_now(obj)
            columns += ["position", "attempts", "next_at", "error"]
        obj.save(update_fields=columns if change else None)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        """Deliveries, which nobody deletes by themselves, go with their receiver."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        own = {str(WebhookDelivery._meta.verbose_name)}
        return deleted, counts, set(needed) - own, protected

    @admin.display(description="host")
    def host(self, row: WebhookReceiver) -> str:
        return urlsplit(row.url).netloc.rpartition("@")[2]

    @admin.display(description="signed", boolean=True)
    def signed(self, row: WebhookReceiver) -> bool:
        return bool(row.secret)

    @admin.display(description="events")
    def selected(self, row: WebhookReceiver) -> str:
        return ", ".join([*row.types, *row.clusters]) or "all"

    @admin.display(ordering="error", empty_value=NO_VALUE)
    def problem(self, row: WebhookReceiver) -> str:
        return row.error

    @admin.action(description="Send a test event", permissions=["change"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[WebhookReceiver]) -> None:
        for receiver in queryset[:TESTED]:
            result = receivers.send_test(receiver)
            receiver_audit.record_test(receiver, result.error)
            if result.error:
                messages.error(request, f"Test event for {receiver.name}: {result.error}")
            else:
                messages.success(request, f"Test event accepted by {receiver.name}.")


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin):
    about = "Requests to webhook receivers: sent, failing, or given up."
    labels = {"error": "problem", "created_at": "created", "sent_at": "sent"}
    list_display = (
        "id",
        "receiver",
        "number",
        "state",
        "error",
        "attempts",
        "created_at",
        "sent_at",
    )
    list_filter = ("state", "receiver")
    date_hierarchy = "created_at"
    actions = ("send_again",)

    @admin.display(description="events")
    def number(self, row: WebhookDelivery) -> int:
        return len(row.events)

    @admin.action(description="Send again", permissions=["view"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        count = receivers.send_again(list(queryset))
        word = "delivery" if count == 1 else "deliveries"
        messages.success(request, f"{count} {word} will be sent again.")


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
