"""Sends the rows of installs.notifications.select to the webhook, each at least once.

All state of retries is in the rows, so a restart or a lost broker loses nothing. One sender at a
time holds a lease that names the receiver. If the receiver is down or asks to wait, the lease is
kept until then, so nothing is sent sooner. Changes of one operator are sent in order; others may
overtake an operator whose body the receiver rejects.

The address is a setting, so it may be inside this network; redirects are not followed. It may
contain a secret, so errors and logs name only its host.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import SystemRandom
from typing import Any

import msgspec
import structlog
import urllib3
from django.conf import settings
from django.db.models import F, QuerySet
from django.urls import reverse
from django.utils import timezone
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.util import Retry, Timeout, Url, make_headers, parse_url

from installs.models import Notification
from installs.notifications.formats import FORMATS, HealthChange
from installs.notifications.select import OperatorKey, ongoing, operator_key, record_deletions
from olmweb.kube.errors import shorten
from olmweb.runtime.leases import acquire, release

log = structlog.get_logger(__name__)

TIMEOUT = Timeout(connect=5, read=10)
RUN_SECONDS = 60  # a run begins no request after this
TASK_LIMIT = 150
LEASE_SECONDS = TASK_LIMIT + 30
QUEUE_LIMIT = 2000  # rows read in one run
FIRST_WAIT, LONGEST_WAIT = 10.0, 1800.0  # seconds; doubled after each attempt
RETRY_AFTER_LIMIT = 3600
GIVE_UP_AFTER = timedelta(days=1)
ATTEMPTS = 5  # at least, however old
RENEW = timedelta(minutes=5)
CHECK_AGAIN = timedelta(days=1)
AGAIN = frozenset({408, 425, 429})
CONTENT = frozenset({400, 413, 422})  # a single change may be the cause
ANSWER_LIMIT = 2048
SECRET_LENGTH = 8
_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of a request. `wait`: seconds that the receiver requested.

    If it `answered` with an error, the body may be the cause; otherwise the receiver is.
    """

    error: str = ""
    retry: bool = False
    answered: bool = False
    content: bool = False
    wait: float | None = None


class Receiver:
    """The webhook of the settings. Raises LocationParseError for an invalid address."""

    def __init__(self, url: str, form: str) -> None:
        self.format = FORMATS[form]
        self._url = _with_path(parse_url(url), self.format.path)
        self.host = self._url.netloc or ""
        # A changed token counts as another receiver, without waiting.
        self.lease = f"webhook:{hashlib.sha256(url.encode()).hexdigest()[:32]}"
        self._pool = urllib3.PoolManager(retries=False)

    def close(self) -> None:
        self._pool.clear()

    def send(self, changes: Sequence[HealthChange]) -> SendResult:
        body = self.format.make_body(changes, timezone.now())
        if not body:
            return SendResult()  # nothing begins or ends an alert
        headers = {"Content-Type": "application/json", "User-Agent": "olmweb"}
        if self._url.auth:
            headers |= make_headers(basic_auth=self._url.auth)
        try:
            answer = self._pool.request(
                "POST",
                self._url._replace(auth=None, fragment=None).url,
                body=msgspec.json.encode(body),
                headers=headers,
                timeout=TIMEOUT,
                redirect=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            return SendResult(f"{self.host} {_describe(error)}.", retry=True)
        try:
            return self._result(answer)
        finally:
            answer.close()

    def _result(self, answer: BaseHTTPResponse) -> SendResult:
        status = int(answer.status)
        if 200 <= status < 300:
            return SendResult()
        if 300 <= status < 400:
            return SendResult(
                f"{self.host} answered {status}, a redirect, which is not followed; set "
                "OLMWEB_WEBHOOK_URL to the address that it leads to."
            )
        reported = self._response_text(answer)
        error = f"{self.host} answered {status}" + (f": {reported}" if reported else ".")
        if status in AGAIN or status >= 500:
            return SendResult(error, retry=True, answered=True, wait=retry_after(answer))
        return SendResult(error, content=status in CONTENT, answered=True)

    def _response_text(self, answer: BaseHTTPResponse) -> str:
        """The text of the response, unless it is HTML or repeats secrets of the address."""
        if "html" in answer.headers.get("Content-Type", ""):
            return ""
        try:
            text = answer.read1(ANSWER_LIMIT).decode(errors="replace")
        except (HTTPError, OSError):
            return ""
        path, query, auth = (
            part or "" for part in (self._url.path, self._url.query, self._url.auth)
        )
        secrets = (part for part in (*path.split("/"), query, auth) if len(part) >= SECRET_LENGTH)
        if any(secret in text for secret in secrets):
            return ""
        return shorten(text, 200)


def send_pending() -> None:
    """Sends due rows, unless another worker sends or the receiver has requested to wait."""
    if not settings.WEBHOOK_URL:
        return
    try:
        receiver = Receiver(settings.WEBHOOK_URL, settings.WEBHOOK_FORMAT)
    except LocationParseError:
        log.error("webhook address is wrong", hint="OLMWEB_WEBHOOK_URL: write https://host/path.")
        return
    record_deletions()
    held = (
        acquire(receiver.lease, LEASE_SECONDS)
        if _is_any_due(renews=receiver.format.renews)
        else None
    )
    if held is None:
        return
    pause = 0.0
    try:
        pause = _Run(receiver).send_all()
    finally:
        receiver.close()
        if pause:
            held.renew(int(pause) + 1)
        else:
            release(held)


class _Run:
    """One run over the pending rows. `blocked`: operators with an older change that waits."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._blocked: set[OperatorKey] = set()
        self._failures = 0
        self._until = time.monotonic() + RUN_SECONDS

    def send_all(self) -> float:
        """Sends everything due; returns the seconds to wait before the next request."""
        pause = self._send_pending()
        if not pause and self._receiver.format.renews:
            pause = self._renew()
        return pause

    def _send_pending(self) -> float:
        rows = list(_pending())
        while rows and time.monotonic() < self._until:
            batch, rows = self._next_batch(rows)
            if not batch:
                break
            pause = self._deliver(batch)
            if pause:
                return pause
        return 0.0

    def _next_batch(
        self, rows: Sequence[Notification]
    ) -> tuple[list[Notification], list[Notification]]:
        """The next rows to send together, and the remaining ones.

        A body that failed before is sent again in smaller parts, to isolate the rejected change.
        """
        now = timezone.now()
        batch: list[Notification] = []
        for number, row in enumerate(rows):
            key = operator_key(row.transition)
            if row.next_at > now:
                self._blocked.add(key)
            if key in self._blocked:
                continue
            batch.append(row)
            if len(batch) >= max(1, self._receiver.format.group >> min(batch[0].attempts, 8)):
                return batch, list(rows[number + 1 :])
        return batch, []

    def _deliver(self, batch: Sequence[Notification]) -> float:
        """Sends one body and stores the result; returns the seconds to wait."""
        result = self._receiver.send([_change(row) for row in batch])
        if not result.error:
            self._failures = 0
            _update(batch, state=Notification.State.SENT, error="", sent_at=timezone.now(),
                    next_at=timezone.now() + RENEW)  # fmt: skip
            return 0.0
        log.warning(
            "webhook failed", host=self._receiver.host, changes=len(batch), error=result.error
        )
        if result.content and len(batch) > 1:
            middle = len(batch) // 2
            return self._deliver(batch[:middle]) or self._deliver(batch[middle:])
        if not result.retry:
            _give_up(batch, result.error)
            return 0.0
        wait = _wait(batch, result)
        self._postpone(batch, result.error, wait)
        self._failures += 1
        # Two failures in a row are caused by the receiver, not by the bodies.
        is_down = not result.answered or result.wait is not None or self._failures > 1
        return wait if is_down else 0.0

    def _postpone(self, batch: Sequence[Notification], error: str, wait: float) -> None:
        now = timezone.now()
        old = [
            row
            for row in batch
            if row.attempts + 1 >= ATTEMPTS and now - row.transition.at > GIVE_UP_AFTER
        ]
        if old:
            _give_up(old, f"Given up after {old[0].attempts + 1} attempts: {error}")
        _update(
            [row for row in batch if row not in old],
            error=error,
            next_at=now + timedelta(seconds=wait),
        )
        self._blocked |= {operator_key(row.transition) for row in batch}

    def _renew(self) -> float:
        """Sends active alerts again, as Alertmanager expects; their rows were sent before.

        Other sent rows are postponed, so that each run reads few.
        """
        now = timezone.now()
        due = list(_sent_due(now).filter(pk__in=ongoing()))
        over = _sent_due(now).exclude(pk__in=[row.pk for row in due])
        over.update(next_at=now + CHECK_AGAIN)
        size = self._receiver.format.group
        for start in range(0, len(due), size):
            if time.monotonic() > self._until:
                break
            batch = due[start : start + size]
            # Without the alert that it ended before.
            result = self._receiver.send([_change(row, standing=True) for row in batch])
            if result.error:
                log.warning("alerts not renewed", host=self._receiver.host, error=result.error)
                return result.wait or FIRST_WAIT
            ids = [row.pk for row in batch]
            Notification.objects.filter(pk__in=ids).update(next_at=timezone.now() + RENEW)
        return 0.0


def _pending() -> QuerySet[Notification]:
    waiting = Notification.objects.filter(state=Notification.State.PENDING)
    return waiting.select_related("transition").order_by("id")[:QUEUE_LIMIT]


def _sent_due(now: datetime) -> QuerySet[Notification]:
    return Notification.objects.filter(state=Notification.State.SENT, next_at__lte=now)


def _is_any_due(*, renews: bool) -> bool:
    """Checked first, as taking the lease is a write and mostly nothing is due."""
    now = timezone.now()
    pending = Notification.objects.filter(state=Notification.State.PENDING, next_at__lte=now)
    return pending.exists() or (renews and _sent_due(now).exists())


def _change(row: Notification, *, standing: bool = False) -> HealthChange:
    body = row.body | {"ends": None} if standing else row.body
    url = ""
    if settings.PUBLIC_URL:
        place = [body["cluster"], body["kind"], body["namespace"] or "-", body["name"]]
        url = settings.PUBLIC_URL + reverse("installs:operator", args=place)
    return HealthChange(row.pk, body, url)


def _update(rows: Sequence[Notification], **values: Any) -> None:
    """Updates pending rows only: another worker may have sent some after the lease expired."""
    Notification.objects.filter(
        pk__in=[row.pk for row in rows], state=Notification.State.PENDING
    ).update(attempts=F("attempts") + 1, **values)


def _give_up(rows: Sequence[Notification], error: str) -> None:
    _update(rows, state=Notification.State.GIVEN_UP, error=error)
    log.error("notifications given up", changes=len(rows), error=error)


def _wait(batch: Sequence[Notification], result: SendResult) -> float:
    if result.wait is not None:
        return result.wait
    attempts = min(max(row.attempts for row in batch), 16)
    doubled = float(min(FIRST_WAIT * 2**attempts, LONGEST_WAIT))
    return doubled * _random.uniform(0.75, 1.25)


def retry_after(answer: BaseHTTPResponse) -> float | None:
    """The seconds that the receiver requested; None if there is no valid header."""
    try:
        return Retry(retry_after_max=RETRY_AFTER_LIMIT).get_retry_after(answer)
    except (HTTPError, ValueError, OverflowError):
        return None


def _with_path(url: Url, suffix: str) -> Url:
    """The address with the path of the format's API, unless it ends with that already."""
    path, last = (url.path or "").rstrip("/"), suffix.rpartition("/")[2]
    return url._replace(path=path + suffix) if last and not path.endswith(f"/{last}") else url


def _describe(error: Exception) -> str:
    """A description by error type, as urllib3's own texts quote the whole address."""
    if isinstance(error, NameResolutionError):
        return "can't be found: its name is not known"
    if isinstance(error, NewConnectionError) and "refused" in str(error):
        return "refuses the connection"
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError | TimeoutError):
        return "did not answer in time"
    if isinstance(error, SSLError):
        return "has a certificate that is not accepted, or speaks no https"
    return f"can't be reached ({type(error).__name__})"
