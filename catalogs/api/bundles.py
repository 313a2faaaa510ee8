"""REST routes of bundles: list, detail, and the inspection of their images."""

from dataclasses import replace
from typing import Annotated

from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router
from pydantic import AfterValidator

from catalogs import lookup
from catalogs.api.catalogs import content_state, verdicts_state
from catalogs.api.parameters import CATALOG, CLUSTER, References, on_clusters
from catalogs.api.schemas import (
    BundleDetail,
    BundleInspectionRow,
    BundleRow,
    RelatedImageRow,
    bundle_row,
    gvk_rows,
    inspection_row,
    shallow,
    verdict_row,
)
from catalogs.contents import stored
from catalogs.contents.inspection import request_inspection
from catalogs.lookup import at_references
from catalogs.models import Bundle, BundleGVK, Channel, ChannelEntry
from catalogs.search.images import packages_with_image, using_image
from catalogs.search.index import catalog_stamps, current_index
from catalogs.verdicts.catalog_health import HealthNotes, notes_on
from catalogs.verdicts.read import verdicts_of
from olmweb.accounts.api_tokens import require_scope
from olmweb.api.formats import answer_one, json_response, refuse_parameters
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import Values, any_of, values

router = Router(tags=["Catalogs"])


def read_kind(value: str) -> str:
    _, slash, kind = value.rpartition("/")
    if not slash or not kind:
        raise ValueError(
            f'must be GROUP/KIND, such as etcd.database.coreos.com/EtcdCluster, not "{value[:60]}".'
        )
    return value


class BundleParameters(ListParameters):
    cluster: Values = values(CLUSTER)
    catalog: References = values(CATALOG)
    package: Annotated[Values, FilterLookup("package__name__in")] = values("Name of the package.")
    channel: Values = values("A channel that has it as an entry.")
    version: Annotated[Values, FilterLookup("version__in")] = values("Version, exactly.")
    provides: list[Annotated[str, AfterValidator(read_kind)]] | None = values(
        "GROUP/KIND of an API that it provides."
    )
    image: Values = values(
        "A part of an image reference that it uses, or a digest (12 or more characters)."
    )

    def filter_cluster(self, clusters: Values) -> Q:
        return on_clusters(clusters, "package__catalog__")

    def filter_catalog(self, references: References) -> Q:
        return at_references(references, "package__catalog__") if references else Q()

    def filter_channel(self, channels: Values) -> Q:
        return any_of(channels, _of_channel)

    def filter_provides(self, kinds: Values) -> Q:
        return any_of(kinds, _providing)

    def filter_image(self, images: Values) -> Q:
        return any_of(images, _using_image)


def _of_channel(name: str) -> Q:
    entries = ChannelEntry.objects.filter(
        channel__package=OuterRef("package"), channel__name=name, name=OuterRef("name")
    )
    return Q(Exists(entries))


def _providing(kind: str) -> Q:
    group, _, name = kind.rpartition("/")
    gvks = BundleGVK.objects.filter(group=group, kind=name, required=False)
    return Q(pk__in=gvks.order_by().values("bundle_id"))


def _using_image(part: str) -> Q:
    index = current_index(catalog_stamps())
    return using_image(part, packages_with_image(index, part))


@router.get("/bundles", response=Page[BundleRow])
def list_bundles(request: HttpRequest, query: Query[BundleParameters]) -> HttpResponseBase:
    """Bundles of every catalog."""
    bundles = query.filter(Bundle.objects.select_related("package__catalog__cluster"))
    source = StoredRows(bundles, ("name", "id"), lambda rows: [bundle_row(row) for row in rows])
    return answer_list(request, query, "bundles", BundleRow, source, content_state())


@router.get("/bundles/{cluster}/{catalog}/{package}/{path:bundle}", response=BundleDetail)
def get_bundle(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """One bundle: what it provides and needs, its images, the channels that have it."""
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    notes = notes_on(row.package.catalog)
    return answer_one(
        request,
        (row.pk, row.blob_id, verdicts_state(row.package.catalog), notes),
        lambda: _bundle_detail(request, row, notes),
    )


def _bundle_detail(request: HttpRequest, bundle: Bundle, notes: HealthNotes) -> BundleDetail:
    channels = Channel.objects.filter(package=bundle.package, entries__name=bundle.name)
    gvks = list(bundle.gvks.all())
    return BundleDetail(
        **shallow(bundle_row(bundle)),
        channels=list(channels.order_by("name").values_list("name", flat=True).distinct()),
        provides=gvk_rows(gvks, required=False),
        requires=gvk_rows(gvks, required=True),
        related_images=[
            RelatedImageRow(image.name, image.image) for image in bundle.related_images.all()
        ],
        verdicts=[
            verdict_row(verdict, bundle.name, notes[verdict.path])
            for verdict in verdicts_of(bundle, bundle.package.catalog.cluster_id)
        ],
        fbc=f"{request.path}/fbc" if bundle.blob_id else None,
    )


# A bundle name may hold slashes.
@router.post(
    "/inspections/{cluster}/{catalog}/{package}/{path:bundle}", response={202: BundleInspectionRow}
)
def create_inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """Has a worker pull the manifests of the bundle's image; a second request meanwhile returns the
    same inspection. Needs a token with the scope act."""
    require_scope(request)
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    request_inspection(row, request.user)
    response = json_response(inspection_row(row, stored.inspection_of(row)))
    response.status_code = 202
    return response


@router.get(
    "/inspections/{cluster}/{catalog}/{package}/{path:bundle}", response=BundleInspectionRow
)
def get_inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """State of the inspection of the bundle's image."""
    refuse_parameters(request)
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    inspection = inspection_row(row, stored.inspection_of(row))
    if not request.user.is_authenticated:
        inspection = replace(inspection, user="")  # names of people are not public
    return answer_one(request, (inspection,), lambda: inspection)
