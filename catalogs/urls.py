"""Routes of the software catalog and of catalogs."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from catalogs import views


class BundleNameConverter(StringConverter):
    """Any bundle name, slashes and line breaks too; `install` is the install form's own route."""

    regex = r"(?s:(?!install\Z).+)"


register_converter(BundleNameConverter, "bundle_name")

app_name = "catalogs"
urlpatterns = [
    path("software/", views.software, name="software"),
    path("software/<str:cluster>/<str:catalog>/<str:package>", views.package, name="package"),
    path(
        "software/<str:cluster>/<str:catalog>/<str:package>/<bundle_name:bundle>",
        views.bundle,
        name="bundle",
    ),
    path("icons/<str:sha256>", views.icon, name="icon"),
    path("catalogs/", views.catalog_list, name="catalog-list"),
    path("catalogs/<str:cluster>/<str:catalog>", views.catalog, name="catalog"),
    path("catalogs/<str:cluster>/<str:catalog>/sync", views.sync_now, name="sync-now"),
]
