"""Verdicts on whether a bundle can be installed, by install method, before the install.

`rules` (data in `rule_data/`), the checks, `facts` and `evaluate` are pure. `store` writes the
verdicts on all bundles of a catalog, `read` reads them, `catalog_health` checks the catalogs.
"""

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.verdicts.evaluate import BundleEvaluation, RuleResult, check_health, predict
from catalogs.verdicts.facts import (
    ClusterOffers,
    ClusterFacts,
    ClusterCrd,
    OperatorGroupFacts,
    OperatorFacts,
    WatchTarget,
)
from catalogs.verdicts.health_checks import HealthContext, CheckedCatalog
from catalogs.verdicts.rules import RULES, RULES_VERSION, Scope, Verdict

__all__ = [
    "RULES",
    "RULES_VERSION",
    "BundleEvaluation",
    "CatalogOffers",
    "ClusterFacts",
    "Contents",
    "Crd",
    "Group",
    "HealthContext",
    "Installed",
    "RuleResult",
    "Scope",
    "Source",
    "Target",
    "Verdict",
    "check_health",
    "predict",
    "read_contents",
]
