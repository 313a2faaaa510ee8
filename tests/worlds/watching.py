"""Following a cluster in a test: the watch runs in the test's own thread, step by step."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from installs.state.watch.run import WatchReport, watch_cluster
from olmweb.models import Cluster, ResourceWatch
from olmweb.sandbox.cluster import Sandbox

Step = Callable[[], Any]


def follow(
    cluster: Cluster, *steps: Step, seconds: float = 30, done: bool = True, **more: Any
) -> WatchReport:
    """Watches until every step is done: each is called a few times a second until it is true.

    `done` False: the watch shall end before that.
    """
    script = list(steps)

    def stop() -> bool:
        while script and script[0]():
            script.pop(0)
        return not script

    report = watch_cluster(cluster, seconds=seconds, stop=stop, **more)
    if bool(script) is done:
        states = list(
            ResourceWatch.objects.exclude(error="").values_list("resource", "state", "error")
        )
        raise AssertionError(f"{len(script)} steps were not reached; {report}; {states}")
    return report


def do(work: Step) -> Step:
    """A step that is done once."""

    def step() -> bool:
        work()
        return True

    return step


def wait(ticks: int) -> Step:
    """A step that takes so many calls, a quarter of a second each while nothing happens."""
    left = [ticks]

    def step() -> bool:
        left[0] -= 1
        return left[0] < 0

    return step


def all_open() -> bool:
    """Every feed that the cluster has anything of is being watched, by a thread."""
    served = ResourceWatch.objects.exclude(state=ResourceWatch.State.ABSENT)
    threads = [
        thread for thread in threading.enumerate() if thread.name.startswith("watch sandbox")
    ]
    watched = served.filter(state=ResourceWatch.State.WATCHING).count()
    return 0 < watched == served.count() == len(threads)


def paths(sandbox: Sandbox, *, watch: bool) -> list[str]:
    """Paths of the feeds' lists, or of their watches, that were asked for so far."""
    requested = [path for method, path in sandbox.script.requests if method == "GET"]
    requested = [path for path in requested if "/pods?" not in path]
    if watch:
        return [path for path in requested if "watch=1" in path]
    # A list of one object is how the cluster is asked for its newest version.
    return [path for path in requested if "limit=" in path and "limit=1&" not in f"{path}&"]


class Statements(list[str]):
    """What was written; `freeze` ends the noting."""

    frozen = False

    def freeze(self) -> None:
        self.frozen = True


@contextmanager
def writes() -> Iterator[Statements]:
    """The statements that change rows in this thread; those that keep a lease are left out."""
    statements = Statements()

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        changes = sql.split(" ", 1)[0] in ("INSERT", "UPDATE", "DELETE")
        if changes and "olmweb_lease" not in sql and not statements.frozen:
            statements.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield statements
