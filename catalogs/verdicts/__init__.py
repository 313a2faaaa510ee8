"""Whether a bundle can be installed, evaluated before the install: the only place that decides it.

`rules` (data in `rule_data/`), the checks, `facts` and `evaluate` are pure. `store` evaluates all
bundles of a catalog into rows, `read` reads those rows, `catalog_health` looks at the catalogs.
"""

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.verdicts.evaluate import Prediction, RuleResult, on_site, predict
from catalogs.verdicts.facts import (
    CatalogOffers,
    ClusterFacts,
    Crd,
    Group,
    Installed,
    Target,
)
from catalogs.verdicts.health_checks import Site, Source
from catalogs.verdicts.rules import RULES, RULES_VERSION, Scope, Verdict

__all__ = [
    "RULES",
    "RULES_VERSION",
    "CatalogOffers",
    "ClusterFacts",
    "Contents",
    "Crd",
    "Group",
    "Installed",
    "Prediction",
    "RuleResult",
    "Scope",
    "Site",
    "Source",
    "Target",
    "Verdict",
    "on_site",
    "predict",
    "read_contents",
]
