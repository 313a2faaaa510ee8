"""Which packages meet the dependencies that a bundle declares, as the resolver of OLM v0 decides.

The rule of the verdicts, the contents page and the install form: a namespace can use its own
catalogs and the global ones; they are searched in the order of `search_key`; an operator of OLM v0
in the namespace counts before them; the version of a required package must be in the range. Of a
required API, a package counts if one of its bundles provides it.

Source: operator-lifecycle-manager pkg/controller/registry/resolver (resolver.go,
cache/predicates.go, and sortableSnapshots in cache/cache.go). Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from catalogs.contents.bundle_facts import ApiKind
from catalogs.install_methods import InstallMethod
from catalogs.semver import Version, blang_range, read_version
from catalogs.verdicts.health_checks import visible_namespaces

# Operators that the resolver knows: those with a ClusterServiceVersion.
OLM_V0 = (InstallMethod.SUBSCRIPTION.value, "ClusterServiceVersion")
PACKAGES_NAMED = 3  # providers of one requirement


class RequiredPackage(NamedTuple):
    """An olm.package.required; `range` is a blang range."""

    name: str
    range: str


Requirement = RequiredPackage | ApiKind
# Package -> versions of its operators of OLM v0, as written; empty while it is not known.
Installed = Mapping[str, Collection[str]]


class Offers(Protocol):
    """Package -> the versions of its bundles; API -> the packages that provide it."""

    @property
    def versions(self) -> Mapping[str, Collection[Version]]: ...
    @property
    def providers(self) -> Mapping[ApiKind, Collection[str]]: ...


# -- requirements ----------------------------------------------------------------------------------


def requirement_text(requirement: Requirement) -> str:
    """`Package store >=2.0.0`, `API Bucket (store.example/v1)`."""
    if isinstance(requirement, ApiKind):
        return f"API {requirement.label}"
    return f"Package {requirement.name} {requirement.range}".strip()


def requirements_of(
    packages: Iterable[tuple[str, str]], apis: Iterable[ApiKind], constraints: Iterable[Any] = ()
) -> tuple[list[Requirement], list[Any]]:
    """The distinct requirements that must all be met, those in constraints included, and the
    constraints that are no list of requirements (`any`, `not`, CEL, invalid ones). `packages` are
    (name, range), `constraints` values of olm.constraint as decoded."""
    requirements: list[Requirement] = [RequiredPackage(*package) for package in packages]
    requirements += apis
    others = []
    pending = [*constraints][::-1]  # the next one last
    while pending:
        constraint = pending.pop()
        if (requirement := _requirement(constraint)) is not None:
            requirements.append(requirement)
        elif (nested := _nested(constraint, "all")) is not None:
            pending += nested[::-1]
        else:
            others.append(constraint)
    return list(dict.fromkeys(requirements)), others


def _requirement(constraint: Any) -> Requirement | None:
    if not isinstance(constraint, dict):
        return None
    if isinstance(package := constraint.get("package"), dict):
        return RequiredPackage(str(package.get("packageName")), str(package.get("versionRange")))
    if isinstance(gvk := constraint.get("gvk"), dict):
        return ApiKind(*(str(gvk.get(key) or "") for key in ("group", "version", "kind")))
    return None


def _nested(constraint: Any, word: str) -> list[Any] | None:
    """The constraints of the compound constraint `word`; None for other constraints."""
    if not isinstance(constraint, dict) or not isinstance(compound := constraint.get(word), dict):
        return None
    nested = compound.get("constraints")
    return nested if isinstance(nested, list) else []


# -- packages that meet them -----------------------------------------------------------------------


def in_range(version: str, text: str) -> bool:
    """Whether the version is in the blang range; False where one of them can't be read."""
    read = read_version(version.removeprefix("v"))
    try:
        return read is not None and blang_range(text)(read)
    except ValueError:
        return False


def providers_of(requirement: Requirement, offers: Offers) -> list[str]:
    """The offered packages that meet the requirement, by name; none for an unreadable range."""
    if isinstance(requirement, ApiKind):
        return sorted(offers.providers.get(requirement, ()))
    try:
        within = blang_range(requirement.range)
    except ValueError:
        return []
    versions = offers.versions.get(requirement.name, ())
    return [requirement.name] if any(within(version) for version in versions) else []


def installed_of(requirement: Requirement, installed: Installed, offers: Offers) -> list[str]:
    """The installed packages that meet the requirement, by name. A version that is not known yet
    counts as in range."""
    if isinstance(requirement, ApiKind):
        return sorted(installed.keys() & set(offers.providers.get(requirement, ())))
    versions = installed.get(requirement.name, ())
    met = any(not version or in_range(version, requirement.range) for version in versions)
    return [requirement.name] if met else []


def is_met(constraint: Any, offers: Offers, installed: Installed) -> bool | None:
    """Whether the packages meet an olm.constraint; None if only the resolver can evaluate it."""
    if (requirement := _requirement(constraint)) is not None:
        present = installed_of(requirement, installed, offers)
        return bool(present or providers_of(requirement, offers))
    for word, decide in (("all", _all), ("any", _any), ("not", _none)):
        if (nested := _nested(constraint, word)) is not None:
            return decide([is_met(inner, offers, installed) for inner in nested])
    return None


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _none(answers: list[bool | None]) -> bool | None:
    met = _any(answers)
    return None if met is None else not met


# -- resolution in a namespace ---------------------------------------------------------------------


class SearchedCatalog(NamedTuple):
    """A CatalogSource with its offers."""

    namespace: str
    name: str
    priority: int
    offers: Offers


@dataclass(frozen=True, slots=True)
class Dependency:
    """A requirement of a bundle and the packages that meet it: those of operators in the namespace
    if `installed`, else of `catalog` (NAMESPACE/NAME), the first that offers some, with `more` that
    are not named. Without packages, no catalog of the namespace offers any. `outdated`: the
    installed version of a required package that is not in the range."""

    requirement: str
    packages: tuple[str, ...] = ()
    catalog: str = ""
    more: int = 0
    installed: bool = False
    outdated: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceResolver:
    """Resolves the dependencies of a bundle of the CatalogSource `own` (namespace, name) that is
    installed in `namespace`. `own_catalogs_only`: its OperatorGroup excludes the global catalogs.
    `all_offers` are those of all catalogs: they say which APIs an installed package provides."""

    namespace: str
    own: tuple[str, str]
    own_catalogs_only: bool
    installed: Installed
    catalogs: Sequence[SearchedCatalog]
    all_offers: Offers

    def search_key(self, catalog: SearchedCatalog) -> tuple[bool, int, bool, str]:
        """The catalog of the bundle first, then by priority, those of the namespace before the
        global ones, by name."""
        is_own = (catalog.namespace, catalog.name) == self.own
        return not is_own, -catalog.priority, catalog.namespace != self.namespace, catalog.name

    def resolve(self, requirement: Requirement) -> Dependency:
        """The packages that OLM uses for the requirement."""
        text = requirement_text(requirement)
        if present := installed_of(requirement, self.installed, self.all_offers):
            return Dependency(text, tuple(present), installed=True)
        if isinstance(requirement, RequiredPackage):
            for version in self.installed.get(requirement.name, ()):
                return Dependency(text, (requirement.name,), installed=True, outdated=version)
        visible = visible_namespaces(self.namespace, own_only=self.own_catalogs_only)
        searched = [catalog for catalog in self.catalogs if catalog.namespace in visible]
        for catalog in sorted(searched, key=self.search_key):
            if packages := providers_of(requirement, catalog.offers):
                named = tuple(packages[:PACKAGES_NAMED])
                where = f"{catalog.namespace}/{catalog.name}"
                return Dependency(text, named, where, more=len(packages) - len(named))
        return Dependency(text)
