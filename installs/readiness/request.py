"""Requests for readiness: clusters, filters, the catalog of the next minor, and the text report.

Shared by the page and the REST API.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from catalogs import lookup
from catalogs.models import Catalog
from catalogs.resolve.stored import full_catalogs
from catalogs.revisions.text import plain
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from installs.diagnosis.aggregated import REFUSED_WHILE_FAILING
from installs.diagnosis.approvals import listing
from installs.readiness.blockers import TITLES, Weight
from installs.readiness.report import Readiness, ReadinessRow, readiness
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

WEIGHTS = tuple(weight.value for weight in Weight)
CODES = tuple(TITLES)


@dataclass(frozen=True, slots=True)
class ReadinessRequest:
    """Empty fields match everything. `following` is the catalog of the next minor."""

    cluster: str = ""
    weights: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    q: str = ""
    following: Catalog | None = None

    def matches(self, row: ReadinessRow) -> bool:
        text = f"{row.name} {row.package} {row.namespace} {row.sentence}".casefold()
        return (
            (not self.weights or row.weight in self.weights)
            and (not self.codes or row.code in self.codes)
            and all(word in text for word in self.q.casefold().split())
        )


def read_following(value: str, catalogs: Iterable[Catalog] = ()) -> Catalog | None:
    """The catalog that CLUSTER/CATALOG names (`-` for no cluster), of one that was read with the
    PackageManifest API the ClusterCatalog with its upgrade graph, if there is one; None for an
    empty value. No query for one of `catalogs` with a graph.

    Raises BadRequest for another shape and Missing for what is not there.
    """
    if not value:
        return None
    cluster, slash, slug = value.partition("/")
    if not (cluster and slash and slug):
        shown = "".join(char if char.isprintable() else " " for char in value[:100])
        raise BadRequest(
            f"“{shown}” names no catalog.",
            code="bad-parameter",
            hint="Write CLUSTER/CATALOG, with - for no cluster.",
            next="CLUSTER/CATALOG",
        )
    for catalog in catalogs:
        if (catalog.cluster_name, catalog.slug) == (cluster, slug):
            return with_graph(catalog)
    try:
        return with_graph(lookup.get_catalog(cluster, slug))
    except OlmwebError as error:
        raise OlmwebError(
            error.message,
            code=error.code,
            status=error.status,
            hint=error.hint,
            fields={"next": error.message},
        ) from error


def with_graph(catalog: Catalog) -> Catalog:
    """The ClusterCatalog of one that was read with the PackageManifest API, if there is one, else
    the catalog itself. At most one query."""
    return next(iter(full_catalogs(catalog)), catalog)


def requested_readiness(clusters: Sequence[Cluster], request: ReadinessRequest) -> list[Readiness]:
    """The readiness of the requested clusters with all rows; see `ReadinessRequest.matches`."""
    chosen = [
        cluster for cluster in clusters if not request.cluster or cluster.name == request.cluster
    ]
    return readiness(chosen, request.following)


def read_catalogs() -> list[Catalog]:
    """All catalogs with their clusters, by cluster and name; one query."""
    rows = Catalog.objects.select_related("cluster").order_by("cluster__name", "name", "pk")
    own = ("name", "slug", "revision", "content_hash", "access_method", "state")
    return list(rows.only(*own, "cluster__name"))


def catalogs_to_follow(catalogs: Iterable[Catalog]) -> list[Catalog]:
    """Those with content and an upgrade graph."""
    return [row for row in catalogs if row.revision and row.access_method != PACKAGE_MANIFEST]


def catalogs_state(catalogs: Iterable[Catalog]) -> list[object]:
    """A value that changes with the content of any catalog, or the state of its last reading."""
    return [(row.pk, row.revision, row.content_hash, row.state) for row in catalogs]


def needs_catalog(row: ReadinessRow) -> bool:
    """Whether the row says only that no catalog that was read has the operator."""
    return row.code == "max-openshift-unknown"


def unread_catalogs(report: Readiness, catalogs: Iterable[Catalog]) -> list[str]:
    """Names of the catalogs of the cluster that were never read, if a row of the report may be due
    to that."""
    if not any(map(needs_catalog, report.rows)):
        return []
    names = {
        row.name
        for row in catalogs
        if row.cluster_name == report.cluster and row.state == Catalog.State.NEW
    }
    return sorted(names)


def verdict(report: Readiness, *, reading: bool = False) -> str:
    """Whether an update to the next minor can start, and whether it can complete; `reading`:
    catalogs of the cluster are still being read for the first time."""
    if not report.following:
        return f"The version of cluster {report.cluster} is not known yet."
    target = f"{report.platform} {report.following}"
    blocks = report.counts[Weight.BLOCKS]
    delayed = ""
    if report.failing:
        delayed = f" While the cluster is failing, {REFUSED_WHILE_FAILING}"
        delayed += "." if report.delayers else " and an update does not complete."
    if delayers := report.delayers:
        names = listing([f"ClusterOperator {name}" for name in delayers])
        recovery = f"{names} {'recovers' if len(delayers) == 1 else 'recover'}"
        if report.failing:
            recovery = f"Failing=True clears and {recovery}"
        delayed += f" An update does not complete before {recovery}."
    if blocks:
        noun = "blocker" if blocks == 1 else "blockers"
        return f"The update can't start: {blocks} {noun} for {target}.{delayed}"
    unknown = report.counts[Weight.UNKNOWN]
    if unknown and reading:
        return f"No blocker for {target} found so far.{delayed}"
    if unknown:
        checks = "1 check is" if unknown == 1 else f"{unknown} checks are"
        return f"No known blocker for {target}; {checks} incomplete.{delayed}"
    if delayed:
        return f"The update to {target} can start.{delayed}"
    return f"The update to {target} can start and complete: no blocker."


def tone(report: Readiness, *, reading: bool = False) -> str:
    """The state of _readiness_state.html, which stands before the verdict; `reading` as there."""
    counts = report.counts
    if not report.following:
        return "unknown"
    if counts[Weight.BLOCKS]:
        return "blocks"
    if report.failing:
        return "failing"
    if counts[Weight.UNKNOWN]:
        return "reading" if reading else "unknown"
    return "delayed" if report.delayers else "ok"


def markdown(reports: Iterable[Readiness], request: ReadinessRequest) -> Iterator[str]:
    """The report as Markdown, cluster by cluster; names are escaped."""
    yield "# Upgrade readiness\n"
    if request.following is not None:
        yield f"\nCompared with catalog {plain(str(request.following))}.\n"
    for report in reports:
        yield f"\n## {plain(report.cluster)}: {plain(report.version) or 'version not known'}\n\n"
        yield f"{plain(verdict(report))}\n"
        for row in filter(request.matches, report.rows):
            where = f"{row.namespace}/" if row.namespace else ""
            yield f"\n- **{row.title}** ({row.weight}): {row.kind} {plain(where + row.name)}: "
            yield f"{plain(row.sentence)}\n"
            for remedy in row.ways:
                yield f"  - Resolution: {plain(remedy)}\n"
