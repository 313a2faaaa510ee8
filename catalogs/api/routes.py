"""REST routes of catalogs, packages and bundles (GET only; nothing here asks a cluster).

Filters mean what the pages' facets mean. Whether a package is installed is asked through the app
registry: catalogs must not import installs.
"""

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.db.models import (
    BooleanField,
    Exists,
    F,
    Func,
    Max,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
)
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup, search
from catalogs.api.rows import (
    BundleDetail,
    BundleRow,
    CatalogDetail,
    CatalogRow,
    ImageRow,
    PackageDetail,
    PackageRow,
    bundle_row,
    catalog_detail,
    catalog_row,
    channel_row,
    gvk_rows,
    package_row,
    shallow,
)
from catalogs.api.verdicts import INSTALLABLE, bundle_verdicts, package_verdicts
from catalogs.models import (
    Bundle,
    BundleGVK,
    Catalog,
    Channel,
    ChannelEntry,
    Package,
    PackageText,
)
from olmweb.api.formats import answer_one
from olmweb.api.lists import Filter, Key, ListOf, Page, answer_list, boolean, exact, named_or_none
from olmweb.models import Cluster

REVISIONS_TOLD = 20
router = Router(tags=["Catalogs"])


# --- conditions -------------------------------------------------------------------------------


class HasItem(Func):
    """Whether the JSON list in the first expression holds the text in the second."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler,
            connection,
            template="EXISTS (SELECT 1 FROM json_each(%(expressions)s))",
            arg_joiner=") WHERE value = (",
            **context,
        )

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler,
            connection,
            template="(%(expressions)s))",
            arg_joiner=" @> jsonb_build_array(",
            **context,
        )


def holding(name: str, about: str, field: str) -> Filter:
    """A filter on a JSON list of texts."""
    return Filter(
        name,
        about,
        lambda value: Q(HasItem(F(field), Cast(Value(value), TextField()))),
    )


def operators() -> Any:
    """Installed things, by the app registry: catalogs must not import installs.

    What failed to install is not among them, as in the software catalog.
    """
    everything = apps.get_model("installs", "Operator")._default_manager
    return everything.exclude(health__in=search.NOT_INSTALLED)


def installed() -> Q:
    """Packages installed on their catalog's cluster (on any, for a catalog without one)."""
    same = operators().filter(package=OuterRef("name"))
    here = Q(Exists(same.filter(cluster=OuterRef("catalog__cluster"))))
    return here | (Q(catalog__cluster=None) & Q(Exists(same)))


def of_channel(value: str) -> Q:
    entries = ChannelEntry.objects.filter(
        channel__package=OuterRef("package"), channel__name=value, name=OuterRef("name")
    )
    return Q(Exists(entries))


def providing(value: str) -> Q:
    group, slash, kind = value.rpartition("/")
    if not slash or not kind:
        raise ValueError(
            f'must be GROUP/KIND, such as etcd.database.coreos.com/EtcdCluster, not "{value[:60]}".'
        )
    gvks = BundleGVK.objects.filter(group=group, kind=kind, required=False)
    return Q(pk__in=gvks.order_by().values("bundle_id"))


def kind_provided(value: str) -> Q:
    """Packages of which any bundle provides GROUP/KIND."""
    kind = Cast(Value(value), TextField())
    return Q(HasItem(F("search__provides"), kind)) | Q(HasItem(F("search__provided_before"), kind))


def meant_by(value: str) -> Q:
    """Packages that a search means: the same as the software catalog shows."""
    asked = search.take_apart(value)
    if asked.nothing:
        raise ValueError(f'needs a word to look for, not "{value[:60]}".')
    hits = search.find_hits(search.current_index(search.catalog_stamps()), asked)
    return Q(pk__in=hits.scores if hits else ())


def using_image(value: str) -> Q:
    index = search.current_index(search.catalog_stamps())
    return search.using_image(value, search.packages_with_image(index, value))


def catalog_filters(prefix: str) -> tuple[Filter, Filter]:
    """The filters `cluster` and `catalog` of rows whose catalog is at `prefix`."""
    return (
        named_or_none(
            "cluster",
            "Name of the cluster; `-` for catalogs that no cluster serves.",
            f"{prefix}cluster__name",
            Q(**{f"{prefix}cluster": None}),
        ),
        exact("catalog", "Name of the catalog.", f"{prefix}slug"),
    )


# --- lists ------------------------------------------------------------------------------------


def _package_rows(packages: Sequence[Package]) -> list[PackageRow]:
    names = {package.name for package in packages}
    pairs = set(operators().filter(package__in=names).values_list("cluster_id", "package"))
    anywhere = {package for _, package in pairs}
    return [
        package_row(
            package,
            installed=package.name in anywhere
            if package.catalog.cluster_id is None
            else (package.catalog.cluster_id, package.name) in pairs,
        )
        for package in packages
    ]


CATALOGS: ListOf[Catalog] = ListOf(
    name="catalogs",
    row=CatalogRow,
    order=(Key("slug"), Key("id")),
    rows=lambda catalogs: [catalog_row(catalog) for catalog in catalogs],
    filters=(
        catalog_filters("")[0],
        Filter(
            "state",
            "State of its content.",
            lambda value: Q(state=value),
            choices=tuple(Catalog.State.values),
        ),
    ),
)
PACKAGES: ListOf[Package] = ListOf(
    name="packages",
    row=PackageRow,
    order=(Key("name"), Key("id")),
    rows=_package_rows,
    filters=(
        *catalog_filters("catalog__"),
        Filter(
            "q",
            "Words, as in the software catalog: names (typing mistakes forgiven), keywords, kinds, "
            "provider, description; provides:KIND, provides:GROUP/KIND, image:REPOSITORY or a "
            "digest.",
            meant_by,
        ),
        holding("category", "One of its categories.", "categories"),
        exact("capability", "Capability level, such as Seamless Upgrades.", "capability"),
        exact("provider", "Provider.", "provider"),
        holding("keyword", "One of its keywords.", "keywords"),
        holding("install_mode", "An install mode that its head supports.", "install_modes"),
        holding("infrastructure_feature", "One of its head's.", "infrastructure_features"),
        Filter("provides", "GROUP/KIND of an API that a bundle of it provides.", kind_provided),
        INSTALLABLE,
        boolean("deprecated", "Deprecated as a whole.", lambda: Q(deprecated=True)),
        boolean("installed", "Installed on the catalog's cluster.", installed),
    ),
)
BUNDLES: ListOf[Bundle] = ListOf(
    name="bundles",
    row=BundleRow,
    order=(Key("name"), Key("id")),
    rows=lambda bundles: [bundle_row(bundle) for bundle in bundles],
    filters=(
        *catalog_filters("package__catalog__"),
        exact("package", "Name of the package.", "package__name"),
        Filter("channel", "A channel that has it as an entry.", of_channel),
        exact("version", "Version, exactly.", "version"),
        Filter("provides", "GROUP/KIND of an API that it provides.", providing),
        Filter(
            "image",
            "A part of an image reference that it uses, or a digest (12 or more characters).",
            using_image,
        ),
    ),
)


# --- routes -----------------------------------------------------------------------------------


def content_state() -> list[Any]:
    """What changes whenever packages, bundles, verdicts or what is installed do; two queries."""
    catalogs = Catalog.objects.order_by("id").annotate(judged=Max("prediction_runs__judged_at"))
    return [
        *catalogs.values_list(
            "id", "slug", "revision", "content_hash", "changed_at", "synced_digest", "judged"
        ),
        *Cluster.objects.order_by("id").values_list("id", "name", "revision"),
    ]


@router.get("/catalogs", response=Page[CatalogRow], openapi_extra=CATALOGS.openapi())
def list_catalogs(request: HttpRequest) -> HttpResponseBase:
    """Catalogs, with how fresh their content is and what the last attempt said."""
    catalogs = Catalog.objects.select_related("cluster")
    return answer_list(request, CATALOGS, catalogs, _rows_state(catalogs))


def _rows_state(catalogs: QuerySet[Catalog]) -> list[CatalogRow]:
    """Few rows and many things that change: the state is what the rows say."""
    return [catalog_row(catalog) for catalog in catalogs.order_by("id")]


@router.get("/catalogs/{cluster}/{catalog}", response=CatalogDetail)
def get_catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponseBase:
    """One catalog, its conditions and its newest revisions."""
    found = lookup.get_catalog(cluster, catalog)
    return answer_one(
        request,
        (catalog_row(found), found.conditions),
        lambda: catalog_detail(found, revisions=REVISIONS_TOLD),
    )


def state_of(catalog: Catalog) -> tuple[Any, ...]:
    return (
        *(catalog.pk, catalog.revision, catalog.content_hash, catalog.changed_at),
        *(catalog.synced_digest, catalog.problem_count),
    )


@router.get("/packages", response=Page[PackageRow], openapi_extra=PACKAGES.openapi())
def list_packages(request: HttpRequest) -> HttpResponseBase:
    """Packages of every catalog, with what their default channel's head says."""
    packages = Package.objects.select_related("catalog__cluster")
    return answer_list(request, PACKAGES, packages, content_state())


@router.get("/packages/{cluster}/{catalog}/{package}", response=PackageDetail)
def get_package(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponseBase:
    """One package with its texts, channels and their entries."""
    found = lookup.get_package(cluster, catalog, package)
    return answer_one(
        request, (found.content_hash, content_state()), lambda: _package_detail(found)
    )


def _package_detail(package: Package) -> PackageDetail:
    text = PackageText.objects.filter(package=package).first() or PackageText()
    channels = Channel.objects.filter(package=package).prefetch_related("entries")
    return PackageDetail(
        **shallow(_package_rows([package])[0]),
        description_html=text.description_html,
        links=text.links,
        maintainers=text.maintainers,
        channels=[channel_row(channel) for channel in channels],
        verdicts=package_verdicts(package),
    )


@router.get("/bundles", response=Page[BundleRow], openapi_extra=BUNDLES.openapi())
def list_bundles(request: HttpRequest) -> HttpResponseBase:
    """Bundles of every catalog."""
    bundles = Bundle.objects.select_related("package__catalog__cluster")
    return answer_list(request, BUNDLES, bundles, content_state())


@router.get("/bundles/{cluster}/{catalog}/{package}/{path:bundle}", response=BundleDetail)
def get_bundle(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """One bundle: what it provides and needs, its images, the channels that have it."""
    found = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    return answer_one(
        request,
        (found.pk, found.blob_id, state_of(found.package.catalog)),
        lambda: _bundle_detail(request, found),
    )


def _bundle_detail(request: HttpRequest, bundle: Bundle) -> BundleDetail:
    channels = Channel.objects.filter(package=bundle.package, entries__name=bundle.name)
    gvks = list(bundle.gvks.all())
    return BundleDetail(
        **shallow(bundle_row(bundle)),
        channels=list(channels.order_by("name").values_list("name", flat=True).distinct()),
        provides=gvk_rows(gvks, required=False),
        requires=gvk_rows(gvks, required=True),
        related_images=[ImageRow(image.name, image.image) for image in bundle.related_images.all()],
        verdicts=bundle_verdicts(bundle),
        fbc=f"{request.path}/fbc" if bundle.blob_id else None,
    )
