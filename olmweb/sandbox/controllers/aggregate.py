"""The ClusterOperator `platform-operators-aggregated`, as its controller writes it."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

NAME = "platform-operators-aggregated"
_ITEM = re.compile(r'encountered the failing \S+ platform operator with reason "[^"]*"')
_ALL_WELL = "All platform operators are in a successful state"
_NONE = "No platform operators are present in the cluster"


def failing(operators: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Name -> reason of every PlatformOperator that isn't installed; pending ones count too."""
    found: dict[str, str] = {}
    for item in operators:
        conditions = item.get("status", {}).get("conditions", [])
        installed = next((c for c in conditions if c["type"] == "Installed"), None)
        if installed is None:
            found[item["metadata"]["name"]] = "InstallPending"
        elif installed["status"] != "True":
            found[item["metadata"]["name"]] = installed["reason"]
    return found


def message(members: Mapping[str, str], salt: str) -> str:
    """One item stands alone, several are in brackets; their order means nothing and varies."""
    items = [
        f'encountered the failing {name} platform operator with reason "{reason}"'
        for name, reason in members.items()
    ]
    items.sort(key=lambda text: hashlib.sha256((salt + text).encode()).digest())
    return items[0] if len(items) == 1 else "[" + ", ".join(items) + "]"


def conditions(operators: list[dict[str, Any]], now: str, salt: str) -> list[dict[str, str]]:
    """All three conditions, each with a new time: the real controller builds them from nothing."""
    members = failing(operators)
    available: dict[str, str] = {"type": "Available"}
    progressing: dict[str, str] = {"type": "Progressing"}
    if members:
        text = message(members, salt)
        available |= {"status": "False", "reason": "PlatformOperatorError", "message": text}
        progressing |= {"status": "True"}
    else:
        fine = {"reason": "AsExpected", "message": _ALL_WELL if operators else _NONE}
        available |= {"status": "True", **fine}
        progressing |= {"status": "False", **fine}
    found = [progressing, {"type": "Degraded", "status": "False"}, available]
    return [{**condition, "lastTransitionTime": now} for condition in found]


def same(old: list[dict[str, str]], new: list[dict[str, str]]) -> bool:
    """Whether two condition lists say the same, times and the order of items aside."""
    return _said(old) == _said(new)


def _said(found: list[dict[str, str]]) -> set[tuple[str, str, frozenset[str]]]:
    return {
        (
            condition["type"],
            condition["status"],
            frozenset(_ITEM.findall(condition.get("message", ""))) or frozenset({""}),
        )
        for condition in found
    } | {(c["type"], "reason", frozenset({c.get("reason", "")})) for c in found}
