"""The bodies that receivers get, each of at most GROUP changes. Pure.

`json` is our own: `{"version": 1, "changes": [...]}`, oldest first. A change has `id` (the same
when it is sent again: a receiver that keeps ids sees nothing twice), `cluster`, `kind`,
`namespace`, `name`, `from`, `to`, `reason`, `finding` (null, or `id`, `title`, `cause` and the
steps of `remedy`), `message` (the cluster's own words, cut at 1000 characters), `at` (when it was
seen), `since` (when this health began) and `url` (of the operator's page, or empty).

`slack` is an incoming webhook's `{"text": ...}`, one line a change. Whatever comes from a cluster
stands in code spans, where Slack reads no mentions, links or emphasis.

`alertmanager` is the array of POST /api/v2/alerts. An alert is resolved by its own labels with an
`endsAt`; one that stands is sent again every few minutes, as that API wants of its clients, and
would end by itself ALERT_ENDS after the last time.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from installs.notifications.select import Alert, Told

GROUP = {"json": 50, "slack": 50, "alertmanager": 25}  # a change may end one alert and begin one
ALERT_ENDS = timedelta(hours=1)
DETAILED = 10  # a Slack message of more changes than this leaves out what the cluster said
_EXCERPT = 200
_CIRCLES = {
    "Failed": ":red_circle:",
    "Blocked": ":large_orange_circle:",
    "Degraded": ":large_orange_circle:",
    "NeedsApproval": ":large_blue_circle:",
    "Healthy": ":large_green_circle:",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What is told of one change: its row's id and body, and the address of its page."""

    id: int
    told: Told
    url: str = ""


def as_json(changes: Sequence[Change], now: datetime) -> dict[str, Any]:
    return {"version": 1, "changes": [_plain(change) for change in changes]}


def as_slack(changes: Sequence[Change], now: datetime) -> dict[str, Any]:
    lines = [f"*{len(changes)} operators changed*"] if len(changes) > 1 else []
    lines += [_line(change, detailed=len(changes) <= DETAILED) for change in changes]
    return {"text": "\n".join(lines)}


def as_alerts(changes: Sequence[Change], now: datetime) -> list[dict[str, Any]]:
    """Alerts that begin end ALERT_ENDS after `now`, unless they are sent again."""
    alerts = []
    for change in changes:
        told = change.told
        if told["ends"]:
            alerts.append(_alert(told["ends"], change, told["at"]))
        if told["starts"]:
            alerts.append(_alert(told["starts"], change, (now + ALERT_ENDS).isoformat()))
    return alerts


FORMATS: dict[str, Callable[[Sequence[Change], datetime], Any]] = {
    "json": as_json,
    "slack": as_slack,
    "alertmanager": as_alerts,
}


def _plain(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {**change.told}
    told["from"] = told.pop("was")
    del told["starts"], told["ends"]
    return {"id": change.id, **told, "url": change.url}


def _alert(alert: Alert, change: Change, ends: str) -> dict[str, Any]:
    told, finding = change.told, change.told["finding"]
    annotations = {
        "summary": _sentence(told),
        "description": told["message"],
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


def _sentence(told: Told) -> str:
    place = f"{told['namespace']}/{told['name']}" if told["namespace"] else told["name"]
    was = f" (was {told['was']})" if told["was"] else ""
    return f"{told['kind']} {place} on {told['cluster']} is {told['to']}{was}"


def _line(change: Change, *, detailed: bool) -> str:
    told, finding = change.told, change.told["finding"]
    place = f"{told['namespace']}/{told['name']}" if told["namespace"] else told["name"]
    was = f" (was {told['was']})" if told["was"] else ""
    parts = [
        f"{_CIRCLES.get(told['to'], ':white_circle:')} *{told['to']}*{was}: "
        f"{_code(told['kind'])} {_code(place)} on {_code(told['cluster'])}"
    ]
    parts += [_code(told["reason"])] if told["reason"] else []
    parts += [_escaped(finding["title"])] if finding else []
    parts += [_code(told["message"])] if told["message"] and detailed else []
    parts += [f"<{_escaped(change.url).replace('|', '%7C')}|open>"] if change.url else []
    return " · ".join(parts)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """One line in a code span, cut; a backtick would end the span."""
    line = " ".join(re.sub(r"[^\S ]|`|\x00", " ", text).split())
    cut = line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…"
    return f"`{_escaped(cut)}`"
