"""The time of a download as a whole: servers that send a little now and then."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from catalogs.sources import base
from catalogs.sources.base import Deadline, Limits, SourceError
from catalogs.sources.http import HttpSource


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_more_bytes_give_more_time_up_to_the_limit():
    clock = Clock()
    deadline = Deadline("the catalog", 600, clock)
    clock.now = 59
    deadline.check(0)
    clock.now = 100
    deadline.check(41 * base.MIN_RATE)
    with pytest.raises(SourceError, match=r"too slowly: 1,000 bytes came in 100 s") as caught:
        deadline.check(1000)
    assert caught.value.code == "too-slow"
    clock.now = 601
    with pytest.raises(SourceError):
        deadline.check(1 << 40)


class Drip:
    """A body of one byte each ten seconds, without an end."""

    status = 200

    def __init__(self, clock: Clock) -> None:
        self.headers: Mapping[str, str] = {"ETag": '"x"'}
        self._clock = clock
        self.reads = 0

    def read(self, _size: int, /) -> bytes:
        self._clock.now += 10
        self.reads += 1
        assert self.reads < 1000, "nothing ends the download"
        return b"x"


def test_a_byte_each_ten_seconds_ends_after_the_grace(monkeypatch):
    clock = Clock()
    drip = Drip(clock)
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=clock))
    with pytest.raises(SourceError) as caught:
        HttpSource("the catalog", lambda _: nullcontext(drip), limits=Limits()).fetch()
    assert (caught.value.code, drip.reads) == ("too-slow", 7)
    assert caught.value.requests == 1
