"""Resolution equals the reference on every package of the real catalogs, for 20 ranges each."""

import importlib.util
import json
import lzma
from collections import defaultdict
from typing import Any

import pytest

from catalogs.fbc.properties import DEPENDENCIES
from catalogs.graph import GraphEntry, v0_candidates
from catalogs.install_methods import InstallMethod
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from catalogs.resolve.platform_operator import listing, pick
from catalogs.semver import blang_range, masterminds_range, parse
from tests.conftest import SHARED

pytestmark = pytest.mark.data
CATALOGS = ("community-4.16", "community-4.20", "community-full")


@pytest.fixture(scope="module")
def reference():
    path = SHARED / "reference" / "fbc_ref.py"
    if not path.exists():
        pytest.skip("the reference is not beside this checkout")
    spec = importlib.util.spec_from_file_location("fbc_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def raw_packages(path):
    packages: dict[str, Any] = defaultdict(
        lambda: {"default": "", "channels": [], "bundles": [], "gone": set()}
    )
    with lzma.open(path) as lines:
        for line in lines:
            blob = json.loads(line)
            if blob["schema"] == "olm.package":
                packages[blob["name"]]["default"] = blob["defaultChannel"]
            elif blob["schema"] == "olm.channel":
                packages[blob["package"]]["channels"].append(blob)
            elif blob["schema"] == "olm.bundle":
                kept = [
                    each if each["type"] == "olm.package" else {"type": each["type"], "value": 0}
                    for each in blob["properties"]
                ]
                slim = {"name": blob["name"], "image": blob["image"], "properties": kept}
                packages[blob["package"]]["bundles"].append(slim)
    return packages


def written(bundle):
    return next(p["value"]["version"] for p in bundle["properties"] if p["type"] == "olm.package")


def facts_of(name, raw):
    channels = {
        blob["name"]: [
            GraphEntry(
                each["name"],
                each.get("replaces") or "",
                tuple(each.get("skips") or ()),
                each.get("skipRange") or "",
            )
            for each in blob["entries"]
        ]
        for blob in raw["channels"]
    }
    bundles = [
        ResolverBundle(
            bundle["name"],
            written(bundle),
            bundle["name"] in raw["gone"],
            tuple(
                dict.fromkeys(p["type"] for p in bundle["properties"] if p["type"] in DEPENDENCIES)
            ),
            bundle["image"],
        )
        for bundle in raw["bundles"]
    ]
    return ResolverPackage(name, raw["default"], channels, bundles)


def ranges(versions):
    """Twenty ranges from a package's versions; the last three can't be read."""
    ordered = sorted(versions, key=parse)
    low, middle, high = ordered[0], ordered[len(ordered) // 2], ordered[-1]
    major, minor, _ = str(parse(middle)).split("-")[0].split("+")[0].split(".")
    return [
        "",
        middle,
        f"={high}",
        f"^{low}",
        f"~{middle}",
        f">={low}",
        f"<{high}",
        f"<={middle}",
        f">{high}",
        f"!={high}",
        f">={low}, <{high}",
        f">={low} <{middle}",
        f"{major}.x",
        f"{major}.{minor}.x",
        f"{low} || {high}",
        f"<{middle} || >={high}",
        ">=0.0.0-0",
        f"v{major}..x",
        "newest",
        f">={low} ||",
    ]


def reads(grammar, text):
    try:
        return grammar(text) if text else None
    except ValueError:
        return BadQuestion


def answer(found):
    return found.bundle or found.message


def installed_of(raw, catalog):
    """Nothing and some of the bundles: all of them would take an hour."""
    bundles = raw["bundles"]
    if catalog == "community-full":
        return [None, bundles[len(bundles) // 3]]
    return [None, *bundles[:: max(1, len(bundles) // 5)]]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_cluster_extension_gets_what_the_reference_resolves(shared_data, reference, catalog):
    asked = refused = 0
    for name, raw in raw_packages(shared_data / "catalogs" / f"{catalog}.jsonl.xz").items():
        # every third bundle deprecated: the real catalogs deprecate none
        raw["gone"] = {each["name"] for each in raw["bundles"][1::3]}
        facts = facts_of(name, raw)
        default = [raw["default"]]
        served = {
            "name": "c",
            "priority": 0,
            "channels": raw["channels"],
            "bundles": raw["bundles"],
            "deprecated": raw["gone"],
        }
        for text in ranges({written(each) for each in raw["bundles"]}):
            wanted = reads(masterminds_range, text)
            if wanted is BadQuestion or len(text) > 64:
                with pytest.raises(BadQuestion):
                    resolve(facts, InstallMethod.CLUSTER_EXTENSION, version=text)
                refused += 1
                continue
            for before in installed_of(raw, catalog):
                for channels in ([], default):
                    try:
                        expected = reference.resolve_v1(
                            [served],
                            name,
                            installed=(before["name"], written(before)) if before else None,
                            channels=channels,
                            in_range=(lambda v, w=wanted: w(parse(str(v)))) if wanted else None,
                            range_text=text,
                        )["bundle"]["name"]
                    except LookupError as error:
                        expected = str(error)
                    found = resolve(
                        facts,
                        InstallMethod.CLUSTER_EXTENSION,
                        channels=channels,
                        version=text,
                        installed=before["name"] if before else "",
                    )
                    assert answer(found) == expected, (name, text, before, channels)
                    assert sum(each.chosen for each in found.candidates) == bool(found.bundle)
                    assert len(found.candidates) == len(raw["bundles"])
                    asked += 1
    assert refused
    assert asked > 1000


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_subscription_gets_what_the_reference_prefers(shared_data, reference, catalog):
    faults = 0
    for name, raw in raw_packages(shared_data / "catalogs" / f"{catalog}.jsonl.xz").items():
        facts = facts_of(name, raw)
        versions = {each["name"]: written(each) for each in raw["bundles"]}
        for blob in raw["channels"]:
            for text in ranges(set(versions.values())):
                theirs = reads(reference.blang_range, text)
                assert (theirs is BadQuestion) == (reads(blang_range, text) is BadQuestion), text
                if theirs is BadQuestion:
                    with pytest.raises(BadQuestion):
                        resolve(facts, InstallMethod.SUBSCRIPTION, version=text)
                    continue
                for before in installed_of(raw, catalog):
                    old = (before["name"], written(before)) if before else None
                    found = resolve(
                        facts,
                        InstallMethod.SUBSCRIPTION,
                        channels=[blob["name"]],
                        version=text,
                        installed=before["name"] if before else "",
                    )
                    try:
                        order = reference.v0_candidates(blob["entries"], old)
                    except ValueError:
                        faults += 1
                        assert found.blocked_by == "channel-graph"
                        assert not found.bundle
                        with pytest.raises(ValueError, match="channel head"):
                            v0_candidates(facts.channels[blob["name"]])
                        continue
                    expected = [
                        each
                        for each in order
                        if (old is None or each != old[0])
                        and (theirs is None or theirs(reference.parse(versions[each])))
                    ]
                    said = [each.bundle for each in found.candidates if each.code in ("", "order")]
                    if expected:
                        assert said == expected, (name, blob["name"], text, old)
                        assert found.bundle == expected[0]
                    else:
                        assert found.bundle in ("", before["name"] if before else "")
    assert faults == 0 or catalog == "community-full"


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_platform_operator_gets_what_the_reference_picks(shared_data, reference, catalog):
    for name, raw in raw_packages(shared_data / "catalogs" / f"{catalog}.jsonl.xz").items():
        facts = facts_of(name, raw)
        stream = [bundle for _, bundle in listing(facts)]
        backwards = stream[::-1]
        first = pick(stream)
        assert first is not None
        for order in (stream, backwards):
            expected = reference.platform_operators_pick((b.version, b.image) for b in order)
            picked = pick(order)
            assert picked is not None
            assert (picked.version, picked.image) == expected
        for text in ranges({written(each) for each in raw["bundles"]}):
            if reads(blang_range, text) is BadQuestion:
                with pytest.raises(BadQuestion):
                    resolve(facts, InstallMethod.PLATFORM_OPERATOR, version=text)
            else:
                assert (
                    resolve(facts, InstallMethod.PLATFORM_OPERATOR, version=text).bundle
                    == first.name
                )
