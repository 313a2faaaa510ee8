"""What a request for readiness asks for: clusters, filters, the catalog of the next minor.

Shared by the page and the REST API, so that both answer alike.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from catalogs import lookup
from catalogs.models import Catalog
from catalogs.revisions.text import plain
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from installs.readiness.obstacles import TITLES, Weight
from installs.readiness.report import Readiness, Row, readiness
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

WEIGHTS = tuple(weight.value for weight in Weight)
CODES = tuple(TITLES)


@dataclass(frozen=True, slots=True)
class Asked:
    """Empty fields narrow nothing. `following` is the catalog of the next minor."""

    cluster: str = ""
    weights: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    q: str = ""
    following: Catalog | None = None

    def wants(self, row: Row) -> bool:
        said = f"{row.name} {row.package} {row.namespace} {row.sentence}".casefold()
        return (
            (not self.weights or row.weight in self.weights)
            and (not self.codes or row.code in self.codes)
            and all(word in said for word in self.q.casefold().split())
        )


def read_following(value: str) -> Catalog | None:
    """The catalog that CLUSTER/CATALOG names (`-` for no cluster); None for an empty value.

    Raises BadRequest for another shape and Missing for what is not there.
    """
    if not value:
        return None
    cluster, slash, slug = value.partition("/")
    if not (cluster and slash and slug):
        shown = "".join(char if char.isprintable() else " " for char in value[:100])
        raise BadRequest(
            f"“{shown}” names no catalog.",
            hint="Write CLUSTER/CATALOG, with - for no cluster.",
            next="CLUSTER/CATALOG",
        )
    try:
        return lookup.get_catalog(cluster, slug)
    except OlmwebError as error:
        raise OlmwebError(
            error.message,
            code=error.code,
            status=error.status,
            hint=error.hint,
            fields={"next": error.message},
        ) from error


def answer(clusters: Sequence[Cluster], asked: Asked) -> list[Readiness]:
    """Readiness of the asked clusters with every row; `Asked.wants` narrows the rows."""
    chosen = [one for one in clusters if not asked.cluster or one.name == asked.cluster]
    return readiness(chosen, asked.following)


def catalogs_to_follow() -> list[Catalog]:
    """Catalogs with content that tell an upgrade graph, each with its cluster."""
    rows = Catalog.objects.filter(revision__gt=0).exclude(way=PACKAGE_MANIFEST)
    return list(rows.select_related("cluster").order_by("cluster__name", "name"))


def catalogs_state() -> list[object]:
    """What changes whenever a catalog's content does; one query."""
    return list(Catalog.objects.order_by("pk").values_list("pk", "revision", "content_hash"))


def verdict(one: Readiness) -> str:
    """One sentence: whether the next minor is open."""
    if not one.following:
        return f"The version of cluster {one.cluster} is not known yet."
    target = f"{one.platform} {one.following}"
    blocks = one.counts[Weight.BLOCKS]
    if blocks:
        return f"{blocks} {'thing blocks' if blocks == 1 else 'things block'} {target}."
    unknown = one.counts[Weight.UNKNOWN]
    if unknown:
        return f"Nothing known blocks {target}; of {unknown} not all is known."
    return f"Nothing blocks {target}."


def markdown(found: Iterable[Readiness], asked: Asked) -> Iterator[str]:
    """The report as text for a ticket, cluster by cluster; names can't become markup."""
    yield "# Upgrade readiness\n"
    if asked.following is not None:
        yield f"\nCompared with catalog {plain(str(asked.following))}.\n"
    for one in found:
        yield f"\n## {plain(one.cluster)}: {plain(one.version) or 'version not known'}\n\n"
        yield f"{plain(verdict(one))}\n"
        for row in filter(asked.wants, one.rows):
            where = f"{row.namespace}/" if row.namespace else ""
            yield f"\n- **{row.title}** ({row.weight}): {row.kind} {plain(where + row.name)}: "
            yield f"{plain(row.sentence)}\n"
            for way in row.ways:
                yield f"  - Way out: {plain(way)}\n"
