"""Every route of the product x hostile values: never a 500, and a sentence for what is refused."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.worlds.rest import World

HOSTILE = {
    "nul": "a\0b",
    "only nul": "\0",
    "long": "x" * 10_000,
    "dots": "../../etc/passwd",
    "encoded dots": "..%2f..%2fetc",
    "unicode": "é😀\u202e\ufeff",
    "line break": "a\r\nX-Evil: 1",
    "negative": "-1",
    "huge number": "9" * 5000,
    "beyond 64 bits": str(2**64),
    "quotes": "'\"`;--",
    "pattern": "%_\\[(*",
    "template": "{{ 7|add:7 }}${x}",
    "script": "<script>alert(1)</script>",
    "space": " ",
}
# What the world of the API tests has under each name in a route.
KNOWN = {
    "cluster": "prod",
    "catalog": "redhat-operators",
    "package": "etcd",
    "bundle": "etcd.v1.1.0",
    "kind": "PlatformOperator",
    "namespace": "-",
    "name": "etcd",
    "form": "manifests.yaml",
    "id": "1",
    "sha256": "0" * 64,
    "rest": "v1/nothing",
    "object_id": "1",
    "app_label": "catalogs",
    "content_type_id": "1",
    "url": "nothing",
}
READ = {
    "/": ("cluster",),
    "/software/": (
        *("q", "cluster", "catalog", "category", "installed", "deprecated", "sort", "view"),
        *("page", "rev"),
    ),
    "/software/{cluster}/{catalog}/{package}": ("channel", "version", "page", "tab"),
    "/software/{cluster}/{catalog}/{package}/install": ("cluster", "name"),
    "/catalogs/{cluster}/{catalog}": ("tab", "rev"),
    "/catalogs/{cluster}/{catalog}?tab=problems": ("severity", "package", "page"),
    "/operators/": ("cluster", "kind", "namespace", "health", "view", "sort", "page"),
    "/operators/?view=all": ("upgrade", "reason", "finding", "package", "q", "sort", "page"),
    "/cluster-operators/": ("cluster", "state", "q", "page"),
    "/clusters/{cluster}": ("rev",),
    "/crds/": ("cluster", "q", "show", "page", "rev"),
    "/reports/copied-csvs/": ("cluster", "rev"),
    "/activity/": ("show", "cluster", "user", "state", "q", "page"),
    "/activity/?show=syncs": ("cluster", "outcome", "q", "page"),
    "/login/": ("next",),
    "/api/v1/packages": ("q", "cluster", "limit", "cursor", "fields", "format"),
    "/api/v1/bundles": ("provides", "page"),
    "/api/v1/crds": ("problem", "finding", "page"),
    "/api/v1/transitions": ("since", "kind", "name", "page"),
}
# Django's own pages take most of the time; these are what a database may choke on.
FOR_ADMIN = ("nul", "beyond 64 bits", "huge number")
PARAMETERS = sorted({name for names in READ.values() for name in names})


def routes(resolver: Any = None, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every route as the chain of patterns that leads to it."""
    for pattern in (resolver or get_resolver()).url_patterns:
        chain = (*before, pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, chain)
        elif isinstance(pattern, URLPattern):
            yield chain


def template(chain: tuple[Any, ...]) -> str:
    """The route with `{name}` for each of its values."""
    text = ""
    for part in chain:
        if str(part.pattern).startswith("^"):  # the two regular expressions: admin's and the API's
            text += "{url}" if "url" in part.pattern.regex.groupindex else "api/{rest}"
            continue
        text += re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(part.pattern))
    return "/" + text


ROUTES = sorted({template(chain) for chain in routes()})
OURS = [route for route in ROUTES if not route.startswith("/admin/")]
WITH_VALUES = [route for route in ROUTES if "{" in route]


@pytest.fixture
def reader(world: World, alice: User) -> Client:
    """An administrator, to whom no route is closed."""
    client = Client(raise_request_exception=False)
    client.force_login(alice)
    return client


def fill(route: str, **values: str) -> str:
    return route.format(**{name: quote(v, safe="") for name, v in (KNOWN | values).items()})


REFUSED = (400, 403, 404, 409, 422)
STATUSES = (200, 204, 301, 302, 304, 405, *REFUSED)


def assert_answered(response: Any, what: str) -> None:
    """Anything but a 500; a refusal says why in a sentence, never in a traceback."""
    assert response.status_code in STATUSES, what
    if response.status_code not in REFUSED:
        return
    body = response.content
    assert b"Traceback" not in body, what
    if response["Content-Type"] == "application/json":
        assert json.loads(body)["error"]["message"].endswith("."), what
    else:
        assert b"data-error" in body or b"<p>" in body, what


def test_the_walk_finds_the_routes_of_both_apps_and_of_the_api() -> None:
    assert {"/", "/software/{cluster}/{catalog}/{package}", "/icons/{sha256}"} <= set(OURS)
    assert "/api/v1/operators/{cluster}/{kind}/{namespace}/{name}" in OURS
    assert "/admin/catalogs/catalog/{object_id}/change/" in ROUTES
    assert len(OURS) > 35


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_value_in_the_path_is_never_a_500(reader: Client, what: str) -> None:
    value = HOSTILE[what]
    for route in WITH_VALUES:
        if route.startswith("/admin/") and what not in FOR_ADMIN:
            continue
        names = [name for name in KNOWN if f"{{{name}}}" in route]
        for changed in ({names[-1]: value}, dict.fromkeys(names, value)):
            path = fill(route, **changed)
            assert_answered(reader.get(path), f"{route} {what} in {', '.join(changed)}")


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_value_in_the_query_is_never_a_500(reader: Client, what: str) -> None:
    sent = quote(HOSTILE[what], safe="")
    for route, names in READ.items():
        path = fill(route)
        for name in names:
            response = reader.get(f"{path}{'&' if '?' in path else '?'}{name}={sent}")
            assert_answered(response, f"{route} {name} {what}")


@pytest.mark.parametrize(
    "path",
    ["/software/-/a%00b/etcd", "/catalogs/%00/%00", "/operators/prod/PlatformOperator/-/a%00b"],
)
def test_a_nul_character_in_path_query_or_form_is_a_400(reader: Client, path: str) -> None:
    for response in (
        reader.get(path),
        reader.get("/operators/", {"q": "a\0b"}),
        reader.get("/operators/", {"a\0b": "q"}),
        reader.post("/login/", {"username": "a\0b"}),
    ):
        assert response.status_code == 400
        assert "NUL character" in response.content.decode()


@pytest.mark.parametrize("route", OURS)
def test_repeated_and_countless_parameters_are_never_a_500(reader: Client, route: str) -> None:
    path = fill(route)
    for query in (
        {name: ["a", "b"] for name in PARAMETERS},
        dict.fromkeys(PARAMETERS, "\0"),
        {"q": ["x"] * 1500},
        {"\0": "x", "a" * 5000: "y"},
    ):
        assert_answered(reader.get(path, query), route)
    assert_answered(reader.get(f"{path}?%ff=%ff&&==&q=%zz&q=%ed%a0%80"), route)


LISTS = (
    *("/operators/?view=all&sort=since", "/operators/?view=all", "/operators/?view=all&sort=-name"),
    *("/activity/", "/activity/?show=syncs", "/cluster-operators/?"),
)


@pytest.mark.parametrize("number", ["0", "-1", "9" * 1500, "1e3", "\u0663", "x"])
@pytest.mark.parametrize("path", LISTS)
def test_a_page_that_does_not_exist_is_the_first_or_the_last_one(
    reader: Client, path: str, number: str
) -> None:
    response = reader.get(f"{path}{'&' if '?' in path else '?'}page={quote(number)}")
    assert response.status_code == 200
