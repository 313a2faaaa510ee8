"""The three bodies: our JSON, Slack's text, Alertmanager's alerts."""

from datetime import UTC, datetime
from typing import Any

import pytest

from installs.notifications.formats import (
    FORMATS,
    ChangeBody,
    HealthChange,
    as_alerts,
    as_json,
    as_slack,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AT = "2026-01-02T03:00:00+00:00"


def told(**fields: Any) -> ChangeBody:
    starts = {"labels": {"alertname": "OperatorNeedsAttention", "name": "etcd"}, "since": AT}
    values: dict[str, Any] = {
        "cluster": "prod", "kind": "Subscription", "namespace": "db", "name": "etcd",
        "was": "Healthy", "to": "Failed", "reason": "InstallFailed", "message": "it broke",
        "finding": {"id": "x", "title": "No <room>", "cause": "Too small.", "remedy": ["a", "b"]},
        "at": AT, "since": AT, "starts": starts, "ends": None,
    }  # fmt: skip
    return {**values, **fields}  # type: ignore[typeddict-item]


def test_json_says_everything_by_name() -> None:
    change = HealthChange(7, told(), "https://olmweb.example/operators/prod")
    assert as_json([change], NOW) == {
        "version": 1,
        "changes": [
            {
                "id": 7,
                "cluster": "prod",
                "kind": "Subscription",
                "namespace": "db",
                "name": "etcd",
                "from": "Healthy",
                "to": "Failed",
                "reason": "InstallFailed",
                "message": "it broke",
                "finding": {
                    "id": "x",
                    "title": "No <room>",
                    "cause": "Too small.",
                    "remedy": ["a", "b"],
                },
                "at": AT,
                "since": AT,
                "url": "https://olmweb.example/operators/prod",
            }
        ],
    }


def test_slack_gets_one_line_that_says_status_in_words() -> None:
    text = as_slack([HealthChange(7, told(), "https://olmweb.example/o?a=1&b=2")], NOW)["text"]
    assert text == (
        ":red_circle: *Failed* (was Healthy): `Subscription` `db/etcd` on `prod` · "
        "`InstallFailed` · No &lt;room&gt; · `it broke` · "
        "<https://olmweb.example/o?a=1&amp;b=2|open>"
    )


@pytest.mark.parametrize(
    "hostile", ["<!channel>", "<@U1> *x*", "`a` <https://evil|click>", "a\n```b", "&lt;", "\x00_x_"]
)
@pytest.mark.parametrize("place", ["name", "reason", "message", "cluster", "namespace"])
def test_nothing_from_a_cluster_is_markup_to_slack(hostile: str, place: str) -> None:
    text = as_slack([HealthChange(7, told(**{place: hostile}))], NOW)["text"]
    assert "<" not in text.replace("&lt;", "")
    assert "\n" not in text
    assert "\x00" not in text
    # Spans alternate with our own words: an even number of backticks, none of them from outside.
    assert text.count("`") == as_slack([HealthChange(7, told())], NOW)["text"].count("`")


def test_a_long_slack_message_says_how_many_and_leaves_out_what_clusters_said() -> None:
    text = as_slack([HealthChange(n, told(message="x" * 1000)) for n in range(50)], NOW)["text"]
    assert text.startswith("*50 operators changed*\n")
    assert len(text.splitlines()) == 51
    assert "xxx" not in text
    assert len(text) < 40_000  # where Slack cuts


def test_an_alert_fires_for_an_hour_and_is_resolved_by_the_same_labels() -> None:
    began = told()
    ended = told(was="Failed", to="Healthy", starts=None, ends=began["starts"], message="")
    (firing,) = as_alerts([HealthChange(7, began, "https://olmweb.example/o")], NOW)
    (resolved,) = as_alerts([HealthChange(8, ended)], NOW)
    assert firing == {
        "labels": {"alertname": "OperatorNeedsAttention", "name": "etcd"},
        "annotations": {
            "summary": "Subscription db/etcd on prod is Failed (was Healthy)",
            "description": "it broke",
            "cause": "Too small.",
            "remedy": "a\nb",
        },
        "startsAt": AT,
        "endsAt": "2026-01-02T04:04:05+00:00",
        "generatorURL": "https://olmweb.example/o",
    }
    assert resolved["labels"] == firing["labels"]
    assert resolved["startsAt"] <= resolved["endsAt"] == AT < NOW.isoformat()


def test_a_change_of_trouble_ends_one_alert_and_begins_another() -> None:
    other = {"labels": {"alertname": "OperatorNeedsAttention", "severity": "warning"}, "since": AT}
    alerts = as_alerts([HealthChange(7, told(ends=other))], NOW)
    assert [one["labels"].get("severity") for one in alerts] == ["warning", None]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_takes_a_change_with_nothing_but_names(form: str) -> None:
    bare = told(finding=None, message="", reason="", was="", namespace="", starts=None)
    assert FORMATS[form].make_body([HealthChange(1, bare)], NOW) is not None
