"""Named leases in the database: one worker at a time holds a lease.

Times are the database's, so that workers whose clocks differ or jump agree on the holder.

A lease alone does not keep a worker from writing that was paused until its lease went to another
worker. So what is done under a lease is written in a `fenced_transaction`, or on the condition
`still_held`.
"""

import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Exists, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from olmweb.models import Lease

log = structlog.get_logger(__name__)

LEASE_SECONDS = 20  # of a renewed lease: a killed worker is replaced soon after
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class LeaseLost(Exception):
    """Another worker took over a lease of this thread; nothing was written."""


class _OfThread(threading.local):
    """The leases that the `with` blocks of this thread hold."""

    def __init__(self) -> None:
        self.held: list[Held] = []


_of_thread = _OfThread()


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that this process holds until it expires or is released."""

    name: str
    owner: str

    def renew(self, seconds: int) -> bool:
        """Extends the lease; False when another worker has it (stop before you write)."""
        return bool(
            Lease.objects.filter(name=self.name, owner=self.owner).update(expires_at=_in(seconds))
        )


def this_process() -> str:
    """Its host and id, with which the owner of each of its leases begins."""
    return f"{socket.gethostname()}:{os.getpid()}"


def acquire(name: str, seconds: int) -> Held | None:
    """Takes the lease if it is free or expired, by a conditional UPDATE; None when it is held."""
    owner = f"{this_process()}:{threading.get_ident()}:{uuid.uuid4().hex[:8]}"
    Lease.objects.bulk_create(
        [Lease(name=name, owner="", expires_at=_LONG_AGO)], ignore_conflicts=True
    )
    updated = Lease.objects.filter(name=name, expires_at__lte=Now()).update(
        owner=owner, expires_at=_in(seconds)
    )
    return Held(name, owner) if updated else None


def release(held: Held) -> None:
    Lease.objects.filter(name=held.name, owner=held.owner).update(owner="", expires_at=_LONG_AGO)


def is_held(name: str, *, lost_for: int = 0) -> bool:
    """Whether a worker holds the lease now, or lost it in the last `lost_for` seconds, as one that
    was killed. A released lease is not lost."""
    return Lease.objects.filter(name=name, expires_at__gt=_in(-lost_for)).exists()


def held_names(prefix: str) -> set[str]:
    """Names, beginning with `prefix`, of the leases that workers hold now."""
    return set(holders(prefix))


def holders(prefix: str) -> dict[str, str]:
    """The process that holds each lease whose name begins with `prefix`, as `this_process`."""
    rows = Lease.objects.filter(name__startswith=prefix, expires_at__gt=Now())
    return {name: owner.rsplit(":", 2)[0] for name, owner in rows.values_list("name", "owner")}


def _in(seconds: int) -> Combinable:
    return Now() + timedelta(seconds=seconds)


@contextmanager
def lease(name: str, seconds: int) -> Iterator[Held | None]:
    """`with lease(...) as held:`; `held` is None when another worker holds it."""
    held = acquire(name, seconds)
    if held is None:
        yield None
        return
    _of_thread.held.append(held)
    try:
        yield held
    finally:
        _of_thread.held.remove(held)
        release(held)


@contextmanager
def fenced_transaction() -> Iterator[None]:
    """A transaction that is committed only if every lease of this thread is still its own.

    Raises LeaseLost, after a rollback, when another worker took one over. The rows of the leases
    are locked last, so that renewals wait for the commit alone.
    """
    with transaction.atomic():
        yield
        owners = [held.owner for held in _of_thread.held]
        if owners:
            # A worker that takes over updates the row: before this query, or after the commit.
            rows = Lease.objects.select_for_update().filter(owner__in=owners).order_by("pk")
            if len(list(rows.values_list("pk"))) < len(owners):
                raise LeaseLost


def still_held() -> Q:
    """A condition for a single UPDATE, instead of a `fenced_transaction`: every lease of this
    thread is still its own."""
    condition = Q()
    for held in _of_thread.held:
        condition &= Q(Exists(Lease.objects.filter(owner=held.owner)))
    return condition


@contextmanager
def renewed_lease(name: str, seconds: int = LEASE_SECONDS) -> Iterator[Held | None]:
    """As `lease`, for long work: a thread renews it, so that `seconds` may be few.

    A killed worker is then replaced soon, a slow one is not. `is_ours` says whether it is lost.
    """
    with lease(name, seconds) as held:
        if held is None:
            yield None
            return
        _renewer.add(held, seconds)
        try:
            yield held
        finally:
            _renewer.remove(held)


def is_ours(held: Held, seconds: int) -> bool:
    """Whether this process still holds a lease that it renews.

    No query if its thread has renewed it within its time, by the clock of this process; else, as
    after a pause, the lease is renewed for `seconds`. What is written is fenced all the same.
    """
    return _renewer.renewed_in_time(held) or held.renew(seconds)


class _Renewer:
    """One thread, one connection and one statement for all renewed leases of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, int] = {}  # by owner, which no two leases share
        self._ends: dict[str, float] = {}  # by owner, in seconds of time.monotonic
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def add(self, held: Held, seconds: int) -> None:
        with self._lock:
            self._seconds[held.owner] = seconds
            if self._thread is None:
                self._over = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._over,), name="leases", daemon=True
                )
                self._thread.start()

    def remove(self, held: Held) -> None:
        with self._lock:
            del self._seconds[held.owner]
            self._ends.pop(held.owner, None)
            thread = None
            if not self._seconds:
                thread, self._thread = self._thread, None
                self._over.set()
        if thread is not None:
            thread.join(2)

    def renewed_in_time(self, held: Held) -> bool:
        return time.monotonic() < self._ends.get(held.owner, -math.inf)

    def _renew(self, owners: list[str], seconds: int) -> None:
        end = time.monotonic() + seconds  # not later than that in the row
        renewed = _extend(owners, seconds)
        with self._lock:
            self._ends |= {owner: end for owner in renewed if owner in self._seconds}

    def _run(self, over: threading.Event) -> None:
        try:
            while True:
                with self._lock:
                    leases = dict(self._seconds)
                if over.wait(min(leases.values(), default=1) / 4):
                    return
                for seconds in set(leases.values()):
                    self._renew([owner for owner in leases if leases[owner] == seconds], seconds)
        finally:
            connection.close()


_renewer = _Renewer()


def _extend(owners: list[str], seconds: int) -> list[str]:
    """Renews the leases that these owners still hold; returns the owners of those renewed.

    One that a `fenced_transaction` has locked is left to the next renewal: waiting for a slow
    commit would let all others expire, and block their commits meanwhile.
    """
    try:
        with transaction.atomic():
            held = Lease.objects.filter(owner__in=owners)
            free = held.select_for_update(skip_locked=True).order_by("pk")
            by_key = dict(free.values_list("pk", "owner"))
            held.filter(pk__in=by_key).update(expires_at=_in(seconds))
            return list(by_key.values())
    except DatabaseError as error:
        # It may be back before they expire.
        log.warning("leases not renewed", leases=len(owners), error=type(error).__name__)
        connection.close()
        return []
