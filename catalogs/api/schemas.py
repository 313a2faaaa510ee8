"""What the REST API answers about catalogs, packages and bundles: shapes and how rows become them.

The dataclasses are the interface: their fields are the JSON keys, the CSV columns and the OpenAPI
document. Knows no HTTP.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from django.urls import reverse

from catalogs.fbc.lint_impact import reactions_of
from catalogs.install_methods import InstallMethod
from catalogs.models import (
    Bundle,
    BundleGVK,
    BundleInspection,
    Catalog,
    CatalogChange,
    CatalogInspection,
    Channel,
    ContentProblem,
    Package,
)
from catalogs.queries import sync_error
from catalogs.resolve.facts import BLOCKERS, REJECTIONS
from catalogs.revisions import compare
from catalogs.revisions.differences import FATE_LABELS
from catalogs.sources.access_methods import FAILED, IMPOSSIBLE, UNTRIED, USED
from catalogs.sources.connection import Reason
from catalogs.verdicts import catalog_inspection
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import StoredVerdict
from catalogs.verdicts.rules import RuleResult, Verdict
from catalogs.views.presenters import origin
from olmweb.api.openapi import CODES
from olmweb.api.parameters import OneOf, own_value
from olmweb.errors import Missing

R = TypeVar("R")

# Closed enums of the fields and filters.
ErrorCode = Annotated[str, OneOf(CODES, "ErrorCode")]
MethodName = Annotated[str, OneOf(tuple(InstallMethod), "InstallMethod")]
SourceKind = Annotated[str, OneOf(tuple(Catalog.SourceKind.values), "SourceKind")]
CatalogState = Annotated[str, OneOf(tuple(Catalog.State.values), "CatalogState")]
Availability = Annotated[str, OneOf(("Available", Catalog.UNAVAILABLE), "Availability")]
AccessMethodState = Annotated[str, OneOf((USED, FAILED, IMPOSSIBLE, UNTRIED), "AccessMethodState")]
ConnectFailureReason = Annotated[
    str, OneOf(tuple(str(reason) for reason in Reason), "ConnectFailureReason")
]
ImageInspectionState = Annotated[str, OneOf(catalog_inspection.STATES, "ImageInspectionState")]
BundleInspectionState = Annotated[
    str, OneOf(tuple(BundleInspection.State.values), "BundleInspectionState")
]
ProblemSeverity = Annotated[str, OneOf(tuple(ContentProblem.Severity.values), "ProblemSeverity")]
ChangeKind = Annotated[str, OneOf(tuple(CatalogChange.Kind.values), "CatalogChangeKind")]
DifferenceKind = Annotated[str, OneOf(tuple(compare.ChangeKind), "CatalogDifferenceKind")]
PackageChangeName = Annotated[str, OneOf(tuple(FATE_LABELS.values()), "PackageChange")]
VerdictName = Annotated[str, OneOf(tuple(Verdict), "VerdictValue")]
Target = Annotated[str, OneOf(tuple(WatchTarget), "WatchTarget")]
RejectionCode = Annotated[str, OneOf(REJECTIONS, "RejectionCode")]
ResolutionBlocker = Annotated[str, OneOf(BLOCKERS, "ResolutionBlocker")]


@dataclass(frozen=True, slots=True)
class LastError:
    """Why the last attempt failed, in words."""

    code: ErrorCode | Literal[""]
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """`catalog` is its reference, CLUSTER/NAME; `name` and `namespace` are those of the object on
    the cluster. `exact` false: rebuilt from answers, not the author's bytes. `stale`: the content
    is that of `synced_at` and may be another by now; `error` says why, and what to do."""

    cluster: str
    catalog: str
    catalog_url: str
    source_kind: SourceKind
    namespace: str
    name: str
    priority: int
    availability: Availability
    state: CatalogState
    stale: bool
    access_method: str
    exact: bool
    resolved_digest: str
    content_hash: str
    revision: int
    packages: int
    channels: int
    bundles: int
    problems: int
    error: LastError | None
    failing_since: datetime | None
    checked_at: datetime | None
    synced_at: datetime | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class CatalogRevisionRow:
    revision: int
    created_at: datetime
    content_hash: str
    digest: str
    counts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImageInspectionRow:
    """The inspection of all bundle images of the catalog, for `revision`. `state` is off, queued,
    running, waiting (until `next_turn_at`, for the registries or the budget in `waiting_for`),
    complete or stopped. `failed` maps reasons to images."""

    state: ImageInspectionState
    enabled: bool
    revision: int | None
    wanted: int
    inspected: int
    reused: int
    failed: dict[str, int]
    left: int
    bytes: int
    requests: int
    waiting_for: list[str]
    started_at: datetime | None
    next_turn_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class AccessMethodRow:
    """One of the ways to read a catalog: `message` is why it is not used; `reason` why its server
    could not be reached, empty for another cause."""

    name: str
    state: AccessMethodState
    message: str
    reason: ConnectFailureReason | Literal[""]


@dataclass(frozen=True, slots=True)
class CatalogDetail(CatalogRow):
    """`access_methods` are in the order of preference."""

    source: str
    access_methods: list[AccessMethodRow]
    conditions: list[Any]
    revisions: list[CatalogRevisionRow]
    images: ImageInspectionRow


@dataclass(frozen=True, slots=True)
class PackageRow:
    cluster: str
    catalog: str
    catalog_url: str
    package: str
    display_name: str
    summary: str
    provider: str
    default_channel: str
    bundle: str
    version: str
    categories: list[str]
    keywords: list[str]
    capability: str
    infrastructure_features: list[str]
    install_modes: list[str]
    deprecated: bool
    deprecation: str
    channel_count: int
    bundle_count: int
    icon: str | None
    installed: bool


@dataclass(frozen=True, slots=True)
class ChannelEntryRow:
    name: str
    replaces: str
    skips: list[str]
    skip_range: str


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """`head` is empty when the channel has not exactly one."""

    channel: str
    default: bool
    head: str
    head_version: str
    deprecated: bool
    deprecation: str
    entries: list[ChannelEntryRow]


@dataclass(frozen=True, slots=True)
class RuleResultRow:
    """A rule that applies to a bundle, or to the catalog as a whole."""

    rule: str
    title: str
    verdict: VerdictName
    sentence: str


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """The stored verdict on `bundle` and an install method; `rule` is empty for an installable one.
    `target` is what a Subscription's OperatorGroup selects. `notes` are on the catalog: what its
    health means for every bundle of it, which is no part of the verdict."""

    method: MethodName
    target: Target
    verdict: VerdictName
    rule: str
    sentence: str
    bundle: str
    notes: list[RuleResultRow]


@dataclass(frozen=True, slots=True)
class PackageDetail(PackageRow):
    """`verdicts` are on the bundles that each install method would choose; `bundle` is the head of
    the default channel. The verdicts on any other bundle are in its own answer."""

    description_html: str
    links: list[Any]
    maintainers: list[Any]
    channels: list[ChannelRow]
    verdicts: list[VerdictRow]


@dataclass(frozen=True, slots=True)
class BundleRow:
    """`install_modes`, `webhooks`, `owned_api_services`: null where only the full CSV has them."""

    cluster: str
    catalog: str
    catalog_url: str
    package: str
    bundle: str
    version: str
    release: str
    image: str
    display_name: str
    install_modes: list[str] | None
    webhooks: int | None
    owned_api_services: int | None
    min_kube_version: str
    max_openshift_version: str
    suggested_namespace: str
    released_at: str
    deprecated: bool
    deprecation: str
    required_packages: list[Any]
    constraint_count: int


@dataclass(frozen=True, slots=True)
class GroupVersionKindRow:
    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class RelatedImageRow:
    name: str
    image: str


@dataclass(frozen=True, slots=True)
class BundleDetail(BundleRow):
    channels: list[str]
    provides: list[GroupVersionKindRow]
    requires: list[GroupVersionKindRow]
    related_images: list[RelatedImageRow]
    verdicts: list[VerdictRow]
    fbc: str | None


@dataclass(frozen=True, slots=True)
class ReactionsRow:
    """Each is "refuses the whole catalog", "skips it" or "installs anyway"."""

    opm: str
    olm_v0: str
    operator_controller: str
    platform_operator: str


@dataclass(frozen=True, slots=True)
class CatalogProblemRow:
    """`subject` is a channel or bundle; `offset` a byte of the decoded catalog, `line` counts from
    1 in `file` ("" for a catalog of one file): where it was when its package was last written."""

    package: str
    subject: str
    field: str
    code: str
    title: str
    severity: ProblemSeverity
    message: str
    offset: int | None
    file: str
    line: int | None
    excerpt: str
    remedy: str
    reactions: ReactionsRow


@dataclass(frozen=True, slots=True)
class BundleInspectionRow:
    """`digest` and `objects` are of the last time that the image was read, null before. A queued
    inspection whose registry asked to wait goes on at `next_attempt_at`."""

    bundle: str
    image: str
    state: BundleInspectionState
    user: str
    created_at: datetime
    finished_at: datetime | None
    next_attempt_at: datetime | None
    bytes_done: int
    bytes_total: int
    digest: str | None
    objects: int | None
    error: LastError | None


@dataclass(frozen=True, slots=True)
class ResolutionCandidateRow:
    """`code` is "" for the chosen one; `reason` says the same in words."""

    bundle: str
    version: str
    channels: list[str]
    chosen: bool
    code: RejectionCode | Literal[""]
    reason: str


@dataclass(frozen=True, slots=True)
class ResolutionRow:
    """`bundle` is "" when nothing would be chosen: then `blocked_by` is a code, and `message` what
    the controller would say. The chosen candidate comes first."""

    bundle: str
    version: str
    channel: str
    reason: str
    blocked_by: ResolutionBlocker | Literal[""]
    message: str
    candidates: list[ResolutionCandidateRow]


@dataclass(frozen=True, slots=True)
class CatalogChangeRow:
    """`affects`: a sentence for each installed operator that the change concerns."""

    revision: int
    created_at: datetime | None
    kind: ChangeKind
    package: str
    subject: str
    before: str
    after: str
    affects: list[str]


@dataclass(frozen=True, slots=True)
class CatalogDifferenceRow:
    """`change` of the package: removed, added or changed. `affects`: a sentence for each installed
    operator that is affected, where both sides are revisions of the same catalog. Between two
    catalogs none is affected unless it moves: its sentence is in `affects_if_moved`."""

    change: PackageChangeName
    kind: DifferenceKind
    package: str
    subject: str
    before: str
    after: str
    affects: list[str]
    affects_if_moved: list[str]


def catalog_url(catalog: Catalog) -> str:
    """The address of a catalog in the REST API; `str(catalog)` is its reference."""
    return reverse("api:get_catalog", args=[catalog.cluster_name, catalog.slug])


def row_of(row: type[R], source: Any, **values: Any) -> R:
    """A row of `values`, and of the attributes of `source` by the names of the other fields."""
    names = row.__dataclass_fields__  # type: ignore[attr-defined]
    return row(**{name: getattr(source, name) for name in names if name not in values}, **values)


def shallow(row: Any) -> dict[str, Any]:
    """The fields of `row` by name, for the constructor of the detail that extends it."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def error_text(code: str, message: str, hint: str) -> LastError | None:
    return LastError(code, message, hint) if code or message else None


def catalog_row(catalog: Catalog) -> CatalogRow:
    error = sync_error(catalog)
    return row_of(
        CatalogRow,
        catalog,
        cluster=catalog.cluster_name,
        catalog=str(catalog),
        catalog_url=catalog_url(catalog),
        exact=not origin(catalog.access_method),
        packages=catalog.package_count,
        channels=catalog.channel_count,
        bundles=catalog.bundle_count,
        problems=catalog.problem_count,
        error=LastError(*error) if error else None,
    )


def catalog_detail(catalog: Catalog, *, revisions: int) -> CatalogDetail:
    """`revisions`: how many of the newest to include; one query."""
    newest = catalog.revisions.all()[:revisions]
    return CatalogDetail(
        **shallow(catalog_row(catalog)),
        source=catalog.source,
        access_methods=[
            AccessMethodRow(row["way"], own_value(row["state"]), row["why"], row.get("reason", ""))
            for row in catalog.access_methods
        ],
        conditions=catalog.conditions,
        revisions=[row_of(CatalogRevisionRow, r, revision=r.number) for r in newest],
        images=inspection_state(catalog),
    )


def inspection_state(catalog: Catalog) -> ImageInspectionRow:
    """The catalog comes with its `image_inspection`."""
    row = catalog_inspection.row_of(catalog) or CatalogInspection()
    return row_of(
        ImageInspectionRow,
        row,
        state=catalog_inspection.state_of(catalog),
        enabled=catalog_inspection.is_enabled(catalog),
        bytes=row.bytes_read,
    )


def package_row(package: Package, *, installed: bool) -> PackageRow:
    """`package` comes with its catalog and cluster."""
    return row_of(
        PackageRow,
        package,
        cluster=package.catalog.cluster_name,
        catalog=str(package.catalog),
        catalog_url=catalog_url(package.catalog),
        package=package.name,
        bundle=package.head_bundle,
        version=package.head_version,
        icon=reverse("catalogs:icon", args=[package.icon_id]) if package.icon_id else None,
        installed=installed,
    )


def channel_row(channel: Channel, graph: Channel) -> ChannelRow:
    """`graph` is the channel with the entries to show, which come with it."""
    entries = [row_of(ChannelEntryRow, entry) for entry in graph.entries.all()]
    return row_of(
        ChannelRow, channel, channel=channel.name, default=channel.is_default, entries=entries
    )


def bundle_row(bundle: Bundle) -> BundleRow:
    """`bundle` comes with its package, catalog and cluster."""
    return row_of(
        BundleRow,
        bundle,
        cluster=bundle.package.catalog.cluster_name,
        catalog=str(bundle.package.catalog),
        catalog_url=catalog_url(bundle.package.catalog),
        package=bundle.package.name,
        bundle=bundle.name,
        install_modes=bundle.install_modes if bundle.install_modes_known else None,
    )


def gvk_rows(gvks: Iterable[BundleGVK], *, required: bool) -> list[GroupVersionKindRow]:
    return [row_of(GroupVersionKindRow, gvk) for gvk in gvks if gvk.required == required]


def problem_rows(problems: Iterable[ContentProblem]) -> list[CatalogProblemRow]:
    rows = []
    for problem in problems:
        about = reactions_of(problem.code)
        reactions = row_of(ReactionsRow, about)
        texts = {"title": about.title, "remedy": about.remedy}
        rows.append(row_of(CatalogProblemRow, problem, **texts, reactions=reactions))
    return rows


def inspection_row(bundle: Bundle, row: BundleInspection | None) -> BundleInspectionRow:
    """Raises Missing for a bundle whose image nobody had inspected."""
    if row is None:
        raise Missing(
            f"The image of bundle {bundle.name[:100]} was not inspected.",
            code="not-inspected",
            hint="POST to the same address to have it inspected.",
        )
    return row_of(
        BundleInspectionRow,
        row,
        bundle=bundle.name,
        user=row.asked_by,
        created_at=row.asked_at,
        bytes_done=row.done,
        bytes_total=row.total,
        digest=row.manifests.digest if row.manifests else None,
        objects=row.manifests.objects_held if row.manifests else None,
        error=error_text(row.error_code, row.error_text, row.error_hint),
    )


def verdict_row(verdict: StoredVerdict, bundle: str, notes: Iterable[RuleResult]) -> VerdictRow:
    return row_of(
        VerdictRow,
        verdict,
        method=verdict.path,
        verdict=own_value(verdict.verdict),
        bundle=bundle,
        notes=[row_of(RuleResultRow, note, verdict=own_value(note.verdict)) for note in notes],
    )
