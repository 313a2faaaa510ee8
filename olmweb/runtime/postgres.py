"""Time limits of PostgreSQL connections, by what a process does.

They are sent as `options` of the connection, unless DATABASE_URL names its own (`?options=...`).
PgBouncer in transaction mode refuses `options`: set `ignore_startup_parameters = options` there and
the same limits with `ALTER ROLE ... SET`. SQLite knows none of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Of libpq. A server that vanished without a word is noticed within a minute.
CONNECTION: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a statement may run, wait for a lock, and a transaction may be idle; 0: no
    limit."""

    statement: int
    lock: int
    idle_in_transaction: int

    @property
    def options(self) -> str:
        return (
            f"-c statement_timeout={self.statement}s -c lock_timeout={self.lock}s"
            f" -c idle_in_transaction_session_timeout={self.idle_in_transaction}s"
            # Compiling a query of a page takes longer than running it.
            " -c jit=off"
        )


WEB = Limits(statement=30, lock=10, idle_in_transaction=30)
# Workers and commands. A worker that was paused in a transaction must not hold its locks for long.
WORKER = Limits(statement=600, lock=60, idle_in_transaction=60)
# A migration may take its time, but while it waits for a lock everybody behind it waits, too.
MIGRATE = Limits(statement=0, lock=10, idle_in_transaction=0)


def connection_options(own: dict[str, Any]) -> dict[str, Any]:
    """OPTIONS of the database, where `own` are those that DATABASE_URL names."""
    return {**CONNECTION, "options": WORKER.options, **own}


def set_limits(limits: Limits) -> str | None:
    """Sets the limits of the connections that this process opens from now on.

    Returns the options before; None, and sets nothing, where they are not those of this module.
    """
    from django.db import connections  # after the settings, which use this module

    options = connections.settings["default"].get("OPTIONS", {})
    before: str | None = options.get("options")
    if before not in {known.options for known in (WEB, WORKER, MIGRATE)}:
        return None
    options["options"] = limits.options
    return before


@contextmanager
def limits_of_migrations() -> Iterator[None]:
    """`with` these limits on a new connection, and the limits before on the next one."""
    from django.db import connection, connections

    before = set_limits(MIGRATE)
    if before is None:
        yield
        return
    connection.close()
    try:
        yield
    finally:
        connections.settings["default"]["OPTIONS"]["options"] = before
        connection.close()
