"""Named leases in the database: one worker at a time does a named piece of work."""

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog
from django.db import DatabaseError, connection
from django.utils import timezone

from olmweb.models import Lease

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that is ours until it expires or is released."""

    name: str
    owner: str

    def renew(self, seconds: int) -> bool:
        """Extends the lease; False when another worker has it (stop before you write)."""
        now = timezone.now()
        return bool(
            Lease.objects.filter(name=self.name, owner=self.owner).update(
                expires_at=now + timedelta(seconds=seconds)
            )
        )


def acquire(name: str, seconds: int) -> Held | None:
    """Takes the lease if it is free or expired, by a conditional UPDATE; None when it is held."""
    now = timezone.now()
    owner = f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}:{uuid.uuid4().hex[:8]}"
    Lease.objects.bulk_create([Lease(name=name, owner="", expires_at=now)], ignore_conflicts=True)
    taken = Lease.objects.filter(name=name, expires_at__lte=now).update(
        owner=owner, expires_at=now + timedelta(seconds=seconds)
    )
    return Held(name, owner) if taken else None


def release(held: Held) -> None:
    Lease.objects.filter(name=held.name, owner=held.owner).update(
        owner="", expires_at=timezone.now()
    )


def is_held(name: str) -> bool:
    """Whether some worker has the lease now."""
    return Lease.objects.filter(name=name, expires_at__gt=timezone.now()).exists()


@contextmanager
def lease(name: str, seconds: int) -> Iterator[Held | None]:
    """`with lease(...) as held:`; `held` is None when another worker has it."""
    held = acquire(name, seconds)
    try:
        yield held
    finally:
        if held:
            release(held)


@contextmanager
def kept_lease(name: str, seconds: int) -> Iterator[Held | None]:
    """As `lease`, for long work: a thread renews it, so that `seconds` may be few.

    A worker that is killed is then replaced soon, and one that is slow is not.
    """
    with lease(name, seconds) as held:
        if held is None:
            yield None
            return
        over = threading.Event()
        thread = threading.Thread(
            target=_keep, args=(held, seconds, over), name=f"lease {name}", daemon=True
        )
        thread.start()
        try:
            yield held
        finally:
            over.set()
            thread.join(seconds)


def _keep(held: Held, seconds: int, over: threading.Event) -> None:
    try:
        while not over.wait(seconds / 4):
            try:
                if not held.renew(seconds):
                    return
            except DatabaseError as error:
                # It may be back before the lease expires.
                log.warning("lease not renewed", lease=held.name, error=type(error).__name__)
                connection.close()
    finally:
        connection.close()
