"""The install methods: form fields, problems, manifests, consequences, upgrades and removals.

`upgrade` of each method sets the fields that an upgrade applies. Pure: knows neither Django nor
clusters.
"""

from installs.methods.base import (
    AUTOMATIC,
    ENFORCEMENTS,
    MANUAL,
    MANUAL_APPROVAL,
    POLICIES,
    InstallChoice,
    Method,
    as_yaml,
)
from installs.methods.cluster_extension import ClusterExtensionMethod
from installs.methods.platform_operator import PlatformOperatorMethod
from installs.methods.subscription import SubscriptionMethod

__all__ = [
    "AUTOMATIC",
    "ENFORCEMENTS",
    "MANUAL",
    "MANUAL_APPROVAL",
    "METHODS",
    "POLICIES",
    "InstallChoice",
    "as_yaml",
]

# By kind of the main object: a value of InstallMethod, or the kind of an operator's row.
METHODS: dict[str, Method] = {
    method.kind: method
    for method in (PlatformOperatorMethod(), ClusterExtensionMethod(), SubscriptionMethod())
}
