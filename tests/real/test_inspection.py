"""Inspecting a bundle's image in a real registry: pulled by digest, stored once, told apart."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from catalogs import tasks
from catalogs.contents import inspection
from catalogs.contents.stored import contents_of, manifests_of
from catalogs.models import Bundle, BundleInspection, BundleManifests
from tests.factories import make_bundle, make_catalog, make_package
from tests.peers.controllers import Registry, registry
from tests.worlds.bundle_images import CRD, LABELS, SERVICE, csv, files
from tests.worlds.image_registry_fake import tar

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
State = BundleInspection.State
BLOB = {
    "schema": "olm.bundle",
    "name": "kettle.v1.0.0",
    "package": "kettle",
    "properties": [{"type": "olm.package", "value": {"packageName": "kettle", "version": "1.0.0"}}],
}


@pytest.fixture(scope="module")
def running(catalogd_is_built: None) -> Iterator[Registry]:
    with registry() as images:
        yield images


@pytest.fixture
def images(running: Registry, settings: Any) -> Registry:
    settings.INSECURE_REGISTRIES = frozenset([running.host])
    return running


def named(images: Registry, reference: str, version: str = "1.0.0") -> Bundle:
    """A bundle of a catalog with metadata only, whose image is `reference`."""
    catalog = make_catalog(name=f"of-{version}".replace(".", "-"))
    package = make_package(name="kettle", catalog=catalog, channels={})
    blob = json.dumps(BLOB).encode()
    return make_bundle(package=package, version=version, image=reference, blob=blob)


def inspected(bundle: Bundle) -> BundleInspection:
    row = inspection.start(bundle.image, "olivia")
    assert row is not None
    tasks.inspect_bundle(row.pk)
    row.refresh_from_db()
    return row


def test_a_bundle_by_tag_and_by_digest_is_pulled_once_and_tells_what_the_catalog_left_out(
    images: Registry,
) -> None:
    layer = tar(*files(csv(), CRD, SERVICE))
    by_tag = images.push_image("olm/kettle", "v1", [layer], labels=LABELS)
    bundle = named(images, by_tag)
    assert contents_of(bundle) is None
    row = inspected(bundle)
    assert (row.state, row.error_text) == (State.READ, "")
    assert row.bytes_read > 0
    contents, manifests = contents_of(bundle), manifests_of(bundle)
    assert contents is not None
    assert manifests is not None
    assert (contents.webhooks, contents.owned_crds) == (1, ("kettles.tea.example.com",))
    assert manifests.csv["metadata"]["name"] == "kettle.v1.0.0"
    assert row.manifests is not None
    again = inspected(named(images, f"{images.host}/olm/kettle@{row.manifests.digest}", "1.0.1"))
    assert (again.state, again.bytes_read) == (State.READ, 0)
    assert BundleManifests.objects.count() == 1


def test_an_image_that_is_not_there_or_no_bundle_is_told(images: Registry) -> None:
    row = inspected(named(images, f"{images.host}/olm/kettle:nope", "2.0.0"))
    assert (row.state, row.error_code) == (State.FAILED, "not-found")
    plain = images.push_image("olm/plain", "v1", [tar(("etc/motd", b"hello"))], labels={})
    row = inspected(named(images, plain, "3.0.0"))
    assert (row.state, row.error_code) == (State.FAILED, "no-manifests")
