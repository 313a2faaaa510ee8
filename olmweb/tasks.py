"""The task decorator and the enqueueing of tasks by name.

Queues, each with workers of its own, so that short work never waits for long work:

    actions   actions and their follow-ups, access reviews, YAML of objects, assignment of clusters
    sync      catalogs, cluster passes, verdicts, notifications, retention
    reports   what one person requests and may take long: inspections, reports of copied CSVs
    watch     watches of clusters, minutes each
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from celery import current_app, shared_task
from celery.contrib.django.task import DjangoTask
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from olmweb.errors import Outage

Queue = Literal["actions", "sync", "reports", "watch"]


class Task(DjangoTask):  # type: ignore[type-arg]  # generic in the stubs alone
    """A task whose message may be lost: what it does is in rows, which beat's tasks look through.

    So `apply_async`, and what calls it (`delay`, `delay_on_commit`), raise nothing while the broker
    is away and wait a few seconds at most: they return None, and no message is sent for a few more.
    """

    def apply_async(self, *args: Any, **options: Any) -> Any:
        if _outage.is_on:
            return None
        try:
            return super().apply_async(*args, **options)
        except (BrokerError, OSError) as error:
            _outage.begin(error)
            return None


_outage = Outage("broker away, tasks not sent")


def task(
    *,
    name: str,
    time_limit: int,
    queue: Queue = "sync",
    expires: int | None = None,
) -> Callable[[Callable[..., None]], Task]:
    """Registers a Celery task that may run twice, half-way or late.

    Takes named options only, because Celery accepts misspelt ones silently.
    `time_limit` in seconds is the hard limit; the soft one is 15 s shorter. Arguments must be JSON
    (ids, never objects). Enqueue with `.delay_on_commit(...)`.
    """
    if time_limit > settings.TASK_TIME_LIMIT_MAX:
        raise ValueError(f"task {name}: time_limit {time_limit} s is over TASK_TIME_LIMIT_MAX")
    options: dict[str, Any] = {
        "name": name,
        "base": Task,
        "queue": queue,
        "ignore_result": True,
        "acks_late": True,
        "reject_on_worker_lost": True,
        "time_limit": time_limit,
        "soft_time_limit": max(1, time_limit - 15),
    }
    if expires is not None:
        options["expires"] = expires

    def register(function: Callable[..., None]) -> Task:
        registered: Task = shared_task(**options)(function)
        return registered

    return register


def enqueue(name: str, *args: int | str | list[list[str]]) -> None:
    """Sends the task `name` ("app.task", defined in `app/tasks.py`) when the transaction commits.

    By name, because the modules that enqueue a task are imported by the task. The task's own queue
    and limits apply. Raises KeyError for a name that is not registered.
    """
    import_module(f"{name.partition('.')[0]}.tasks")
    registered: Any = current_app.tasks[name]  # a Task, by the decorator above
    registered.delay_on_commit(*args)
