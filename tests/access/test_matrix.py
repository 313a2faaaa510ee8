"""Drives each route as each kind of visitor, session and token, and compares with the matrix."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client

from installs.models import Action, ActionBatch, InstallRequest
from olmweb.api.routes import api
from olmweb.models import ApiToken
from tests.access.matrix import ADMIN, NEEDS, PAGES, REST, ROLES
from tests.olmweb.web.test_hostile_urls import OURS, fill
from tests.worlds.rest import World

pytestmark = [
    pytest.mark.django_db,
    # Who may do what doesn't depend on it, and each route has tests of its own on both.
    pytest.mark.one_database,
]

API = "/api/v1"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
BODIES: dict[str, dict[str, Any]] = {
    "/actions": {"cluster": "prod", "verb": "install", "package": "etcd"},
    "/bulk-installs": {"cluster": "prod", "packages": ["prod/redhat-operators/etcd"]},
    "/catalogs": {"name": "added", "source_kind": "URL", "source": "https://a.example/c.json"},
    "/tokens": {"name": "made"},
    "/requests": {"cluster": "prod", "package": "etcd", "version": "1.1.0", "reason": "Needed."},
    "/requests/{id}/decline": {"comment": "Not now."},
}
FORMS = {
    "/reports/copied-csvs/": {"cluster": "prod"},
    "/activity/requests/{id}": {"step": "nothing"},
}
ENDS_SESSION = ("/login/", "/logout/")
Sign = Callable[..., Client]


@pytest.fixture
def people(world: World) -> dict[str, User]:
    """An account of each role, with one open request and one bulk install of a viewer's team."""
    made = {name: User.objects.create_user(name.replace(" ", "-")) for name in ROLES[2:]}
    for role in ("viewer", "operator", "admin"):
        made[role].groups.add(Group.objects.get(name=f"olmweb-{role}s"))
    User.objects.filter(username="disabled").update(is_active=False)
    User.objects.filter(username__in=("staff", "admin")).update(is_staff=True)
    User.objects.filter(username="superuser").update(is_staff=True, is_superuser=True)
    made["disabled"].groups.add(Group.objects.get(name="olmweb-admins"))
    return {name: User.objects.get(pk=user.pk) for name, user in made.items()}


@pytest.fixture
def numbers(people: dict[str, User], world: World) -> dict[str, str]:
    """The number in the address of each route that has one."""
    request = InstallRequest.objects.filter(state="waiting").earliest("id")
    InstallRequest.objects.filter(pk=request.pk).update(user=people["superuser"])
    batch = ActionBatch.objects.create(
        cluster=world.prod, path="PlatformOperator", user=people["superuser"], idempotency_key="k"
    )
    Action.objects.create(cluster=world.prod, verb="install", name="of-batch", batch=batch)
    return {
        "requests": str(request.pk),
        "bulk-installs": str(batch.pk),
        "actions": "1",
        "tokens": "9",
    }


@pytest.fixture
def sign(people: dict[str, User], settings: Any) -> Sign:
    """A client with the session of the role."""

    def client_of(role: str, **options: Any) -> Client:
        settings.PUBLIC_READ = role == "public"
        client = Client(raise_request_exception=False, **options)
        if role in people:
            client.force_login(people[role])
        return client

    return client_of


def address(route: str, numbers: dict[str, str]) -> str:
    number = next((numbers[part] for part in route.split("/") if part in numbers), "1")
    return fill(route, id=number, name="prod" if route == f"{API}/clusters/{{name}}" else "etcd")


class Writes:
    """Collects statements that write, but for sessions, the last day of use of a token and the
    audit log (tests/olmweb/accounts/test_audit.py counts its rows)."""

    OTHERS = ("django_session", "last_used_on", "olmweb_auditevent")

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        is_write = sql.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE"))
        if is_write and not any(name in sql.partition(",")[0] for name in self.OTHERS):
            self.statements.append(sql[:100])
        return execute(sql, params, many, context)


@pytest.fixture
def written(people: dict[str, User], numbers: dict[str, str]) -> Iterator[list[str]]:
    """The statements that wrote since the world was made."""
    writes = Writes()
    with connection.execute_wrapper(writes):
        yield writes.statements


@contextmanager
def undone(written: list[str]) -> Iterator[None]:
    """Undoes what a request wrote and forgets it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    written.clear()


def send(client: Client, method: str, route: str, url: str, **headers: str) -> Any:
    if method in ("GET", "HEAD"):
        return client.generic(method, url, headers=headers)
    if url.startswith(API):
        body = json.dumps(BODIES.get(route.removeprefix(API), {}))
        return client.generic(method, url, body, "application/json", headers=headers)
    if method == "POST":
        return client.post(url, FORMS.get(route, {}), headers=headers)
    return client.generic(method, url, headers=headers)


def is_refused(response: Any) -> bool:
    """401, 403, or a redirect to the sign-in page."""
    if response.status_code in (401, 403):
        return True
    sign_in = response.get("Location", "").startswith(("/login/?next=", "/admin/login/"))
    return response.status_code == 302 and sign_in


def cases(*methods: str) -> list[tuple[str, str, str]]:
    """(route, method, need) of pages and REST routes with one of these methods."""
    every = PAGES | {f"{API}{route}": needs for route, needs in REST.items()}
    return [
        (route, method, need)
        for route, needs in every.items()
        for method, need in needs.items()
        if method in methods
    ]


def test_each_route_has_a_row_and_each_row_a_route() -> None:
    listed = set(PAGES) | {API + route for route in REST}
    missing, gone = sorted(set(OURS) - listed), sorted(listed - set(OURS))
    assert not missing, f"Say in tests/access/matrix.py who may use the routes {missing}."
    assert not gone, f"tests/access/matrix.py has rows of routes that are gone: {gone}."


def test_each_rest_operation_has_a_row() -> None:
    operations = {
        (path.replace("{path:", "{"), method)
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
    listed = {(route, method) for route, needs in REST.items() for method in needs}
    missing, gone = sorted(operations - listed), sorted(listed - operations)
    assert not missing, f"Say in tests/access/matrix.py who may use the operations {missing}."
    assert not gone, f"tests/access/matrix.py has rows of operations that are gone: {gone}."


def test_each_admin_model_has_a_row() -> None:
    models = {model._meta.label for model in admin.site._registry}
    missing, gone = sorted(models - set(ADMIN)), sorted(set(ADMIN) - models)
    assert not missing, f"Say in tests/access/matrix.py who may see {missing} in the admin."
    assert not gone, f"tests/access/matrix.py has rows of models that are not shown: {gone}."


@pytest.mark.parametrize("role", ROLES)
def test_reading_is_open_to_whom_the_matrix_says(
    role: str, sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, wrong = sign(role), []
    written.clear()
    for route, method, need in cases("GET"):
        response = send(client, method, route, address(route, numbers))
        if is_refused(response) == (role in NEEDS[need]):
            wrong.append((method, route, need, response.status_code))
    assert not wrong, f"{role}: not as the matrix says: {wrong}"
    assert not written, f"a GET wrote: {written}"


def test_a_head_writes_nothing(sign: Sign, numbers: dict[str, str], written: list[str]) -> None:
    client = sign("superuser")
    written.clear()
    for route, *_ in cases("GET", "POST"):
        send(client, "HEAD", route, address(route, numbers))
    assert not written, f"a HEAD wrote: {written}"


@pytest.mark.parametrize("role", ROLES)
def test_changes_are_open_to_whom_the_matrix_says_and_a_refusal_leaves_no_trace(
    role: str, sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, wrong, traces = sign(role), [], []
    written.clear()
    for route, method, need in cases("POST", "DELETE"):
        if route in ENDS_SESSION:
            continue
        with undone(written):
            response = send(client, method, route, address(route, numbers))
            refused = is_refused(response)
            if refused == (role in NEEDS[need]):
                wrong.append((method, route, need, response.status_code))
            if refused and written:
                traces.append((route, *written))
    assert not wrong, f"{role}: not as the matrix says: {wrong}"
    assert not traces, f"{role}: refused, and wrote rows: {traces}"


def test_methods_without_a_row_are_refused_even_to_a_superuser(
    sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, wrong = sign("superuser"), []
    written.clear()
    every = PAGES | {f"{API}{route}": needs for route, needs in REST.items()}
    for route, needs in every.items():
        if route == "/login/":  # Django's view leads on whoever is signed in, whatever the method
            continue
        for method in set(METHODS) - set(needs):
            with undone(written):
                response = send(client, method, route, address(route, numbers))
                if response.status_code not in (404, 405) or written:
                    wrong.append((method, route, response.status_code))
    assert not wrong, f"Say in tests/access/matrix.py who may use {wrong}."


def test_sessions_need_the_csrf_token_for_each_change(
    sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, wrong = sign("superuser", enforce_csrf_checks=True), []
    written.clear()
    for route, method, _ in cases("POST", "DELETE"):
        response = send(client, method, route, address(route, numbers))
        if response.status_code != 403:
            wrong.append((route, response.status_code))
    assert not wrong, f"accepted without a CSRF token: {wrong}"
    assert not written


@pytest.mark.parametrize("scope", ["read", "act"])
@pytest.mark.parametrize("role", ROLES[2:])
def test_tokens_may_what_their_scope_and_the_role_of_their_user_allow(
    role: str, scope: str, people: dict[str, User], numbers: dict[str, str], written: list[str]
) -> None:
    client = Client(raise_request_exception=False, enforce_csrf_checks=True)
    token = {"Authorization": f"Bearer {ApiToken.issue(people[role].pk, scope)[0]}"}
    wrong: list[tuple[Any, ...]] = []
    written.clear()
    for path, needs in REST.items():
        for method, need in needs.items():
            route = API + path
            with undone(written):
                response = send(client, method, route, address(route, numbers), **token)
                allowed = role in NEEDS[need] and (method == "GET" or scope == "act")
                if is_refused(response) == allowed:
                    wrong.append((method, route, need, response.status_code))
                if written and not (allowed and method == "POST"):
                    wrong.append((method, route, *written))
    assert not wrong, f"{scope} token of {role}: not as the matrix says: {wrong}"


def test_a_token_opens_no_page(people: dict[str, User], numbers: dict[str, str]) -> None:
    token = {"Authorization": f"Bearer {ApiToken.issue(people['superuser'].pk, 'act')[0]}"}
    client, wrong = Client(raise_request_exception=False), []
    for route, needs in PAGES.items():
        for method, need in needs.items():
            if need == "open" or route in ("/metrics", "/api/v1/docs", "/logout/"):
                continue
            if not is_refused(send(client, method, route, address(route, numbers), **token)):
                wrong.append((method, route))
    assert not wrong, f"opened by a token of the REST API: {wrong}"


def _admin_urls(label: str) -> dict[str, str]:
    """View of the admin -> its address, with a stored object where there is one."""
    model = apps.get_model(label)
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    urls = {"view": base, "add": f"{base}add/"}
    first = model._default_manager.order_by("pk").first()
    if first is not None:
        urls["change"], urls["delete"] = f"{base}{first.pk}/change/", f"{base}{first.pk}/delete/"
    return urls


@pytest.mark.parametrize("role", ROLES)
def test_admin_pages_are_open_to_whom_the_matrix_says(
    role: str, sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, wrong = sign(role), []
    written.clear()
    for label, (for_admin, for_superuser) in ADMIN.items():
        may = {"admin": for_admin, "superuser": for_superuser}.get(role, ())
        for verb, url in _admin_urls(label).items():
            # Django shows the page of an object to whoever may view it, with nothing to save.
            read = "view" if verb == "change" else verb
            if is_refused(client.get(url)) == (read in may):
                wrong.append(("GET", url))
            may_post = verb == "view" or verb in may
            if not may_post and not is_refused(client.post(url, {"post": "yes"})):
                wrong.append(("POST", url))
    assert not wrong, f"{role}: not as the matrix says: {wrong}"
    assert not written, f"a GET or a refused POST wrote: {written}"


@pytest.mark.parametrize("role", ROLES)
def test_admin_actions_are_offered_to_whom_the_matrix_says(
    role: str, people: dict[str, User], rf: Any
) -> None:
    if role not in people:
        return
    request = rf.get("/admin/")
    request.user = people[role]
    for model, page in admin.site._registry.items():
        offered = set(page.get_actions(request)) - {"delete_selected"}
        for_admin, for_superuser = ADMIN[model._meta.label]
        may = {"admin": for_admin, "superuser": for_superuser}.get(role, ())
        expected = set(may) - {"view", "add", "change", "delete"}
        if role in ("admin", "superuser"):
            assert offered == expected, f"{role}: actions of {model._meta.label}"
        else:
            assert not offered & expected, f"{role}: actions of {model._meta.label}"


@pytest.mark.parametrize("step", ["approve", "decline", "withdraw"])
@pytest.mark.parametrize("role", ["viewer", "no role", "staff"])
def test_nobody_decides_or_withdraws_the_request_of_another_person_without_the_role(
    role: str, step: str, sign: Sign, numbers: dict[str, str], written: list[str]
) -> None:
    client, pk = sign(role), numbers["requests"]
    written.clear()
    for form in ({"step": step, "word": "No."}, {"step": step, "word": "No.", "seen": "guessed"}):
        assert client.post(f"/activity/requests/{pk}", form).status_code == 403
    assert InstallRequest.objects.get(pk=pk).state == "waiting"
    assert not written


def test_an_operator_or_admin_does_not_withdraw_for_another_person(
    sign: Sign, numbers: dict[str, str]
) -> None:
    for role in ("operator", "admin"):
        response = sign(role).post(
            f"/activity/requests/{numbers['requests']}", {"step": "withdraw"}
        )
        assert response.status_code == 403
    assert InstallRequest.objects.get(pk=numbers["requests"]).state == "waiting"


def test_the_documentation_says_what_the_matrix_says() -> None:
    text = (Path(__file__).parents[2] / "docs/identity.md").read_text()
    table = text.partition("## Who may do what\n\n")[2].partition("\n\n")[0].splitlines()[2:]
    documented = [tuple(cell.strip() for cell in line.strip("|").split("|"))[1:] for line in table]
    columns = ("no role", "viewer", "operator", "admin", "superuser")
    expected = [
        (
            "yes" if "anonymous" in may else "with public reading" if "public" in may else "no",
            *("yes" if role in may else "no" for role in columns),
        )
        for need, may in NEEDS.items()
        if need != "requester"  # one person, whatever the role
    ]
    assert documented == expected
