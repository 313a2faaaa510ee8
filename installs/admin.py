"""Admin of what clusters said and people asked for: a record, so everything is read-only."""

from django.contrib import admin

from installs.models import (
    Action,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    Operator,
    Transition,
)
from olmweb.admin_tools import ReadOnlyAdmin


@admin.register(Operator)
class OperatorAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "namespace", "cluster", "health", "finding", "version", "since")
    list_filter = ("health", "kind", "cluster", "finding")
    search_fields = ("name", "package", "reason")
    list_select_related = ("cluster",)


@admin.register(Component)
class ComponentAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "namespace", "cluster", "operator", "phase", "observed_at")
    list_filter = ("kind", "cluster")
    search_fields = ("name", "owner_name")
    list_select_related = ("cluster", "operator")


@admin.register(ClusterOperator)
class ClusterOperatorAdmin(ReadOnlyAdmin):
    list_display = ("name", "cluster", "available", "progressing", "degraded", "aggregated")
    list_filter = ("available", "degraded", "aggregated", "cluster")
    search_fields = ("name", "reason")
    list_select_related = ("cluster",)


@admin.register(ClusterOperatorMember)
class ClusterOperatorMemberAdmin(ReadOnlyAdmin):
    list_display = ("name", "reason", "cluster_operator", "operator")
    search_fields = ("name", "reason")
    list_select_related = ("cluster_operator", "operator")


@admin.register(Transition)
class TransitionAdmin(ReadOnlyAdmin):
    list_display = ("at", "cluster", "kind", "name", "type", "to_status", "to_reason")
    list_filter = ("kind", "type", "cluster")
    search_fields = ("name", "to_reason")
    list_select_related = ("cluster",)
    date_hierarchy = "at"


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "verb", "path", "name", "cluster", "state", "as_user")
    list_filter = ("state", "verb", "cluster")
    search_fields = ("name", "package", "as_user")
    list_select_related = ("cluster", "user")
    date_hierarchy = "created_at"
