"""The check of a cluster's CRDs and objects before an upgrade.

It is requested by POST, made by a worker as the person, and shown to the person alone.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from installs import retention, tasks
from installs.actions import crd_check
from installs.models import CrdCheck, Operator
from olmweb.kube.client import ListPage
from olmweb.kube.errors import Forbidden, NotFound
from olmweb.models import Cluster
from olmweb.runtime.reports import run_report
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.installs.views.test_crd_safety import CRD, SIZE, crd, nested, ship
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
BUNDLE = "kettle.v1.1.0"
PAGE = f"/operators/prod/ClusterExtension/-/kettle/crds/{BUNDLE}"
SMALL = {"type": "integer", "maximum": 5}


class FakeClient:
    """A cluster with one CRD and its objects, by version."""

    def __init__(self, definition: dict[str, Any] | None, **pages: list[list[dict[str, Any]]]):
        self.definition, self.pages = definition, pages
        self.requests = 0
        self.users: list[Any] = []
        self.forbidden = ""

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, resource: Any, version: str, name: str, *, as_user: Any) -> dict[str, Any]:
        self.users.append(as_user.user)
        if self.definition is None:
            raise NotFound("Not found.")
        return self.definition

    def list_pages(
        self, resource: Any, version: str, *, limit: int, as_user: Any
    ) -> Iterator[ListPage[dict[str, Any]]]:
        assert resource.path(version) == f"/apis/tea.example.com/{version}/kettles"
        self.users.append(as_user.user)
        if self.forbidden:
            raise Forbidden(self.forbidden)
        pages = self.pages[version]
        for at, items in enumerate(pages, start=1):
            self.requests += 1
            token = "more" if at < len(pages) else ""
            yield ListPage(items, "1", token, size=10)


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> Mock:
    mock = Mock()
    monkeypatch.setattr(run_report, "delay_on_commit", mock)
    return mock


@pytest.fixture
def prod(db: None) -> Cluster:
    found = make_cluster(name="prod", context="sandbox")
    catalog = make_catalog(name="tea", cluster=found)
    make_package(name="kettle", catalog=catalog, channels={"stable": ("1.0.0", "1.1.0")})
    make_operator(
        cluster=found, kind="ClusterExtension", name="kettle", package="kettle", catalog="tea",
        bundle="kettle.v1.0.0", version="1.0.0",
    )  # fmt: skip
    ship("1.1.0", crd(SMALL))
    return found


@pytest.fixture
def writer(client: Client, olivia: User) -> Client:
    client.force_login(olivia)
    return client


def named(manifest: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "kettles", "kind": "Kettle"}
    return {**manifest, "spec": {**manifest["spec"], "names": names}}


def kettle(name: str, size: int) -> dict[str, Any]:
    meta = {"name": name, "namespace": "apps"}
    spec = {"size": size}
    return {"apiVersion": "tea/v1", "kind": "Kettle", "metadata": meta, "spec": spec}


def check(client: Client, cluster: FakeClient, monkeypatch: pytest.MonkeyPatch) -> CrdCheck:
    """Requests a check and does the work of the worker."""
    monkeypatch.setattr(crd_check, "client_for", lambda _: cluster)
    response = client.post(PAGE)
    assert (response.status_code, response["Location"]) == (303, PAGE)
    row = CrdCheck.objects.get()
    tasks.check_crds(row.pk)
    row.refresh_from_db()
    return row


def test_objects_that_do_not_fit_are_named_with_field_and_reason(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Not checked yet." in assert_page(writer.get(PAGE)).text
    cluster = FakeClient(
        named(crd(SIZE)), v1=[[kettle("a", 3), kettle("b", 987_654)], [kettle("c", 6)]]
    )
    row = check(writer, cluster, monkeypatch)
    assert cluster.users == ["olivia", "olivia"]
    assert "987654" not in json.dumps(row.result)
    page = assert_page(writer.get(PAGE))
    assert "2 of 3 objects would be refused by the new schema." in page.text
    assert "apps/b v1 spec.size The value has to be at most 5. Refused" in page.text
    assert "apps/a" not in page.text
    assert "v1 ^.spec.size maximum is 5 now; there was none. Refused" in page.text


def test_objects_that_break_the_current_schema_already_are_told_apart(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = {"type": "integer", "maximum": 100}
    objects = [kettle("a", 3), kettle("b", 6), kettle("c", 987_654)]
    row = check(writer, FakeClient(named(crd(current)), v1=[objects]), monkeypatch)
    (found,) = row.result["crds"]
    assert (found["refused"], found["already"]) == (2, 1)
    assert [(item["name"], item["already"]) for item in found["misfits"]] == [
        ("b", False),
        ("c", True),
    ]
    text = assert_page(writer.get(PAGE)).text
    assert "1 of the objects that do not fit breaks the current schema in the same way." in text
    assert "apps/c v1 spec.size The value has to be at most 5. Refused already" in text
    assert "apps/b v1 spec.size The value has to be at most 5. Refused" in text


def test_the_definition_of_the_cluster_counts_and_not_that_of_the_installed_bundle(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship("1.0.0", crd(SIZE))
    row = check(writer, FakeClient(named(crd(SMALL))), monkeypatch)
    (found,) = row.result["crds"]
    assert (found["changes"], found["versions"], found["objects"]) == ([], [], 0)
    assert "do not change, so no object was read" in assert_page(writer.get(PAGE)).text


def test_a_cluster_without_the_definition_has_nothing_to_compare(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(writer, FakeClient(None), monkeypatch)
    assert "has none of the CRDs" in assert_page(writer.get(PAGE)).text


def test_what_the_person_may_not_read_is_said_beside_the_changes(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeClient(named(crd(SIZE)))
    cluster.forbidden = "kettles is forbidden."
    check(writer, cluster, monkeypatch)
    page = assert_page(writer.get(PAGE))
    assert f"does not let olivia read objects of {CRD}. kettles is forbidden." in page.text
    assert "maximum is 5 now" in page.text


def test_a_check_ends_at_its_bounds_and_says_so(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [[kettle(f"{at}-{number}", 9) for number in range(2)] for at in range(9)]
    monkeypatch.setattr(crd_check, "OBJECTS", 3)
    cluster = FakeClient(named(crd(SIZE)), v1=pages)
    row = check(writer, cluster, monkeypatch)
    assert (cluster.requests, row.result["bytes"]) == (2, 20)
    assert row.result["crds"][0]["objects"] == 4
    assert "Not complete" in assert_page(writer.get(PAGE)).text
    CrdCheck.objects.all().delete()
    monkeypatch.setattr(crd_check, "OBJECTS", 100)
    monkeypatch.setattr(crd_check, "BYTES", 30)
    monkeypatch.setattr(crd_check, "ROWS", 2)
    row = check(writer, cluster, monkeypatch)
    (found,) = row.result["crds"]
    assert (found["objects"], found["refused"], len(found["misfits"])) == (6, 6, 2)


def test_secrets_are_never_read(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = named(crd(SIZE))
    definition["spec"]["names"]["kind"] = "Secret"
    cluster = FakeClient(definition)
    check(writer, cluster, monkeypatch)
    assert cluster.users == ["olivia"]
    assert "OLM Web never reads Secrets." in assert_page(writer.get(PAGE)).text


def test_a_get_sends_nothing_and_a_pending_check_is_followed(
    prod: Cluster, writer: Client, woken: Mock, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(12):
        writer.get(PAGE)
    assert not CrdCheck.objects.exists()
    writer.post(PAGE)
    writer.post(PAGE)
    woken.assert_called_once_with()
    assert [job.person for job in crd_check.unfinished()] == ["olivia"]
    response = writer.get(PAGE)
    assert b'data-live="objects"' in response.content
    fragment = assert_fragment(writer.get(f"{PAGE}?rev=x", headers={"HX-Request": "true"}))
    assert "Requested" in fragment.text
    CrdCheck.objects.update(requested_at=timezone.now() - timedelta(minutes=25))
    assert "No worker has made the check." in assert_page(writer.get(PAGE)).text
    assert crd_check.unfinished() == []


def test_a_check_is_for_its_person_and_expires(
    prod: Cluster, writer: Client, client: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(writer, FakeClient(named(crd(SIZE)), v1=[[kettle("b", 9)]]), monkeypatch)
    assert list(crd_check.served()) == ["olivia"]
    other = Client()
    other.force_login(alice)
    assert "apps/b" not in assert_page(other.get(PAGE)).text
    CrdCheck.objects.update(requested_at=timezone.now() - crd_check.SHOWN)
    assert "apps/b" not in assert_page(writer.get(PAGE)).text
    assert retention.prune(timezone.now())["crd_checks"] == 1


def test_bundles_that_are_unknown_or_not_inspected_are_refused(
    prod: Cluster, writer: Client
) -> None:
    assert writer.post(PAGE.replace("1.1.0", "9.9.9")).status_code == 404
    response = writer.post(PAGE.replace("1.1.0", "1.0.0"))
    assert response.status_code == 409
    assert b"Inspect the image of the bundle first." in response.content


def test_a_crash_and_dying_workers_end_a_check_with_a_sentence(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crd_check, "crd_upgrade", Mock(side_effect=KeyError("secret")))
    row = check(writer, FakeClient(named(crd(SIZE)), v1=[]), monkeypatch)
    assert row.error_text == "The objects could not be checked (KeyError)."
    CrdCheck.objects.update(attempts=3, finished_at=None)
    tasks.check_crds(row.pk)
    row.refresh_from_db()
    assert row.error_text == "The check ended 3 times without a result."
    Operator.objects.all().delete()
    CrdCheck.objects.update(attempts=0, finished_at=None)
    tasks.check_crds(row.pk)
    row.refresh_from_db()
    assert "was removed from cluster prod" in row.error_text


def test_the_upgrade_form_leads_to_the_check_and_shows_its_result(
    prod: Cluster, writer: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(client: Client) -> Any:
        form = "/operators/prod/ClusterExtension/-/kettle/upgrade"
        return assert_page(client.get(form, {"version": "1.1.0"}))

    assert PAGE in shown(writer).links
    current = {"type": "integer", "maximum": 100}
    objects = [kettle("a", 3), kettle("b", 6), kettle("c", 987_654)]
    check(writer, FakeClient(named(crd(current)), v1=[objects]), monkeypatch)
    text = shown(writer).text
    assert "found 2 of 3 objects that the new schemas refuse; 1 of the objects" in text
    other = Client()
    other.force_login(alice)
    assert "Your check" not in shown(other).text
    check(writer, FakeClient(named(crd(current)), v1=[objects[:1]]), monkeypatch)
    assert "found 1 change to its own CRDs, and that the new schemas refuse none" in (
        shown(writer).text
    )


@pytest.mark.parametrize("levels", [60, 480, 900])
def test_a_crd_that_is_nested_too_deep_has_one_sentence_and_hides_no_other(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    cluster = FakeClient(named(crd(nested(levels))), v1=[[kettle("a", 3)]])
    row = check(writer, cluster, monkeypatch)
    assert row.error_text == ""
    page = assert_page(writer.get(PAGE))
    assert (
        "Not checked The schema is nested deeper than 100 levels: the objects are not checked, "
        "and changes below that depth are not listed." in page.text
    )
    assert "^.spec.size The type was object, now integer. Refused" in page.text


def test_an_object_that_is_nested_too_deep_is_named_beside_the_others(
    prod: Cluster, writer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = kettle("deep", 3)
    for _ in range(900):
        deep["spec"] = {"size": deep["spec"]}
    cluster = FakeClient(named(crd(SIZE)), v1=[[deep, kettle("b", 987_654)]])
    row = check(writer, cluster, monkeypatch)
    assert row.error_text == ""
    page = assert_page(writer.get(PAGE))
    assert "apps/b v1 spec.size The value has to be at most 5. Refused" in page.text
    assert "apps/deep v1" in page.text
