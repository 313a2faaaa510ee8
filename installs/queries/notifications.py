"""Reads behind the notifications of a signed-in person.

All of them come from rows that exist for other reasons: only the time until which the person has
read is stored, so nothing is written when an operator fails.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Count, Exists, Max, OuterRef, Q
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone

from catalogs.models import CatalogChange, CatalogRevision
from installs.models import (
    FAILING,
    Action,
    ActionBatch,
    Health,
    InstallRequest,
    Operator,
    Transition,
)
from installs.queries.changes import OPERATOR_KINDS, direction_of
from olmweb.models import Cluster, Preferences

LIMIT = 100  # entries that are counted and listed
FIRST_DAYS = timedelta(days=7)  # of an account that never marked its notifications as read
OLDEST = timedelta(days=30)
# Kind -> its heading, in the order of the page.
KINDS = {
    "failures": "New failures",
    "approvals": "Manual approval required",
    "own": "Your actions and requests",
    "recoveries": "Recoveries",
    "revisions": "Catalog revisions with changes to installed operators",
}
_WELL = (Action.State.SUCCEEDED, Action.State.NO_CHANGE)
_WITHOUT_EFFECT = (
    CatalogChange.Kind.PACKAGE_ADDED,
    CatalogChange.Kind.BUNDLE_ADDED,
    CatalogChange.Kind.CHANNEL_ADDED,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One notification. `state` is a key of olmweb.templatetags.olmweb.HEALTH or STATES, `name` the
    object with its address `url`, `cluster` empty for a catalog without one. `actions` is how many
    actions it is about, and `succeeded` how many of them did."""

    kind: str
    at: datetime
    state: str
    name: str
    url: str
    cluster: str
    text: str = ""
    actions: int = 0
    succeeded: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether the bell counts it: people know of their own actions that succeeded."""
        return not (self.kind == "own" and self.state in _WELL)

    @property
    def is_health(self) -> bool:
        return self.state in Health.values


def read_until(preferences: Preferences) -> datetime:
    """The time after which entries are new to the person."""
    now = timezone.now()
    if preferences.notifications_read_at is None:
        return now - FIRST_DAYS
    return max(preferences.notifications_read_at, now - OLDEST)


def notifications(
    user: User,
    clusters: Sequence[Cluster],
    since: datetime,
    to_decide: Iterable[InstallRequest],
    *,
    acts: bool,
) -> list[Entry]:
    """The newest entries after `since`, at most LIMIT, newest first; six queries. `to_decide` are
    the waiting requests that the user may decide; `acts`: the user may approve InstallPlans."""
    names = {cluster.pk: cluster.name for cluster in clusters}
    entries = [
        *_changes(names, since),
        *(_approvals(names, since) if acts else ()),
        *(_request(row, "approvals") for row in to_decide if row.created_at > since),
        *finished_actions(user, since),
        *_decided(user, since),
        *_revisions(names, since),
    ]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:LIMIT]


def _operator_url(cluster: str, kind: str, namespace: str, name: str) -> str:
    return reverse("installs:operator", args=(cluster, kind, namespace or "-", name))


def _changes(names: dict[int, str], since: datetime) -> list[Entry]:
    kinds = {"failed": "failures", "recovered": "recoveries"}
    rows = (
        Transition.objects.filter(
            Q(to_status__in=FAILING) | Q(to_status=Health.HEALTHY, from_status__in=FAILING),
            type="Health",
            cluster__in=names,
            kind__in=OPERATOR_KINDS,
            at__gt=since,
        )
        .exclude(from_status="")  # a first observation
        # Between two failing states nothing is new.
        .exclude(from_status__in=FAILING, to_status__in=FAILING)
        .order_by("-at", "-pk")
    )
    entries = []
    for row in rows.only(
        "cluster_id", "kind", "namespace", "name", "type", "from_status", "to_status", "at",
        "to_reason",
    )[:LIMIT]:  # fmt: skip
        if kind := kinds.get(direction_of(row.type, row.from_status, row.to_status)):
            cluster = names[row.cluster_id]
            url = _operator_url(cluster, row.kind, row.namespace, row.name)
            reason = row.to_reason if kind == "failures" else ""
            entries.append(Entry(kind, row.at, row.to_status, row.name, url, cluster, reason))
    return entries


def _approvals(names: dict[int, str], since: datetime) -> list[Entry]:
    """Operators whose InstallPlan waits still."""
    rows = Operator.objects.filter(
        cluster__in=names, health=Health.NEEDS_APPROVAL, since__gt=since
    ).order_by("-since", "-pk")
    return [
        Entry(
            "approvals",
            row.since or since,
            row.health,
            row.name,
            _operator_url(names[row.cluster_id], row.kind, row.namespace, row.name),
            names[row.cluster_id],
            f"Upgrade to {row.upgrade}" if row.upgrade else "",
        )
        for row in rows.only(
            "cluster_id", "kind", "namespace", "name", "health", "since", "upgrade"
        )[:LIMIT]
    ]


def finished_actions(user: User, since: datetime) -> list[Entry]:
    """The user's actions that finished after `since`, and their bulk changes whose last action
    did; two queries."""
    rows = (
        Action.objects.filter(user=user, batch=None, finished_at__gt=since)
        .exclude(state__in=Action.OPEN)
        .select_related("cluster")
        .defer("stored_steps")
        .order_by("-finished_at", "-pk")
    )
    entries = [
        Entry(
            "own",
            row.finished_at or since,
            row.state,
            row.title,
            reverse("installs:action", args=(row.pk,)),
            row.cluster.name,
            row.outcome,
            1,
            int(row.state in _WELL),
        )
        for row in rows[:LIMIT]
    ]
    return entries + _finished_batches(user, since)


def _outcome(total: int, well: int, stopped: int) -> str:
    """The state of a bulk change with so many actions that ended: the worst of them."""
    if well == total:
        return Action.State.SUCCEEDED
    return Action.State.STOPPED if well + stopped == total else Action.State.FAILED


def _finished_batches(user: User, since: datetime) -> list[Entry]:
    ended = Action.objects.filter(batch=OuterRef("pk"), finished_at__gt=since)
    rows = (
        ActionBatch.objects.filter(Exists(ended), user=user)
        .annotate(
            finished_at=Max("actions__finished_at"),
            total=Count("actions"),
            open=Count("actions", filter=Q(actions__state__in=Action.OPEN)),
            well=Count("actions", filter=Q(actions__state__in=_WELL)),
            stopped=Count("actions", filter=Q(actions__state=Action.State.STOPPED)),
        )
        .filter(open=0)
        .select_related("cluster")
        .order_by("-finished_at", "-pk")
    )
    return [
        Entry(
            "own",
            row.finished_at,
            _outcome(row.total, row.well, row.stopped),
            f"{row.noun} of {row.total} {'package' if row.verb == 'install' else 'operator'}"
            f"{pluralize(row.total)}",
            reverse("installs:batch", args=(row.pk,)),
            row.cluster.name,
            f"{row.well} of {row.total} succeeded" + f", {row.stopped} stopped" * (row.stopped > 0),
            row.total,
            row.well,
        )
        for row in rows[:LIMIT]
    ]


def _decided(user: User, since: datetime) -> list[Entry]:
    rows = InstallRequest.objects.select_related("cluster", "user").filter(
        user=user,
        decided_at__gt=since,
        state__in=(InstallRequest.State.APPROVED, InstallRequest.State.DECLINED),
    )
    return [_request(row, "own") for row in rows.order_by("-decided_at", "-pk")[:LIMIT]]


def _request(row: InstallRequest, kind: str) -> Entry:
    author = f"requested by {row.user.get_username() if row.user else 'a deleted user'}"
    return Entry(
        kind,
        row.decided_at or row.created_at,
        row.state,
        f"Installation request: {row.package} {row.version}".rstrip(),
        reverse("installs:request", args=(row.pk,)),
        row.cluster.name,
        row.word if kind == "own" else author,
    )


def _revisions(names: dict[int, str], since: datetime) -> list[Entry]:
    """Revisions that changed a package which is installed from the catalog."""
    operators = Operator.objects.filter(cluster__in=names, package=OuterRef("package"))
    own = operators.filter(
        Q(catalog="") | Q(catalog=OuterRef("revision__catalog__name")),
        cluster=OuterRef("revision__catalog__cluster"),
    )
    # A catalog without a cluster is offered to all clusters.
    installed = Q(Exists(own)) | Q(Exists(operators), revision__catalog__cluster=None)
    changes = (
        CatalogChange.objects.filter(installed, revision=OuterRef("pk"))
        .exclude(kind__in=_WITHOUT_EFFECT)
        .order_by()
    )
    rows = CatalogRevision.objects.filter(
        Q(catalog__cluster=None) | Q(catalog__cluster__in=names),
        Exists(changes),
        created_at__gt=since,
    )
    return [
        Entry(
            "revisions",
            row.created_at,
            "changed",
            f"{row.catalog.name} revision {row.number}",
            f"{reverse('catalogs:catalog', args=(row.catalog.cluster_name, row.catalog.slug))}"
            "?tab=changes",
            row.catalog.cluster.name if row.catalog.cluster else "",
        )
        for row in rows.select_related("catalog__cluster").order_by("-created_at", "-pk")[:LIMIT]
    ]
