"""Pages that add, change and delete a catalog of no cluster. Plain forms that need no script."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalogs import lookup
from catalogs.models import Catalog
from catalogs.sources.base import SourceError
from catalogs.sources.own_catalogs import IMAGE, OwnCatalogForm, require_own, save_catalog
from catalogs.sync.deletion import delete_own_catalog
from catalogs.sync.progress import request_sync
from olmweb.accounts.roles import (
    ADD_CATALOG,
    CHANGE_CATALOG,
    DELETE_CATALOG,
    READ_FILES,
    may,
    require,
    sign_in_required,
)

METHODS = ("GET", "HEAD", "POST")
UNPROCESSABLE = 422


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=require(ADD_CATALOG))
def add(request: HttpRequest) -> HttpResponse:
    """The form of a new catalog; a worker syncs it at once."""
    return _form(request, Catalog(source_kind=IMAGE))


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=require(CHANGE_CATALOG))
def edit(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """The form of a catalog's source."""
    return _form(request, require_own(lookup.get_catalog(cluster, catalog)))


def _form(request: HttpRequest, catalog: Catalog) -> HttpResponse:
    is_new = catalog.pk is None
    name = catalog.slug  # the form writes what was typed into the row
    data = request.POST if request.method == "POST" else None
    form = OwnCatalogForm(data, instance=catalog, reads_files=may(request.user, READ_FILES))
    if form.is_bound and form.is_valid():
        try:
            save_catalog(form.instance)
        except SourceError as error:
            form.add_error("name", error.message)
        else:
            request_sync(form.instance.pk)
            verb = "added" if is_new else "saved"
            messages.success(
                request, f"Catalog {form.instance.slug} {verb}; a worker syncs it now."
            )
            return _to_page(form.instance)
    context: dict[str, Any] = {"form": form, "is_new": is_new, "name": name}
    status = UNPROCESSABLE if form.errors else 200
    return render(request, "catalogs/catalog_form.html", context, status=status)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=require(DELETE_CATALOG))
def delete(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """A review of what goes, and the deletion."""
    row = require_own(lookup.get_catalog(cluster, catalog))
    if request.method == "POST" and request.POST.get("sure"):
        delete_own_catalog(row)
        messages.success(request, f"Catalog {row.slug} deleted.")
        return redirect("catalogs:catalog-list")
    return render(request, "catalogs/catalog_delete.html", {"catalog": row})


def _to_page(catalog: Catalog) -> HttpResponse:
    return redirect("catalogs:catalog", catalog.cluster_name, catalog.slug)
