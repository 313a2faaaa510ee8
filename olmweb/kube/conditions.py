"""Reading `status.conditions`, tolerant of what a broken controller may write. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from olmweb.kube.fields import text

TEXTS = ("type", "status", "reason", "message", "lastTransitionTime")
FIELDS = (*TEXTS, "observedGeneration")


def read(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The object's conditions with only the fields of a condition, in the object's order.

    Leaves out items without a text `type` and fields of the wrong type. The last of two conditions
    of one type wins, as controllers rewrite by type.
    """
    status = obj.get("status")
    raw = status.get("conditions") if isinstance(status, Mapping) else None
    by_type: dict[str, dict[str, Any]] = {}
    for item in raw if isinstance(raw, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("type"), str) and item["type"]:
            condition = {field: item[field] for field in TEXTS if isinstance(item.get(field), str)}
            generation = item.get("observedGeneration")
            if isinstance(generation, int) and not isinstance(generation, bool):
                condition["observedGeneration"] = generation
            by_type[item["type"]] = condition
    return list(by_type.values())


def find(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The condition of type `kind`, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def status_of(conditions: Iterable[Mapping[str, Any]], kind: str) -> str:
    """`True`, `False` or `Unknown`; a missing condition is `Unknown`, as API conventions say."""
    return text(find(conditions, kind), "status") or "Unknown"
