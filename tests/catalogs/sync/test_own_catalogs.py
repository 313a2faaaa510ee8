"""Catalogs that an administrator adds in the admin: what is taken, what is refused with words."""

import pytest

from catalogs.models import Catalog
from catalogs.sync.catalog import sync_catalog
from tests.factories import make_cluster
from tests.worlds.fbc import jsonl, package

pytestmark = pytest.mark.django_db
ADD = "/admin/catalogs/catalog/add/"


@pytest.fixture
def enqueued(monkeypatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr("catalogs.admin.request_sync", found.append)
    return found


def form(**values: object) -> dict[str, object]:
    return {
        "name": "mine",
        "source_kind": "Image",
        "source": "quay.io/a/b:v1",
        "priority": 0,
    } | values


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("Image", "quay.io/a/b:v1"),
        ("URL", "https://example.org/catalog.json"),
        ("File", "/srv/catalog"),
    ],
)
def test_a_catalog_of_each_kind_is_added_and_read(admin_client, enqueued, kind, source):
    answer = admin_client.post(ADD, form(source_kind=kind, source=source))
    assert answer.status_code == 302
    catalog = Catalog.objects.get()
    assert (catalog.slug, catalog.cluster, catalog.source) == ("mine", None, source)
    assert enqueued == [catalog.pk]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"source": "quay.io/A/b"}, "holds capital letters. Write it as registry.example/team"),
        ({"source": "docker://quay.io/a"}, "begins with docker://. Leave docker:// out."),
        ({"source_kind": "URL"}, "quay.io/a/b:v1 is not an http or https address."),
        ({"source_kind": "URL", "source": "https://u:hush@x/"}, "holds a user name or password"),
        ({"source_kind": "File", "source": "a/b"}, "is no absolute path. Write the whole path"),
        ({"source_kind": "ClusterCatalog"}, "Choose one of the kinds of source."),
        ({"name": "a/b"}, "can&#x27;t name a catalog"),
        ({"name": "taken"}, "There is a catalog -/taken already"),
    ],
)
def test_what_can_be_no_catalog_is_refused_in_a_sentence(admin_client, enqueued, values, words):
    Catalog.objects.create(name="taken", slug="taken", source_kind="File", source="/x")
    answer = admin_client.post(ADD, form(**values))
    assert answer.status_code == 200
    assert words in answer.content.decode().replace("&quot;", '"')
    assert (Catalog.objects.count(), enqueued) == (1, [])


def test_another_source_is_read_although_the_digest_is_the_same(admin_client, enqueued, tmp_path):
    (tmp_path / "a").write_bytes(jsonl(package()))
    (tmp_path / "b").write_bytes(jsonl(package("redis")))
    admin_client.post(ADD, form(source_kind="File", source=str(tmp_path / "a")))
    catalog = Catalog.objects.get()
    assert sync_catalog(catalog).outcome == "changed"
    change = f"/admin/catalogs/catalog/{catalog.pk}/change/"
    assert admin_client.get(change).status_code == 200
    values = form(source_kind="File", source=str(tmp_path / "b"), name="other")
    assert admin_client.post(change, values).status_code == 302
    catalog = Catalog.objects.get()
    assert (catalog.name, catalog.last_modified, catalog.package_count) == ("mine", "", 1)
    assert sync_catalog(catalog).outcome == "changed"
    assert enqueued == [catalog.pk] * 2


def test_a_catalog_that_a_person_added_can_be_deleted(admin_client, tmp_path):
    (tmp_path / "a").write_bytes(jsonl(package()))
    catalog = Catalog.objects.create(
        name="mine", slug="mine", source_kind="File", source=str(tmp_path / "a")
    )
    sync_catalog(catalog)
    delete = f"/admin/catalogs/catalog/{catalog.pk}/delete/"
    assert "-/mine" in admin_client.get(delete).content.decode()
    assert admin_client.post(delete, {"post": "yes"}).status_code == 302
    assert not Catalog.objects.exists()


def test_a_catalog_of_a_cluster_is_the_clusters(admin_client):
    catalog = Catalog.objects.create(
        name="c", slug="c", source_kind="ClusterCatalog", cluster=make_cluster()
    )
    change = f"/admin/catalogs/catalog/{catalog.pk}/change/"
    page = admin_client.get(change)
    assert page.status_code == 200
    assert '<input type="text" name="source"' not in page.content.decode()
    assert admin_client.post(change, form()).status_code == 403
    delete = change.replace("change", "delete")
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    assert Catalog.objects.get().source == ""
