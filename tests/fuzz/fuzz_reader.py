"""Fuzzes the reader of catalogs with atheris: `make fuzz`.

Bytes go where a catalog's bytes go: splitter, reader of packages, faults, places, texts. Whatever
they are, nothing but NotFbc and CutShort is raised, and a sound package before them is read whole
and without problems. Arguments are libFuzzer's: `-max_total_time=600 CORPUS` for ten minutes; an
input that fails is written to a file, which `python -m tests.fuzz.fuzz_reader FILE` runs again.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["catalogs"]):
    from catalogs.fbc.package import PackageReader
    from catalogs.fbc.positions import Positions
    from catalogs.fbc.split import CutShort, NotFbc, PackageIndex, index_spool, read_blob

from tests.worlds.fault_samples import SAMPLES, YAML_SAMPLES
from tests.worlds.fbc import jsonl, package

SOUND = jsonl(package("sound"))
FILES = ((0, "sound.json"), (len(SOUND), "fuzzed"))
BLOB_LIMIT = 100_000
RSS_LIMIT = "-rss_limit_mb=2048"


def read(data: bytes, name: str, part: PackageIndex) -> PackageReader:
    """All that sync does with a package, but the rows."""
    reader = PackageReader(name)
    bundles = {}
    for wanted in (False, True):
        for position, at in enumerate(part):
            if at.bundle == wanted:
                header, json = read_blob(data[at.offset : at.offset + at.length])
                if wanted:
                    bundles[position] = json
                    reader.read_bundle(json, at.offset, position)
                else:
                    reader.read(header, json, at.offset)
    standing = reader.standing(reader.finish())
    reader.texts(bundles[standing[1]] if standing else None)
    return reader


def check(fuzzed: bytes) -> None:
    """One execution. In a spool of two files a cut in the second would be a cut of all, so its
    first byte decides whether the fuzzed bytes stand alone, follow in a file, or are a file."""
    mode, fuzzed = (fuzzed[0] % 3, fuzzed[1:]) if fuzzed else (0, b"")
    data = fuzzed if mode == 0 else SOUND + fuzzed
    files = FILES if mode == 2 else ()
    try:
        index = index_spool(io.BytesIO(data), limit=BLOB_LIMIT, files=files)
    except (NotFbc, CutShort):
        return
    places = Positions(lambda offset, length: data[offset : offset + length], files)
    places.fill(index.problems)
    for name, part in index.packages.items():
        for at in part:
            assert 0 < at.length <= BLOB_LIMIT
            begin = max((start for start, _ in files if start <= at.offset), default=0)
            assert at.line == 1 + data[begin : at.offset].count(b"\n")
        reader = read(data, name, part)
        for problem in places.fill(reader.problems, part):
            assert problem.offset is not None
            assert 0 <= problem.offset <= len(data)
            assert len(problem.excerpt) <= 200
        if name == "sound" and mode and b"sound" not in fuzzed.lower() and b"\\u" not in fuzzed:
            assert (reader.bundle_count, reader.problems) == (2, [])
    if mode:
        assert "sound" in index.packages


def main() -> None:
    arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as seeds:
        for i, sample in enumerate((*SAMPLES, *YAML_SAMPLES)):
            for mode in (b"\0", b"\1", b"\2"):
                Path(seeds, f"{i}-{mode[0]}").write_bytes(mode + sample.blobs)
        options = [] if any(Path(each).is_file() for each in arguments) else [seeds]
        atheris.Setup([sys.argv[0], RSS_LIMIT, *arguments, *options], check)
        atheris.Fuzz()


if __name__ == "__main__":
    os.nice(10)
    main()
