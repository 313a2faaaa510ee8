"""Everything in one process: web server, Celery worker and beat, and the sandbox for a demo.

The same code runs in production as separate processes; only settings differ (memory:// broker,
SQLite). Must not know what the tasks do.
"""

import signal
import threading
import time
from collections.abc import Callable

import structlog
import uvicorn
from celery import beat
from celery.worker import WorkController
from django.conf import settings

from olmweb.celery import app
from olmweb.clusters import WATCHED_AT_ONCE
from olmweb.runtime.worker import InMemoryScheduler, clear_stop, request_stop
from olmweb.serving import server
from olmweb.serving.application import make_application
from olmweb.tasks import Queue

log = structlog.get_logger(__name__)

# Queue -> threads. Each queue has a pool of its own: slow syncs never keep an action waiting.
THREADS: dict[Queue, int] = {"actions": 4, "sync": 4, "reports": 2}


class Background:
    """The Celery workers, one for each queue, and beat as threads of this process."""

    def __init__(self) -> None:
        # Before the workers, which would do it at the same time.
        app.loader.import_default_modules()
        app.finalize()
        # Each watched cluster occupies a thread of its own permanently.
        threads = {**THREADS, "watch": max(1, min(len(settings.CLUSTERS), WATCHED_AT_ONCE))}
        self._workers = {queue: _worker(queue, number) for queue, number in threads.items()}
        self._beat = beat.Service(app, scheduler_cls=InMemoryScheduler)
        self._threads = (
            *(
                threading.Thread(target=worker.start, name=f"worker-{queue}", daemon=True)
                for queue, worker in self._workers.items()
            ),
            threading.Thread(target=self._beat.start, name="beat", daemon=True),
        )

    def start(self) -> None:
        clear_stop()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends all within seconds; running tasks are safe to lose (they are level-triggered)."""
        request_stop()
        self._beat.stop()
        for worker in self._workers.values():
            worker.stop(in_sighandler=False)
        for thread in self._threads:
            thread.join(timeout=2)


def _worker(queue: Queue, threads: int) -> WorkController:
    return WorkController(
        app=app,
        hostname=f"{queue}@embedded",
        pool="threads",
        concurrency=threads,
        without_heartbeat=True,
        without_gossip=True,
        without_mingle=True,
        queues=queue,
    )


def serve(port: int, on_ready: Callable[[], None]) -> None:
    """Serves until SIGTERM or Ctrl-C. Raises OSError when the port is taken.

    `on_ready` is called in a thread of its own once the server answers.
    """
    listener = server.listen("127.0.0.1", port)
    web = uvicorn.Server(server.configure(make_application(), server.GRACE_SECONDS))
    # uvicorn raises the signal that ended it once more when it is done; the rest ends after that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    background = Background()
    try:
        background.start()
        app.send_task("installs.sync_clusters", queue="actions")
        threading.Thread(target=on_ready, name="ready", daemon=True).start()
        web.run(sockets=[listener])
        log.info("stopping")
    finally:
        background.stop()


def wait_for_first_sync(timeout: float) -> bool:
    """Waits until every configured cluster and its catalogs were read once; False on timeout."""
    from django.db import connection

    from catalogs.models import Catalog
    from olmweb.models import Cluster

    deadline = time.monotonic() + timeout
    try:
        while time.monotonic() < deadline:
            synced = Cluster.objects.exclude(synced_at=None).count()
            catalogs = Catalog.objects.exclude(cluster=None)
            waiting = catalogs.filter(state=Catalog.State.NEW).count()
            if synced == len(settings.CLUSTERS) and catalogs.exists() and not waiting:
                return True
            time.sleep(0.1)
        return False
    finally:
        connection.close()
