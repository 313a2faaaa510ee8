"""The pages that add, change and delete a catalog of no cluster, and their audit log."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client

from catalogs.models import Catalog, Package
from catalogs.sources.base import SourceError
from catalogs.sources.own_catalogs import own_catalog
from catalogs.sync import progress
from olmweb.models import AuditEvent
from tests.factories import make_catalog, make_cluster, make_package
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
NEW = "/catalogs/new"
PAGE = "/catalogs/-/community"
IMAGE = "registry.example.com/catalogs/community:v1"
VALUES = {"name": "community", "source_kind": "Image", "source": IMAGE, "priority": "0"}


@pytest.fixture(autouse=True)
def requested(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The tasks that would have gone to the broker."""
    mock = Mock()
    monkeypatch.setattr(progress, "enqueue", mock)
    return mock


@pytest.fixture
def ada() -> User:
    """An admin, without the staff flag."""
    user = User.objects.create_user("ada")
    user.groups.add(Group.objects.get(name="olmweb-admins"))
    return user


@pytest.fixture
def admin(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


@pytest.fixture
def community() -> Catalog:
    return make_catalog(
        cluster=None, name="community", slug="community", source_kind="Image", source=IMAGE,
        synced_digest="sha256:1",
    )  # fmt: skip


def events() -> list[tuple[str, str, dict[str, Any]]]:
    rows = AuditEvent.objects.filter(event__startswith="catalog-").order_by("id")
    return [(row.event, row.actor, row.detail) for row in rows]


def test_an_admin_adds_a_catalog_that_is_synced_at_once(admin: Client, requested: Mock) -> None:
    assert NEW in assert_page(admin.get("/catalogs/")).links
    assert "Add catalog" in assert_page(admin.get(NEW)).text
    answer = admin.post(NEW, VALUES)
    assert (answer.status_code, answer["Location"]) == (302, PAGE)
    row = Catalog.objects.get()
    assert (row.cluster, row.slug, row.source_kind, row.source) == (
        None, "community", "Image", IMAGE,
    )  # fmt: skip
    requested.assert_called_once_with("catalogs.sync_catalog", row.pk)
    assert "Catalog community added" in assert_page(admin.get(PAGE)).text
    detail = {"catalog": "-/community", "source_kind": "Image", "source": IMAGE}
    assert events() == [("catalog-added", "ada", detail)]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", "", "Enter a name"),
        ("name", "a/b", "can't name a catalog"),
        ("name", "taken", "There is a catalog -/taken already"),
        ("source", "", "Enter the reference of the image"),
        ("source", "not an image", "not an image"),
        ("source_kind", "", "Choose one of the kinds of source."),
        ("source_kind", "CatalogSource", "Choose one of the kinds of source."),
        ("source_kind", "File", "Choose one of the kinds of source."),
        ("source_kind", "URL", "is not an http or https address"),
        ("priority", "high", "Enter a whole number."),
    ],
)
def test_bad_input_is_one_sentence_at_its_field(
    admin: Client, requested: Mock, field: str, value: str, sentence: str
) -> None:
    make_catalog(cluster=None, name="taken", slug="taken", source_kind="URL")
    answer = admin.post(NEW, VALUES | {field: value})
    page = assert_page(answer, 422)
    assert sentence in page.text
    assert "Catalog not saved." in page.text
    assert Catalog.objects.count() == 1
    requested.assert_not_called()
    assert events() == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/index.json", "http://localhost:8080/", "http://[::ffff:169.254.169.254]/"],
)
def test_an_address_that_no_sync_reads_is_refused_before_it_is_saved(
    admin: Client, requested: Mock, url: str
) -> None:
    page = assert_page(admin.post(NEW, VALUES | {"source_kind": "URL", "source": url}), 422)
    assert "which may not be read" in page.text
    assert "that is not one of this machine" in page.text
    with pytest.raises(SourceError, match="which may not be read"):
        own_catalog("community", "URL", url)
    assert not Catalog.objects.exists()
    requested.assert_not_called()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:5000", "localhost", "localhost:5000", "169.254.169.254", "[::1]:5000"]
)
def test_a_registry_on_this_machine_is_refused_before_it_is_saved(
    admin: Client, requested: Mock, settings: Any, host: str
) -> None:
    image = {"source_kind": "Image", "source": f"{host}/team/catalog:v1"}
    page = assert_page(admin.post(NEW, VALUES | image), 422)
    assert f"the registry {host} is on this machine or its network link" in page.text
    assert "OLMWEB_INSECURE_REGISTRIES" in page.text
    with pytest.raises(SourceError, match="is on this machine"):
        own_catalog("community", "Image", image["source"])
    assert not Catalog.objects.exists()
    requested.assert_not_called()
    settings.INSECURE_REGISTRIES = frozenset({host})
    usable = host.endswith(":5000")  # what a sync reads: this machine, with a port
    assert admin.post(NEW, VALUES | image).status_code == (302 if usable else 422)
    assert Catalog.objects.exists() == usable


def test_a_registry_on_this_machine_is_no_obstacle_where_a_mirror_has_the_image(
    settings: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "registries.conf"
    conf.write_text(
        '[[registry]]\nlocation = "localhost:5000"\n'
        '[[registry.mirror]]\nlocation = "mirror.example.com"\n'
    )
    settings.REGISTRIES_CONF = str(conf)
    assert own_catalog("community", "Image", "localhost:5000/team/catalog:v1").pk
    with pytest.raises(SourceError, match="is on this machine"):
        own_catalog("other", "Image", "localhost:5001/team/catalog:v1")


def test_a_url_with_a_password_is_refused_and_its_token_is_not_recorded(admin: Client) -> None:
    bad = VALUES | {"source_kind": "URL", "source": "https://me:secret@example.com/c.json"}
    assert "holds a user name or password" in assert_page(admin.post(NEW, bad), 422).text
    admin.post(NEW, bad | {"source": "https://example.com/c.json?token=hidden"})
    assert events()[0][2]["source"] == "https://example.com/c.json"


def test_files_of_the_server_are_for_superusers(admin: Client, alice: User) -> None:
    assert "on this server" not in assert_page(admin.get(NEW)).text
    admin.force_login(alice)
    assert "on this server" in assert_page(admin.get(NEW)).text
    answer = admin.post(NEW, VALUES | {"source_kind": "File", "source": "/srv/catalog"})
    assert answer.status_code == 302
    assert Catalog.objects.get().source == "/srv/catalog"


def test_another_source_is_synced_and_recorded(
    admin: Client, community: Catalog, requested: Mock
) -> None:
    assert f"{PAGE}/edit" in assert_page(admin.get(PAGE)).links
    assert IMAGE in admin.get(f"{PAGE}/edit").content.decode()
    other = "registry.example.com/catalogs/other:v2"
    answer = admin.post(f"{PAGE}/edit", VALUES | {"name": "renamed", "source": other})
    assert answer["Location"] == PAGE
    community.refresh_from_db()
    assert (community.name, community.source) == ("community", other)
    assert community.synced_digest == ""
    requested.assert_called_once_with("catalogs.sync_catalog", community.pk)
    changed = {"source": f"{IMAGE} → {other}"}
    assert events() == [("catalog-changed", "ada", {"catalog": "-/community", "changed": changed})]


def test_a_save_without_a_change_is_not_recorded(admin: Client, community: Catalog) -> None:
    admin.post(f"{PAGE}/edit", VALUES)
    community.refresh_from_db()
    assert community.synced_digest == "sha256:1"
    assert events() == []


def test_a_refused_change_leaves_the_page_with_the_stored_name(
    admin: Client, community: Catalog
) -> None:
    answer = admin.post(f"{PAGE}/edit", VALUES | {"source": ""})
    assert PAGE in assert_page(answer, 422).links
    community.refresh_from_db()
    assert community.source == IMAGE


def test_a_catalog_is_deleted_after_a_review(admin: Client, community: Catalog) -> None:
    make_package(catalog=community, name="etcd")
    review = assert_page(admin.get(f"{PAGE}/delete"))
    assert "What will be deleted" in review.text
    admin.post(f"{PAGE}/delete")
    assert Catalog.objects.exists(), "the box was not ticked"
    answer = admin.post(f"{PAGE}/delete", {"sure": "yes"})
    assert answer["Location"] == "/catalogs/"
    assert not Catalog.objects.exists()
    assert not Package.objects.exists()
    detail = {"catalog": "-/community", "source_kind": "Image", "source": IMAGE}
    assert events() == [("catalog-deleted", "ada", detail)]


def test_a_catalog_that_is_being_synced_is_not_deleted(
    admin: Client, community: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalogs.sync.deletion.standings", lambda rows: {community.pk: Mock()})
    answer = admin.post(f"{PAGE}/delete", {"sure": "yes"})
    assert "-/community is being synced." in assert_page(answer, 409).text
    assert Catalog.objects.exists()
    assert events() == []


@pytest.mark.parametrize("verb", ["edit", "delete"])
def test_catalogs_of_a_cluster_follow_their_object(admin: Client, verb: str) -> None:
    prod = make_cluster(name="prod")
    make_catalog(cluster=prod, name="community", slug="community")
    page = "/catalogs/prod/community"
    assert f"{page}/{verb}" not in assert_page(admin.get(page)).links
    answer = admin.post(f"{page}/{verb}", VALUES | {"sure": "yes"})
    assert "Not possible" in assert_page(answer, 409).text
    assert Catalog.objects.exists()


def test_an_operator_sees_no_links(client: Client, olivia: User, community: Catalog) -> None:
    client.force_login(olivia)
    assert NEW not in assert_page(client.get("/catalogs/")).links
    assert f"{PAGE}/edit" not in assert_page(client.get(PAGE)).links
    answer = client.get(NEW)
    assert "Your role may not add, change or delete catalogs." in assert_page(answer, 403).text


def test_the_admin_pages_check_and_record_the_same(
    client: Client, alice: User, requested: Mock
) -> None:
    client.force_login(alice)
    add = "/admin/catalogs/catalog/add/"
    assert (
        "can&#x27;t name a catalog" in client.post(add, VALUES | {"name": "a/b"}).content.decode()
    )
    assert client.post(add, VALUES).status_code == 302
    row = Catalog.objects.get()
    assert row.slug == "community"
    change = f"/admin/catalogs/catalog/{row.pk}/change/"
    assert client.post(change, VALUES | {"priority": "5"}).status_code == 302
    assert (
        client.post(f"/admin/catalogs/catalog/{row.pk}/delete/", {"post": "yes"}).status_code == 302
    )
    assert not Catalog.objects.exists()
    assert [event[0] for event in events()] == [
        "catalog-added", "catalog-changed", "catalog-deleted",
    ]  # fmt: skip
    assert events()[1][2]["changed"] == {"priority": "0 → 5"}


def test_an_admin_with_the_staff_flag_adds_no_files_in_the_admin_pages(
    admin: Client, ada: User
) -> None:
    User.objects.update(is_staff=True)
    values = VALUES | {"source_kind": "File", "source": "/etc/passwd"}
    answer = admin.post("/admin/catalogs/catalog/add/", values)
    assert answer.status_code == 200
    assert not Catalog.objects.exists()


def test_the_command_records_a_catalog_that_it_adds() -> None:
    with pytest.raises((CommandError, SystemExit)):
        call_command("sync_catalog", "community", "--file", "/nowhere", "--json")
    assert [(event, detail["source"]) for event, _, detail in events()] == [
        ("catalog-added", "/nowhere"),
        ("catalog-deleted", "/nowhere"),
    ]


def test_the_state_beside_the_heading_follows_the_first_sync(
    admin: Client, community: Catalog
) -> None:
    Catalog.objects.update(state="new")
    assert "Not read yet" in assert_page(admin.get(PAGE)).text
    Catalog.objects.update(state="serving")
    response = admin.get(f"{PAGE}?rev=other", headers={"HX-Request": "true"})
    assert "Serving" in assert_fragment(response).text
    assert 'id="catalog-status" hx-swap-oob="true"' in response.content.decode()
