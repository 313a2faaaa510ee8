"""One catalog that can be read in several ways: the best one that works is used.

Knows no way itself, only their order, how much each of them tells, and what became of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catalogs.sources.base import Fetched, Source, SourceError

USED, FAILED, IMPOSSIBLE, UNTRIED = "used", "failed", "not possible", "not tried"
# How much a way tells: the author's blobs; the graph and every bundle's properties; versions.
EXACT, REBUILT, WITHOUT_GRAPH = 2, 1, 0

CATALOGD, PROXIED = "catalogd", "catalogd through the API server"
GRPC, FORWARDED = "gRPC", "gRPC by port-forward"
PACKAGE_MANIFEST, IMAGE = "PackageManifest", "image"
_TELLS = {GRPC: REBUILT, FORWARDED: REBUILT, PACKAGE_MANIFEST: WITHOUT_GRAPH}


@dataclass(frozen=True, slots=True)
class Way:
    """`open` makes the source, without a request; None where the way can't be gone, for `why`."""

    name: str
    open: Callable[[], Source] | None = None
    why: str = ""

    @property
    def tells(self) -> int:
        return tells(self.name)


def tells(way: str) -> int:
    """How much the way of that name tells: EXACT, REBUILT or WITHOUT_GRAPH."""
    return _TELLS.get(way, EXACT)


class WaysSource:
    """Tries `ways` in order, best first. After `fetch`, `ways` says what became of each.

    `way_before` is the one that the content at hand was read by: a stamp that the server gave is of
    use for that one only. Ways that tell less than it are not gone while `keep` holds: a registry
    that is away for an hour must not cost the catalog its upgrade graph. `resolve` as of Source.
    """

    def __init__(
        self,
        label: str,
        ways: Sequence[Way],
        *,
        way_before: str = "",
        keep: bool = False,
        resolve: Callable[[], str] = str,
    ) -> None:
        self.label = label
        self._ways = ways
        self._way_before = way_before
        self._least = tells(way_before) if keep and way_before else WITHOUT_GRAPH
        self.resolve = resolve
        self.ways: list[dict[str, str]] = [
            {"way": way.name, "state": UNTRIED if way.open else IMPOSSIBLE, "why": way.why}
            for way in ways
        ]

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """Of the first way that works. Raises the SourceError of the best one that was tried."""
        first: SourceError | None = None
        requests = read = 0
        for way, told in zip(self._ways, self.ways, strict=True):
            if way.open is None:
                continue
            if way.tells < self._least:
                told["why"] = "it tells less than the content that is shown"
                continue
            try:
                stamp = if_modified_since if self._way_before in ("", way.name) else ""
                fetched = way.open().fetch(if_modified_since=stamp)
            except SourceError as error:
                told |= {"state": FAILED, "why": error.message}
                first = first or error
                requests, read = requests + error.requests, read + error.bytes_read
                if error.code == "cancelled":
                    raise
                continue
            told |= {"state": USED, "why": ""}
            return replace(
                fetched,
                way=way.name,
                requests=fetched.requests + requests,
                bytes_read=fetched.bytes_read + read,
            )
        if first is None:
            raise self._no_way()
        first.requests, first.bytes_read = requests, read
        raise first

    def _no_way(self) -> SourceError:
        reasons = "; ".join(f"{one['way']}: {one['why']}" for one in self.ways)
        return SourceError(
            f"{self.label} can't be read in any way ({reasons}).",
            code="no-way",
            hint="Make one of these ways possible; docs/catalog-sources.md says what each needs.",
        )
