"""The bundles that OLM v0 installs beside a bundle: those that provide its dependencies.

A small part of the resolver of operator-lifecycle-manager (pkg/controller/registry/resolver):
olm.package.required and olm.gvk.required; the operators of the namespace first, then the
catalogs in their order. Pure; must not know the store.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.controllers.bundles import BundleContent, FileBasedCatalog, in_range

Property = Mapping[str, Any]  # type and value

_PACKAGE, _GVK = "olm.package", "olm.gvk"
_REQUIRED = ".required"


class Unsatisfiable(Exception):
    """A dependency that nothing provides, in the resolver's words."""


@dataclass(frozen=True, slots=True)
class CatalogInUse:
    """A catalog that a namespace can use, and the CatalogSource that offers it."""

    source: str
    source_namespace: str
    content: FileBasedCatalog


@dataclass(frozen=True, slots=True)
class Dependency:
    """A bundle that another one requires, and the catalog and channel to follow."""

    bundle: BundleContent
    source: str
    source_namespace: str
    channel: str

    @property
    def subscription(self) -> str:
        """The name of the Subscription that OLM generates (NewSubscriptionStepResource)."""
        return "-".join((self.bundle.package, self.channel, self.source, self.source_namespace))


def dependencies(
    bundle: BundleContent, installed: Iterable[Property], catalogs: Sequence[CatalogInUse]
) -> list[Dependency]:
    """What is installed together with the bundle, the dependencies of dependencies included.

    `installed` are the properties of the operators of the namespace; `catalogs` are in the order
    in which the resolver searches. Raises Unsatisfiable.
    """
    provided = [*installed, *bundle.properties]
    chosen: list[Dependency] = []
    pending = [bundle]
    while pending:
        dependent = pending.pop(0)
        # Packages first: the bundle of a required package often provides a required API, too.
        required = [item for item in dependent.properties if item["type"].endswith(_REQUIRED)]
        for requirement in sorted(required, key=lambda item: item["type"] != _PACKAGE + _REQUIRED):
            if any(_meets(item, requirement) for item in provided):
                continue
            dependency = _first(requirement, catalogs)
            if dependency is None:
                raise Unsatisfiable(f"bundle {dependent.name} requires {_words(requirement)}")
            chosen.append(dependency)
            pending.append(dependency.bundle)
            provided += dependency.bundle.properties
    return chosen


def _first(requirement: Property, catalogs: Sequence[CatalogInUse]) -> Dependency | None:
    """The newest bundle that meets it: of the first catalog, its first package by name and the
    default channel, if they have some."""
    for catalog in catalogs:
        content = catalog.content
        wanted = requirement["value"].get("packageName")
        for package in [wanted] if wanted else sorted(content.packages()):
            bundles = {bundle.name: bundle for bundle in content.bundles(package)}
            for channel in content.channels(package):
                for entry in reversed(channel["entries"]):
                    bundle = bundles.get(entry["name"])
                    if bundle and any(_meets(item, requirement) for item in bundle.properties):
                        source = (catalog.source, catalog.source_namespace)
                        return Dependency(bundle, *source, channel["name"])
    return None


def _meets(item: Property, requirement: Property) -> bool:
    """Whether a property provides what the requirement asks for."""
    if item["type"] + _REQUIRED != requirement["type"]:
        return False
    value, wanted = item["value"], requirement["value"]
    if item["type"] == _GVK:
        return all(value[name] == wanted[name] for name in ("group", "kind", "version"))
    if item["type"] != _PACKAGE or value["packageName"] != wanted["packageName"]:
        return False
    return in_range(wanted["versionRange"], value["version"])


def _words(requirement: Property) -> str:
    value = requirement["value"]
    if requirement["type"] == _GVK + _REQUIRED:
        api = ", ".join(f"{name}: {value[name]}" for name in ("group", "version", "kind"))
        return f"an operator that provides an API with {api}"
    name, wanted = value["packageName"], value["versionRange"]
    return f"an operator with package: {name} and with version in range: {wanted}"
