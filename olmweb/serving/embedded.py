"""Everything in one process: web server, Celery worker and beat, and the sandbox for a demo.

The same code runs in production as separate processes; only settings differ (memory:// broker,
SQLite). Must not know what the tasks do.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
import uvicorn
from celery import beat
from celery.concurrency.thread import TaskPool
from celery.worker import WorkController
from django.conf import settings

from olmweb.celery import app
from olmweb.clusters import WATCHED_AT_ONCE
from olmweb.runtime.worker import InMemoryScheduler, clear_stop, request_stop
from olmweb.serving import server
from olmweb.tasks import Queue

log = structlog.get_logger(__name__)

# Queue -> threads. Each queue has a pool of its own: slow syncs never keep an action waiting.
THREADS: dict[Queue, int] = {"actions": 4, "sync": 4, "reports": 2}


class QueueThreads(TaskPool):
    """Celery's pool of threads, with an executor for each queue.

    One worker with this pool, and not a worker for each queue: the selection of queues belongs to
    the Celery app, so that workers in one process would all consume the queues of the last one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._executors = {
            queue: ThreadPoolExecutor(number, thread_name_prefix=f"worker-{queue}")
            for queue, number in threads_by_queue().items()
        }

    def on_apply(self, target: Any, args: Any = None, *more: Any, **options: Any) -> Any:
        """`args` are those of celery.worker.request.Request.execute_using_pool."""
        self.executor = self._executors[args[2]["delivery_info"]["routing_key"]]
        return super().on_apply(target, args, *more, **options)

    def on_stop(self) -> None:
        for executor in self._executors.values():
            executor.shutdown(wait=False, cancel_futures=True)


def threads_by_queue() -> dict[Queue, int]:
    """Each watched cluster occupies a thread of its own permanently."""
    return {**THREADS, "watch": max(1, min(len(settings.CLUSTERS), WATCHED_AT_ONCE))}


class Background:
    """The Celery worker and beat as threads of this process."""

    def __init__(self) -> None:
        threads = threads_by_queue()
        # No limit of messages taken: those of a busy queue wait in its executor.
        app.conf.worker_prefetch_multiplier = 0
        self._worker = WorkController(
            app=app,
            pool=QueueThreads,
            concurrency=sum(threads.values()),
            without_heartbeat=True,
            without_gossip=True,
            without_mingle=True,
            queues=",".join(threads),
        )
        self._beat = beat.Service(app, scheduler_cls=InMemoryScheduler)
        self._threads = (
            threading.Thread(target=self._worker.start, name="worker", daemon=True),
            threading.Thread(target=self._beat.start, name="beat", daemon=True),
        )

    def start(self) -> None:
        clear_stop()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends both within seconds; running tasks are safe to lose (they are level-triggered)."""
        request_stop()
        self._beat.stop()
        self._worker.stop(in_sighandler=False)
        for thread in self._threads:
            thread.join(timeout=2)


def serve(port: int, on_ready: Callable[[], None]) -> None:
    """Serves until SIGTERM or Ctrl-C. Raises OSError when the port is taken.

    `on_ready` is called in a thread of its own once the server answers.
    """
    app.loader.import_default_modules()
    listener = server.listen("127.0.0.1", port)
    web = uvicorn.Server(server.configure(server.make_application(), server.GRACE_SECONDS))
    server.end_on_signals(web)
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
