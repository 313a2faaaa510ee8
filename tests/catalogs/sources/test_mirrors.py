"""Mirrors of image registries: which registry is asked, by files and by objects of clusters."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from catalogs.contents import inspection
from catalogs.contents.bulk_inspection import inspect_images
from catalogs.models import BundleInspection, RegistryMirrors
from catalogs.sources.base import SourceError
from catalogs.sources.oci.mirrors import Endpoint, Registries, read_file, rules_of
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.registry_access import refresh_mirrors, registry_access
from olmweb.kube.resources import MIRROR_SETS
from tests.factories import make_cluster
from tests.kubefake import KubeFake, status_answer
from tests.worlds.bundle_images import bundle_image
from tests.worlds.image_registry_fake import RegistryFake, registry_fake, status

DIGEST = f"sha256:{'a' * 64}"
NEVER = "NeverContactSource"
FILE = """
unqualified-search-registries = ["docker.io"]

[[registry]]
prefix = "quay.example/team"
location = "inner.example:5000/team"
[[registry.mirror]]
location = "one.example/copies"
insecure = true
[[registry.mirror]]
location = "two.example"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "three.example"
pull-from-mirror = "tag-only"

[[registry]]
location = "quay.example"
blocked = true
[[registry.mirror]]
location = "cache.example/quay"

[[registry]]
prefix = "*.corp.example"
mirror-by-digest-only = true
[[registry.mirror]]
location = "hub.example/corp"

[[registry]]
location = "bad.example"
blocked = true
"""


def asked(registries: Registries, image: str) -> list[str]:
    found = registries.endpoints(parse_reference(image))
    return [f"{e.reference}{' insecure' if e.insecure else ''}" for e in found]


@pytest.fixture
def registries(tmp_path: Path) -> Registries:
    file = tmp_path / "registries.conf"
    file.write_text(FILE)
    return Registries(read_file(file))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (
            f"quay.example/team/op@{DIGEST}",
            [
                f"one.example/copies/op@{DIGEST} insecure",
                f"two.example/op@{DIGEST}",
                f"inner.example:5000/team/op@{DIGEST}",
            ],
        ),
        (
            "quay.example/team/op:v1",
            [
                "one.example/copies/op:v1 insecure",
                "three.example/op:v1",
                "inner.example:5000/team/op:v1",
            ],
        ),
        ("quay.example/teams/op:v1", ["cache.example/quay/teams/op:v1"]),
        (
            f"a.corp.example/op@{DIGEST}",
            [f"hub.example/corp/op@{DIGEST}", f"a.corp.example/op@{DIGEST}"],
        ),
        ("a.corp.example/op:v1", ["a.corp.example/op:v1"]),
        ("other.example/op:v1", ["other.example/op:v1"]),
    ],
)
def test_the_longest_prefix_of_the_file_decides(
    registries: Registries, image: str, expected: list[str]
) -> None:
    assert asked(registries, image) == expected


def test_a_blocked_registry_without_a_mirror_is_refused(registries: Registries) -> None:
    with pytest.raises(SourceError, match=r"bad\.example") as caught:
        registries.endpoints(parse_reference("bad.example/op:v1"))
    assert caught.value.code == "blocked"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[registry", "is not TOML"),
        ("[registries.search]\nregistries = ['a']", "is of version 1"),
        ("[[registry]]\ninsecure = true", "neither prefix nor location"),
        ("[[registry]]\nlocation = 'a.example'\n[[registry.mirror]]\ninsecure = true", "location"),
        ("registry = 3", "incomplete"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_name(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "registries.conf"
    file.write_text(text)
    with pytest.raises(SourceError, match=why) as caught:
        read_file(file)
    assert (str(file) in caught.value.message, caught.value.code) == (True, "registries-conf")
    with pytest.raises(SourceError, match="can't be read"):
        read_file(tmp_path / "absent")


def mirror_set(kind: int, name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    field = ("imageDigestMirrors", "imageTagMirrors", "repositoryDigestMirrors")[kind]
    spec = {field: list(entries)}
    return {"kind": MIRROR_SETS[kind].kind, "metadata": {"name": name}, "spec": spec}


def entry(source: str, *mirrors: str, **more: str) -> dict[str, Any]:
    return {"source": source, "mirrors": list(mirrors), **more}


def test_the_sets_of_a_cluster_are_merged_by_source() -> None:
    rules = rules_of(
        [
            mirror_set(0, "a", entry("quay.example/team", "m1.example/t")),
            mirror_set(1, "b", entry("quay.example/team", "m2.example/t")),
            mirror_set(2, "c", entry("quay.example/team", "m1.example/t", "m3.example/t")),
            mirror_set(0, "d", entry("air.example", "m4.example", mirrorSourcePolicy=NEVER)),
            {"kind": "ImageDigestMirrorSet", "metadata": {"name": "odd"}, "spec": 3},
            mirror_set(0, "e", {"source": "x.example"}, {"mirrors": ["y"]}),
        ]
    )
    found = Registries(clusters=rules)
    assert asked(found, f"quay.example/team/op@{DIGEST}") == [
        f"m1.example/t/op@{DIGEST}",
        f"m3.example/t/op@{DIGEST}",
        f"quay.example/team/op@{DIGEST}",
    ]
    assert asked(found, "quay.example/team/op:v1") == [
        "m2.example/t/op:v1",
        "quay.example/team/op:v1",
    ]
    assert asked(found, f"air.example/op@{DIGEST}") == [f"m4.example/op@{DIGEST}"]
    assert len(rules) == 2


def test_the_file_goes_before_the_clusters_and_a_mirror_is_asked_once(
    registries: Registries,
) -> None:
    rules = rules_of([mirror_set(0, "a", entry("quay.example/team", "two.example", "m.example"))])
    both = Registries(registries.file, rules)
    assert asked(both, f"quay.example/team/op@{DIGEST}") == [
        f"one.example/copies/op@{DIGEST} insecure",
        f"two.example/op@{DIGEST}",
        f"m.example/op@{DIGEST}",
        f"inner.example:5000/team/op@{DIGEST}",
    ]
    first = both.endpoints(parse_reference(f"quay.example/team/op@{DIGEST}"))[0]
    assert isinstance(first, Endpoint)
    assert first.configured


# -- against registries and a cluster ----------------------------------------------------------


@pytest.fixture
def mirror() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


@pytest.fixture
def conf(tmp_path: Path, settings: Any) -> Path:
    file = tmp_path / "registries.conf"
    settings.REGISTRIES_CONF = str(file)
    return file


def mirrored(*hosts: str, blocked: bool = True) -> str:
    lines = [
        "[[registry]]",
        'location = "upstream.invalid/olm"',
        f"blocked = {str(blocked).lower()}",
    ]
    for host in hosts:
        lines += ["[[registry.mirror]]", f'location = "{host}/copy"', "insecure = true"]
    return "\n".join(lines)


@pytest.mark.django_db
def test_an_image_is_pulled_from_the_mirror_that_has_it(mirror: RegistryFake, conf: Path) -> None:
    with registry_fake() as empty:
        conf.write_text(mirrored(empty.host, mirror.host))
        image = f"upstream.invalid/olm/kettle@{bundle_image(mirror)}"
        run = inspect_images([image])
        assert (run.inspected, run.failed) == (1, {})
        assert {path.split("/manifests")[0] for _, path, _ in empty.seen} == {"/v2/copy/kettle"}
        assert run.requests == len(empty.seen) + len(mirror.seen) == 1 + 3
    row = BundleInspection.objects.get()
    assert (row.image, row.requests) == (image, 4)


@pytest.mark.django_db
def test_the_error_names_every_registry_that_was_asked(mirror: RegistryFake, conf: Path) -> None:
    with registry_fake() as other:
        conf.write_text(mirrored(mirror.host, other.host))
        other.wrong["v1"] = status(403)
        row = inspection.start("upstream.invalid/olm/kettle:v1", "olivia")
        assert row is not None
        inspection.run(row)
        row.refresh_from_db()
        assert row.error_code == "not-found"
        assert f"{mirror.host}/copy/kettle:v1 is not in its registry" in row.error_text
        assert f"{other.host}/copy/kettle:v1 may not be read" in row.error_text


@pytest.mark.django_db
def test_one_mirror_of_many_registries_gets_the_images_of_one_registry(
    mirror: RegistryFake, conf: Path, settings: Any
) -> None:
    conf.write_text(
        f'[[registry]]\nprefix = "*.invalid"\n[[registry.mirror]]\nlocation = "{mirror.host}"'
    )
    access = inspection.access()
    assert {access.first_registry(f"r{n}.invalid/olm/op:v1") for n in range(3)} == {mirror.host}
    assert access.first_registry("Not An Image/x") == "Not An Image"


@pytest.mark.django_db
def test_an_unreadable_file_fails_an_inspection_with_its_sentence(conf: Path) -> None:
    conf.write_text("[[")
    row = inspection.start("upstream.invalid/olm/kettle:v1", "olivia")
    assert row is not None
    inspection.run(row)
    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", "registries-conf")


@pytest.fixture
def cluster_api(tmp_path: Path, settings: Any) -> Iterator[KubeFake]:
    with KubeFake() as api:
        settings.KUBECONFIG = str(api.write_kubeconfig(tmp_path / "kubeconfig"))
        make_cluster(name="prod", context="prod")
        yield api


@pytest.mark.django_db
def test_the_mirrors_of_a_cluster_are_read_by_a_worker_and_kept(
    cluster_api: KubeFake, mirror: RegistryFake, settings: Any
) -> None:
    settings.INSECURE_REGISTRIES = frozenset([mirror.host])
    digests = MIRROR_SETS[0]
    cluster_api.show(digests)
    cluster_api.put(digests, mirror_set(0, "a", entry("upstream.invalid/olm", f"{mirror.host}/m")))
    run = inspect_images([f"upstream.invalid/olm/kettle@{bundle_image(mirror)}"])
    assert run.inspected == 1
    assert {path.split("/manifests")[0].split("/blobs")[0] for _, path, _ in mirror.seen} == {
        "/v2/m/kettle"
    }
    assert len(cluster_api.requests) == len(MIRROR_SETS)  # two kinds are not served
    assert RegistryMirrors.objects.get().error == ""
    refresh_mirrors()
    assert len(cluster_api.requests) == len(MIRROR_SETS)


@pytest.mark.django_db
def test_mirrors_that_may_not_be_read_any_more_stay(cluster_api: KubeFake) -> None:
    digests = MIRROR_SETS[0]
    cluster_api.show(digests)
    cluster_api.put(digests, mirror_set(0, "a", entry("upstream.invalid", "m.example")))
    refresh_mirrors()
    before = registry_access().registries.clusters
    assert [rule.prefix for rule in before] == ["upstream.invalid"]
    RegistryMirrors.objects.update(read_at=timezone.now() - timedelta(hours=1))
    path = f"/apis/{digests.group}/v1/{digests.plural}"
    cluster_api.script("GET", path, status_answer(403, "forbidden", "Forbidden"))
    refresh_mirrors()
    assert registry_access().registries.clusters == before
    assert "prod" in RegistryMirrors.objects.get().error


@pytest.mark.django_db
def test_a_cluster_gives_no_other_content_to_the_catalogs_of_others(settings: Any) -> None:
    rules = rules_of(
        [
            mirror_set(0, "a", entry("up.example", "m.example", mirrorSourcePolicy=NEVER)),
            mirror_set(1, "b", entry("up.example", "tags.example")),
        ]
    )
    prod, edge = make_cluster(name="prod"), make_cluster(name="edge")
    RegistryMirrors.objects.create(
        cluster=prod, rules=msgspec.to_builtins(rules), read_at=timezone.now()
    )
    tag, pinned = "up.example/op:v1", f"up.example/op@{DIGEST}"
    own, of_prod = registry_access().registries, registry_access(cluster=prod).registries
    assert asked(own, tag) == ["up.example/op:v1"]
    assert asked(own, pinned) == [f"m.example/op@{DIGEST}", pinned]
    assert asked(of_prod, tag) == ["tags.example/op:v1"]
    assert asked(of_prod, pinned) == [f"m.example/op@{DIGEST}"]
    assert asked(registry_access(cluster=edge).registries, pinned) == [pinned]
    bundles = registry_access(named_by_others=True).registries
    assert asked(bundles, tag) == ["tags.example/op:v1"]
    # An object of a cluster opens no private address.
    assert not any(e.configured for e in bundles.endpoints(parse_reference(pinned)))
