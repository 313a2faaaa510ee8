"""The cache that web and workers share in Redis: works as an empty one while Redis is away.

Nothing in it is needed: it holds the progress of running syncs and keeps requests to a worker from
being repeated. Values are JSON, because whoever can write to Redis must not get code executed.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from olmweb.errors import Outage

Result = TypeVar("Result")

TIMEOUT = 1.0  # seconds to connect, and to wait for an answer


class JsonSerializer:
    """Stores numbers, strings, lists and maps; a tuple is read back as a list."""

    def dumps(self, value: Any) -> bytes | int:
        # An int stays one, so that Redis can increment it.
        return value if type(value) is int else msgspec.json.encode(value)

    def loads(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


class TolerantRedisCache(RedisCache):
    """Django's Redis cache; an error of Redis, or a value that isn't JSON, counts as a miss.

    After an error no request is sent for some seconds (see Outage). Meanwhile `add` returns True,
    as for an empty cache. `incr` raises ValueError, as for a missing key.
    """

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        params["OPTIONS"] = {
            "serializer": JsonSerializer,
            "socket_connect_timeout": TIMEOUT,
            "socket_timeout": TIMEOUT,
            "retry": Retry(NoBackoff(), 1),  # a connection that was cut while idle is opened again
            **params.get("OPTIONS", {}),
        }
        super().__init__(server, params)
        self._outage = Outage("cache away")

    def _or(self, otherwise: Result, request: Callable[..., Result], *args: Any) -> Result:
        """The result of the request, or `otherwise` when Redis can't answer it."""
        if self._outage.is_on:  # a page must not wait for each of its keys
            return otherwise
        try:
            return request(*args)
        except (RedisError, OSError) as error:
            self._outage.begin(error)
        except msgspec.DecodeError as error:
            self._outage.log(error)
        return otherwise

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        return self._or(True, super().add, key, value, timeout, version)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._or(default, super().get, key, default, version)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        self._or(None, super().set, key, value, timeout, version)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._or(False, super().touch, key, timeout, version)

    def delete(self, key: Any, version: int | None = None) -> bool:
        return self._or(False, super().delete, key, version)

    def get_many(self, keys: Any, version: int | None = None) -> dict[Any, Any]:
        return self._or({}, super().get_many, keys, version)

    def has_key(self, key: Any, version: int | None = None) -> bool:
        return self._or(False, super().has_key, key, version)

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        value: int | None = self._or(None, super().incr, key, delta, version)
        if value is None:
            raise ValueError(f"Key {key!r} not found")
        return value

    def set_many(
        self, data: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[Any]:
        return self._or([], super().set_many, data, timeout, version)

    def delete_many(self, keys: Any, version: int | None = None) -> None:
        self._or(None, super().delete_many, keys, version)

    def clear(self) -> None:
        self._or(None, super().clear)
