"""Sends the log of events to the receivers that administrators added, each event at least once.

A receiver has a position in the log (olmweb.eventlog), so that an event costs no row of its own: a
run sends what follows the position and its filter selects, in the order of the log, and moves it.
While a receiver is down, or asks to wait, it keeps its position, and events wait for it. What it
refuses is given up after the attempt, all else after GIVE_UP_AFTER. Every request body is a
WebhookDelivery, which a person may have sent again.

Addresses are typed by people, so they are checked as those of catalogs are, at each request, and
redirects are not followed. They may hold secrets: errors name the host alone.
"""

import hashlib
import hmac
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit

import structlog
from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from catalogs.models import Catalog
from catalogs.sources import guard
from catalogs.sources.base import Cut, SourceError
from installs.models import Operator, WebhookDelivery, WebhookReceiver
from installs.notifications.event_formats import (
    EVENT_FORMATS,
    SEVERITIES,
    SentEvent,
    data_of,
    encode,
)
from installs.notifications.receiver_audit import record_sent_again
from installs.notifications.send import AGAIN, CONTENT, SendResult, retry_after
from olmweb.errors import BadRequest
from olmweb.eventlog import read
from olmweb.eventlog.read import Selection
from olmweb.eventlog.types import EventType, FailureData, HealthData, LoggedEvent
from olmweb.models import Cluster, configured_clusters
from olmweb.runtime import counters
from olmweb.runtime.leases import acquire, lease

log = structlog.get_logger(__name__)

RULES = guard.Rules()
REQUEST_SECONDS = 15
RUN_SECONDS = 30  # a run begins no request to a receiver after this
LEASE_SECONDS = 120
RENEW_SECONDS = 300
FIRST_WAIT, LONGEST_WAIT = 10.0, 1800.0  # seconds; doubled after each attempt
GIVE_UP_AFTER = timedelta(days=1)
OPEN = (WebhookDelivery.State.PENDING, WebhookDelivery.State.FAILING)


def deliver_all() -> None:
    """Sends what is due to every enabled receiver, unless another worker does."""
    now = timezone.now()
    for receiver in WebhookReceiver.objects.filter(enabled=True, next_at__lte=now):
        if _has_work(receiver):
            with lease(f"webhook-receiver:{receiver.pk}", LEASE_SECONDS) as held:
                if held is not None:
                    receiver.refresh_from_db()
                    _deliver(receiver)
        if EVENT_FORMATS[receiver.format].renews and not receiver.error:
            _renew(receiver)


def check_address(url: str) -> None:
    """Raises BadRequest for an address that requests are not sent to. Looks its name up."""
    try:
        parts = guard.parse(url)
        guard.checked_address(parts.hostname or "", guard.port_of(parts), url, RULES)
    except (SourceError, Cut) as error:
        raise BadRequest(str(error), code="bad-url", hint=error.hint) from error


def send_test(receiver: WebhookReceiver) -> SendResult:
    """Sends an event that did not happen, of the object `Test test`. Changes no row."""
    data = HealthData("Healthy", "", "Failed", "Test", "This is a test of OLM Web.", "")
    event = LoggedEvent(
        0, str(EventType.OPERATOR_HEALTH), timezone.now(), "test", "Test", "", "test", "", data
    )
    return _request(receiver, [_sent(event)], "test")


def send_again(deliveries: Sequence[WebhookDelivery]) -> int:
    """Queues deliveries again that were sent or given up; returns their number."""
    ended = [row for row in deliveries if row.state not in OPEN]
    ids = [row.pk for row in ended]
    now = timezone.now()
    with transaction.atomic():
        WebhookReceiver.objects.filter(deliveries__in=ids).update(next_at=now)
        record_sent_again(ended)
        return WebhookDelivery.objects.filter(pk__in=ids).update(
            state=WebhookDelivery.State.PENDING, attempts=0, error="", created_at=now
        )


def skip_to_now(receiver: WebhookReceiver) -> None:
    """Sets the position of an unsaved receiver: it gets what happens from now on."""
    receiver.position = read.ends()[1]
    receiver.attempts, receiver.next_at, receiver.error = 0, timezone.now(), ""


def _has_work(receiver: WebhookReceiver) -> bool:
    """Checked first, as taking a lease is a write and mostly nothing is due."""
    return receiver.position < read.ends()[1] or receiver.deliveries.filter(state__in=OPEN).exists()


def _deliver(receiver: WebhookReceiver) -> None:
    until = time.monotonic() + RUN_SECONDS
    # What failed before comes first: the events after it wait.
    for row in receiver.deliveries.filter(state__in=OPEN).order_by("id"):
        if time.monotonic() > until or not _attempt(receiver, row):
            return
    while time.monotonic() < until:
        last = read.ends()[1]
        selection = Selection(tuple(receiver.types), tuple(receiver.clusters))
        waiting = selection.filter(read.published().filter(position__gt=receiver.position))
        group = EVENT_FORMATS[receiver.format].group
        rows = waiting.order_by("position").values_list("position", flat=True)[:group]
        ids = [position for position in rows if position is not None]
        with transaction.atomic():
            # Moved together with the row that has the events from now on.
            receiver.position = ids[-1] if ids else max(last, receiver.position)
            receiver.save(update_fields=["position"])
            row = WebhookDelivery(
                receiver=receiver, events=ids, state=WebhookDelivery.State.FAILING
            )
            if ids:
                row.save()
        if not ids or not _attempt(receiver, row):
            return


def _attempt(receiver: WebhookReceiver, row: WebhookDelivery) -> bool:
    """Sends a delivery and stores the result; False if the receiver has to wait."""
    rows = read.published().filter(position__in=row.events).order_by("position")
    events = [_sent(read.as_logged(event)) for event in rows]
    result = _request(receiver, events, str(row.pk)) if events else SendResult()
    row.attempts += 1
    row.error = result.error
    now = timezone.now()
    waits = result.retry and now - row.created_at < GIVE_UP_AFTER
    if not result.error:
        row.state, row.sent_at = WebhookDelivery.State.SENT, now
    elif not waits:
        row.state = WebhookDelivery.State.GIVEN_UP
    wait = _wait(row.attempts, result) if waits else 0.0
    receiver.error, receiver.next_at = result.error, now + timedelta(seconds=wait)
    receiver.attempts = row.attempts if result.error else 0
    with transaction.atomic():
        if result.content and len(row.events) > 1:  # one of them may be the cause
            row.delete()
            for event in row.events:
                WebhookDelivery.objects.create(
                    receiver=receiver, events=[event], state=WebhookDelivery.State.FAILING
                )
        else:
            row.save()
        receiver.save(update_fields=["attempts", "next_at", "error"])
    if events:
        word = "sent" if not result.error else "failed" if waits else "given-up"
        counters.add(counters.DELIVERIES, {(receiver.name, word): 1})
    if result.error:
        log.warning("webhook failed", receiver=receiver.name, error=result.error)
    return not waits and not (result.content and len(row.events) > 1)


def _renew(receiver: WebhookReceiver) -> None:
    """Sends the alerts of what lasts, once in RENEW_SECONDS: their lease is kept that long."""
    if acquire(f"webhook-renewal:{receiver.pk}", RENEW_SECONDS) is None:
        return
    selection = Selection(tuple(receiver.types), tuple(receiver.clusters))
    events = [_sent(event) for event in lasting(selection)]
    group = EVENT_FORMATS[receiver.format].group
    for start in range(0, len(events), group):
        result = _request(receiver, events[start : start + group], "renewal")
        if result.error:  # sent again with the next renewal, before the alerts end
            log.warning("alerts not renewed", receiver=receiver.name, error=result.error)
            return


def lasting(selection: Selection) -> Iterator[LoggedEvent]:
    """What is wrong now of the selection, each as the event that would say so; three queries."""

    def selects(type_: EventType, cluster: str) -> bool:
        return (not selection.types or type_ in selection.types) and (
            not selection.clusters or cluster in selection.clusters
        )

    clusters = Cluster.objects.filter(configured_clusters())
    type_ = EventType.OPERATOR_HEALTH
    operators = Operator.objects.filter(health__in=SEVERITIES, cluster__in=clusters)
    for row in operators.select_related("cluster").defer("conditions", "details"):
        if selects(type_, row.cluster.name):
            health = HealthData("", "", row.health, row.reason, row.message[:1000], row.finding)
            since, place = row.since or row.observed_at, (row.kind, row.namespace, row.name)
            yield LoggedEvent(0, str(type_), since, row.cluster.name, *place, "", health)
    type_ = EventType.CLUSTER_UNREACHABLE
    for cluster in clusters.filter(reachable=False):
        if cluster.unreachable and selects(type_, cluster.name):
            data = FailureData(cluster.error_code, cluster.error_text, cluster.error_hint)
            since = cluster.unreachable_since or timezone.now()
            place = ("Cluster", "", cluster.name)
            yield LoggedEvent(0, str(type_), since, cluster.name, *place, "", data)
    type_ = EventType.CATALOG_FAILING
    failing = Catalog.objects.filter(configured_clusters("cluster__"), failing_since__isnull=False)
    for catalog in failing.select_related("cluster"):
        name = catalog.cluster.name if catalog.cluster else None
        if selects(type_, name or ""):
            data = FailureData(catalog.error_code, catalog.error_text, catalog.error_hint)
            since = catalog.failing_since or timezone.now()
            place = (catalog.source_kind, catalog.namespace, catalog.name)
            yield LoggedEvent(0, str(type_), since, name, *place, str(catalog), data)


def _wait(attempts: int, result: SendResult) -> float:
    if result.wait is not None:
        return result.wait
    return float(min(FIRST_WAIT * 2 ** min(attempts - 1, 16), LONGEST_WAIT))


def _request(receiver: WebhookReceiver, events: Sequence[SentEvent], delivery: str) -> SendResult:
    form = EVENT_FORMATS[receiver.format]
    now = timezone.now()
    body = encode(form, events, now)
    if not body:
        return SendResult()  # nothing begins or ends an alert
    headers = {
        "Content-Type": form.content_type,
        "User-Agent": "olmweb",
        "Olmweb-Delivery": delivery,
        **signature(receiver.secret, body, now),
    }
    host = urlsplit(receiver.url).hostname or "The receiver"
    url = receiver.url
    if form.path and not urlsplit(url).path.rstrip("/").endswith(form.path):
        url = url.rstrip("/") + form.path
    try:
        with guard.request(
            "POST", url, headers, RULES, body=body, seconds=REQUEST_SECONDS
        ) as answer:
            status = int(answer.status)
            if 200 <= status < 300:
                return SendResult()
            if 300 <= status < 400:
                return SendResult(f"{host} answered {status}, a redirect, which is not followed.")
            again = status in AGAIN or status >= 500
            return SendResult(
                f"{host} answered {status}.",
                retry=again,
                answered=True,
                content=status in CONTENT,
                wait=retry_after(answer) if again else None,
            )
    except Cut:
        # Not its text, which may quote the whole address.
        return SendResult(f"{host} does not answer, or not in time.", retry=True)
    except SourceError:
        return SendResult(f"{host} is no address that may be called: it leads to this machine.")


def signature(secret: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers by which a receiver with the secret verifies a request; none without a secret.

    HMAC-SHA256 (RFC 2104) over the Unix time, a full stop and the body: an old request that is
    repeated by somebody else has an old time.
    """
    if not secret:
        return {}
    at = str(int(now.timestamp()))
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Olmweb-Timestamp": at, "Olmweb-Signature": f"sha256={digest}"}


def _sent(event: LoggedEvent) -> SentEvent:
    path = _path(event)
    url = settings.PUBLIC_URL + path if settings.PUBLIC_URL and path else ""
    return SentEvent(event, url, settings.PUBLIC_URL or "urn:olmweb")


def _path(event: LoggedEvent) -> str:
    area = event.type.partition(".")[0]
    if area == "catalog":
        return f"/catalogs/{quote(event.catalog)}"
    if area == "cluster":
        return reverse("installs:cluster", args=[event.cluster])
    data = data_of(event)
    if area in ("action", "request") and area in data:
        return reverse(f"installs:{area}", args=[data[area]])
    if area == "operator":
        place = [event.cluster, event.kind, event.namespace or "-", event.name]
        return reverse("installs:operator", args=place)
    return ""
