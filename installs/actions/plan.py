"""Plans of actions, and the plan of an install. Makes no request.

A plan holds exactly the steps that would be sent, their consequences, and the warnings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import Resolution, ResolverPackage
from catalogs.resolve.stored import facts_of
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import (
    OPTIMISTIC,
    StoredVerdict,
    best_rows,
    best_verdicts,
    chosen_rows,
    verdicts,
)
from catalogs.verdicts.rules import Verdict
from installs.actions.objects import full_name, version_of
from installs.actions.warnings import InstallWarning, install_warnings
from installs.facts.cluster_facts import groups_in, watched_from
from installs.facts.evaluate import target_of, verdict_for
from installs.methods import AUTOMATIC, METHODS, POLICIES, InstallChoice, as_yaml
from installs.methods.base import NAME_LIMIT, SourceName
from installs.models import Action, Component, CRDState, Operator
from installs.models.steps import Apply, Delete, Step, as_manifests, remakes
from installs.state.observation import details_of
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster


@dataclass(frozen=True, slots=True)
class Plan:
    """An action that could be recorded.

    `kind`, `namespace` and `name` are those of its main object, `uid` if that exists; `target` is
    the bundle that it ends with, empty if unknown; `consequences` are sentences; `by_hand` are
    steps and commands for a person where the action does not help.
    """

    cluster: Cluster
    verb: str
    kind: str
    namespace: str
    name: str
    steps: tuple[Step, ...]
    package: str = ""
    catalog: str = ""
    channel: str = ""
    version: str = ""
    target: str = ""
    uid: str = ""
    force: bool = False
    warnings: tuple[InstallWarning, ...] = ()
    consequences: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    choice: InstallChoice | None = None
    resolution: Resolution | None = field(default=None, compare=False)
    verdict: StoredVerdict | None = field(default=None, compare=False)  # on `target`

    @property
    def main(self) -> Step:
        """The apply of the main object; for a removal its deletion."""
        by_verb = {step.verb: step for step in self.steps if step.main}
        return by_verb.get(Apply.verb) or by_verb[Delete.verb]

    @property
    def remakes(self) -> bool:
        """Whether the main object is deleted and made again."""
        return remakes(self.steps)

    @property
    def deletions(self) -> list[Delete]:
        return [step for step in self.steps if isinstance(step, Delete)]

    @property
    def manifests(self) -> list[dict[str, Any]]:
        return as_manifests(self.steps)

    @property
    def yaml(self) -> str:
        return as_yaml([step.manifest for step in self.steps if isinstance(step, Apply)])


def served_version(cluster: Cluster, kind: str) -> str:
    """The version to write, e.g. `v1`; empty when the cluster does not serve the kind."""
    is_served = cluster.kinds.get(kind, {}).get("state") == "served"
    return version_of(cluster, METHODS[kind].resource) if is_served else ""


def paths_of(cluster: Cluster, catalog: Catalog) -> list[InstallMethod]:
    """The install methods for packages of this catalog on the cluster."""
    is_source = catalog.source_kind in (
        Catalog.SourceKind.CATALOG_SOURCE,
        Catalog.SourceKind.PACKAGE_MANIFEST,
    )
    fits = {
        InstallMethod.PLATFORM_OPERATOR: True,
        InstallMethod.CLUSTER_EXTENSION: catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG,
        InstallMethod.SUBSCRIPTION: is_source or _sources_of(cluster, catalog).exists(),
    }
    return [method for method in InstallMethod if fits[method] and served_version(cluster, method)]


def plan_install(
    cluster: Cluster,
    package: Package,
    name: str,
    method: str = InstallMethod.PLATFORM_OPERATOR,
    values: Mapping[str, str] | None = None,
) -> Plan:
    """The install of this package by `method`.

    `values` are by form field (namespace, channel, version, approval, policy, targets: own, all or
    names with commas, service_account, crd_safety); empty ones have their defaults. Raises
    OlmwebError with `fields` for values that the cluster would refuse, and when it does not serve
    the method.
    """
    choice = choice_for(cluster, package, name, method, values or {})
    rules = METHODS[choice.method]
    problems = rules.problems(choice)
    resolution: Resolution | None = None
    if not problems:
        facts = facts_of(package)
        problems = _first_bundle_problem(package, facts, choice, rules.first_bundle(choice))
    if not problems:
        try:
            resolution = resolve(
                facts,
                choice.method,
                channels=[choice.channel] if choice.channel else [],
                version=rules.version_range(choice),
            )
        except BadQuestion as error:
            problems = {error.field: str(error)}
    if problems:
        raise BadRequest(" ".join(problems.values()), code="invalid", **problems)
    bundle = rules.first_bundle(choice) or (resolution.bundle if resolution else "")
    namespace = choice.namespace if rules.resource.namespaced else ""
    return Plan(
        cluster=cluster,
        verb=Action.Verb.INSTALL,
        kind=choice.method,
        namespace=namespace,
        name=choice.name,
        steps=(
            *map(Apply, rules.needed_objects(choice)),
            Apply(rules.main_object(choice), main=True),
        ),
        package=package.name,
        catalog=package.catalog.name,
        channel=choice.channel,
        version=choice.version,
        target=bundle,
        warnings=tuple(install_warnings(choice, cluster, package, bundle)),
        consequences=tuple(rules.consequences(choice, bundle)),
        choice=choice,
        resolution=resolution,
        verdict=verdict_on(cluster, package, bundle, choice.method, namespace, choice.targets),
    )


def _first_bundle_problem(
    package: Package, facts: ResolverPackage, choice: InstallChoice, bundle: str
) -> dict[str, str]:
    """A first bundle that the channel does not have: OLM would wait for it for ever."""
    if not bundle:
        return {}
    if bundle not in facts.by_name():
        of = f"Package {package.name} of catalog {package.catalog.name}"
        return {"version": f"{of} has no bundle {bundle[:NAME_LIMIT]}."}
    channel, channels = choice.channel or package.default_channel, facts.channels_of()
    if channel not in facts.channels or channel in channels.get(bundle, ()):
        return {}  # a channel that there is not has its own sentence
    elsewhere = ", ".join(channels.get(bundle, ())) or "none"
    noun = "channels" if len(channels.get(bundle, ())) > 1 else "channel"
    return {"version": f"Channel {channel} does not contain {bundle}; it is in {noun} {elsewhere}."}


def verdict_on(
    cluster: Cluster,
    package: Package,
    bundle: str,
    method: str,
    namespace: str = "",
    wanted: tuple[str, ...] = (),
) -> StoredVerdict | None:
    """The verdict on a bundle for `method`; None before the first evaluation.

    For a Subscription the OperatorGroup of `namespace` counts, or if there is none, a future one
    that watches `wanted` (empty: every namespace).
    """
    targets = watched_from(cluster, namespace, wanted) if METHODS[method].needs_group else ()
    return verdict_for(cluster, package, bundle, method, target_of(targets, namespace))


def best_method(
    cluster: Cluster, package: Package, *, channel: str = "", version: str = ""
) -> InstallMethod | None:
    """The install method that a form begins with; None if there is none for the catalog.

    Of those that can work by their stored verdicts the one that can follow the chosen channel and
    version, then the one with the best verdict, then the first. Six queries.
    """
    bundle = find_bundle(package, version)
    if bundle is not None:
        of_bundle = verdicts([bundle.pk], cluster.pk).get(bundle.pk, {})
        found = {method: verdict.verdict for method, verdict in of_bundle.items()}
    else:
        found = best_verdicts(package, cluster.pk)

    def rank(method: InstallMethod) -> tuple[bool, bool, int]:
        verdict = found.get(method, Verdict.UNKNOWN)
        follows = not METHODS[method].version_hint
        return (
            verdict == Verdict.NOT_INSTALLABLE,
            bool(channel or version) and not follows,
            OPTIMISTIC.index(verdict),
        )

    return min(paths_of(cluster, package.catalog), key=rank, default=None)


def find_bundle(package: Package, text: str) -> Bundle | None:
    """The bundle of the package with this name or version; a name goes before a version."""
    if not text:
        return None
    rows = package.bundles.filter(Q(name=text) | Q(version=text))
    return min(rows, key=lambda bundle: bundle.name != text, default=None)


def read_method(text: str) -> InstallMethod:
    """The install method in any case. Raises BadRequest for anything else."""
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadRequest(str(error), path="No such path.") from None


def choice_for(
    cluster: Cluster, package: Package, name: str, method: str, values: Mapping[str, str]
) -> InstallChoice:
    """The choice with all defaults. Raises OlmwebError: 400 for an unknown method, 409 for one that
    the cluster does not serve."""
    rules = METHODS[read_method(method)]
    version = served_version(cluster, rules.kind)
    if not version:
        raise OlmwebError(
            f"Cluster {cluster.name} serves no {rules.kind}s, so nothing can be installed there "
            "this way.",
            code="not-served",
            status=409,
            hint=rules.unserved_hint,
        )
    stripped = {key: value.strip() for key, value in values.items()}
    named = find_bundle(package, stripped.get("version", ""))
    if named is not None:
        stripped["version"] = rules.version_value(named.version, named.name)
    choice = InstallChoice(
        method=rules.kind,
        package=package.name,
        name=name.strip() or rules.default_name(package.name),
        api_version=version,
        known_fields=known_fields(cluster, rules.kind, version),
        channel=stripped.get("channel", ""),
        version=stripped.get("version", ""),
        approval=stripped.get("approval", "") or AUTOMATIC,
        policy=stripped.get("policy", "") or POLICIES[0],
        service_account=stripped.get("service_account", ""),
        crd_safety=stripped.get("crd_safety", ""),
    )
    return rules.with_defaults(choice, stripped, _ClusterContext(cluster, package))


@dataclass(frozen=True, slots=True)
class _ClusterContext:
    """The defaults of an install from the rows of its cluster, a query for each."""

    cluster: Cluster
    package: Package

    @property
    def cluster_catalog(self) -> str:
        catalog = self.package.catalog
        ours = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        return catalog.name if ours else ""

    def watches_all(self) -> bool:
        """As the package's verdict says, and before the first evaluation its install modes."""
        row = Package.objects.filter(pk=self.package.pk)
        for best in best_rows(chosen_rows(row, InstallMethod.SUBSCRIPTION, self.cluster.pk)):
            return best.target == WatchTarget.ALL
        return "AllNamespaces" in self.package.install_modes

    def catalog_source(self) -> SourceName:
        source = _sources_of(self.cluster, self.package.catalog).first()
        return SourceName(source.name, source.namespace) if source else SourceName()

    def suggested_namespace(self) -> str:
        head = Bundle.objects.filter(package=self.package, name=self.package.head_bundle).first()
        suggested = head.suggested_namespace if head else ""
        return suggested or self.package.name.replace(".", "-")[:63].strip("-")

    def has_namespace(self, namespace: str) -> bool:
        return (
            Component.objects.filter(cluster=self.cluster, namespace=namespace).exists()
            or Operator.objects.filter(cluster=self.cluster, namespace=namespace).exists()
        )

    def has_group(self, namespace: str) -> bool:
        return bool(groups_in(self.cluster, namespace))

    def namespace_of_global_group(self) -> str:
        rows = Component.objects.filter(cluster=self.cluster, kind="OperatorGroup")
        namespaces = [
            row.namespace
            for row in rows.order_by("namespace")
            if details_of(row).get("namespaces") == [""]
        ]
        usual = ("openshift-operators", "operators")
        return next((name for name in namespaces if name in usual), "")


def known_fields(cluster: Cluster, kind: str, version: str) -> frozenset[str] | None:
    """The fields of the kind in the cluster's CustomResourceDefinition; None if unknown."""
    row = CRDState.objects.filter(cluster=cluster, name=full_name(kind)).first()
    fields = row.details.get("fields", {}).get(version) if row else None
    return frozenset(map(str, fields)) if fields else None


def _sources_of(cluster: Cluster, catalog: Catalog) -> Any:
    """CatalogSources of the cluster with this catalog's name; its own namespace first."""
    rows = Component.objects.filter(cluster=cluster, kind="CatalogSource", name=catalog.name)
    return (rows.filter(namespace=catalog.namespace) if catalog.namespace else rows).order_by(
        "namespace"
    )
