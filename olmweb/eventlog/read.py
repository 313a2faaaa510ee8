"""Reads the log of events: rows of the list, and the feed of open streams."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import msgspec
import structlog
from django.db import DatabaseError, connection
from django.db.models import Min, QuerySet
from django.utils.dateparse import parse_datetime

from olmweb.errors import BadRequest, OlmwebError
from olmweb.eventlog.types import DATA_TYPES, EventType, LoggedEvent
from olmweb.models import ChangeEvent, EventCounter

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Selection:
    """The events that a reader follows; an empty tuple selects all."""

    types: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    since: datetime | None = None

    def matches(self, event: "StreamedEvent") -> bool:
        return (
            (not self.types or event.type in self.types)
            and (not self.clusters or event.cluster in self.clusters)
            and (self.since is None or event.at >= self.since)
        )

    def filter(self, rows: QuerySet[ChangeEvent]) -> QuerySet[ChangeEvent]:
        if self.types:
            rows = rows.filter(type__in=self.types)
        if self.clusters:
            rows = rows.filter(cluster__name__in=self.clusters)
        return rows.filter(at__gte=self.since) if self.since else rows


@dataclass(frozen=True, slots=True)
class Follow:
    """What the response to one reader sends: the events of `selection` after position `after`."""

    after: int
    selection: Selection

    def encode(self) -> str:
        values = asdict(self.selection)
        since = self.selection.since
        return json.dumps({**values, "since": since and since.isoformat(), "after": self.after})

    @classmethod
    def decode(cls, text: str) -> "Follow":
        values = json.loads(text)
        since = values["since"] and parse_datetime(values["since"])
        selection = Selection(tuple(values["types"]), tuple(values["clusters"]), since)
        return cls(values["after"], selection)


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event as its block of a stream; the other fields are those that a Selection looks at."""

    position: int
    type: str
    cluster: str | None
    at: datetime
    block: bytes


def published() -> QuerySet[ChangeEvent]:
    """All numbered events, with their clusters, in no order."""
    return ChangeEvent.objects.exclude(position=None).select_related("cluster").order_by()


def ends() -> tuple[int, int]:
    """The last position that retention deleted, and the last one of the log; one query."""
    rows = EventCounter.objects.filter(pk=EventCounter.ONLY)
    return rows.values_list("pruned", "position").first() or (0, 0)


def as_logged(row: ChangeEvent) -> LoggedEvent:
    """`row` is published and comes with its cluster."""
    data: Any = row.data
    # PostgreSQL does not keep the order of keys.
    names = [field.name for field in fields(DATA_TYPES[EventType(row.type)])]
    return LoggedEvent(
        id=row.position or 0,
        type=row.type,
        happened_at=row.at,
        cluster=row.cluster.name if row.cluster else None,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        catalog=row.catalog,
        data={name: data[name] for name in names if name in data},  # type: ignore[arg-type]  # its JSON
    )


def require_available(after: int, *, parameter: str) -> None:
    """Raises OlmwebError (410) if events after this position were deleted, and BadRequest for one
    that the log has not reached: both readers would miss events without knowing."""
    pruned, last = ends()
    if after < pruned:
        raise OlmwebError(
            f"Events after {after} were deleted: the oldest one is {pruned + 1} or later.",
            code="events-expired",
            status=410,
            hint="Read the current state (/api/v1/operators), then follow the events without "
            f"{parameter}.",
        )
    if after > last:
        message = f"is {after}, but the last event is {last}"
        raise BadRequest(
            f"{parameter} {message}.",
            code="bad-parameter",
            hint="The database may have been restored from a backup. Read the current state, then "
            f"follow the events without {parameter}.",
            **{parameter: f"{message}."},
        )


def position_before(moment: datetime) -> int:
    """The position before the first event at or after this time; the last one without any."""
    first = published().filter(at__gte=moment).aggregate(first=Min("position"))["first"]
    return int(first) - 1 if first else ends()[1]


class EventFeed:
    """Reads events in one thread, with one database connection. A method returns None while the
    database is away."""

    def __init__(self) -> None:
        self._failing = False

    def last(self) -> int | None:
        try:
            return ends()[1]
        except DatabaseError as error:
            self._fail(error)
            return None

    def read(
        self, after: int, limit: int, selection: Selection | None = None
    ) -> Sequence[StreamedEvent] | None:
        """At most `limit` events after this position; one query."""
        rows = (selection or Selection()).filter(published().filter(position__gt=after))
        try:
            events = list(_as_blocks(rows.order_by("position")[:limit]))
        except DatabaseError as error:
            self._fail(error)
            return None
        self._failing = False
        return events

    def close(self) -> None:
        """Ends the connection of this thread."""
        connection.close()

    def _fail(self, error: DatabaseError) -> None:
        if not self._failing:
            log.warning("streams of events wait for the database", error=str(error))
        self._failing = True
        self.close()


def _as_blocks(rows: Iterable[ChangeEvent]) -> Iterable[StreamedEvent]:
    for row in rows:
        logged = as_logged(row)
        data: Any = msgspec.json.encode(logged)
        block = b"id: %d\nevent: %s\ndata: %s\n\n" % (logged.id, logged.type.encode(), data)
        yield StreamedEvent(logged.id, logged.type, logged.cluster, row.at, block)
