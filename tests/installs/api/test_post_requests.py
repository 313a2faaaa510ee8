"""POST /requests: asking, approving and declining over REST, by the rules of the pages."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from installs.models import Action, AllowRule, InstallRequest
from olmweb.models import ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.installs.api.test_post_actions import post as post_to
from tests.installs.api.test_post_actions import sandbox as sandbox

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"
ASKED = {"cluster": "prod", "package": "etcd", "version": "1.1.0", "reason": "For the shop."}


def post(user: User, address: str, body: Any, **options: Any) -> Any:
    return post_to(user, body, url=f"{URL}{address}", **options)


def ask(bob: User) -> int:
    answer = post(bob, "", ASKED)
    assert answer.status_code == 201, answer.json()
    return int(answer.json()["id"])


def test_a_request_is_recorded_once_and_waits(bob: User) -> None:
    first, again = post(bob, "", ASKED), post(bob, "", ASKED)
    assert (first.status_code, first.json()["state"]) == (201, "waiting")
    assert first["Location"] == f"{URL}/{first.json()['id']}"
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again["Location"] == first["Location"]
    assert not Action.objects.exists()


def test_an_approval_is_tried_and_then_an_action_of_the_approver(
    bob: User, olivia: User, sandbox: Sandbox
) -> None:
    pk = ask(bob)
    dry = post(olivia, f"/{pk}/approve", {"dry_run": True})
    assert (dry.status_code, dry.json()["dry_run"]["ok"]) == (200, True)
    assert [made["kind"] for made in dry.json()["manifests"]] == ["PlatformOperator"]
    assert not Action.objects.exists()
    answer = post(olivia, f"/{pk}/approve", {"comment": "Fine."})
    assert answer.status_code == 202, answer.json()
    action = Action.objects.get()
    assert (answer.json()["id"], action.user) == (action.pk, olivia)
    tokens = ApiToken.objects.filter(user=olivia)
    assert action.by_token == tokens.latest("pk").pk, "its end ends the right to send it"
    assert answer["Location"] == f"/api/v1/actions/{action.pk}"
    request = InstallRequest.objects.get(pk=pk)
    assert (request.state, request.decided_by, request.word) == ("approved", olivia, "Fine.")
    assert post(olivia, f"/{pk}/approve", {}).status_code == 409


def test_a_refusal_needs_a_reason(bob: User, olivia: User) -> None:
    pk = ask(bob)
    refused = post(olivia, f"/{pk}/decline", {"comment": " "})
    assert (refused.status_code, list(refused.json()["error"]["fields"])) == (400, ["comment"])
    answer = post(olivia, f"/{pk}/decline", {"comment": "Use the other one."})
    assert (answer.status_code, answer.json()["state"]) == (200, "declined")
    assert answer.json()["comment"] == "Use the other one."


def test_a_request_is_withdrawn_by_who_made_it_alone(bob: User, olivia: User) -> None:
    pk = ask(bob)
    assert post(olivia, f"/{pk}/withdraw", {}).status_code == 403
    assert post(bob, f"/{pk}/withdraw", {}, scope="read").status_code == 403
    answer = post(bob, f"/{pk}/withdraw", {})
    assert (answer.status_code, answer.json()["state"]) == (200, "withdrawn")
    assert post(bob, f"/{pk}/withdraw", {}).status_code == 409


@pytest.mark.parametrize("step", ["approve", "decline"])
def test_who_asks_does_not_decide(bob: User, olivia: User, step: str) -> None:
    pk, body = ask(bob), {"comment": "Mine."}
    assert post(bob, f"/{pk}/{step}", body).status_code == 403
    assert post(olivia, f"/{pk}/{step}", body, scope="read").status_code == 403
    assert InstallRequest.objects.get(pk=pk).state == "waiting"


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"reason": ""}, 400, "reason"),
        ({"version": "9.9.9"}, 400, "version"),
        ({"package": "nope"}, 404, ""),
        ({"cluster": "nope"}, 404, ""),
    ],
)
def test_an_impossible_request_is_refused_with_its_field(
    bob: User, change: dict[str, str], status: int, field: str
) -> None:
    refused = post(bob, "", ASKED | change)
    assert refused.status_code == status, refused.json()
    assert list(refused.json()["error"].get("fields") or {}) == ([field] if field else [])
    assert not InstallRequest.objects.exists()


def test_a_package_outside_the_allow_list_can_not_be_asked_for(bob: User) -> None:
    AllowRule.objects.create(cluster=Cluster.objects.get(), package="other")
    assert post(bob, "", ASKED).status_code == 403
