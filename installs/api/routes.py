"""REST routes of clusters, operators, cluster operators, transitions and actions.

Every GET is answered from rows and asks no cluster.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from django.db.models import Count, F, Max, Min, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs.models import Catalog
from installs.actions.requests.deciding import find as find_request
from installs.api.actions import Asked, create_action
from installs.api.details import OperatorDetail, operator_detail
from installs.api.rows import (
    ActionRow,
    ClusterDetail,
    ClusterOperatorDetail,
    ClusterOperatorRow,
    ClusterRow,
    CRDRow,
    FindingCount,
    OperatorRow,
    RequestRow,
    StatusRow,
    TransitionRow,
    action_row,
    cluster_detail,
    cluster_row,
    clusteroperator_detail,
    clusteroperator_row,
    crd_row,
    operator_row,
    request_row,
    transition_row,
)
from installs.diagnosis import knowledge
from installs.models import (
    Action,
    ClusterOperator,
    CRDState,
    Health,
    InstallRequest,
    Operator,
    Transition,
)
from installs.queries import lookup
from installs.queries.activity import requests_revision
from installs.queries.clusteroperators import explanation_of, members_of
from installs.queries.watched_resources import freshness
from olmweb import clusters
from olmweb.api.formats import answer_one
from olmweb.api.lists import (
    Filter,
    Key,
    ListOf,
    Page,
    answer_list,
    exact,
    named_or_none,
    since,
    words,
)
from olmweb.models import Cluster, Stream

router = Router(tags=["Clusters"])


# --- lists ------------------------------------------------------------------------------------


def _tally(rows: Any) -> dict[int, dict[str, int]]:
    """(cluster, value, count) triples as cluster to value to count."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for cluster, value, count in rows:
        counts[cluster][value] = count
    return counts


UPGRADABLE = ~Q(upgrade="") & ~Q(upgrade=F("version"))
PLATFORM_COUNTS = ("total", "available", "progressing", "degraded")


def _clusteroperator_counts(of: Q) -> dict[int, dict[str, int]]:
    counted = ClusterOperator.objects.filter(of).order_by().values_list("cluster")
    rows = counted.annotate(
        number=Count("id"),
        **{f"is_{name}": Count("id", filter=Q(**{name: "True"})) for name in PLATFORM_COUNTS[1:]},
    )
    return {cluster: dict(zip(PLATFORM_COUNTS, counts, strict=True)) for cluster, *counts in rows}


def _crd_counts(of: Q) -> dict[int, dict[str, int]]:
    rows = CRDState.objects.filter(of).order_by().values_list("cluster")
    counted = rows.annotate(total=Count("id"), problems=Count("id", filter=~Q(finding="")))
    return {pk: {"total": total, "problems": problems} for pk, total, problems in counted}


def _status_rows(clusters: Sequence[Cluster]) -> list[StatusRow]:
    """Seven queries, however many clusters."""
    of = Q(cluster__in=[cluster.pk for cluster in clusters])
    operators = Operator.objects.filter(of).order_by()
    health = _tally(operators.values_list("cluster", "health").annotate(Count("id")))
    found = operators.exclude(finding="").values_list("cluster", "finding")
    findings = _tally(found.annotate(Count("id")))
    catalogs = Catalog.objects.filter(of).order_by().values_list("cluster", "state")
    states = _tally(catalogs.annotate(Count("id")))
    platform = _clusteroperator_counts(of)
    streams = Stream.objects.filter(of).order_by().values_list("cluster", "state")
    feeds = _tally(streams.annotate(Count("id")))
    upgrades = dict(operators.filter(UPGRADABLE).values_list("cluster").annotate(Count("id")))
    crds = _crd_counts(of)
    titles = {entry.id: entry.title for entry in knowledge()}
    return [
        StatusRow(
            cluster=cluster.name,
            version=cluster.version,
            reachable=cluster.reachable,
            stale=cluster.stale,
            synced_at=cluster.synced_at,
            operators={name: health[cluster.pk].get(name, 0) for name in Health.values},
            clusteroperators=platform.get(cluster.pk, dict.fromkeys(PLATFORM_COUNTS, 0)),
            catalogs={name: states[cluster.pk].get(name, 0) for name in Catalog.State.values},
            feeds={name: feeds[cluster.pk].get(name, 0) for name in Stream.State.values},
            crds=crds.get(cluster.pk, {"total": 0, "problems": 0}),
            upgrades=upgrades.get(cluster.pk, 0),
            approvals=health[cluster.pk].get(Health.NEEDS_APPROVAL, 0),
            findings=[
                FindingCount(finding, titles.get(finding, finding), count)
                for finding, count in sorted(
                    findings[cluster.pk].items(), key=lambda item: (-item[1], item[0])
                )
            ],
        )
        for cluster in clusters
    ]


ON_CLUSTER = exact("cluster", "Name of the cluster.", "cluster__name")

STATUS: ListOf[Cluster] = ListOf(
    name="status",
    row=StatusRow,
    order=(Key("name"), Key("id")),
    rows=_status_rows,
    filters=(exact("cluster", "Name of the cluster.", "name"),),
)
CLUSTERS: ListOf[Cluster] = ListOf(
    name="clusters",
    row=ClusterRow,
    order=(Key("name"), Key("id")),
    rows=lambda clusters: [cluster_row(cluster) for cluster in clusters],
)
OPERATORS: ListOf[Operator] = ListOf(
    name="operators",
    row=OperatorRow,
    order=(Key("name"), Key("id")),
    rows=lambda operators: [operator_row(operator) for operator in operators],
    filters=(
        ON_CLUSTER,
        exact("kind", "Kubernetes kind.", "kind"),
        named_or_none("namespace", "Namespace; `-` for none.", "namespace", Q(namespace="")),
        Filter("health", "Health.", lambda value: Q(health=value), choices=tuple(Health.values)),
        exact("reason", "Reason, exactly.", "reason"),
        named_or_none("finding", "Id of the finding; `-` for none.", "finding", Q(finding="")),
        exact("package", "Name of the package.", "package"),
        Filter(
            "upgrade",
            "Whether there is another version to take.",
            lambda value: UPGRADABLE if value == "yes" else ~UPGRADABLE,
            choices=("yes", "no"),
        ),
        words(
            "q",
            "Words that name, package, reason or message contain.",
            ["name", "package", "reason", "message"],
        ),
    ),
)
CLUSTER_OPERATORS: ListOf[ClusterOperator] = ListOf(
    name="clusteroperators",
    row=ClusterOperatorRow,
    order=(Key("name"), Key("id")),
    rows=lambda rows: [clusteroperator_row(row) for row in rows],
    filters=(
        ON_CLUSTER,
        words("q", "Words that name, reason or message contain.", ["name", "reason", "message"]),
    ),
)
CRDS: ListOf[CRDState] = ListOf(
    name="crds",
    row=CRDRow,
    order=(Key("name"), Key("id")),
    rows=lambda rows: [crd_row(row) for row in rows],
    filters=(
        ON_CLUSTER,
        named_or_none("finding", "Id of the finding; `-` for none.", "finding", Q(finding="")),
        Filter(
            "problem",
            "Whether something is wrong with it.",
            lambda value: Q(finding="") if value == "no" else ~Q(finding=""),
            choices=("yes", "no"),
        ),
        words(
            "q", "Words that name, kind or owner contain.", ["name", "served_kind", "owner_name"]
        ),
    ),
)
TRANSITIONS: ListOf[Transition] = ListOf(
    name="transitions",
    row=TransitionRow,
    order=(Key("at", descending=True, is_time=True), Key("id", descending=True)),
    rows=lambda rows: [transition_row(row) for row in rows],
    filters=(
        ON_CLUSTER,
        exact("kind", "Kubernetes kind.", "kind"),
        exact("namespace", "Namespace of the object.", "namespace"),
        exact("name", "Name of the object.", "name"),
        exact("type", "Condition type, Object or Health.", "type"),
        since("since", "Seen at or after this time (RFC 3339) or day.", "at"),
    ),
)
ACTIONS: ListOf[Action] = ListOf(
    name="actions",
    row=ActionRow,
    order=(Key("id", descending=True),),
    rows=lambda rows: [action_row(row) for row in rows],
    filters=(
        ON_CLUSTER,
        Filter("state", "State.", lambda value: Q(state=value), choices=tuple(Action.State.values)),
    ),
)

REQUESTS: ListOf[InstallRequest] = ListOf(
    name="requests",
    row=RequestRow,
    order=(Key("id", descending=True),),
    rows=lambda rows: [request_row(row) for row in rows],
    filters=(
        ON_CLUSTER,
        exact("package", "Name of the package.", "package"),
        exact("user", "Name of who asked.", "user__username"),
        Filter(
            "state",
            "State.",
            lambda value: Q(state=value),
            choices=tuple(InstallRequest.State.values),
        ),
    ),
)


# --- routes -----------------------------------------------------------------------------------


def clusters_state() -> list[Any]:
    """What changes whenever any row of a cluster does; one query."""
    return list(Cluster.objects.order_by("id").values_list("id", "name", "revision"))


def _cluster_rows_state() -> list[ClusterRow]:
    """Few rows and many things that change: the state is what the rows say."""
    return [cluster_row(cluster) for cluster in Cluster.objects.order_by("id")]


@router.get("/status", response=Page[StatusRow], openapi_extra=STATUS.openapi())
def list_status(request: HttpRequest) -> HttpResponseBase:
    """Per cluster: how many operators are in which health, and the causes behind."""
    catalogs = list(Catalog.objects.order_by("id").values_list("id", "cluster", "state"))
    feeds = list(Stream.objects.order_by("id").values_list("id", "state"))
    state = [_cluster_rows_state(), catalogs, feeds]
    return answer_list(request, STATUS, Cluster.objects.all(), state)


@router.get("/clusters", response=Page[ClusterRow], openapi_extra=CLUSTERS.openapi())
def list_clusters(request: HttpRequest) -> HttpResponseBase:
    """Clusters, whether they can be reached and what they serve."""
    return answer_list(request, CLUSTERS, Cluster.objects.all(), _cluster_rows_state())


@router.get("/clusters/{name}", response=ClusterDetail)
def get_cluster(request: HttpRequest, name: str) -> HttpResponseBase:
    """One cluster with its feeds: what is read of it, how fresh that is, and why not."""
    row = clusters.get_cluster(name)
    found = freshness(row)
    return answer_one(request, (cluster_row(row), found.feeds), lambda: cluster_detail(row, found))


@router.get(
    "/operators", response=Page[OperatorRow], tags=["Operators"], openapi_extra=OPERATORS.openapi()
)
def list_operators(request: HttpRequest) -> HttpResponseBase:
    """What is installed: PlatformOperators, ClusterExtensions, Subscriptions, and
    ClusterServiceVersions without one."""
    operators = Operator.objects.select_related("cluster").defer("conditions")
    return answer_list(request, OPERATORS, operators, clusters_state())


@router.get(
    "/operators/{cluster}/{kind}/{namespace}/{name}", response=OperatorDetail, tags=["Operators"]
)
def get_operator(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponseBase:
    """One operator: conditions, chain, events, what changed, what its version requires, and what
    approving its InstallPlan would change. No namespace is `-`."""
    found = lookup.get_operator(cluster, kind, namespace, name)
    return answer_one(
        request,
        (found.pk, found.digest, found.observed_at, found.cluster.revision),
        lambda: operator_detail(found),
    )


@router.get(
    "/clusteroperators",
    response=Page[ClusterOperatorRow],
    tags=["Cluster operators"],
    openapi_extra=CLUSTER_OPERATORS.openapi(),
)
def list_clusteroperators(request: HttpRequest) -> HttpResponseBase:
    """ClusterOperators of every cluster."""
    rows = ClusterOperator.objects.select_related("cluster").defer("conditions")
    return answer_list(request, CLUSTER_OPERATORS, rows, clusters_state())


@router.get(
    "/clusteroperators/{cluster}/{name}",
    response=ClusterOperatorDetail,
    tags=["Cluster operators"],
)
def get_clusteroperator(request: HttpRequest, cluster: str, name: str) -> HttpResponseBase:
    """One ClusterOperator; for the aggregated one also the operators that its message lists."""
    found = lookup.get_clusteroperator(cluster, name)
    return answer_one(
        request,
        (found.pk, found.digest, found.observed_at, found.cluster.revision),
        lambda: _clusteroperator_detail(found),
    )


def _clusteroperator_detail(row: ClusterOperator) -> ClusterOperatorDetail:
    if not row.aggregated:
        return clusteroperator_detail(row, (), None)
    groups = members_of(row)
    return clusteroperator_detail(row, groups, explanation_of(row, groups))


@router.get(
    "/crds", response=Page[CRDRow], tags=["Cluster operators"], openapi_extra=CRDS.openapi()
)
def list_crds(request: HttpRequest) -> HttpResponseBase:
    """CustomResourceDefinitions with their versions, and what will block an upgrade."""
    rows = CRDState.objects.select_related("cluster").defer("conditions", "details")
    return answer_list(request, CRDS, rows, clusters_state())


@router.get(
    "/transitions",
    response=Page[TransitionRow],
    tags=["Operators"],
    openapi_extra=TRANSITIONS.openapi(),
)
def list_transitions(request: HttpRequest) -> HttpResponseBase:
    """Changes of conditions that were seen, newest first."""
    ends = Transition.objects.order_by().aggregate(Min("id"), Max("id"))
    state = [*clusters_state(), ends]
    rows = Transition.objects.select_related("cluster")
    return answer_list(request, TRANSITIONS, rows, state)


@router.get("/actions", response=Page[ActionRow], tags=["Actions"], openapi_extra=ACTIONS.openapi())
def list_actions(request: HttpRequest) -> HttpResponseBase:
    """What people asked OLM Web to do, newest first."""
    actions = Action.objects.select_related("cluster")
    by_state = Action.objects.order_by("state").values_list("state")
    state = list(by_state.annotate(Count("id"), Max("id"), Max("finished_at"), Max("sent_at")))
    return answer_list(request, ACTIONS, actions, state)


router.post(
    "/actions",
    response={202: ActionRow},
    tags=["Actions"],
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": msgspec.json.schema(Asked)["$defs"]["Asked"]}
            },
        }
    },
)(create_action)


@router.get("/actions/{id}", response=ActionRow, tags=["Actions"])
def get_action(request: HttpRequest, id: int) -> HttpResponseBase:
    """One action."""
    found = lookup.get_action(id)
    return answer_one(request, (action_row(found),), lambda: action_row(found))


@router.get(
    "/requests",
    response=Page[RequestRow],
    tags=["Actions"],
    openapi_extra=REQUESTS.openapi(),
)
def list_requests(request: HttpRequest) -> HttpResponseBase:
    """What people asked their operators for, newest first, and how it was decided."""
    rows = InstallRequest.objects.select_related("cluster", "user", "decided_by")
    return answer_list(request, REQUESTS, rows, requests_revision())


@router.get("/requests/{id}", response=RequestRow, tags=["Actions"])
def get_request(request: HttpRequest, id: int) -> HttpResponseBase:
    """One request."""
    found = request_row(find_request(id))
    return answer_one(request, (found,), lambda: found)
