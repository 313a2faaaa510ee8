"""The formats of webhook requests; FORMATS is the table of them. Pure.

`json` is our own: `{"version": 1, "changes": [...]}`, oldest first. A change has `id` (the same
when it is sent again: a receiver that keeps ids sees nothing twice), `cluster`, `kind`,
`namespace`, `name`, `from`, `to`, `reason`, `finding` (null, or `id`, `title`, `cause` and the
steps of `remedy`), `message` (of the cluster, cut at 1000 characters), `at` (when it was observed),
`since` (when this health began) and `url` (of the operator's page, or empty).

`slack` is an incoming webhook's `{"text": ...}` with a line per change. Texts of a cluster are in
code spans, in which Slack parses no mentions, links or emphasis.

`alertmanager` is the array of POST /api/v2/alerts. An alert is resolved by its labels with an
`endsAt`. An active alert is sent again every few minutes, as that API expects of its clients, and
would end ALERT_ENDS after the last time.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

DELETED = "Deleted"
ALERT_ENDS = timedelta(hours=1)
DETAILED = 10  # a Slack message of more changes has no messages of the cluster
_EXCERPT = 200
_CIRCLES = {
    "Failed": ":red_circle:",
    "Blocked": ":large_orange_circle:",
    "Degraded": ":large_orange_circle:",
    "NeedsApproval": ":large_blue_circle:",
    "Healthy": ":large_green_circle:",
}


class FindingBody(TypedDict):
    id: str
    title: str
    cause: str
    remedy: list[str]


class Alert(TypedDict):
    """An alert of Alertmanager; its labels are its identity."""

    labels: dict[str, str]
    since: str


class ChangeBody(TypedDict):
    """The stored body of a notification. Times are RFC 3339.

    `was` is the health last notified, else the previous one, empty for a new operator; `to` is a
    Health or DELETED. `starts` is the alert that begins, `ends` the one that ends.
    """

    cluster: str
    kind: str
    namespace: str
    name: str
    was: str
    to: str
    reason: str
    message: str
    finding: FindingBody | None
    at: str
    since: str
    starts: Alert | None
    ends: Alert | None


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A change to send: id and body of its row, and the URL of its page."""

    id: int
    body: ChangeBody
    url: str = ""


def as_json(changes: Sequence[HealthChange], now: datetime) -> dict[str, Any]:
    return {"version": 1, "changes": [_plain(change) for change in changes]}


def as_slack(changes: Sequence[HealthChange], now: datetime) -> dict[str, Any]:
    lines = [f"*{len(changes)} operators changed*"] if len(changes) > 1 else []
    lines += [_line(change, detailed=len(changes) <= DETAILED) for change in changes]
    return {"text": "\n".join(lines)}


def as_alerts(changes: Sequence[HealthChange], now: datetime) -> list[dict[str, Any]]:
    """New alerts end ALERT_ENDS after `now` unless they are sent again."""
    alerts = []
    for change in changes:
        body = change.body
        if body["ends"]:
            alerts.append(_alert(body["ends"], change, body["at"]))
        if body["starts"]:
            alerts.append(_alert(body["starts"], change, (now + ALERT_ENDS).isoformat()))
    return alerts


class Format(NamedTuple):
    """`make_body` gets at most `group` changes. `path` is appended to an address that does not end
    with its last segment. `renews`: active alerts are sent again every few minutes."""

    make_body: Callable[[Sequence[HealthChange], datetime], Any]
    group: int = 50
    path: str = ""
    renews: bool = False


# The values of OLMWEB_WEBHOOK_FORMAT.
FORMATS = {
    "json": Format(as_json),
    "slack": Format(as_slack),
    # A change may end an alert and begin another.
    "alertmanager": Format(as_alerts, group=25, path="/api/v2/alerts", renews=True),
}


def _plain(change: HealthChange) -> dict[str, Any]:
    body: dict[str, Any] = {**change.body}
    body["from"] = body.pop("was")
    del body["starts"], body["ends"]
    return {"id": change.id, **body, "url": change.url}


def _alert(alert: Alert, change: HealthChange, ends: str) -> dict[str, Any]:
    body, finding = change.body, change.body["finding"]
    annotations = {
        "summary": _sentence(body),
        "description": body["message"],
        "cause": finding["cause"] if finding else "",
        "remedy": "\n".join(finding["remedy"]) if finding else "",
    }
    return {
        "labels": alert["labels"],
        "annotations": {key: value for key, value in annotations.items() if value},
        "startsAt": alert["since"],
        "endsAt": ends,
        **({"generatorURL": change.url} if change.url else {}),
    }


def _sentence(body: ChangeBody) -> str:
    return f"{body['kind']} {_place(body)} on {body['cluster']} is {body['to']}{_was(body)}"


def _place(body: ChangeBody) -> str:
    return f"{body['namespace']}/{body['name']}" if body["namespace"] else body["name"]


def _was(body: ChangeBody) -> str:
    return f" (was {body['was']})" if body["was"] else ""


def _line(change: HealthChange, *, detailed: bool) -> str:
    body, finding = change.body, change.body["finding"]
    parts = [
        f"{_CIRCLES.get(body['to'], ':white_circle:')} *{body['to']}*{_was(body)}: "
        f"{code_span(body['kind'])} {code_span(_place(body))} on {code_span(body['cluster'])}"
    ]
    parts += [code_span(body["reason"])] if body["reason"] else []
    parts += [escaped(finding["title"])] if finding else []
    parts += [code_span(body["message"])] if body["message"] and detailed else []
    parts += [f"<{escaped(change.url).replace('|', '%7C')}|open>"] if change.url else []
    return " · ".join(parts)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code_span(text: str) -> str:
    """A code span of one line, cut, without backticks."""
    line = " ".join(re.sub(r"[^\S ]|`|\x00", " ", text).split())
    cut = line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…"
    return f"`{escaped(cut)}`"
