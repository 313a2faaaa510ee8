"""Which bundle of a package each way of installing it would choose, and why not another.

Pure, but for `stored`, which reads a package's facts from rows.
"""

from collections.abc import Sequence

from catalogs.resolve import platform_operator, v0, v1
from catalogs.resolve.facts import BadQuestion, PackageFacts, Resolution, find_installed

PLATFORM_OPERATOR, CLUSTER_EXTENSION, SUBSCRIPTION = (
    "platformoperator",
    "clusterextension",
    "subscription",
)
PATHS = (PLATFORM_OPERATOR, CLUSTER_EXTENSION, SUBSCRIPTION)
__all__ = ["PATHS", "BadQuestion", "resolve"]


def resolve(
    package_facts: PackageFacts,
    path: str,
    *,
    channels: Sequence[str] = (),
    version: str = "",
    installed: str = "",
    policy: str = "CatalogProvided",
) -> Resolution:
    """What the controller behind `path` (one of PATHS) would choose of one package of one catalog.

    `channels` empty means any; `version` is a range in the path's own grammar (Masterminds for a
    ClusterExtension, blang for the others); `installed` a bundle's name; `policy` a
    ClusterExtension's upgradeConstraintPolicy. Raises BadQuestion, whose `field` says which of
    them can't be read.
    """
    now = find_installed(package_facts, installed)
    if path == CLUSTER_EXTENSION:
        return v1.resolve(package_facts, channels, version, now, policy)
    if path == SUBSCRIPTION:
        return v0.resolve(package_facts, channels, version, now)
    if path == PLATFORM_OPERATOR:
        return platform_operator.resolve(package_facts, channels, version, now)
    raise BadQuestion("path", f'"{path[:40]}" is no path: use {", ".join(PATHS)}.')
