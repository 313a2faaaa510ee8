"""Every error of every route has the same shape; odd input is never a 500."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory
from ninja.errors import HttpError, ValidationError

from olmweb.api.errors import guard, handle_exception
from olmweb.models import ApiToken
from tests.worlds.rest import EVERYTHING, LISTS, MISSING, ROOT, World
from tests.worlds.rest_fixtures import Get

NO_NUL = {name: path for name, path in EVERYTHING.items() if name not in ("openapi",)}


def assert_error(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.content[:300]
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert list(error) == ["code", "message", "hint", "fields"]
    assert error["message"].endswith(".")
    assert error["code"]
    return error


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_every_route_refuses_a_stranger_with_401(world: World, client: Client, path: str) -> None:
    response = client.get(ROOT + path)
    assert_error(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_every_route_refuses_other_methods_with_405(client: Client, path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        if method == "POST" and path in ("actions", "requests", "bulk-installs", "tokens"):
            continue  # those that can be written: tests of actions and requests
        response = client.generic(method, ROOT + path)
        if path.startswith("catalogs") and response.status_code == 401:
            continue  # catalogs are added, changed and deleted: tests/catalogs/api
        assert_error(response, 405)
        assert response["Allow"] in ("GET, HEAD", "GET, HEAD, POST", "DELETE, GET, HEAD, PATCH")


@pytest.mark.parametrize("path", ["actions", "bulk-installs", "bulk-installs/1/stop"])
def test_a_post_without_credentials_is_told_how_to_authenticate(path: str, db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post(ROOT + path, {"verb": "install"}, content_type="application/json")
    assert assert_error(response, 401)["code"] == "unauthorized"
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_post_of_a_browser_without_its_csrf_token_stays_a_403(bob: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(bob)
    refused = client.post(ROOT + "actions", {}, content_type="application/json")
    assert assert_error(refused, 403)["code"] == "csrf"


def test_an_unknown_host_is_an_error_of_the_api_under_its_address(client: Client) -> None:
    assert_error(client.get(ROOT + "operators", headers={"Host": "elsewhere.example"}), 400)
    page = client.get("/operators/", headers={"Host": "elsewhere.example"})
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (400, "text/html")


@pytest.mark.parametrize("path", MISSING)
def test_what_is_not_there_is_a_404(world: World, get: Get, path: str) -> None:
    assert_error(get(path), 404)


@pytest.mark.parametrize("path", NO_NUL.values(), ids=NO_NUL)
def test_an_unknown_parameter_is_named_not_ignored(world: World, get: Get, path: str) -> None:
    # Some are words of the interface itself, which a route might take for its own.
    for name in ("nonsense", "installable", "path", "status", "message", "hint"):
        error = assert_error(get(path, {name: "x"}), 400)
        assert name in error["message"]
        assert name in error["fields"]


@pytest.mark.parametrize("path", NO_NUL.values(), ids=NO_NUL)
def test_an_accept_header_that_leaves_no_room_is_a_406(world: World, get: Get, path: str) -> None:
    assert_error(get(path, accept="image/png"), 406)


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_a_nul_character_is_a_400(world: World, get: Get, path: str) -> None:
    assert_error(get(path, {"q": "a\0b"}), 400)
    assert_error(get(path + "/%00"), 400)


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS)
def test_every_list_names_a_bad_control(world: World, get: Get, path: str) -> None:
    for name, value in (("limit", "0"), ("cursor", "x"), ("fields", "x"), ("format", "xml")):
        error = assert_error(get(path, {name: value}), 400)
        assert list(error["fields"]) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "-1"),
        ("limit", "501"),
        ("limit", "ten"),
        ("limit", "٣"),
        ("limit", "9" * 500),
        ("limit", ""),
        ("cursor", "nonsense"),
        ("cursor", "WyJhIl0:1abc:def"),
        ("cursor", "é" * 900),
        ("fields", "nonsense"),
        ("fields", ","),
        ("format", "CSV"),
    ],
)
def test_a_bad_control_is_a_400_that_names_it(
    world: World, get: Get, name: str, value: str
) -> None:
    error = assert_error(get(LISTS["packages"], {name: value}), 400)
    assert list(error["fields"]) == [name]


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS)
def test_a_control_given_twice_is_a_400(world: World, get: Get, path: str) -> None:
    assert_error(get(path, {"limit": ["1", "2"]}), 400)


def test_a_cursor_of_another_list_or_other_filters_is_refused(world: World, get: Get) -> None:
    cursor = get("packages", {"limit": 1}).json()["next"]
    assert_error(get("bundles", {"cursor": cursor}), 400)
    assert_error(get("packages", {"cursor": cursor, "q": "etcd"}), 400)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("operators", {"health": "healthy"}),
        ("packages", {"deprecated": "maybe"}),
        ("packages", {"installed": ""}),
        ("packages", {"cluster": ["x"] * 51}),
        ("bundles", {"provides": "EtcdCluster"}),
        ("bundles", {"provides": "group/"}),
        ("transitions", {"since": "yesterday"}),
        ("transitions", {"since": "2026-02-31"}),
        ("transitions", {"since": "2026-01-01T25:00:00Z"}),
        ("transitions", {"since": "0001-01-01T00:00:00+14:00"}),
        ("catalogs", {"state": "fine"}),
        ("packages", {"q": "x" * 1001}),
    ],
)
def test_a_value_that_a_filter_cannot_read_is_a_400(
    world: World, get: Get, path: str, query: dict[str, Any]
) -> None:
    assert_error(get(path, query), 400)


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", '"', "\ud7ff", "😀", "a" * 1000, "-1", " "])
def test_any_text_may_be_searched(world: World, get: Get, text: str) -> None:
    for path in ("packages", "operators", "clusteroperators"):
        assert get(path, {"cluster": text}).status_code == 200
    for path in ("operators", "clusteroperators"):
        assert get(path, {"q": text}).status_code == 200
    packages = get("packages", {"q": text})  # looks words up, so there has to be one
    if any(each.isalnum() for each in text):
        assert packages.status_code == 200
    else:
        assert_error(packages, 400)


def test_more_parameters_than_django_reads_are_a_400(get: Get) -> None:
    assert_error(get("packages", {"q": ["x"] * 1500}), 400)


@pytest.mark.parametrize("number", ["abc", "-1", "9" * 30, "9" * 5000, "1.5"])
def test_an_odd_action_number_is_refused(world: World, get: Get, number: str) -> None:
    assert get(f"actions/{number}").status_code in (400, 404)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PermissionDenied(), 403),
        (HttpError(403, "CSRF check failed."), 403),
        (ValidationError([{"loc": ("path", "id"), "msg": "Field required"}]), 400),
        (RuntimeError("the password is hunter2"), 500),
    ],
)
def test_errors_that_no_route_of_today_raises_have_the_shape_too(
    error: Exception, status: int
) -> None:
    response = handle_exception(RequestFactory().get("/"), error)
    # A Django response has no .json() outside the test client.
    assert response.status_code == status
    assert b"hunter2" not in response.content
    assert response.content.startswith(b'{"error":{"code":"')


def test_a_crash_anywhere_leaves_in_the_shape_without_its_text() -> None:
    def crash(request: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    response = guard(crash)(RequestFactory().get("/api/v1/x"))
    assert response.status_code == 500
    assert b"hunter2" not in response.content  # type: ignore[attr-defined]


def test_a_body_that_is_no_json_is_named(bob: User) -> None:
    token, _row = ApiToken.issue(bob.pk, "act")
    answer = Client().post(
        f"{ROOT}actions",
        "{",
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "bad-body")
    assert error["message"] == "The body is not JSON."
