"""For a worker of a test (`celery worker --include`): a task that never ends, and a short stop."""

import os
import time
from pathlib import Path

from celery import shared_task
from django.conf import settings

settings.WORKER_STOP_SECONDS = 2


@shared_task(name="tests.endless", acks_late=True, reject_on_worker_lost=True, time_limit=600)
def endless() -> None:
    with Path(os.environ["OLMWEB_TEST_RUNS"]).open("a", encoding="utf-8") as runs:
        runs.write("run\n")
    while True:
        time.sleep(0.1)
