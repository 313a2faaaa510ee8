"""The rules as data: title, verdict and sentence of a hit, source in the controllers' code.

Loaded from `rule_data/`, in the order in which the controllers check. The check of a rule is the
entry of its id in CHECKS (evaluate) or, for the scopes catalog and namespace, in HEALTH_CHECKS
(health_checks).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from catalogs.install_methods import InstallMethod

ANY = "any"  # the path of rules for every install method


class RuleScope(StrEnum):
    """The subject of a rule: a bundle, or a catalog or namespace whatever the bundle."""

    BUNDLE = "bundle"
    CATALOG = "catalog"
    NAMESPACE = "namespace"


class Verdict(StrEnum):
    """Of a bundle and install method, worst first; only a single rule results in a warning."""

    NOT_INSTALLABLE = "not_installable"
    UNKNOWN = "unknown"
    WARNING = "warning"
    INSTALLABLE = "installable"


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A rule; the check with the same id decides. `verdict` and `says` (a format string for the
    facts of the check) are those of a hit, `unknown` is the sentence for a missing fact, or empty
    for no result. `path` is an InstallMethod or ANY, `inputs` names the facts that the check reads.
    `samples` are test cases: the result (passes, not_known or the verdict) for fields of Contents,
    ClusterFacts and ClusterOffers, or of HealthContext."""

    id: str
    path: str
    title: str
    verdict: Verdict
    says: str
    inputs: str
    controllers: str
    source: str
    samples: tuple[Mapping[str, Any], ...]
    unknown: str = ""
    scope: RuleScope = RuleScope.BUNDLE


FOLDER = Path(__file__).with_name("rule_data")
FILES = ("subscription", "cluster_extension", "platform_operator", ANY, "catalog_health")


RULES_VERSION = 19  # increase with every change of a result
RULES: tuple[VerdictRule, ...] = tuple(
    rule
    for name in FILES
    for rule in msgspec.convert(
        yaml.load((FOLDER / f"{name}.yaml").read_bytes(), yaml.CSafeLoader), list[VerdictRule]
    )
)


NOT_READ = "not-read"
TITLES = {rule.id: rule.title for rule in RULES} | {
    NOT_READ: "Not readable in the catalog",
    "channel-graph": "The upgrade graph of its channel is broken",
}
NO_CHOICE = "No bundle to choose"


def title_of(rule: str) -> str:
    return TITLES.get(rule, NO_CHOICE)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule."""

    rule: str
    verdict: Verdict
    sentence: str

    @property
    def title(self) -> str:
        return title_of(self.rule)


@cache
def rules_of(path: InstallMethod, scope: RuleScope = RuleScope.BUNDLE) -> tuple[VerdictRule, ...]:
    """The rules of an install method, in the order in which its controller checks."""
    return tuple(rule for rule in RULES if rule.path in (path, ANY) and rule.scope == scope)
