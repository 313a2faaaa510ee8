"""`python -m tests.bench.inspecting`: inspects the images of the stored catalog in this process
alone; prints one line of JSON with seconds, memory, bytes and requests."""

import json
import re
import time
from pathlib import Path

import django


def main() -> None:
    django.setup()
    from catalogs.contents.bulk_inspection import inspect_images
    from catalogs.models import Catalog
    from catalogs.verdicts.settle import images_to_inspect

    idle, start, busy = peak_mb(), time.perf_counter(), time.process_time()
    result = inspect_images(images_to_inspect(Catalog.objects.get()))
    report = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - busy,
        "memory": peak_mb() - idle,
        "bytes": result.bytes,
        "requests": result.requests,
    }
    if result.failed or result.left:
        raise SystemExit(f"not all images were inspected: {result}")
    print(json.dumps(report))


def peak_mb() -> float:
    """Of this program alone: ru_maxrss is at least that of the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else 0.0


if __name__ == "__main__":
    main()
