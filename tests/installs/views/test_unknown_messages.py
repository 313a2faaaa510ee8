"""Messages without an explanation: masked, with their operators and a text to report them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from installs.diagnosis.knowledge import fingerprint
from installs.models import Operator, UnknownMessage
from installs.queries.unknown_messages import mask_names
from installs.state.assess import unknown_message
from tests.factories import make_cluster, make_operator
from tests.worlds.html import assert_page

MESSAGE = 'gizmo of prod-eu in team-a turned purple: see https://prod-eu.corp.example/x "secret"'
AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def failing(db: None) -> Operator:
    row = make_operator(
        cluster=make_cluster(name="prod-eu"),
        kind="ClusterExtension",
        name="shop",
        health="Failed",
        reason="Retrying",
        message=MESSAGE,
    )
    key = unknown_message(row)
    assert key is not None
    UnknownMessage.objects.create(
        fingerprint=key.fingerprint, kind=key.kind, reason="Retrying", sample=MESSAGE,
        example="prod-eu, shop", count=3, first_at=AT, last_at=AT,
    )  # fmt: skip
    return row


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("Timed out waiting for the widget", "Timed out waiting for the widget"),
        ("pod etcd-7f9 on node3.corp failed", "pod … on … failed"),
        ('read "a/b" from 10.0.0.1:443: EOF', 'read "…" from …: EOF'),
        ("spec.image: Invalid value: 'x y'", "spec.image: Invalid value: '…'"),
        ("image quay.io/acme/shop@sha256:ab12 is 7 days old", "image … is … days old"),
        ("server-side apply of v1beta1 by bob@corp.example", "server-side apply of v1beta1 by …"),
        ("the shop is closed.\nagain", "the … is closed. again"),
        ('a \\"b\\" and `c` and \u201cd\u201d', 'a "…" and "…" and "…"'),
    ],
)
def test_masking_keeps_plain_words_and_takes_out_what_may_be_a_name(
    message: str, masked: str
) -> None:
    assert mask_names(message, ["shop"]) == masked
    assert mask_names(masked, ["shop"]) == masked


def test_masking_a_hostile_text_is_bounded() -> None:
    assert len(mask_names("a-b '\"`" * 100_000)) <= 2_000


def test_the_page_shows_the_masked_message_its_operators_and_a_text_to_report(
    reader: Client, failing: Operator, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(20):
        page = assert_page(reader.get("/unknown-messages/"))
    assert "1 message" in page.text
    assert "3 times" in page.text
    assert "/operators/prod-eu/ClusterExtension/-/shop" in page.links
    issue = page.text.partition("Copy issue text")[2]
    assert "gizmo of … in … turned purple: see …" in issue
    assert "Kind: ClusterExtension" in issue
    assert "Seen: 3 times" in issue
    for name in ("prod-eu", "team-a", "corp.example", "secret", "shop"):
        assert name not in issue.partition("Previous")[0], name
    assert "No results found" in assert_page(reader.get("/unknown-messages/?q=orange")).text
    assert "1 message" in assert_page(reader.get("/unknown-messages/?q=purple")).text


def test_a_message_that_is_explained_by_now_says_so(reader: Client, db: None) -> None:
    UnknownMessage.objects.create(
        fingerprint=fingerprint("x"), kind="Subscription", sample="constraints not satisfiable"
    )
    text = assert_page(reader.get("/unknown-messages/")).text
    assert "Explained now" in text
    assert "No operator reports it now" in text


def test_without_messages_the_page_says_that_all_is_explained(reader: Client, db: None) -> None:
    make_cluster(name="prod")
    assert "Every message is explained" in assert_page(reader.get("/unknown-messages/")).text


def test_the_cause_of_an_unexplained_operator_leads_to_the_page(
    reader: Client, failing: Operator
) -> None:
    assert "/unknown-messages/" in assert_page(reader.get("/operators/")).links


def test_rest_lists_the_masked_messages_and_filters_by_kind(
    reader: Client, failing: Operator
) -> None:
    body = reader.get("/api/v1/unknown-messages").json()
    (item,) = body["items"]
    assert (item["kind"], item["count"], item["operators"]) == ("ClusterExtension", 3, 1)
    assert item["message"].startswith("gizmo of … in … turned purple")
    assert "prod-eu" not in str(body)
    assert reader.get("/api/v1/unknown-messages?kind=Bundle").json()["count"] == 0
