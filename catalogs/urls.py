"""Routes of the software catalog and of catalogs."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from catalogs.views import (
    bundle,
    catalogs,
    channels,
    compare,
    feeds,
    package,
    problems,
    software,
)


class BundleNameConverter(StringConverter):
    """Any bundle name, slashes and line breaks too, but for the routes beside it: the forms to
    install and to ask, the exports and the graph's files."""

    regex = r"(?s:(?!(?:install|request|export(?:/[a-z]+\.[a-z]+)?|graph\.mmd|graph\.svg)\Z).+)"


register_converter(BundleNameConverter, "bundle_name")

app_name = "catalogs"
urlpatterns = [
    path("software/", software.software, name="software"),
    path("software/<str:cluster>/<str:catalog>/<str:package>", package.package, name="package"),
    path(
        "software/<str:cluster>/<str:catalog>/<str:package>/graph.mmd",
        channels.graph_file,
        {"kind": "mmd"},
        name="graph-mermaid",
    ),
    path(
        "software/<str:cluster>/<str:catalog>/<str:package>/graph.svg",
        channels.graph_file,
        {"kind": "svg"},
        name="graph-svg",
    ),
    path(
        "software/<str:cluster>/<str:catalog>/<str:package>/<bundle_name:bundle>",
        bundle.bundle,
        name="bundle",
    ),
    path(
        "inspections/<str:cluster>/<str:catalog>/<str:package>/<bundle_name:bundle>",
        bundle.inspection,
        name="inspection",
    ),
    path("icons/<str:sha256>", bundle.icon, name="icon"),
    path("catalogs/", catalogs.catalog_list, name="catalog-list"),
    path("catalogs/compare", compare.compare, name="compare"),
    path("catalogs/changes.atom", feeds.all_changes, name="all-changes-feed"),
    path(
        "catalogs/<str:cluster>/<str:catalog>/changes.atom",
        feeds.catalog_changes,
        name="changes-feed",
    ),
    path("catalogs/<str:cluster>/<str:catalog>", catalogs.catalog, name="catalog"),
    path(
        "catalogs/<str:cluster>/<str:catalog>/problems.md",
        problems.report,
        name="problem-report",
    ),
    path("catalogs/<str:cluster>/<str:catalog>/sync", catalogs.sync_now, name="sync-now"),
    path("catalogs/<str:cluster>/<str:catalog>/progress", catalogs.progress, name="progress"),
    path("catalogs/<str:cluster>/<str:catalog>/cancel", catalogs.cancel, name="cancel"),
]
