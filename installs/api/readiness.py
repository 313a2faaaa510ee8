"""REST routes of upgrade readiness and of migrations to OLM v1. All are answered from rows."""

from collections.abc import Iterator

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router

from catalogs.api.parameters import CATALOG, OptionalReference
from catalogs.lookup import referenced_catalog
from installs.api.clusters import clusters_named
from installs.api.operators import clusters_state
from installs.api.schemas import (
    BlockerCode,
    BlockerRow,
    BlockerSeverity,
    MigrationRow,
    MigrationVerdict,
    migration_row,
    readiness_row,
)
from installs.readiness.request import (
    ReadinessRequest,
    catalogs_state,
    markdown,
    read_catalogs,
    requested_readiness,
    with_graph,
)
from installs.readiness.v1_migration_report import V1Migration, narrowed, v1_migrations
from installs.readiness.v1_migration_report import markdown as migrations_as_markdown
from olmweb.api.lists import ComputedRows, Keyed, Page, ReportParameters, answer_list
from olmweb.api.parameters import Values, text, values

router = Router(tags=["Clusters"])


class ReadinessParameters(ReportParameters):
    cluster: Values = values("Name of the cluster.")
    severity: list[BlockerSeverity] | None = values("Severity.")
    code: list[BlockerCode] | None = values("Which rule.")
    q: str = text("Words that name, package, namespace or sentence contain.")
    next_catalog: OptionalReference = text(
        f"{CATALOG} The catalog of the next minor: adds what of the installed it no longer has."
    )


class MigrationParameters(ReportParameters):
    cluster: Values = values("Name of the cluster.")
    verdict: list[MigrationVerdict] | None = values("Verdict of the migration.")
    q: str = text("Words that name, package, namespace or a reason contain.")


@router.get("/readiness", response=Page[BlockerRow])
def list_readiness(request: HttpRequest, query: Query[ReadinessParameters]) -> HttpResponseBase:
    """The blockers of the next minor version of each cluster, worst first, with resolutions."""
    filters = ReadinessRequest(
        weights=tuple(query.severity or ()),
        codes=tuple(query.code or ()),
        q=query.q,
        following=with_graph(referenced_catalog(query.next_catalog, "next_catalog"))
        if query.next_catalog
        else None,
    )
    clusters = clusters_named(query.cluster)

    def rows() -> Iterator[Keyed]:
        for report in requested_readiness(clusters, filters):
            for number, row in enumerate(report.rows):
                if filters.matches(row):
                    yield Keyed((report.cluster, number), readiness_row(row))

    return answer_list(
        request,
        query,
        "readiness",
        BlockerRow,
        ComputedRows(rows),
        [clusters_state(), catalogs_state(read_catalogs())],
        lambda: markdown(requested_readiness(clusters, filters), filters),
    )


@router.get("/migrations", response=Page[MigrationRow])
def list_migrations(request: HttpRequest, query: Query[MigrationParameters]) -> HttpResponseBase:
    """For each Subscription whether it can be migrated to a ClusterExtension, and the blockers."""
    clusters = clusters_named(query.cluster)

    def matching() -> list[V1Migration]:
        return narrowed(v1_migrations(clusters), query.verdict or (), query.q)

    def rows() -> Iterator[Keyed]:
        for number, row in enumerate(matching()):
            yield Keyed((row.cluster, number), migration_row(row))

    return answer_list(
        request,
        query,
        "migrations",
        MigrationRow,
        ComputedRows(rows),
        [clusters_state(), catalogs_state(read_catalogs())],
        lambda: migrations_as_markdown(matching()),
    )
