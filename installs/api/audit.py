"""REST route of the audit: JSON, CSV or Markdown of one catalog, path and cluster."""

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_catalog
from catalogs.models import Catalog, PredictionRun
from installs.audit.audit import WATCHES, audit, read_watch
from installs.audit.report import as_csv, as_json, as_markdown
from olmweb.api.computed import FORMATS
from olmweb.api.formats import (
    finish,
    json_response,
    make_etag,
    not_modified,
    refuse,
    require_acceptable,
)
from olmweb.api.lists import described, once
from olmweb.clusters import get_cluster
from olmweb.models import LOCAL

router = Router(tags=["Catalogs"])
PARAMETERS = {
    "catalog": ("A catalog as CLUSTER/NAME, `-/NAME` for one of no cluster; needed.", ()),
    "path": ("What installs; needed.", tuple(each.value for each in InstallMethod)),
    "cluster": ("Ask this cluster's facts, too, and what it has. Absent: the catalog alone.", ()),
    "watch": (
        "What a Subscription's OperatorGroup selects; any: that by which it is installable.",
        WATCHES,
    ),
    "namespace": (
        "A namespace of the cluster, for Subscriptions: its OperatorGroup counts, not `watch`.",
        (),
    ),
    "format": ("csv has a row for each package; md is for people.", ("json", "csv", "md")),
}


@router.get(
    "/audit",
    response=dict,
    openapi_extra={
        "parameters": [
            described(name, about, {"type": "string", "enum": list(choices)} if choices else {})
            for name, (about, choices) in PARAMETERS.items()
        ]
    },
)
def get_audit(request: HttpRequest) -> HttpResponseBase:
    """Which packages could be installed by a path, and by which rule not, from stored predictions;
    with a cluster, beside what it has. Predictions that differ from that come first."""
    given = _read(request)
    try:
        method = InstallMethod.parse(given["path"])
    except ValueError as error:
        raise refuse("path", str(error)) from None
    form = given["format"] or "json"
    require_acceptable(request, FORMATS[form])
    catalog = _catalog(given["catalog"])
    cluster = get_cluster(given["cluster"]) if given["cluster"] else None
    judged = PredictionRun.objects.filter(catalog=catalog).aggregate(at=Max("judged_at"))["at"]
    state = (judged, catalog.revision, cluster.revision if cluster else 0, form)
    etag = make_etag(request, *state)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    found = audit(
        catalog,
        method,
        cluster=cluster,
        target=read_watch(given["watch"]),
        namespace=given["namespace"],
    )
    if form == "json":
        return finish(json_response(as_json(found)), etag)
    text = as_csv(found) if form == "csv" else as_markdown(found)
    return finish(HttpResponse(text, content_type=f"{FORMATS[form]}; charset=utf-8"), etag)


def _read(request: HttpRequest) -> dict[str, str]:
    for name in request.GET:
        if name not in PARAMETERS:
            raise refuse(
                name[:60],
                f'audit has no query parameter "{name[:60]}"; it knows {", ".join(PARAMETERS)}.',
                code="unknown-parameter",
            )
    values = {name: once(request.GET, name) or "" for name in PARAMETERS}
    if values["namespace"] and not values["cluster"]:
        raise refuse("namespace", "namespace is of a cluster: cluster is needed, too.")
    for name in ("catalog", "path"):
        if not values[name]:
            raise refuse(name, f"{name} is needed. {PARAMETERS[name][0]}")
    for name, (_, choices) in PARAMETERS.items():
        if choices and name != "path" and values[name] and values[name] not in choices:
            raise refuse(
                name, f'{name} must be one of {", ".join(choices)}, not "{values[name][:60]}".'
            )
    return values


def _catalog(name: str) -> Catalog:
    cluster, _, slug = name.rpartition("/")
    return get_catalog(cluster or LOCAL, slug)
