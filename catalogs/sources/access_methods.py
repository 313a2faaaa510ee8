"""Reads a catalog by the best access method that works: names, fidelity, attempts, outcomes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catalogs.sources.base import ContentSource, Fetched, SourceError

USED, FAILED, IMPOSSIBLE, UNTRIED = "used", "failed", "not possible", "not tried"
# The author's blobs; the graph and every bundle's properties; versions without a graph.
EXACT, REBUILT, WITHOUT_GRAPH = 2, 1, 0

CATALOGD, PROXIED = "catalogd", "catalogd through the API server"
GRPC, FORWARDED = "gRPC", "gRPC by port-forward"
PACKAGE_MANIFEST, IMAGE = "PackageManifest", "image"
LATEST_TRY = 240  # seconds after the first try began; a later one would not end in time
_FIDELITY = {GRPC: REBUILT, FORWARDED: REBUILT, PACKAGE_MANIFEST: WITHOUT_GRAPH}


@dataclass(frozen=True, slots=True)
class AccessMethod:
    """`open` creates the source without a request; None if impossible, for the reason `why`."""

    name: str
    open: Callable[[], ContentSource] | None = None
    why: str = ""

    @property
    def fidelity(self) -> int:
        return fidelity(self.name)


def fidelity(method: str) -> int:
    """The fidelity of the named access method: EXACT, REBUILT or WITHOUT_GRAPH."""
    return _FIDELITY.get(method, EXACT)


class FallbackSource:
    """Tries `methods` in order, best first. After `fetch`, `outcomes` has the outcome of each, as
    {"way": name, "state": one of USED, FAILED, IMPOSSIBLE, UNTRIED, "why": sentence}, and of a
    failed one "reason", a catalogs.sources.connection.Reason or "".

    `previous` is the method of the stored content: a server's stamp is valid for it only. With
    `keep` methods of lower fidelity are not tried: the catalog must not lose its upgrade graph when
    a registry is unreachable for an hour. `resolve` as in ContentSource.
    """

    def __init__(
        self,
        label: str,
        methods: Sequence[AccessMethod],
        *,
        previous: str = "",
        keep: bool = False,
        resolve: Callable[[], str] = str,
    ) -> None:
        self.label = label
        self._methods = methods
        self._previous = previous
        self._least = fidelity(previous) if keep and previous else WITHOUT_GRAPH
        self.resolve = resolve
        self.outcomes: list[dict[str, str]] = [
            {
                "way": method.name,
                "state": UNTRIED if method.open else IMPOSSIBLE,
                "why": method.why,
            }
            for method in methods
        ]

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """Uses the first method that works. Raises the SourceError of the best one that failed."""
        first: SourceError | None = None
        requests = read = 0
        started = time.monotonic()
        for method, outcome in zip(self._methods, self.outcomes, strict=True):
            if method.open is None:
                continue
            if method.fidelity < self._least:
                outcome["why"] = "it tells less than the content that is shown"
                continue
            try:
                stamp = if_modified_since if self._previous in ("", method.name) else ""
                fetched = method.open().fetch(if_modified_since=stamp)
            except SourceError as error:
                outcome |= {"state": FAILED, "why": error.message, "reason": error.reason}
                first = first or error
                requests, read = requests + error.requests, read + error.bytes_read
                if error.code == "cancelled":
                    raise
                if time.monotonic() - started > LATEST_TRY:
                    break
                continue
            outcome |= {"state": USED, "why": ""}
            return replace(
                fetched,
                access_method=method.name,
                requests=fetched.requests + requests,
                bytes_read=fetched.bytes_read + read,
            )
        if first is None:
            reasons = "; ".join(f"{outcome['way']}: {outcome['why']}" for outcome in self.outcomes)
            raise SourceError(
                f"{self.label} can't be read in any way ({reasons}).",
                code="no-way",
                hint="Make one of these ways possible; docs/catalog-sources.md says what each "
                "needs.",
            )
        first.requests, first.bytes_read = requests, read
        raise first
