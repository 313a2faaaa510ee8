"""One package of one catalog as readiness looks at it. Pure data.

`Shelf` is what a catalog has of a package; `installs.readiness.stock` fills it from rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalogs.resolve.facts import PackageFacts


@dataclass(frozen=True, slots=True)
class Shelf:
    """`deprecated_*` map a name to its author's message; `maximum` and `min_kube` a bundle to its
    olm.maxOpenShiftVersion and minKubeVersion, where it has one."""

    catalog: str
    package: str
    facts: PackageFacts
    deprecated: bool = False
    deprecation: str = ""
    deprecated_channels: Mapping[str, str] = field(default_factory=dict)
    deprecated_bundles: Mapping[str, str] = field(default_factory=dict)
    maximum: Mapping[str, str] = field(default_factory=dict)
    min_kube: Mapping[str, str] = field(default_factory=dict)

    def maxima(self, bundle: str) -> tuple[str, ...]:
        return (self.maximum[bundle],) if self.maximum.get(bundle) else ()

    def version(self, bundle: str) -> str:
        """The bundle's version, else its name."""
        bundle_facts = self.facts.by_name().get(bundle)
        return bundle_facts.version if bundle_facts and bundle_facts.version else bundle
