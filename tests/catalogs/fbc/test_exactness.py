"""Every blob comes back byte for byte; the same CSV in both notations gives the same view."""

import base64
import json

import pytest
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catalogs.api import fbc
from catalogs.fbc.bundle import order_key
from catalogs.models import BlobRef, Bundle, BundleGVK, Package, PackageText, RelatedImage
from catalogs.sync.catalog import sync_catalog
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, jsonl, package, package_blob
from tests.worlds.fbc_reading import read_catalog
from tests.worlds.syncing import PIXEL, make, rewrite

pytestmark = pytest.mark.django_db

ODD = (
    b'{"schema":"x.only"}',
    b'{ "schema" : "x.name", "name":"n" ,"b":1e400,"a":[1.0,\t-0]}',
    b'{"schema":"x.package","package":"etcd","\\u00e9":"\xc3\xa9"}',
    b'{"schema":"x.all","package":"etcd","name":"a/b","n":12345678901234567890123}',
    b'{\n    "Schema": "x.pretty",\n    "Package": "etcd",\n    "NAME": "n"\n}',
    b'{"schema":"x.loose","package":"nobody"}',
    b'{"schema":"x.broken-text","package":"etcd","text":"\x9a"}',
)
SOUND = [json.dumps(blob).encode() for blob in package()]


@pytest.fixture
def reader(bob) -> Client:
    client = Client()
    client.force_login(bob)
    return client


def body(response) -> bytes:
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content) if response.streaming else response.content


def test_every_blob_of_every_schema_comes_back_byte_for_byte(tmp_path, reader):
    catalog = make(tmp_path, b"\n".join([*SOUND, *ODD]))
    assert sync_catalog(catalog).outcome == "changed"
    of_etcd = [blob for blob in (*SOUND, *ODD) if b"etcd" in blob]
    answer = reader.get("/api/v1/packages/-/demo/etcd/fbc")
    assert body(answer) == b"".join(blob + b"\n" for blob in of_etcd)
    assert answer["Content-Type"] == "application/jsonl"
    whole = reader.get("/api/v1/catalogs/-/demo/fbc")
    assert sorted(body(whole).split(b"\n")) == sorted(
        line for blob in (*SOUND, *ODD, b"") for line in blob.split(b"\n")
    )
    for query, expected in (
        ("schema=x.only", ODD[0]),
        ("schema=x.name&name=n", ODD[1]),
        ("package=etcd&schema=x.all&name=a/b", ODD[3]),
        ("package=nobody", ODD[5]),
        ("package=-&name=-", ODD[0]),
        ("package=etcd&schema=olm.package", SOUND[0]),
    ):
        assert body(reader.get(f"/api/v1/catalogs/-/demo/fbc?{query}")) == expected + b"\n"
    assert body(reader.get("/api/v1/catalogs/-/demo/fbc?schema=none")) == b""
    assert reader.get("/api/v1/catalogs/-/demo/fbc?x=1").status_code == 400
    for blob in SOUND[2:]:
        name = json.loads(blob)["name"]
        assert body(reader.get(f"/api/v1/bundles/-/demo/etcd/{name}/fbc")) == blob
    etag = answer["ETag"]
    again = reader.get("/api/v1/packages/-/demo/etcd/fbc", headers={"If-None-Match": etag})
    assert again.status_code == 304


def test_an_export_without_an_account_is_bounded_by_its_bytes(
    tmp_path, reader, client, settings, monkeypatch
):
    settings.PUBLIC_READ = True
    sync_catalog(make(tmp_path, b"\n".join([*SOUND, *ODD])))
    package = sum(len(blob) for blob in (*SOUND, *ODD) if b"etcd" in blob)
    monkeypatch.setattr(fbc, "PUBLIC_EXPORT", package)
    whole, path = "/api/v1/catalogs/-/demo/fbc", "/api/v1/packages/-/demo/etcd/fbc"
    assert body(client.get(path)) == body(reader.get(path))
    assert body(client.get(f"{whole}?package=etcd")) == body(reader.get(path))
    refused = client.get(whole)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "export-too-large")
    assert "Sign in" in refused.json()["error"]["hint"]
    assert body(reader.get(whole))
    monkeypatch.setattr(fbc, "PUBLIC_EXPORT", package - 1)
    assert client.get(path).status_code == 403


def test_yaml_comes_back_byte_for_byte_as_documents(tmp_path, reader):
    first = b"# a comment stays\nschema: olm.package\nname: etcd\ndefaultChannel: stable"
    second = b"schema: x\npackage: etcd\nat: 2020-01-02T03:04:05Z\ntext: |\n  a\n\n  b"
    catalog = make(tmp_path, b"---\n" + first + b"\n---\n" + second + b"\n")
    sync_catalog(catalog)
    answer = reader.get("/api/v1/packages/-/demo/etcd/fbc")
    assert body(answer) == b"---\n" + first + b"\n---\n" + second + b"\n"
    assert answer["Content-Type"] == "application/yaml"
    assert "etcd.yaml" in answer["Content-Disposition"]
    rewrite(catalog, body(reader.get("/api/v1/packages/-/demo/etcd/fbc")))
    assert sync_catalog(catalog).outcome == "unchanged"


def test_what_a_package_gives_back_is_a_catalog_with_the_same_problems(tmp_path, reader):
    blobs = [*package(), channel_blob(name="empty")]
    sync_catalog(make(tmp_path, blobs))
    given_back = body(reader.get("/api/v1/packages/-/demo/etcd/fbc"))
    assert [problem.code for problem in read_catalog(given_back)] == ["empty-channel"]


def rows(slug: str) -> dict[str, object]:
    """What lists and pages show of a catalog, less what only the full CSV can tell."""
    bundles = Bundle.objects.filter(package__catalog__slug=slug)
    left_out = {"id", "package_id", "blob_id", "webhooks"}
    found = Package.objects.get(catalog__slug=slug)
    text = PackageText.objects.get(package=found)
    skipped = {"id", "catalog_id", "content_hash"}
    return {
        "bundles": [
            {key: value for key, value in row.items() if key not in left_out}
            for row in bundles.order_by("name", "ordinal").values()
        ],
        "gvks": list(
            BundleGVK.objects.filter(bundle__in=bundles)
            .order_by("bundle__name", "kind", "required")
            .values_list("bundle__name", "group", "version", "kind", "required")
        ),
        "images": list(
            RelatedImage.objects.filter(bundle__in=bundles)
            .order_by("bundle__name", "id")
            .values_list("bundle__name", "name", "image")
        ),
        "package": {
            key: value
            for key, value in Package.objects.filter(pk=found.pk).values()[0].items()
            if key not in skipped
        },
        "text": (text.description_html, text.links, text.maintainers),
        "search": found.search.words,
    }


def as_object(metadata: dict, *, as_yaml: bool) -> dict:
    """The same CSV as a full manifest."""
    value = dict(metadata["value"])
    spec = {key: value[key] for key in value if key not in ("annotations", "apiServiceDefinitions")}
    spec["apiservicedefinitions"] = value["apiServiceDefinitions"]
    manifest = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "etcd", "annotations": value["annotations"]},
        "spec": spec,
    }
    text = json.dumps(manifest)
    if as_yaml:
        text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in manifest.items())
    data = base64.b64encode(text.encode()).decode()
    return {"type": "olm.bundle.object", "value": {"data": data}}


@pytest.mark.parametrize("as_yaml", [False, True])
def test_a_csv_gives_the_same_view_in_both_notations(tmp_path, as_yaml):
    stable = channel_blob(entries=[{"name": "etcd.v1.0.0"}])
    icon = {"base64data": PIXEL, "mediatype": "image/png"}
    requirement = {
        "type": "olm.package.required",
        "value": {"packageName": "x", "versionRange": "1"},
    }
    for name, csv in (
        ("metadata", csv_metadata()),
        ("object", as_object(csv_metadata(), as_yaml=as_yaml)),
    ):
        blobs = [package_blob(icon=icon), stable, bundle_blob(csv=csv, properties=[requirement])]
        result = sync_catalog(make(tmp_path, blobs, name=name))
        assert (result.outcome, result.problems) == ("changed", 0)
    assert rows("metadata") == rows("object")
    known = Bundle.objects.values_list("package__catalog__slug", "webhooks").order_by("id")
    assert list(known) == [("metadata", None), ("object", 0)]


ORDERED = (  # (version, release) in opm's order: operator-registry, model.VersionRelease.Compare
    *(("1.0.0-alpha", ""), ("1.0.0-alpha.1", ""), ("1.0.0-alpha.beta", ""), ("1.0.0-rc.2", "")),
    *(("1.0.0-rc.11", ""), ("1.0.0", ""), ("1.0.0", "1"), ("1.0.0", "2"), ("1.0.0", "2.1")),
    *(("1.0.0", "10"), ("1.0.0", "b"), ("1.0.0", "b.1"), ("1.0.1-1", ""), ("1.0.1-1", "3")),
    *(("1.0.1", ""), ("1.2.0", ""), ("1.10.0", ""), ("10.0.0", ""), ("2022.4.10", "")),
)


def test_versions_with_builds_prereleases_and_releases_are_in_opms_order(tmp_path, reader):
    keys = [order_key(*pair) for pair in ORDERED]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert order_key("1.0.0+1", "") == order_key("1.0.0+2", "") == order_key("1.0.0", "")
    blobs = [package_blob()]
    names = []
    for i, (version, release) in enumerate(ORDERED):
        blob = bundle_blob(version, image="registry.example/etcd:1", relatedImages=[])
        blob["properties"][0]["value"]["release"] = release
        blob["name"] = f"etcd-v{version}-{release}" if release else f"etcd.{i}"
        names.append(blob["name"])
        blobs.append(blob)
    entries = [
        {"name": name, **({"replaces": names[i - 1]} if i else {})} for i, name in enumerate(names)
    ]
    result = sync_catalog(make(tmp_path, [*blobs, channel_blob(entries=entries)]))
    assert (result.outcome, result.problems) == ("changed", 0)
    assert [bundle.name for bundle in Bundle.objects.order_by("-version_key")] == names[::-1]


# -- whatever is in a catalog


NAMES = st.sampled_from(["etcd", "sound", "", "a", "é", "\0", "x" * 600, "\ud800", "stable"])
SCHEMAS = st.sampled_from(
    ["olm.package", "olm.channel", "olm.bundle", "olm.deprecations", "x", "", "OLM.PACKAGE"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**30), 1e308]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    NAMES,
)
FIELDS = st.sampled_from(
    [
        *("schema", "package", "name", "Name", "image", "properties", "relatedImages", "entries"),
        *("defaultChannel", "icon", "replaces", "skips", "skipRange", "type", "value", "data"),
        *("base64data", "mediatype", "reference", "message", "version", "packageName", "spec"),
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=12,
)
MEMBERS = {
    **dict.fromkeys(("package", "name", "defaultChannel"), NAMES | SCALARS),
    **dict.fromkeys(("entries", "properties", "relatedImages", "icon"), VALUES),
    "image": st.sampled_from(["a/b:1", "oci://x", ""]) | SCALARS,
}
BLOBS = st.fixed_dictionaries({"schema": SCHEMAS | SCALARS}, optional=MEMBERS)


@st.composite
def pieces(draw) -> bytes:
    """One piece of a catalog: a blob as JSON, compact or pretty or nearly, or bytes of any kind."""
    kind = draw(st.sampled_from(["json"] * 6 + ["pretty", "bytes", "deep", "cut", "bom"]))
    if kind == "bytes":
        return draw(st.binary(max_size=60)).replace(b"\n", b" ")
    if kind == "deep":
        depth = draw(st.integers(1, 5000))
        return b'{"schema":"x","v":' + b"[" * depth + b"]" * depth + b"}"
    text = json.dumps(draw(BLOBS), indent=2 if kind == "pretty" else None).encode()
    if kind == "cut":
        return text[: draw(st.integers(0, len(text)))].replace(b"\n", b" ") + b"}"
    return (b"\xef\xbb\xbf" if kind == "bom" else b"") + text


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(pieces(), max_size=8))
@example([b'{"schema": null, "name": "\\u0000"}'])
def test_no_content_raises_or_costs_a_sound_package(tmp_path, found):
    """After the odd pieces stands a sound package, which is served whole and without problems.

    An odd piece may swallow what is on its own line, so the sound blobs have lines of their own.
    """
    data = b"\n".join([*found, b"", jsonl(package("sound-one"))])
    if data[:1] not in (b"{", b"["):
        data = b'{"schema":"first"}\n' + data
    catalog = make(tmp_path, data)
    result = sync_catalog(catalog, force=True)
    assert result.outcome == "changed", result.error
    sound = Package.objects.get(name="sound-one")
    assert (sound.head_version, sound.bundle_count) == ("1.1.0", 2)
    assert not catalog.problems.filter(package="sound-one").exists()
    assert catalog.problems.count() == result.problems
    assert BlobRef.objects.filter(catalog=catalog, package="sound-one").count() == 4
    catalog.delete()


@pytest.mark.parametrize(
    "document",
    [
        "{schema: olm.package, name: odd}",
        '{"schema": 1e+308}',
        "{schema: olm.bundle, package: odd}",
    ],
)
def test_a_yaml_document_that_begins_like_json_costs_no_catalog(tmp_path, document):
    sound = "\n---\n".join(json.dumps(blob) for blob in package("sound-one"))
    result = sync_catalog(make(tmp_path, f"---\n{document}\n---\n{sound}\n".encode()))
    assert result.outcome == "changed", result.error
    assert Package.objects.get(name="sound-one").bundle_count == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(BLOBS, st.booleans()), min_size=1, max_size=5))
def test_no_yaml_raises_or_costs_a_sound_package(found):
    """The same in YAML documents, some of which are JSON."""
    documents = []
    for blob, as_json in found:
        text = json.dumps(blob)
        documents.append(
            text if as_json else "\n".join(f"{k}: {json.dumps(v)}" for k, v in blob.items())
        )
    sound = [json.dumps(blob) for blob in package("sound-one")]
    data = "---\n" + "\n---\n".join([*documents, *sound])
    problems = read_catalog(data.encode("utf-8", "replace"))
    assert not [problem for problem in problems if problem.package == "sound-one"]
