"""Bundle images read from a registry: only what is needed, and nothing of what is hostile."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace

import pytest

from catalogs.contents.objects import Packed, pack
from catalogs.sources.base import SourceError
from catalogs.sources.oci.source import (
    BUNDLE_LIMITS,
    LARGEST_FILE,
    BundleFiles,
    BundleSource,
    RegistryAccess,
)
from tests.worlds.bundle_images import ANNOTATIONS, CRD, SERVICE, bundle_image, csv, files
from tests.worlds.image_registry_fake import RegistryFake, link, registry_fake, send, tar


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


@pytest.fixture
def fake(running: RegistryFake) -> RegistryFake:
    running.wrong.clear()
    running.seen.clear()
    return running


def read(fake: RegistryFake, wanted: str = ":v1", **options) -> BundleFiles:
    options = {"access": RegistryAccess(frozenset([fake.host])), **options}
    return BundleSource(f"{fake.host}/olm/kettle{wanted}", **options).fetch()


def packed(fake: RegistryFake) -> Packed:
    found = read(fake)
    return pack("the image", found.manifests, found.metadata, found.folders)


def failure(fake: RegistryFake) -> SourceError:
    with pytest.raises(SourceError) as caught:
        packed(fake)
    return caught.value


def blobs_asked_for(fake: RegistryFake) -> int:
    return sum("/blobs/" in path for _, path, _ in fake.seen)


def test_the_objects_and_the_annotations_of_an_image_are_read(fake):
    digest = bundle_image(fake)
    found = read(fake)
    assert found.digest == digest
    assert [name for name, _ in found.manifests] == [
        "0-clusterserviceversion.yaml",
        "1-customresourcedefinition.yaml",
        "2-service.yaml",
    ]
    read_back = pack("x", found.manifests, found.metadata, found.folders)
    assert [json.loads(bytes(each)) for each in read_back.objects] == [csv(), CRD, SERVICE]
    assert read_back.annotations == ANNOTATIONS["annotations"]


def test_layers_copied_to_other_folders_are_not_pulled(fake):
    layers = [tar((f"layer{n}", b"x")) for n in range(3)]
    bundle_image(
        fake,
        *layers,
        tar(*files(csv())),
        history=[
            "COPY tests/scorecard /tests/scorecard/ # buildkit",
            "/bin/sh -c #(nop) COPY dir:0123 in /docs ",
            'COPY ["a b", "/licenses/"]',
            "COPY bundle / # buildkit",
        ],
    )
    found = read(fake)
    assert found.passed_over == 3
    assert len(found.manifests) == 1
    assert blobs_asked_for(fake) == 2  # the config, one layer


@pytest.mark.parametrize(
    "step",
    [
        "COPY manifests /manifests/ # buildkit",
        "/bin/sh -c #(nop) COPY dir:0123 in /manifests/",
        "COPY manifests manifests",
        "COPY a /tests/../manifests",
        "COPY a $TARGET",
        "ADD rootfs.tar /",
        "RUN cp -r a /manifests; echo COPY b /tests",
        "COPY",
        "",
    ],
)
def test_a_layer_that_may_hold_manifests_is_pulled(fake, step):
    bundle_image(fake, tar(*files(csv())), history=[step])
    assert len(read(fake).manifests) == 1


def test_a_history_that_does_not_fit_the_layers_decides_nothing(fake):
    bundle_image(fake, tar(*files(csv())), tar(("x", b"y")), history=["COPY a /tests/"])
    assert read(fake).passed_over == 0


def test_without_labels_the_usual_folders_are_read_and_with_them_theirs(fake):
    bundle_image(fake, labels=None)
    assert len(read(fake).manifests) == 3
    moved = [(f"deploy/{name}", data) for name, data in files(csv())]
    labels = {"operators.operatorframework.io.bundle.manifests.v1": "/deploy/manifests"}
    bundle_image(fake, tar(*moved), labels=labels)
    assert len(read(fake).manifests) == 1


def test_an_upper_layer_replaces_and_hides_what_is_below(fake):
    lower = tar(*files(csv(), CRD))
    upper = tar(("manifests/.wh.1-customresourcedefinition.yaml", b""), *files(csv(), SERVICE)[1:2])
    bundle_image(fake, lower, upper)
    assert [name for name, _ in read(fake).manifests] == [
        "0-clusterserviceversion.yaml",
        "1-service.yaml",
    ]


def test_texts_beside_manifests_and_folders_below_are_told_apart(fake):
    more = [("manifests/README.md", b"# hi"), ("manifests/sub/a.yaml", b"kind: X")]
    bundle_image(fake, tar(*files(csv()), *more))
    found = read(fake)
    assert ([name for name, _ in found.manifests], found.folders) == (
        ["0-clusterserviceversion.yaml"],
        ("sub",),
    )


def test_several_documents_of_a_file_are_several_objects(fake):
    two = b"---\napiVersion: v1\nkind: A\n--- # next\napiVersion: v1\nkind: B\n---\n"
    bundle_image(fake, tar(*files(csv(), two=two)))
    kinds = [json.loads(bytes(each))["kind"] for each in packed(fake).objects]
    assert kinds == ["ClusterServiceVersion", "A", "B"]


ALIASES = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 108)
)


@pytest.mark.parametrize(
    ("member", "code", "words"),
    [
        (("manifests/z.yaml", ALIASES), "yaml-aliases", "z.yaml"),
        (("manifests/z.yaml", b"a: [" * 5_000), "too-deep", "z.yaml"),
        (("manifests/z.yaml", b"\tnot: yaml: at all"), "not-yaml", "z.yaml"),
        (("manifests/z.yaml", b"- a list\n"), "no-object", "no Kubernetes object"),
        (("manifests/z.yaml", b"kind: [1]\napiVersion: v1\n"), "no-object", "z.yaml"),
        (("manifests/z.json", b'{"kind": "A", "apiVersion"'), "not-json", "z.json"),
        (("manifests/z.json", b'{"a":' * 100_000), "not-json", "z.json"),
        (("manifests/z.yaml", b" " * (LARGEST_FILE + 1)), "too-large", "more than the"),
        (link("manifests/z.yaml", "../../etc/passwd"), "bad-link", "leads out"),
        (link("manifests/z.yaml", "/etc/passwd"), "bad-link", "leads out"),
        (link("manifests/z.yaml", "z.yaml"), "bad-link", "circle"),
        (link("manifests/z.yaml", "/etc/passwd", tarfile.LNKTYPE), "bad-link", "hard link"),
        (("manifests/../../../etc/cron.d/x.yaml", b"x"), "climbs-out", "climbs out"),
        (link("manifests/z.yaml", "", tarfile.FIFOTYPE), "not-a-file", "a pipe"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_in_a_sentence_that_names_it(fake, member, code, words):
    bundle_image(fake, tar(*files(csv()), member))
    error = failure(fake)
    assert (error.code, words in error.message) == (code, True), error.message


def test_a_link_inside_the_folder_is_followed(fake):
    members = files(csv())
    bundle_image(fake, tar(*members, link("manifests/z.yaml", members[0][0].rpartition("/")[2])))
    assert len(read(fake).manifests) == 2


def test_a_decompression_bomb_is_refused(fake):
    bundle_image(fake, tar(("manifests/a.yaml", b"\0" * 40_000_000)))
    assert failure(fake).code in ("expands", "too-large")


def test_layers_over_the_cap_are_refused_before_any_is_pulled(fake):
    bundle_image(fake)
    with pytest.raises(SourceError, match="that are pulled") as caught:
        read(fake, limits=replace(BUNDLE_LIMITS, layers=100))
    assert caught.value.code == "too-large"
    assert blobs_asked_for(fake) == 1  # the config


def test_a_layer_that_is_not_what_its_digest_says_is_refused(fake):
    digest = bundle_image(fake)
    layer = json.loads(fake.manifests[digest][1])["layers"][0]["digest"]
    other = bytes(len(fake.blobs[layer]))
    fake.wrong[layer] = lambda request: send(request, 200, other)
    assert failure(fake).code in ("wrong-digest", "cut-short", "broken-encoding")


def test_a_manifest_that_is_not_what_its_digest_says_is_refused(fake):
    digest = bundle_image(fake)
    fake.wrong[digest] = lambda request: send(request, 200, fake.manifests[digest][1] + b" ")
    with pytest.raises(SourceError) as caught:
        read(fake, f"@{digest}")
    assert caught.value.code == "wrong-digest"


@pytest.mark.parametrize(
    ("members", "code"),
    [((("etc/passwd", b"x"),), "no-manifests"), (files(SERVICE), "no-csv")],
)
def test_an_image_that_is_no_bundle_is_refused(fake, members, code):
    bundle_image(fake, tar(*members))
    assert failure(fake).code == code


@pytest.mark.parametrize("host", ["127.0.0.1:1", "169.254.169.254", "10.0.0.1", "[::1]:5000"])
def test_a_registry_at_an_inner_address_is_not_asked_for_a_catalog_alone(host):
    source = BundleSource(f"{host}/olm/kettle:v1", access=RegistryAccess(named_by_others=True))
    with pytest.raises(SourceError, match="may not be read"):
        source.fetch()
