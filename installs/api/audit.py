"""REST route of the audit: JSON, CSV or Markdown of one catalog, install method and cluster."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from catalogs.api.parameters import CATALOG, METHOD, Method, Reference
from catalogs.api.schemas import MethodName, RuleResultRow, Target, VerdictName
from catalogs.lookup import referenced_catalog
from catalogs.models import PredictionRun
from catalogs.verdicts.facts import WatchTarget
from installs.api.schemas import HealthName
from installs.audit.audit import WATCHES, audit, read_watch
from installs.audit.report import as_csv, as_json, as_markdown
from olmweb.api.formats import (
    finish,
    json_response,
    make_etag,
    not_modified,
    refuse,
    require_acceptable,
)
from olmweb.api.lists import FORMATS
from olmweb.api.parameters import OneOf, Parameters, text
from olmweb.clusters import get_cluster

router = Router(tags=["Catalogs"])


class AuditParameters(Parameters):
    catalog: Reference = Field(description=CATALOG)
    method: Method = Field(description=METHOD)
    cluster: str = text(
        "Ask this cluster's facts, too, and what it has. Absent: the catalog alone."
    )
    target: Annotated[str, OneOf(("", *WATCHES))] = text(
        "Namespaces that a Subscription's OperatorGroup selects; absent: all. "
        "any: those with which the package is installable, as on the pages.",
        json_schema_extra={"enum": list(WATCHES)},
    )
    namespace: str = text(
        "A namespace of the cluster, for Subscriptions: its OperatorGroup counts, not `target`."
    )
    format: Annotated[str, OneOf(("", "json", "csv", "md"))] = text(
        "csv has a row for each package; md is for people.",
        json_schema_extra={"enum": ["json", "csv", "md"]},
    )


@dataclass(frozen=True, slots=True)
class AuditBucket:
    """The packages for which the same rule decides; `rule` is empty for installable ones."""

    rule: str
    title: str
    verdict: VerdictName
    count: int
    packages: list[str]


@dataclass(frozen=True, slots=True)
class AuditedOperator:
    """An operator of the cluster beside the verdict on its package; `agrees` is null when that is
    unknown."""

    package: str
    namespace: str
    name: str
    health: HealthName
    finding: str
    verdict: VerdictName | Literal[""]
    rule: str
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class AuditRuleOutcome:
    """How many operators the rule decides with this verdict, and whether that is what happened."""

    rule: str
    title: str
    verdict: VerdictName | Literal[""]
    count: int
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class AuditComparison:
    """Operators of the cluster by whether their health agrees with the verdict on their package."""

    agree: int
    disagree: int
    undecided: int
    by_rule: list[AuditRuleOutcome]
    operators: list[AuditedOperator]


@dataclass(frozen=True, slots=True)
class AuditRun:
    """An earlier evaluation: a revision of the catalog with a version of the rules. `counts` are
    packages by verdict."""

    created_at: datetime
    revision: int
    rules_version: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class AuditedPackage:
    """The bundle that the method would choose, and the verdict on it. `rules` are all that apply,
    worst first."""

    package: str
    bundle: str
    version: str
    channel: str
    verdict: VerdictName
    target: Target
    rule: str
    sentence: str
    rules: list[RuleResultRow]


@dataclass(frozen=True, slots=True)
class Audit:
    """`counts` are packages by verdict. `cluster` and `namespace` are null without one; `target` is
    what the OperatorGroup of a Subscription selects, or any."""

    catalog: str
    method: MethodName
    cluster: str | None
    target: Target | Literal["any"]
    namespace: str | None
    rules_version: int
    evaluated_at: datetime | None
    notes: list[RuleResultRow]
    counts: dict[str, int]
    buckets: list[AuditBucket]
    actual: AuditComparison
    history: list[AuditRun]
    packages: list[AuditedPackage]


@router.get("/audit", response=Audit)
def get_audit(request: HttpRequest, query: Query[AuditParameters]) -> HttpResponseBase:
    """The verdicts of an install method on the packages of a catalog, with the deciding rules; with
    a cluster, compared with its operators. Verdicts that differ from the operators come first."""
    if query.namespace and not query.cluster:
        raise refuse("namespace", "namespace is of a cluster: cluster is needed, too.")
    form = query.format or "json"
    require_acceptable(request, FORMATS[form])
    catalog = referenced_catalog(query.catalog)
    cluster = get_cluster(query.cluster) if query.cluster else None
    runs = PredictionRun.objects.filter(catalog=catalog)
    evaluated_at = runs.aggregate(at=Max("evaluated_at"))["at"]
    state = (evaluated_at, catalog.revision, cluster.revision if cluster else 0, form)
    etag = make_etag(request, *state)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    target = read_watch(query.target or WatchTarget.ALL)
    report = audit(catalog, query.method, cluster=cluster, target=target, namespace=query.namespace)
    if form == "json":
        return finish(json_response(as_json(report)), etag)
    body = as_csv(report) if form == "csv" else as_markdown(report)
    return finish(HttpResponse(body, content_type=f"{FORMATS[form]}; charset=utf-8"), etag)
