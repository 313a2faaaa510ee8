"""Derives columns from stored rows: version, upgrade and diagnosis of operators, problems of CRDs,
members of the aggregated ClusterOperator.

Changes of health are added to the history, to the log of events and to the notifications.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from django.db.models import Exists, F, OuterRef

import installs
from catalogs.models import Catalog, Package
from installs.diagnosis.aggregated import NAME as AGGREGATED
from installs.diagnosis.aggregated import Member, disagreement, parse_members
from installs.diagnosis.chains import diagnose
from installs.diagnosis.evaluate import crd_problem
from installs.diagnosis.knowledge import fingerprint
from installs.diagnosis.types import Observation, read_conditions
from installs.models import (
    NEEDS_ATTENTION,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    CRDState,
    Operator,
    OperatorReference,
    Transition,
    UnknownMessage,
)
from installs.notifications import select
from installs.state import upgrades
from installs.state.catalog_offers import (
    ImageBundle,
    UpgradeOffer,
    bundles_by_image,
    offers_of,
    usable_catalogs,
)
from installs.state.decode import Key
from installs.state.history import HEALTH, WriteContext, events_of, transition
from installs.state.observation import (
    ComponentRow,
    catalogd_of,
    component_rows,
    observe,
    read_unread_kinds,
)
from installs.state.store import Delta, among, batched
from olmweb.bulk import insert, update, upsert
from olmweb.eventlog.record import record
from olmweb.kube.conditions import find, status_of
from olmweb.kube.fields import read_time, text
from olmweb.models import Cluster

_DERIVED_COLUMNS = (
    "version",
    "bundle",
    "health",
    "finding",
    "facts",
    "reason",
    "message",
    "broken_kind",
    "broken_name",
    "since",
    "deprecated",
    "upgrade",
    "upgrade_held",
)


@cache
def rules_version() -> str:
    """A hash of the code and knowledge that derive rows."""
    package = Path(installs.__file__).parent
    digest = hashlib.sha256()
    folders = (package / "diagnosis", package / "knowledge", package / "state")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in sorted(path for path in paths if path.suffix in (".py", ".yaml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def basis(cluster_id: int) -> str:
    """A hash of everything but the rows that derived columns depend on: the rules, and the catalogs
    with a package that an operator of the cluster comes from."""
    names = Operator.objects.filter(cluster_id=cluster_id).order_by().values("package")
    relevant = Package.objects.filter(catalog=OuterRef("pk"), name__in=names)
    usable = Catalog.objects.filter(usable_catalogs(cluster_id))
    catalogs = usable.filter(Exists(relevant)).order_by("pk")
    contents = list(catalogs.values_list("pk", "name", "priority", "revision", "content_hash"))
    return hashlib.sha256(msgspec.json.encode((rules_version(), contents))).hexdigest()


# -- operators -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _OperatorBatch:
    """Some operators with their components and the offers of catalogs."""

    rows: list[Operator]
    components: dict[int, list[ComponentRow]]  # by operator id: owned and referenced ones
    offers: dict[str, list[UpgradeOffer]] = field(default_factory=dict)
    images: dict[str, ImageBundle] = field(default_factory=dict)
    observed: dict[int, Observation] = field(default_factory=dict)

    def observations_of(self, row: Operator) -> list[Observation]:
        """The operator's components; shared ones are converted once."""
        for component in self.components[row.pk]:
            if component.id not in self.observed:
                self.observed[component.id] = observe(component)
        return [self.observed[component.id] for component in self.components[row.pk]]


def assess(
    cluster_id: int, ids: Collection[int], new: Collection[Key], context: WriteContext
) -> int:
    """Updates the derived columns of these operators; returns the number of rows written.

    `new` are operators stored for the first time: their state is older than their row.
    """
    written = 0
    # Read if an operator needs them.
    catalogd = cache(partial(catalogd_of, cluster_id))
    unread = cache(partial(read_unread_kinds, cluster_id))
    for batch in batched(sorted(ids)):
        operators = _load(cluster_id, batch)
        history: list[Transition] = []
        touched: list[Operator] = []
        with_unknown_message: list[Operator] = []
        for row in operators.rows:
            before = [getattr(row, name) for name in _DERIVED_COLUMNS]
            message_before = unknown_message(row)
            is_new = (row.kind, row.namespace, row.name) in new
            _derive(row, operators)
            history += _diagnose(row, operators, context, catalogd, unread, is_new=is_new)
            message = unknown_message(row)
            if message is not None and message != message_before:
                with_unknown_message.append(row)
            if before != [getattr(row, name) for name in _DERIVED_COLUMNS]:
                touched.append(row)
        update(Operator, touched, _DERIVED_COLUMNS)
        insert(Transition, history)
        findings = {(row.kind, row.namespace, row.name): row.finding for row in operators.rows}
        record(events_of(context, history, findings))
        select.record_changes(history, operators.rows)
        count_unknown_messages(with_unknown_message, context)
        written += len(touched)
    return written


def _load(cluster_id: int, ids: Sequence[int]) -> _OperatorBatch:
    rows = list(Operator.objects.filter(id__in=ids).order_by("id"))
    owned = Component.objects.filter(operator_id__in=ids).order_by("-created_at", "id")
    components: dict[int, dict[int, ComponentRow]] = defaultdict(dict)
    for component in component_rows(owned):
        components[component.operator_id or 0][component.id] = component
    wanted: dict[Key, list[int]] = defaultdict(list)
    references = OperatorReference.objects.filter(operator_id__in=ids).order_by()
    for pk, kind, namespace, name in references.values_list(
        "operator_id", "kind", "namespace", "name"
    ):
        wanted[kind, namespace, name].append(pk)
    by_key = {row.key: row for owned_rows in components.values() for row in owned_rows.values()}
    for batch in batched(sorted(set(wanted) - set(by_key))):
        referenced = Component.objects.filter(among(batch), cluster_id=cluster_id).order_by("id")
        by_key |= {component.key: component for component in component_rows(referenced)}
    for key, pks in wanted.items():
        if key in by_key:
            for pk in pks:
                components[pk][by_key[key].id] = by_key[key]
    operators = _OperatorBatch(rows, {row.pk: list(components[row.pk].values()) for row in rows})
    operators.offers = offers_of(cluster_id, {row.package for row in rows} - {""})
    platform = [row for row in rows if row.kind == "PlatformOperator"]
    images = {_image(operators.components[row.pk]) for row in platform} - {""}
    operators.images = bundles_by_image(cluster_id, {row.package for row in platform}, images)
    return operators


def _image(components: Iterable[ComponentRow]) -> str:
    return next((row.image for row in components if row.kind == "BundleDeployment"), "")


def _derive(row: Operator, operators: _OperatorBatch) -> None:
    """Sets version, deprecation and upgrade.

    A PlatformOperator names neither bundle nor version; they are those of the catalog's bundle
    with the image of its BundleDeployment. Without a catalog that has it, `bundle` is the image.
    """
    components, offers = operators.components[row.pk], operators.offers.get(row.package, [])
    if row.kind == "PlatformOperator":
        image = _image(components)
        row.bundle, row.version, row.deprecated = operators.images.get(
            image, ImageBundle(image, "", False)
        )
    elif row.kind == "Subscription":
        offer = next((offer for offer in offers if offer.catalog == row.catalog), None)
        csvs = {csv.name: csv for csv in components if csv.kind == "ClusterServiceVersion"}
        row.version = upgrades.version_of(row.bundle, csvs, offer) if row.bundle else ""
        row.deprecated = upgrades.is_deprecated(row, row.conditions, offer)
        upgrade = upgrades.of_subscription(row, components, offer)
        row.upgrade, row.upgrade_held = upgrade.version, upgrade.held
    elif row.kind == "ClusterExtension":
        selected = [offer for offer in offers if row.catalog in ("", offer.catalog)]
        own_offer = next((offer for offer in selected if row.bundle in offer.versions), None)
        row.deprecated = upgrades.is_deprecated(row, row.conditions, own_offer)
        upgrade = upgrades.of_extension(row, offers)
        row.upgrade, row.upgrade_held = upgrade.version, upgrade.held


def _diagnose(
    row: Operator,
    operators: _OperatorBatch,
    context: WriteContext,
    catalogd: Callable[[], dict[str, Any]],
    unread: Callable[[], Container[str]],
    *,
    is_new: bool,
) -> list[Transition]:
    diagnosis = diagnose(
        observe(row),
        operators.observations_of(row),
        now=context.now,
        catalogd=catalogd,
        unread=unread,
    )
    reason = diagnosis.reason[:1024]
    old_health, old_reason = ("", "") if is_new else (row.health, row.reason)
    broken = next((link for link in diagnosis.chain if link.first_broken), None)
    row.health, row.reason, row.message = diagnosis.health, reason, diagnosis.message
    row.finding = diagnosis.finding.id[:100] if diagnosis.finding else ""
    row.facts = dict(diagnosis.finding.facts) if diagnosis.finding else {}
    row.broken_kind = broken.kind[:100] if broken else ""
    row.broken_name = broken.name[:253] if broken else ""
    if (old_health, old_reason) == (row.health, reason):
        return []
    began = _reason_began([row, *operators.components[row.pk]], reason)
    if began and not is_new and not (row.since and row.since < began <= context.now):
        began = None  # the reason is older than the health before it, or clocks differ
    row.since = began or context.now
    return [
        transition(
            context,
            (row.kind, row.namespace, row.name),
            row.uid,
            HEALTH,
            from_status=old_health,
            from_reason=old_reason,
            to_status=row.health,
            to_reason=reason,
            message=row.message,
        )
    ]


def _reason_began(rows: Sequence[Operator | ComponentRow], reason: str) -> datetime | None:
    """When the reason began according to the operator (the first row), else to its components."""
    for group in (rows[:1], rows[1:]):
        times = [at for row in group if reason for at in _transition_times(row, reason)]
        if times:
            return max(times)
    return None


def _transition_times(row: Operator | ComponentRow, reason: str) -> Iterator[datetime]:
    """When conditions, or the phase of a ClusterServiceVersion, took this reason."""
    values = [
        condition.get("lastTransitionTime")
        for condition in row.conditions
        if condition.get("reason") == reason
    ]
    if row.details.get("reason") == reason:
        values += [row.details.get("last_transition") or row.details.get("last_update")]
    for value in values:
        if at := read_time(value):
            yield at


# -- messages that the knowledge base does not cover -----------------------------------------------


class MessageKey(NamedTuple):
    """Identity of messages that are alike, from one kind of object."""

    fingerprint: str  # a hash of it
    kind: str


def unknown_message(row: Operator) -> MessageKey | None:
    """The key of a message without a finding; None for healthy operators and known causes."""
    if row.finding or not row.message or row.health not in NEEDS_ATTENTION:
        return None
    digest = hashlib.sha256(fingerprint(row.message).encode()).hexdigest()
    return MessageKey(digest, row.broken_kind or row.kind)


def count_unknown_messages(rows: Sequence[Operator], context: WriteContext) -> None:
    """Counts the message of each of these operators once.

    The rows are shared by all clusters, so they are written in one order and without conflicts:
    concurrent transactions neither deadlock nor lose counts.
    """
    by_message = {key: row for row in rows if (key := unknown_message(row)) is not None}
    if not by_message:
        return
    counts = Counter(unknown_message(row) for row in rows)
    cluster = Cluster.objects.get(pk=context.cluster_id).name
    UnknownMessage.objects.bulk_create(
        [
            UnknownMessage(
                fingerprint=key.fingerprint,
                kind=key.kind,
                reason=row.reason,
                sample=row.message,
                example=", ".join(filter(None, (cluster, row.namespace, row.name)))[:500],
                count=0,
                first_at=context.now,
                last_at=context.now,
            )
            for key, row in sorted(by_message.items(), key=itemgetter(0))
        ],
        ignore_conflicts=True,
    )
    for key in sorted(by_message):
        UnknownMessage.objects.filter(fingerprint=key.fingerprint, kind=key.kind).update(
            count=F("count") + counts[key], last_at=context.now
        )


# -- CustomResourceDefinitions ---------------------------------------------------------------------


def assess_crds(ids: Collection[int]) -> int:
    """Updates finding and facts of these CRDs; returns the number of rows written."""
    written = 0
    for batch in batched(sorted(ids)):
        touched = []
        for row in CRDState.objects.filter(id__in=batch).order_by("id"):
            problem = crd_problem(
                row.name, row.defined, row.served, row.stored, read_conditions(row.conditions)
            )
            finding, facts = (problem.entry.id[:100], problem.facts) if problem else ("", {})
            if (finding, facts) != (row.finding, row.facts):
                row.finding, row.facts = finding, facts
                touched.append(row)
        update(CRDState, touched, ["finding", "facts"])
        written += len(touched)
    return written


# -- the aggregated ClusterOperator ----------------------------------------------------------------


def lists_members(operators: Delta) -> bool:
    """Whether any touched ClusterOperator lists members, or listed some before."""
    for key in operators.touched:
        before, after = operators.before.get(key), operators.changed.get(key)
        versions = (before.conditions if before else [], after.conditions if after else [])
        if key[2] == AGGREGATED or any(_members_in(conditions) for conditions in versions):
            return True
    return False


def update_members(cluster_id: int, *, comparable: bool) -> tuple[int, int]:
    """Updates the members and the sentence on a disagreement with the PlatformOperators.

    `comparable`: the list of PlatformOperators is complete. Returns the number of ClusterOperators
    written, and that of members written or deleted.
    """
    rows = list(ClusterOperator.objects.filter(cluster_id=cluster_id, aggregated=True))
    members = {row.pk: _members_in(row.conditions) for row in rows}
    written = 0
    if rows:
        failing = _failing(cluster_id) if comparable else set()
        for row in rows:
            problem = disagreement(members[row.pk], failing) if comparable else ""
            if problem != row.problem:
                ClusterOperator.objects.filter(pk=row.pk).update(problem=problem)
                written += 1
    return written, _save_members(cluster_id, members)


def _members_in(conditions: list[dict[str, Any]]) -> tuple[Member, ...]:
    return parse_members(text(find(conditions, "Available"), "message"))


def _failing(cluster_id: int) -> set[str]:
    rows = Operator.objects.filter(cluster_id=cluster_id, kind="PlatformOperator").order_by()
    return {
        name
        for name, conditions in rows.values_list("name", "conditions")
        if status_of(conditions, "Installed") != "True"
    }


def _save_members(cluster_id: int, by_cluster_operator: Mapping[int, Sequence[Member]]) -> int:
    wanted = {
        (pk, member.name[:253]): member.reason
        for pk, members in by_cluster_operator.items()
        for member in members
    }
    stored = {
        (row.cluster_operator_id, row.name): row
        for row in ClusterOperatorMember.objects.filter(cluster_operator__cluster_id=cluster_id)
    }
    if not wanted and not stored:
        return 0
    operators = dict(
        Operator.objects.filter(
            cluster_id=cluster_id, kind="PlatformOperator", name__in={name for _, name in wanted}
        ).values_list("name", "id")
    )
    rows = [
        ClusterOperatorMember(
            cluster_operator_id=parent, name=name, reason=reason, operator_id=operators.get(name)
        )
        for (parent, name), reason in wanted.items()
        if (old := stored.get((parent, name))) is None
        or (old.reason, old.operator_id) != (reason, operators.get(name))
    ]
    upsert(ClusterOperatorMember, rows, ["reason", "operator"], ["cluster_operator", "name"])
    if obsolete := [row.pk for key, row in stored.items() if key not in wanted]:
        ClusterOperatorMember.objects.filter(pk__in=obsolete).delete()
    return len(rows) + len(obsolete)
