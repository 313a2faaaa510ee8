"""REST routes of operators: list, detail, history, and messages without an explanation.

The fields are those of OperatorRow and OperatorDetail in installs.api.schemas. Every GET is
answered from rows and makes no request to a cluster.
"""

from typing import Annotated, Any, Literal

from django.db.models import F, Max, Min, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router
from pydantic import AfterValidator, Field

from catalogs.api.parameters import CATALOG, read_reference
from installs.api.schemas import (
    CSV,
    ChainLinkRow,
    HealthName,
    KubernetesEventRow,
    OperatorDetail,
    OperatorKind,
    OperatorRow,
    RequirementRow,
    TransitionRow,
    UnknownMessageRow,
    approval_row,
    finding_text,
    operator_rows,
    transition_row,
    unknown_message_row,
)
from installs.diagnosis.evaluate import requirement_rows
from installs.models import Operator, Transition, UnknownMessage
from installs.queries import lookup
from installs.queries import operator_detail as detail
from installs.queries.catalog_references import with_catalogs
from installs.queries.unknown_messages import unknown_rows
from installs.state.observation import details_of, diagnose_row
from olmweb.api.formats import answer_one, fill
from olmweb.api.lists import (
    SORT,
    ListParameters,
    Page,
    StoredRows,
    answer_list,
    order_of,
)
from olmweb.api.parameters import (
    SINCE,
    UNTIL,
    Moment,
    Values,
    any_of,
    at_or_after,
    before,
    none_for_dash,
    text,
    values,
)
from olmweb.models import Cluster

HISTORY_SHOWN = 100


def read_reference_or_dash(value: str) -> str:
    return "" if value == "-" else read_reference(value)


UPGRADABLE = ~Q(upgrade="") & ~Q(upgrade=F("version"))
ReferencesOrNone = list[Annotated[str, AfterValidator(read_reference_or_dash)]] | None
NameOrNone = list[Annotated[str, AfterValidator(none_for_dash)]] | None
SortedBy = Literal[
    "name", "-name", "package", "-package", "namespace", "-namespace", "kind", "-kind", "health",
    "-health", "version", "-version", "observed_at", "-observed_at",
]  # fmt: skip
OnCluster = Annotated[Values, FilterLookup("cluster__name__in")]
router = Router(tags=["Operators"])


class OperatorParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    kind: Annotated[list[OperatorKind] | None, FilterLookup("kind__in")] = values(
        "Kubernetes kind."
    )
    namespace: Annotated[NameOrNone, FilterLookup("namespace__in")] = values(
        "Namespace; `-` for none."
    )
    health: Annotated[list[HealthName] | None, FilterLookup("health__in")] = values("Health.")
    reason: Annotated[Values, FilterLookup("reason__in")] = values("Reason, exactly.")
    finding: Annotated[NameOrNone, FilterLookup("finding__in")] = values(
        "Id of the finding; `-` for none."
    )
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    catalog: ReferencesOrNone = values(f"{CATALOG} `-` for none that OLM Web knows.")
    version: Annotated[NameOrNone, FilterLookup("version__in")] = values(
        "Installed version, exactly; `-` for none."
    )
    since: Moment = Field(None, description=f"Its health and reason began: {SINCE}")
    until: Moment = Field(None, description=f"Its health and reason began: {UNTIL}")
    upgrade: list[bool] | None = values("Whether there is another version to take.")
    q: Values = values("Words that name, package, reason or message contain.")
    sort: SortedBy = text(SORT)

    def filter_sort(self, _: str) -> Q:
        return Q()

    def filter_catalog(self, references: ReferencesOrNone) -> Q:
        return with_catalogs(references, Operator.objects.all()) if references else Q()

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("since", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("since", moment)

    def filter_upgrade(self, answers: list[bool] | None) -> Q:
        return any_of(answers, lambda wanted: UPGRADABLE if wanted else ~UPGRADABLE)

    def filter_q(self, texts: Values) -> Q:
        return containing(texts, ("name", "package", "reason", "message"))


class TransitionParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    kind: Annotated[Values, FilterLookup("kind__in")] = values("Kubernetes kind.")
    namespace: Annotated[NameOrNone, FilterLookup("namespace__in")] = values(
        "Namespace of the object; `-` for none."
    )
    name: Annotated[Values, FilterLookup("name__in")] = values("Name of the object.")
    type: Annotated[Values, FilterLookup("type__in")] = values(
        "Type of a condition, or Object, Health, Phase or Connection."
    )
    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=UNTIL)

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("at", moment)


@router.get("/operators", response=Page[OperatorRow])
def list_operators(request: HttpRequest, query: Query[OperatorParameters]) -> HttpResponseBase:
    """Installed operators: PlatformOperators, ClusterExtensions, Subscriptions, and
    ClusterServiceVersions without a Subscription."""
    operators = query.filter(Operator.objects.select_related("cluster").defer("conditions"))
    order = order_of(query.sort, ("name", "id"))
    source = StoredRows(operators, order, operator_rows)
    return answer_list(request, query, "operators", OperatorRow, source, clusters_state())


@router.get("/operators/{cluster}/{kind}/{namespace}/{name}", response=OperatorDetail)
def get_operator(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponseBase:
    """One operator: conditions, chain, events, what changed, what its version requires, and what
    approving its InstallPlan would change. Write - for no namespace."""
    operator = lookup.get_operator(cluster, kind, namespace, name)
    return answer_one(
        request,
        (operator.pk, operator.digest, operator.observed_at, operator.cluster.revision),
        lambda: _operator_detail(operator),
    )


@router.get("/transitions", response=Page[TransitionRow])
def list_transitions(request: HttpRequest, query: Query[TransitionParameters]) -> HttpResponseBase:
    """Changes of conditions that were seen, newest first."""
    ends = Transition.objects.order_by().aggregate(Min("id"), Max("id"))
    source = StoredRows(
        query.filter(Transition.objects.select_related("cluster")),
        ("-at", "-id"),
        lambda rows: [transition_row(row) for row in rows],
    )
    state = [*clusters_state(), ends]
    return answer_list(request, query, "transitions", TransitionRow, source, state)


def clusters_state() -> list[Any]:
    """What changes whenever any row of a cluster does; one query."""
    return list(Cluster.objects.order_by("id").values_list("id", "name", "revision"))


def containing(texts: Values, fields: tuple[str, ...]) -> Q:
    """Rows where every word of a text occurs in one of `fields`, case ignored."""

    def word_occurs(word: str) -> Q:
        return any_of(fields, lambda field: Q(**{f"{field}__icontains": word}))

    return any_of(texts, lambda text: Q(*map(word_occurs, text.split())))


def _operator_detail(operator: Operator) -> OperatorDetail:
    """`operator` comes with its cluster; at most five queries."""
    parts = detail.parts_of(operator)
    keys = parts.keys(operator)
    diagnosis = diagnose_row(operator, parts.components, parts.unread)
    pending = detail.pending_plan(operator, parts)
    transitions = detail.history(operator.cluster_id, keys, HISTORY_SHOWN)
    for row in transitions:
        row.cluster = operator.cluster
    events = detail.events_of(operator.cluster_id, keys, HISTORY_SHOWN)
    return fill(
        OperatorDetail,
        operator_rows([operator])[0],
        conditions=operator.conditions,
        chain=[fill(ChainLinkRow, link) for link in diagnosis.chain],
        events=[fill(KubernetesEventRow, event) for event in events],
        transitions=[transition_row(row) for row in transitions],
        requirements=[
            fill(RequirementRow, required, csv=csv.name, rules=list(required.rules))
            for csv in parts.of_kind(CSV)
            for required in requirement_rows(details_of(csv))
        ],
        approval=approval_row(pending) if pending else None,
        notes=[finding_text(note) for note in diagnosis.notes],
    )


class UnknownMessageParameters(ListParameters):
    kind: Annotated[Values, FilterLookup("kind__in")] = values("Kind of the object.")


@router.get("/unknown-messages", response=Page[UnknownMessageRow])
def list_unknown_messages(
    request: HttpRequest, query: Query[UnknownMessageParameters]
) -> HttpResponseBase:
    """Messages of operators without an explanation, their names masked."""
    messages = UnknownMessage.objects.all()
    source = StoredRows(
        query.filter(messages),
        ("kind", "id"),
        lambda rows: [unknown_message_row(row) for row in unknown_rows(rows)],
    )
    state = list(messages.order_by("id").values_list("id", "count", "last_at"))
    return answer_list(request, query, "unknown-messages", UnknownMessageRow, source, state)
