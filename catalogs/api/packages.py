"""REST routes of packages: list, detail, and the bundle that a controller would choose.

Filters mean what the pages' facets mean. Whether a package is installed is asked through the app
registry: catalogs must not import installs.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from django.apps import apps
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, TextField, Value
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router
from pydantic import AfterValidator, BeforeValidator, Field

from catalogs import lookup
from catalogs.api.catalogs import content_state
from catalogs.api.parameters import CATALOG, CLUSTER, METHOD, Method, References, on_clusters
from catalogs.api.schemas import (
    PackageDetail,
    PackageRow,
    ResolutionRow,
    channel_row,
    package_row,
    shallow,
    verdict_row,
)
from catalogs.install_methods import InstallMethod
from catalogs.lookup import at_references
from catalogs.models import Channel, Package, PackageText, Prediction, PredictionRun
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.stored import facts_of, full_package
from catalogs.search.find import ANSWERS, NOT_INSTALLED
from catalogs.search.index import MANY, catalog_stamps, current_index, upgrades
from catalogs.search.matching import find_hits
from catalogs.search.query import parse_query
from catalogs.verdicts.catalog_health import HealthNotes, notes_on
from catalogs.verdicts.read import TARGETS, verdicts_on_package
from catalogs.verdicts.rules import Verdict
from olmweb.api.formats import answer_one, refuse
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import OneOf, Parameters, Values, any_of, text, values

UNKNOWN = "-unknown"
router = Router(tags=["Catalogs"])


# --- filters ----------------------------------------------------------------------------------


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


def holding(field: str, items: Values) -> Q:
    """Rows whose JSON list `field` holds one of these texts."""
    return any_of(items, lambda item: Q(HasItem(F(field), Cast(Value(item), TextField()))))


def read_search(value: str) -> str:
    if parse_query(value).empty:
        raise ValueError(f'needs a word to look for, not "{value[:60]}".')
    return value


def read_answer(value: str) -> str:
    """An install method in any case, or one with UNKNOWN."""
    method = InstallMethod.parse(value.removesuffix(UNKNOWN))
    return f"{method}{UNKNOWN}" if value.endswith(UNKNOWN) else str(method)


class PackageParameters(ListParameters):
    cluster: Values = values(CLUSTER)
    catalog: References = values(CATALOG)
    q: list[Annotated[str, AfterValidator(read_search)]] | None = values(
        "Words, as in the software catalog: names (typing mistakes forgiven), keywords, kinds, "
        "provider, description; provides:KIND, provides:GROUP/KIND, image:REPOSITORY or a digest."
    )
    category: Values = values("One of its categories.")
    capability: Annotated[Values, FilterLookup("capability__in")] = values(
        "Capability level, such as Seamless Upgrades."
    )
    provider: Annotated[Values, FilterLookup("provider__in")] = values("Provider.")
    keyword: Values = values("One of its keywords.")
    install_mode: Values = values("An install mode that its head supports.")
    infrastructure_feature: Values = values("One of its head's.")
    provides: Values = values("GROUP/KIND of an API that a bundle of it provides.")
    installable: (
        list[Annotated[str, OneOf(ANSWERS["installable"]), BeforeValidator(read_answer)]] | None
    ) = values("What installs it, or may (METHOD-unknown), as predicted for its catalog's cluster.")
    deprecated: Annotated[list[bool] | None, FilterLookup("deprecated__in")] = values(
        "Deprecated as a whole."
    )
    installed: list[bool] | None = values("Installed on the catalog's cluster.")
    catalogs: list[Annotated[str, OneOf(ANSWERS["catalogs"])]] | None = values(
        "Whether one catalog has a package of this name or several; copies of a catalog on other "
        "clusters count as one."
    )
    versions: list[Annotated[str, OneOf(ANSWERS["versions"])]] | None = values(
        "Number of its versions."
    )
    upgrade_path: list[Annotated[str, OneOf(ANSWERS["upgrade_path"])]] | None = values(
        "Upgrades by OLM v0 in its default channel: direct from every version that has any, over "
        "intermediate versions from some, none, or unknown."
    )

    def filter_cluster(self, clusters: Values) -> Q:
        return on_clusters(clusters, "catalog__")

    def filter_catalog(self, references: References) -> Q:
        return at_references(references, "catalog__") if references else Q()

    def filter_q(self, queries: Values) -> Q:
        return any_of(queries, _matching)

    def filter_category(self, categories: Values) -> Q:
        return holding("categories", categories)

    def filter_keyword(self, keywords: Values) -> Q:
        return holding("keywords", keywords)

    def filter_install_mode(self, modes: Values) -> Q:
        return holding("install_modes", modes)

    def filter_infrastructure_feature(self, features: Values) -> Q:
        return holding("infrastructure_features", features)

    def filter_provides(self, kinds: Values) -> Q:
        return holding("search__provides", kinds) | holding("search__provided_before", kinds)

    def filter_installable(self, answers: Values) -> Q:
        return any_of(answers, _installable)

    def filter_installed(self, answers: list[bool] | None) -> Q:
        return any_of(answers, lambda wanted: _installed() if wanted else ~_installed())

    def filter_catalogs(self, answers: Values) -> Q:
        return any_of(answers, _in_catalogs)

    def filter_versions(self, answers: Values) -> Q:
        return any_of(answers, _with_versions)

    def filter_upgrade_path(self, answers: Values) -> Q:
        return any_of(answers, _upgraded)


def _in_catalogs(number: str) -> Q:
    """Packages of the names that so many catalogs have."""
    groups = current_index(catalog_stamps()).groups
    names = [group.rows[0].name for group in groups if group.package_values["catalogs"] == number]
    return Q(name__in=names)


def _with_versions(number: str) -> Q:
    return Q(bundle_count__gt=2) if number == MANY else Q(bundle_count=int(number))


def _upgraded(value: str) -> Q:
    """Packages with this value of the facet of upgrade paths."""
    groups = current_index(catalog_stamps()).groups
    rows = [(row.id, upgrades((row, *group.rows))) for group in groups for row in group.rows]
    return Q(pk__in=[pk for pk, row_value in rows if row_value == value])


def _matching(query: str) -> Q:
    """Packages that a search means: the same as the software catalog shows."""
    index = current_index(catalog_stamps())
    hits = find_hits(index, parse_query(query))
    return Q(pk__in=hits.scores if hits else ())


def _operators() -> Any:
    """Installed operators, by the app registry: catalogs must not import installs. As in the
    software catalog without those that failed to install."""
    everything = apps.get_model("installs", "Operator")._default_manager
    return everything.exclude(health__in=NOT_INSTALLED)


def _installed() -> Q:
    """Packages installed on their catalog's cluster (on any, for a catalog without one)."""
    same = _operators().filter(package=OuterRef("name"))
    here = Q(Exists(same.filter(cluster=OuterRef("catalog__cluster"))))
    return here | (Q(catalog__cluster=None) & Q(Exists(same)))


def _installable(value: str) -> Q:
    """Packages of which the path would take a bundle with this verdict, on their catalog's cluster.

    What a cluster's facts change replaces what the catalog alone says, as `overlaid` does; nothing
    matches of a catalog that was not evaluated for its cluster yet.
    """
    path = value.removesuffix(UNKNOWN)
    evaluated = PredictionRun.objects.filter(cluster=F("catalog__cluster")).values("catalog")
    decided = Q(catalog__cluster=None) | Q(catalog__in=evaluated)
    installable = _for_any_target(path, Verdict.INSTALLABLE)
    if value.endswith(UNKNOWN):
        return decided & _for_any_target(path, Verdict.UNKNOWN) & ~installable
    return decided & installable


def _for_any_target(path: str, verdict: Verdict) -> Q:
    matches = Q()
    for target in TARGETS if path == InstallMethod.SUBSCRIPTION else TARGETS[:1]:
        rows = Prediction.objects.filter(
            package=OuterRef("pk"), path=path, target=target.value, chosen=True
        )
        here, alone = rows.filter(cluster=OuterRef("catalog__cluster")), rows.filter(cluster=None)
        matches |= Q(Exists(here.filter(verdict=verdict.value)))
        matches |= Q(Exists(alone.filter(verdict=verdict.value))) & ~Q(Exists(here))
    return matches


# --- routes -----------------------------------------------------------------------------------


def _package_rows(packages: Sequence[Package]) -> list[PackageRow]:
    names = {package.name for package in packages}
    pairs = set(_operators().filter(package__in=names).values_list("cluster_id", "package"))
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


@router.get("/packages", response=Page[PackageRow])
def list_packages(request: HttpRequest, query: Query[PackageParameters]) -> HttpResponseBase:
    """Packages of every catalog, with the facts of their default channel's head."""
    packages = query.filter(Package.objects.select_related("catalog__cluster"))
    source = StoredRows(packages, ("name", "id"), _package_rows)
    return answer_list(request, query, "packages", PackageRow, source, content_state())


@router.get("/packages/{cluster}/{catalog}/{package}", response=PackageDetail)
def get_package(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponseBase:
    """One package with its texts, channels and their entries.

    The PackageManifest API has no upgrade graph: the entries of a package that was read with it are
    those of the ClusterCatalog that serves the same catalog, if that has the same bundles.
    """
    row = lookup.get_package(cluster, catalog, package)
    notes = notes_on(row.catalog)
    return answer_one(
        request,
        (row.content_hash, content_state(), notes),
        lambda: _package_detail(row, notes),
    )


def _package_detail(package: Package, notes: HealthNotes) -> PackageDetail:
    text = PackageText.objects.filter(package=package).first() or PackageText()
    full = full_package(package)
    channels = _channels_of(package)
    graph = channels if full == package else _channels_of(full)
    return PackageDetail(
        **shallow(_package_rows([package])[0]),
        description_html=text.description_html,
        links=text.links,
        maintainers=text.maintainers,
        channels=[channel_row(row, graph[name]) for name, row in channels.items()],
        verdicts=[
            verdict_row(verdict, verdict.bundle, notes[verdict.path])
            for verdict in verdicts_on_package(package, package.catalog.cluster_id)
        ],
    )


def _channels_of(package: Package) -> dict[str, Channel]:
    """By name, with their entries. Two queries."""
    rows = Channel.objects.filter(package=package).prefetch_related("entries")
    return {row.name: row for row in rows}


class ResolutionParameters(Parameters):
    method: Method = Field(description=METHOD)
    version: str = text(
        "Version range: >=1.2.0, <2.0.0 for ClusterExtension, >=1.2.0 <2.0.0 for others."
    )
    channel: list[str] | None = values(
        "A channel; may be repeated for ClusterExtension. Absent: any."
    )
    installed: str = text("Name of the bundle that is installed already.")


@router.get("/packages/{cluster}/{catalog}/{package}/resolve", response=ResolutionRow)
def get_resolution(
    request: HttpRequest,
    cluster: str,
    catalog: str,
    package: str,
    query: Query[ResolutionParameters],
) -> HttpResponseBase:
    """The bundle that OLM would choose, and the reasons that exclude the others, by the stored
    catalog."""
    row = lookup.get_package(cluster, catalog, package)

    def build() -> object:
        try:
            resolution = resolve(
                facts_of(row),
                query.method,
                channels=query.channel or [],
                version=query.version,
                installed=query.installed,
            )
        except BadQuestion as error:
            raise refuse(error.field, str(error)) from None
        return resolution

    return answer_one(request, (row.pk, row.content_hash, content_state()), build, query)
