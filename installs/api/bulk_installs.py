"""REST routes of bulk installs. The same plans, dry runs, refusals and progress as the pages."""

import uuid

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs.install_methods import InstallMethod
from installs.actions import bulk
from installs.actions.bulk import Item, Key
from installs.actions.plan import read_method
from installs.api.actions import read_key
from installs.api.schemas import BatchRow, DryRunRow, batch_row
from installs.queries.activity import progress_of
from olmweb.accounts.api_tokens import require_scope
from olmweb.accounts.roles import person
from olmweb.api.formats import answer_one, json_response
from olmweb.api.parameters import RequestBody
from olmweb.clusters import get_cluster
from olmweb.errors import BadRequest
from olmweb.models import Cluster

router = Router(tags=["Actions"])


class BulkInstallBody(RequestBody):
    """Packages to install. `packages` are `CATALOG/PACKAGE`; the other values are the
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


@router.post("/bulk-installs", response={202: BatchRow})
def create_batch(request: HttpRequest, body: BulkInstallBody) -> HttpResponseBase:
    """Asks for many installs at once; the cluster tries each first.

    202 with the bulk install; what it would not take is in `left_out` with the reason. With
    `dry_run` 200 with what would be sent and what the cluster said. An `Idempotency-Key` header
    makes asking twice asking once. Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    key = read_key(request) or uuid.uuid4().hex
    cluster, method, keys = _where(body)
    shared = {name: getattr(body, name) for name in bulk.SHARED}
    hashed = bulk.hash_of(cluster, method, keys, shared)
    batch = None if body.dry_run else bulk.earlier_batch(request.user, key, hashed)
    if batch is None:
        items = _items(body, cluster, method, keys, shared, request)
        if body.dry_run:
            return json_response({"packages": [_dry_run_row(item) for item in items]})
        batch = bulk.record_batch(
            items, cluster, method, request.user, key=key, request_hash=hashed
        )
    response = json_response(batch_row(progress_of(bulk.get_batch(batch.pk))))
    response.status_code = 202
    return response


def _where(body: BulkInstallBody) -> tuple[Cluster, InstallMethod, list[Key]]:
    cluster = get_cluster(body.cluster)
    method = read_method(body.path)
    bulk.require_few(len(set(body.packages)))
    keys = bulk.read_keys(f"{cluster.name}/{name}" for name in body.packages)
    if len(keys) != len(set(body.packages)):
        raise BadRequest(
            "Each of packages is CATALOG/PACKAGE.",
            code="invalid",
            packages="For example redhat-operators/etcd.",
        )
    return cluster, method, keys


def _items(
    body: BulkInstallBody,
    cluster: Cluster,
    method: InstallMethod,
    keys: list[Key],
    shared: dict[str, str],
    request: HttpRequest,
) -> list[Item]:
    chosen = bulk.read_selection(keys)
    candidates = bulk.candidates(chosen, cluster, method, body.targets)
    wanted = [c for c in candidates if body.anyway or not c.doubt]
    doubted = [Item(c, problem=c.doubt) for c in candidates if c.doubt and not body.anyway]
    planned = bulk.plan_items(wanted, cluster, method, shared) if wanted else []
    return [*bulk.dry_run(planned, request.user), *doubted]


def _dry_run_row(item: Item) -> DryRunRow:
    candidate = item.candidate
    prediction = candidate.prediction
    return DryRunRow(
        package=candidate.name,
        catalog=candidate.key.catalog,
        verdict=prediction.verdict.value if prediction else "",
        rule=prediction.rule if prediction else "",
        sentence=prediction.sentence if prediction else "",
        ok=item.plan is not None and not item.problem,
        reason=item.problem,
        hint=item.hint,
        target=item.plan.target if item.plan else "",
        manifests=list(item.plan.manifests) if item.plan else [],
    )


@router.get("/bulk-installs/{id}", response=BatchRow)
def get_batch(request: HttpRequest, id: int) -> HttpResponseBase:
    """One bulk install: each action with its state, how many are done, what was left out."""
    row = batch_row(progress_of(bulk.get_batch(id)))
    return answer_one(request, (row,), lambda: row)


@router.post("/bulk-installs/{id}/stop", response=BatchRow)
def stop_batch(request: HttpRequest, id: int) -> HttpResponseBase:
    """Stops what of it was not begun; what had begun goes on. Needs a token with the scope act."""
    require_scope(request)
    person(request.user)
    bulk.stop(bulk.get_batch(id), request.user)
    return json_response(batch_row(progress_of(bulk.get_batch(id))))
