"""The REST API: routers of both apps under one authentication and one error shape.

Part of the composition root: may import the apps, nothing but `olmweb.urls` imports it.
"""

import hashlib
from functools import cache
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path, re_path, reverse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.operation import Operation
from pydantic import TypeAdapter

from catalogs.api import bundles, catalogs, changes, fbc, packages
from installs.api import (
    actions,
    audit,
    clusteroperators,
    clusters,
    crds,
    operators,
    readiness,
    requests,
)
from installs.api import packages as installing
from installs.api.action_schemas import PlannedAction, PlannedBulkInstall
from olmweb.accounts.api_tokens import BearerToken, PublicRead, Session
from olmweb.api import events, tokens
from olmweb.api.docs import docs_view
from olmweb.api.errors import guard_patterns, handle_exception, unknown_route
from olmweb.api.formats import answer_one
from olmweb.api.openapi import complete
from olmweb.api.parameters import BodyParser

BUILD = {"version": settings.VERSION, "api": "v1"}
LIST_DEPTH = 3  # slashes in /api/v1/NAME
NO_LIST = ("/", "/version")
DRY_RUNS = {
    row.__name__: TypeAdapter(row).json_schema(
        mode="serialization", ref_template="#/components/schemas/{model}"
    )
    for row in (PlannedAction, PlannedBulkInstall)
}


class Api(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        """The name of the function alone, so that moving a route changes nothing for clients."""
        return operation.view_func.__name__


api = Api(
    title="OLM Web",
    version=settings.VERSION,
    description="Catalogs, what is installed from them and how it fares. Lists answer "
    '{"items", "next", "count"}; errors {"error": {"code", "message", "hint", "fields"}}.',
    auth=[BearerToken(), Session(), PublicRead()],
    openapi_url=None,  # served below, behind the same authentication
    docs_url=None,  # ninja's page has an inline script, which our CSP forbids
    urls_namespace="api",
    parser=BodyParser(),
)
for error in (Exception, AuthenticationError, HttpError, ValidationError):
    api.add_exception_handler(error, handle_exception)
for module in (
    *(clusters, operators, clusteroperators, actions, requests, readiness),
    *(fbc, installing, crds),  # before the route of bundles, whose names may hold slashes
    *(catalogs, packages, bundles, changes, audit, events, tokens),
):
    api.add_router("", module.router)


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document; made once, because routes don't change while the process lives."""
    return complete(dict(api.get_openapi_schema()), DRY_RUNS)


@cache
def document_digest() -> str:
    return hashlib.sha256(msgspec.json.encode(openapi_document())).hexdigest()


class ApiVersion(Schema):
    """The OLM Web that answers, and the version of its REST API."""

    version: str
    api: str


class Index(ApiVersion):
    """`resources` has the address of every list by its name."""

    openapi: str
    docs: str
    resources: dict[str, str]


@api.get("/", response=Index, tags=["About"])
def get_index(request: HttpRequest) -> HttpResponseBase:
    """The lists of this API and its documents."""
    return answer_one(request, (BUILD,), _index)


def _index() -> dict[str, Any]:
    paths = openapi_document()["paths"]
    lists = [path for path in paths if "get" in paths[path] and path.count("/") == LIST_DEPTH]
    return BUILD | {
        "openapi": reverse("api:openapi"),
        "docs": reverse("api-docs"),
        "resources": {
            path.rpartition("/")[2]: path for path in lists if not path.endswith(NO_LIST)
        },
    }


@api.get("/version", response=ApiVersion, tags=["About"])
def get_version(request: HttpRequest) -> HttpResponseBase:
    """The version of OLM Web and that of its REST API."""
    return answer_one(request, (BUILD,), lambda: BUILD)


@api.get("/openapi.json", include_in_schema=False)
def openapi(request: HttpRequest) -> HttpResponseBase:
    return answer_one(request, (document_digest(),), openapi_document)


_patterns, _app, _namespace = api.urls
urlpatterns = [
    path("api/v1/docs", docs_view(openapi_document), name="api-docs"),
    path("api/v1/", (guard_patterns(_patterns), _app, _namespace)),
    re_path(r"^api/(?P<rest>(?s:.*))\Z", unknown_route),
]
