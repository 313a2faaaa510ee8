"""REST route of resolution: which bundle of a package a controller would choose."""

from dataclasses import asdict, dataclass

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.install_methods import InstallMethod
from catalogs.resolve import BadQuestion, read_method, resolve
from catalogs.resolve.stored import facts_of
from olmweb.api.formats import (
    MEDIA_TYPES,
    finish,
    json_response,
    make_etag,
    not_modified,
    refuse,
    require_acceptable,
)
from olmweb.api.lists import described

router = Router(tags=["Catalogs"])
METHODS = [method.value for method in InstallMethod]
PARAMETERS = {
    "path": "What installs it; needed.",
    "version": "Version range: >=1.2.0, <2.0.0 for ClusterExtension, >=1.2.0 <2.0.0 for others.",
    "channel": "A channel; may be repeated for ClusterExtension. Absent: any.",
    "installed": "Name of the bundle that is installed already.",
}


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """`code` is "" for the chosen one, else channel, range, successor, skipped, chain, deprecated,
    order, dependency or version; `reason` says the same in words."""

    bundle: str
    version: str
    channels: list[str]
    chosen: bool
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResolutionRow:
    """`bundle` is "" when nothing would be chosen: then `blocked_by` is a code, and `message` what
    the controller would say. The chosen candidate comes first."""

    bundle: str
    version: str
    channel: str
    reason: str
    blocked_by: str
    message: str
    candidates: list[CandidateRow]


@router.get(
    "/packages/{cluster}/{catalog}/{package}/resolve",
    response=ResolutionRow,
    openapi_extra={
        "parameters": [
            described(
                name,
                about,
                {"type": "string", "enum": list(InstallMethod)} if name == "path" else {},
            )
            for name, about in PARAMETERS.items()
        ]
    },
)
def get_resolution(
    request: HttpRequest, cluster: str, catalog: str, package: str
) -> HttpResponseBase:
    """Which bundle would be chosen, and why not another. Asks the catalog's content only."""
    for name in request.GET:
        if name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise refuse(
                name[:60],
                f'There is no query parameter "{name[:60]}" here; use {known}.',
                code="unknown-parameter",
            )
    require_acceptable(request, MEDIA_TYPES["json"])
    found = lookup.get_package(cluster, catalog, package)
    etag = make_etag(request, found.pk, found.content_hash)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    try:
        answer = resolve(
            facts_of(found),
            read_method(request.GET.get("path", "")),
            channels=request.GET.getlist("channel"),
            version=request.GET.get("version", ""),
            installed=request.GET.get("installed", ""),
        )
    except BadQuestion as error:
        raise refuse(error.field, str(error)) from None
    return finish(json_response(asdict(answer)), etag)
