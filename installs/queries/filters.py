"""The filters of the lists, read strictly from a query string.

A value that can't be one (too long, control characters, a health that does not exist) is a
BadRequest with a sentence; a value that merely matches nothing gives an empty list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from installs.models import Health
from olmweb.errors import BadRequest

ATTENTION = "attention"  # stands for every health that needs a person
VALUE_LIMIT = 1024
SORTS = ("name", "cluster", "health", "since", "version", "path")


@dataclass(frozen=True, slots=True)
class OperatorFilters:
    """What the operators list is narrowed to; an empty string narrows nothing.

    `namespace` is `-` for cluster-scoped objects, `finding` is `-` for causes not known, `upgrade`
    is `yes` for those with another version to take.
    """

    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    health: str = ""
    reason: str = ""
    finding: str = ""
    package: str = ""
    upgrade: str = ""
    q: str = ""

    def chosen(self) -> list[tuple[str, str]]:
        """(name, value) of every filter in use, in the order of the fields."""
        pairs = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [pair for pair in pairs if pair[1]]


def read_operator_filters(params: Mapping[str, str]) -> OperatorFilters:
    """Filters from a query string. Raises BadRequest for values that can't be read."""
    values = {field.name: read_value(params, field.name) for field in fields(OperatorFilters)}
    health = values["health"]
    if health and health != ATTENTION and health not in Health.values:
        allowed = ", ".join([ATTENTION, *Health.values])
        raise BadRequest(
            f"health={health[:40]} is no health; use one of: {allowed}.",
            code="bad-filter",
            health=f"one of {allowed}",
        )
    read_choice(params, "upgrade", ("yes",))
    return OperatorFilters(**values)


def read_value(params: Mapping[str, str], name: str) -> str:
    """One value, stripped. Raises BadRequest when it is too long or has control characters."""
    value = params.get(name, "").strip()
    if len(value) > VALUE_LIMIT or not (value.isprintable() or value == ""):
        raise BadRequest(
            f"The filter {name} has characters that can't be searched, or over {VALUE_LIMIT} of "
            "them.",
            code="bad-filter",
            **{name: "plain text"},
        )
    return value


def read_choice(params: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed` or empty. Raises BadRequest for anything else."""
    value = read_value(params, name)
    if value and value not in allowed:
        raise BadRequest(
            f"{name}={value[:40]} is not possible; use one of: {', '.join(allowed)}.",
            code="bad-filter",
            **{name: f"one of {', '.join(allowed)}"},
        )
    return value


def read_sort(params: Mapping[str, str], allowed: tuple[str, ...] = SORTS) -> str:
    """The sort key, `-` in front for descending; empty for the default."""
    value = read_value(params, "sort")
    if value and value.removeprefix("-") not in allowed:
        raise BadRequest(
            f"sort={value[:40]} is not possible; use one of: {', '.join(allowed)}.",
            code="bad-filter",
            sort=f"one of {', '.join(allowed)}",
        )
    return value
