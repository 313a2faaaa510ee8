"""Every fault of content: its code, its words, its place; and what each reader makes of it."""

import base64
import io
import json

import pytest

from catalogs.fbc.blob import content_problem
from catalogs.fbc.lint import LONGEST_MESSAGE, MAX_FAULTS, image_fault
from catalogs.fbc.lint_impact import INSTALLS, REACTIONS, REFUSES, SKIPS, UNKNOWN, reactions_of
from catalogs.fbc.positions import Positions, locate_json, read_steps
from catalogs.fbc.split import index_spool, read_blob
from tests.worlds.fault_parts import SOUND, Sample
from tests.worlds.fault_samples import SAMPLES, YAML_SAMPLES
from tests.worlds.fbc import bundle_blob, channel_blob, jsonl, package, package_blob
from tests.worlds.fbc_reading import read_catalog, read_package

OURS = {"too-deep", "blob-too-large", "yaml-aliases", "name-too-long", "nul", "more", "unreadable"}


@pytest.mark.parametrize("sample", [*SAMPLES, *YAML_SAMPLES], ids=lambda sample: sample.code)
def test_a_fault_has_its_position(sample: Sample):
    problems = [problem for problem in read_catalog(sample.blobs) if problem.code == sample.code]
    assert problems
    matches = [problem for problem in problems if sample.says in problem.message]
    assert matches, [problem.message for problem in problems]
    assert sample.field in {problem.field for problem in matches} or not sample.field
    assert sample.subject in {problem.subject for problem in matches} or not sample.subject
    assert {problem.severity for problem in matches} == {"error" if sample.opm else "warning"}
    for problem in matches:
        assert problem.offset is not None
        assert problem.line is not None
        assert sample.blobs[: problem.offset].count(b"\n") + 1 == problem.line
        assert problem.excerpt


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.code)
def test_a_sound_package_beside_a_faulty_one_stays_without_problems(sample: Sample):
    problems = read_catalog(jsonl(package("sound")) + sample.blobs)
    assert problems
    assert all(problem.package != "sound" for problem in problems)


def test_every_code_has_a_sample_or_is_a_limit_of_our_own():
    assert {sample.code for sample in (*SAMPLES, *YAML_SAMPLES)} | OURS == set(REACTIONS)


def test_every_reaction_is_one_of_three_and_names_a_remedy():
    for code, found in REACTIONS.items():
        assert set(found[2:]) <= {REFUSES, SKIPS, INSTALLS}, code
        assert found.remedy.endswith((".", ")."))
        assert found.severity == ("error" if found.opm == REFUSES else "warning")
        # Whoever runs opm serve refuses what opm refuses.
        assert found.opm != REFUSES or found.olm_v0 == found.platform_operator == REFUSES
    assert reactions_of("no such code") is UNKNOWN


def test_a_sound_catalog_has_no_problem():
    assert read_catalog(jsonl(SOUND)) == []


def test_the_offset_is_the_byte_of_the_field_in_the_catalog():
    blob = bundle_blob(relatedImages=[{"name": "é", "image": ""}, {"image": "oci://r/i"}])
    data = jsonl([package_blob(), channel_blob(entries=[{"name": "etcd.v1.0.0"}]), blob])
    (problem,) = read_catalog(data)
    assert problem.field == "relatedImages[1].image"
    assert problem.offset == data.index(b'"oci://')
    assert '"oci://r/i"' in problem.excerpt
    assert problem.line == 3


def test_the_offset_is_found_in_yaml_too():
    data = (
        "---\nschema: olm.package\nname: etcd\ndefaultChannel: stable\n"
        "---\n# é\nschema: olm.channel\npackage: etcd\nname: stable\nentries:\n"
        '- name: é\n  skipRange: ">=1"\n'
    ).encode()
    problem = next(problem for problem in read_catalog(data) if problem.code == "skip-range")
    assert problem.offset == data.index(b'">=1"')
    assert problem.line == 12
    assert '">=1"' in problem.excerpt


def test_file_and_line_are_reported_of_a_catalog_of_several_files():
    first, second = jsonl(SOUND), jsonl(package("other")) + b'{"schema": 5}\n'
    files = ((0, "a/catalog.json"), (len(first), "b/catalog.json"))
    (problem,) = read_catalog(first + second, files)
    assert (problem.file, problem.line) == ("b/catalog.json", 5)


def test_an_excerpt_is_short_and_holds_no_control_characters():
    data = b'{"schema": "s", "x": "' + b"\x1b" + b"y" * 5000
    places = Positions(lambda offset, length: data[offset : offset + length])
    (problem,) = places.fill([content_problem("not-json", "m", 0)])
    assert len(problem.excerpt) <= 160
    assert "\x1b" not in problem.excerpt


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("a", b"[1"),
        ("a[1].b", b'{"c"'),
        ("a[1].b.c", b'"x\\"y"'),
        ("a[9]", b"[1"),
        ("B", b"null"),
        ("z", b'{"a"'),
        ("a[1].b.c.d[0]", b'"x\\"y"'),
    ],
)
def test_a_field_is_located_or_the_deepest_value_above_it(field, value):
    data = b'{"a": [1, {"b": {"c": "x\\"y"}}], "b" : null}'
    at = locate_json(data, read_steps(field))
    assert data[at:].startswith(value)


def test_the_faults_of_one_package_are_bounded():
    images = [{"image": f"oci://r/{i}"} for i in range(MAX_FAULTS + 500)]
    problems = read_catalog(jsonl([*SOUND[:2], bundle_blob(relatedImages=images)]))
    assert [problem.code for problem in problems[-2:]] == ["image", "more"]
    assert len(problems) == MAX_FAULTS + 1


def test_the_faults_of_an_entry_with_a_huge_name_are_shortened():
    entries = [{"name": "x" * 1_000_000, "skips": [""] * 500}]
    problems = read_catalog(jsonl([SOUND[0], channel_blob(entries=entries)]))
    problems = [problem for problem in problems if problem.code == "empty-skip"]
    assert len(problems) == 500
    assert {len(problem.message) for problem in problems} == {LONGEST_MESSAGE}


@pytest.mark.parametrize(
    "name",
    [
        *("busybox", "r/i", "localhost/i:1", "localhost:5000/a/b__c.d-e--f:Tag_1.x", "127.0.0.1/i"),
        *("Quay.io/ns/name:v1", f"quay.io/a@sha256:{'a' * 64}", f"a:1@sha512:{'0' * 128}"),
    ],
)
def test_a_reference_to_an_image_has_no_fault(name):
    assert image_fault(name) == ""


def test_bytes_that_are_no_utf8_are_read_as_opm_reads_them():
    """A description with one broken byte once stopped the whole sync."""
    data = jsonl(package()).replace(b"# Etcd", b"# \x9aEtcd")
    (part,) = index_spool(io.BytesIO(data)).packages.values()
    assert not any(at.plain for at in part if at.bundle)
    reader = read_package(data, "etcd", part)
    assert reader.problems == []
    _, source = read_blob(data[part[3].offset : part[3].offset + part[3].length])
    assert "\ufffdEtcd" in reader.texts(source).description_html


@pytest.mark.parametrize("spec", [5, [1], "x", None])
def test_a_csv_whose_spec_is_no_object_leaves_the_bundle(spec):
    manifest = json.dumps({"kind": "ClusterServiceVersion", "spec": spec}).encode()
    value = {"data": base64.b64encode(manifest).decode()}
    csv = {"type": "olm.bundle.object", "value": value}
    problems = read_catalog(jsonl([*SOUND[:2], bundle_blob(csv=csv)]))
    assert [problem.code for problem in problems] == ([] if spec is None else ["csv"])
