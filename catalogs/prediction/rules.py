"""The rules as data: what each is called, what a hit means and says, where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path as File
from typing import Any

import msgspec
import yaml


class Path(StrEnum):
    """How a bundle is installed."""

    PLATFORM_OPERATOR = "platformoperator"
    CLUSTER_EXTENSION = "clusterextension"
    SUBSCRIPTION = "subscription"


class Verdict(StrEnum):
    """Of a bundle on a path, worst first; a warning is only ever of one rule."""

    NOT_INSTALLABLE = "not_installable"
    UNKNOWN = "unknown"
    WARNING = "warning"
    INSTALLABLE = "installable"


@dataclass(frozen=True, slots=True)
class Rule:
    """`says` has places for the facts of its check; `unknown` is empty when a fact that is not
    there is no reason to doubt; `path` is a Path or `any`; `inputs` names the facts it looks at;
    `samples` are what a test runs."""

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


class _File(msgspec.Struct):
    version: int
    rules: list[Rule]


@cache
def _load() -> _File:
    text = File(__file__).with_name("rules.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), _File)


RULES: tuple[Rule, ...] = tuple(_load().rules)
RULES_VERSION: int = _load().version


@cache
def rules_of(path: Path) -> tuple[Rule, ...]:
    """The rules that hold for a path, in the order in which its controller checks."""
    return tuple(rule for rule in RULES if rule.path in (path, "any"))
