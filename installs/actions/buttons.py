"""The actions that pages offer a user: buttons, and why a button is disabled.

The reasons, in the order in which they decide: the catalog and the role (`install_offer`; roles
also `olmweb.accounts.roles.may_act`), then the cluster's answer to an access review about the user
(`_reason`).

Pages read stored answers and send no request to a cluster; for a missing or old answer a worker
reviews the access. An enabled button is no promise: the dry run and the cluster decide.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.actions.objects import WRITTEN, full_name
from installs.actions.plan import paths_of, read_catalog_sources
from installs.methods import METHODS
from installs.models import AccessAnswer, Action, Operator
from olmweb.accounts.roles import (
    ACT,
    ASK,
    NOT_AN_OPERATOR,
    AnyUser,
    impersonation_for,
    may,
    may_act,
)
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Forbidden
from olmweb.kube.resources import INSTALL_PLANS
from olmweb.models import REMOVED_TEXT, Cluster
from olmweb.tasks import enqueue

log = structlog.get_logger(__name__)


# Actions on one operator, in the order of the menu of its row.
ROW_VERBS = tuple(
    str(verb)
    for verb in (Action.Verb.APPROVE, Action.Verb.UPGRADE, Action.Verb.RETRY, Action.Verb.REMOVE)
)


# --- buttons ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstallOffer:
    """Whether packages of a catalog can be installed. `hindrance` is a sentence that holds for
    everybody, `role_reason` one about the user's role, who `may_request` it all the same, `refused`
    the cluster's answer."""

    hindrance: str = ""
    role_reason: str = ""
    may_request: bool = False
    refused: AccessAnswer | None = None


def install_offer(user: AnyUser, catalog: Catalog, clusters: Sequence[Cluster]) -> InstallOffer:
    """The state of the Install button of the catalog's packages."""
    if catalog.cluster is None:
        sources = read_catalog_sources({catalog.name})
        # A PlatformOperator takes what the cluster's own catalog has: no reason to offer this one.
        if not any(
            set(paths_of(cluster, catalog, sources=sources)) - {InstallMethod.PLATFORM_OPERATOR}
            for cluster in clusters
        ):
            return InstallOffer(
                "This catalog belongs to no cluster, so no cluster can install from it."
            )
        return _offer_by_role(user)
    name = catalog.cluster.name
    if catalog.on_removed:
        return InstallOffer(REMOVED_TEXT.format(name))
    if catalog.state == Catalog.State.DISABLED:
        return InstallOffer(f"Catalog {catalog.slug} is disabled on cluster {name}.")
    paths = paths_of(catalog.cluster, catalog)
    if not paths:
        return InstallOffer(f"Cluster {name} serves nothing that could install from this catalog.")
    refused = access_refusals(
        user,
        catalog.cluster,
        {str(path): rights_of(Action.Verb.INSTALL, path) for path in paths},
    )
    if len(refused) < len(paths):
        return _offer_by_role(user)
    return InstallOffer(refused=refused[paths[0]])


def _offer_by_role(user: AnyUser) -> InstallOffer:
    if not isinstance(user, User) or user.has_perm(ACT):
        return InstallOffer()
    if may(user, ASK):
        return InstallOffer(
            role_reason=f"{NOT_AN_OPERATOR}; an operator decides.", may_request=True
        )
    return InstallOffer(role_reason=may_act(user)[1])


def path_refusal(user: AnyUser, cluster: Cluster, path: str, namespace: str) -> AccessAnswer | None:
    """The cluster's refusal of installs by this method.

    `namespace` is the form value, empty when each package has its own; only a Subscription has one.
    """
    where = namespace if METHODS[path].resource.namespaced else ""
    rights = rights_of(Action.Verb.INSTALL, path, where)
    return access_refusals(user, cluster, {path: rights}).get(path)


def refusals(
    user: AnyUser, operator: Operator, plan_namespace: str = ""
) -> dict[str, AccessAnswer]:
    """Verb -> the cluster's refusal of that action on this operator.

    `plan_namespace` is that of the InstallPlan that waits for approval.
    """
    if operator.kind not in METHODS:
        return {}
    rights = {
        str(verb): rights_of(verb, operator.kind, operator.namespace)
        for verb in (
            *(Action.Verb.UPGRADE, Action.Verb.CONFIGURE),
            *(Action.Verb.RETRY, Action.Verb.REMOVE),
        )
    }
    if plan_namespace:
        approve = Action.Verb.APPROVE
        rights[str(approve)] = rights_of(approve, INSTALL_PLANS.kind, plan_namespace)
    return access_refusals(user, operator.cluster, rights)


def refused_verbs(user: AnyUser, operators: Sequence[Operator]) -> dict[int, frozenset[str]]:
    """Id of an operator -> the actions on it that stored answers of its cluster refuse; one query.

    A list asks for no reviews: its actions without an answer are offered, and the form's dry run
    decides.
    """
    acting, identity = _identity(user)
    if acting is None or not operators:
        return {}
    refused = set(
        AccessAnswer.objects.filter(
            user=acting,
            cluster__in={row.cluster_id for row in operators},
            identity_hash=identity,
            allowed=False,
            checked_at__gt=timezone.now() - MAX_AGE,
        ).values_list("cluster", "kind", "verb", "namespace")
    )
    if not refused:
        return {}

    def is_refused(operator: Operator, verb: str) -> bool:
        kind = INSTALL_PLANS.kind if verb == Action.Verb.APPROVE else operator.kind
        return any(
            (operator.cluster_id, right.kind, right.verb, right.namespace) in refused
            for right in rights_of(verb, kind, operator.namespace)
        )

    return {
        row.pk: frozenset(verb for verb in ROW_VERBS if is_refused(row, verb)) for row in operators
    }


# --- access reviews -----------------------------------------------------------------------------

TASK = "installs.review_access"
TIMEOUT = (5.0, 10.0)  # seconds to connect and to wait for an answer
MAX_AGE = timedelta(hours=1)  # of an answer that is shown
REVIEW_AGAIN = timedelta(minutes=5)
REVIEW_REFUSAL_AGAIN = timedelta(seconds=30)  # a user who was just given a right expects to see it
ENQUEUE_SECONDS = 20  # between two tasks for the same rights
RIGHTS_MOST = 20  # of one task
# The verbs of the requests that write the main object: a server-side apply creates and patches.
VERBS = {
    Action.Verb.INSTALL: ("create", "patch"),
    Action.Verb.UPGRADE: ("patch",),
    Action.Verb.CONFIGURE: ("patch",),
    Action.Verb.APPROVE: ("patch",),
    Action.Verb.RETRY: ("patch",),
    Action.Verb.REMOVE: ("delete",),
}


@dataclass(frozen=True, slots=True)
class Right:
    """The right to `verb` objects of `kind` (a key of WRITTEN) in `namespace`; empty: in all
    namespaces, or for a kind without namespaces."""

    kind: str
    verb: str
    namespace: str = ""


def rights_of(verb: str, kind: str, namespace: str = "") -> tuple[Right, ...]:
    """The rights that an action (a value of Action.Verb) needs at least."""
    return tuple(Right(kind, cluster_verb, namespace) for cluster_verb in VERBS[Action.Verb(verb)])


def access_refusals(
    user: AnyUser, cluster: Cluster, rights: Mapping[str, Sequence[Right]]
) -> dict[str, AccessAnswer]:
    """Name -> the cluster's refusal of one of its rights; enqueues a review of unknown rights.

    A refusal of Subscriptions in all namespaces is left out: the user may have the right in one.
    """
    acting, identity = _identity(user)
    wanted = list(dict.fromkeys(right for needed in rights.values() for right in needed))
    if acting is None or not wanted or cluster.removed:
        return {}
    now = timezone.now()
    any_right = Q(pk__in=())
    for right in wanted:
        any_right |= Q(kind=right.kind, verb=right.verb, namespace=right.namespace)
    rows = AccessAnswer.objects.filter(
        any_right,
        user=acting,
        cluster=cluster,
        identity_hash=identity,
        checked_at__gt=now - MAX_AGE,
    )
    stored = {Right(row.kind, row.verb, row.namespace): row for row in rows}
    current = {
        right
        for right, row in stored.items()
        if now - row.checked_at <= (REVIEW_AGAIN if row.allowed else REVIEW_REFUSAL_AGAIN)
    }
    if len(current) < len(wanted):
        _enqueue_review(acting, cluster, wanted)
    refused = {}
    for name, needed in rights.items():
        answers = (stored[right] for right in needed if right in stored)
        answer = next((answer for answer in answers if not answer.allowed), None)
        if answer and (answer.kind != InstallMethod.SUBSCRIPTION or answer.namespace):
            refused[name] = answer
    return refused


def review_access(user: User, cluster: Cluster, rights: Iterable[Right]) -> int:
    """Sends access reviews as the user and stores the answers; returns their number.

    Raises KubeError when the cluster does not answer. Does nothing for a user who may not act, and
    on a removed cluster.
    """
    acting, identity = _identity(user)
    if acting is None or cluster.removed:
        return 0
    as_user, count = impersonation_for(acting), 0
    with client_for(cluster, timeout=TIMEOUT) as client:
        for right in rights:
            reason = _reason(client, right, as_user)
            AccessAnswer.objects.update_or_create(
                user=acting,
                cluster=cluster,
                kind=right.kind,
                verb=right.verb,
                namespace=right.namespace,
                defaults={
                    "identity_hash": identity,
                    "allowed": not reason,
                    "reason": reason,
                    "checked_at": timezone.now(),
                },
            )
            count += 1
    return count


def read_rights(values: object) -> list[Right]:
    """The rights in the message of a task; invalid ones are left out."""
    rows = values if isinstance(values, list) else []
    rights = [Right(*map(str, row)) for row in rows if isinstance(row, list) and len(row) == 3]
    return [right for right in rights if right.kind in WRITTEN][:RIGHTS_MOST]


def _reason(client: KubeClient, right: Right, as_user: Impersonation | None) -> str:
    """The reason why the user lacks the right; empty if they have it."""
    name = as_user.user if as_user else "the service account of OLM Web"
    where = f" in namespace {right.namespace}" if right.namespace else ""
    try:
        review = client.may(right.verb, WRITTEN[right.kind], right.namespace, as_user=as_user)
    except Forbidden:
        # Everybody may review their own access: it is the impersonation that is forbidden.
        return f"OLM Web may not act as {name} on cluster {client.name}."
    if review.allowed:
        return ""
    reason = f": {review.reason}" if review.reason else ""
    text = f"Cluster {client.name} does not let {name} {right.verb} {full_name(right.kind)}{where}"
    return f"{text}{reason}".rstrip(".") + "."


def _identity(user: AnyUser) -> tuple[User | None, str]:
    """The user, who may act, and a hash of the name and groups that the cluster sees."""
    if not may_act(user)[0] or not isinstance(user, User):
        return None, ""
    try:
        as_user = impersonation_for(user)
    except OlmwebError:
        return None, ""  # a name that no header can carry; the dry run reports it
    identity = [as_user.user, *as_user.groups] if as_user else []
    return user, hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _enqueue_review(user: User, cluster: Cluster, rights: Sequence[Right]) -> None:
    """Has a worker review the access, once in ENQUEUE_SECONDS; not without a broker."""
    values = [[right.kind, right.verb, right.namespace] for right in rights]
    digest = hashlib.sha256(json.dumps([user.pk, cluster.pk, values]).encode()).hexdigest()
    if not cache.add(f"rights:{digest}", True, ENQUEUE_SECONDS):
        return
    enqueue(TASK, user.pk, cluster.pk, values)
