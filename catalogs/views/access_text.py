"""How a catalog was read, in words: for pages and REST. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalogs.sources import ways

_ORIGINS = {
    ways.EXACT: "",
    ways.REBUILT: "rebuilt from the registry's answers, not the author's bytes",
    ways.WITHOUT_GRAPH: "rebuilt from the API's list: it does not tell the upgrade graph, nor "
    "what bundles other than heads are",
}
# State of a way -> the page's own state with the same icon.
_ICONS = {
    ways.USED: "ok",
    ways.FAILED: "failed",
    ways.IMPOSSIBLE: "absent",
    ways.UNTRIED: "waiting",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One way for a table: `icon` is a key of the states, `state` the word beside it."""

    way: str
    state: str
    icon: str
    why: str


def origin(way: str) -> str:
    """What content that was read so is; "" when it is the author's own."""
    return _ORIGINS[ways.tells(way)]


def without_graph(way: str) -> bool:
    """Whether the edges of upgrade graphs are not to be shown: nobody told them."""
    return ways.tells(way) == ways.WITHOUT_GRAPH


def told(found: Iterable[Mapping[str, str]]) -> list[Told]:
    """The ways of a catalog's row."""
    return [
        Told(
            one.get("way", ""),
            one.get("state", "").capitalize(),
            _ICONS.get(one.get("state", ""), "unknown"),
            one.get("why", ""),
        )
        for one in found
        if isinstance(one, Mapping)
    ]
