"""Packages, channels and bundles of real catalogs beside what the real opm lists of them.

opm refuses a catalog at its first fault, so what it refuses is split: every package in which we
found no fault that opm minds goes into one folder, which opm has to accept.
"""

import importlib.util
import json
import lzma
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from catalogs.fbc.blob import read_header
from catalogs.models import Bundle, Catalog, Channel, ChannelEntry, ContentProblem, Package
from catalogs.sync.catalog import sync_catalog
from tests.conftest import SHARED
from tests.peers.build import binary

pytestmark = [pytest.mark.peers, pytest.mark.data, pytest.mark.django_db]
GRAPH_CODES = ("no-head", "several-heads", "cycle", "stranded")
# Least that has to be compared with opm itself: packages, channels, entries.
LEAST = {
    "community-4.16": (15, 20, 200),
    "community-4.20": (30, 60, 700),
    "community-full": (120, 220, 2500),
}


def opm(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary("opm")), *command], capture_output=True, text=True, timeout=300
    )


def listed(what: str, folder: Path) -> list[list[str]]:
    """The rows of `opm alpha list`, cut where the columns of its header begin."""
    done = opm("alpha", "list", what, str(folder))
    assert done.returncode == 0, done.stderr
    header, *lines = done.stdout.splitlines()
    names = {
        "packages": ("NAME", "DISPLAY NAME", "DEFAULT CHANNEL"),
        "channels": ("PACKAGE", "CHANNEL", "HEAD"),
        "bundles": ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"),
    }[what]
    starts, at = [], 0
    for name in names:
        at = header.index(name, at)
        starts.append(at)
        at += len(name)
    ends = [*starts[1:], None]
    return [[line[i:j].strip() for i, j in zip(starts, ends, strict=True)] for line in lines]


@pytest.fixture(params=["community-4.16", "community-4.20", "community-full"])
def catalog(request, shared_data, opm_is_built) -> Catalog:
    path = shared_data / "catalogs" / f"{request.param}.jsonl.xz"
    catalog = Catalog.objects.create(
        name=request.param, slug=request.param, source_kind="File", source=str(path)
    )
    assert sync_catalog(catalog).outcome == "changed"
    return catalog


Blobs = dict[str, list[bytes]]  # lines of the catalog by package


def read_blobs(catalog: Catalog) -> Blobs:
    found: Blobs = defaultdict(list)
    with lzma.open(catalog.source) as lines:
        for line in lines:
            header = read_header(line)[0]
            found[header.owner].append(line)
    return found


def write(folder: Path, blobs: Blobs, packages: set[str]) -> Path:
    folder.mkdir()
    with (folder / "catalog.json").open("wb") as file:
        for package in packages:
            file.writelines(blobs[package])
    return folder


def test_our_lists_are_opms_and_what_we_call_faulty_it_refuses(catalog, tmp_path):
    blobs = read_blobs(catalog)
    packages = set(Package.objects.values_list("name", flat=True))
    assert set(blobs) == packages
    faulty = ContentProblem.objects.filter(severity="error")
    refused = set(faulty.values_list("package", flat=True))
    verdict = opm("validate", str(write(tmp_path / "whole", blobs, packages)))
    assert (verdict.returncode != 0) == bool(refused)
    sound = write(tmp_path / "sound", blobs, packages - refused)
    _compare_packages(sound, packages - refused)
    channels = _compare_channels(sound, packages - refused)
    entries = _compare_entries(sound, packages - refused)
    compared = (len(packages - refused), channels, entries)
    print(f"{catalog.name}: packages, channels, entries compared with opm: {compared}")
    assert all(ours >= least for ours, least in zip(compared, LEAST[catalog.name], strict=True))
    kinds = {problem.code: problem for problem in faulty}
    for code, problem in kinds.items():
        folder = write(tmp_path / code, blobs, {problem.package})
        _compare_fault(folder, problem)
    assert len(kinds) == (5 if catalog.name == "community-full" else 0)
    if catalog.name == "community-full":
        _known_faults()
    print(f"{catalog.name}: channels compared with the reference: {_compare_reference(blobs)}")


def _compare_fault(folder: Path, problem: ContentProblem) -> None:
    """opm refuses the package by itself, with our sentence among its own."""
    done = opm("validate", str(folder), "-o", "json")
    assert done.returncode != 0
    sentence = problem.message.split(": ", 1)[-1]
    if problem.code == "skip-range":
        # What opm's libraries say of a range they can't read, we say in words of our own.
        sentence = sentence.split('": ')[0]
    assert sentence in json.loads(done.stdout)["error"]["message"]


def _known_faults() -> None:
    told = ContentProblem.objects.values_list("package", "code", "message")
    images = Counter(package for package, code, _ in told if code == "image")
    assert images == {"kuadrant-operator": 14, "sosivio": 1}
    kuadrant = {
        message.split('pull spec "')[1].split('"')[0]
        for package, code, message in told
        if (package, code) == ("kuadrant-operator", "image")
    }
    assert len(kuadrant) == 6  # in 14 bundles
    assert all(image.startswith("oci://") for image in kuadrant)
    (sosivio,) = (
        message for package, code, message in told if (package, code) == ("sosivio", "image")
    )
    assert '@": invalid reference format' in sosivio
    assert ("nlp-server", "icon", "parse package: illegal base64 data at input byte 78316") in told
    assert sum(code == "several-heads" for _, code, _ in told) == 257


def _compare_reference(blobs: Blobs) -> int:
    """Every channel of every package, sound or not, beside the plain reference."""
    spec = importlib.util.spec_from_file_location("fbc_ref", SHARED / "reference" / "fbc_ref.py")
    assert spec
    assert spec.loader
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    channels = Channel.objects.select_related("package")
    heads = {(row.package.name, row.name): row.head for row in channels}
    told = {
        (row.package, row.subject): row.message
        for row in ContentProblem.objects.filter(code__in=GRAPH_CODES)
    }
    for lines in blobs.values():
        for line in lines:
            if read_header(line)[0].schema != "olm.channel":
                continue
            blob = json.loads(line)
            key, problem = (blob["package"], blob["name"]), ""
            try:
                head = reference.validate_channel(blob["entries"])
                assert heads[key] == head
            except ValueError as error:
                problem = str(error)
            assert told.pop(key, "").removeprefix(f'invalid channel "{key[1]}": ') == problem
            heads.pop(key)
    assert told == {}
    assert heads == {}
    return Channel.objects.count()


def _compare_packages(folder: Path, packages: set[str]) -> None:
    ours = Package.objects.filter(name__in=packages).order_by("name")
    theirs = listed("packages", folder)
    assert [[row.name, row.default_channel] for row in ours] == [[row[0], row[2]] for row in theirs]
    # opm tells display names of catalogs with olm.bundle.object only.
    told = {row[0]: row[1] for row in theirs if row[1]}
    assert told == {row.name: row.display_name for row in ours if row.name in told}


def _compare_channels(folder: Path, packages: set[str]) -> int:
    ours = Channel.objects.filter(package__name__in=packages).select_related("package")
    rows = sorted([row.package.name, row.name, row.head] for row in ours)
    assert rows == listed("channels", folder)
    return len(rows)


def _compare_entries(folder: Path, packages: set[str]) -> int:
    images: dict[str, dict[str, str]] = defaultdict(dict)
    bundles = Bundle.objects.filter(package__name__in=packages)
    for package, name, image in bundles.values_list("package__name", "name", "image"):
        images[package][name] = image
    entries = ChannelEntry.objects.filter(channel__package__name__in=packages)
    fields = ("channel__package__name", "channel__name", "name", "replaces", "skips", "skip_range")
    rows = sorted(
        [package, channel, name, replaces, ",".join(skips), skip_range, images[package][name]]
        for package, channel, name, replaces, skips, skip_range in entries.values_list(*fields)
    )
    assert rows == listed("bundles", folder)
    return len(rows)
