"""Catalogs over gRPC: what becomes of a registry's answers, and of answers that are none."""

import json
import socket
from contextlib import contextmanager

import grpc
import pytest

from catalogs.models import Catalog, Channel, ContentProblem, Package
from catalogs.sources.base import Limits, SourceError
from catalogs.sources.registry.calls import Timeouts
from catalogs.sources.registry.source import RegistrySource
from catalogs.sync.catalog import sync_catalog
from tests.worlds.fbc import csv_metadata
from tests.worlds.registry_grpc_fake import bundle, registry_fake

SHORT = Timeouts(connect=2, stream=1, answer=1)


@pytest.fixture
def registry():
    with registry_fake() as running:
        yield running


def source_at(target: str, **given) -> RegistrySource:
    @contextmanager
    def reach():
        yield target

    return RegistrySource("CatalogSource teas", reach, **{"timeouts": SHORT, **given})


def blobs_of(registry, **given) -> list[dict]:
    fetched = source_at(registry.target, **given).fetch()
    assert not fetched.exact
    assert fetched.body
    with fetched.body:
        return [json.loads(line) for line in fetched.body]


def chain():
    return (
        bundle("etcd.v1.0.0"),
        bundle("etcd.v1.1.0", replaces="etcd.v1.0.0", skipRange="<1.1.0"),
        bundle("etcd.v1.10.0", replaces="etcd.v1.1.0", skips=["etcd.v1.1.1", "etcd.v1.1.2"]),
    )


def csv(name: str) -> str:
    value = csv_metadata()["value"]
    meta = {"name": name, "annotations": value["annotations"]}
    spec = {key: value[key] for key in ("displayName", "description", "keywords", "installModes")}
    spec["icon"] = [{"base64data": "aGk=", "mediatype": "image/png"}]
    spec["relatedImages"] = [{"name": "run", "image": "registry.example/run:1"}]
    return json.dumps({"kind": "ClusterServiceVersion", "metadata": meta, "spec": spec})


def test_the_answers_become_a_catalog_with_its_graph_heads_and_texts(registry):
    registry.serve_channel(*chain())
    registry.csvs["etcd.v1.10.0"] = csv("etcd.v1.10.0")
    package, channel, *bundles = blobs_of(registry)
    icon = {"base64data": "aGk=", "mediatype": "image/png"}
    assert package == {
        "schema": "olm.package",
        "name": "etcd",
        "defaultChannel": "stable",
        "icon": icon,
    }
    assert channel["entries"] == [
        {"name": "etcd.v1.0.0"},
        {"name": "etcd.v1.1.0", "replaces": "etcd.v1.0.0", "skipRange": "<1.1.0"},
        {
            "name": "etcd.v1.10.0",
            "replaces": "etcd.v1.1.0",
            "skips": ["etcd.v1.1.1", "etcd.v1.1.2"],
        },
    ]
    head = bundles[-1]
    assert [item["name"] for item in bundles] == [item["name"] for item in channel["entries"]]
    assert head["relatedImages"] == [{"name": "run", "image": "registry.example/run:1"}]
    shown = {item["type"]: item["value"] for item in head["properties"]}
    assert shown["olm.csv.metadata"]["displayName"] == "Etcd"
    assert shown["olm.csv.metadata"]["annotations"]["capabilities"] == "Deep Insights"
    assert shown["olm.package"] == {"packageName": "etcd", "version": "1.10.0"}
    assert registry.calls.count("GetBundle") == 1


def test_the_order_of_the_answers_does_not_change_the_bytes(registry):
    registry.serve_channel(*chain())
    first = source_at(registry.target).fetch()
    registry.bundles.reverse()
    second = source_at(registry.target).fetch()
    assert first.sha256 == second.sha256
    assert first.bytes_read > 0
    assert first.requests == 4
    for item in (first, second):
        assert item.body
        item.body.close()


def test_a_bundle_of_two_channels_is_one_blob_and_deprecations_become_theirs(registry):
    registry.serve_channel(*chain())
    registry.bundles.append(
        bundle("etcd.v1.0.0", channel="old", deprecation={"message": "Too old."})
    )
    reported = registry.packages["etcd"]
    reported.channels.add(name="old", csvName="etcd.v1.0.0", deprecation={"message": "Use stable."})
    reported.deprecation.message = "Use zetcd."
    result = blobs_of(registry)
    assert [item["name"] for item in result if item["schema"] == "olm.channel"] == ["old", "stable"]
    assert len([item for item in result if item["schema"] == "olm.bundle"]) == 3
    assert result[-1]["entries"] == [
        {"reference": {"schema": "olm.package"}, "message": "Use zetcd."},
        {"reference": {"schema": "olm.channel", "name": "old"}, "message": "Use stable."},
        {"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "Too old."},
    ]


def test_a_bundle_without_an_image_keeps_its_manifests(registry):
    manifest = '{"kind":"ClusterServiceVersion"}'
    item = bundle("etcd.v1.0.0", bundlePath="", object=[manifest], csvJson=manifest)
    registry.serve_channel(item)
    (result,) = [item for item in blobs_of(registry) if item["schema"] == "olm.bundle"]
    kinds = [item["type"] for item in result["properties"]]
    assert kinds == ["olm.package", "olm.bundle.object"]


def test_a_server_from_before_properties_tells_apis_and_dependencies_otherwise(registry):
    registry.serve_channel(
        bundle(
            "etcd.v1.0.0",
            providedApis=[{"group": "g", "version": "v1", "kind": "Etcd", "plural": "etcds"}],
            requiredApis=[{"group": "g", "version": "v1", "kind": "Vault", "plural": "vaults"}],
            dependencies=[
                {"type": "olm.package", "value": '{"packageName":"tea","version":">1.0.0"}'},
                {"type": "olm.gvk", "value": '{"group":"g","kind":"Vault","version":"v1"}'},
            ],
        )
    )
    result = blobs_of(registry)[-1]["properties"]
    assert [(item["type"], item["value"].get("kind", "")) for item in result] == [
        ("olm.package", ""),
        ("olm.gvk", "Etcd"),
        ("olm.gvk.required", "Vault"),
        ("olm.package.required", ""),
    ]
    assert result[-1]["value"] == {"packageName": "tea", "versionRange": ">1.0.0"}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("UNAVAILABLE", "unreachable"),
        ("INTERNAL", "grpc-status"),
        ("UNIMPLEMENTED", "not-a-registry"),
    ],
)
def test_an_error_half_way_through_the_stream_is_no_catalog(registry, status, code):
    registry.serve_channel(*chain())
    registry.fail, registry.after = {"ListBundles": grpc.StatusCode[status]}, 2
    with pytest.raises(SourceError, match=r"CatalogSource teas .*ListBundles") as reported:
        source_at(registry.target).fetch()
    assert reported.value.code == code
    assert reported.value.requests == 2


@pytest.mark.parametrize("method", ["ListPackages", "GetPackage", "GetBundle"])
def test_an_error_of_any_other_call_is_no_catalog(registry, method):
    registry.serve_channel(*chain())
    registry.fail = {method: grpc.StatusCode.UNKNOWN}
    with pytest.raises(SourceError, match=f"{method} with UNKNOWN: as the test asked"):
        source_at(registry.target).fetch()


@pytest.mark.parametrize("method", ["ListBundles", "GetBundle"])
def test_a_registry_that_never_answers_is_left(registry, method):
    registry.serve_channel(*chain())
    registry.silent = {method}
    with pytest.raises(SourceError, match="in time") as reported:
        source_at(registry.target).fetch()
    assert reported.value.code == "timeout"


def test_a_port_where_nobody_speaks_grpc_is_left():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        target = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(SourceError, match="no answer within") as reported:
            source_at(target, timeouts=Timeouts(connect=0.3)).fetch()
    assert reported.value.code == "unreachable"


def test_an_empty_registry_is_no_catalog(registry):
    with pytest.raises(SourceError, match="is empty"):
        source_at(registry.target).fetch()


def test_a_message_or_a_sum_that_is_too_large_is_refused(registry):
    registry.serve_channel(bundle("etcd.v1.0.0", csvJson="x" * 20_000))
    with pytest.raises(SourceError, match="too large") as reported:
        source_at(registry.target, limits=Limits(blob=10_000)).fetch()
    assert reported.value.code == "too-large"
    with pytest.raises(SourceError, match="larger than"):
        source_at(registry.target, limits=Limits(body=10_000)).fetch()


@pytest.mark.django_db
def test_broken_json_in_a_property_is_a_problem_of_its_bundle_alone(registry):
    broken = {"type": "olm.gvk", "value": '{"group": '}
    registry.serve_channel(bundle("etcd.v1.0.0", properties=[broken]))
    registry.serve_channel(bundle("tea.v1.0.0", package="tea"), package="tea")
    catalog = Catalog.objects.create(name="teas", slug="teas", source_kind="CatalogSource")
    result = sync_catalog(catalog, source=source_at(registry.target))
    assert (result.outcome, result.packages, result.bundles) == ("changed", 2, 2)
    assert {item.package for item in ContentProblem.objects.filter(catalog=catalog)} == {"etcd"}
    assert Package.objects.get(name="tea").head_version == "1.0.0"


@pytest.mark.django_db
def test_what_was_read_before_stays_when_a_stream_breaks(registry):
    registry.serve_channel(*chain())
    catalog = Catalog.objects.create(name="teas", slug="teas", source_kind="CatalogSource")
    sync_catalog(catalog, source=source_at(registry.target))
    registry.bundles.append(bundle("etcd.v2.0.0", replaces="etcd.v1.10.0"))
    registry.fail, registry.after = {"ListBundles": grpc.StatusCode.INTERNAL}, 3
    result = sync_catalog(catalog, source=source_at(registry.target))
    assert (result.outcome, result.error_code) == ("failed", "grpc-status")
    assert Channel.objects.get(name="stable").head == "etcd.v1.10.0"
