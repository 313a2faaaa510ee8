"""REST: having a bundle's image inspected, and how that goes. The same refusals as the page."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.api.rows import ErrorText, error_text
from catalogs.contents import stored
from catalogs.contents.request import ask_inspection
from catalogs.models import Bundle, BundleInspection
from olmweb.accounts.api_tokens import require_scope
from olmweb.api.formats import answer_one, json_response
from olmweb.errors import Missing

router = Router(tags=["Catalogs"])


@dataclass(frozen=True, slots=True)
class InspectionRow:
    """`digest` and `objects` are of the last time that the image was read, null before."""

    bundle: str
    image: str
    state: str
    asked_by: str
    asked_at: datetime
    finished_at: datetime | None
    bytes_done: int
    bytes_total: int
    digest: str | None
    objects: int | None
    error: ErrorText | None


# A bundle name may hold slashes.
@router.post(
    "/inspections/{cluster}/{catalog}/{package}/{path:bundle}", response={202: InspectionRow}
)
def ask_for_inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """Has a worker pull the manifests of the bundle's image; asked again while that goes on, the
    same one is returned. Needs a token with the scope act."""
    require_scope(request)
    found = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    ask_inspection(found, request.user)
    response = json_response(_row(found, stored.inspection_of(found)))
    response.status_code = 202
    return response


@router.get("/inspections/{cluster}/{catalog}/{package}/{path:bundle}", response=InspectionRow)
def get_inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """How the inspection of the bundle's image stands."""
    found = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    row = _row(found, stored.inspection_of(found))
    return answer_one(request, (row,), lambda: row)


def _row(bundle: Bundle, row: BundleInspection | None) -> InspectionRow:
    if row is None:
        raise Missing(
            f"The image of bundle {bundle.name[:100]} was not inspected.",
            code="not-inspected",
            hint="POST to the same address to have it inspected.",
        )
    held = row.manifests
    return InspectionRow(
        bundle=bundle.name,
        image=row.image,
        state=row.state,
        asked_by=row.asked_by,
        asked_at=row.asked_at,
        finished_at=row.finished_at,
        bytes_done=row.done,
        bytes_total=row.total,
        digest=held.digest if held else None,
        objects=held.objects_held if held else None,
        error=error_text(row.error_code, row.error_text, row.error_hint),
    )
