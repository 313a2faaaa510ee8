"""How many requests each cluster's API server got from us, by verb and status, for /metrics.

Kept in the cache, which all processes share where there are several: counts that start at zero
again when it does are what Prometheus expects of a counter. Losing some is better than a pass that
fails because the cache is away.
"""

from collections.abc import Mapping

import redis
import structlog
from django.core.cache import cache

log = structlog.get_logger(__name__)

_KNOWN = "api-requests"  # key of the list of all triples
Triple = tuple[str, str, str]  # cluster, verb, status ("none" without an answer)


def add(cluster: str, counts: Mapping[tuple[str, str], int]) -> None:
    """Adds what one client has sent, by (verb, status)."""
    if not counts:
        return
    triples = {(cluster, verb, status): number for (verb, status), number in counts.items()}
    try:
        known = set(cache.get(_KNOWN, ()))
        if not triples.keys() <= known:
            # Two at once may lose a triple: it comes back with its next request.
            cache.set(_KNOWN, sorted(known | triples.keys()), timeout=None)
        for triple, number in triples.items():
            cache.add(_key(triple), 0, timeout=None)
            cache.incr(_key(triple), number)
    except (redis.RedisError, OSError, ValueError) as error:  # ValueError: gone since it was added
        log.info("requests not counted", cluster=cluster, error=type(error).__name__)


def totals() -> dict[Triple, int]:
    """All counts; nothing while the cache is away."""
    try:
        triples = [tuple(one) for one in cache.get(_KNOWN, ())]
        found = cache.get_many([_key(one) for one in triples])
    except (redis.RedisError, OSError) as error:
        log.info("counts of requests not read", error=type(error).__name__)
        return {}
    return {one: found[_key(one)] for one in triples if _key(one) in found}


def _key(triple: Triple) -> str:
    return ":".join((_KNOWN, *triple))
