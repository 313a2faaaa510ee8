"""The REST API: routers of both apps under one authentication and one error shape.

Part of the composition root: may import the apps, nothing but `olmweb.urls` imports it.
"""

from functools import cache
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path, re_path
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from catalogs.api.changes import router as changes_router
from catalogs.api.fbc import router as fbc_router
from catalogs.api.inspections import router as inspections_router
from catalogs.api.problems import router as problems_router
from catalogs.api.resolve import router as resolve_router
from catalogs.api.routes import router as catalogs_router
from installs.api.audit import router as audit_router
from installs.api.batches import router as batches_router
from installs.api.contents import router as contents_router
from installs.api.export import router as export_router
from installs.api.readiness import router as readiness_router
from installs.api.routes import router as installs_router
from olmweb.accounts.api_tokens import BearerToken, PublicRead, Session
from olmweb.api.docs import docs_view
from olmweb.api.errors import guard_patterns, handle_exception, unknown_route
from olmweb.api.formats import json_response

api = NinjaAPI(
    title="OLM Web",
    version="1",
    description="Catalogs, what is installed from them and how it fares. Lists answer "
    '{"items", "next", "count"}; errors {"error": {"code", "message", "hint", "fields"}}.',
    auth=[BearerToken(), Session(), PublicRead()],
    openapi_url=None,  # served below, behind the same authentication
    docs_url=None,  # ninja's page has an inline script, which our CSP forbids
    urls_namespace="api",
)
for error in (Exception, AuthenticationError, HttpError, ValidationError):
    api.add_exception_handler(error, handle_exception)
api.add_router("", installs_router)
api.add_router("", batches_router)
api.add_router("", readiness_router)
api.add_router("", export_router)
# Before the route of bundles, whose names may hold slashes.
api.add_router("", fbc_router)
api.add_router("", contents_router)
api.add_router("", inspections_router)
api.add_router("", problems_router)
api.add_router("", catalogs_router)
api.add_router("", changes_router)
api.add_router("", resolve_router)
api.add_router("", audit_router)


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document; made once, because routes don't change while the process lives."""
    return dict(api.get_openapi_schema())


@api.get("/openapi.json", include_in_schema=False)
def openapi(request: HttpRequest) -> HttpResponseBase:
    return json_response(openapi_document())


_patterns, _app, _namespace = api.urls
urlpatterns = [
    path("api/v1/docs", docs_view(openapi_document), name="api-docs"),
    path("api/v1/", (guard_patterns(_patterns), _app, _namespace)),
    re_path(r"^api/(?P<rest>.*)$", unknown_route),
]
