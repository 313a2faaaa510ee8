"""A catalog at a URL that an administrator typed; `catalogs.sources.guard` says where it may be."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin

from catalogs.sources import guard
from catalogs.sources.base import LIMITS, Limits
from catalogs.sources.http import Answer, HttpSource

REDIRECTS = 5


def url_source(
    url: str, *, limits: Limits = LIMITS, allow_loopback: bool = False, whole_lines: bool = False
) -> HttpSource:
    """Source for an http(s) URL. Raises SourceError for one that may not be asked.

    `allow_loopback` is for tests; no setting turns it on.
    """
    parts = guard.parse(url)
    shown = parts._replace(query="", fragment="").geturl()  # a query may hold a token
    rules = guard.Rules(loopback=allow_loopback)

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[Answer]:
        with _open(url, headers, rules) as answer:
            yield answer

    return HttpSource(shown, opener, limits=limits, whole_lines=whole_lines, way="URL")


@contextmanager
def _open(url: str, headers: dict[str, str], rules: guard.Rules) -> Iterator[Answer]:
    for _ in range(REDIRECTS + 1):
        with guard.request("GET", url, headers, rules) as answer:
            location = answer.get_redirect_location()
            if not location:
                yield guard.Body(answer)
                return
            url = urljoin(url, location)
    raise guard.refused(url, f"redirects more than {REDIRECTS} times")
