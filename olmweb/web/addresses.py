"""Addresses of pages by the names of their routes, as `reverse` and `{% url %}` give them.

A list has several links in each row, and the same rows are shown again and again: building each
address anew took a tenth of the time of such a page.
"""

from functools import lru_cache

from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

CACHED = 8192  # addresses


@lru_cache(CACHED)
def address(route: str, *arguments: str | int) -> str:
    """The address of a route. Raises NoReverseMatch."""
    return reverse(route, args=arguments)


@lru_cache(CACHED)
def escaped_address(route: str, *arguments: str | int) -> SafeString:
    """The same for HTML."""
    return conditional_escape(reverse(route, args=arguments))
