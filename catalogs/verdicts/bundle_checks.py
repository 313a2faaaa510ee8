"""Checks of the bundle itself: faults that an installer refuses."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from catalogs.contents.bundle_facts import Contents
from catalogs.verdicts.check_input import Answer, CheckContext, Unread, kinds_text, listed

# What a registry+v1 bundle may contain: operator-registry pkg/lib/bundle/supported_resources.go.
SUPPORTED = frozenset(
    (
        *("ClusterServiceVersion", "CustomResourceDefinition", "Secret", "ConfigMap"),
        *("ServiceAccount", "Service", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("PrometheusRule", "ServiceMonitor", "PodMonitor", "PodDisruptionBudget", "PriorityClass"),
        *("VerticalPodAutoscaler", "ConsoleYAMLSample", "ConsoleQuickStart", "ConsoleCLIDownload"),
        *("ConsoleLink", "ConsolePlugin", "NetworkPolicy"),
    )
)
_T = TypeVar("_T", bound=Hashable)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\Z")


def duplicate_modes(context: CheckContext) -> Answer:
    modes = context.bundle.repeated_install_modes
    return {"modes": listed(modes)} if modes else None


def webhook_name_twice(context: CheckContext) -> Answer:
    """OLM v0 counts the names of all webhooks together."""
    names = _twice(hook.name for hook in context.bundle.hooks)
    return {"names": listed(name or "none" for name in names)} if names else None


def folders(context: CheckContext) -> Answer:
    """Known only for inspected images; a catalog has the objects of a bundle without paths."""
    names = context.bundle.folders
    return {"folders": listed(names)} if names else None


def unnamed_object(context: CheckContext) -> Answer:
    """Helm looks each object up by its name; one with generateName has none."""
    if context.bundle.shipped is None:
        return Unread.FACT
    kinds = [item.kind for item in context.bundle.shipped if not item.name]
    return {"kinds": kinds_text(kinds)} if kinds else None


def unsupported_kind(context: CheckContext) -> Answer:
    if context.bundle.shipped is None:
        return Unread.FACT
    kinds = [item.kind for item in context.bundle.shipped if item.kind.kind not in SUPPORTED]
    return {"kinds": kinds_text(kinds)} if kinds else None


def inconsistent(context: CheckContext) -> Answer:
    """The first fault that operator-controller reports before it renders the bundle."""
    bundle = context.bundle
    if bundle.deployments is None or bundle.crd_versions is None:
        return Unread.FACT
    fault = next(_inconsistencies(bundle), "")
    return {"fault": fault} if fault else None


def _inconsistencies(bundle: Contents) -> Iterator[str]:
    """In the order of its validators, without those that have a rule of their own."""
    deployments = bundle.deployments or ()
    for name in _twice(deployments):
        yield f"its ClusterServiceVersion has Deployment {name} twice"
    for name in deployments:
        if not _SUBDOMAIN.match(name):
            yield f"{_quoted(name)} is no valid name of a Deployment"
    crds = [name for name, _ in bundle.crd_versions or ()]
    for name in _twice(crds):
        yield f"it has the CustomResourceDefinition {name} twice"
    for name in bundle.owned_crds:
        if name not in crds:
            yield f"it says that it owns the CustomResourceDefinition {name}, and has none"
    yield from _of_webhooks(bundle, deployments)


def _of_webhooks(bundle: Contents, deployments: tuple[str, ...]) -> Iterator[str]:
    for hook in bundle.hooks:
        if hook.deployment not in deployments:
            yield f"its webhook {hook.name} names a Deployment that it lacks: {hook.deployment}"
    for type_, name in _twice((hook.type, hook.name) for hook in bundle.hooks):
        yield f"it has two webhooks of type {type_} with the name {name}"
    for hook in bundle.hooks:
        if not _SUBDOMAIN.match(hook.name):
            yield f"{_quoted(hook.name)} is no valid name of a webhook"
    converting = [(crd, hook.name) for hook in bundle.hooks for crd in hook.crds]
    for crd in _twice(crd for crd, _ in converting):
        yield f"two conversion webhooks are for {crd}"
    for crd, name in converting:
        if crd not in bundle.owned_crds:
            yield f"its conversion webhook {name} is for {crd}, which it does not own"


def _quoted(name: str) -> str:
    return f"“{name}”"


def _twice(names: Iterable[_T]) -> list[_T]:
    return [name for name, times in Counter(names).items() if times > 1]
