"""Checks that depend on the feature gates of operator-controller.

A gate that its Deployment does not set has the default of its version, which is unknown here.
"""

from collections.abc import Mapping

from catalogs.contents.bundle_facts import Contents, ApiKind
from catalogs.verdicts.check_input import (
    ALL_NAMESPACES,
    Answer,
    CheckContext,
    Unread,
    counted,
    modes_text,
)

ONE_NAMESPACE = "SingleOwnNamespaceInstallSupport"
CERT_MANAGER = "WebhookProviderCertManager"
SERVICE_CA = "WebhookProviderOpenshiftServiceCA"
CERTIFICATE = ApiKind("cert-manager.io", "v1", "Certificate")


def watching(context: CheckContext) -> Answer:
    """Support for all namespaces, or for one namespace if the feature gate for it is on."""
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    if ALL_NAMESPACES in modes:
        return None
    which = _which_namespace(context.bundle)
    gate = _gates(context).get(ONE_NAMESPACE)
    if which and gate:
        return None  # the next rule says what it takes
    otherwise = "No feature gate changes that."
    if which:
        when = "It would take it if it ran" if gate is False else "It takes it only when it runs"
        off = ", which is off here," if gate is False else ","
        otherwise = (
            f"{when} with the feature gate {ONE_NAMESPACE}{off} "
            f"and with {which} in spec.config.inline.watchNamespace."
        )
    return {"modes": modes_text(context.bundle), "otherwise": otherwise}


def watch_namespace(context: CheckContext) -> Answer:
    """A bundle that is accepted only with a watch namespace."""
    modes = context.bundle.install_modes
    if modes is None or ALL_NAMESPACES in modes or not _gates(context).get(ONE_NAMESPACE):
        return None
    which = _which_namespace(context.bundle)
    return {"modes": modes_text(context.bundle), "which": which} if which else None


def webhooks(context: CheckContext) -> Answer:
    """Webhooks if it is unknown whether they are accepted, and unknown webhooks."""
    answer = counted(context.bundle.webhooks, "webhook")
    if answer is Unread.FACT or _no_webhooks(context) is None:
        return answer
    return None  # it takes them, or the next rule says why not


def webhook_provider(context: CheckContext) -> Answer:
    """Webhooks without a certificate provider."""
    answer, why = counted(context.bundle.webhooks, "webhook"), _no_webhooks(context)
    if not isinstance(answer, Mapping) or not why:
        return None
    return {**answer, "why": why}


def _gates(context: CheckContext) -> dict[str, bool]:
    return dict(context.cluster.gates or {})


def _which_namespace(bundle: Contents) -> str:
    """A phrase for the namespace that it may watch (isWatchNamespaceConfigRequired and
    selectNamespaceFormat of internal/operator-controller/rukpak/bundle/registryv1.go); empty for
    no single namespace."""
    modes = bundle.install_modes or frozenset()
    own, single = "OwnNamespace" in modes, "SingleNamespace" in modes
    if own and single:
        return "one namespace"
    if own:
        return "the namespace of the ClusterExtension"
    return "another namespace than its own" if single else ""


def _no_webhooks(context: CheckContext) -> str | None:
    """The reason for refusing webhooks, empty if they are accepted, None if unknown. Mirrors
    getCertificateProvider of cmd/operator-controller/main.go: cert-manager's comes first."""
    gates = _gates(context)
    manager, service = gates.get(CERT_MANAGER), gates.get(SERVICE_CA)
    if manager:
        served = context.cluster.serves(CERTIFICATE, context.bundle)
        if served is False:
            return (
                f"the certificates would be cert-manager's, and {CERTIFICATE.label} is not served"
            )
        return "" if served else None
    if manager is None or service is None:
        return None
    return "" if service else f"the feature gates {CERT_MANAGER} and {SERVICE_CA} are off"
