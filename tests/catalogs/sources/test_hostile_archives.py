"""Layers and tars whose headers are larger than what they describe: refused in bounded memory."""

import subprocess
import sys

import pytest

GROWTH = 100  # MiB of resident memory

REFUSED = {
    "pax": "tar-headers",
    "global": "tar-headers",
    "longname": "tar-headers",
    "longlink": "tar-headers",
    "chain": "tar-headers",
    "records": "tar-headers",
    "links": "path-too-long",
    "backwards": "cut-short",
}


def read(way: str, kind: str) -> tuple[str, int]:
    """The error's code and the growth of memory, in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.catalogs.sources.hostile_layer", way, kind],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    code, growth = run.stdout.split()
    return code, int(growth)


@pytest.mark.parametrize("way", ["layer", "file"])
@pytest.mark.parametrize("kind", REFUSED)
def test_extension_headers_over_the_limits_are_refused_before_they_are_read(way, kind):
    code, growth = read(way, kind)
    assert code == REFUSED[kind]
    assert growth < GROWTH


@pytest.mark.parametrize("kind", ["sparse-blocks", "sparse-map"])
def test_maps_of_sparse_files_are_not_read(kind):
    _, growth = read("layer", kind)
    assert growth < GROWTH


def test_the_names_of_many_deep_folders_are_bounded():
    code, growth = read("layer", "folders")
    assert code == "too-many-files"
    assert growth < 250
