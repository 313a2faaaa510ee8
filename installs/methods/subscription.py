"""The install method Subscription (OLM v0): a channel of a CatalogSource, in a namespace. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.resolve.analysis import V0
from catalogs.resolve.facts import Resolution
from installs.methods.base import (
    AUTOMATIC,
    CONFIG_FIELD,
    FOLLOWS_NAMESPACE,
    MANUAL,
    MANUAL_APPROVAL,
    CrdOwner,
    InstallChoice,
    InstallContext,
    Manifest,
    Method,
    OperatorFields,
    UpgradeChange,
    crds_with_objects,
    manifest_of,
    namespace_problem,
)
from installs.methods.configuration import CONFIG
from olmweb.kube.resources import NAMESPACES, OPERATOR_GROUPS, SUBSCRIPTIONS

TARGETS_LIMIT = 50
_OWN, _ALL = "own", "all"  # values of the form field `targets`


class SubscriptionMethod(Method):
    kind = InstallMethod.SUBSCRIPTION
    resource = SUBSCRIPTIONS
    fields = {
        "spec.name": "package",
        "spec.channel": "channel",
        "spec.source": "catalog",
        "spec.sourceNamespace": "catalog",
        "spec.startingCSV": "version",
        "spec.installPlanApproval": "approval",
        "spec.targetNamespaces": "targets",
        CONFIG_FIELD: CONFIG,
    }
    unserved_hint = "Subscriptions are OLM v0's: install OLM there first."
    config_hint = "Update OLM on that cluster, or leave the configuration out."
    semantics = V0
    needs_group = True
    change_words = "Change channel or approval"
    upgrade_fields = frozenset({"channel", "approval"})

    def with_defaults(
        self, choice: InstallChoice, values: Mapping[str, str], context: InstallContext
    ) -> InstallChoice:
        source = context.catalog_source()
        text = values.get("targets", "")
        namespace = values.get("namespace", "")
        follows = bool(values.get(FOLLOWS_NAMESPACE)) and _is_own_namespace(namespace, context)
        wants_all = text == _ALL or (not text and context.watches_all() and not follows)
        if not namespace and wants_all:
            namespace = context.namespace_of_global_group()
        namespace = namespace or context.suggested_namespace()
        if wants_all:
            targets: tuple[str, ...] = ()
        elif text in ("", _OWN):
            targets = (namespace,)
        else:
            targets = tuple(target.strip() for target in text.split(",") if target.strip())
        return replace(
            choice,
            catalog=source.name,
            catalog_namespace=source.namespace,
            namespace=namespace,
            targets=targets,
            make_namespace=not context.has_namespace(namespace),
            make_group=not context.has_group(namespace),
        )

    def problems(self, choice: InstallChoice) -> dict[str, str]:
        problems = super().problems(choice) | namespace_problem("namespace", choice.namespace)
        if choice.approval not in (AUTOMATIC, MANUAL):
            problems["approval"] = f"The approval is {AUTOMATIC} or {MANUAL}."
        if not choice.catalog or not choice.catalog_namespace:
            problems["catalog"] = (
                "A Subscription needs a CatalogSource of the cluster; this catalog is none."
            )
        if len(choice.targets) > TARGETS_LIMIT:
            problems["targets"] = f"Name at most {TARGETS_LIMIT} namespaces to watch."
        for target in choice.targets:
            problems |= namespace_problem("targets", target)
        return problems

    def needed_objects(self, choice: InstallChoice) -> list[Manifest]:
        objects = [manifest_of(NAMESPACES, choice.namespace)] if choice.make_namespace else []
        return [*objects, _operator_group(choice)] if choice.make_group else objects

    def spec(self, choice: InstallChoice) -> dict[str, Any]:
        spec = {
            "name": choice.package,
            "source": choice.catalog,
            "sourceNamespace": choice.catalog_namespace,
            "channel": choice.channel,
            "startingCSV": choice.version,
            "installPlanApproval": choice.approval or AUTOMATIC,
            CONFIG: dict(choice.config),
        }
        return {key: value for key, value in spec.items() if value}

    def consequences(self, choice: InstallChoice, bundle: str) -> list[str]:
        sentences = [f"{bundle} is installed first."] if bundle else []
        watched = ", ".join(choice.targets) or "every namespace"
        if choice.make_group:
            sentences.append(f"The OperatorGroup makes its operators watch {watched}.")
        else:
            sentences.append(f"The existing OperatorGroup of {choice.namespace} is used.")
        sentences.append(
            MANUAL_APPROVAL if choice.approval == MANUAL else "Updates install automatically."
        )
        return sentences

    def first_bundle(self, choice: InstallChoice) -> str:
        return choice.version

    def version_value(self, version: str, bundle: str) -> str:
        return bundle

    def values_for(self, version: str, bundle: str, channel: str) -> dict[str, str]:
        # With automatic approval OLM would go on to the channel's head at once.
        values = {"version": bundle, "approval": MANUAL}
        return values | ({"channel": channel} if channel else {})

    def pin(self, resolution: Resolution) -> str:
        return resolution.version

    def export_notes(self, choice: InstallChoice, pinned: str) -> list[str]:
        approval = "each InstallPlan requires manual approval, including the first one"
        if choice.approval == AUTOMATIC:
            approval = "approval is Automatic, so OLM upgrades it along the channel"
        notes = [f"Starts at {choice.version}; {approval}."]
        if not choice.make_group:
            notes.append(
                f"Namespace {choice.namespace} and its OperatorGroup are left out: they are on the "
                "cluster and serve other operators, too."
            )
        return notes

    def installed_bundle(self, operator: OperatorFields) -> str:
        return str(operator.details.get("installed_csv") or "")

    def least_spec(self, operator: OperatorFields) -> dict[str, Any]:
        return {
            "name": operator.package,
            "source": operator.catalog,
            "sourceNamespace": operator.catalog_namespace,
        }

    def upgrade_problems(
        self, operator: OperatorFields, values: Mapping[str, str]
    ) -> dict[str, str]:
        if values.get("approval", "").strip() not in ("", AUTOMATIC, MANUAL):
            return {"approval": f"The approval is {AUTOMATIC} or {MANUAL}."}
        return {}

    def keeps(self, operator: OperatorFields, values: Mapping[str, str]) -> bool:
        current = str(operator.details.get("approval") or AUTOMATIC)
        return values.get("channel", "").strip() in ("", operator.channel) and values.get(
            "approval", ""
        ).strip() in ("", current)

    def upgrade(
        self, manifest: Manifest, operator: OperatorFields, values: Mapping[str, str]
    ) -> UpgradeChange:
        spec = manifest["spec"]
        channel = values.get("channel", "").strip() or operator.channel
        approval = values.get("approval", "").strip() or str(operator.details.get("approval") or "")
        spec |= {"channel": channel} if channel else {}
        spec |= {"installPlanApproval": approval} if approval else {}
        return UpgradeChange(channel)

    def crd_owner(self, operator: OperatorFields) -> CrdOwner:
        return CrdOwner("Operator", f"{operator.package}.{operator.namespace}")

    def removal_consequences(
        self, operator: OperatorFields, crds: Mapping[str, int | None]
    ) -> tuple[str, ...]:
        if not self.installed_bundle(operator):
            return (f"Subscription {operator.name} is deleted. It has not installed anything.",)
        return (
            f"Subscription {operator.name} and the ClusterServiceVersion that it installed are "
            "deleted, and with that its Deployments, roles and webhooks.",
        )

    def objects_that_stay(
        self,
        operator: OperatorFields,
        crds: Mapping[str, int | None],
        groups: Sequence[str],
        dependencies: Sequence[str],
    ) -> tuple[str, ...]:
        installed = [crds_with_objects(crds)] if self.installed_bundle(operator) else []
        named = [f"OperatorGroup {operator.namespace}/{name}" for name in groups]
        stay = [*installed, *named, f"Namespace {operator.namespace}"]
        if dependencies:
            several = len(dependencies) > 1
            nouns = ("operators", "dependencies") if several else ("operator", "a dependency")
            names = ", ".join(dependencies)
            stay.append(f"the {nouns[0]} that OLM installed as {nouns[1]}: {names}")
        return tuple(stay)


def _is_own_namespace(namespace: str, context: InstallContext) -> bool:
    """Whether the namespace was chosen for this operator alone, which can be limited to it."""
    usual = namespace in ("", context.suggested_namespace())
    return not usual and not context.has_group(namespace) and context.supports_own()


def _operator_group(choice: InstallChoice) -> Manifest:
    """Named as the namespace, if it has no other name: OLM v0 allows one group in each."""
    namespace = choice.namespace
    spec = {"targetNamespaces": list(choice.targets)} if choice.targets else {}
    spec |= choice.group_spec
    return manifest_of(OPERATOR_GROUPS, choice.group or namespace, namespace, spec=spec)
