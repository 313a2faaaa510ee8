"""Which bundle of a package each way of installing it would choose, and why not another.

Pure, but for `stored`, which reads a package's facts from rows.
"""

from collections.abc import Sequence

from catalogs.install_methods import InstallMethod
from catalogs.resolve import platform_operator, v0, v1
from catalogs.resolve.facts import BadQuestion, Resolution, ResolverPackage, find_installed

__all__ = ["BadQuestion", "read_method", "resolve"]


def read_method(text: str) -> InstallMethod:
    """The install method in any case. Raises BadQuestion for anything else."""
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadQuestion("path", str(error)) from None


def resolve(
    package_facts: ResolverPackage,
    method: InstallMethod,
    *,
    channels: Sequence[str] = (),
    version: str = "",
    installed: str = "",
) -> Resolution:
    """The bundle that the controller of `method` would choose. Empty `channels` mean any; `version`
    is a range in the method's own grammar (Masterminds for a ClusterExtension, else blang);
    `installed` the name of a bundle. Raises BadQuestion."""
    now = find_installed(package_facts, installed)
    if method == InstallMethod.CLUSTER_EXTENSION:
        return v1.resolve(package_facts, channels, version, now)
    if method == InstallMethod.SUBSCRIPTION:
        return v0.resolve(package_facts, channels, version, now)
    return platform_operator.resolve(package_facts, channels, version, now)
