"""The task decorator and the enqueueing of tasks by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import structlog
from celery import current_app, shared_task
from celery.contrib.django.task import DjangoTask
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError as BrokerError

log = structlog.get_logger(__name__)


def task(
    *,
    name: str,
    time_limit: int,
    queue: str = "sync",
    retry_on: tuple[type[Exception], ...] = (),
    expires: int | None = None,
) -> Callable[[Callable[..., None]], "DjangoTask[Any, Any]"]:
    """Registers a Celery task that may run twice, half-way or late.

    Takes named options only, because Celery accepts misspelt ones silently.
    `time_limit` in seconds is the hard limit; the soft one is 15 s shorter. `retry_on` errors are
    retried with backoff and jitter, five times. Arguments must be JSON (ids, never objects).
    Enqueue with `.delay_on_commit(...)`.
    """
    if time_limit > settings.TASK_TIME_LIMIT_MAX:
        raise ValueError(f"task {name}: time_limit {time_limit} s is over TASK_TIME_LIMIT_MAX")
    options: dict[str, Any] = {
        "name": name,
        "base": DjangoTask,
        "queue": queue,
        "ignore_result": True,
        "acks_late": True,
        "reject_on_worker_lost": True,
        "time_limit": time_limit,
        "soft_time_limit": max(1, time_limit - 15),
        "autoretry_for": retry_on,
        "max_retries": 5,
        "retry_backoff": True,
        "retry_jitter": True,
    }
    if expires is not None:
        options["expires"] = expires

    def register(function: Callable[..., None]) -> "DjangoTask[Any, Any]":
        registered: DjangoTask[Any, Any] = shared_task(**options)(function)
        return registered

    return register


def enqueue(name: str, *args: int | str) -> None:
    """Sends the task `name` ("app.task", defined in `app/tasks.py`) when the transaction commits.

    A broker that does not answer is logged, not raised: what the transaction recorded stays, and
    the periodic tasks send it when the broker is back.
    By name, because the modules that enqueue a task are imported by the task. The task's own queue
    and limits apply. Raises KeyError for a name that is not registered.
    """
    import_module(f"{name.partition('.')[0]}.tasks")
    registered: Any = current_app.tasks[name]  # a DjangoTask, by the decorator above

    def send() -> None:
        try:
            registered.delay(*args)
        except (BrokerError, OSError) as error:
            log.error("task not enqueued", task=name, args=args, error=str(error))

    transaction.on_commit(send)
