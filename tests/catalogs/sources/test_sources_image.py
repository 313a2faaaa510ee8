"""Catalogs in images: layers, whiteouts, platforms, labels; what no image of a catalog holds."""

import gzip
import json
import tarfile
from collections.abc import Iterator

import pytest
import zstandard

from catalogs.sources.base import Limits, opened, progress_callback
from tests.worlds.catalog_images import (
    CATALOG,
    FILES,
    ONE,
    THREE,
    TWO,
    failure,
    files,
    folder,
    source,
)
from tests.worlds.image_registry_fake import (
    DOCKER,
    DOCKER_LIST,
    DOCKER_MANIFEST,
    INDEX,
    OCI,
    RegistryFake,
    link,
    registry_fake,
    tar,
)


@pytest.fixture
def fake() -> Iterator[RegistryFake]:
    with registry_fake() as running:
        yield running


def test_an_image_is_read_by_tag_and_by_digest(fake):
    result = fake.image(CATALOG)
    for wanted in (":v1", f"@{result}", f":whatever@{result}"):
        assert files(fake, wanted) == FILES
        with opened(source(fake, wanted)) as fetched:
            assert (fetched.access_method, fetched.digest, fetched.requests) == ("image", result, 3)
            assert fetched.bytes_read > 0
        assert source(fake, wanted).resolve() == result


def test_resolving_a_tag_costs_one_head_and_a_digest_nothing(fake):
    result = fake.image(CATALOG)
    assert source(fake).resolve() == result
    assert [(method, path) for method, path, _ in fake.seen] == [
        ("HEAD", "/v2/olm/catalog/manifests/v1")
    ]
    source(fake, f"@{result}").resolve()
    assert len(fake.seen) == 1


def test_reading_is_told_in_bytes_of_all_layers(fake):
    fake.image(CATALOG, tar(("x", b"y")))
    reported: list[tuple[int, int]] = []
    with progress_callback(lambda read, total: reported.append((read, total))):
        files(fake)
    total = sum(layer["size"] for layer in json.loads(fake.manifests["v1"][1])["layers"])
    assert (total, total) in reported


@pytest.mark.parametrize(
    ("media_type", "pack"),
    [
        (f"{OCI}.layer.v1.tar", bytes),
        (f"{OCI}.layer.v1.tar+gzip", gzip.compress),
        (f"{OCI}.layer.v1.tar+zstd", zstandard.compress),
        (f"{DOCKER}.image.rootfs.diff.tar.gzip", gzip.compress),
    ],
)
def test_layers_are_read_in_each_encoding(fake, media_type, pack):
    fake.image(CATALOG, media_type=media_type, pack=pack)
    assert files(fake) == FILES


BASE = tar(("configs/a.json", ONE), ("configs/s/b.json", TWO), ("etc/passwd", b"root"))


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        pytest.param(
            [tar(("configs/a.json", THREE))], {"a.json": THREE, "s/b.json": TWO}, id="changed"
        ),
        pytest.param([tar(("configs/.wh.a.json", b""))], {"s/b.json": TWO}, id="deleted"),
        pytest.param([tar(("configs/.wh.s", b""))], {"a.json": ONE}, id="folder deleted"),
        pytest.param(
            [tar(("configs/s/c.json", THREE), ("configs/s/.wh..wh..opq", b""))],
            {"a.json": ONE, "s/c.json": THREE},
            id="folder made anew",
        ),
        pytest.param(
            [tar((".wh..wh..opq", b""), ("configs/c.json", THREE))],
            {"c.json": THREE},
            id="root anew",
        ),
        pytest.param(
            [tar((".wh.configs", b"")), tar(("./configs/c.json", THREE))],
            {"c.json": THREE},
            id="whole folder deleted, then made",
        ),
        pytest.param(
            [tar(("configs/.wh.a.json", b"")), tar(("configs/a.json", THREE))],
            {"a.json": THREE, "s/b.json": TWO},
            id="deleted and made again",
        ),
        pytest.param(
            [tar(("configs/s", THREE))], {"a.json": ONE, "s": THREE}, id="folder becomes a file"
        ),
        pytest.param(
            [tar(folder("configs"), folder("configs/s"), ("configs/s/z", THREE))],
            {"a.json": ONE, "s/b.json": TWO, "s/z": THREE},
            id="folders named again",
        ),
        pytest.param(
            [tar(link("configs/h", "configs/a.json", tarfile.LNKTYPE))],
            {"a.json": ONE, "h": ONE, "s/b.json": TWO},
            id="hard link to a lower layer",
        ),
        pytest.param(
            [tar(link("configs/l", "/configs/s/b.json"), link("configs/s/m", "../a.json"))],
            {"a.json": ONE, "l": TWO, "s/b.json": TWO, "s/m": ONE},
            id="links inside",
        ),
        pytest.param(
            [tar(("configs/.indexignore", b"s\n"))],
            {"a.json": ONE},
            id="indexignore of a later one",
        ),
        pytest.param(
            [tar(("other/.wh.configs", b""))], {"a.json": ONE, "s/b.json": TWO}, id="beside"
        ),
    ],
)
def test_later_layers_change_what_lower_ones_have(fake, layers, expected):
    fake.image(BASE, *layers)
    assert files(fake) == expected


def test_what_is_outside_of_the_folder_is_not_kept(fake):
    device = link("dev/null", "", tarfile.CHRTYPE)
    fake.image(tar(("var/big", b"x" * 3_000_000), device, link("bin", "/usr/bin")), CATALOG)
    with opened(source(fake, limits=Limits(body=1_000_000))) as fetched:
        assert fetched.size == len(ONE) + len(TWO) + 1


@pytest.mark.parametrize("kinds", [(INDEX, OCI), (DOCKER_LIST, DOCKER)])
def test_of_several_platforms_amd64_is_read_else_the_first(fake, kinds):
    arm = fake.image(tar(("configs/arm", ONE)), tag="arm")
    amd = fake.image(tar(("configs/amd", TWO)), tag="amd")
    every = [
        {"digest": result, "size": 1, "platform": {"os": os, "architecture": architecture}}
        for result, os, architecture in (
            ("sha256:" + "0" * 64, "unknown", "unknown"),
            (arm, "linux", "arm64"),
            (amd, "linux", "amd64"),
        )
    ]
    index = fake.put("v1", {"manifests": every}, kinds[0])
    assert files(fake) == {"amd": TWO}
    with opened(source(fake)) as fetched:
        assert fetched.digest == source(fake).resolve() == index
    fake.put("v1", {"manifests": every[:2]}, kinds[0])
    assert files(fake) == {"arm": ONE}


BOMB = tar(("configs/zeros", bytes(3_000_000)))
OUTSIDE = tar(("var/zeros", bytes(3_000_000)))


@pytest.mark.parametrize("layer", [BOMB, OUTSIDE], ids=["inside", "outside"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_layer_that_is_a_bomb_is_refused(fake, pack, layer):
    fake.image(CATALOG, layer, pack=pack)
    limits = Limits(ratio=100, ratio_from=1_000_000)
    error = failure(fake, limits=limits)
    assert error.code == "expands"
    assert error.message.startswith(f"layer 2 of {fake.host}/olm/catalog:v1 expands more than 100")


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(body=1_000_000), "too-large"),
        (Limits(unpacked=1_000_000), "too-large"),
        (Limits(layers=1_000), "too-large"),
        (Limits(files=1), "too-many-files"),
    ],
)
def test_an_image_over_a_cap_is_refused(fake, limits, code):
    fake.image(CATALOG, BOMB)
    assert failure(fake, limits=limits).code == code


@pytest.mark.parametrize(
    ("member", "code", "words"),
    [
        (("configs/../../x", ONE), "climbs-out", "which climbs out of it"),
        (("../configs/x", ONE), "climbs-out", 'holds the path "../configs/x"'),
        (link("configs/l", "l"), "bad-link", "l in REF is a link that leads in a circle"),
        (link("configs/l", "../etc/passwd"), "bad-link", "leads out of the catalog's folder"),
        (link("configs/l", "/etc/passwd"), "bad-link", "leads out of the catalog's folder"),
        (link("configs/l", "/configs/../etc/passwd"), "bad-link", "leads out of the catalog's"),
        (link("configs/l", "no"), "bad-link", "leads to nothing"),
        (link("configs/h", "etc/passwd", tarfile.LNKTYPE), "bad-link", "is a hard link to"),
        (link("configs/h", "../../x", tarfile.LNKTYPE), "climbs-out", "which climbs out of it"),
        (link("configs/d", "", tarfile.BLKTYPE), "not-a-file", "d in REF is a device"),
        (("configs/" + "d/" * 70 + "x", ONE), "path-too-long", "too long or too deep"),
    ],
)
def test_a_layer_with_what_no_catalog_holds_is_refused(fake, member, code, words):
    fake.image(tar(("etc/passwd", b"hush"), ("configs/a", ONE), member))
    error = failure(fake)
    assert error.code == code
    assert words.replace("REF", f"{fake.host}/olm/catalog:v1") in error.message


@pytest.mark.parametrize("layer", [b"no tar" * 200, CATALOG[:600], b""])
def test_a_layer_that_is_no_tar_is_refused(fake, layer):
    fake.image(CATALOG, layer)
    error = failure(fake)
    assert error.code == "cut-short"
    assert error.message.startswith(f"layer 2 of {fake.host}/olm/catalog:v1 is not readable as tar")


def test_an_image_without_the_label_is_no_catalog(fake):
    fake.image(CATALOG, label=None)
    error = failure(fake)
    assert (error.code, error.message) == (
        "no-configs-label",
        f"{fake.host}/olm/catalog:v1 is no catalog: its image is missing the required label "
        "operators.operatorframework.io.index.configs.v1.",
    )


@pytest.mark.parametrize(
    ("layer", "code", "words"),
    [
        (tar(("etc/x", ONE)), "no-configs-folder", "/configs, which is not in the image"),
        (tar(("configs", ONE)), "no-configs-folder", "/configs, which is not in the image"),
        (tar(link("configs", "/etc")), "no-configs-folder", "/configs, which is a link"),
        (tar(folder("configs")), "empty", "has no file in /configs, the folder that its label"),
    ],
)
def test_a_label_that_names_no_folder_of_files_is_told(fake, layer, code, words):
    fake.image(layer)
    error = failure(fake)
    assert (error.code, words in error.message) == (code, True)


def test_a_label_may_name_any_folder(fake):
    fake.image(tar(("opt/olm/a", ONE), ("opt/b", TWO)), label="opt/olm/")
    assert files(fake) == {"a": ONE}
    fake.image(tar(("a", ONE), ("s/b", TWO)), label="/")
    assert files(fake) == {"a": ONE, "s/b": TWO}


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, "has a manifest of schema 1"),
        ({}, "names neither a config nor other manifests"),
        ({"manifests": []}, "is an index without an image"),
        ({"config": {"digest": "md5:1", "size": 1}}, 'has a manifest with the digest "md5:1"'),
        (
            {"config": {"digest": "sha256:" + "0" * 64, "size": -1}},
            "has a manifest with the digest",
        ),
        ({"layers": 5}, "has a manifest that can't be read"),
    ],
)
def test_a_manifest_of_no_image_is_refused(fake, manifest, words):
    fake.put("v1", manifest, DOCKER_MANIFEST)
    error = failure(fake)
    assert (error.code, words in error.message) == ("not-an-image", True)


@pytest.mark.parametrize(
    ("media_type", "words"),
    [
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "has a layer of type"),
        (f"{OCI}.layer.v1.tar+gzip+encrypted", "has a layer of type"),
        (f"{DOCKER}.image.rootfs.foreign.diff.tar.gzip", "has a layer of type"),
    ],
)
def test_layers_that_hold_no_files_we_can_read_are_refused(fake, media_type, words):
    fake.image(CATALOG, media_type=media_type)
    error = failure(fake)
    assert (error.code, words in error.message) == ("not-an-image", True)
