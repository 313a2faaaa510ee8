"""What every page's shell shows: the clusters and how fresh they are."""

from typing import Any

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, Any]:
    return {}
