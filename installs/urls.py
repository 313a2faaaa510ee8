"""Routes of the operators, cluster operators and activity pages."""

from django.urls import path

from installs.queries.activity import ACTIONS, REQUESTS
from installs.queries.clusteroperators import CLUSTEROPERATORS
from installs.queries.crds import CRDS
from installs.queries.operator_table import OPERATORS
from installs.views import (
    activity,
    audit,
    batches,
    bulk_changes,
    changes,
    clusteroperators,
    clusters,
    contents,
    copies,
    crd_checks,
    export,
    install,
    notifications,
    objects,
    operators,
    readiness,
    requests,
    search,
)
from olmweb.accounts.account_views import choose_columns

app_name = "installs"
_OPERATOR = "operators/<str:cluster>/<str:kind>/<str:namespace>/<str:name>"
_SOFTWARE = "software/<str:cluster>/<str:catalog>/<str:package>"
urlpatterns = [
    path("report/", clusters.report, name="report"),
    path("search/", search.search_page, name="search"),
    path("operators/", operators.operator_list, name="operators"),
    path("operators/export.csv", operators.operator_export, name="operators-export"),
    path("operators/columns", choose_columns(OPERATORS), name="operators-columns"),
    path("operators/bulk-change", bulk_changes.bulk_change, name="bulk-change"),
    path(_OPERATOR, operators.operator_detail, name="operator"),
    path(f"{_OPERATOR}/remove", changes.remove, name="remove"),
    path(f"{_OPERATOR}/upgrade", changes.upgrade, name="upgrade"),
    path(f"{_OPERATOR}/configure", changes.configure, name="configure"),
    path(f"{_OPERATOR}/retry", changes.retry, name="retry"),
    path(f"{_OPERATOR}/crds/<bundle_name:bundle>", crd_checks.crd_check, name="crd-check"),
    path(
        "installplans/<str:cluster>/<str:namespace>/<str:name>/approve",
        changes.approve,
        name="approve",
    ),
    path(f"{_SOFTWARE}/install", install.install, name="install"),
    path(
        "contents/<str:cluster>/<str:catalog>/<str:package>/<bundle_name:bundle>",
        contents.contents,
        name="contents",
    ),
    path(f"{_SOFTWARE}/export", export.export_page, name="export"),
    path(f"{_SOFTWARE}/export/<str:form>", export.export_file, name="export-file"),
    path(f"{_SOFTWARE}/request", requests.ask, name="ask"),
    path("cluster-operators/", clusteroperators.clusteroperator_list, name="clusteroperators"),
    path(
        "cluster-operators/export.csv",
        clusteroperators.clusteroperator_export,
        name="clusteroperators-export",
    ),
    path(
        "cluster-operators/columns",
        choose_columns(CLUSTEROPERATORS),
        name="clusteroperators-columns",
    ),
    path(
        "cluster-operators/<str:cluster>/<str:name>",
        clusteroperators.clusteroperator_detail,
        name="clusteroperator",
    ),
    path("clusters/<str:cluster>", clusters.cluster_detail, name="cluster"),
    path(
        "objects/<str:cluster>/<str:kind>/<str:namespace>/<str:name>",
        objects.object_yaml,
        name="object",
    ),
    path("readiness/", readiness.readiness_page, name="readiness"),
    path("readiness/olm-v1/", readiness.takeover_page, name="takeover"),
    path("crds/", clusters.crd_list, name="crds"),
    path("crds/export.csv", clusters.crd_export, name="crds-export"),
    path("crds/columns", choose_columns(CRDS), name="crds-columns"),
    path("unknown-messages/", operators.unknown_messages, name="unknown-messages"),
    path("leftovers/", clusters.leftovers, name="leftovers"),
    path(
        "leftovers/<str:cluster>/<str:kind>/<str:namespace>/<str:name>/clean-up",
        changes.clean_up,
        name="clean-up",
    ),
    path("audit/", audit.audit_page, name="audit"),
    path("reports/copied-csvs/", copies.copied_csvs, name="copies"),
    path("activity/", activity.activity, name="activity"),
    path("activity/export.csv", activity.action_export, name="activity-export"),
    path("activity/columns", choose_columns(ACTIONS), name="activity-columns"),
    path("activity/requests/", requests.request_list, name="requests"),
    path("activity/requests/export.csv", requests.request_export, name="requests-export"),
    path("activity/requests/columns", choose_columns(REQUESTS), name="requests-columns"),
    path("activity/requests/<int:id>", requests.request_detail, name="request"),
    path("activity/actions/<int:id>", activity.action_detail, name="action"),
    path("notifications/", notifications.notification_page, name="notifications"),
    path("notifications/bell", notifications.bell, name="bell"),
    path("bulk-install/", batches.new_batch, name="batch-new"),
    path("activity/bulk-installs/<int:id>", batches.batch_detail, name="batch"),
    path("activity/bulk-installs/<int:id>/stop", batches.stop_batch, name="batch-stop"),
]
