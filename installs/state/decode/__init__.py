"""Decodes API objects to the fields that are stored. Pure; never raises for invalid content."""

from collections.abc import Callable
from functools import partial
from typing import Any

from installs.state.decode import platform, v0, v1, workloads
from installs.state.decode.common import DecodedObject, Key

__all__ = ["DECODERS", "OPERATOR_KINDS", "DecodedObject", "Key"]

# Kinds whose every object is an operator.
OPERATOR_KINDS = frozenset(("PlatformOperator", "ClusterExtension", "Subscription"))

DECODERS: dict[str, Callable[[Any], DecodedObject | None]] = {
    "PlatformOperator": platform.platform_operator,
    "ClusterOperator": platform.cluster_operator,
    "ClusterVersion": platform.cluster_version,
    "Console": platform.console,
    "BundleDeployment": platform.bundle_deployment,
    "Bundle": platform.bundle,
    "ClusterExtension": v1.cluster_extension,
    "ClusterObjectSet": v1.cluster_object_set,
    "ClusterCatalog": v1.catalog,
    "Catalog": partial(v1.catalog, kind="Catalog"),
    "CatalogSource": v0.catalog_source,
    "Subscription": v0.subscription,
    "InstallPlan": v0.install_plan,
    "ClusterServiceVersion": v0.cluster_service_version,
    "OperatorGroup": v0.operator_group,
    "Operator": v0.olm_operator,
    "OperatorCondition": v0.operator_condition,
    "CustomResourceDefinition": workloads.custom_resource_definition,
    "Deployment": workloads.deployment,
    "Event": v0.event,
}
