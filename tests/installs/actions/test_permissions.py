"""Access reviews about a user: sent by a worker as the user, read by pages."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone

from installs import tasks
from installs.actions import buttons
from installs.actions.buttons import Right, access_refusals, install_offer, refusals, rights_of
from installs.models import AccessAnswer
from olmweb.kube.errors import KubeError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_operator

pytestmark = pytest.mark.django_db
PO = "PlatformOperator"
INSTALL = rights_of("install", PO)


@pytest.fixture
def prod(db: None) -> Cluster:
    return make_cluster(name="prod", context="sandbox")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What would have gone to the broker."""
    mock = Mock()
    monkeypatch.setattr(buttons, "enqueue", mock)
    return mock


def refusal(
    user: User, cluster: Cluster, rights: tuple[Right, ...] = INSTALL
) -> AccessAnswer | None:
    return access_refusals(user, cluster, {"it": rights}).get("it")


def keep(user: User, cluster: Cluster, right: Right, *, allowed: bool, age: float = 0) -> None:
    """An answer as a worker leaves it; `age` in seconds."""
    AccessAnswer.objects.create(
        user=user,
        cluster=cluster,
        kind=right.kind,
        verb=right.verb,
        namespace=right.namespace,
        identity_hash=buttons._identity(user)[1],
        allowed=allowed,
        reason="" if allowed else "Cluster prod says no.",
        checked_at=timezone.now() - timedelta(seconds=age),
    )


def test_access_is_reviewed_as_the_user_and_the_answer_or_its_reason_stored(
    sandbox: Sandbox, prod: Cluster, olivia: User, tess: User, sent: Mock
) -> None:
    assert buttons.review_access(olivia, prod, INSTALL) == len(INSTALL)
    assert buttons.review_access(tess, prod, INSTALL) == len(INSTALL)
    assert all(row.allowed and not row.reason for row in AccessAnswer.objects.filter(user=olivia))
    assert refusal(olivia, prod) is None
    refused = refusal(tess, prod)
    assert refused is not None
    assert not refused.allowed
    start = "Cluster prod does not let tess create platformoperators.platform.openshift.io"
    assert refused.reason.startswith(start)
    assert refused.reason.endswith(".")
    sent.assert_not_called()
    buttons.review_access(olivia, prod, INSTALL)
    assert AccessAnswer.objects.count() == 2 * len(INSTALL), "an answer is replaced"


def test_where_olm_web_may_not_act_as_the_person_that_is_the_reason(
    sandbox: Sandbox, prod: Cluster, olivia: User, sent: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    olivia.groups.add(Group.objects.create(name="not-of-the-cluster-role"))
    from olmweb.kube.client import KubeClient
    from olmweb.kube.errors import Forbidden

    def forbid(*_: Any, **__: Any) -> Any:
        raise Forbidden('groups "x" is forbidden: cannot impersonate', status=403)

    monkeypatch.setattr(KubeClient, "may", forbid)
    buttons.review_access(olivia, prod, INSTALL)
    refused = refusal(olivia, prod)
    assert refused is not None
    assert refused.reason == "OLM Web may not act as olivia on cluster prod."


def test_a_page_that_knows_nothing_has_a_worker_ask_once_and_does_not_wait(
    prod: Cluster, olivia: User, sent: Mock
) -> None:
    assert refusal(olivia, prod) is None
    assert refusal(olivia, prod) is None
    sent.assert_called_once()
    asked = [[right.kind, right.verb, right.namespace] for right in INSTALL]
    assert sent.call_args.args == (buttons.TASK, olivia.pk, prod.pk, asked)
    assert buttons.read_rights(asked) == list(INSTALL)


@pytest.mark.parametrize(
    ("allowed", "age", "shown", "again"),
    [
        (True, 60, False, False),
        (True, 400, False, True),
        (True, 4000, False, True),
        (False, 10, True, False),
        (False, 60, True, True),
        (False, 4000, False, True),
    ],
)
def test_a_refusal_is_shown_for_an_hour_and_reviewed_again_sooner_than_a_permission(
    prod: Cluster, olivia: User, sent: Mock, allowed: bool, age: float, shown: bool, again: bool
) -> None:
    right = Right(PO, "delete")
    keep(olivia, prod, right, allowed=allowed, age=age)
    refused = refusal(olivia, prod, (right,))
    assert (refused is not None, sent.called) == (shown, again)


def test_an_answer_about_other_groups_is_not_shown(prod: Cluster, olivia: User, sent: Mock) -> None:
    for right in INSTALL:
        keep(olivia, prod, right, allowed=False)
    assert refusal(olivia, prod) is not None
    sent.assert_not_called()
    olivia.groups.clear()
    olivia.user_permissions.add(Permission.objects.get(codename="add_action"))
    assert refusal(User.objects.get(pk=olivia.pk), prod) is None
    sent.assert_called_once()


def test_who_may_not_act_is_not_asked_about(prod: Cluster, bob: User, sent: Mock) -> None:
    assert refusal(bob, prod) is None
    assert buttons.review_access(bob, prod, INSTALL) == 0
    sent.assert_not_called()


def test_the_task_takes_any_message_and_a_silent_cluster_leaves_what_was_known(
    sandbox: Sandbox, prod: Cluster, olivia: User, sent: Mock
) -> None:
    good = [[PO, "delete", ""], ["Nonsense", "delete", ""], ["x"]]
    tasks.review_access(olivia.pk, prod.pk, good)
    assert [row.verb for row in AccessAnswer.objects.all()] == ["delete"]
    sandbox.stop()
    tasks.review_access(olivia.pk, prod.pk, good)
    tasks.review_access(olivia.pk + 99, prod.pk, good)
    assert AccessAnswer.objects.get().allowed
    with pytest.raises(KubeError):
        buttons.review_access(olivia, prod, INSTALL)


# --- buttons -------------------------------------------------------------------------------------


def test_install_is_off_when_every_path_is_refused_and_only_then(
    prod: Cluster, olivia: User, sent: Mock
) -> None:
    catalog = make_catalog(cluster=prod)
    assert install_offer(olivia, catalog, [prod]).refused is None
    for right in INSTALL:
        keep(olivia, prod, right, allowed=False)
    refused = install_offer(olivia, catalog, [prod]).refused
    assert refused is not None
    assert refused.reason == "Cluster prod says no."
    prod.kinds = {**prod.kinds, "ClusterExtension": {"state": "served", "version": "v1"}}
    prod.save()
    assert install_offer(olivia, catalog, [prod]).refused is None, "the other path is not known"


def test_a_no_for_all_namespaces_is_no_no_for_a_subscription(
    prod: Cluster, olivia: User, sent: Mock
) -> None:
    for right in rights_of("install", "Subscription"):
        keep(olivia, prod, right, allowed=False)
    assert refusal(olivia, prod, rights_of("install", "Subscription")) is None
    in_one = rights_of("install", "Subscription", "team")
    for right in in_one:
        keep(olivia, prod, right, allowed=False)
    assert refusal(olivia, prod, in_one) is not None


def test_each_action_on_an_operator_is_asked_about_by_itself_in_its_namespace(
    prod: Cluster, olivia: User, sent: Mock
) -> None:
    operator = make_operator(cluster=prod, kind="Subscription", namespace="team", name="etcd")
    keep(olivia, prod, Right("Subscription", "delete", "team"), allowed=False)
    keep(olivia, prod, Right("Subscription", "patch", "team"), allowed=True)
    keep(olivia, prod, Right("InstallPlan", "patch", "team"), allowed=False)
    assert list(refusals(olivia, operator, "team")) == ["remove", "approve"]
    other = make_operator(cluster=prod, kind="ClusterServiceVersion", name="x")
    assert refusals(olivia, other) == {}
