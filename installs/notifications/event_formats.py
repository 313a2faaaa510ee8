"""The bodies of requests with events, by the format of a receiver. Pure.

`json` is `{"version": 1, "events": [...]}`, each event as `/api/v1/events` answers it and with the
`url` of its page. `cloudevents` is one event in the structured mode of CloudEvents 1.0
(https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md): `id` and `source` together
identify it, `subject` is the object. `slack` is an incoming webhook's text, a line for each event.
`alertmanager` is the array of POST /api/v2/alerts: alerts of unhealthy operators, unreachable
clusters and failing catalogs, which end with the event that says so. They are sent again every few
minutes, as that API expects of its clients, and would end ALERT_ENDS after the last time.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from installs.notifications.formats import ALERT_ENDS, code_span, escaped
from olmweb.eventlog.types import EventType, LoggedEvent

TYPE_PREFIX = "io.olmweb."  # reverse DNS, as CloudEvents asks for
_ICONS = {
    "Failed": ":red_circle:", "Blocked": ":large_orange_circle:",
    "Degraded": ":large_orange_circle:", "NeedsApproval": ":large_blue_circle:",
    "Healthy": ":large_green_circle:", "cluster.unreachable": ":red_circle:",
    "cluster.reachable": ":large_green_circle:", "catalog.failing": ":red_circle:",
    "catalog.recovered": ":large_green_circle:",
}  # fmt: skip
# Health -> severity of its alert, as that of the receiver of the settings.
SEVERITIES = {
    "Failed": "critical", "Blocked": "warning", "Degraded": "warning", "NeedsApproval": "info",
}  # fmt: skip
# Type of an event that begins, and of one that ends the alert of this name.
_BEGINS = {
    str(EventType.CLUSTER_UNREACHABLE): "ClusterUnreachable",
    str(EventType.CATALOG_FAILING): "CatalogFailing",
}
_ENDS = {
    str(EventType.CLUSTER_REACHABLE): "ClusterUnreachable",
    str(EventType.CATALOG_RECOVERED): "CatalogFailing",
}
_OPERATOR = "OperatorNeedsAttention"
# Fields of the data that a line of Slack shows, in this order.
_TOLD = (
    *("condition", "from_health", "health", "from_status", "status", "reason"),
    *("verb", "package", "version", "state", "user", "decided_by", "revision", "outcome"),
    *("code", "message"),
)


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event and the address of its page, or an empty one. `source` names this OLM Web."""

    event: LoggedEvent
    url: str
    source: str


def as_json(events: Sequence[SentEvent], now: datetime) -> Any:
    return {"version": 1, "events": [asdict(sent.event) | {"url": sent.url} for sent in events]}


def as_cloudevent(events: Sequence[SentEvent], now: datetime) -> Any:
    """Of a single event."""
    (sent,) = events
    event = sent.event
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": sent.source,
        "type": TYPE_PREFIX + event.type,
        "subject": _subject(event),
        "time": event.happened_at,
        "datacontenttype": "application/json",
        "data": asdict(event) | {"url": sent.url},
    }


def as_slack(events: Sequence[SentEvent], now: datetime) -> Any:
    return {"text": "\n".join(map(_line, events))}


def as_alerts(events: Sequence[SentEvent], now: datetime) -> Any:
    """Of an alert that several events change, the last state; empty if they change none."""
    alerts: dict[tuple[str, ...], dict[str, Any]] = {}
    for sent in events:
        for alert in _alerts(sent, now):
            alerts[tuple(alert["labels"].values())] = alert
    return list(alerts.values())


class EventFormat(NamedTuple):
    """`make_body` gets at most `group` events, and the time. `path` is appended to an address that
    does not end with it. `renews`: what lasts is sent again every few minutes."""

    make_body: Callable[[Sequence[SentEvent], datetime], Any]
    content_type: str = "application/json"
    group: int = 50
    path: str = ""
    renews: bool = False


EVENT_FORMATS = {
    "json": EventFormat(as_json),
    "cloudevents": EventFormat(as_cloudevent, "application/cloudevents+json; charset=utf-8", 1),
    "slack": EventFormat(as_slack, group=20),
    "alertmanager": EventFormat(as_alerts, path="/api/v2/alerts", renews=True),
}


def encode(form: EventFormat, events: Sequence[SentEvent], now: datetime) -> bytes:
    """The body; empty bytes if there is nothing to send."""
    body = form.make_body(events, now)
    return msgspec.json.encode(body) if body else b""


def _alerts(sent: SentEvent, now: datetime) -> list[dict[str, Any]]:
    """The alerts that the event begins or ends."""
    event, data = sent.event, data_of(sent.event)
    if event.type in _BEGINS:
        return [_alert(sent, _BEGINS[event.type], "warning", now + ALERT_ENDS)]
    if event.type in _ENDS:
        return [_alert(sent, _ENDS[event.type], "warning", event.happened_at)]
    if event.type == EventType.OPERATOR_DELETED:
        severities = dict.fromkeys(SEVERITIES.values())
        return [_alert(sent, _OPERATOR, severity, event.happened_at) for severity in severities]
    if "health" not in data:
        return []
    before, after = SEVERITIES.get(data["from_health"]), SEVERITIES.get(data["health"])
    alerts = []
    if before and before != after:
        alerts.append(_alert(sent, _OPERATOR, before, event.happened_at))
    if after:
        alerts.append(_alert(sent, _OPERATOR, after, now + ALERT_ENDS))
    return alerts


def _alert(sent: SentEvent, name: str, severity: str, ends: datetime) -> dict[str, Any]:
    event, data = sent.event, data_of(sent.event)
    labels = {
        "alertname": name, "cluster": event.cluster, "catalog": event.catalog, "kind": event.kind,
        "namespace": event.namespace, "name": event.name, "severity": severity,
    }  # fmt: skip
    annotations = {
        "summary": " ".join(filter(None, (event.kind, event.name, data.get("health")))),
        "reason": data.get("reason") or data.get("code"),
        "description": data.get("message"),
    }
    return {
        # Alertmanager treats an empty label as absent.
        "labels": {key: value for key, value in labels.items() if value},
        "annotations": {key: value for key, value in annotations.items() if value},
        "startsAt": event.happened_at,
        "endsAt": ends,
        **({"generatorURL": sent.url} if sent.url else {}),
    }


def _subject(event: LoggedEvent) -> str:
    if event.catalog:
        return quote(event.catalog)
    parts = (event.cluster, event.kind, event.namespace or "-", event.name)
    return "/".join(quote(part or "-", safe="") for part in parts)


def _line(sent: SentEvent) -> str:
    event, data = sent.event, data_of(sent.event)
    place = "/".join(filter(None, (event.namespace, event.name)))
    icon = _ICONS.get(data.get("health") or event.type, ":white_circle:")
    where = f" on {code_span(event.cluster)}" if event.cluster else ""
    parts = [f"{icon} *{event.type}*: {code_span(event.kind)} {code_span(place)}{where}"]
    parts += [f"{name} {code_span(str(data[name]))}" for name in _TOLD if data.get(name)]
    parts += [f"<{escaped(sent.url).replace('|', '%7C')}|open>"] if sent.url else []
    return " · ".join(parts)


def data_of(event: LoggedEvent) -> dict[str, Any]:
    """The data of an event, which the log stores as a mapping."""
    data: Any = event.data
    return data if isinstance(data, dict) else asdict(data)
