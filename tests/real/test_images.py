"""Catalogs in a real registry, and folders, beside what opm reads there."""

import json
import lzma
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalogs.fbc.split import index_spool, read_blob
from catalogs.models import Catalog, Package
from catalogs.sources.base import SourceError, opened
from catalogs.sources.file import path_source
from catalogs.sources.oci.source import ImageSource, RegistryAccess
from catalogs.sync.catalog import sync_catalog
from tests.peers.build import binary
from tests.peers.controllers import Registry, registry
from tests.worlds.fbc import jsonl, package
from tests.worlds.image_registry_fake import DOCKER_LIST, digest, link, tar

pytestmark = pytest.mark.peers

ETCD, REDIS, KAFKA = (jsonl(package(name)) for name in ("etcd", "redis", "kafka"))


@pytest.fixture(scope="module")
def images(catalogd_is_built) -> Iterator[Registry]:
    with registry() as running:
        yield running


def source(images: Registry, reference: str) -> ImageSource:
    return ImageSource(reference, access=RegistryAccess(frozenset([images.host])))


def ours(of) -> Counter[tuple[str, str]]:
    """How often each (package, schema and name) is in the catalog."""
    found: Counter[tuple[str, str]] = Counter()
    with opened(of) as fetched:
        assert fetched.body is not None
        index = index_spool(fetched.body, files=fetched.files)
        for owner, blobs in index.packages.items():
            for at in blobs:
                data = os.pread(fetched.body.fileno(), at.length, at.offset)
                header, _ = read_blob(data)
                found[owner, f"{header.schema} {header.name}"] += 1
    return found


def of_opm(what: str, home: Path) -> Counter[tuple[str, str]]:
    """The same from `opm render`."""
    config = home / ".config" / "containers"
    config.mkdir(parents=True, exist_ok=True)
    (config / "policy.json").write_text('{"default":[{"type":"insecureAcceptAnything"}]}')
    path = binary("opm")
    assert path is not None
    run = subprocess.run(
        [str(path), "render", what, "-o", "json", "--use-http"],
        env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")},
        capture_output=True,
        check=True,
        cwd=home,
    )
    found: Counter[tuple[str, str]] = Counter()
    text, position = run.stdout.decode(), 0
    decode = json.JSONDecoder().raw_decode
    while position < len(text.rstrip()):
        blob, position = decode(text, position)
        owner = blob["name"] if blob["schema"] == "olm.package" else blob.get("package") or ""
        found[owner, f"{blob['schema']} {blob.get('name')}"] += 1
        position += len(text[position:]) - len(text[position:].lstrip())
    return found


LAYERS = [
    tar(("configs/etcd/catalog.json", ETCD), ("configs/old.json", KAFKA), ("etc/os-release", b"x")),
    tar(("configs/redis.json", REDIS), ("configs/.wh.old.json", b""), ("tmp/cache", b"y" * 9999)),
    tar(("configs/README.md", b"# no content"), ("configs/.indexignore", b"*.md\n")),
    tar(link("configs/empty", "etcd")),
]


def test_an_image_of_several_layers_is_what_opm_reads(images, opm_is_built, tmp_path):
    reference = images.push_image("layered", "v1", LAYERS[:3])
    found = ours(source(images, reference))
    assert {owner for owner, _ in found} == {"etcd", "redis"}
    assert found == of_opm(reference, tmp_path)


def test_a_link_to_a_folder_is_passed_over(images):
    reference = images.push_image("linked", "v1", LAYERS)
    assert {owner for owner, _ in ours(source(images, reference))} == {"etcd", "redis"}


@pytest.mark.django_db
def test_a_catalog_is_synced_by_tag_and_not_read_again(images, settings):
    settings.INSECURE_REGISTRIES = frozenset([images.host])
    reference = images.push_catalog("synced", "v1", ETCD)
    catalog = Catalog.objects.create(name="i", slug="i", source_kind="Image", source=reference)
    first = sync_catalog(catalog)
    assert (first.outcome, first.packages, first.requests) == ("changed", 1, 3)
    assert catalog.access_method == "image"
    again = sync_catalog(catalog)
    assert (again.outcome, again.bytes_read, again.rows_written) == ("unchanged", 0, 1)
    images.push_catalog("synced", "v1", ETCD + REDIS)
    moved = sync_catalog(catalog)
    assert (moved.outcome, moved.packages) == ("changed", 2)
    catalog.source = f"{images.host}/synced:gone"
    gone = sync_catalog(catalog)
    assert (gone.outcome, gone.error_code) == ("failed", "not-found")
    assert Package.objects.filter(catalog=catalog).count() == 2


def test_an_index_of_platforms_is_read(images):
    image = images.push_catalog("index", "amd64", REDIS)
    with opened(source(images, image)) as fetched:
        of_image = fetched.digest
    size = 1000  # the registry looks at the digest only
    entry = {
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "digest": of_image,
        "size": size,
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    index = {"schemaVersion": 2, "mediaType": DOCKER_LIST, "manifests": [entry]}
    named = images.push_manifest("index", "all", index)
    found = source(images, f"{images.host}/index:all")
    assert found.resolve() == named == digest(json.dumps(index).encode())
    with opened(found) as fetched:
        assert (fetched.digest, fetched.requests) == (named, 4)
    assert {owner for owner, _ in ours(found)} == {"redis"}


def test_an_image_by_digest_is_read(images):
    tag = images.push_catalog("pinned", "v1", ETCD)
    named = source(images, tag).resolve()
    with opened(source(images, f"{images.host}/pinned@{named}")) as fetched:
        assert fetched.digest == named
        assert fetched.body is not None
        assert fetched.body.read() == ETCD


@pytest.mark.parametrize("name", ["pinned:none", "nothing:v1"])
def test_what_the_registry_does_not_have_is_told(images, name):
    images.push_catalog("pinned", "v1", ETCD)
    with pytest.raises(SourceError) as caught:
        source(images, f"{images.host}/{name}").fetch()
    assert caught.value.code == "not-found"


@pytest.mark.parametrize("name", ["community-full", "community-4.20"])
@pytest.mark.data
def test_a_real_catalog_comes_out_of_an_image_byte_for_byte(images, shared_data, name):
    body = lzma.decompress((shared_data / "catalogs" / f"{name}.jsonl.xz").read_bytes())
    reference = images.push_catalog(name, "latest", body)
    with opened(source(images, reference)) as fetched:
        assert fetched.body is not None
        assert fetched.size == len(body)
        assert fetched.body.read() == body


def blob(name: str) -> bytes:
    return json.dumps({"schema": "example.note", "package": name, "name": "n"}).encode()


IGNORED: dict[str, dict[str, bytes]] = {
    "a folder, and a file of it taken back": {
        ".indexignore": b"dir/\n!dir/keep.yaml\n*.md\n",
        "dir/a.yaml": blob("a"),
        "dir/keep.yaml": blob("keep"),
        "README.md": blob("readme"),
        "x/README.md": blob("readme2"),
        "b.yaml": blob("b"),
    },
    "one in a subfolder": {
        ".indexignore": b"*.txt\n/top.yaml\n",
        "sub/.indexignore": b"!yes.txt\nno.yaml\n",
        "sub/yes.txt": blob("yes"),
        "sub/no.yaml": blob("no"),
        "no.yaml": blob("no2"),
        "z.txt": blob("z"),
        "top.yaml": blob("top"),
        "sub/top.yaml": blob("top2"),
    },
    "one in a folder that is left out": {
        ".indexignore": b"d/\n",
        "d/.indexignore": b"!a.yaml\n",
        "d/a.yaml": blob("a"),
        "d/b.yaml": blob("b"),
    },
    "stars, classes and comments": {
        ".indexignore": b"**/foo\na/**/z.yaml\n#c\n\\#d.yaml\nq?.yaml\n[ab]x.yaml\n",
        "x/foo/1.yaml": blob("1"),
        "foo": blob("foo"),
        "a/z.yaml": blob("z"),
        "a/b/c/z.yaml": blob("z2"),
        "#c": blob("c"),
        "#d.yaml": blob("d"),
        "q1.yaml": blob("q1"),
        "q.yaml": blob("q"),
        "ax.yaml": blob("ax"),
        "cx.yaml": blob("cx"),
    },
    "everything but": {
        ".indexignore": b"*\n!*.yaml\n",
        "a.yaml": blob("a"),
        "b/c.yaml": blob("c"),
        "b/d.txt": blob("d"),
    },
    "blanks, and what is no pattern": {
        ".indexignore": b"x.yaml \n  y.yaml\nz.yaml/\nmid/le\n!\n\n",
        "x.yaml": blob("x"),
        "y.yaml": blob("y"),
        "z.yaml": blob("z"),
        "mid/le": blob("mid"),
        "a/mid/le": blob("mid2"),
    },
    "hidden files and any extension": {
        ".hidden": blob("hidden"),
        ".git/config": blob("git"),
        "no-extension": blob("none"),
        "two.yaml": b"---\nschema: a.b\npackage: y1\n---\nschema: a.b\npackage: y2\n",
    },
}


@pytest.mark.parametrize("case", IGNORED)
def test_a_folder_is_what_opm_reads(opm_is_built, tmp_path, case):
    folder = tmp_path / "catalog"
    for name, content in IGNORED[case].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found = ours(path_source(folder))
    assert {owner for owner, _ in found} == {o for o, _ in of_opm(str(folder), tmp_path / "home")}
