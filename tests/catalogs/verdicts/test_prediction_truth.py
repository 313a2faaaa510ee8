"""Predictions beside what real OLM v0 did with the newest bundle of 166 packages."""

import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalogs.contents.bundle_facts import ApiKind, Contents, read_contents
from catalogs.install_methods import InstallMethod
from catalogs.semver import parse
from catalogs.verdicts.evaluate import BundleEvaluation, predict
from catalogs.verdicts.facts import ClusterFacts, ClusterOffers, WatchTarget, built_in
from catalogs.verdicts.rules import Verdict

pytestmark = pytest.mark.data
OLM_KINDS = (
    ("v1alpha1", "CatalogSource"),
    ("v1alpha1", "ClusterServiceVersion"),
    ("v1alpha1", "InstallPlan"),
    ("v1alpha1", "Subscription"),
    ("v1", "OperatorGroup"),
    ("v2", "OperatorCondition"),
)
CLUSTER = ClusterFacts(
    "truth",
    served=built_in()
    | {ApiKind("operators.coreos.com", version, kind) for version, kind in OLM_KINDS},
    crds={},
    foreign_apis=frozenset(),
    kube_version=parse("1.36.3"),
)
EXPECTED = {  # (phase, reason) that OLM left -> the rules that may say so
    ("Succeeded", "InstallSucceeded"): {""},
    ("Failed", "UnsupportedOperatorGroup"): {"sub-install-mode"},
    ("Pending", "RequirementsNotMet"): {"sub-kind-unserved", "sub-native-api"},
    (None, None): {"sub-api-required", "sub-package-required"},
}


@pytest.fixture(scope="module")
def bundles(shared_data: Path) -> dict[str, Contents]:
    found = {}
    with lzma.open(shared_data / "truth" / "newest-bundles.jsonl.xz") as lines:
        for line in lines:
            contents = read_contents(line)
            if json.loads(line)["schema"] == "olm.bundle":
                found[contents.package] = contents
    return found


@pytest.fixture(scope="module")
def market(bundles: dict[str, Contents]) -> ClusterOffers:
    providers = defaultdict(set)
    for each in bundles.values():
        for kind in each.provides:
            providers[kind].add(each.package)
    return ClusterOffers(
        {kind: frozenset(names) for kind, names in providers.items()},
        {name: (parse(each.version),) for name, each in bundles.items()},
    )


def _outcomes(file: Path) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    """Package and (phase, reason), without those that the set-up itself caused."""
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if not row["artifact"]:
            yield row["package"], (row["phase"], row["reason"])


@pytest.mark.parametrize(
    ("name", "target", "counted"),
    [
        ("olm-v0-all-namespaces", WatchTarget.ALL, {"": 116, "sub-install-mode": 24}),
        ("olm-v0-own-namespace", WatchTarget.OWN, {"": 24}),
    ],
)
def test_every_outcome_is_predicted_with_its_rule(
    shared_data: Path,
    bundles: dict[str, Contents],
    market: ClusterOffers,
    name: str,
    target: WatchTarget,
    counted: dict[str, int],
) -> None:
    deciding: Counter[str] = Counter()
    wrong = []
    for package, outcome in _outcomes(shared_data / "truth" / f"{name}.jsonl"):
        prediction = predict(
            bundles[package],
            InstallMethod.SUBSCRIPTION,
            cluster=CLUSTER,
            market=market,
            target=target,
        )
        rule = _rule(prediction)
        deciding[rule] += 1
        if rule not in EXPECTED[outcome]:
            wrong.append((package, outcome, rule))
    assert wrong == []
    assert {rule: deciding[rule] for rule in counted} == counted


def _rule(prediction: BundleEvaluation) -> str:
    """Deciding rule; empty for a bundle that is called installable."""
    assert (prediction.verdict == Verdict.INSTALLABLE) == (prediction.deciding is None)
    return prediction.deciding.rule if prediction.deciding else ""
