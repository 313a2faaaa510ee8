"""The operators of every cluster in memory, for what pages count and group.

Lists of all clusters name a few operators and count thousands. Each process keeps the counts of a
cluster, and a short row of each operator that needs attention, while the revision of the cluster
stays.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple

from django.db.models import Case, F, QuerySet, TextField, When
from django.db.models.functions import Cast

from installs.models import NEEDS_ATTENTION, Health, Operator
from olmweb.web.revisions import PerRevision

Facts = tuple[tuple[str, str], ...]  # (name, value) of each, sorted
_BAD = frozenset(str(value) for value in NEEDS_ATTENTION)


class AttentionRow(NamedTuple):
    """An operator that needs attention."""

    name: str
    pk: int
    namespace: str
    package: str
    reason: str
    facts: Facts


class CauseRows(NamedTuple):
    """The operators of one kind on one cluster that need attention for one cause, sorted by name:
    for a finding, or for a reason where there is no finding. `facts` are those of the operators,
    each once."""

    kind: str
    finding: str
    reason: str
    rows: tuple[AttentionRow, ...]
    facts: tuple[Facts, ...]


@dataclass(frozen=True, slots=True)
class ClusterIndex:
    """The operators of one cluster. `upgrades` counts those with another version to take;
    `subscribed` are the packages with a Subscription; `to_approve` are those that need approval, by
    name, with identity, health, details and upgrade alone."""

    by_kind: Mapping[str, int]
    by_namespace: Mapping[str, int]
    by_health: Mapping[str, int]
    upgrades: int
    causes: tuple[CauseRows, ...]
    subscribed: frozenset[str]
    to_approve: tuple[Operator, ...]


def _read(ids: Collection[int]) -> dict[int, ClusterIndex]:
    """One query."""
    rows_of: dict[int, list[tuple[Any, ...]]] = {pk: [] for pk in ids}
    for row in _operators().filter(cluster__in=ids):
        rows_of[row[1]].append(row)
    return {pk: _index(rows) for pk, rows in rows_of.items()}


@cache
def _operators() -> QuerySet[Any, Any]:
    """The columns that `_index` reads. Nearly every page reads those of a few clusters: building
    this takes longer than reading."""
    facts = Cast("facts", TextField())
    plan = Case(When(health=Health.NEEDS_APPROVAL, then=F("details")))
    columns = (
        *("pk", "cluster", "kind", "namespace", "name", "package", "health", "finding", "reason"),
        *("facts_text", "version", "upgrade", "plan"),
    )
    rows = Operator.objects.annotate(facts_text=facts, plan=plan)
    return rows.order_by().values_list(*columns)


def _index(rows: Iterable[tuple[Any, ...]]) -> ClusterIndex:
    kinds: Counter[str] = Counter()
    namespaces: Counter[str] = Counter()
    healths: Counter[str] = Counter()
    causes: dict[tuple[str, str, str], list[AttentionRow]] = defaultdict(list)
    subscribed: set[str] = set()
    to_approve: list[Operator] = []
    upgrades = 0
    for pk, cluster, kind, namespace, name, package, health, finding, reason, *rest in rows:
        facts, version, upgrade, details = rest
        kinds[kind] += 1
        namespaces[namespace] += 1
        healths[health] += 1
        upgrades += upgrade not in ("", version)
        if kind == "Subscription":
            subscribed.add(package)
        if health in _BAD:
            row = AttentionRow(name, pk, namespace, package, intern(reason), _facts(facts))
            causes[kind, finding, "" if finding else reason].append(row)
        if health == Health.NEEDS_APPROVAL:
            identity = {"cluster_id": cluster, "kind": kind, "namespace": namespace, "name": name}
            to_approve.append(
                Operator(pk, **identity, health=health, details=details, upgrade=upgrade)
            )
    return ClusterIndex(
        dict(kinds),
        dict(namespaces),
        dict(healths),
        upgrades,
        tuple(_cause(*cause, sorted(members)) for cause, members in causes.items()),
        frozenset(subscribed),
        tuple(sorted(to_approve, key=attrgetter("name", "pk"))),
    )


@lru_cache(maxsize=4096)  # operators with one cause have the same facts, on every cluster
def _facts(text: str) -> Facts:
    return tuple(sorted(json.loads(text).items()))


def _cause(kind: str, finding: str, reason: str, rows: Sequence[AttentionRow]) -> CauseRows:
    facts = dict.fromkeys(row.facts for row in rows)
    return CauseRows(kind, finding, reason, tuple(rows), tuple(facts))


OPERATOR_INDEX = PerRevision(_read)


def only(causes: Iterable[CauseRows], pks: Collection[int]) -> list[CauseRows]:
    """The causes with these of their operators alone."""
    kept = [(cause, [row for row in cause.rows if row.pk in pks]) for cause in causes]
    return [_cause(*cause[:3], rows) for cause, rows in kept if rows]


class CauseFacts(NamedTuple):
    """The facts of operators of one kind that need attention for one cause."""

    finding: str
    reason: str
    kind: str
    facts: dict[str, str]


def facts_of(causes: Iterable[CauseRows]) -> Iterator[CauseFacts]:
    """The facts of the operators, each combination once."""
    combinations = dict.fromkeys(
        (cause.finding, cause.reason, cause.kind, facts)
        for cause in causes
        for facts in cause.facts
    )
    for finding, reason, kind, facts in combinations:
        yield CauseFacts(finding, reason, kind, dict(facts))
