"""REST routes of catalogs: content state, revisions, faults of their content."""

from typing import Annotated, Any

from django.db.models import Max, Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router

from catalogs import lookup
from catalogs.api.parameters import CLUSTER, on_clusters
from catalogs.api.schemas import (
    CatalogDetail,
    CatalogProblemRow,
    CatalogRow,
    CatalogState,
    ProblemSeverity,
    catalog_detail,
    catalog_row,
    catalog_url,
    inspection_state,
    problem_rows,
)
from catalogs.models import Catalog, ContentProblem, PredictionRun
from catalogs.sources.own_catalogs import (
    IMAGE,
    TYPED,
    OwnCatalogForm,
    require_own,
    save_catalog,
)
from catalogs.sync.deletion import delete_own_catalog
from catalogs.sync.progress import request_sync
from olmweb.accounts.api_tokens import require_scope
from olmweb.accounts.roles import (
    ADD_CATALOG,
    CHANGE_CATALOG,
    DELETE_CATALOG,
    READ_FILES,
    SYNC,
    may,
    require,
)
from olmweb.api.formats import answer_one, json_response
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import RequestBody, Values, values
from olmweb.errors import BadRequest
from olmweb.models import Cluster

REVISIONS_SHOWN = 20
router = Router(tags=["Catalogs"])


class CatalogParameters(ListParameters):
    cluster: Values = values(CLUSTER)
    state: Annotated[list[CatalogState] | None, FilterLookup("state__in")] = values(
        "State of its content."
    )

    def filter_cluster(self, clusters: Values) -> Q:
        return on_clusters(clusters, "")


class ProblemParameters(ListParameters):
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    subject: Annotated[Values, FilterLookup("subject__in")] = values(
        "Name of the channel or bundle."
    )
    code: Annotated[Values, FilterLookup("code__in")] = values("Code of the problem.")
    severity: Annotated[list[ProblemSeverity] | None, FilterLookup("severity__in")] = values(
        "error: opm refuses the whole catalog."
    )


@router.get("/catalogs", response=Page[CatalogRow])
def list_catalogs(request: HttpRequest, query: Query[CatalogParameters]) -> HttpResponseBase:
    """Catalogs, with the age of their content and the result of the last sync."""
    catalogs = Catalog.objects.select_related("cluster")
    # Few rows and many things that change: the state is what the rows say.
    state = [catalog_row(catalog) for catalog in catalogs.order_by("id")]
    source = StoredRows(
        query.filter(catalogs), ("slug", "id"), lambda rows: [catalog_row(row) for row in rows]
    )
    return answer_list(request, query, "catalogs", CatalogRow, source, state)


@router.get("/catalogs/{cluster}/{catalog}", response=CatalogDetail)
def get_catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """One catalog, its conditions and its newest revisions."""
    row = lookup.get_catalog(cluster, catalog)
    return answer_one(
        request,
        (catalog_row(row), row.conditions, inspection_state(row)),
        lambda: catalog_detail(row, revisions=REVISIONS_SHOWN),
    )


class CatalogBody(RequestBody):
    """A catalog of no cluster. `source_kind` is Image, URL or File (for superusers, a path of the
    server); `source` its reference, address or path."""

    name: str
    source_kind: str
    source: str
    priority: int = 0


class CatalogChangeBody(RequestBody):
    """What of a catalog of no cluster changes; what is absent stays."""

    source_kind: str | None = None
    source: str | None = None
    priority: int | None = None


@router.post("/catalogs", response={201: CatalogDetail})
def create_catalog(request: HttpRequest, body: CatalogBody) -> HttpResponseBase:
    """Adds a catalog of no cluster, `-/NAME`; a worker reads it at once. 201 with the catalog, and
    its address in `Location`. Needs a token with the scope act and the role admin."""
    require_scope(request)
    require(ADD_CATALOG)(request.user)
    response = _save(request, Catalog(source_kind=IMAGE), body.model_dump())
    response.status_code = 201
    return response


@router.patch("/catalogs/{cluster}/{catalog}", response=CatalogDetail)
def change_catalog(
    request: HttpRequest, cluster: str, catalog: str, body: CatalogChangeBody
) -> HttpResponseBase:
    """Changes the source or the priority of a catalog of no cluster; 409 for the catalog of a
    cluster (`not-own`). Needs a token with the scope act and the role admin."""
    require_scope(request)
    require(CHANGE_CATALOG)(request.user)
    row = require_own(lookup.get_catalog(cluster, catalog))
    stored = {name: getattr(row, name) for name in TYPED}
    return _save(request, row, stored | body.model_dump(exclude_none=True))


def _save(request: HttpRequest, catalog: Catalog, values: dict[str, Any]) -> HttpResponse:
    """Saves the catalog with the rules of the page's form and has it read. Raises BadRequest."""
    form = OwnCatalogForm(values, instance=catalog, reads_files=may(request.user, READ_FILES))
    if not form.is_valid():
        problems = {name: str(errors[0]) for name, errors in form.errors.items()}
        raise BadRequest(" ".join(problems.values()), code="invalid", **problems)
    save_catalog(form.instance)
    request_sync(form.instance.pk)
    row = lookup.get_catalog(form.instance.cluster_name, form.instance.slug)
    response = json_response(catalog_detail(row, revisions=REVISIONS_SHOWN))
    response["Location"] = catalog_url(row)
    return response


@router.delete("/catalogs/{cluster}/{catalog}", response={204: None})
def delete_catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """Deletes a catalog of a file, URL or image with everything that was read from it; 409 for the
    catalog of a cluster (`not-own`) and during a sync. Needs a token with the scope act and the
    role admin."""
    require_scope(request)
    require(DELETE_CATALOG)(request.user)
    delete_own_catalog(require_own(lookup.get_catalog(cluster, catalog)))
    return HttpResponse(status=204)


@router.post("/catalogs/{cluster}/{catalog}/sync", response={202: CatalogDetail})
def sync_catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """Has a worker read the catalog now; `checked_at` changes when it has. Needs a token with the
    scope act and the role admin."""
    require_scope(request)
    require(SYNC)(request.user)
    row = lookup.get_catalog(cluster, catalog)
    request_sync(row.pk)
    response = json_response(catalog_detail(row, revisions=REVISIONS_SHOWN))
    response.status_code = 202
    return response


@router.get("/catalogs/{cluster}/{catalog}/problems", response=Page[CatalogProblemRow])
def list_problems(
    request: HttpRequest, cluster: str, catalog: str, query: Query[ProblemParameters]
) -> HttpResponseBase:
    """Faults of the catalog's content, in opm's wording where opm has one."""
    row = lookup.get_catalog(cluster, catalog)
    problems = ContentProblem.objects.filter(catalog=row)
    source = StoredRows(query.filter(problems), ("package", "id"), problem_rows)
    return answer_list(request, query, "problems", CatalogProblemRow, source, catalog_state(row))


def catalog_state(catalog: Catalog) -> tuple[Any, ...]:
    """What changes whenever its content does."""
    return (
        *(catalog.pk, catalog.revision, catalog.content_hash, catalog.changed_at),
        *(catalog.synced_digest, catalog.problem_count),
    )


def verdicts_state(catalog: Catalog) -> tuple[Any, ...]:
    """What changes whenever its content or the verdicts on it do; one query."""
    runs = PredictionRun.objects.filter(catalog=catalog)
    return (*catalog_state(catalog), runs.aggregate(last=Max("changed_at"))["last"])


def content_state() -> list[Any]:
    """What changes whenever packages, bundles, verdicts or what is installed do; two queries."""
    verdicts_changed_at = Max("prediction_runs__changed_at")
    return [
        *Catalog.objects.order_by("id").values_list(
            *("id", "slug", "revision", "content_hash", "changed_at", "synced_digest"),
            verdicts_changed_at,
        ),
        *Cluster.objects.order_by("id").values_list("id", "name", "revision"),
    ]
