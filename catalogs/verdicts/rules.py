"""The rules as data: what each is called, what a hit means and says, where it comes from.

They are in `rules/`, in the order in which the real controllers check: the first to fail first.
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

ANY = "any"  # the path of rules that hold for every one


class Scope(StrEnum):
    """What a rule is about: a bundle and all around it; or a place, whatever the bundle."""

    BUNDLE = "bundle"
    CATALOG = "catalog"
    NAMESPACE = "namespace"


class Verdict(StrEnum):
    """Of a bundle on a path, worst first; a warning is only ever of one rule."""

    NOT_INSTALLABLE = "not_installable"
    UNKNOWN = "unknown"
    WARNING = "warning"
    INSTALLABLE = "installable"


@dataclass(frozen=True, slots=True)
class Rule:
    """The check of the same name decides. `verdict` is what a hit makes of the bundle, `says` the
    sentence, with places for the facts of the check. `unknown` says what would settle it when a
    fact is not there; empty: the rule then says nothing. `path` is an InstallMethod or ANY;
    `inputs` names the facts it looks at.

    `samples` are what a test runs: what the rule alone gives for some facts (passes, not_known: it
    says nothing; else its verdict), by the names of Contents, ClusterFacts and CatalogOffers, or of
    Site for a place.
    """

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
    scope: Scope = Scope.BUNDLE


FOLDER = Path(__file__).with_name("rule_data")
FILES = ("subscription", "cluster_extension", "platform_operator", ANY, "catalog_health")


def _load(name: str) -> tuple[Rule, ...]:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return tuple(msgspec.convert(yaml.load(text, yaml.CSafeLoader), list[Rule]))


RULES_VERSION = 15  # grows with every change of what is said
RULES: tuple[Rule, ...] = tuple(rule for name in FILES for rule in _load(name))


@cache
def rules_of(path: InstallMethod, scope: Scope = Scope.BUNDLE) -> tuple[Rule, ...]:
    """The rules that hold for a path, in the order in which its controller checks."""
    return tuple(rule for rule in RULES if rule.path in (path, ANY) and rule.scope == scope)
