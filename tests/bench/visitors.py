"""`python -m tests.bench.visitors URL NUMBER PATH`: so many open pages, as browsers keep them.

Each loads the page, follows its topics by server-sent events, and asks for the fragment when told.
Prints "open" when all were told for the first time, and at the end of stdin a line of JSON:
{"opened", "told", "fetched", "failed"}. Must not know Django.
"""

import asyncio
import json
import re
import sys
from collections import Counter
from html import unescape
from typing import Any

import aiohttp

LIVE = re.compile(r'data-live="([^"]+)"[^>]* hx-get="([^"]+)"')
TOGETHER = 20  # pages that are loaded at a time


class Visitor:
    """One open page."""

    def __init__(self, session: aiohttp.ClientSession, counts: Counter[str]) -> None:
        self._session, self._counts = session, counts
        self.told = asyncio.Event()

    async def stay(self, path: str, turn: asyncio.Semaphore) -> None:
        """Loads the page and follows it until cancelled."""
        async with turn:
            topics, self._fragment = _live(await self._get(path))
        query = [("of", topic) for topic in topics.split()]
        while True:
            async with self._session.get("/events/", params=query) as response:
                response.raise_for_status()
                self._counts["opened"] += 1
                async for line in response.content:
                    if line == b"event: changed\n":
                        self._counts["told"] += 1
                        await self._ask()
                        self.told.set()

    async def _ask(self) -> None:
        text = await self._get(self._fragment, {"HX-Request": "true"})
        self._counts["fetched"] += 1
        if text:
            self._fragment = _live(text)[1]

    async def _get(self, path: str, headers: dict[str, str] | None = None) -> str:
        async with self._session.get(path, headers=headers) as response:
            if response.status >= 400:
                self._counts["failed"] += 1
            return await response.text()


def _live(text: str) -> tuple[str, str]:
    """The topics of a page or fragment, and the address that its live element asks."""
    found = LIVE.search(text)
    assert found, text[:500]
    return unescape(found[1]), unescape(found[2])


async def main(url: str, number: int, path: str) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    turn = asyncio.Semaphore(TOGETHER)
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as session:
        visitors = [Visitor(session, counts) for _ in range(number)]
        tasks = [asyncio.create_task(visitor.stay(path, turn)) for visitor in visitors]
        for visitor, task in zip(visitors, tasks, strict=True):
            told = asyncio.create_task(visitor.told.wait())
            await asyncio.wait([told, task], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()  # raises
        print("open", flush=True)
        counts["told"] = counts["fetched"] = 0
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return dict(counts)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))))
