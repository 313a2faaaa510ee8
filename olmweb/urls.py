"""Routes of both apps, the admin, the API and health."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import TemplateView

from installs.views.clusters import overview
from olmweb.accounts import account_views, views
from olmweb.api import errors, routes
from olmweb.serving import events, health

handler400 = errors.bad_request
handler500 = errors.server_error
urlpatterns = [
    path("", overview, name="overview"),
    path("", include("catalogs.urls")),
    path("", include("installs.urls")),
    path("login/", views.SignIn.as_view(), name="login"),
    path("login/oidc/", views.OidcStart.as_view(), name="oidc_start"),
    path("login/oidc/callback", views.OidcCallback.as_view(), name="oidc_authentication_callback"),
    path("logout/", views.SignOut.as_view(), name="logout"),
    path("help/", TemplateView.as_view(template_name="help.html"), name="help"),
    path("account/", account_views.preferences, name="account"),
    path("account/tokens/", account_views.tokens, name="account-tokens"),
    path("account/tokens/<int:id>/revoke", account_views.revoke, name="account-token-revoke"),
    path("admin/login/", views.admin_sign_in),
    path("admin/", admin.site.urls),
    path("events/", events.events, name="events"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    *routes.urlpatterns,
]
