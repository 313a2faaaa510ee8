"""The base class of the install methods: names and namespaces, manifests. Pure.

Rules of names: Kubernetes wants a DNS-1123 subdomain (RFC 1123), a label for a namespace.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import yaml

from catalogs.install_methods import InstallMethod
from catalogs.resolve.facts import Resolution
from installs.methods.configuration import CONFIG, config_problems, listed_problems
from olmweb.kube.resources import Resource

AUTOMATIC, MANUAL = "Automatic", "Manual"
MANUAL_APPROVAL = (
    "The installation and each update need approval; until then no Subscription of the namespace "
    "is updated."
)
CATALOG_PROVIDED, SELF_CERTIFIED = "CatalogProvided", "SelfCertified"
POLICIES = (CATALOG_PROVIDED, SELF_CERTIFIED)
ENFORCEMENTS = ("Strict", "None")
NAME_LIMIT = 253
NAMESPACE_LIMIT = 63

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
_METADATA_FIELDS = {"metadata.name": "name", "metadata.namespace": "namespace"}
CONFIG_FIELD = "spec.config"
# Newer operator-controllers ignore the ServiceAccount and call it deprecated, and few serve a
# configuration: offered only if the CRD is known to have them undeprecated.
_ONLY_IF_KNOWN = frozenset({"spec.serviceAccount.name", CONFIG_FIELD})

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallChoice:
    """The values of one install. `name` is that of the main object.

    `version` is a range for a ClusterExtension, and the name of the first bundle (startingCSV) for
    a Subscription; `targets` are the namespaces that the OperatorGroup watches, none meaning all;
    `make_namespace` and `make_group` tell whether to create these, `group` is the name of the
    OperatorGroup, empty for that of the namespace, and `group_spec` holds the fields of its
    specification beside the targets. `api_version` is the served
    version of the main object, empty for the usual one; `known_fields` are the fields of the
    cluster's CustomResourceDefinition, None if unknown, and `required_fields` those that its
    specification requires, None if unknown. `config` is `spec.config`, empty for none;
    `config_schema` is what it is checked against, None where only the cluster can tell.
    """

    method: InstallMethod
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
    group: str = ""
    group_spec: Mapping[str, Any] = field(default_factory=dict)
    api_version: str = ""
    known_fields: frozenset[str] | None = None
    required_fields: frozenset[str] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_schema: Mapping[str, Any] | None = None

    def has(self, field: str) -> bool:
        """Whether the cluster's CRD has this field of the main object, such as `spec.channel`."""
        if self.known_fields is None:
            return field not in _ONLY_IF_KNOWN
        return field in self.known_fields


class SourceName(NamedTuple):
    """A CatalogSource of the cluster; empty names where it has none."""

    name: str = ""
    namespace: str = ""


class CrdOwner(NamedTuple):
    """The owner of CustomResourceDefinitions, as the rows of a cluster name it."""

    kind: str
    name: str


class UpgradeChange(NamedTuple):
    """The channel and version range of an upgrade; empty where the method has none."""

    channel: str = ""
    version: str = ""


# A key of the values of a form: not empty if nobody chose the installation mode, which then follows
# an entered namespace.
FOLLOWS_NAMESPACE = "follows_namespace"


class InstallContext(Protocol):
    """The facts that the defaults of an install depend on."""

    @property
    def cluster_catalog(self) -> str:
        """The ClusterCatalog of the package; empty for other catalogs."""

    def watches_all(self) -> bool:
        """Whether the OperatorGroup watches every namespace by default."""

    def supports_own(self) -> bool:
        """Whether the bundle is known to support to watch its own namespace alone."""

    def catalog_source(self) -> SourceName: ...
    def suggested_namespace(self) -> str: ...
    def has_namespace(self, namespace: str) -> bool: ...
    def has_group(self, namespace: str) -> bool: ...

    def namespace_of_global_group(self) -> str:
        """The usual namespace with an OperatorGroup that watches all; else empty."""


def namespace_for(package: str, suggested: str) -> str:
    """The namespace that the package is installed in by default; `suggested` by its bundle."""
    return suggested or package.replace(".", "-")[:NAMESPACE_LIMIT].strip("-")


class OperatorFields(Protocol):
    """The fields of an operator's row that upgrades and removals read."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def package(self) -> str: ...
    @property
    def catalog(self) -> str: ...
    @property
    def catalog_namespace(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def version_asked(self) -> str: ...
    @property
    def bundle(self) -> str: ...
    @property
    def details(self) -> Any: ...


class Method(ABC):
    """Form fields, problems, manifests, upgrade and removal of one install method. Stateless.

    `fields` maps a field of the main object to the form field that it is made from; a form offers
    those that the cluster's CustomResourceDefinition has. `semantics` is the upgrade graph that
    the controller follows, empty where it never upgrades. `needs_group`: an OperatorGroup of the
    namespace decides what it watches. `one_per_package`: a second object for a package fails.
    `version_hint` says why no version can be chosen; empty where one can.
    """

    kind: InstallMethod
    resource: Resource
    fields: Mapping[str, str]
    unserved_hint: str
    semantics: str = ""
    needs_group: bool = False
    reads_ranges: bool = False  # whether the controller resolves a version range itself
    one_per_package: bool = False
    needs_namespace: bool = True
    version_hint: str = ""
    config_hint: str = ""  # why a cluster may serve no spec.config, and what to do
    name_limit: int = NAME_LIMIT
    change_words: str = ""  # the action of `upgrade` while no newer version is available
    upgrade_fields: frozenset[str] = frozenset()  # form fields that `upgrade` reads

    # -- install -----------------------------------------------------------------------------------

    def default_name(self, package: str) -> str:
        """A valid name for the object that installs this package: its own, cut if need be."""
        return package[: self.name_limit].rstrip("-.")

    def form_fields(self) -> frozenset[str]:
        """The form fields that the method can use on some cluster."""
        namespace = ("namespace",) if self.needs_namespace else ()
        return frozenset((*self.fields.values(), *namespace))

    def offered(self, choice: InstallChoice) -> frozenset[str]:
        """The form fields that the cluster's CustomResourceDefinition has."""
        forms = (form for field, form in self.fields.items() if choice.has(field))
        return frozenset((*forms, *_METADATA_FIELDS.values()))

    def form_field(self, field: str) -> str:
        """The form field of a field of the object, such as `.spec.package.name`, or that itself.

        A field of the configuration keeps its path below `spec`: `config.env`.
        """
        field = field.removeprefix(".")
        if field in _METADATA_FIELDS:
            return _METADATA_FIELDS[field]
        for prefix, form in self.fields.items():
            if field == prefix or field.startswith((f"{prefix}.", f"{prefix}[")):
                return field.removeprefix("spec.") if form == CONFIG else form
        return field

    @abstractmethod
    def with_defaults(
        self, choice: InstallChoice, values: Mapping[str, str], context: InstallContext
    ) -> InstallChoice:
        """The choice with the namespace, catalog and targets that form values leave open."""

    def problems(self, choice: InstallChoice) -> dict[str, str]:
        """Form field -> sentence, for every value that the cluster would refuse."""
        problems = self._name_problem(choice) | self._package_problem(choice)
        return problems | self.config_problems(choice)

    def config_problems(self, choice: InstallChoice) -> dict[str, str]:
        """Path such as `config.env[0].name` -> sentence, for what the cluster's schema refuses."""
        return self.problems_of_config(choice.config, choice.config_schema)

    def problems_of_config(
        self, config: Mapping[str, Any], schema: Mapping[str, Any] | None
    ) -> dict[str, str]:
        if not config or schema is None:
            return {}
        return listed_problems(config_problems(config, schema))

    def objects(self, choice: InstallChoice) -> list[Manifest]:
        """Every object that installs the choice, in order of application.

        Each holds only the fields that OLM Web means to own under its field manager.
        """
        return [*self.needed_objects(choice), self.main_object(choice)]

    def needs_account(self, choice: InstallChoice) -> bool:
        """Whether the cluster's definition requires the name of a ServiceAccount."""
        return False

    def needed_objects(self, choice: InstallChoice) -> list[Manifest]:
        """Objects that have to exist before the main one."""
        return []

    def main_object(self, choice: InstallChoice) -> Manifest:
        namespace = choice.namespace if self.resource.namespaced else ""
        return manifest_of(
            self.resource, choice.name, namespace, choice.api_version, spec=self.spec(choice)
        )

    @abstractmethod
    def spec(self, choice: InstallChoice) -> dict[str, Any]: ...

    @abstractmethod
    def consequences(self, choice: InstallChoice, bundle: str) -> list[str]:
        """Sentences about the results of the install; `bundle` is installed first, if known."""

    def version_range(self, choice: InstallChoice) -> str:
        """The version range that the controller itself follows; empty where it reads none."""
        return ""

    def first_bundle(self, choice: InstallChoice) -> str:
        """The bundle that the choice names; empty where the controller chooses."""
        return ""

    def version_value(self, version: str, bundle: str) -> str:
        """The value of the form field `version` that names this bundle; empty without one."""
        return ""

    def values_for(self, version: str, bundle: str, channel: str) -> dict[str, str]:
        """Form values that install this version and no later one."""
        return {}

    @abstractmethod
    def pin(self, resolution: Resolution) -> str:
        """The resolved version as a value of the object's version field; empty without one."""

    @abstractmethod
    def export_notes(self, choice: InstallChoice, pinned: str) -> list[str]:
        """Comments for exported manifests."""

    # -- upgrade and removal -----------------------------------------------------------------------

    def installed_bundle(self, operator: OperatorFields) -> str:
        return operator.bundle

    @abstractmethod
    def least_spec(self, operator: OperatorFields) -> dict[str, Any]:
        """The minimal specification for an apply of the installed object."""

    def upgrade_problems(
        self, operator: OperatorFields, values: Mapping[str, str]
    ) -> dict[str, str]:
        """Form field -> sentence, for the values of an upgrade."""
        return {}

    def keeps(self, operator: OperatorFields, values: Mapping[str, str]) -> bool:
        """Whether an upgrade to these form values leaves all fields of the object as they are."""
        return False

    def upgrade(
        self, manifest: Manifest, operator: OperatorFields, values: Mapping[str, str]
    ) -> UpgradeChange:
        """Sets the fields of `manifest` that an upgrade to these form values applies."""
        return UpgradeChange()

    @abstractmethod
    def crd_owner(self, operator: OperatorFields) -> CrdOwner: ...

    def removal_consequences(
        self, operator: OperatorFields, crds: Mapping[str, int | None]
    ) -> tuple[str, ...]:
        """Sentences about the objects that a removal deletes. `crds` are those of the operator with
        their numbers of custom resources, None if unknown."""
        return (
            f"{self.kind} {operator.name} is deleted with every object that it installed.",
            f"That includes {crds_with_objects(crds)}, in every namespace.",
        )

    def objects_that_stay(
        self,
        operator: OperatorFields,
        crds: Mapping[str, int | None],
        groups: Sequence[str],
        dependencies: Sequence[str],
    ) -> tuple[str, ...]:
        """The objects that a removal does not delete, in noun phrases. `groups` are the
        OperatorGroups of its namespace, `dependencies` the Subscriptions there that OLM generated
        for dependencies."""
        return ()

    # -- shared by the methods ---------------------------------------------------------------------

    @property
    def upgradable(self) -> bool:
        return bool(self.semantics)

    def _name_problem(self, choice: InstallChoice) -> dict[str, str]:
        name = choice.name
        if not name:
            return {"name": f"Give the {self.kind} a name."}
        if len(name) > self.name_limit:
            limit = self._name_limit_sentence()
            return {"name": f"The name has {len(name)} characters and may have {limit}."}
        if not SUBDOMAIN.fullmatch(name):
            return {
                "name": "The name may have lower-case letters, digits, - and . only, and each part "
                "between dots starts and ends with a letter or digit."
            }
        return {}

    def _name_limit_sentence(self) -> str:
        return str(self.name_limit)

    def _package_problem(self, choice: InstallChoice) -> dict[str, str]:
        return {} if choice.package else {"package": "Choose a package."}


def namespace_problem(field: str, name: str) -> dict[str, str]:
    if not name:
        return {field: "Name the namespace to install into."}
    if len(name) > NAMESPACE_LIMIT or not _NAMESPACE.fullmatch(name):
        return {
            field: f'"{name[:80]}" is no name of a namespace: use at most {NAMESPACE_LIMIT} '
            "lower-case letters, digits and -, and begin and end with a letter or digit."
        }
    return {}


def crds_with_objects(counts: Mapping[str, int | None]) -> str:
    """`2 CustomResourceDefinitions (a, b) with 3 custom resources at the last count`, and `with all
    their custom resources` where a number is unknown; at most five are named. Without names, of an
    operator that may have created none, `any CustomResourceDefinition that it created`."""
    names = list(counts)
    listed = ", ".join(names[:5]) + (" and more" if len(names) > 5 else "")
    if len(names) == 1:
        crds, pronoun = f"CustomResourceDefinition {names[0]}", "its"
    elif names:
        crds, pronoun = f"{len(names)} CustomResourceDefinitions ({listed})", "their"
    else:
        crds, pronoun = "any CustomResourceDefinition that it created", "its"
    numbers = [number for number in counts.values() if number is not None]
    if not names or len(numbers) < len(names):
        return f"{crds} with all {pronoun} custom resources"
    noun = "custom resource" if sum(numbers) == 1 else "custom resources"
    return f"{crds} with {sum(numbers)} {noun} at the last count"


def manifest_of(
    resource: Resource, name: str, namespace: str = "", version: str = "", **fields: Any
) -> Manifest:
    """The manifest of an object; `fields` are those beside its metadata, such as `spec`."""
    version = version or resource.versions[0]
    return {
        "apiVersion": f"{resource.group}/{version}".lstrip("/"),
        "kind": resource.kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        **fields,
    }


def as_yaml(manifests: Sequence[Manifest]) -> str:
    """The manifests as YAML documents, in ASCII: nothing that an editor or a diff hides."""
    return "---\n".join(yaml.safe_dump(manifest, sort_keys=False) for manifest in manifests)
