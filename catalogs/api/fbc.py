"""REST routes that give FBC back as its author published it, byte for byte."""

from typing import Any

from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router

from catalogs import lookup
from catalogs.models import BlobRef
from catalogs.resolve.stored import full_package
from catalogs.storage.blobs import JSON, YAML, as_text, kind_of, media_type, read_blob
from catalogs.views.presenters import file_name
from olmweb.api.formats import (
    finish,
    make_etag,
    not_modified,
    refuse_parameters,
    require_acceptable,
)
from olmweb.api.lists import export_too_large
from olmweb.api.parameters import Parameters, text
from olmweb.errors import Missing

NONE = "-"  # asks for blobs that have no package or no name
PUBLIC_EXPORT = 20_000_000  # bytes of an export for readers without an account: any package
router = Router(tags=["Catalogs"])


class BlobParameters(Parameters):
    blob_schema: str = text("Schema of the blobs, such as olm.channel.", alias="schema")
    package: str = text(
        "Package that they belong to (an olm.package belongs to itself); `-` for none."
    )
    name: str = text("Name of the blobs; `-` for those without one.")


def _texts(about: str) -> dict[str, Any]:
    content = {kind: {"schema": {"type": "string"}} for kind in (JSON, YAML)}
    return {"responses": {200: {"description": about, "content": content}}}


# Registered before the bundle's own route: a bundle name may hold slashes.
@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/fbc",
    openapi_extra={
        "responses": {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}
    },
)
def get_bundle_fbc(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """The bundle's blob of file-based catalog, byte for byte as the catalog had it."""
    refuse_parameters(request)
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    text = read_blob(row.blob_id) if row.blob_id else None
    if text is None:
        raise Missing(f"The original text of bundle {bundle[:100]} is not stored.")
    kind = "application/json" if media_type(text) == JSON else YAML
    require_acceptable(request, kind)
    etag = make_etag(request, row.blob_id)
    return not_modified(request, etag) or finish(HttpResponse(text, content_type=kind), etag)


@router.get(
    "/packages/{cluster}/{catalog}/{package}/fbc",
    openapi_extra=_texts("JSON objects, one after the other, or YAML documents"),
)
def get_package_fbc(
    request: HttpRequest, cluster: str, catalog: str, package: str
) -> HttpResponseBase:
    """Every blob of the package in the catalog's order, each byte for byte; opm reads the whole.

    The PackageManifest API has no upgrade graph: of a package that was read with it these are the
    blobs of the ClusterCatalog that serves the same catalog, if that has the same bundles.
    """
    refuse_parameters(request)
    row = full_package(lookup.get_package(cluster, catalog, package))
    refs = BlobRef.objects.filter(catalog=row.catalog, package=row.name)
    return _answer(request, refs, row.content_hash, row.name)


@router.get(
    "/catalogs/{cluster}/{catalog}/fbc",
    openapi_extra=_texts("JSON objects, one after the other, or YAML documents"),
)
def get_catalog_fbc(
    request: HttpRequest, cluster: str, catalog: str, query: Query[BlobParameters]
) -> HttpResponseBase:
    """Every blob of the catalog, package by package, those of unknown schemas too.

    Filters match exactly and together. Readers without an account get 20 MB at most.
    """
    row = lookup.get_catalog(cluster, catalog)
    refs = BlobRef.objects.filter(catalog=row)
    chosen = {"schema": query.blob_schema, "package": query.package, "name": query.name}
    refs = refs.filter(**{k: "" if v == NONE else v for k, v in chosen.items() if v})
    return _answer(request, refs, row.content_hash, row.slug)


def _answer(
    request: HttpRequest, refs: QuerySet[BlobRef], content_hash: str, name: str
) -> HttpResponseBase:
    """The blobs of `refs` as one text. Raises OlmwebError (403) for too many bytes without an
    account, and (406)."""
    etag = make_etag(request, content_hash)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    if not request.user.is_authenticated:
        _require_small(refs)
    keys = list(refs.order_by("package", "ordinal", "id").values_list("blob_id", flat=True))
    kind = kind_of(keys)
    require_acceptable(request, kind)
    response = StreamingHttpResponse(as_text(keys, kind), content_type=kind)
    ending = "json" if kind == JSON else "yaml"
    response["Content-Disposition"] = f'attachment; filename="{file_name(name)}.{ending}"'
    return finish(response, etag)


def _require_small(refs: QuerySet[BlobRef]) -> None:
    """Raises OlmwebError (403) when the blobs have more than PUBLIC_EXPORT bytes: whoever has no
    account must not make the web server unpack whole catalogs again and again."""
    size = refs.order_by().aggregate(size=Sum("blob__size"))["size"]
    if size and size > PUBLIC_EXPORT:
        raise export_too_large(f"{PUBLIC_EXPORT // 1_000_000} MB", "or read it package by package")
