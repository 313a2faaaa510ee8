"""What blocks the next minor version of each cluster, from stored rows alone, with the way out.

Brings rows to the rules of this package; a page, the REST API and the command read the result.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from catalogs.models import Catalog
from catalogs.semver import Version
from installs.facts.verdict_context import read_version
from installs.models import ClusterOperator, Component, Operator
from installs.queries.overview import cluster_versions, update_of
from installs.readiness.gone import gone, package_gone
from installs.readiness.minors import Minor, read_minor
from installs.readiness.obstacles import (
    TITLES,
    Obstacle,
    Subject,
    Weight,
    deprecations,
    max_openshift,
    min_kube,
    operator_condition,
    supports,
)
from installs.readiness.shelves import Shelf
from installs.readiness.stock import Stock, read_stock
from installs.readiness.ways import Clears, way_out
from installs.state.observation import details_of
from installs.state.upgrades import not_upgradeable
from olmweb.models import Cluster

KINDS = ("ClusterServiceVersion", "OperatorCondition", "InstallPlan")
Parts = dict[tuple[str, str, str], Component]  # (kind, namespace, name)

_TOLD = ("conditions", "details")
_ORDER = tuple(Weight)
_TITLES = tuple(TITLES)


@dataclass(frozen=True, slots=True)
class Row:
    """One obstacle of one cluster. `following` is the minor that it stands before; a row about
    the cluster itself has the kind ClusterVersion or ClusterOperator."""

    cluster: str
    following: str
    kind: str
    namespace: str
    name: str
    package: str
    version: str
    code: str
    title: str
    weight: str
    sentence: str
    ways: tuple[str, ...]
    target: str

    @property
    def url_namespace(self) -> str:
        return self.namespace or "-"


@dataclass(frozen=True, slots=True)
class Readiness:
    """One cluster. `following` is empty when its version is not known; `operators` were looked at.
    `platform` is OpenShift or Kubernetes."""

    cluster: str
    version: str
    following: str
    platform: str
    operators: int
    rows: tuple[Row, ...]

    @property
    def counts(self) -> dict[str, int]:
        counts = Counter(row.weight for row in self.rows)
        return {weight.value: counts[weight.value] for weight in Weight}


def readiness(clusters: Sequence[Cluster], following: Catalog | None = None) -> list[Readiness]:
    """Each cluster, in the order given; about fifteen queries, however many clusters.

    `following` is the catalog of the next minor, which installed versions are looked up in.
    """
    ids = [cluster.pk for cluster in clusters]
    operators: dict[int, list[Operator]] = defaultdict(list)
    rows = Operator.objects.filter(cluster__in=ids).order_by("kind", "namespace", "name")
    every = list(rows.defer("conditions", "facts", "message"))
    for operator in every:
        operators[operator.cluster_id].append(operator)
    stock = read_stock(every, following)
    parts = _parts(ids)
    versions = cluster_versions(ids)
    blocking: dict[int, list[ClusterOperator]] = defaultdict(list)
    for row in ClusterOperator.objects.filter(cluster__in=ids, upgradeable="False"):
        blocking[row.cluster_id].append(row)
    return [
        _of_cluster(
            cluster,
            versions.get(cluster.pk),
            blocking[cluster.pk],
            operators[cluster.pk],
            parts[cluster.pk],
            stock,
            following,
        )
        for cluster in clusters
    ]


def _parts(clusters: Collection[int]) -> dict[int, Parts]:
    components: dict[int, Parts] = defaultdict(dict)
    rows = Component.objects.filter(cluster__in=clusters, kind__in=KINDS).order_by()
    for row in rows.only("cluster_id", "kind", "namespace", "name", "phase", *_TOLD):
        components[row.cluster_id][row.kind, row.namespace, row.name] = row
    return components


def _of_cluster(
    cluster: Cluster,
    version: Component | None,
    blocking: Sequence[ClusterOperator],
    operators: Sequence[Operator],
    parts: Parts,
    stock: Stock,
    ahead: Catalog | None,
) -> Readiness:
    update = update_of(version, blocking)
    text = update.version if update else cluster.version
    now = read_minor(text)
    following = now.next() if now else None
    place = _Place(cluster.name, text, following, openshift=update is not None)
    rows = [
        place.row(
            blocker.kind, _cluster_obstacle(blocker.kind, blocker.name, blocker.reason, blocker.message), blocker.name
        )
        for blocker in (update.blockers if update else ())
    ]
    for operator in operators:
        subject = _subject(operator, parts, stock.own.get(operator.pk))
        shelf = stock.own.get(operator.pk)
        blockers = list(_obstacles(subject, shelf, place))
        if ahead is not None and subject.package:
            beyond = stock.following.get(subject.package)
            missing = gone(subject, shelf, beyond) if beyond else package_gone(subject, str(ahead))
            blockers += [missing] if missing else []
        rows += [place.row(subject.kind, blocker, subject.name, subject) for blocker in blockers]
    rows.sort(
        key=lambda row: (
            _ORDER.index(Weight(row.weight)), _TITLES.index(row.code), row.name, row.namespace,
        )
    )  # fmt: skip
    platform = "OpenShift" if update else "Kubernetes"
    return Readiness(
        *(cluster.name, text, str(following or ""), platform, len(operators), tuple(rows))
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The cluster that obstacles stand in the way of."""

    cluster: str
    version: str
    following: Minor | None
    openshift: bool

    @property
    def kube(self) -> Version | None:
        """Of an OpenShift cluster the version of its Kubernetes is not stored."""
        return None if self.openshift else read_version(self.version)

    def row(self, kind: str, blocker: Obstacle, name: str, subject: Subject | None = None) -> Row:
        return Row(
            cluster=self.cluster,
            following=str(self.following or ""),
            kind=kind,
            namespace=subject.namespace if subject else "",
            name=name,
            package=subject.package if subject else "",
            version=subject.version if subject else "",
            code=blocker.code,
            title=TITLES[blocker.code],
            weight=blocker.weight.value,
            sentence=blocker.sentence,
            ways=blocker.ways,
            target=blocker.target,
        )


def _cluster_obstacle(kind: str, name: str, reason: str, message: str) -> Obstacle:
    text = " ".join(message.split())[:1000].rstrip(".")
    because = f" ({reason})" if reason else ""
    if kind == "ClusterOperator":
        remedy = "Do what its message asks for; the condition clears by itself."
        if reason == "IncompatibleOperatorsInstalled":
            remedy = "The operators that it names have rows of their own here, each with its way out."
        return Obstacle(
            "cluster-operator",
            Weight.BLOCKS,
            f"ClusterOperator {name} says Upgradeable=False{because}: {text or 'no message'}.",
            (remedy,),
        )
    return Obstacle(
        "cluster-version",
        Weight.BLOCKS,
        f"ClusterVersion {name} refuses{because}: {text or 'no message'}.",
        ("Do what its message asks for; the condition clears by itself.",),
    )


def _subject(operator: Operator, parts: Parts, shelf: Shelf | None) -> Subject:
    details = details_of(operator)
    csv = parts.get(("ClusterServiceVersion", operator.namespace, operator.bundle))
    if operator.kind == "ClusterServiceVersion":
        csv = parts.get((operator.kind, operator.namespace, operator.name), csv)
    source = details_of(csv) if csv is not None else details
    maximum = source.get("max_openshift")
    listed = shelf is not None and operator.bundle in shelf.facts.by_name()
    if not isinstance(maximum, list):
        maximum = list(shelf.maxima(operator.bundle)) if shelf and listed else None
    condition = parts.get(("OperatorCondition", operator.namespace, operator.bundle))
    plan = parts.get(("InstallPlan", str(details.get("plan_namespace")), str(details.get("plan"))))
    minimum = str(source.get("min_kube") or "")
    return Subject(
        kind=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        package=operator.package,
        version=operator.version,
        bundle=operator.bundle,
        channels=tuple(channel for channel in operator.channel.split(", ") if channel),
        manual=details.get("approval") == "Manual",
        plan=plan.name if plan is not None and plan.phase == "RequiresApproval" else "",
        version_asked=operator.version_asked if operator.kind == "ClusterExtension" else "",
        maximum=None if maximum is None else tuple(str(value) for value in maximum),
        min_kube=minimum or (shelf.min_kube.get(operator.bundle, "") if shelf else ""),
        refused=not_upgradeable(condition) if condition is not None else None,
    )


def _obstacles(subject: Subject, shelf: Shelf | None, place: _Place) -> Iterable[Obstacle]:
    if not subject.bundle and not subject.version:
        return  # nothing is installed yet
    following = place.following
    if place.openshift and following is not None:
        blocker = max_openshift(subject, following)
        if blocker is not None and blocker.weight != Weight.UNKNOWN:
            what = f"supports OpenShift {following}"
            blocker = _with_way(
                blocker, subject, shelf, place, what,
                lambda name: shelf is not None and supports(shelf.maxima(name), following),
            )  # fmt: skip
        yield from (blocker,) if blocker else ()
    if (refused := operator_condition(subject)) is not None:
        yield refused
    needed = read_version(subject.min_kube) if subject.min_kube else None
    newer = needed is not None and place.kube is not None and needed > place.kube
    if (late := min_kube(subject, place.version, newer)) is not None:
        yield late
    for deprecation in deprecations(subject, shelf) if shelf else ():
        yield _deprecated(deprecation, subject, shelf, place)


def _deprecated(blocker: Obstacle, subject: Subject, shelf: Shelf | None, place: _Place) -> Obstacle:
    if shelf is None or blocker.code == "package-deprecated":
        return blocker
    if blocker.code == "bundle-deprecated":
        fine = set(shelf.facts.by_name()) - set(shelf.deprecated_bundles)
        return _with_way(blocker, subject, shelf, place, "is not deprecated", fine.__contains__)
    remaining = {
        entry.name
        for channel, entries in shelf.facts.channels.items()
        if channel not in shelf.deprecated_channels
        for entry in entries
    }
    others = [
        name for name in shelf.facts.ordered_channels() if name not in shelf.deprecated_channels
    ]
    if subject.kind == "Subscription" and subject.bundle in remaining:
        holding = [
            name
            for name in others
            if any(entry.name == subject.bundle for entry in shelf.facts.channels[name])
        ]
        remedy = f"Change its channel to {' or '.join(holding[:3])}, which has {subject.words}, too."
        return replace(blocker, ways=(remedy,))
    return _with_way(
        blocker, subject, shelf, place, "is in a channel that is not deprecated", remaining.__contains__
    )


def _with_way(
    blocker: Obstacle, subject: Subject, shelf: Shelf | None, place: _Place, what: str, clears: Clears
) -> Obstacle:
    if shelf is None:
        return replace(
            blocker,
            ways=(
                f"No stored catalog has package {subject.package or 'of it'}, so no way out is "
                "known: sync the catalog that it came from.",
            ),
        )
    route = way_out(subject, shelf, clears, what)
    remedies = list(route.sentences)
    needed = next(
        (shelf.min_kube.get(bundle.name, "") for bundle in shelf.facts.bundles
         if bundle.version == route.target), "",
    )  # fmt: skip
    wanted = read_version(needed) if needed else None
    if wanted is not None and place.kube is not None and wanted > place.kube:
        remedies.append(
            f"{route.target} needs Kubernetes {needed}, the cluster has {place.version}: it can "
            "only follow the update of the cluster."
        )
    return replace(blocker, ways=tuple(remedies), target=route.target)
