"""`python -m tests.bench.watching SECONDS CLUSTER...`: watches clusters in this process alone, as a
worker does; prints one JSON line per event that the bench waits for."""

import json
import sys
import threading
from pathlib import Path

import django


def main() -> None:
    django.setup()
    from installs.state.watch.run import watch_cluster
    from olmweb.celery import freeze_loaded_objects
    from olmweb.clusters import configured

    seconds, names = float(sys.argv[1]), sys.argv[2:]
    stop = threading.Event()
    freeze_loaded_objects()  # as in a worker
    print(json.dumps({"event": "idle", "peak_rss_mb": peak_rss_mb()}), flush=True)
    threads = [
        threading.Thread(
            target=watch_cluster,
            args=(cluster,),
            kwargs={"seconds": seconds, "still_ours": lambda: True, "stop": stop.is_set},
        )
        for cluster in configured()
        if not names or cluster.name in names
    ]
    for thread in threads:
        thread.start()
    sys.stdin.readline()  # the bench says when it has seen enough
    stop.set()
    for thread in threads:
        thread.join(timeout=30)
    print(json.dumps({"event": "end", "peak_rss_mb": peak_rss_mb()}), flush=True)


def peak_rss_mb() -> float:
    """Most memory that this process ever had resident."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system tells no VmHWM")


if __name__ == "__main__":
    main()
