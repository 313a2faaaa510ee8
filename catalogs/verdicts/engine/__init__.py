"""Whether a bundle can be installed, said before the install: rules over facts, per install path.

Owns the rules (`rules/` says what each means, `checks` decides) and the facts they read: what
a bundle brings and needs (`contents`), what the catalogs offer and a cluster has (`surroundings`).
Pure: no Django, no network. Must not know: rows, pages, and the controllers of the sandbox, which
decide by code of their own.
"""

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.verdicts.engine.evaluate import Found, Prediction, on_site, predict
from catalogs.verdicts.engine.rules import RULES, RULES_VERSION, Scope, Verdict
from catalogs.verdicts.engine.sites import Site, Source
from catalogs.verdicts.engine.surroundings import (
    ClusterFacts,
    Crd,
    Group,
    Installed,
    Market,
    Target,
)

__all__ = [
    "RULES",
    "RULES_VERSION",
    "ClusterFacts",
    "Contents",
    "Crd",
    "Found",
    "Group",
    "Installed",
    "Market",
    "Prediction",
    "Scope",
    "Site",
    "Source",
    "Target",
    "Verdict",
    "on_site",
    "predict",
    "read_contents",
]
