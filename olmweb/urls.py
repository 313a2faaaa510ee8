"""Routes of both apps, the admin, the API and health."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from installs.views.overview import overview
from olmweb import api, health

urlpatterns = [
    path("", overview, name="overview"),
    path("", include("catalogs.urls")),
    path("", include("installs.urls")),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    *api.urlpatterns,
]
