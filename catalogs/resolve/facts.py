"""What resolution reads of a package, and what it answers. Pure data; no rule is here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catalogs.graph import GraphEntry
from catalogs.semver import Version, parse


class BadQuestion(ValueError):
    """A parameter of the resolution can't be read; `field` is path, version, channel or
    installed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class ResolverBundle:
    """A bundle by its olm.package property. `dependencies` are the distinct types of its properties
    olm.package.required, olm.gvk.required and olm.constraint, in the order of the blob."""

    name: str
    version: str  # as written, build metadata too
    deprecated: bool = False  # by olm.deprecations, this bundle itself
    dependencies: tuple[str, ...] = ()
    image: str = ""

    def chosen(self, channels: Sequence[str], reason: str) -> "BundleCandidate":
        return BundleCandidate(self.name, self.version, tuple(channels), True, "", reason)

    def rejected(self, channels: Sequence[str], code: str, reason: str) -> "BundleCandidate":
        return BundleCandidate(self.name, self.version, tuple(channels), False, code, reason)


@dataclass(frozen=True, slots=True)
class ResolverPackage:
    """One package of one catalog. `bundles` in the catalog's order: it decides between equals.
    `complete` is False if the upgrade edges of the channels are unknown."""

    name: str
    default_channel: str
    channels: Mapping[str, Sequence[GraphEntry]]
    bundles: Sequence[ResolverBundle]
    complete: bool = True

    def by_name(self) -> dict[str, ResolverBundle]:
        """Of bundles with the same name the last, as caches of catalogs keep it."""
        return {bundle.name: bundle for bundle in self.bundles}

    def channels_of(self) -> dict[str, list[str]]:
        """Bundle name to the channels that list it, the default channel first, then by name."""
        channels: dict[str, list[str]] = {}
        for channel in self.ordered_channels():
            for name in dict.fromkeys(entry.name for entry in self.channels[channel]):
                channels.setdefault(name, []).append(channel)
        return channels

    def ordered_channels(self) -> list[str]:
        return sorted(self.channels, key=lambda name: (name != self.default_channel, name))


@dataclass(frozen=True, slots=True)
class InstalledVersion:
    """The installed bundle; `version` is None when it can't be read."""

    name: str
    text: str
    version: Version | None


# Why a bundle is not chosen, and why none is.
REJECTIONS = (
    *("channel", "range", "successor", "skipped", "chain"),
    *("deprecated", "order", "dependency", "version"),
)
BLOCKERS = (*REJECTIONS, "no-bundles", "channel-graph")


@dataclass(frozen=True, slots=True)
class BundleCandidate:
    """A considered bundle. `code` is empty for the chosen one, else one of REJECTIONS."""

    bundle: str
    version: str
    channels: tuple[str, ...]
    chosen: bool
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """`bundle` is empty when nothing is chosen; `blocked_by` is then one of BLOCKERS. `message` is
    the message of the controller, if it has one; the chosen candidate comes first."""

    bundle: str = ""
    version: str = ""
    channel: str = ""
    reason: str = ""
    blocked_by: str = ""
    message: str = ""
    candidates: Sequence[BundleCandidate] = field(default=())


def find_installed(facts: ResolverPackage, name: str) -> InstalledVersion | None:
    """The installed bundle with its version: that of the catalog, else the one at the end of its
    name; None for an empty name. Raises BadQuestion for an unknown version, which has no edges."""
    if not name:
        return None
    bundle = facts.by_name().get(name)
    text = bundle.version if bundle else name.partition(".v")[2]
    try:
        return InstalledVersion(name, text, parse(text))
    except ValueError:
        if bundle:
            return InstalledVersion(name, text, None)
        raise BadQuestion(
            "installed",
            f'"{name[:80]}" is no bundle of package {facts.name} in this catalog, and its name '
            "does not end with .vVERSION: write a bundle's name, such as "
            f"{facts.bundles[-1].name if facts.bundles else facts.name + '.v1.0.0'}.",
        ) from None


def listed(names: Sequence[str]) -> str:
    """Names for a sentence, at most four of them."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
