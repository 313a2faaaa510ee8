"""The contents of a bundle compared with a cluster, read from stored rows.

`catalogs.contents` reads the facts of the bundle. This module adds the owners of its CRDs on the
cluster, the providers of its dependencies, and the difference to the installed bundle.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.contents.difference import DifferenceSection, difference
from catalogs.contents.objects import Manifests
from catalogs.contents.report import BundleReport, Crd, images, report
from catalogs.contents.stored import contents_of, manifests_of
from catalogs.fbc import blob as fbc
from catalogs.models import Bundle, Catalog, Package
from catalogs.storage import blobs
from catalogs.verdicts.dependencies import (
    OLM_V0,
    RequiredPackage,
    Requirement,
    installed_of,
    providers_of,
    requirement_text,
    requirements_of,
)
from installs.facts.dependency_offers import RequiredOffers, beside, merged, read_offers
from installs.models import CRDState, Operator
from installs.state.catalog_offers import usable_catalogs
from olmweb.models import Cluster

PROVIDERS = 10  # named for each need
BUNDLE_PACKAGE = "operators.operatorframework.io.bundle.package.v1"


@dataclass(frozen=True, slots=True)
class CrdHere:
    """A CRD of the bundle and its state on the cluster. `here` is None without a cluster.

    `owner` is empty if it has no known owner; `warnings` say what an install would break.
    """

    name: str
    kind: str
    scope: str
    versions: tuple[str, ...]
    here: bool | None
    stored: tuple[str, ...] = ()
    owner: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """A dependency of the bundle. `providers` are the packages of the cluster's catalogs that meet
    it, `installed` the packages that meet it by an operator of OLM v0 on the cluster."""

    what: str
    providers: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class BundleContents:
    """The contents of one bundle for pages and the API. If `inspected` is False, only the catalog's
    metadata is known: empty kinds, permissions and webhooks then mean unknown."""

    inspected: bool
    report: BundleReport
    crds: tuple[CrdHere, ...]
    needs: tuple[Need, ...]
    namespaces: tuple[str, ...]
    notes: tuple[str, ...]


def contents(bundle: Bundle, cluster: Cluster | None) -> BundleContents:
    """At most ten queries. `bundle` is loaded with its package."""
    manifests = manifests_of(bundle)
    related = list(bundle.related_images.values_list("name", "image"))
    facts = _facts(bundle)
    if manifests is not None:
        bundle_report = report(manifests, related)
    else:
        bundle_report = BundleReport(images=images(related), crds=_bundle_crds(facts))
    return BundleContents(
        inspected=manifests is not None,
        report=bundle_report,
        crds=_crds_here(bundle_report.crds, cluster, versions_known=manifests is not None),
        needs=_needs(bundle.package.catalog, facts, cluster),
        namespaces=_namespaces(bundle, bundle_report),
        notes=_notes(bundle, manifests),
    )


def installed_bundle(package: Package, cluster: Cluster | None) -> Bundle | None:
    """The bundle of the package that the cluster runs, if the catalog has it. Two queries."""
    if cluster is None:
        return None
    for name, version in Operator.objects.filter(
        cluster=cluster, package=package.name, health__in=("Healthy", "Degraded", "Upgrading")
    ).values_list("bundle", "version"):
        same = Q(name=name) | Q(image=name) if name else Q(version=version)
        row = Bundle.objects.filter(same, package=package).first()
        if row is None and version:
            row = Bundle.objects.filter(package=package, version=version).first()
        if row is not None:
            return row
    return None


def between(before: Bundle, after: BundleContents) -> tuple[DifferenceSection, ...] | None:
    """The difference from the bundle `before` to `after`; None if either is not inspected.

    At most four queries.
    """
    manifests = manifests_of(before)
    if manifests is None or not after.inspected:
        return None
    related = before.related_images.values_list("name", "image")
    return difference(report(manifests, related), after.report)


def _facts(bundle: Bundle) -> Contents:
    stored = contents_of(bundle)
    if stored is not None:
        return stored
    blob = blobs.read_blob(bundle.blob_id) if bundle.blob_id else None
    try:
        return read_contents(blob) if blob else Contents()
    except fbc.DECODE_ERRORS:
        return Contents()


def _bundle_crds(facts: Contents) -> tuple[Crd, ...]:
    """The owned CRDs with the names and kinds that the metadata has."""
    kinds = {kind.group: kind.kind for kind in facts.provides}
    names = dict.fromkeys(facts.owned_crds)
    return tuple(Crd(name, kinds.get(name.partition(".")[2], ""), "", ()) for name in names)


def _crds_here(
    crds: Sequence[Crd], cluster: Cluster | None, *, versions_known: bool
) -> tuple[CrdHere, ...]:
    rows = {}
    if cluster is not None and crds:
        names = [crd.name for crd in crds]
        rows = {row.name: row for row in CRDState.objects.filter(cluster=cluster, name__in=names)}
    result = []
    for crd in crds:
        row = rows.get(crd.name)
        versions = {version.name: version.served for version in crd.versions}
        result.append(
            CrdHere(
                crd.name,
                crd.kind,
                crd.scope,
                tuple(versions),
                None if cluster is None else row is not None,
                tuple(row.stored) if row else (),
                _owner(row) if row else "",
                _warnings(row, versions) if row and versions_known else (),
            )
        )
    return tuple(result)


def _owner(row: CRDState) -> str:
    owner = row.operator
    if owner is None:
        return ""
    where = f"{owner.namespace}/" if owner.namespace else ""
    return f"{owner.kind} {where}{owner.name}".strip()


def _warnings(row: CRDState, versions: dict[str, bool]) -> tuple[str, ...]:
    warnings = []
    lost = [name for name in row.stored if name not in versions]
    if lost:
        warnings.append(
            f"Objects are stored as {', '.join(lost)} here, which the bundle no longer has: "
            "the install is refused until they are migrated."
        )
    gone = [name for name in row.served if not versions.get(name) and name not in lost]
    if gone:
        warnings.append(
            f"{', '.join(gone)} is served here and would not be any more: whoever uses it breaks."
        )
    return tuple(warnings)


def _needs(catalog: Catalog, facts: Contents, cluster: Cluster | None) -> tuple[Need, ...]:
    """The declared dependencies of the bundle. At most three queries."""
    requirements, constraints = requirements_of(
        facts.required_packages, facts.requires, facts.constraints
    )
    in_reach = Q(pk=catalog.pk)
    if cluster is not None:
        in_reach |= usable_catalogs(cluster.pk) & beside(catalog)
    offers = merged(read_offers(in_reach, requirements).values())
    installed = _installed(requirements, offers, cluster) if cluster is not None else {}
    needs = []
    for requirement in requirements:
        names = providers_of(requirement, offers)
        present = installed_of(requirement, installed, offers)
        needs.append(
            Need(
                requirement_text(requirement),
                tuple(names[:PROVIDERS]),
                tuple(present),
                max(0, len(names) - PROVIDERS),
            )
        )
    needs += [Need(f"Label {name}") for name in facts.required_labels]
    needs += [Need(f"API of the cluster {kind.label}") for kind in facts.native_apis]
    if constraints:
        count = len(constraints)
        needs.append(Need(f"{count} further constraint{'s' * (count != 1)} (olm.constraint)"))
    return tuple(needs)


def _installed(
    requirements: Sequence[Requirement], offers: RequiredOffers, cluster: Cluster
) -> dict[str, list[str]]:
    """The versions of the operators of OLM v0 on the cluster, in any namespace, by package. One
    query, none without requirements."""
    packages = {row.name for row in requirements if isinstance(row, RequiredPackage)}
    packages |= {package for names in offers.providers.values() for package in names}
    if not packages:
        return {}
    rows = Operator.objects.filter(cluster=cluster, kind__in=OLM_V0, package__in=packages)
    installed: dict[str, list[str]] = defaultdict(list)
    for package, version in rows.order_by().values_list("package", "version"):
        installed[package].append(version)
    return installed


def _namespaces(bundle: Bundle, bundle_report: BundleReport) -> tuple[str, ...]:
    """The namespaces that an install creates or writes to."""
    own = bundle.suggested_namespace or f"{bundle.package.name}-system"
    why = (
        "suggested by the bundle"
        if bundle.suggested_namespace
        else "as a PlatformOperator; the bundle suggests none"
    )
    return (f"{own} ({why})", *(name for name in bundle_report.namespaces if name != own))


def _notes(bundle: Bundle, manifests: Manifests | None) -> tuple[str, ...]:
    if manifests is None:
        return ()
    notes = []
    package = manifests.annotations.get(BUNDLE_PACKAGE, bundle.package.name)
    if package != bundle.package.name:
        notes.append(
            f"The image says that it is of package {package}, the catalog that it is of "
            f"{bundle.package.name}."
        )
    if manifests.folders:
        notes.append(
            f"manifests/ holds the folder {', '.join(manifests.folders[:5])}: a PlatformOperator "
            "refuses to unpack that, and other installers pass it over."
        )
    return tuple(notes)
