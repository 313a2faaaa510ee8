"""Decodes API objects to the fields that are stored. Pure; never raises for invalid content."""

from collections.abc import Callable
from typing import Any

from installs.state.decode.common import (
    DecodedObject,
    Key,
    Object,
    dig,
    items,
    number,
    read_time,
    text,
)
from installs.state.decode.platform import (
    bundle,
    bundle_deployment,
    cluster_operator,
    cluster_version,
    platform_operator,
)
from installs.state.decode.v0 import (
    catalog_source,
    cluster_service_version,
    event,
    install_plan,
    olm_operator,
    operator_condition,
    operator_group,
    subscription,
)
from installs.state.decode.v1 import catalog, cluster_catalog, cluster_extension, cluster_object_set
from installs.state.decode.workloads import custom_resource_definition, deployment

__all__ = [
    "DECODERS",
    "DecodedObject",
    "Key",
    "Object",
    "dig",
    "items",
    "number",
    "read_time",
    "text",
]

DECODERS: dict[str, Callable[[Any], DecodedObject | None]] = {
    "PlatformOperator": platform_operator,
    "ClusterOperator": cluster_operator,
    "ClusterVersion": cluster_version,
    "BundleDeployment": bundle_deployment,
    "Bundle": bundle,
    "ClusterExtension": cluster_extension,
    "ClusterObjectSet": cluster_object_set,
    "ClusterCatalog": cluster_catalog,
    "Catalog": catalog,
    "CatalogSource": catalog_source,
    "Subscription": subscription,
    "InstallPlan": install_plan,
    "ClusterServiceVersion": cluster_service_version,
    "OperatorGroup": operator_group,
    "Operator": olm_operator,
    "OperatorCondition": operator_condition,
    "CustomResourceDefinition": custom_resource_definition,
    "Deployment": deployment,
    "Event": event,
}
