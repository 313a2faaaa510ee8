"""The install method PlatformOperator: the cluster's own catalog, the highest version, for good.

rukpak makes a Helm release of the object's name, and Helm allows 53 characters; the
PlatformOperator CRD allows 56 for the package. Pure.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.resolve.facts import Resolution
from installs.methods.base import (
    CrdOwner,
    InstallChoice,
    InstallContext,
    Method,
    OperatorFields,
)
from olmweb.kube.resources import PLATFORM_OPERATORS

HELM_NAME_LIMIT = 53
PACKAGE_LIMIT = 56


class PlatformOperatorMethod(Method):
    kind = InstallMethod.PLATFORM_OPERATOR
    resource = PLATFORM_OPERATORS
    fields = {"spec.package.name": "package"}
    unserved_hint = "PlatformOperators exist on OpenShift 4.12 to 4.15 with TechPreviewNoUpgrade."
    name_limit = HELM_NAME_LIMIT
    one_per_package = True
    needs_namespace = False
    version_hint = "A PlatformOperator always installs the highest version of all channels."

    def with_defaults(
        self, choice: InstallChoice, values: Mapping[str, str], context: InstallContext
    ) -> InstallChoice:
        return replace(choice, channel="", version="")

    def spec(self, choice: InstallChoice) -> dict[str, Any]:
        return {"package": {"name": choice.package}}

    def consequences(self, choice: InstallChoice, bundle: str) -> list[str]:
        return ["The highest version of all channels is installed and never upgraded."]

    def pin(self, resolution: Resolution) -> str:
        return ""

    def export_notes(self, choice: InstallChoice, pinned: str) -> list[str]:
        return ["A PlatformOperator can't be pinned: it takes the highest version there is."]

    def least_spec(self, operator: OperatorFields) -> dict[str, Any]:
        return {"package": {"name": operator.package}}

    def crd_owner(self, operator: OperatorFields) -> CrdOwner:
        return CrdOwner("BundleDeployment", operator.name)

    def _name_limit_sentence(self) -> str:
        return f"{self.name_limit}: it is also the name of the Helm release"

    def _package_problem(self, choice: InstallChoice) -> dict[str, str]:
        if len(choice.package) > PACKAGE_LIMIT:
            return {
                "package": f"The package's name has {len(choice.package)} characters; a "
                f"PlatformOperator allows {PACKAGE_LIMIT}."
            }
        return super()._package_problem(choice)
