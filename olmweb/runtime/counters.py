"""Counters for /metrics that several processes add to: workers have no /metrics of their own.

They are in the cache, which all processes share. Counters that start again at zero with the cache
are what Prometheus expects, and losing some is better than failing the work that is counted.
"""

from collections.abc import Mapping, Sequence

import redis
import structlog
from django.core.cache import cache

log = structlog.get_logger(__name__)

Labels = tuple[str, ...]

ACTIONS = "actions-finished"  # by verb, install method, result
ACTION_SECONDS = "action-seconds"  # from the record to the end; by verb, install method
ACTION_BOUNDS = (5, 15, 30, 60, 120, 300, 600, 900, 1800)  # seconds
DELIVERIES = "webhook-deliveries"  # by receiver, result
INFINITE = "+Inf"


def add(name: str, counts: Mapping[Labels, int]) -> None:
    """Adds to the series of the counter `name`, by the values of its labels; never raises."""
    if not counts:
        return
    try:
        stored = {tuple(labels) for labels in cache.get(name, ())}
        if not counts.keys() <= stored:
            # Two processes at once may lose a series: it returns with its next count.
            cache.set(name, sorted(stored | counts.keys()), timeout=None)
        for labels, number in counts.items():
            cache.add(_key(name, labels), 0, timeout=None)
            cache.incr(_key(name, labels), number)
    except (redis.RedisError, OSError, ValueError) as error:  # ValueError: evicted since add()
        log.info("not counted", counter=name, error=type(error).__name__)


def totals(name: str) -> dict[Labels, int]:
    """All series of the counter, in their order; empty while the cache is unreachable."""
    try:
        stored = sorted(tuple(labels) for labels in cache.get(name, ()))
        values = cache.get_many([_key(name, labels) for labels in stored])
    except (redis.RedisError, OSError) as error:
        log.info("counters not read", counter=name, error=type(error).__name__)
        return {}
    keys = ((labels, _key(name, labels)) for labels in stored)
    return {labels: values[key] for labels, key in keys if key in values}


def observe(name: str, labels: Labels, seconds: float, bounds: Sequence[int]) -> None:
    """Adds a duration to a histogram, which is stored as two counters: of the bucket alone, with
    its upper bound in seconds as the last label, and of the sum in milliseconds."""
    bound = next((str(bound) for bound in bounds if seconds <= bound), INFINITE)
    add(f"{name}-buckets", {(*labels, bound): 1})
    add(f"{name}-sum", {labels: round(seconds * 1000)})


def histogram(
    name: str, bounds: Sequence[int]
) -> dict[Labels, tuple[list[tuple[str, float]], float]]:
    """Labels -> (cumulative count by upper bound, sum in seconds) of what was observed."""
    sums = totals(f"{name}-sum")
    buckets = totals(f"{name}-buckets")
    result = {}
    for labels, milliseconds in sums.items():
        count, cumulative = 0, []
        for bound in (*map(str, bounds), INFINITE):
            count += buckets.get((*labels, bound), 0)
            cumulative.append((bound, float(count)))
        result[labels] = (cumulative, milliseconds / 1000)
    return result


def _key(name: str, labels: Labels) -> str:
    return ":".join((name, *labels))
