"""Plans of actions, and the plan of an install. Makes no request.

A plan holds exactly the steps that would be sent, their consequences, and the warnings.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import BadQuestion, resolve, v0, v1
from catalogs.resolve.facts import Resolution, ResolverPackage
from catalogs.semver import read_version, sort_key
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import StoredVerdict, offer_rank
from catalogs.verdicts.rules import Verdict
from installs.actions.install_rows import InstallRows, fields_of
from installs.actions.objects import full_name, version_of
from installs.actions.upgrade_route import route_of, steps_after
from installs.actions.warnings import InstallWarning, install_warnings
from installs.facts.cluster_facts import watched_from
from installs.facts.configuration import config_schema, read_mapping, require_config_field
from installs.facts.evaluate import target_of, verdict_for
from installs.methods import AUTOMATIC, METHODS, POLICIES, InstallChoice, as_yaml
from installs.methods.base import NAME_LIMIT
from installs.models import Action, Component, CRDState
from installs.models.steps import Apply, Delete, Step, as_manifests, remakes
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

CHANNELS_SHOWN = 10
CatalogSources = frozenset[tuple[int, str, str]]  # id of the cluster, namespace, name


@dataclass(frozen=True, slots=True)
class Plan:
    """An action that could be recorded.

    `kind`, `namespace` and `name` are those of its main object, `uid` if that exists; `target` is
    the bundle that it ends with, empty if unknown; `route` is that of Action; `consequences` are
    sentences; `by_hand` are steps and commands for a person where the action does not help.
    """

    cluster: Cluster
    verb: str
    kind: str
    namespace: str
    name: str
    steps: tuple[Step, ...]
    package: str = ""
    catalog: str = ""
    chosen_catalog: Catalog | None = field(default=None, compare=False)
    channel: str = ""
    version: str = ""
    target: str = ""
    route: tuple[str, ...] = ()
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
        """The apply of the main object; for a removal its deletion, for a clean-up the first."""
        by_verb = {step.verb: step for step in self.steps if step.main}
        return by_verb.get(Apply.verb) or by_verb.get(Delete.verb) or self.steps[0]

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


def paths_of(
    cluster: Cluster,
    catalog: Catalog,
    rows: InstallRows | None = None,
    *,
    sources: CatalogSources | None = None,
) -> list[InstallMethod]:
    """The install methods for packages of this catalog on the cluster, none on a removed one. No
    query with `rows`, or with `sources` (see `read_catalog_sources`)."""
    if cluster.removed:
        return []
    is_source = catalog.source_kind in (
        Catalog.SourceKind.CATALOG_SOURCE,
        Catalog.SourceKind.PACKAGE_MANIFEST,
    )
    has_source = is_source or (
        bool(rows.catalog_source().name) if rows else _has_source(cluster, catalog, sources)
    )
    fits = {
        InstallMethod.PLATFORM_OPERATOR: True,
        InstallMethod.CLUSTER_EXTENSION: catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG,
        InstallMethod.SUBSCRIPTION: has_source,
    }
    return [method for method in InstallMethod if fits[method] and served_version(cluster, method)]


def plan_install(
    cluster: Cluster,
    package: Package,
    name: str,
    method: str = InstallMethod.PLATFORM_OPERATOR,
    values: Mapping[str, str] | None = None,
    rows: InstallRows | None = None,
    config: Mapping[str, Any] | None = None,
) -> Plan:
    """The install of this package by `method`, from `rows` if the caller has them already.

    `values` are by form field (namespace, channel, version, approval, policy, targets: own, all or
    names with commas, service_account, crd_safety); empty ones have their defaults. `config` is
    the object's `spec.config`. Raises OlmwebError with `fields` for values that the cluster would
    refuse, and when it does not serve the method or, with a `config`, that field (422).
    """
    values = values or {}
    rows = rows or InstallRows(
        cluster, package, values.get("channel", "").strip(), values.get("version", "").strip()
    )
    choice = choice_for(rows, name, method, values, config)
    rules = METHODS[choice.method]
    if choice.config:
        require_config_field(rules, choice, cluster)
    problems = rules.problems(choice)
    resolution: Resolution | None = None
    if not problems:
        facts = rows.facts
        problems = _channel_problem(package, facts, choice) or _first_bundle_problem(
            package, facts, choice, rules.first_bundle(choice)
        )
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
        else:
            problems = _range_problem(package, facts, rules.version_range(choice))
    if problems:
        raise BadRequest(" ".join(problems.values()), code="invalid", **problems)
    bundle = rules.first_bundle(choice) or (resolution.bundle if resolution else "")
    namespace = choice.namespace if rules.resource.namespaced else ""
    later = steps_after(rows.facts, choice.channel, bundle) if rules.needs_group else ()
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
        chosen_catalog=package.catalog,
        channel=choice.channel,
        version=choice.version,
        target=bundle,
        route=route_of("", (bundle, *later)),
        warnings=tuple(install_warnings(choice, rows, bundle)),
        consequences=tuple(rules.consequences(choice, bundle)),
        choice=choice,
        resolution=resolution,
        verdict=rows.verdict_on(bundle, choice.method, _target(rows, choice)),
    )


def _target(rows: InstallRows, choice: InstallChoice) -> WatchTarget:
    """The target of the OperatorGroup of the namespace, else of the group that is made."""
    if not METHODS[choice.method].needs_group:
        return WatchTarget.ALL
    groups = rows.groups_in(choice.namespace)
    if groups:
        return groups[0].target or WatchTarget.ALL
    return target_of(choice.targets, choice.namespace)


def _channel_problem(
    package: Package, facts: ResolverPackage, choice: InstallChoice
) -> dict[str, str]:
    """A channel that the stored catalog does not have."""
    names = sorted(facts.channels)
    if not choice.channel or not names or choice.channel in names:
        return {}
    shown = ", ".join(names[:CHANNELS_SHOWN])
    message = f"Package {package.name} has no channel {choice.channel[:NAME_LIMIT]}, only {shown}."
    return {"channel": message}


def _range_problem(package: Package, facts: ResolverPackage, text: str) -> dict[str, str]:
    """A version range that contains no version of the package in the stored catalog."""
    contains = v1.read_range(text)
    texts = {bundle.version for bundle in facts.by_name().values()}
    versions = [version for version in map(read_version, texts) if version is not None]
    if contains is None or not versions or any(map(contains, versions)):
        return {}
    return {
        "version": f"Package {package.name} of catalog {package.catalog.name} has no version "
        f"{text[:NAME_LIMIT]}; its highest is {max(texts, key=sort_key)}."
    }


def _first_bundle_problem(
    package: Package, facts: ResolverPackage, choice: InstallChoice, bundle: str
) -> dict[str, str]:
    """A first bundle that the channel does not have: OLM would wait for it for ever."""
    if not bundle:
        return {}
    if bundle not in facts.by_name():
        of = f"Package {package.name} of catalog {package.catalog.name}"
        noun = "bundle"
        if _is_range(bundle):
            noun = f"version in channel {choice.channel or package.default_channel} that meets"
        return {"version": f"{of} has no {noun} {bundle[:NAME_LIMIT]}."}
    channel, channels = choice.channel or package.default_channel, facts.channels_of()
    if channel not in facts.channels or channel in channels.get(bundle, ()):
        return {}  # a channel that there is not has its own sentence
    elsewhere = ", ".join(channels.get(bundle, ())) or "none"
    noun = "channels" if len(channels.get(bundle, ())) > 1 else "channel"
    return {"version": f"Channel {channel} does not contain {bundle}; it is in {noun} {elsewhere}."}


def verdict_on(
    cluster: Cluster, package: Package, bundle: str, method: str, namespace: str = ""
) -> StoredVerdict | None:
    """The verdict on a bundle for `method`; None before the first evaluation.

    For a Subscription the OperatorGroup of `namespace` counts.
    """
    targets = watched_from(cluster, namespace) if METHODS[method].needs_group else ()
    return verdict_for(cluster, package, bundle, method, target_of(targets, namespace))


def best_method(rows: InstallRows) -> InstallMethod | None:
    """The install method that a form begins with; None if there is none for the catalog.

    Without a chosen channel and version it is the first of `offered_methods`; else of those that
    can work by their stored verdicts on the version one that installs it, the best verdict first.
    """

    def rank(method: InstallMethod) -> tuple[bool, bool, tuple[int, bool]]:
        cannot = rows.verdict_of(method, rows.version) == Verdict.NOT_INSTALLABLE
        ignores = bool(METHODS[method].version_hint)
        return (cannot, ignores, rows.rank_of(method, rows.version))

    methods = offered_methods(rows)
    if not (rows.channel or rows.version):
        return next(iter(methods), None)
    return min(methods, key=rank, default=None)


def offered_methods(rows: InstallRows) -> list[InstallMethod]:
    """The install methods for the package in the order in which a form offers them, whatever was
    entered: by their stored verdicts, see `offer_rank`."""

    def rank(method: InstallMethod) -> tuple[bool, bool, int, bool]:
        _, warns = rows.rank_of(method)
        return offer_rank(rows.verdict_of(method), warns, rows.chooses_head(method))

    return sorted(paths_of(rows.cluster, rows.package.catalog, rows), key=rank)


def read_method(text: str) -> InstallMethod:
    """The install method in any case. Raises BadRequest for anything else."""
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadRequest(str(error), path="No such path.") from None


def choice_for(
    rows: InstallRows,
    name: str,
    method: str,
    values: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
) -> InstallChoice:
    """The choice with all defaults. Raises OlmwebError: 400 for an unknown method and a `config`
    that is no JSON or too large, 409 for a method that the cluster does not serve."""
    cluster, package = rows.cluster, rows.package
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
    named = rows.find_bundle(stripped.get("version", ""))
    if named is None and not rules.reads_ranges:
        wanted = stripped.get("version", ""), stripped.get("channel", "")
        named = _in_range(rows, rules.kind, *wanted)
    if named is not None:
        stripped["version"] = rules.version_value(named.version, named.name)
    choice = InstallChoice(
        method=rules.kind,
        package=package.name,
        name=name.strip() or rules.default_name(package.name),
        api_version=version,
        known_fields=rows.known_fields(rules.kind, version),
        required_fields=rows.required_fields(rules.kind, version),
        channel=stripped.get("channel", ""),
        version=stripped.get("version", ""),
        approval=stripped.get("approval", "") or AUTOMATIC,
        policy=stripped.get("policy", "") or POLICIES[0],
        service_account=stripped.get("service_account", ""),
        crd_safety=stripped.get("crd_safety", ""),
        config=(given := read_mapping(config)),
        config_schema=config_schema(cluster, rules.kind, version) if given else None,
    )
    return rules.with_defaults(choice, stripped, rows)


def _in_range(rows: InstallRows, method: InstallMethod, text: str, channel: str) -> Bundle | None:
    """The bundle that `method` reaches in the version range `text`; None without one, and for a
    text that is no range."""
    if not text:
        return None
    try:
        resolution = resolve(
            rows.facts, method, channels=[channel] if channel else [], version=text
        )
    except BadQuestion:
        return None
    return rows.bundle(resolution.bundle)


def _is_range(text: str) -> bool:
    """Whether OLM v0 reads the text as a version range."""
    try:
        return v0.read_range(text) is not None
    except BadQuestion:
        return False


def known_fields(cluster: Cluster, kind: str, version: str) -> frozenset[str] | None:
    """The fields of the kind in the cluster's CustomResourceDefinition; None if unknown."""
    row = CRDState.objects.filter(cluster=cluster, name=full_name(kind)).first()
    return fields_of(row.details.get("fields"), version) if row else None


def read_catalog_sources(names: Collection[str]) -> CatalogSources:
    """The CatalogSources with these names; one query."""
    rows = Component.objects.filter(kind="CatalogSource", name__in=names).order_by()
    return frozenset(rows.values_list("cluster_id", "namespace", "name"))


def _has_source(cluster: Cluster, catalog: Catalog, sources: CatalogSources | None) -> bool:
    """Whether the cluster has a CatalogSource with this catalog's name, in its namespace if it has
    one."""
    if sources is None:
        rows = Component.objects.filter(cluster=cluster, kind="CatalogSource", name=catalog.name)
        return (rows.filter(namespace=catalog.namespace) if catalog.namespace else rows).exists()
    return any(
        (owner, name) == (cluster.pk, catalog.name)
        and (not catalog.namespace or namespace == catalog.namespace)
        for owner, namespace, name in sources
    )
