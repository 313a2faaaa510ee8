"""The bundle page and icons: odd names, raw content kept harmless."""

import json
import re

import pytest
from django.urls import reverse

from catalogs import queries
from tests.factories import make_bundle, make_catalog, make_channel, make_icon, make_package

pytestmark = pytest.mark.django_db
EVIL = '"><script>alert(1)</script>'


@pytest.fixture
def package():
    return make_package(name="etcd", catalog=make_catalog(name="community"), channels={})


def url(bundle) -> str:
    return reverse("catalogs:bundle", args=("-", "community", bundle.package.name, bundle.name))


def text_of(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_a_bundle_tells_what_it_is_and_which_channels_hold_it(reader, package):
    bundle = make_bundle(
        package=package,
        version="1.0.0",
        provides=[("etcd.example.com", "v1", "EtcdCluster")],
        images=[("etcd", "registry.example/etcd:1")],
        max_openshift_version="4.17",
        deprecated=True,
        deprecation="Use 2.0.0.",
    )
    make_channel(package=package, name="stable", versions=("0.9.0", "1.0.0"))
    page = text_of(reader.get(url(bundle)))
    for words in (
        "etcd.v1.0.0",
        "EtcdCluster",
        "registry.example/etcd:1",
        "up to 4.17",
        "Use 2.0.0.",
        "replaces etcd.v0.9.0",
        "tab=channels&amp;channel=stable",
        ">head<",
    ):
        assert words in page


@pytest.mark.parametrize(
    "name",
    [
        "etcd.v1.0.0+build.5",
        "etcd/v1.0.0",
        "etcd v1",
        "..",
        "étcd.v1",
        "etcd%2Fv1",
        "installer",
        "a\nb",
        "x?y#z",
    ],
)
def test_a_bundle_of_any_name_has_a_page(reader, package, name):
    bundle = make_bundle(package=package, name=name)
    response = reader.get(url(bundle))
    assert response.status_code == 200
    assert response.context["bundle"].name == name


def test_two_bundles_of_one_name_are_told(reader, package):
    make_bundle(package=package, name="etcd.v1", version="1.0.0")
    newer = make_bundle(package=package, name="etcd.v1", version="1.0.1", ordinal=1)
    response = reader.get(url(newer))
    assert response.context["bundle"].version == "1.0.1"
    assert "has 2 bundles of this name" in text_of(response)


def test_raw_content_is_indented_and_its_properties_listed(reader, package):
    blob = {"schema": "olm.bundle", "properties": [{"type": "olm.gvk", "value": {"kind": "X"}}]}
    data = json.dumps(blob).encode()
    bundle = make_bundle(package=package, blob=data)
    response = reader.get(url(bundle))
    (told,) = response.context["blob"].properties
    assert (told.type, told.meaning, told.raw) == ("olm.gvk", "Provides an API", '{"kind": "X"}')
    assert "&quot;schema&quot;: &quot;olm.bundle&quot;" in response.content.decode()
    assert reader.get(response.context["fbc_url"]).content == data


@pytest.mark.parametrize(
    "data",
    [b"schema: olm.bundle\nname: x\n", b"\xff\xfe\x00", b"{", b"[1, 2]", b'{"properties": [1]}'],
)
def test_raw_content_that_is_no_json_object_is_shown_as_it_is(reader, package, data):
    response = reader.get(url(make_bundle(package=package, blob=data)))
    assert response.status_code == 200
    assert response.context["blob"].properties == []


def test_raw_content_is_cut_at_its_limit(reader, package):
    data = json.dumps({"text": "x" * (queries.BLOB_DECODE_LIMIT + 5)}).encode()
    response = reader.get(url(make_bundle(package=package, blob=data)))
    blob = response.context["blob"]
    assert blob.cut
    assert len(blob.text) == queries.BLOB_SHOW_LIMIT
    assert "Only the beginning is shown" in text_of(response)


def test_hostile_content_is_escaped(reader, package):
    blob = json.dumps({"properties": [{"type": EVIL, "value": EVIL}], "x": EVIL}).encode()
    bundle = make_bundle(
        package=package,
        name=f"etcd.{EVIL}",
        image=EVIL,
        images=[(EVIL, EVIL)],
        provides=[(EVIL, "v1", EVIL)],
        deprecated=True,
        deprecation=EVIL,
        blob=blob,
    )
    channel = make_channel(package=package, name=EVIL)
    channel.entries.create(ordinal=0, name=bundle.name, replaces=EVIL, skips=[EVIL])
    page = reader.get(url(bundle)).content.decode()
    assert "<script>alert" not in page
    assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", page)


@pytest.mark.parametrize("name", ["gone", "a" * 2000])
def test_an_unknown_bundle_is_a_404_with_a_sentence(reader, package, name):
    response = reader.get(f"/software/-/community/etcd/{name}")
    assert response.status_code == 404
    assert "has no bundle" in text_of(response)


def test_a_bundle_costs_at_most_thirteen_queries(reader, package, django_assert_max_num_queries):
    bundle = make_bundle(package=package, blob=b"{}", images=[("a", "b")])
    with django_assert_max_num_queries(13):
        reader.get(url(bundle))


def test_an_icon_is_served_so_that_it_can_do_no_harm(reader):
    icon = make_icon(data=b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    response = reader.get(f"/icons/{icon.sha256}")
    assert response.content == icon.data
    assert response.headers["Content-Type"] == "image/svg+xml"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'"
    )
    assert "immutable" in response.headers["Cache-Control"]


def test_an_icon_that_the_browser_has_is_not_sent_again(reader):
    icon = make_icon()
    etag = reader.get(f"/icons/{icon.sha256}").headers["ETag"]
    again = reader.get(f"/icons/{icon.sha256}", headers={"If-None-Match": f'"other", {etag}'})
    assert again.status_code == 304
    assert again.content == b""


@pytest.mark.parametrize("sha256", ["0" * 64, "x", "a" * 3000])
def test_an_unknown_icon_is_a_404(reader, sha256):
    assert reader.get(f"/icons/{sha256}").status_code == 404
