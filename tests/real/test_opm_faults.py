"""Each fault of content in the words of the real opm, which refuses what we say it refuses."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.peers.build import binary
from tests.worlds.fault_parts import Sample
from tests.worlds.fault_samples import SAMPLES, YAML_SAMPLES

pytestmark = pytest.mark.peers


def opm_says(folder: Path, sample: Sample) -> str:
    """What `opm validate` has against a catalog; "" when it passes."""
    folder.mkdir(exist_ok=True)
    (folder / "catalog").write_bytes(sample.blobs)
    done = subprocess.run(
        [str(binary("opm")), "validate", str(folder), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return str(json.loads(done.stdout)["error"]["message"]) if done.returncode else ""


@pytest.mark.parametrize("sample", [*SAMPLES, *YAML_SAMPLES], ids=lambda sample: sample.code)
def test_opm_says_the_same(opm_is_built, tmp_path, sample):
    said = opm_says(tmp_path / "catalog", sample)
    assert bool(said) == sample.opm, said
    if sample.opm:
        assert sample.says in said
