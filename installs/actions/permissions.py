"""Whether the cluster's RBAC would let a person press a button: asked by a worker, read by pages.

An answer is a hint with an age, never a permission: the dry run at the review and the cluster at
the write decide. Pages ask no cluster; one that finds no answer, or an old one, has a worker ask.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from celery import current_app
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from catalogs.install_methods import InstallMethod
from installs.actions.objects import WRITTEN
from installs.models import AccessAnswer, Action
from olmweb.accounts.roles import AnyUser, impersonation_for, may_act
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Forbidden
from olmweb.models import Cluster

log = structlog.get_logger(__name__)

TASK = "installs.ask_rights"
QUEUE = "actions"
TIMEOUT = (5.0, 10.0)  # seconds to connect and to wait for an answer
FRESH = timedelta(minutes=5)
FRESH_NO = timedelta(seconds=30)  # whoever was just given a right wants to see it
KEPT = timedelta(hours=1)  # an older answer is none
ASKED_SECONDS = 20  # a page that is opened often has a worker ask once
RIGHTS_MOST = 20  # of one task
# What an action writes its main object with: a server-side apply both makes and changes.
VERBS = {
    Action.Verb.INSTALL: ("create", "patch"),
    Action.Verb.UPGRADE: ("patch",),
    Action.Verb.APPROVE: ("patch",),
    Action.Verb.RETRY: ("patch",),
    Action.Verb.REMOVE: ("delete",),
}


@dataclass(frozen=True, slots=True)
class Right:
    """A question: may one `verb` objects of `kind` (a key of WRITTEN) in `namespace`; empty: in
    every namespace, or where the kind has none."""

    kind: str
    verb: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the cluster said. `why` is a sentence when it is no."""

    allowed: bool
    why: str = ""
    checked_at: datetime | None = None


def rights_of(verb: str, kind: str, namespace: str = "") -> tuple[Right, ...]:
    """What an action (a value of Action.Verb) on an object needs at least."""
    return tuple(Right(kind, cluster_verb, namespace) for cluster_verb in VERBS[Action.Verb(verb)])


def answers(
    user: AnyUser, cluster: Cluster, questions: Mapping[str, Sequence[Right]]
) -> dict[str, Answer]:
    """What is known of each of the questions; one is left out where that is too little to say.

    A question is yes when all of its rights are. Two queries for all. A no for every namespace
    says nothing of a Subscription: a person may have the right in one namespace alone.
    """
    acting, whom = _whom(user)
    wanted = list(dict.fromkeys(right for rights in questions.values() for right in rights))
    if acting is None or not wanted:
        return {}
    now = timezone.now()
    of = {"user": acting, "cluster": cluster, "as_whom": whom}
    stored = {
        Right(row.kind, row.verb, row.namespace): row
        for row in AccessAnswer.objects.filter(_rows(wanted), checked_at__gt=now - KEPT, **of)
    }
    if any(
        right not in stored or now - stored[right].checked_at > _fresh(stored[right])
        for right in wanted
    ):
        _have_asked(acting, cluster, wanted)
    combined = {name: _together(rights, stored) for name, rights in questions.items()}
    return {name: answer for name, answer in combined.items() if answer is not None}


def _together(rights: Sequence[Right], stored: Mapping[Right, AccessAnswer]) -> Answer | None:
    rows = [stored[right] for right in rights if right in stored]
    refused = next((row for row in rows if not row.allowed), None)
    if refused is not None:
        if refused.kind == InstallMethod.SUBSCRIPTION and not refused.namespace:
            return None
        return Answer(False, refused.reason, refused.checked_at)
    if len(rows) < len(rights):
        return None
    return Answer(True, checked_at=min(row.checked_at for row in rows))


def ask(user: User, cluster: Cluster, rights: Iterable[Right]) -> int:
    """Asks the cluster, as the person, and keeps what it said; returns how many answers.

    Raises KubeError when the cluster gives none. Somebody who may not act is not asked about.
    """
    acting, whom = _whom(user)
    if acting is None:
        return 0
    as_user, count = impersonation_for(acting), 0
    with client_for(cluster, timeout=TIMEOUT) as client:
        for right in rights:
            allowed, why = _ask_one(client, right, as_user)
            AccessAnswer.objects.update_or_create(
                user=acting,
                cluster=cluster,
                kind=right.kind,
                verb=right.verb,
                namespace=right.namespace,
                defaults={
                    "as_whom": whom,
                    "allowed": allowed,
                    "reason": why,
                    "checked_at": timezone.now(),
                },
            )
            count += 1
    return count


def read_rights(values: object) -> list[Right]:
    """The rights that a task's message names; what is none is left out."""
    rows = values if isinstance(values, list) else []
    rights = [Right(*map(str, row)) for row in rows if isinstance(row, list) and len(row) == 3]
    return [right for right in rights if right.kind in WRITTEN][:RIGHTS_MOST]


def forget(now: datetime) -> int:
    """Deletes answers that no page would show any more; returns how many."""
    return AccessAnswer.objects.filter(checked_at__lt=now - KEPT).delete()[0]


def _ask_one(client: KubeClient, right: Right, as_user: Impersonation | None) -> tuple[bool, str]:
    resource = WRITTEN[right.kind]
    plural = f"{resource.plural}.{resource.group}".rstrip(".")
    name = as_user.user if as_user else "the service account of OLM Web"
    where = f" in namespace {right.namespace}" if right.namespace else ""
    try:
        review = client.may(right.verb, resource, right.namespace, as_user=as_user)
    except Forbidden:
        # Nobody asks about their own rights in vain: what is forbidden is to act as the person.
        return False, f"OLM Web may not act as {name} on cluster {client.name}."
    if review.allowed:
        return True, ""
    reason = f": {review.reason}" if review.reason else ""
    text = f"Cluster {client.name} does not let {name} {right.verb} {plural}{where}{reason}"
    return False, text.rstrip(".") + "."


def _fresh(row: AccessAnswer) -> timedelta:
    return FRESH if row.allowed else FRESH_NO


def _rows(rights: Sequence[Right]) -> Q:
    wanted = Q(pk__in=())
    for right in rights:
        wanted |= Q(kind=right.kind, verb=right.verb, namespace=right.namespace)
    return wanted


def _whom(user: AnyUser) -> tuple[User | None, str]:
    """The person who may act and a hash of what the cluster sees of them."""
    if not may_act(user)[0] or not isinstance(user, User):
        return None, ""
    try:
        as_user = impersonation_for(user)
    except OlmwebError:
        return None, ""  # a name that no header can carry: the review says so
    identity = [as_user.user, *as_user.groups] if as_user else []
    return user, hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _have_asked(user: User, cluster: Cluster, rights: Sequence[Right]) -> None:
    """Has a worker ask, once in ASKED_SECONDS; without a broker the page goes without."""
    values = [[right.kind, right.verb, right.namespace] for right in rights]
    digest = hashlib.sha256(json.dumps([user.pk, cluster.pk, values]).encode()).hexdigest()
    if not cache.add(f"rights:{digest}", True, ASKED_SECONDS):
        return
    try:
        current_app.send_task(
            TASK, args=[user.pk, cluster.pk, values], queue=QUEUE, expires=60, retry=False
        )
    except (BrokerError, OSError) as error:
        log.info("rights not asked", error=str(error))
