"""The Celery application and its schedule."""

import gc
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.beat import Service
from celery.signals import (
    beat_init,
    heartbeat_sent,
    setup_logging,
    worker_ready,
    worker_shutting_down,
)

from olmweb.runtime.worker import Broker, Every, limit_stop, request_stop, touch_heartbeat

BEAT_STOP_SECONDS = 10  # a message to a Redis that is away takes longer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")

app = Celery("olmweb", amqp=Broker)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_scheduler = "olmweb.runtime.beat:LeaderScheduler"
app.autodiscover_tasks(["catalogs", "installs", "olmweb"])


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """A receiver of this signal stops Celery from replacing the root handlers."""


@worker_ready.connect
def freeze_loaded_objects(**_: Any) -> None:
    """Code and settings live as long as the process: collecting garbage among them takes a tenth
    of the time of a burst of changes."""
    gc.collect()
    gc.freeze()


@heartbeat_sent.connect
def record_heartbeat(**_: Any) -> None:
    """Sent every two seconds by the main loop of a worker that reaches its broker."""
    touch_heartbeat()


@worker_shutting_down.connect
def end_long_tasks(**_: Any) -> None:
    """Sent on SIGTERM to a worker, which then waits for its tasks: as long as their time limits."""
    from django.conf import settings

    request_stop()
    limit_stop(settings.WORKER_STOP_SECONDS)


@beat_init.connect
def stop_beat_between_ticks(sender: Service, **_: Any) -> None:
    """SIGTERM and Ctrl-C end beat after the tick in which they arrive, at most BEAT_STOP_SECONDS
    later; a second one ends it at once.

    Celery raises SystemExit in whatever code the signal interrupts. A callback from C, as a
    function of SQLite is, turns it into another exception, and beat would go on for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # in the embedded server, which stops it

    def stop(*_: object) -> None:
        sender.stop()
        limit = threading.Timer(BEAT_STOP_SECONDS, end_beat, (sender,))
        limit.daemon = True
        limit.start()
        receive(lambda *_: end_beat(sender))

    def receive(handler: Callable[..., None]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handler)

    receive(stop)


def end_beat(service: Service) -> None:
    """Ends the process now, and not by a signal: the first process of a container gets only those
    that it has a handler for."""
    with suppress(Exception):
        service.scheduler.close()  # gives its lease to the beat that waits
    os._exit(1)


@app.on_after_finalize.connect
def build_schedule(sender: Celery, **_: Any) -> None:
    from django.conf import settings

    sender.conf.beat_schedule = {
        "watch every cluster": {
            "task": "installs.sync_clusters",
            "schedule": Every(min(2, settings.STATE_POLL)),
        },
        "content of every catalog": {
            "task": "catalogs.sync_due_catalogs",
            "schedule": Every(min(10, settings.CATALOG_POLL)),
        },
        "follow unfinished actions": {"task": "installs.resume_actions", "schedule": Every(30)},
        "events of ended writers": {"task": "installs.publish_events", "schedule": Every(10)},
        "predictions": {"task": "installs.predict", "schedule": Every(10)},
        "reports that wait": {"task": "olmweb.resume_reports", "schedule": Every(15)},
        "notifications": {"task": "installs.notify", "schedule": Every(15)},
        "retention": {"task": "installs.prune", "schedule": Every(3600)},
    }
