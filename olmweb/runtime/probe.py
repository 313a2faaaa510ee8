"""Health checks of containers: exit status 0 when the process works.

python -m olmweb.runtime.probe URL      the URL answers 2xx
python -m olmweb.runtime.probe worker   the main loop of a Celery worker goes on, or waits for
                                        a broker that is away
python -m olmweb.runtime.probe beat     the main loop of beat goes on, whether it schedules or
                                        waits for the lease of another
"""

import sys

import urllib3

from olmweb.runtime.worker import HEARTBEAT_FILE, broker_answers, heartbeat_age

OLDEST = 60.0  # seconds; a loop that is busy for longer hangs


def probe_url(url: str) -> int:
    try:
        status = urllib3.request("GET", url, timeout=3, retries=False, redirect=False).status
    except urllib3.exceptions.HTTPError as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0 if 200 <= status < 300 else 1


def probe_loop(*, needs_broker: bool) -> int:
    age = heartbeat_age()
    if age <= OLDEST:
        return 0
    if needs_broker and not broker_answers():
        return 0  # a restart would not help, and later it would only cost time
    print(f"{HEARTBEAT_FILE}: the last heartbeat was {age:.0f} s ago", file=sys.stderr)
    return 1


def main(target: str) -> int:
    if target in ("worker", "beat"):
        return probe_loop(needs_broker=target == "worker")
    return probe_url(target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
