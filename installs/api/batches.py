"""REST: bulk installs. The same plans, dry runs, refusals and progress as the pages."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs.install_methods import InstallMethod
from installs.actions.bulk import recording, reviewing, selection
from installs.actions.bulk.reviewing import Item
from installs.actions.bulk.selection import Candidate, Key
from installs.actions.plan import read_method
from installs.api.actions import read_body, read_key
from installs.models import Action
from installs.queries.activity import Progress, progress_of
from olmweb.accounts.api_tokens import require_scope
from olmweb.accounts.roles import person
from olmweb.api.formats import answer_one, json_response
from olmweb.clusters import get_cluster
from olmweb.errors import BadRequest
from olmweb.models import Cluster

router = Router(tags=["Actions"])


class AskedBatch(msgspec.Struct, forbid_unknown_fields=True):
    """What POST /bulk-installs takes. `packages` are `CATALOG/PACKAGE`; the other values are the
    same for all. `anyway` also installs what is predicted to fail or is there already."""

    cluster: str
    packages: list[str]
    path: str = InstallMethod.PLATFORM_OPERATOR.value
    namespace: str = ""
    targets: str = ""
    approval: str = ""
    policy: str = ""
    service_account: str = ""
    anyway: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BatchAction:
    """`waiting`: no worker has begun with it, so it can be stopped."""

    id: int
    package: str
    state: str
    waiting: bool
    outcome: str
    object: dict[str, str]
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    id: int
    cluster: str
    path: str
    user: str
    total: int
    done: int
    waiting: int
    actions: list[BatchAction]
    left_out: list[dict[str, str]]
    created_at: datetime
    stopped_at: datetime | None


def batch_row(found: Progress) -> BatchRow:
    """The batch comes with its cluster and user."""
    batch = found.batch
    return BatchRow(
        id=batch.pk,
        cluster=batch.cluster.name,
        path=batch.path,
        user=batch.user.get_username() if batch.user else "",
        total=found.total,
        done=found.done,
        waiting=found.waiting,
        actions=[
            BatchAction(
                id=row.pk,
                package=row.package,
                state=row.state,
                waiting=row.state == Action.State.PENDING and row.begun_at is None,
                outcome=row.outcome,
                object={"kind": row.path, "namespace": row.namespace, "name": row.name},
                finished_at=row.finished_at,
            )
            for row in found.rows
        ],
        left_out=list(batch.left_out),
        created_at=batch.created_at,
        stopped_at=batch.stopped_at,
    )


@router.post(
    "/bulk-installs",
    response={202: BatchRow},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": msgspec.json.schema(AskedBatch)["$defs"]["AskedBatch"]
                }
            },
        }
    },
)
def create_batch(request: HttpRequest) -> HttpResponseBase:
    """Asks for many installs at once; the cluster tries each first.

    202 with the bulk install; what it would not take is in `left_out` with the reason. With
    `dry_run` 200 with what would be sent and what the cluster said. An `Idempotency-Key` header
    makes asking twice asking once. Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    asked = read_body(request, AskedBatch)
    key = read_key(request) or uuid.uuid4().hex
    cluster, method, keys = _where(asked)
    shared = {name: getattr(asked, name) for name in reviewing.SHARED}
    hashed = recording.hash_of(cluster, method, keys, shared)
    known = None if asked.dry_run else recording.earlier(request.user, key, hashed)
    if known is None:
        items = _items(asked, cluster, method, keys, shared, request)
        if asked.dry_run:
            return json_response({"packages": [_told(one) for one in items]})
        known = recording.record(items, cluster, method, request.user, key=key, asked_hash=hashed)
    response = json_response(batch_row(progress_of(recording.find(known.pk))))
    response.status_code = 202
    return response


def _where(asked: AskedBatch) -> tuple[Cluster, InstallMethod, list[Key]]:
    cluster = get_cluster(asked.cluster)
    method = read_method(asked.path)
    reviewing.require_few(len(set(asked.packages)))
    keys = selection.read_keys(f"{cluster.name}/{one}" for one in asked.packages)
    if len(keys) != len(set(asked.packages)):
        raise BadRequest(
            "Each of packages is CATALOG/PACKAGE.",
            code="invalid",
            packages="For example redhat-operators/etcd.",
        )
    return cluster, method, keys


def _items(
    asked: AskedBatch,
    cluster: Cluster,
    method: InstallMethod,
    keys: list[Key],
    shared: dict[str, str],
    request: HttpRequest,
) -> list[Item]:
    found = selection.candidates(selection.read_selection(keys), cluster, method, asked.targets)
    wanted = [one for one in found if asked.anyway or not one.doubt]
    doubted = [Item(one, problem=one.doubt) for one in found if one.doubt and not asked.anyway]
    planned = reviewing.plan(wanted, cluster, method, shared, request.user) if wanted else []
    return [*reviewing.dry_run(planned, request.user), *doubted]


def _told(one: Item) -> dict[str, Any]:
    """One package of a dry run."""
    candidate: Candidate = one.candidate
    prediction = candidate.prediction
    return {
        "package": candidate.name,
        "catalog": candidate.key.catalog,
        "verdict": prediction.verdict.value if prediction else "",
        "rule": prediction.rule if prediction else "",
        "sentence": prediction.sentence if prediction else "",
        "ok": one.plan is not None and not one.problem,
        "reason": one.problem,
        "hint": one.hint,
        "target": one.plan.target if one.plan else "",
        "manifests": list(one.plan.manifests) if one.plan else [],
    }


@router.get("/bulk-installs/{id}", response=BatchRow)
def get_batch(request: HttpRequest, id: int) -> HttpResponseBase:
    """One bulk install: each action with its state, how many are done, what was left out."""
    found = batch_row(progress_of(recording.find(id)))
    return answer_one(request, (found,), lambda: found)


@router.post("/bulk-installs/{id}/stop", response=BatchRow)
def stop_batch(request: HttpRequest, id: int) -> HttpResponseBase:
    """Stops what of it was not begun; what had begun goes on. Needs a token with the scope act."""
    require_scope(request)
    person(request.user)
    recording.stop(recording.find(id), request.user)
    return json_response(batch_row(progress_of(recording.find(id))))
