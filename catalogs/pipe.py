"""Writing rows in a thread beside the work that makes the next ones, on the same transaction.

Two threads on one connection never use it at once: whatever else the owner's thread asks of the
database waits until the pipe is empty. Knows Django's connection, not what is written.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

AHEAD = 4  # batches that may wait

_open: ContextVar["Pipe | None"] = ContextVar("pipe", default=None)


class Pipe:
    """Runs statements of one thread's transaction in another one, in their order."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self._owner = get_ident()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rows")
        self._waiting: deque[Future[None]] = deque()

    def send(self, write: Callable[[BaseDatabaseWrapper], None]) -> None:
        """Runs `write` soon. Raises what one sent before has raised."""
        while len(self._waiting) >= AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(write, self.connection))

    def settle(self) -> None:
        """Waits until everything sent was run; raises what it raised."""
        while self._waiting:
            self._waiting.popleft().result()

    def before_statement(self, execute: Any, *args: Any) -> Any:
        """For `execute_wrapper`: the owner's own statements come after all that were sent."""
        if get_ident() == self._owner:
            self.settle()
        return execute(*args)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


@contextmanager
def piped() -> Iterator[None]:
    """Inside a transaction: tables filled by `catalogs.bulk` meanwhile are written by a thread."""
    connection = connections["default"]
    pipe = Pipe(connection)
    token = _open.set(pipe)
    connection.inc_thread_sharing()
    try:
        with connection.execute_wrapper(pipe.before_statement):
            yield
            pipe.settle()
    finally:
        pipe.close()
        connection.dec_thread_sharing()
        _open.reset(token)


def write(statement: Callable[[BaseDatabaseWrapper], None]) -> None:
    """Runs `statement` with this thread's connection: through the pipe when one is open."""
    pipe = _open.get()
    if pipe is None:
        statement(connections["default"])
    else:
        pipe.send(statement)


def settle() -> None:
    """Waits until what was given to `write` was run."""
    pipe = _open.get()
    if pipe is not None:
        pipe.settle()
