"""Looks up catalogs, packages, bundles and icons by their names in URLs and commands.

Every function raises `Missing`, with a code for each kind of object, for an unknown name. Names
contain no NUL characters: `olmweb.errors.refuse_nul` has refused those.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from catalogs.models import Bundle, Catalog, ContentProblem, Icon, Package
from olmweb.errors import BadRequest, Missing
from olmweb.models import LOCAL


def split_reference(reference: str) -> tuple[str, str]:
    """Cluster and name of a catalog's reference, CLUSTER/NAME, as `str(catalog)` writes it; LOCAL
    is the cluster of a catalog without one. Raises ValueError for anything else."""
    cluster, slash, slug = reference.partition("/")
    if not (cluster and slash and slug) or "/" in slug:
        raise ValueError(
            f"must be CLUSTER/NAME, or {LOCAL}/NAME for a catalog of no cluster, not "
            f'"{reference[:80]}".'
        )
    return cluster, slug


def referenced_catalog(reference: str, field: str = "catalog") -> Catalog:
    """The catalog of a reference. Raises Missing, and BadRequest that names `field` for a text that
    is no reference."""
    try:
        cluster, slug = split_reference(reference)
    except ValueError as error:
        message = f"{field} {error}"
        raise BadRequest(message, code="bad-parameter", **{field: message}) from None
    return get_catalog(cluster, slug)


def at_references(references: Iterable[str], prefix: str = "") -> Q:
    """Rows of the catalogs with these references; `prefix` is the path to the catalog."""
    return reduce(or_, (_at(*split_reference(text), prefix) for text in references), Q(pk__in=()))


def get_catalog(cluster: str, slug: str) -> Catalog:
    """The catalog at `/catalogs/CLUSTER/SLUG`, with its cluster and the inspection of its images;
    one query."""
    catalogs = Catalog.objects.select_related("cluster", "image_inspection")
    catalog = catalogs.filter(_at(cluster, slug)).first()
    if catalog is None:
        where = "outside of clusters" if cluster == LOCAL else f"on cluster “{cluster[:100]}”"
        raise Missing(
            f"There is no catalog “{slug[:100]}” {where}.",
            code="unknown-catalog",
            hint="See the list of catalogs.",
        )
    return catalog


def get_named_catalog(name: str) -> Catalog:
    """The catalog of NAME or CLUSTER/NAME; also raises Missing when several have the name.

    LOCAL/NAME is the catalog without a cluster.
    """
    cluster, _, slug = name.rpartition("/")
    catalogs = Catalog.objects.select_related("cluster")
    matches = list(catalogs.filter(_at(cluster, slug) if cluster else Q(slug=slug)))
    if len(matches) > 1:
        raise Missing(
            f"Several catalogs have that name: {', '.join(map(str, matches))}.",
            code="several-catalogs",
            hint=f"Name one in full (for one of no cluster: -- {LOCAL}/{slug}).",
        )
    if not matches:
        names = ", ".join(map(str, catalogs)) or "none"
        raise Missing(f'No catalog is called "{name}" (known: {names}).', code="unknown-catalog")
    return matches[0]


def get_package(cluster: str, slug: str, name: str) -> Package:
    """The package at `/software/CLUSTER/SLUG/NAME`, with its catalog and cluster; one query."""
    rows = Package.objects.select_related("catalog__cluster")
    package = rows.filter(_at(cluster, slug, "catalog__"), name=name).first()
    if package is None:
        raise _no_package(cluster, slug, name)
    return package


def get_sources(cluster: str, slug: str, name: str) -> tuple[Package, Sequence[Package]]:
    """As `get_package`, and the packages of that name in every catalog, winner first, each with
    `problem_count` of its catalog's problems; one query."""
    problems = ContentProblem.objects.filter(
        catalog=OuterRef("catalog"), package=OuterRef("name")
    ).order_by()
    counted = problems.values("catalog").annotate(count=Count("pk")).values("count")
    sources = sorted(
        Package.objects.filter(name=name)
        .select_related("catalog__cluster")
        .annotate(problem_count=Coalesce(Subquery(counted), 0)),
        key=precedence,
    )
    for package in sources:
        if (package.catalog.cluster_name, package.catalog.slug) == (cluster, slug):
            return package, sources
    raise _no_package(cluster, slug, name)


def precedence(package: Package) -> tuple[bool, int, str, str]:
    """The sort key of packages of one name: the first is the one that lists show and, unless a
    catalog is named, that is installed."""
    catalog = package.catalog
    disabled = catalog.state == Catalog.State.DISABLED
    return (disabled, -catalog.priority, catalog.slug, catalog.cluster_name)


def get_bundle(package: Package, name: str) -> Bundle:
    """The first bundle with this name, with `package`; one query."""
    return get_bundles(package, name)[0]


def get_bundles(package: Package, name: str) -> Sequence[Bundle]:
    """The bundles with this name, newest version first: the format allows duplicates."""
    bundles = list(package.bundles.filter(name=name).select_related("blob"))
    if not bundles:
        raise Missing(
            f"Package “{package.name}” of catalog “{package.catalog}” has no bundle "
            f"“{name[:100]}”.",
            code="unknown-bundle",
            hint="Its tab Versions lists the bundles that the catalog has now.",
        )
    for bundle in bundles:
        bundle.package = package
    return bundles


def get_icon(sha256: str) -> Icon:
    icon = Icon.objects.filter(pk=sha256).first()
    if icon is None:
        raise Missing("There is no such icon.", code="unknown-icon")
    return icon


def _no_package(cluster: str, slug: str, name: str) -> Missing:
    return Missing(
        f"Catalog “{get_catalog(cluster, slug)}” has no package “{name[:100]}”.",
        code="unknown-package",
        hint="It may have been removed by a newer revision: the catalog's page lists changes.",
    )


def _at(cluster: str, slug: str, prefix: str = "") -> Q:
    """Filters by the catalog of a URL; `prefix` is the path to it from the filtered rows."""
    where = {f"{prefix}cluster": None} if cluster == LOCAL else {f"{prefix}cluster__name": cluster}
    return Q(**where, **{f"{prefix}slug": slug})
