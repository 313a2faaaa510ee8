"""What blocks the next minor version of each cluster, from stored rows, with remedies.

Applies the rules of this package to rows; used by the page and the REST API.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

from django.db.models import BooleanField, ExpressionWrapper, F, FilteredRelation, Q

from catalogs.graph import GraphEntry
from catalogs.models import Bundle, Catalog, Channel, Package
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from catalogs.semver import read_version
from installs.diagnosis.aggregated import (
    REFUSED_WHILE_FAILING,
    external_remedy,
    not_part_of_olm,
)
from installs.diagnosis.approvals import listing
from installs.diagnosis.notes import PART_OF_OLM
from installs.diagnosis.types import read_conditions
from installs.models import ClusterOperator, Component, Health, Operator
from installs.queries.overview import ClusterUpdate, Recovery, UpdateBlocker, updates_of
from installs.readiness.blockers import (
    TITLES,
    CheckedOperator,
    Minor,
    OfferedPackage,
    ReportedOperator,
    UpgradeBlocker,
    Weight,
    deprecations,
    listed,
    max_openshift,
    min_kube,
    operator_condition,
    read_minor,
    reported_incompatible,
    reported_missing,
    reported_operators,
    supports,
)
from installs.readiness.removed_packages import channel_or_version_removed, package_removed
from installs.readiness.upgrade_routes import Clears, upgrade_route
from installs.state.catalog_offers import usable_catalogs
from installs.state.observation import details_of
from installs.state.upgrades import not_upgradeable
from olmweb.models import Cluster

KINDS = ("ClusterServiceVersion", "OperatorCondition", "InstallPlan")
ComponentsByKey = dict[tuple[str, str, str], Component]  # (kind, namespace, name)

_JSON_FIELDS = ("conditions", "details")
_PACKAGE_FIELDS = (
    *("name", "content_hash", "default_channel", "deprecated", "deprecation", "catalog__name"),
    *("catalog__slug", "catalog__priority", "catalog__cluster__name"),
)
_ORDER = tuple(Weight)
_TITLES = tuple(TITLES)
# A message with a request: "please remove overrides", "requires an administrator acknowledgement".
_REQUEST = re.compile(
    r"\b(?:please|must|should|needs? to|requires?|see|refer to|to (?:continue|proceed|resolve|fix)|"
    r"before (?:continuing|updating|upgrading))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReadinessRow:
    """A blocker of a cluster. `following` is the blocked minor; a blocker of the cluster itself has
    the kind ClusterVersion or ClusterOperator. `ways` are remedies; `target` is the version that
    resolves it, and `plan` the InstallPlan of its namespace to approve before. `reason_at` is the
    ClusterOperator with the reason of a failing cluster, empty if its message names none, and
    `recovery` is not None if that reason is gone."""

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
    plan: str = ""
    reason_at: str = ""
    recovery: Recovery | None = None

    @property
    def can_be_upgraded(self) -> bool:
        """There is an upgrade form that leads to `target`."""
        return bool(self.target) and self.kind in ("Subscription", "ClusterExtension")

    @property
    def url_namespace(self) -> str:
        return self.namespace or "-"


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of a cluster. `following` is empty if its version is unknown; `operators` is
    the number of operators checked, without the `part_of_olm`. `platform` is OpenShift or
    Kubernetes.
    """

    cluster: str
    version: str
    following: str
    platform: str
    operators: int
    rows: tuple[ReadinessRow, ...]
    part_of_olm: int = 0

    @property
    def counts(self) -> dict[str, int]:
        counts = Counter(row.weight for row in self.rows)
        return {weight.value: counts[weight.value] for weight in Weight}

    @property
    def failing(self) -> bool:
        """Whether the ClusterVersion says Failing=True: an update starts on request only."""
        return any(row.code == "cluster-failing" for row in self.rows)

    @property
    def delayers(self) -> list[str]:
        """Names of the ClusterOperators that block the completion of an update alone."""
        return [row.name for row in self.rows if row.code == "cluster-operator-unhealthy"]

    def is_blocked_by(self, operators: Iterable[Operator]) -> bool:
        """Whether one of the operators blocks the next minor version."""
        blocking = {
            (row.kind, row.namespace, row.name) for row in self.rows if row.weight == Weight.BLOCKS
        }
        return any((row.kind, row.namespace, row.name) in blocking for row in operators)


def readiness(clusters: Sequence[Cluster], following: Catalog | None = None) -> list[Readiness]:
    """The readiness of the clusters, in their order; five queries, and two more if clusters
    changed.

    `following` is the catalog of the next minor, in which installed versions are looked up.
    """
    ids = [cluster.pk for cluster in clusters]
    operators: dict[int, list[Operator]] = defaultdict(list)
    rows = Operator.objects.filter(cluster__in=ids).order_by("kind", "namespace", "name")
    all_operators = list(rows.defer("conditions", "facts", "message"))
    for operator in all_operators:
        operators[operator.cluster_id].append(operator)
    offers = _read_offers(all_operators, following)
    components, updates = _components(ids), updates_of(clusters)
    return [
        _of_cluster(
            cluster,
            updates[cluster.pk],
            operators[cluster.pk],
            components[cluster.pk],
            offers,
            following,
        )
        for cluster in clusters
    ]


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An installed operator that the cluster reports as incompatible with its next minor version;
    `plan` is its InstallPlan (namespace, name) that waits for approval, None without one."""

    operator: Operator
    maximum: str
    plan: tuple[str, str] | None


def named_operators(cluster: Cluster, update: ClusterUpdate) -> list[NamedOperator]:
    """The operators that the blockers of the update name, by name; one query, none without a name.

    Operators that are not installed any more are left out.
    """
    reported = [
        report for blocker in update.blockers for report in reported_operators(blocker.message)
    ]
    if not reported:
        return []
    maxima = {(report.namespace, report.name): report.maximum for report in reported}
    wanted = reduce(
        or_,
        (
            Q(namespace=report.namespace, bundle=report.name)
            if report.namespace
            else Q(kind=report.kind, name=report.name)
            for report in reported
        ),
    )
    named = []
    for operator in Operator.objects.filter(wanted, cluster=cluster).order_by("name", "pk"):
        operator.cluster = cluster
        details = details_of(operator)
        waits = operator.health == Health.NEEDS_APPROVAL and details.get("plan")
        namespace = str(details.get("plan_namespace") or operator.namespace)
        maximum = maxima.get((operator.namespace, operator.bundle)) or maxima.get(
            ("", operator.name), ""
        )
        plan = (namespace, str(details["plan"])) if waits else None
        named.append(NamedOperator(operator, maximum, plan))
    return named


def unnamed_blockers(update: ClusterUpdate, named: Sequence[NamedOperator]) -> list[UpdateBlocker]:
    """The blockers of the update that do not just report the `named` operators, in their order."""
    return [
        blocker
        for blocker in update.blockers
        if not (named and reported_operators(blocker.message))
    ]


# --- offers of catalogs -------------------------------------------------------------------------


@dataclass(slots=True)
class _Offers:
    """`own`: operator id -> the package in the catalog that the operator was installed from, if any
    catalog has it. `following`: package name -> the package in the catalog of the next minor."""

    own: dict[int, OfferedPackage]
    following: dict[str, OfferedPackage]


def _read_offers(operators: Collection[Operator], following: Catalog | None) -> _Offers:
    """Reads all offers with three queries."""
    names = {operator.package for operator in operators if operator.package}
    if not names:
        return _Offers({}, {})
    clusters = sorted({operator.cluster_id for operator in operators})
    catalogs = Catalog.objects.filter(reduce(or_, map(usable_catalogs, clusters))).order_by()
    usable = Q(catalog__in=catalogs.values("pk"))
    installed = sorted({operator.bundle for operator in operators})
    rows = Package.objects.filter(
        usable | Q(catalog=following) if following else usable, name__in=names
    )
    # A package with several installed bundles is read once for each.
    matches = list(
        rows.annotate(
            usable=ExpressionWrapper(usable, BooleanField()),
            of_installed=FilteredRelation("bundles", condition=Q(bundles__name__in=installed)),
            installed_bundle=F("of_installed__name"),
        )
        .select_related("catalog__cluster")
        .only(*_PACKAGE_FIELDS)
        .order_by("catalog__name")
    )
    bundles = {(row.pk, row.installed_bundle) for row in matches}
    packages = list({row.pk: row for row in matches}.values())
    chosen = _own_packages(operators, clusters, [row for row in packages if row.usable], bundles)
    wanted = {package.pk: package for package in chosen.values()}
    next_packages = {
        package.pk: package
        for package in packages
        if following is not None and package.catalog_id == following.pk
    }
    offers = _offered({**wanted, **next_packages})
    own = {pk: offers[package.pk] for pk, package in chosen.items()}
    return _Offers(own, {package.name: offers[pk] for pk, package in next_packages.items()})


def _own_packages(
    operators: Collection[Operator],
    clusters: Collection[int],
    listed: Collection[Package],
    bundles: Collection[tuple[int, str]],
) -> dict[int, Package]:
    """Operator id -> its package of `listed`: in the catalog that it names, else in one with its
    bundle, else in one of its cluster. `bundles` are (id of a package, name of an installed bundle
    of it)."""
    packages: dict[tuple[int, str], list[Package]] = defaultdict(list)
    for package in listed:
        own = package.catalog.cluster_id
        for cluster in clusters if own is None else (own,):
            packages[cluster, package.name].append(package)

    def rank(operator: Operator, package: Package) -> tuple[bool, bool, bool, int]:
        return (
            bool(operator.catalog) and package.catalog.name == operator.catalog,
            (package.pk, operator.bundle) in bundles,
            package.catalog.cluster_id is not None,
            package.catalog.priority,
        )

    return {
        operator.pk: max(candidates, key=partial(rank, operator))
        for operator in operators
        if (candidates := packages.get((operator.cluster_id, operator.package)))
    }


def _offered(packages: Mapping[int, Package]) -> dict[int, OfferedPackage]:
    """Each package with its content, by id; two queries.

    Packages of one name and content hash, as clusters have them that follow one catalog, have the
    same content: that of one is read.
    """
    first: dict[tuple[str, str | int], int] = {}
    same = {
        pk: first.setdefault((package.name, package.content_hash or pk), pk)
        for pk, package in packages.items()
    }
    contents = _fill({pk: packages[pk] for pk in first.values()})
    return {
        pk: replace(contents[same[pk]], catalog=str(package.catalog))
        for pk, package in packages.items()
    }


def _fill(packages: Mapping[int, Package]) -> dict[int, OfferedPackage]:
    channels: dict[int, dict[str, list[GraphEntry]]] = {pk: {} for pk in packages}
    deprecated: dict[int, dict[str, str]] = defaultdict(dict)
    rows = Channel.objects.filter(package__in=packages).order_by("pk", "entries__ordinal")
    fields = ("name", "replaces", "skips", "skip_range")
    for (
        package,
        channel,
        is_deprecated,
        message,
        name,
        replaces,
        skips,
        skip_range,
    ) in rows.values_list(
        *("package_id", "name", "deprecated", "deprecation"),
        *(f"entries__{field}" for field in fields),
    ):
        entries = channels[package].setdefault(channel, [])
        if is_deprecated:
            deprecated[package][channel] = message
        if name is not None:  # else a channel without entries
            entries.append(GraphEntry(name, replaces, tuple(map(str, skips)), skip_range))
    bundles: dict[int, list[Bundle]] = defaultdict(list)
    stored = Bundle.objects.filter(package__in=packages).order_by("pk")
    for bundle in stored.only(
        *("package_id", "name", "version", "image", "deprecated", "deprecation"),
        *("max_openshift_version", "min_kube_version"),
    ):
        bundles[bundle.package_id].append(bundle)
    return {
        pk: OfferedPackage(
            catalog=str(package.catalog),
            package=package.name,
            facts=ResolverPackage(
                package.name,
                package.default_channel,
                channels[pk],
                [
                    ResolverBundle(row.name, row.version, row.deprecated, image=row.image)
                    for row in bundles[pk]
                ],
            ),
            deprecated=package.deprecated,
            deprecation=package.deprecation,
            deprecated_channels=deprecated[pk],
            deprecated_bundles={row.name: row.deprecation for row in bundles[pk] if row.deprecated},
            maximum={row.name: row.max_openshift_version for row in bundles[pk]},
            min_kube={row.name: row.min_kube_version for row in bundles[pk]},
        )
        for pk, package in packages.items()
    }


# --- checks -------------------------------------------------------------------------------------


def _components(clusters: Collection[int]) -> dict[int, ComponentsByKey]:
    components: dict[int, ComponentsByKey] = defaultdict(dict)
    rows = Component.objects.filter(cluster__in=clusters, kind__in=KINDS).order_by()
    fields = ("cluster_id", "operator_id", "kind", "namespace", "name", "phase")
    for row in rows.only(*fields, *_JSON_FIELDS):
        components[row.cluster_id][row.kind, row.namespace, row.name] = row
    return components


def _of_cluster(
    cluster: Cluster,
    update: ClusterUpdate | None,
    operators: Sequence[Operator],
    components: ComponentsByKey,
    offers: _Offers,
    next_catalog: Catalog | None,
) -> Readiness:
    text = update.version if update else cluster.version
    now = read_minor(text)
    following = now.next() if now else None
    target = _TargetCluster(cluster.name, text, following, openshift=update is not None)
    rows = [
        target.row(blocker.kind, _cluster_blocker(blocker), blocker.name)
        for blocker in (update.blockers if update else ())
    ]
    if update and update.failing:
        row = target.row("ClusterVersion", _failing(update), "version")
        rows.append(replace(row, reason_at=update.failing_operator, recovery=update.recovery))
    rows += [
        target.row("ClusterOperator", _delayer(delayer), delayer.name)
        for delayer in (update.delayers if update else ())
    ]
    # What is part of OLM is updated with the cluster, and no catalog has it.
    checked = [
        operator
        for operator in operators
        if (operator.kind, operator.name) != ("ClusterServiceVersion", PART_OF_OLM)
    ]
    reports, missing_operators = _match_reports(update, checked, components)
    for operator in checked:
        offer = offers.own.get(operator.pk)
        subject = _subject(operator, components, offer)
        for report in reports[operator.pk]:
            subject = replace(subject, reported_by=report.source)
            if report.operator.maximum and report.operator.name in (subject.bundle, subject.name):
                subject = replace(subject, maximum=(report.operator.maximum,))
        blockers = list(_blockers(subject, offer, target))
        for report in reports[operator.pk]:
            current = report.operator.name in (subject.bundle, subject.name)
            if not current or not any(map(_refuses_minor, blockers)):
                blockers = [row for row in blockers if row.code != "max-openshift-unknown"]
                blockers.append(reported_incompatible(report.operator, subject))
        if next_catalog is not None and subject.package:
            next_offer = offers.following.get(subject.package)
            missing = (
                channel_or_version_removed(subject, offer, next_offer)
                if next_offer
                else package_removed(subject, str(next_catalog))
            )
            blockers += [missing] if missing else []
        rows += [target.row(subject.kind, blocker, subject.name, subject) for blocker in blockers]
    for report in missing_operators:
        kind, namespace, name = report.operator[:3]
        blocker = reported_missing(report.operator, report.source, following)
        subject = CheckedOperator(kind, namespace, name, package="", version="", bundle=name)
        rows.append(target.row(kind, blocker, name, subject))
    # What the cluster says of operators follows the operators, whose rows have the resolution.
    repeats = {
        (blocker.kind, blocker.name)
        for blocker in (update.blockers if update else ())
        if reported_operators(blocker.message)
    }
    rows.sort(
        key=lambda row: (
            _ORDER.index(Weight(row.weight)), (row.kind, row.name) in repeats,
            _TITLES.index(row.code), row.name, row.namespace,
        )
    )  # fmt: skip
    platform = "OpenShift" if update else "Kubernetes"
    return Readiness(
        *(cluster.name, text, str(following or ""), platform, len(checked), tuple(rows)),
        part_of_olm=len(operators) - len(checked),
    )


@dataclass(frozen=True, slots=True)
class _Report:
    """An operator that blocks the update according to `source`, as in "ClusterOperator olm"."""

    operator: ReportedOperator
    source: str


def _match_reports(
    update: ClusterUpdate | None, operators: Sequence[Operator], components: ComponentsByKey
) -> tuple[dict[int, list[_Report]], list[_Report]]:
    """What the cluster names as incompatible: by id of the operator, and without an operator."""
    ids = {(row.kind, row.namespace, row.name): row.pk for row in operators}
    for row in operators:
        ids.setdefault(("ClusterServiceVersion", row.namespace, row.bundle), row.pk)
    known = set(ids.values())
    by_operator: dict[int, list[_Report]] = defaultdict(list)
    without = []
    reported = {
        report[:3]: _Report(report, f"{blocker.kind} {blocker.name}")
        for blocker in (update.blockers if update else ())
        for report in reported_operators(blocker.message)
    }
    for key, report in reported.items():
        component = components.get(key)
        pk = ids.get(key) or (component.operator_id if component else None)
        if pk in known:
            by_operator[pk].append(report)
        else:
            without.append(report)
    return by_operator, without


def _refuses_minor(blocker: UpgradeBlocker) -> bool:
    return blocker.code in ("max-openshift", "max-openshift-unreadable")


@dataclass(frozen=True, slots=True)
class _TargetCluster:
    """The cluster that is to be updated."""

    cluster: str
    version: str
    following: Minor | None
    openshift: bool

    def is_older_than(self, minimum: str) -> bool:
        """Whether its Kubernetes version, which is not stored for OpenShift, is below `minimum`."""
        running = None if self.openshift else read_version(self.version.removeprefix("v"))
        needed = read_version(minimum.removeprefix("v"))
        return running is not None and needed is not None and needed > running

    def row(
        self, kind: str, blocker: UpgradeBlocker, name: str, subject: CheckedOperator | None = None
    ) -> ReadinessRow:
        return ReadinessRow(
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
            plan=subject.plan if subject and blocker.target else "",
        )


def _cluster_blocker(blocker: UpdateBlocker) -> UpgradeBlocker:
    because = f" ({blocker.reason})" if blocker.reason else ""
    reported = [operator.words for operator in reported_operators(blocker.message)]
    remedy = _remedy_of(blocker.message)
    if reported:
        row = "its row says" if len(reported) == 1 else "their rows say"
        remedy = f"Upgrade or remove {listed(reported)}, as {row}. "
        remedy += "The condition then clears automatically."
    if blocker.kind == "ClusterOperator":
        code, verb = "cluster-operator", "says Upgradeable=False"
    else:
        code, verb = "cluster-version", "refuses"
    return UpgradeBlocker(
        code,
        Weight.BLOCKS,
        f"{blocker.kind} {blocker.name} {verb}{because}: {_one_line(blocker.message)}.",
        (remedy,),
    )


def _failing(update: ClusterUpdate) -> UpgradeBlocker:
    """The condition Failing of the ClusterVersion; mirrors checks of `oc adm upgrade`, which starts
    an update all the same on request."""
    cause = f"ClusterOperator {update.failing_operator}" if update.failing_operator else "the cause"
    remedies = [
        f"Resolve {cause} first: until then {REFUSED_WHILE_FAILING}, and an update that was "
        "started with it does not complete."
    ]
    if update.recovery:
        names = listing([f"ClusterOperator {name}" for name in update.recovery.operators])
        remedies = [
            f"{names} recovered. Wait for the cluster-version-operator, which clears the condition "
            f"at its next check, usually within minutes; until then {REFUSED_WHILE_FAILING}.",
            "If the condition stays: oc logs -n openshift-cluster-version "
            "deployment/cluster-version-operator",
        ]
    return UpgradeBlocker(
        "cluster-failing",
        Weight.COMPLETION,
        f"ClusterVersion version says Failing=True: {_one_line(update.failing)}.",
        tuple(remedies),
    )


def _delayer(row: ClusterOperator) -> UpgradeBlocker:
    """A ClusterOperator without which no update completes."""
    available = row.available or "Unknown"
    state = "Degraded=True" if row.degraded == "True" else f"Available={available}"
    because = f" ({row.reason})" if row.reason else ""
    return UpgradeBlocker(
        "cluster-operator-unhealthy",
        Weight.COMPLETION,
        f"ClusterOperator {row.name} says {state}{because}: {_one_line(row.message)}. An update "
        "can start, but it does not complete before this has changed.",
        _delayer_remedies(row),
    )


def _delayer_remedies(row: ClusterOperator) -> tuple[str, ...]:
    external = external_remedy(row.name, read_conditions(row.conditions))
    if not external:
        return (_remedy_of(row.message),)
    return (
        _remedy_of(row.message),
        f"{not_part_of_olm(row.name)}: see oc describe clusteroperator {row.name}",
    )


def _remedy_of(message: str) -> str:
    step = "Do what its message asks for" if _REQUEST.search(message) else "Resolve the cause"
    return f"{step}; the condition clears automatically."


def _one_line(message: str) -> str:
    return " ".join(message.split())[:1000].rstrip(".") or "no message"


def _bundle_of(operator: Operator, offer: OfferedPackage | None) -> tuple[str, str]:
    """Name and version of the installed bundle. An operator that was read before its catalog has
    the image of the bundle only until its next assessment."""
    for bundle in offer.facts.bundles if offer and operator.bundle else ():
        if bundle.image == operator.bundle:
            return bundle.name, operator.version or bundle.version
    return operator.bundle, operator.version


def _subject(
    operator: Operator, components: ComponentsByKey, offer: OfferedPackage | None
) -> CheckedOperator:
    details = details_of(operator)
    csv = components.get(("ClusterServiceVersion", operator.namespace, operator.bundle))
    if operator.kind == "ClusterServiceVersion":
        csv = components.get((operator.kind, operator.namespace, operator.name), csv)
    source = details_of(csv) if csv is not None else details
    maximum = source.get("max_openshift")
    bundle, version = _bundle_of(operator, offer)
    listed = offer is not None and bundle in offer.facts.by_name()
    if not isinstance(maximum, list):
        maximum = list(offer.maxima(bundle)) if offer and listed else None
    condition = components.get(("OperatorCondition", operator.namespace, operator.bundle))
    plan = components.get(
        ("InstallPlan", str(details.get("plan_namespace")), str(details.get("plan")))
    )
    minimum = str(source.get("min_kube") or "")
    return CheckedOperator(
        kind=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        package=operator.package,
        version=version,
        bundle=bundle,
        channels=tuple(channel for channel in operator.channel.split(", ") if channel),
        manual=details.get("approval") == "Manual",
        plan=plan.name if plan is not None and plan.phase == "RequiresApproval" else "",
        version_asked=operator.version_asked if operator.kind == "ClusterExtension" else "",
        maximum=None if maximum is None else tuple(str(value) for value in maximum),
        min_kube=minimum or (offer.min_kube.get(bundle, "") if offer else ""),
        refused=not_upgradeable(condition) if condition is not None else None,
    )


def _blockers(
    subject: CheckedOperator, offer: OfferedPackage | None, target: _TargetCluster
) -> Iterable[UpgradeBlocker]:
    if not subject.bundle and not subject.version:
        return  # nothing is installed yet
    following = target.following
    if target.openshift and following is not None:
        blocker = max_openshift(subject, following)
        if blocker is not None and blocker.weight != Weight.UNKNOWN:
            what = f"supports OpenShift {following}"
            blocker = _with_route(
                blocker, subject, offer, target, what,
                lambda name: offer is not None and supports(offer.maxima(name), following),
            )  # fmt: skip
        yield from (blocker,) if blocker else ()
    if (refused := operator_condition(subject)) is not None:
        yield refused
    if target.is_older_than(subject.min_kube):
        yield min_kube(subject, target.version)
    if offer is not None:
        for deprecation in deprecations(subject, offer):
            yield _deprecated(deprecation, subject, offer, target)


def _deprecated(
    blocker: UpgradeBlocker, subject: CheckedOperator, offer: OfferedPackage, target: _TargetCluster
) -> UpgradeBlocker:
    if blocker.code == "package-deprecated":
        return blocker
    if blocker.code == "bundle-deprecated":
        fine = set(offer.facts.by_name()) - set(offer.deprecated_bundles)
        return _with_route(blocker, subject, offer, target, "is not deprecated", fine.__contains__)
    bundles = {
        name: {entry.name for entry in offer.facts.channels[name]}
        for name in offer.facts.ordered_channels()
        if name not in offer.deprecated_channels
    }
    channels = [name for name, names in bundles.items() if subject.bundle in names]
    if subject.kind == "Subscription" and channels:
        remedy = (
            f"Change its channel to {' or '.join(channels[:3])}, which has {subject.words}, too."
        )
        return replace(blocker, ways=(remedy,))
    remaining = set[str]().union(*bundles.values())
    what = "is in a channel that is not deprecated"
    return _with_route(blocker, subject, offer, target, what, remaining.__contains__)


def _with_route(
    blocker: UpgradeBlocker,
    subject: CheckedOperator,
    offer: OfferedPackage | None,
    target: _TargetCluster,
    what: str,
    clears: Clears,
) -> UpgradeBlocker:
    if offer is None:
        remedy = (
            f"No stored catalog has package {subject.package or 'of it'}, so no "
            "resolution is known: sync the catalog that it was installed from."
        )
        return replace(blocker, ways=(remedy,))
    route = upgrade_route(subject, offer, clears, what)
    remedies = list(route.sentences)
    needed = next(
        (offer.min_kube.get(bundle.name, "") for bundle in offer.facts.bundles
         if bundle.version == route.target), "",
    )  # fmt: skip
    if target.is_older_than(needed):
        remedies.append(
            f"{route.target} needs Kubernetes {needed}, the cluster has {target.version}: it can "
            "only follow the update of the cluster."
        )
    return replace(blocker, ways=tuple(remedies), target=route.target)
