"""Splitting catalogs into blobs and reading one blob, tolerantly and in bounded memory."""

import io
import json
from typing import Any

import msgspec
import pytest

from catalogs.fbc import blob as fbc
from catalogs.fbc.package import PackageReader
from catalogs.fbc.split import MAX_UNREADABLE, CutShort, NotFbc, Splitter, index_spool, read_blob
from tests.worlds.fbc import bundle_blob, channel_blob, jsonl, package, package_blob


def split(data: bytes, **options):
    problems: list[fbc.ContentProblemRow] = []
    return list(Splitter(io.BytesIO(data), problems, **options)), problems


def read(*blobs) -> PackageReader:
    """A package read as sync reads it; returns its reader, finished."""
    index = index_spool(io.BytesIO(jsonl(blobs)))
    (name,) = index.packages
    data = jsonl(blobs)
    reader = PackageReader(name)
    for bundles in (False, True):
        for position, at in enumerate(index.packages[name]):
            if at.bundle != bundles:
                continue
            header, source = read_blob(data[at.offset : at.offset + at.length])
            if bundles:
                reader.read_bundle(source, at.offset, position)
            else:
                reader.read(header, source, at.offset)
    reader.finish()
    return reader


def messages(*blobs) -> list[str]:
    return [problem.message for problem in read(*blobs).problems]


PRETTY = json.dumps(package_blob(), indent=4).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (jsonl([package_blob("a"), package_blob("b")]), ["a", "b"]),
        (jsonl([package_blob("a")])[:-1], ["a"]),
        (b'{"schema":"s","name":"a"}{"schema":"s","name":"b"}\n', ["a", "b"]),
        (b'\n\n {"schema":"s","name":"a"} \n\n{"schema":"s","name":"b"}', ["a", "b"]),
        (PRETTY + b"\n" + PRETTY + PRETTY, ["etcd", "etcd", "etcd"]),
        (b'\xef\xbb\xbf{"schema":"s","name":"a"}\n', ["a"]),
        (b"---\nschema: s\nname: a\n---\n---\nschema: s\nname: b\n...\n", ["a", "b"]),
        (b"schema: s\nname: a\ntext: |\n  x\n  --- y\n", ["a"]),
        (b'{"Schema":"s","NAME":"a"}\n', ["a"]),
        (b'\r\n{"schema":"s","name":"a"}\r\n{"schema":"s","name":"b"}', ["a", "b"]),
        (b"--- {schema: s, name: a}\n--- \nname: b\nschema: s\n---\nschema: s", ["a", "b", ""]),
    ],
)
def test_every_encoding_gives_its_blobs_byte_for_byte(data, expected):
    pieces, problems = split(data)
    assert problems == []
    assert [piece.header.name for piece in pieces] == expected
    for piece in pieces:
        assert data[piece.offset : piece.offset + len(piece.data)] == piece.data
        assert data[: piece.offset].count(b"\n") + 1 == piece.line


def test_yaml_keeps_an_unquoted_timestamp_a_string():
    (piece,), _ = split(b"schema: s\nname: a\ncreatedAt: 2020-01-02T03:04:05Z\n")
    assert json.loads(piece.json)["createdAt"] == "2020-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (b'{"schema":"s","x":nope}', "not-json", "not valid JSON at byte 33"),
        (b'{"schema":"s","x":' + b"[" * 100_000, "too-deep", "nests too deep"),
        (b'{"schema":"s","x":' + b"[" * 9000 + b"]" * 9000 + b"}", "too-deep", "nests too deep"),
        (b'{"schema":"s","name":5}', "key-type", 'expected value for key "name" to be a string'),
        (b'{"name":"n"}', "no-schema", "object 'n' is missing root schema field"),
        (b'{"schema":"s","SCHEMA":"t"}', "duplicate-key", 'duplicate keys for key "schema"'),
        (b'{"schema":"s","Schema":"t"}', "duplicate-key", 'duplicate keys for key "schema"'),
        (b"[1]", "not-an-object", "not a JSON object"),
        (b'{"schema":"s","x":"' + b"y" * 600 + b'"}', "blob-too-large", "larger than the 500 byt"),
        (b'{"schema":"s",\n"x":"' + b"y" * 600 + b'"}', "blob-too-large", "larger than the 500"),
    ],
)
def test_a_bad_blob_is_a_problem_at_its_byte_and_the_rest_is_served(bad, code, words):
    limit = 500 if code == "blob-too-large" else 10**6
    pieces, problems = split(
        b'{"schema":"a"}\n' + bad + b'\n{"schema":"b"}\n{"schema":"c"}', limit=limit
    )
    assert [piece.header.schema for piece in pieces] == ["a", "b", "c"]
    below = 3 + bad.count(b"\n")
    assert [piece.line for piece in pieces] == [1, below, below + 1]
    assert [(problem.code, problem.offset) for problem in problems] == [(code, 15)]
    assert words in problems[0].message


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b"a: &a [1]\n" + b"".join(b"b%d: *a\n" % i for i in range(11)), "yaml-aliases"),
        (b"a: &a [1]\nb: *a\nc: " + b"x" * 70_000, "yaml-aliases"),
        (b"- " * 5000 + b"1", "too-deep"),
        (b"x: " + b"[" * 5000, "too-deep"),
        pytest.param(b"x: [" + b"1," * fbc.YAML_VALUES + b"]", "blob-too-large", id="many values"),
        (b"x: [", "not-yaml"),
        (b"- 1", "not-an-object"),
        (b"x: !!python/object/apply:os.system [id]", "not-yaml"),
    ],
)
def test_a_bad_yaml_document_is_a_problem_and_the_rest_is_served(document, code):
    pieces, problems = split(b"schema: a\n---\n" + document + b"\n---\nschema: b\n")
    assert [piece.header.schema for piece in pieces] == ["a", "b"]
    assert [(problem.code, problem.offset) for problem in problems] == [(code, 14)]


@pytest.mark.parametrize("digits", [4_000, 5_000, 500_000])
def test_a_number_of_any_length_is_passed_over_in_a_blob_of_several_lines(digits):
    pieces, problems = split(
        b'{"schema":"a",\n"x":' + b"1" * digits + b'}\n{"schema":"b"}\n', limit=10**6
    )
    assert [piece.header.schema for piece in pieces] == ["a", "b"]
    assert problems == []


def test_an_integer_of_base_60_and_many_digits_is_refused_at_once():
    document = b"schema: s\nx: 1" + b":1" * 500_000
    pieces, problems = split(b"schema: a\n---\n" + document + b"\n---\nschema: b\nx: 1:30\n")
    assert [piece.header.schema for piece in pieces] == ["a", "b"]
    assert json.loads(pieces[1].json)["x"] == 90
    assert [problem.code for problem in problems] == ["not-json"]
    assert "an integer of more than 1000 characters" in problems[0].message


@pytest.mark.slow
def test_beginnings_that_lead_to_the_same_far_end_are_not_all_followed():
    nested = b'{"a":[\n' * 400 + b"1," * 1_000_000 + b"X\n"
    pieces, problems = split(b'{"schema":"a"}\n' + nested + b'{"schema":"b"}\n')
    assert [piece.header.schema for piece in pieces] == ["a", "b"]
    assert len(problems) < 100  # of the 400, each of which reads 2 MB


@pytest.mark.parametrize("junk", [b"{}\n", b"{x\n", b"{},\n"])
def test_unreadable_blobs_are_listed_up_to_a_bound_and_the_rest_is_served(junk):
    index = index_spool(io.BytesIO(b'{"schema":"a"}\n' + junk * 20_000 + b'{"schema":"b"}\n'))
    assert len(index.packages[""]) == 2
    assert len(index.problems) == MAX_UNREADABLE + 1
    assert index.problems[-1].code == "more"


def test_a_body_that_ends_inside_a_blob_is_cut_short():
    whole = jsonl(package())
    with pytest.raises(CutShort, match="ends in the middle of the blob at byte"):
        split(whole[:-40])


@pytest.mark.parametrize("data", [b"<html><body>", b"[1, 2]", b'{"a": 1}\n', b"\n \n", b"a: 1"])
def test_what_holds_no_blob_is_not_fbc(data):
    with pytest.raises(NotFbc, match='holds no JSON object or YAML document with a "schema"'):
        index_spool(io.BytesIO(data))


def test_blobs_of_unknown_schemas_are_indexed_whatever_they_lack():
    data = (
        b'{"schema":"x"}\n{"schema":"x","name":"n"}\n{"schema":"x","package":"p"}\n'
        b'{"schema":"x","package":"p","name":"n"}\n{"schema":"x","package":null,"name":null}\n'
    )
    index = index_spool(io.BytesIO(data))
    assert {name: len(part) for name, part in index.packages.items()} == {"": 3, "p": 2}
    assert index.problems == ()


def test_a_sound_package_has_no_problem():
    assert messages(*package()) == []


def test_csv_facts_come_from_metadata():
    reader = PackageReader("etcd")
    facts = reader.read_bundle(json.dumps(bundle_blob()).encode(), 0, 0)
    assert facts is not None
    assert (facts.install_modes, facts.install_modes_known) == (["AllNamespaces"], True)
    assert (facts.webhooks, facts.owned_api_services) == (None, 1)
    assert (facts.min_kube_version, facts.suggested_namespace) == ("1.21.0", "etcd-system")
    assert (facts.released_at, facts.display_name) == ("2024-02-03", "Etcd")
    assert facts.gvks == [("etcd.example.org", "v1", "EtcdCluster", False)]


def test_a_nul_hidden_in_base64_is_left_out_and_told():
    import base64

    csv = {"kind": "ClusterServiceVersion", "spec": {"displayName": "E\0t\0\0cd \\u0000"}}
    data = base64.b64encode(json.dumps(csv).encode()).decode()
    blob = bundle_blob()
    blob["properties"] = [blob["properties"][0], {"type": "olm.bundle.object", "value": {}}]
    blob["properties"][1]["value"] = {"data": data}
    reader = PackageReader("etcd")
    facts = reader.read_bundle(json.dumps(blob).encode(), 0, 0)
    assert facts is not None
    assert facts.display_name == "Etcd \\u0000"
    told = [problem.message for problem in reader.problems]
    assert (
        "the ClusterServiceVersion in properties[1].value: olm.bundle.object: holds NUL "
        "characters, which were left out"
    ) in told


@pytest.mark.parametrize("as_yaml", [False, True])
def test_csv_facts_come_from_the_full_csv_among_the_objects(as_yaml):
    import base64

    csv = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "etcd", "annotations": {"createdAt": "2024-02-03"}},
        "spec": {
            "displayName": "Etcd",
            "installModes": [{"type": "OwnNamespace", "supported": True}],
            "webhookdefinitions": [{"type": "a"}, {"type": "b"}],
            "apiservicedefinitions": {"owned": [{}, {}]},
        },
    }
    manifest = (
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in csv.items())
        if as_yaml
        else json.dumps(csv)
    )
    data = base64.b64encode(manifest.encode()).decode()
    crd = base64.b64encode(b'{"kind":"CustomResourceDefinition"}').decode()
    blob = bundle_blob()
    blob["properties"][2:] = [
        {"type": "olm.bundle.object", "value": {"data": found}} for found in (crd, data)
    ]
    facts = PackageReader("etcd").read_bundle(json.dumps(blob).encode(), 0, 0)
    assert facts is not None
    assert (facts.display_name, facts.released_at) == ("Etcd", "2024-02-03")
    assert (facts.install_modes, facts.webhooks, facts.owned_api_services) == (
        ["OwnNamespace"],
        2,
        2,
    )


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            [None],
            'parse properties for bundle "etcd.v1.0.0": parse property[3] of type "": '
            "unexpected end of JSON input",
        ),
        (
            [{"type": 5, "value": 1}],
            "parse bundle: properties[3].type: Expected `str | null`, got `int`",
        ),
        (
            [{"type": "olm.gvk", "value": "x"}],
            'parse properties for bundle "etcd.v1.0.0": parse property[3] of type "olm.gvk": '
            "Expected `object | null`, got `str`",
        ),
        (
            [{"type": "olm.package", "value": None}],
            'package "etcd" bundle "etcd.v1.0.0" must have exactly 1 "olm.package" property, '
            "found 2",
        ),
    ],
)
def test_a_property_of_a_wrong_type_is_named_and_the_bundle_kept(properties, words):
    reader = read(
        package_blob(),
        channel_blob(entries=[{"name": "etcd.v1.0.0"}]),
        bundle_blob(properties=properties),
    )
    assert reader.bundle_count == 1
    assert words in [problem.message for problem in reader.problems]


@pytest.mark.parametrize("value", [None, 7, {"a": "b"}, "text"])
def test_properties_of_a_wrong_type_leave_the_bundle_without_properties(value):
    reader = read(
        package_blob(),
        channel_blob(entries=[{"name": "etcd.v1.0.0"}]),
        {**bundle_blob(), "properties": value},
    )
    assert reader.bundle_count == 1
    assert any('must have exactly 1 "olm.package"' in found.message for found in reader.problems)


@pytest.mark.parametrize("value", ["4.8", '"4.8"', 4.8])
def test_the_bare_value_of_max_openshift_version_is_read(value):
    blob = bundle_blob(properties=[{"type": "olm.maxOpenShiftVersion", "value": value}])
    facts = PackageReader("etcd").read_bundle(json.dumps(blob).encode(), 0, 0)
    assert facts is not None
    assert facts.max_openshift_version == "4.8"


@pytest.mark.parametrize(
    ("value", "images"),
    [(None, []), ([], []), ([{}], [("", "")]), ([{"image": "r/i"}] * 2, [("", "r/i")] * 2)],
)
def test_related_images_may_be_null_empty_blank_or_repeated(value, images):
    blob = {**bundle_blob(), "relatedImages": value}
    reader = PackageReader("etcd")
    facts = reader.read_bundle(json.dumps(blob).encode(), 0, 0)
    assert facts is not None
    assert facts.images == images


def test_a_build_becomes_the_release_of_a_bundle_that_substitutes_another():
    blob = bundle_blob("1.0.0+2")
    blob["properties"][2]["value"]["annotations"]["olm.substitutesFor"] = "etcd.v1.0.0"
    facts = PackageReader("etcd").read_bundle(json.dumps(blob).encode(), 0, 0)
    assert facts is not None
    assert (facts.version, facts.release) == ("1.0.0", "2")


STABLE = channel_blob(entries=[{"name": "etcd.v1.0.0"}])


@pytest.mark.parametrize(
    ("blobs", "message"),
    [
        ([package_blob()], 'invalid package "etcd": package must contain at least one channel'),
        (
            [package_blob(default=""), STABLE, bundle_blob()],
            'invalid package "etcd": default channel must be set',
        ),
        (
            [package_blob(default="x"), STABLE, bundle_blob()],
            'invalid package "etcd": invalid channel "x": channel must contain at least one bundle',
        ),
        (
            [package_blob(), channel_blob()],
            'invalid channel "stable": channel must contain at least one bundle',
        ),
        (
            [
                package_blob(),
                channel_blob(entries=[{"name": "etcd.v1.0.0"}, {"name": "no", "replaces": "x"}]),
                bundle_blob(),
            ],
            'no olm.bundle blobs found in package "etcd" for olm.channel entries [no]',
        ),
        (
            [package_blob(), STABLE, bundle_blob(), bundle_blob("2.0.0")],
            'package "etcd", bundle "etcd.v2.0.0" not found in any channel entries',
        ),
        (
            [package_blob(), STABLE, bundle_blob(), bundle_blob()],
            'package "etcd" has duplicate bundle "etcd.v1.0.0"',
        ),
        ([package_blob(), package_blob(), STABLE, bundle_blob()], 'duplicate package "etcd"'),
        (
            [package_blob(), STABLE, STABLE, bundle_blob()],
            'package "etcd" has duplicate channel "stable"',
        ),
        (
            [package_blob(), channel_blob(entries=[{"name": "a"}] * 2)],
            'invalid package "etcd", channel "stable": duplicate entry "a"',
        ),
        (
            [package_blob(), channel_blob(entries=[{"name": "a"}, {"name": "b"}])],
            'invalid channel "stable": multiple channel heads found in graph: a, b',
        ),
        ([STABLE], 'unknown package "etcd" for channel "stable"'),
        ([bundle_blob()], 'unknown package "etcd" for bundle "etcd.v1.0.0"'),
        (
            [package_blob(), STABLE, {**bundle_blob(), "image": ""}],
            'invalid bundle "etcd.v1.0.0": bundle image must be set',
        ),
        (
            [package_blob(), STABLE, {**bundle_blob(), "image": "Not An Image"}],
            'package "etcd" bundle "etcd.v1.0.0" image: invalid image pull spec "Not An Image": '
            "invalid reference format: repository name must be lowercase",
        ),
        (
            [package_blob("Big_Name")],
            'invalid package name "Big_Name": a lowercase RFC 1123 label is letters, digits and '
            "'-', at most 63 of them",
        ),
        (
            [{"schema": "olm.deprecations", "package": "etcd", "entries": []}],
            'cannot apply deprecations to an unknown package "etcd"',
        ),
    ],
)
def test_faults_are_told_in_opms_words(blobs, message):
    assert message in messages(*blobs)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"schema": "olm.bundle", "name": "no"}, 'cannot deprecate bundle "no" for package "etcd"'),
        ({"schema": "olm.channel", "name": "no"}, 'cannot deprecate channel "no" for package'),
        ({"schema": "olm.package", "name": "etcd"}, "package name must be empty for deprecated"),
        ({}, 'schema must be set for deprecation entry [0] for package "etcd"'),
        ({"schema": "x"}, "object schema unknown"),
    ],
)
def test_a_deprecation_of_nothing_is_a_problem(reference, message):
    deprecations = {
        "schema": "olm.deprecations",
        "package": "etcd",
        "entries": [{"reference": reference, "message": "old"}],
    }
    found = messages(*package(), deprecations)
    assert len(found) == 1
    assert message in found[0]


def test_several_faults_are_found_in_one_pass_each_with_its_place():
    reader = read(
        package_blob(default="x"),
        channel_blob(entries=[{"name": "a", "skips": [""]}, {"name": "b", "skipRange": "^1"}]),
        bundle_blob("1.0"),
    )
    found = {(problem.code, problem.subject, problem.field) for problem in reader.problems}
    assert {
        ("default-channel", "x", "defaultChannel"),
        ("empty-skip", "stable", "entries[0].skips[0]"),
        ("skip-range", "stable", "entries[1].skipRange"),
        ("version", "etcd.v1.0", "properties[0].value.version"),
        ("bundle-in-no-channel", "etcd.v1.0", ""),
    } <= found
    assert all(problem.package == "etcd" for problem in reader.problems)
    assert all(problem.offset is not None for problem in reader.problems)


def test_keys_match_whatever_their_case():
    header, source = fbc.read_header(b'{"SCHEMA":"olm.package","Name":"n"}')
    assert (header.schema, header.owner) == ("olm.package", "n")
    assert json.loads(source) == {"schema": "olm.package", "name": "n"}


@pytest.mark.parametrize(
    "entries",
    [[1] * 300_000, [1, *({"name": f"e{i}"} for i in range(100_000))]],
    ids=["all", "one"],
)
def test_each_part_of_a_long_list_is_read_by_a_decoder_that_is_there(entries, monkeypatch):
    found, faults = fbc.decode(b'{"entries": [1, {"name": "e"}]}', fbc.ChannelIn)
    assert (len(found.entries or ()), len(faults)) == (1, 1)
    made: list[Any] = []
    decoder, decode = msgspec.json.Decoder, msgspec.json.decode

    def counted_decoder(*types: Any) -> Any:
        made.append(types)
        return decoder(*types)

    def counted_decode(raw: Any, **options: Any) -> Any:
        made.append(options)
        return decode(raw, **options)

    monkeypatch.setattr(msgspec.json, "Decoder", counted_decoder)
    monkeypatch.setattr(msgspec.json, "decode", counted_decode)
    found, faults = fbc.decode(json.dumps({"entries": entries}).encode(), fbc.ChannelIn)
    assert len(made) == 1  # the whole, once it does not fit
    assert len(faults) == min(entries.count(1), fbc.MOST_FAULTS)
    assert len(found.entries or ()) == len(entries) - entries.count(1)
