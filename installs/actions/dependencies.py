"""The dependencies that OLM v0 installs beside the bundle of an install, from stored rows."""

from collections import defaultdict

from django.db.models import Q

from catalogs.contents.bundle_facts import ApiKind, Contents, read_contents
from catalogs.fbc import blob as fbc
from catalogs.models import Bundle, BundleGVK
from catalogs.storage.blobs import read_blob
from catalogs.verdicts.dependencies import (
    OLM_V0,
    Dependency,
    NamespaceResolver,
    Requirement,
    SearchedCatalog,
    requirements_of,
)
from installs.actions.install_rows import InstallRows
from installs.facts.dependency_offers import merged, read_offers
from installs.methods import METHODS, InstallChoice


def dependencies_of(choice: InstallChoice, rows: InstallRows, name: str) -> list[Dependency]:
    """The packages and APIs that a Subscription's bundle `name` requires. At most three queries,
    one more for a bundle with constraints, none for a bundle without dependencies."""
    bundle = rows.bundle(name)
    if bundle is None or not METHODS[choice.method].needs_group:
        return []
    requirements = _requirements(bundle)
    if not requirements:
        return []
    in_reach = Q(cluster=rows.cluster) | Q(pk=rows.package.catalog_id)
    offers = read_offers(in_reach, requirements)
    groups = rows.groups_in(choice.namespace)
    installed: dict[str, list[str]] = defaultdict(list)
    for row in rows.operators:
        if row.kind in OLM_V0 and row.namespace == choice.namespace:
            installed[row.package].append(row.version)
    resolver = NamespaceResolver(
        choice.namespace,
        (choice.catalog_namespace, choice.catalog),
        own_catalogs_only=len(groups) == 1 and groups[0].own_catalogs_only,
        installed=installed,
        catalogs=[
            SearchedCatalog(source.namespace, source.name, catalog.priority, of_catalog)
            for catalog, of_catalog in offers.items()
            for source in rows.catalog_sources
            # A ClusterCatalog of the same name has the same content.
            if source.name == catalog.name and catalog.namespace in ("", source.namespace)
        ],
        all_offers=merged(offers.values()),
    )
    return [resolver.resolve(requirement) for requirement in requirements]


def _requirements(bundle: Bundle) -> list[Requirement]:
    """At most two queries."""
    packages = [(row["name"], row["range"]) for row in bundle.required_packages]
    apis = _required_apis(bundle) if getattr(bundle, "requires_kind", False) else []
    constraints = _contents(bundle).constraints if bundle.constraint_count else ()
    return requirements_of(packages, apis, constraints)[0]


def _required_apis(bundle: Bundle) -> list[ApiKind]:
    rows = BundleGVK.objects.filter(bundle=bundle, required=True)
    fields = ("group", "kind", "version")
    return [
        ApiKind(group, version, kind)
        for group, kind, version in rows.order_by(*fields).values_list(*fields)
    ]


def _contents(bundle: Bundle) -> Contents:
    """By its blob in the catalog, which has all of its properties."""
    blob = read_blob(bundle.blob_id) if bundle.blob_id else None
    try:
        return read_contents(blob) if blob else Contents()
    except fbc.DECODE_ERRORS:
        return Contents()
