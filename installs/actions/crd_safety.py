"""What the CRDs of a bundle change on a cluster, before an upgrade and before an install.

Compares stored rows and makes no request: the CRDs of the bundle with those of the cluster as a
worker read them (installs.facts.crd_schemas), or with those of another bundle.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from catalogs.contents.crd_upgrade import CrdFinding, OlmV0, crd_upgrade, is_too_deep
from catalogs.contents.objects import crds_in
from catalogs.contents.stored import manifests_of
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package
from installs.actions.install_rows import ExistingCrd, InstallRows
from installs.actions.plan_changes import installed_bundle
from installs.facts.crd_schemas import schemas_of
from installs.methods import ENFORCEMENTS, METHODS, InstallChoice
from installs.methods.base import CrdOwner
from installs.models import CRDState, Operator, crd_operator
from installs.queries.leftovers import package_label
from olmweb.kube.fields import Object, items, text
from olmweb.models import Cluster

CRD_OUTCOMES = ("refused", "of_objects", "allowed")  # fields of CrdSafety
_NOT_OF_BUNDLE = "The installed bundle does not have it: it came to the cluster in another way."
UNCHECKED = ENFORCEMENTS[-1]  # of a ClusterExtension whose CRD upgrade safety is off


class CrdNote(NamedTuple):
    """A sentence about a CRD of the cluster."""

    crd: str
    note: str


class OtherOwner(NamedTuple):
    """CRDs of the cluster that belong to another operator, or did; `owner` in words."""

    crds: tuple[str, ...]
    owner: str
    installed: bool


@dataclass(frozen=True, slots=True)
class CrdSafety:
    """The changes of CRDs from those of the cluster to the bundle `after`.

    `before` is the installed bundle; empty before an install. `of_bundle` names the CRDs whose
    schemas on the cluster are not stored: they are compared with those of `before`. `unread` are
    those that are compared with nothing, because there is no `before`.

    `refused` are those for which OLM refuses the bundle, `of_objects` those for which it does if
    an existing object does not fit, `allowed` those that break clients or drop values. `unknown`
    are the bundles whose CRDs are not stored, for which nothing is compared; `unlisted` says the
    same of the CRDs of the cluster. `too_deep` names CRDs of which only the upper levels are
    compared. `differences` say in sentences how the CRDs of the cluster differ from those of
    `before`, `owners` which of them are not those of the object to be installed. `component` is the
    one that refuses or allows the changes.
    """

    before: str
    after: str
    refused: tuple[CrdFinding, ...] = ()
    of_objects: tuple[CrdFinding, ...] = ()
    allowed: tuple[CrdFinding, ...] = ()
    unknown: tuple[str, ...] = ()
    unlisted: bool = False
    differences: tuple[CrdNote, ...] = ()
    of_bundle: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    too_deep: tuple[str, ...] = ()
    owners: tuple[OtherOwner, ...] = ()
    component: str = ""

    @property
    def rows(self) -> list[tuple[str, CrdFinding]]:
        """(outcome, finding), the refused ones first."""
        return [(name, finding) for name in CRD_OUTCOMES for finding in getattr(self, name)]


# -- an upgrade ------------------------------------------------------------------------------------


def crd_safety(operator: Operator, package: Package, target: str) -> CrdSafety | None:
    """What the CRDs of the bundle `target` change, judged by the OLM of the operator; None without
    an upgrade. At most seven queries.

    The CRDs compared are those of the new bundle that the installed one or the cluster has, with
    the stored versions that the cluster reports.
    """
    start = installed_bundle(operator)
    if not start or not target or start == target:
        return None
    bundles = {row.name: row for row in package.bundles.filter(name__in=(start, target))}
    if absent := tuple(name for name in (start, target) if name not in bundles):
        return CrdSafety(start, target, unknown=absent)
    compared = _compare(operator.cluster, bundles[start], bundles[target])
    if compared.unknown:
        return CrdSafety(start, target, unknown=compared.unknown)
    return CrdSafety(
        start,
        target,
        *_by_outcome(operator.kind, compared.findings),
        differences=_differences(operator, compared),
        of_bundle=tuple(sorted(compared.before.keys() - compared.read)),
        too_deep=compared.too_deep,
        component=_component(operator.kind),
    )


class Compared(NamedTuple):
    """The changes of CRDs to a bundle, and the bundles whose CRDs are not stored, for which nothing
    is compared.

    `names` are the CRDs of the bundle that the other side has. `before` are those of the first
    bundle among them, `states` what the cluster has of them, `read` the names whose CRDs are those
    of the cluster.
    """

    findings: tuple[CrdFinding, ...] = ()
    too_deep: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    before: Mapping[str, Object] = MappingProxyType({})
    states: Mapping[str, CRDState] = MappingProxyType({})
    read: frozenset[str] = frozenset()


def compare_bundles(cluster: Cluster | None, before: Bundle, after: Bundle) -> Compared:
    """The CRDs that both bundles have, with the stored versions that the cluster reports. At most
    five queries."""
    old, new = crds_of(before), crds_of(after)
    if old is None or new is None:
        return _not_stored((before, old), (after, new))
    old = {name: old[name] for name in old.keys() & new.keys()}
    states = _states(cluster, old)
    return Compared(*_changes(old, new, states), (), tuple(sorted(old)), old, states)


def compare_with_cluster(cluster: Cluster, after: Bundle) -> Compared:
    """The CRDs of the bundle that the cluster has, with their stored schemas. At most four
    queries."""
    new = crds_of(after)
    if new is None:
        return _not_stored((after, new))
    states = _states(cluster, new)
    read = schemas_of(cluster, states.keys())
    names = tuple(sorted(states))
    return Compared(*_changes(read, new, states), (), names, states=states, read=frozenset(read))


def _compare(cluster: Cluster, before: Bundle, after: Bundle) -> Compared:
    """The CRDs of `after` that the cluster or `before` has, those of the cluster first."""
    old, new = crds_of(before), crds_of(after)
    if old is None or new is None:
        return _not_stored((before, old), (after, new))
    states = _states(cluster, new)
    read = schemas_of(cluster, states.keys())
    old = {name: old[name] for name in old.keys() & new.keys()}
    names = tuple(sorted({*old, *read}))
    changes = _changes({**old, **read}, new, states)
    return Compared(*changes, (), names, old, states, frozenset(read))


def _not_stored(*pairs: tuple[Bundle, Mapping[str, Object] | None]) -> Compared:
    return Compared(unknown=tuple(bundle.name for bundle, crds in pairs if crds is None))


def _states(cluster: Cluster | None, names: Iterable[str]) -> dict[str, CRDState]:
    if cluster is None:
        return {}
    fields = ("name", "served", "defined", "stored", "owner_kind", "owner_namespace", "owner_name")
    rows = CRDState.objects.filter(cluster=cluster, name__in=names).only(*fields)
    return {row.name: row for row in rows}


def _changes(
    old: Mapping[str, Object],
    new: Mapping[str, Object],
    states: Mapping[str, CRDState | ExistingCrd],
) -> tuple[tuple[CrdFinding, ...], tuple[str, ...]]:
    """The findings of the CRDs that both have, and the names of those that are nested too deep."""
    findings: list[CrdFinding] = []
    too_deep = []
    for name in sorted(old.keys() & new.keys()):
        status = {"storedVersions": states[name].stored if name in states else []}
        findings += crd_upgrade({**old[name], "status": status}, new[name])
        if is_too_deep(old[name]) or is_too_deep(new[name]):
            too_deep.append(name)
    return tuple(findings), tuple(too_deep)


def _differences(operator: Operator, compared: Compared) -> tuple[CrdNote, ...]:
    """How the CRDs of the cluster differ from those of the installed bundle: they were changed by
    hand, belong to another operator or are gone."""
    method = METHODS.get(operator.kind)
    owner = method.crd_owner(operator) if method else None
    rows = []
    for name in compared.names:
        if (state := compared.states.get(name)) is None:
            if compared.states:
                rows.append(CrdNote(name, "The cluster does not have it."))
            continue
        if name not in compared.before:
            rows.append(CrdNote(name, _NOT_OF_BUNDLE))
        versions = items(compared.before.get(name), "spec", "versions")
        for words, bundled, present in (
            ("defines", versions, state.defined),
            ("serves", [version for version in versions if version.get("served")], state.served),
        ):
            names = sorted(text(version, "name") for version in bundled)
            if present and names and names != sorted(present):
                note = f"The cluster {words} {_list(present)}, the bundle {_list(names)}."
                rows.append(CrdNote(name, note))
        owned = (state.owner_kind, state.owner_name)
        if owner and state.owner_name and owned != (owner.kind, owner.name):
            note = f"It belongs to {_owner_words(*owned)} on the cluster."
            rows.append(CrdNote(name, note))
    return tuple(rows)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


# -- an install ------------------------------------------------------------------------------------


def install_crd_safety(rows: InstallRows, choice: InstallChoice, target: str) -> CrdSafety | None:
    """What installing the bundle `target` changes in CRDs that the cluster has already; None if
    there is nothing to say. At most two queries, and none on a cluster without such CRDs."""
    bundle = rows.bundle(target)
    if bundle is None:
        return None
    if not rows.crds_listed:
        return CrdSafety("", target, unlisted=True)
    if not rows.existing_crds:
        return None
    new = crds_of(bundle)
    existing = {crd.name: crd for crd in rows.existing_crds if new is None or crd.name in new}
    owners = _other_owners(rows, choice, existing.values())
    if new is None:
        return CrdSafety("", target, unknown=(target,), owners=owners)
    old = {name: crd.content for name, crd in existing.items() if crd.content is not None}
    findings, too_deep = _changes(old, new, existing)
    unread = tuple(sorted(existing.keys() - old.keys()))
    if not (findings or too_deep or unread or owners):
        return None
    checked = choice.crd_safety != UNCHECKED
    return CrdSafety(
        "",
        target,
        *_by_outcome(choice.method, findings, checked=checked),
        unread=unread,
        too_deep=too_deep,
        owners=owners,
        component=_component(choice.method, checked=checked),
    )


def _owner_words(kind: str, name: str) -> str:
    operator = crd_operator(kind, "", name)
    if operator is None:
        return f"{kind} {name}"
    where = f" in namespace {operator.namespace}" if operator.namespace else ""
    return f"{operator.kind} {operator.name}{where}"


def _other_owners(
    rows: InstallRows, choice: InstallChoice, crds: Iterable[ExistingCrd]
) -> tuple[OtherOwner, ...]:
    """The CRDs whose labels name another owner than the object to be installed, by owner."""
    planned = Operator(
        kind=choice.method, namespace=choice.namespace, name=choice.name, package=choice.package
    )
    own = METHODS[choice.method].crd_owner(planned)
    owners: dict[CrdOwner, list[str]] = defaultdict(list)
    for crd in crds:
        if crd.owner_name:
            owners[CrdOwner(crd.owner_kind, crd.owner_name)].append(crd.name)
    return tuple(
        OtherOwner(tuple(names), *_in_words(owner, rows.operators))
        for owner, names in owners.items()
        if owner != own
    )


def _in_words(owner: CrdOwner, operators: Iterable[Operator]) -> tuple[str, bool]:
    """The owner, and whether it is installed; assumed of a BundleDeployment, which has no row."""
    same_name = {row.kind for row in operators if row.name == owner.name}
    if owner.kind == "Operator":  # OLM's own grouping, called PACKAGE.NAMESPACE
        package, _, namespace = owner.name.rpartition(".")
        installed = any(
            row.kind == InstallMethod.SUBSCRIPTION
            and package_label(row.package, row.namespace) == owner.name
            for row in operators
        )
        return f"the Subscription of package {package} in namespace {namespace}", installed
    if owner.kind == "BundleDeployment":
        ours = InstallMethod.PLATFORM_OPERATOR in same_name
        return f"{InstallMethod.PLATFORM_OPERATOR if ours else owner.kind} {owner.name}", True
    return f"{owner.kind} {owner.name}", owner.kind in same_name


# -- outcomes --------------------------------------------------------------------------------------


def _by_outcome(
    kind: str, findings: Iterable[CrdFinding], *, checked: bool = True
) -> tuple[tuple[CrdFinding, ...], tuple[CrdFinding, ...], tuple[CrdFinding, ...]]:
    """The findings that are refused, depend on objects, and are allowed."""
    by_outcome: dict[str, list[CrdFinding]] = defaultdict(list)
    for finding in findings:
        by_outcome[outcome_of(kind, finding, checked=checked)].append(finding)
    refused, of_objects, allowed = (tuple(by_outcome[name]) for name in CRD_OUTCOMES)
    return refused, of_objects, allowed


def _component(kind: str, *, checked: bool = True) -> str:
    if kind == InstallMethod.CLUSTER_EXTENSION:
        return "operator-controller" if checked else "The API server"
    return "OLM" if kind == InstallMethod.SUBSCRIPTION else "rukpak"


def outcome_of(kind: str, finding: CrdFinding, *, checked: bool = True) -> str:
    """The field of CrdSafety that a finding belongs to. `checked`: a ClusterExtension's CRD upgrade
    safety is on.

    The webhook of rukpak, which applies PlatformOperators, has the rules of OLM v0 (rukpak 0.24:
    internal/crd/crd.go). What OLM v0 refuses in any case, the API server refuses, too.
    """
    if kind == InstallMethod.CLUSTER_EXTENSION and checked:
        return "refused" if finding.olm_v1 else "allowed"
    if finding.olm_v0 is OlmV0.REFUSES:
        return "refused"
    by_objects = finding.olm_v0 is OlmV0.OBJECTS and kind != InstallMethod.CLUSTER_EXTENSION
    return "of_objects" if by_objects else "allowed"


def crds_of(bundle: Bundle) -> dict[str, Object] | None:
    """The CRDs of the bundle by name; None if they are not stored. At most two queries."""
    manifests = manifests_of(bundle)
    if manifests is None or (manifests.missing_crds and not manifests.digest):
        return None
    return crds_in(manifests.objects)
