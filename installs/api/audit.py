"""REST route of the audit: JSON, CSV or Markdown of one catalog, install method and cluster."""

from typing import Annotated

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from catalogs.api.parameters import CATALOG, METHOD, Method, Reference
from catalogs.lookup import referenced_catalog
from catalogs.models import PredictionRun
from catalogs.verdicts.facts import WatchTarget
from installs.audit.audit import WATCHES, audit, read_watch
from installs.audit.report import as_csv, as_json, as_markdown
from olmweb.api.formats import (
    finish,
    json_response,
    make_etag,
    not_modified,
    refuse,
    require_acceptable,
)
from olmweb.api.lists import FORMATS
from olmweb.api.parameters import OneOf, Parameters, text
from olmweb.clusters import get_cluster

router = Router(tags=["Catalogs"])


class AuditParameters(Parameters):
    catalog: Reference = Field(description=CATALOG)
    method: Method = Field(description=METHOD)
    cluster: str = text(
        "Ask this cluster's facts, too, and what it has. Absent: the catalog alone."
    )
    target: Annotated[str, OneOf(("", *WATCHES))] = text(
        "Namespaces that a Subscription's OperatorGroup selects; absent: all. "
        "any: those with which the package is installable, as on the pages.",
        json_schema_extra={"enum": list(WATCHES)},
    )
    namespace: str = text(
        "A namespace of the cluster, for Subscriptions: its OperatorGroup counts, not `target`."
    )
    format: Annotated[str, OneOf(("", "json", "csv", "md"))] = text(
        "csv has a row for each package; md is for people.",
        json_schema_extra={"enum": ["json", "csv", "md"]},
    )


@router.get("/audit", response=dict)
def get_audit(request: HttpRequest, query: Query[AuditParameters]) -> HttpResponseBase:
    """Which packages could be installed by an install method, and by which rule not, from stored
    verdicts; with a cluster, beside what it has. Verdicts that differ from that come first."""
    if query.namespace and not query.cluster:
        raise refuse("namespace", "namespace is of a cluster: cluster is needed, too.")
    form = query.format or "json"
    require_acceptable(request, FORMATS[form])
    catalog = referenced_catalog(query.catalog)
    cluster = get_cluster(query.cluster) if query.cluster else None
    runs = PredictionRun.objects.filter(catalog=catalog)
    evaluated_at = runs.aggregate(at=Max("evaluated_at"))["at"]
    state = (evaluated_at, catalog.revision, cluster.revision if cluster else 0, form)
    etag = make_etag(request, *state)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    target = read_watch(query.target or WatchTarget.ALL)
    report = audit(catalog, query.method, cluster=cluster, target=target, namespace=query.namespace)
    if form == "json":
        return finish(json_response(as_json(report)), etag)
    body = as_csv(report) if form == "csv" else as_markdown(report)
    return finish(HttpResponse(body, content_type=f"{FORMATS[form]}; charset=utf-8"), etag)
