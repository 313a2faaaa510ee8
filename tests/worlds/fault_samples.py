"""Small broken catalogs, one for each fault of content, and the sentence that opm has for it."""

import json

from tests.worlds.fault_parts import (
    SOUND,
    STABLE,
    Sample,
    deprecated,
    deprecating,
    encoded,
    entries,
    graph,
    released,
    with_bundle,
    with_property,
)
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, jsonl, package_blob

PARSE = 'parse properties for bundle "etcd.v1.0.0": parse property[3] of type '
OBJECT = 'package "etcd", bundle "etcd.v1.0.0": '
REFERENCE = 'declcfg.PackageScopedReference{Schema:"olm.bundle", Name:"etcd.v1.0.0"}'
IMAGE = 'package "etcd" bundle "etcd.v1.0.0" image: invalid image pull spec '
BAD_ICON = {"base64data": "iVBOR", "mediatype": "image/png"}
ODD_ICON = {"base64data": encoded("no picture"), "mediatype": "image/png"}
BAD_METADATA = csv_metadata(installModes="all")

SAMPLES = (
    # Blobs
    Sample("not-json", jsonl(SOUND) + b'{"schema": nope}\n', ""),
    Sample("not-an-object", jsonl(SOUND) + b"[1]\n", ""),
    Sample("no-schema", jsonl(SOUND) + b'{"name":"x"}\n', "is missing root schema field"),
    Sample(
        "key-type",
        jsonl(SOUND) + b'{"schema":"s","name":5}\n',
        'expected value for key "name" to be a string, got ',
    ),
    Sample(
        "key-type",
        jsonl(SOUND) + b'{"schema":"s","package":null}\n',
        'expected value for key "package" to be a string, got ',
    ),
    Sample(
        "duplicate-key",
        jsonl(SOUND) + b'{"schema":"s","name":"a","Name":"b"}\n',
        'duplicate keys for key "name": [Name name]',
    ),
    Sample("wrong-type", jsonl([package_blob(description=5), *SOUND[1:]]), "parse package: "),
    Sample("wrong-type", jsonl([SOUND[0], {**STABLE, "entries": "x"}]), "parse channel: "),
    Sample("wrong-type", jsonl([*SOUND[:2], bundle_blob(relatedImages=5)]), "parse bundle: "),
    Sample("wrong-type", jsonl([*SOUND, {**deprecating(), "entries": 5}]), "parse deprecation: "),
    # Packages
    Sample("no-package-name", jsonl([*SOUND, package_blob("")]), "package with no name"),
    Sample("duplicate-package", jsonl([*SOUND, package_blob()]), 'duplicate package "etcd"'),
    Sample(
        "package-name", jsonl([*SOUND, package_blob("Big_Name")]), 'invalid package name "Big_Name"'
    ),
    Sample(
        "icon",
        jsonl([package_blob(icon=BAD_ICON), *SOUND[1:]]),
        "parse package: illegal base64 data at input byte 4",
        "icon.base64data",
    ),
    Sample(
        "icon-kind",
        jsonl([package_blob(icon=ODD_ICON), *SOUND[1:]]),
        "The icon (declared as 'image/png') is none of PNG",
        "icon.base64data",
        opm=False,
    ),
    Sample(
        "no-default-channel",
        jsonl([package_blob(default=""), *SOUND[1:]]),
        "default channel must be set",
        "defaultChannel",
    ),
    Sample(
        "default-channel",
        jsonl([package_blob(default="x"), *SOUND[1:]]),
        "channel must contain at least one bundle",
        "defaultChannel",
        "x",
    ),
    Sample(
        "no-channels",
        jsonl([package_blob(default="")]),
        "package must contain at least one channel",
    ),
    Sample(
        "duplicate-versions",
        jsonl(
            [
                package_blob(),
                *entries({"name": "etcd.v1.0.0"}, {"name": "b", "replaces": "etcd.v1.0.0"}),
                bundle_blob(),
                {**bundle_blob(), "name": "b"},
            ]
        ),
        "duplicate versions found in bundles: [{1.0.0: [b, etcd.v1.0.0]}]",
    ),
    Sample(
        "unknown-package", jsonl([*SOUND, channel_blob("x")]), 'unknown package "x" for channel'
    ),
    Sample(
        "unknown-package", jsonl([*SOUND, bundle_blob("1.0.0", "x")]), 'unknown package "x" for'
    ),
    Sample(
        "unknown-package",
        jsonl([*SOUND, deprecating(package="x")]),
        'cannot apply deprecations to an unknown package "x"',
    ),
    # Channels
    Sample(
        "no-channel-name",
        jsonl([*SOUND, channel_blob(name="")]),
        'package "etcd" contains channel with no name',
    ),
    Sample(
        "duplicate-channel",
        jsonl([*SOUND, STABLE]),
        'package "etcd" has duplicate channel "stable"',
        subject="stable",
    ),
    Sample(
        "duplicate-entry",
        jsonl([package_blob(), *entries({"name": "a"}, {"name": "a"})]),
        'invalid package "etcd", channel "stable": duplicate entry "a"',
        "entries[1].name",
        "stable",
    ),
    Sample(
        "no-entry-name",
        jsonl(
            [
                package_blob(),
                *entries({"name": "etcd.v1.0.0", "replaces": "x"}, {"name": ""}),
                bundle_blob(),
                {**bundle_blob("0.9.0"), "name": ""},
            ]
        ),
        "name must be set",
        "entries[1]",
        "stable",
    ),
    Sample(
        "empty-skip",
        graph({"name": "etcd.v1.0.0", "skips": ["x", ""]}),
        "skip[1] is empty",
        "entries[0].skips[1]",
        "stable",
    ),
    Sample(
        "skip-range",
        graph({"name": "etcd.v1.0.0", "skipRange": "^1.0.0"}),
        'invalid skipRange "^1.0.0": ',
        "entries[0].skipRange",
        "stable",
    ),
    Sample(
        "empty-channel",
        jsonl([*SOUND, channel_blob(name="none")]),
        "channel must contain at least one bundle",
        "entries",
        "none",
    ),
    Sample(
        "no-head",
        graph(
            {"name": "etcd.v1.0.0", "replaces": "etcd.v2.0.0"},
            {"name": "etcd.v2.0.0", "replaces": "etcd.v1.0.0"},
        ),
        "no channel head found in graph",
        "entries",
        "stable",
    ),
    Sample(
        "several-heads",
        graph({"name": "etcd.v1.0.0"}, {"name": "etcd.v2.0.0"}),
        "multiple channel heads found in graph: etcd.v1.0.0, etcd.v2.0.0",
        "entries",
        "stable",
    ),
    Sample(
        "cycle",
        graph(
            {"name": "etcd.v1.0.0", "replaces": "etcd.v2.0.0"},
            {"name": "etcd.v2.0.0", "replaces": "etcd.v1.0.0"},
            {"name": "etcd.v3.0.0", "replaces": "etcd.v2.0.0"},
        ),
        "detected cycle in replaces chain of upgrade graph: etcd.v2.0.0 -> etcd.v1.0.0 -> "
        "etcd.v2.0.0",
        "entries",
        "stable",
    ),
    Sample(
        "stranded",
        graph(
            {"name": "etcd.v1.0.0"},
            {"name": "etcd.v2.0.0", "replaces": "etcd.v1.0.0"},
            {"name": "etcd.v3.0.0", "skips": ["etcd.v2.0.0"]},
        ),
        "channel contains one or more stranded bundles: etcd.v1.0.0",
        "entries",
        "stable",
    ),
    Sample(
        "entry-without-bundle",
        jsonl(
            [
                package_blob(),
                *entries({"name": "etcd.v1.0.0"}, {"name": "no", "replaces": "etcd.v1.0.0"}),
                bundle_blob(),
            ]
        ),
        'no olm.bundle blobs found in package "etcd" for olm.channel entries [no]',
        "entries",
        "stable",
    ),
    # Bundles
    Sample(
        "no-bundle-package",
        jsonl([*SOUND, {**bundle_blob("2.0.0"), "package": ""}]),
        'package name must be set for bundle "etcd.v2.0.0"',
        "package",
        "etcd.v2.0.0",
    ),
    Sample(
        "duplicate-bundle",
        jsonl([*SOUND, bundle_blob()]),
        'package "etcd" has duplicate bundle "etcd.v1.0.0"',
        subject="etcd.v1.0.0",
    ),
    Sample(
        "bundle-in-no-channel",
        jsonl([*SOUND, bundle_blob("2.0.0")]),
        'package "etcd", bundle "etcd.v2.0.0" not found in any channel entries',
        subject="etcd.v2.0.0",
    ),
    Sample(
        "bundle-name",
        released("1.0.0", "2", "etcd.v1.0.0"),
        'name "etcd.v1.0.0" does not match normalized name "etcd-v1.0.0-2"',
        "name",
        "etcd.v1.0.0",
    ),
    Sample("no-image", with_bundle(image=""), "bundle image must be set", "image", "etcd.v1.0.0"),
    Sample(
        "image",
        with_bundle(image="oci://r/i:1"),
        IMAGE + '"oci://r/i:1": invalid reference format',
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="r.example/i@"),
        IMAGE + '"r.example/i@": invalid reference format',
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="r.example/I:1"),
        IMAGE + '"r.example/I:1": invalid reference format: repository name must be lowercase',
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="a" * 64),
        IMAGE + f'"{"a" * 64}": invalid repository name ({"a" * 64}), cannot specify 64-byte '
        "hexadecimal strings",
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="r.example/i@sha256:" + "a" * 40),
        "invalid checksum digest length",
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="r.example/i@md5:" + "a" * 32),
        "unsupported digest algorithm",
        "image",
    ),
    Sample(
        "image",
        with_bundle(image="r.example/" + "i" * 250),
        "",
        "image",
    ),
    Sample(
        "image",
        with_bundle(relatedImages=[{"name": "a", "image": ""}, {"name": "b", "image": "B/c"}]),
        'bundle "etcd.v1.0.0" relatedImages[1].image: invalid image pull spec "B/c": invalid',
        "relatedImages[1].image",
    ),
    Sample("property", with_property("olm.gvk", value="x"), PARSE + '"olm.gvk": '),
    Sample("property", with_property("olm.gvk.required", value=[]), PARSE + '"olm.gvk.required": '),
    Sample("property", with_property("olm.package", value=5), PARSE + '"olm.package": '),
    Sample("property", with_property("olm.package.required", value=""), PARSE + '"olm.package.req'),
    Sample("property", with_property("any"), PARSE + '"any": unexpected end of JSON input'),
    Sample(
        "property",
        with_bundle(csv=BAD_METADATA),
        'parse properties for bundle "etcd.v1.0.0": parse property[2] of type "olm.csv.metadata": ',
        "properties[2].value.installModes",
    ),
    Sample(
        "package-property",
        with_property("olm.package", value=None),
        'package "etcd" bundle "etcd.v1.0.0" must have exactly 1 "olm.package" property, found 2',
        "properties",
    ),
    Sample(
        "package-property",
        with_bundle(properties=[])
        .replace(b'"olm.package"', b'"other"', 2)
        .replace(b'"other"', b'"olm.package"', 1),
        'must have exactly 1 "olm.package" property, found 0',
        "properties",
    ),
    Sample(
        "package-mismatch",
        with_bundle().replace(b'"packageName": "etcd"', b'"packageName": "x"'),
        'package "etcd" does not match "olm.package" property "x"',
        "properties[0].value.packageName",
    ),
    Sample(
        "version",
        with_bundle("v1.0"),
        'error parsing bundle "etcd.vv1.0" version "v1.0": ',
        "properties[0].value.version",
    ),
    Sample(
        "release",
        released("1.0.0", "1..2", "etcd-v1.0.0-1..2"),
        'error parsing bundle "etcd-v1.0.0-1..2" release version "1..2": ',
        "properties[0].value.release",
    ),
    Sample(
        "release",
        released("1.0.0", "1" * 21, "etcd-v1.0.0-" + "1" * 21),
        f'release version "{"1" * 21}": ',
        "properties[0].value.release",
    ),
    Sample(
        "build-and-release",
        released("1.0.0+1", "2", "etcd-v1.0.0+1-2"),
        "cannot use build metadata in version with a release version",
        "properties[0].value.release",
    ),
    Sample(
        "bundle-object",
        with_property("olm.bundle.object", value={"data": "e30=="}),
        OBJECT + "parse property at index 3 as bundle object: illegal base64 data at input byte 4",
        "properties[3].value.data",
    ),
    Sample(
        "bundle-object",
        with_property("olm.bundle.object", value={"data": encoded("a: [")}),
        OBJECT + "convert bundle object property at index 3 to JSON: ",
        "properties[3].value.data",
    ),
    Sample(
        "csv",
        jsonl(
            [
                *SOUND[:2],
                bundle_blob(
                    csv={
                        "type": "olm.bundle.object",
                        "value": {
                            "data": encoded(
                                json.dumps(
                                    {
                                        "kind": "ClusterServiceVersion",
                                        "spec": {"displayName": 5},
                                    }
                                )
                            )
                        },
                    }
                ),
            ]
        ),
        "the ClusterServiceVersion in properties[2].value: displayName: ",
        "properties[2].value",
        opm=False,
    ),
    Sample(
        "constraint",
        with_property("olm.constraint", value={"cel": {"rule": "true"}, "huh": 1}),
        "parse olm.constraint: ",
        "properties[3].value",
        opm=False,
    ),
    Sample(
        "constraint",
        with_property("olm.constraint", value={"all": {"constraints": [{}]}}),
        "constraint is empty",
        "properties[3].value",
        opm=False,
    ),
    Sample(
        "max-openshift",
        with_property("olm.maxOpenShiftVersion", value="4.16.3"),
        "must specify only <major>.<minor> version",
        "properties[3].value",
        opm=False,
    ),
    Sample(
        "max-openshift",
        with_property("olm.maxOpenShiftVersion", value='""'),
        'value cannot be "" (an empty string)',
        "properties[3].value",
        opm=False,
    ),
    # Deprecations
    Sample(
        "no-deprecation-package",
        jsonl([*SOUND, deprecating(package="")]),
        "package name must be set for deprecation item 0",
    ),
    Sample(
        "duplicate-deprecations",
        jsonl([*SOUND, deprecating(), deprecating()]),
        'expected a maximum of one deprecation per package: "etcd"',
    ),
    Sample(
        "no-deprecation-schema",
        deprecated({}),
        'schema must be set for deprecation entry [0] for package "etcd"',
        "entries[0].reference",
    ),
    Sample(
        "deprecation-schema",
        deprecated({"schema": "x"}),
        'referenced by entry 0 for package "etcd": object schema unknown',
        "entries[0].reference.schema",
    ),
    Sample(
        "duplicate-deprecation",
        deprecated(*[{"schema": "olm.bundle", "name": "etcd.v1.0.0"}] * 2),
        f'duplicate deprecation entry {REFERENCE} for package "etcd"',
        "entries[1].reference",
    ),
    Sample(
        "deprecation-target",
        deprecated({"schema": "olm.bundle", "name": "no"}),
        'cannot deprecate bundle "no" for package "etcd": bundle not found',
        "entries[0].reference.name",
    ),
    Sample(
        "deprecation-target",
        deprecated({"schema": "olm.channel", "name": "no"}),
        'cannot deprecate channel "no" for package "etcd": channel not found',
        "entries[0].reference.name",
    ),
    Sample(
        "deprecation-name",
        deprecated({"schema": "olm.package", "name": "etcd"}),
        'package name must be empty for deprecated package "etcd" (specified "etcd")',
        "entries[0].reference.name",
    ),
    Sample(
        "no-deprecation-message",
        deprecated({"schema": "olm.package"}, message=""),
        "invalid deprecation: message must be set",
        "entries[0].message",
    ),
)
YAML_SAMPLES = (
    Sample("not-yaml", b"schema: a\n---\nx: [\n", ""),
    Sample("not-an-object", b"schema: a\n---\n- 1\n", ""),
    Sample(
        "key-type",
        b"schema: a\n---\nschema: b\nname: 5\n",
        'expected value for key "name" to be a string, got ',
    ),
)
