"""The install method ClusterExtension (OLM v1): a package in a range of versions. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.resolve import v1
from catalogs.resolve.analysis import V1
from catalogs.resolve.facts import BadQuestion, Resolution
from catalogs.semver import parse
from installs.methods.base import (
    CATALOG_PROVIDED,
    CONFIG_FIELD,
    ENFORCEMENTS,
    NAME_LIMIT,
    POLICIES,
    SUBDOMAIN,
    CrdOwner,
    InstallChoice,
    InstallContext,
    Manifest,
    Method,
    OperatorFields,
    UpgradeChange,
    manifest_of,
    namespace_problem,
)
from installs.methods.configuration import CONFIG
from olmweb.kube.resources import CLUSTER_EXTENSIONS, NAMESPACES, SERVICE_ACCOUNTS

# Label that catalogd puts on every ClusterCatalog with its own name
# (operator-controller internal/catalogd/webhook/cluster_catalog_webhook.go).
CATALOG_LABEL = "olm.operatorframework.io/metadata.name"
_SOURCE = "spec.source.catalog"
_ACCOUNT = "spec.serviceAccount.name"
_CRD_SAFETY = "spec.install.preflight.crdUpgradeSafety.enforcement"


class ClusterExtensionMethod(Method):
    kind = InstallMethod.CLUSTER_EXTENSION
    resource = CLUSTER_EXTENSIONS
    fields = {
        "spec.namespace": "namespace",
        _ACCOUNT: "service_account",
        f"{_SOURCE}.packageName": "package",
        f"{_SOURCE}.channels": "channel",
        f"{_SOURCE}.version": "version",
        f"{_SOURCE}.selector": "catalog",
        f"{_SOURCE}.upgradeConstraintPolicy": "policy",
        _CRD_SAFETY: "crd_safety",
        CONFIG_FIELD: CONFIG,
    }
    unserved_hint = "ClusterExtensions are OLM v1's: install operator-controller there first."
    config_hint = (
        "operator-controller has spec.config only in its experimental CustomResourceDefinitions "
        "(release 1.11), for the alpha feature gates SingleOwnNamespaceInstallSupport and "
        "DeploymentConfig. Install those on the cluster, or leave the configuration out."
    )
    semantics = V1
    change_words = "Change version or channel"
    reads_ranges = True
    upgrade_fields = frozenset({"version", "channel", "policy"})

    def with_defaults(
        self, choice: InstallChoice, values: Mapping[str, str], context: InstallContext
    ) -> InstallChoice:
        namespace = values.get("namespace", "") or context.suggested_namespace()
        return replace(
            choice,
            catalog=context.cluster_catalog,
            namespace=namespace,
            make_namespace=not context.has_namespace(namespace),
        )

    def problems(self, choice: InstallChoice) -> dict[str, str]:
        problems = super().problems(choice) | namespace_problem("namespace", choice.namespace)
        if choice.policy not in POLICIES:
            problems["policy"] = f"The upgrade policy is {' or '.join(POLICIES)}."
        if choice.crd_safety and choice.crd_safety not in ENFORCEMENTS:
            problems["crd_safety"] = f"CRD upgrade safety is {' or '.join(ENFORCEMENTS)}."
        if choice.service_account and not SUBDOMAIN.fullmatch(choice.service_account):
            problems["service_account"] = (
                "The ServiceAccount's name may have lower-case letters, digits, - and . only."
            )
        elif self.needs_account(choice) and not choice.service_account:
            problems["service_account"] = (
                "Name the ServiceAccount that installs it: this cluster's ClusterExtensions need "
                "one."
            )
        return problems | _version_problem(choice.version)

    def needs_account(self, choice: InstallChoice) -> bool:
        """That of operator-controller up to 1.10 requires it, later ones call it deprecated; one
        that has the field counts as requiring it while its requirements are unknown."""
        required = choice.required_fields
        return choice.has(_ACCOUNT) and (required is None or "spec.serviceAccount" in required)

    def needed_objects(self, choice: InstallChoice) -> list[Manifest]:
        objects = [manifest_of(NAMESPACES, choice.namespace)] if choice.make_namespace else []
        if choice.service_account and choice.has(_ACCOUNT):
            account = manifest_of(SERVICE_ACCOUNTS, choice.service_account, choice.namespace)
            objects.append(account)
        return objects

    def spec(self, choice: InstallChoice) -> dict[str, Any]:
        catalog: dict[str, Any] = {"packageName": choice.package}
        if choice.catalog and choice.has(f"{_SOURCE}.selector"):
            catalog["selector"] = {"matchLabels": {CATALOG_LABEL: choice.catalog}}
        if choice.channel and choice.has(f"{_SOURCE}.channels"):
            catalog["channels"] = [choice.channel]
        if choice.version and choice.has(f"{_SOURCE}.version"):
            catalog["version"] = choice.version
        if choice.policy != CATALOG_PROVIDED and choice.has(f"{_SOURCE}.upgradeConstraintPolicy"):
            catalog["upgradeConstraintPolicy"] = choice.policy
        spec: dict[str, Any] = {"namespace": choice.namespace}
        if choice.service_account and choice.has(_ACCOUNT):
            spec["serviceAccount"] = {"name": choice.service_account}
        spec["source"] = {"sourceType": "Catalog", "catalog": catalog}
        if choice.crd_safety and choice.has(_CRD_SAFETY):
            spec["install"] = {
                "preflight": {"crdUpgradeSafety": {"enforcement": choice.crd_safety}}
            }
        if choice.config:
            spec[CONFIG] = dict(choice.config)
        return spec

    def consequences(self, choice: InstallChoice, bundle: str) -> list[str]:
        sentences = [f"{bundle} is installed first."] if bundle else []
        return [*sentences, _upgrades(choice.version)]

    def version_range(self, choice: InstallChoice) -> str:
        return choice.version

    def version_value(self, version: str, bundle: str) -> str:
        for text in (version, version.partition("+")[0]):
            if not _version_problem(text):
                return text
        return ""

    def values_for(self, version: str, bundle: str, channel: str) -> dict[str, str]:
        return {"version": version}

    def pin(self, resolution: Resolution) -> str:
        return self.version_value(resolution.version, resolution.bundle)

    def export_notes(self, choice: InstallChoice, pinned: str) -> list[str]:
        notes = [f"Pinned to {pinned}: raise spec.source.catalog.version to upgrade."]
        if choice.service_account:
            notes.append(
                f"ServiceAccount {choice.service_account} needs the permissions that the bundle's "
                "objects require; they are not created here."
            )
        return notes

    def least_spec(self, operator: OperatorFields) -> dict[str, Any]:
        return {
            "namespace": str(operator.details.get("namespace") or ""),
            "source": {"sourceType": "Catalog", "catalog": {"packageName": operator.package}},
        }

    def upgrade_problems(
        self, operator: OperatorFields, values: Mapping[str, str]
    ) -> dict[str, str]:
        return _version_problem(values.get("version", "").strip() or operator.version_asked)

    def upgrade(
        self, manifest: Manifest, operator: OperatorFields, values: Mapping[str, str]
    ) -> UpgradeChange:
        catalog = manifest["spec"]["source"]["catalog"]
        version = values.get("version", "").strip() or operator.version_asked
        channel = values.get("channel", "").strip()
        policy = values.get("policy", "").strip()
        catalog |= {"version": version} if version else {}
        catalog |= {"channels": [channel]} if channel else {}
        catalog |= {"upgradeConstraintPolicy": policy} if policy else {}
        return UpgradeChange(channel, version)

    def crd_owner(self, operator: OperatorFields) -> CrdOwner:
        return CrdOwner(self.kind, operator.name)

    def _package_problem(self, choice: InstallChoice) -> dict[str, str]:
        if choice.package and (
            len(choice.package) > NAME_LIMIT or not SUBDOMAIN.fullmatch(choice.package)
        ):
            return {
                "package": "A ClusterExtension names packages by DNS names only (lower-case "
                f"letters, digits, - and .), which “{choice.package[:80]}” is not: install it "
                "another way."
            }
        return super()._package_problem(choice)


def _version_problem(version: str) -> dict[str, str]:
    try:
        v1.read_range(version)
    except BadQuestion as error:
        return {"version": str(error)}
    return {}


def _upgrades(version: str) -> str:
    """How a ClusterExtension with this range is upgraded."""
    if not version:
        return "Updates install automatically."
    try:
        parse(version)
    except ValueError:
        return "Every new version in the range installs automatically."
    return "It stays at this version until the version is changed."
