"""Routes of the software catalog and of catalogs."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from catalogs.views import (
    bundle,
    catalogs,
    changes,
    channels,
    feeds,
    own_catalogs,
    package,
    problems,
    software,
)
from olmweb.accounts.account_views import choose_columns


class BundleNameConverter(StringConverter):
    """Any bundle name, slashes and line breaks too, but for the routes beside it: the forms to
    install and to ask, the exports and the graph's files."""

    regex = r"(?s:(?!(?:install|request|export(?:/[a-z]+\.[a-z]+)?|graph\.mmd|graph\.svg)\Z).+)"


register_converter(BundleNameConverter, "bundle_name")

PACKAGE = "<str:cluster>/<str:catalog>/<str:package>"
BUNDLE = f"{PACKAGE}/<bundle_name:bundle>"
CATALOG = "catalogs/<str:cluster>/<str:catalog>"

app_name = "catalogs"
urlpatterns = [
    path("software/", software.software, name="software"),
    path(f"software/{PACKAGE}", package.package, name="package"),
    path(
        f"software/{PACKAGE}/graph.mmd",
        channels.graph_file,
        {"kind": "mmd"},
        name="graph-mermaid",
    ),
    path(f"software/{PACKAGE}/graph.svg", channels.graph_file, {"kind": "svg"}, name="graph-svg"),
    path(f"software/{BUNDLE}", bundle.bundle, name="bundle"),
    path(f"inspections/{BUNDLE}", bundle.inspection, name="inspection"),
    path("icons/<str:sha256>", bundle.icon, name="icon"),
    path("catalogs/", catalogs.catalog_list, name="catalog-list"),
    path("catalogs/new", own_catalogs.add, name="catalog-add"),
    path("catalogs/export.csv", catalogs.catalog_export, name="catalog-list-export"),
    path("catalogs/columns", choose_columns(catalogs.CATALOGS), name="catalog-list-columns"),
    path("catalogs/compare", changes.compare, name="compare"),
    path("catalogs/changes.atom", feeds.all_changes, name="all-changes-feed"),
    path(f"{CATALOG}/changes.atom", feeds.catalog_changes, name="changes-feed"),
    path(CATALOG, catalogs.catalog, name="catalog"),
    path(f"{CATALOG}/edit", own_catalogs.edit, name="catalog-edit"),
    path(f"{CATALOG}/delete", own_catalogs.delete, name="catalog-delete"),
    path(f"{CATALOG}/problems.md", problems.report, name="problem-report"),
    path(f"{CATALOG}/sync", catalogs.sync_now, name="sync-now"),
    path(f"{CATALOG}/inspection", catalogs.inspect_images, name="inspect-images"),
    path(f"{CATALOG}/progress", catalogs.progress, name="progress"),
    path(f"{CATALOG}/cancel", catalogs.cancel, name="cancel"),
]
