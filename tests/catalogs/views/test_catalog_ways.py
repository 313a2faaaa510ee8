"""How a catalog was read: on its page, in the list, on its packages and in REST."""

import pytest

from tests.factories import make_catalog, make_cluster, make_package

pytestmark = pytest.mark.django_db

WAYS = [
    {"way": "image", "state": "not possible", "why": "no pull credentials for registry.example"},
    {"way": "catalogd", "state": "failed", "why": "no answer", "reason": "connection-refused"},
    {"way": "gRPC by port-forward", "state": "used", "why": ""},
    {"way": "PackageManifest", "state": "not tried", "why": ""},
]


@pytest.fixture
def catalog():
    return make_catalog(
        name="teas",
        cluster=make_cluster(name="prod"),
        source_kind="CatalogSource",
        namespace="olm",
        access_method="gRPC by port-forward",
        access_methods=WAYS,
    )


def test_the_page_says_which_way_was_used_and_why_no_better_one(client, bob, catalog):
    client.force_login(bob)
    page = client.get("/catalogs/prod/teas").content.decode()
    assert "olm/teas" in page
    assert "rebuilt from the registry&#x27;s answers, not the author&#x27;s bytes" in page
    assert "no pull credentials for registry.example" in page
    for word in ("Used", "Not possible", "Not tried"):
        assert word in page
    listed = client.get("/catalogs/").content.decode()
    assert "read by gRPC by port-forward" in listed


def test_rest_tells_the_way_and_whether_the_blobs_are_the_authors(client, bob, catalog):
    make_catalog(name="files", access_method="file")
    client.force_login(bob)
    told = client.get("/api/v1/catalogs/prod/teas").json()
    assert (told["access_method"], told["exact"], told["namespace"]) == (
        catalog.access_method,
        False,
        "olm",
    )
    assert told["access_methods"] == [
        {
            "name": row["way"],
            "state": row["state"].replace(" ", "-"),
            "message": row["why"],
            "reason": row.get("reason", ""),
        }
        for row in WAYS
    ]
    rows = client.get("/api/v1/catalogs").json()["items"]
    assert {row["catalog"]: row["exact"] for row in rows} == {"prod/teas": False, "-/files": True}


def test_no_graph_is_drawn_that_nobody_told(client, bob, catalog):
    make_package(name="tea", catalog=catalog, channels={"stable": ["1.0.0", "2.0.0"]})
    client.force_login(bob)
    address = "/software/prod/teas/tea?tab=channels"
    assert "does not tell the upgrade graph" not in client.get(address).content.decode()
    catalog.access_method = "PackageManifest"
    catalog.save()
    page = client.get(address).content.decode()
    assert "does not tell the upgrade graph" in page
    assert "<svg" not in page.partition("does not tell")[2].partition("</table>")[0]
    assert "tea.v2.0.0" in page
