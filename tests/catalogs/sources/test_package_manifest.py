"""PackageManifests: whose they are, what becomes of them, and of answers that are none."""

import json
from contextlib import contextmanager

import pytest

from catalogs.sources.base import SourceError
from catalogs.sources.package_manifest import PackageManifestSource


class Answering:
    """A client whose every answer is `body`."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status
        self.asked: list[tuple] = []

    @contextmanager
    def stream(self, path, headers=None, *, query=()):
        self.asked.append((path, query))
        rest = [self.body]

        class Answer:
            status = self.status
            headers = {}

            def read_some(self, size: int = -1, /) -> bytes:
                return rest.pop() if rest else b""

        yield Answer()


def manifest(package: str = "tea", source: str = "teas", namespace: str = "olm", **status) -> dict:
    head: dict = {
        "displayName": "Tea",
        "version": "1.1.0",
        "relatedImages": ["registry.example/tea:1"],
    }
    head["customresourcedefinitions"] = {
        "owned": [{"name": "pots.tea.example", "version": "v1", "kind": "Pot"}]
    }
    entries = [{"name": "tea.v1.1.0", "version": "1.1.0"}, {"name": "tea.v1.0.0"}]
    channel = {
        "name": "stable",
        "currentCSV": "tea.v1.1.0",
        "currentCSVDesc": head,
        "entries": entries,
    }
    reported = {
        "catalogSource": source,
        "catalogSourceNamespace": namespace,
        "packageName": package,
        "defaultChannel": "stable",
        "channels": [channel],
    }
    return {"metadata": {"name": package}, "status": reported | status}


def source_of(client: Answering) -> PackageManifestSource:
    @contextmanager
    def opened():
        yield client

    return PackageManifestSource("CatalogSource olm/teas", "olm", "teas", opened)


def blobs(*items: dict) -> list[dict]:
    fetched = source_of(Answering(json.dumps({"items": items}).encode())).fetch()
    assert fetched.body
    assert not fetched.exact
    with fetched.body as body:
        return [json.loads(line) for line in body]


def test_a_package_keeps_its_channels_versions_kinds_and_images():
    package, channel, old, head = blobs(manifest())
    assert package == {"schema": "olm.package", "name": "tea", "defaultChannel": "stable"}
    assert channel["entries"] == [
        {"name": "tea.v1.1.0", "skips": ["tea.v1.0.0"]},
        {"name": "tea.v1.0.0"},
    ]
    assert (old["name"], head["name"]) == ("tea.v1.0.0", "tea.v1.1.0")
    gvk = {"group": "tea.example", "version": "v1", "kind": "Pot"}
    assert {"type": "olm.gvk", "value": gvk} in head["properties"]
    assert head["relatedImages"] == [{"name": "", "image": "registry.example/tea:1"}]


def test_packages_of_other_sources_and_namespaces_are_none_of_ours():
    others = [manifest(source="coffees"), manifest(namespace="other"), {"status": 5}, {}]
    result = blobs(*others, manifest())
    assert [item["name"] for item in result if item["schema"] == "olm.package"] == ["tea"]


def test_deprecations_are_kept():
    message = {"message": "Use coffee."}
    *_, last = blobs(manifest(deprecation=message))
    assert last["entries"] == [{"reference": {"schema": "olm.package"}, **message}]


def test_nothing_listed_is_not_an_empty_catalog():
    with pytest.raises(SourceError, match="lists no package of CatalogSource olm/teas") as reported:
        blobs(manifest(source="coffees"))
    assert reported.value.code == "not-ready"


def test_one_list_is_asked_for_and_the_selector_is_only_a_help():
    client = Answering(json.dumps({"items": [manifest()]}).encode())
    fetched = source_of(client).fetch()
    assert fetched.body
    fetched.body.close()
    path = "/apis/packages.operators.coreos.com/v1/packagemanifests"
    selector = ("labelSelector", "catalog=teas,catalog-namespace=olm")
    assert client.asked == [(path, (selector,))]
    assert fetched.requests == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 3}', b'{"items": ["\xff"]}'])
def test_an_answer_that_is_no_list_is_told(body):
    with pytest.raises(SourceError, match="PackageManifest API"):
        source_of(Answering(body)).fetch()


def test_a_cluster_without_the_api_or_the_right_says_so():
    with pytest.raises(SourceError) as reported:
        source_of(Answering(b"no", 403)).fetch()
    assert reported.value.code == "forbidden"
