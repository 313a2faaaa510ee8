"""The bodies of requests with events, by the format of a receiver. Pure.

`json` is `{"version": 1, "events": [...]}`, each event as `/api/v1/events` answers it and with the
`url` of its page. `cloudevents` is one event in the structured mode of CloudEvents 1.0
(https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md): `id` and `source` together
identify it, `subject` is the object. `slack` is an incoming webhook's text, a line for each event.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from installs.notifications.formats import code_span, escaped
from olmweb.eventlog.types import LoggedEvent

TYPE_PREFIX = "io.olmweb."  # reverse DNS, as CloudEvents asks for
_ICONS = {
    "Failed": ":red_circle:", "Blocked": ":large_orange_circle:",
    "Degraded": ":large_orange_circle:", "NeedsApproval": ":large_blue_circle:",
    "Healthy": ":large_green_circle:", "cluster.unreachable": ":red_circle:",
    "cluster.reachable": ":large_green_circle:", "catalog.failing": ":red_circle:",
    "catalog.recovered": ":large_green_circle:",
}  # fmt: skip
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


def as_json(events: Sequence[SentEvent]) -> Any:
    return {"version": 1, "events": [asdict(sent.event) | {"url": sent.url} for sent in events]}


def as_cloudevent(events: Sequence[SentEvent]) -> Any:
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


def as_slack(events: Sequence[SentEvent]) -> Any:
    return {"text": "\n".join(map(_line, events))}


class EventFormat(NamedTuple):
    """`make_body` gets at most `group` events."""

    make_body: Callable[[Sequence[SentEvent]], Any]
    content_type: str = "application/json"
    group: int = 50


EVENT_FORMATS = {
    "json": EventFormat(as_json),
    "cloudevents": EventFormat(as_cloudevent, "application/cloudevents+json; charset=utf-8", 1),
    "slack": EventFormat(as_slack, group=20),
}


def encode(form: EventFormat, events: Sequence[SentEvent]) -> bytes:
    return msgspec.json.encode(form.make_body(events))


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
