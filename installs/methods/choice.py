"""What a person chooses to install, and the sentences about values that no cluster would take.

Rules of names: Kubernetes wants a DNS-1123 subdomain (RFC 1123), a label for a namespace; rukpak
makes a Helm release of the PlatformOperator's name, and Helm allows 53 characters; the
PlatformOperator CRD allows 56 for the package. Pure.
"""

import re
from dataclasses import dataclass

from catalogs.install_methods import InstallMethod
from catalogs.resolve import v1
from catalogs.resolve.facts import BadQuestion

AUTOMATIC, MANUAL = "Automatic", "Manual"
CATALOG_PROVIDED, SELF_CERTIFIED = "CatalogProvided", "SelfCertified"
POLICIES = (CATALOG_PROVIDED, SELF_CERTIFIED)
ENFORCEMENTS = ("Strict", "None")
HELM_NAME_LIMIT = 53
NAME_LIMIT = 253
NAMESPACE_LIMIT = 63
PACKAGE_LIMIT = 56
TARGETS_LIMIT = 50

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
_CONFIG = "spec.install.preflight.crdUpgradeSafety.enforcement"
_SOURCE = "spec.source.catalog"
# What a form may offer, by path: field of the object -> field of the form that it is made from.
# Whether it is offered depends on the CustomResourceDefinition of the cluster.
FIELDS: dict[str, dict[str, str]] = {
    InstallMethod.PLATFORM_OPERATOR: {"spec.package.name": "package"},
    InstallMethod.CLUSTER_EXTENSION: {
        "spec.namespace": "namespace",
        "spec.serviceAccount.name": "service_account",
        f"{_SOURCE}.packageName": "package",
        f"{_SOURCE}.channels": "channel",
        f"{_SOURCE}.version": "version",
        f"{_SOURCE}.selector": "catalog",
        f"{_SOURCE}.upgradeConstraintPolicy": "policy",
        _CONFIG: "crd_safety",
    },
    InstallMethod.SUBSCRIPTION: {
        "spec.name": "package",
        "spec.channel": "channel",
        "spec.source": "catalog",
        "spec.sourceNamespace": "catalog",
        "spec.startingCSV": "version",
        "spec.installPlanApproval": "approval",
        "spec.targetNamespaces": "targets",
    },
}
_EVERYWHERE = {"metadata.name": "name", "metadata.namespace": "namespace"}
# Ignored by every operator-controller that calls it deprecated; only a CRD that is known to have it
# undeprecated makes it worth asking for.
_ONLY_IF_KNOWN = frozenset({"spec.serviceAccount.name"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One install, as a person chose it. `name` is the main object's.

    `version` is a range for a ClusterExtension, and the name of the first bundle (startingCSV) for
    a Subscription; `targets` are the namespaces that the OperatorGroup watches, none meaning all;
    `make_namespace` and `make_group` say whether these are to be made. `api_version` is that of
    the main object as the cluster serves it, empty for the usual one; `known` are the fields that
    the cluster's CustomResourceDefinition has, None when that was not read.
    """

    path: InstallMethod
    package: str
    name: str
    catalog: str = ""
    catalog_namespace: str = ""
    channel: str = ""
    version: str = ""
    namespace: str = ""
    targets: tuple[str, ...] = ()
    approval: str = AUTOMATIC
    policy: str = CATALOG_PROVIDED
    service_account: str = ""
    crd_safety: str = ""
    make_namespace: bool = True
    make_group: bool = True
    api_version: str = ""
    known: frozenset[str] | None = None

    def has(self, path: str) -> bool:
        """Whether the cluster's CRD knows this field of the main object, as `spec.channel`."""
        return path not in _ONLY_IF_KNOWN if self.known is None else path in self.known

    @property
    def offered(self) -> frozenset[str]:
        """The fields of the form that this cluster has a use for."""
        return frozenset(
            form for path, form in FIELDS[self.path].items() if self.has(path)
        ) | frozenset(_EVERYWHERE.values())


def default_name(package: str, path: InstallMethod = InstallMethod.PLATFORM_OPERATOR) -> str:
    """A valid name for the object that installs this package: its own, cut if need be."""
    limit = HELM_NAME_LIMIT if path == InstallMethod.PLATFORM_OPERATOR else NAME_LIMIT
    return package[:limit].rstrip("-.")


def problems(choice: Choice) -> dict[str, str]:
    """Form field -> sentence, for every value that the cluster would surely refuse."""
    found = _name_problem(choice) | _package_problem(choice)
    if choice.path == InstallMethod.PLATFORM_OPERATOR:
        return found
    found |= _namespace_problem("namespace", choice.namespace)
    if choice.path == InstallMethod.CLUSTER_EXTENSION:
        return found | _extension_problems(choice)
    return found | _subscription_problems(choice)


def form_field(path: str, kind: str = InstallMethod.PLATFORM_OPERATOR) -> str:
    """The form field behind a field of the object, such as `.spec.package.name`; else the path."""
    path = path.removeprefix(".")
    if path in _EVERYWHERE:
        return _EVERYWHERE[path]
    for known, form in FIELDS.get(kind, {}).items():
        if path == known or path.startswith((f"{known}.", f"{known}[")):
            return form
    return path


def _name_problem(choice: Choice) -> dict[str, str]:
    name, path = choice.name, choice.path
    limit = HELM_NAME_LIMIT if path == InstallMethod.PLATFORM_OPERATOR else NAME_LIMIT
    if not name:
        return {"name": f"Give the {path} a name."}
    if len(name) > limit:
        why = (
            ": it is also the name of the Helm release"
            if path == InstallMethod.PLATFORM_OPERATOR
            else ""
        )
        return {"name": f"The name has {len(name)} characters and may have {limit}{why}."}
    if not _SUBDOMAIN.fullmatch(name):
        return {
            "name": "The name may have lower-case letters, digits, - and . only, and each part "
            "between dots starts and ends with a letter or digit."
        }
    return {}


def _package_problem(choice: Choice) -> dict[str, str]:
    if not choice.package:
        return {"package": "Choose a package."}
    if choice.path == InstallMethod.PLATFORM_OPERATOR and len(choice.package) > PACKAGE_LIMIT:
        return {
            "package": f"The package's name has {len(choice.package)} characters; a "
            f"PlatformOperator allows {PACKAGE_LIMIT}."
        }
    if choice.path == InstallMethod.CLUSTER_EXTENSION and (
        len(choice.package) > NAME_LIMIT or not _SUBDOMAIN.fullmatch(choice.package)
    ):
        return {
            "package": "A ClusterExtension names packages by DNS names only (lower-case letters, "
            f"digits, - and .), which “{choice.package[:80]}” is not: install it another way."
        }
    return {}


def _namespace_problem(field: str, name: str) -> dict[str, str]:
    if not name:
        return {field: "Name the namespace to install into."}
    if len(name) > NAMESPACE_LIMIT or not _NAMESPACE.fullmatch(name):
        return {
            field: f'"{name[:80]}" is no name of a namespace: use at most {NAMESPACE_LIMIT} '
            "lower-case letters, digits and -, and begin and end with a letter or digit."
        }
    return {}


def _extension_problems(choice: Choice) -> dict[str, str]:
    found = {}
    if choice.policy not in POLICIES:
        found["policy"] = f"The upgrade policy is {' or '.join(POLICIES)}."
    if choice.crd_safety and choice.crd_safety not in ENFORCEMENTS:
        found["crd_safety"] = f"CRD upgrade safety is {' or '.join(ENFORCEMENTS)}."
    if choice.service_account and not _SUBDOMAIN.fullmatch(choice.service_account):
        found["service_account"] = (
            "The ServiceAccount's name may have lower-case letters, digits, - and . only."
        )
    elif choice.has("spec.serviceAccount.name") and not choice.service_account:
        found["service_account"] = (
            "Name the ServiceAccount that installs it: this cluster's ClusterExtensions need one."
        )
    try:
        v1.read_range(choice.version)
    except BadQuestion as error:
        found["version"] = str(error)
    return found


def _subscription_problems(choice: Choice) -> dict[str, str]:
    found = {}
    if choice.approval not in (AUTOMATIC, MANUAL):
        found["approval"] = f"The approval is {AUTOMATIC} or {MANUAL}."
    if not choice.catalog or not choice.catalog_namespace:
        found["catalog"] = (
            "A Subscription needs a CatalogSource of the cluster; this catalog is none."
        )
    if len(choice.targets) > TARGETS_LIMIT:
        found["targets"] = f"Name at most {TARGETS_LIMIT} namespaces to watch."
    for target in choice.targets:
        found |= _namespace_problem("targets", target)
    return found
