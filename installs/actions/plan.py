"""What could be asked of a cluster, said in full before anybody asks: plans. Makes no request.

A plan holds exactly what would be sent, what follows from it, and what speaks against it. Asking
and recording is `actions`', sending the worker's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import Resolution
from catalogs.resolve.stored import facts_of
from catalogs.semver import parse
from catalogs.verdicts import Target
from catalogs.verdicts.read import StoredVerdict, best_rows, chosen_rows
from installs import methods
from installs.actions import objects as writing
from installs.actions.objects import is_deletion
from installs.actions.warnings import Caution, cautions_of
from installs.facts.operator_groups import groups_in, watched_from
from installs.facts.stored_verdicts import target_of, verdict_for
from installs.methods import Choice
from installs.models import Action, Component, CRDState, Operator
from installs.state.observation import details_of
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.resources import CLUSTER_EXTENSIONS, PLATFORM_OPERATORS, SUBSCRIPTIONS
from olmweb.models import Cluster

RESOURCES = {one.kind: one for one in (PLATFORM_OPERATORS, CLUSTER_EXTENSIONS, SUBSCRIPTIONS)}
_WHERE = {
    InstallMethod.PLATFORM_OPERATOR: "PlatformOperators exist on OpenShift 4.12 to 4.15 with "
    "TechPreviewNoUpgrade.",
    InstallMethod.CLUSTER_EXTENSION: "ClusterExtensions are OLM v1's: install operator-controller "
    "there first.",
    InstallMethod.SUBSCRIPTION: "Subscriptions are OLM v0's: install OLM there first.",
}
_OWN, _ALL = "own", "all"


@dataclass(frozen=True, slots=True)
class Plan:
    """An action that could be asked for.

    `manifests` as Action keeps them; `consequences` are sentences about what else follows;
    `target` names the bundle that it is to end with, empty when that can't be told.
    """

    cluster: Cluster
    verb: str
    path: str
    namespace: str
    name: str
    manifests: tuple[dict[str, Any], ...]
    package: str = ""
    catalog: str = ""
    channel: str = ""
    version: str = ""
    target: str = ""
    uid: str = ""  # of the object that it is about, when it is there
    force: bool = False
    warnings: tuple[Caution, ...] = ()
    consequences: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()  # what a person does where this does not help; commands too
    choice: Choice | None = None
    resolution: Resolution | None = field(default=None, compare=False)
    verdict: StoredVerdict | None = field(
        default=None, compare=False
    )  # on `target`, if it was judged

    @property
    def manifest(self) -> dict[str, Any]:
        """The one that the others are for."""
        return self.manifests[-1]

    @property
    def remakes(self) -> bool:
        """Whether its object is deleted and made again."""
        return writing.remakes(self.manifests)

    @property
    def deletions(self) -> list[dict[str, Any]]:
        """The steps that delete, in their order."""
        return [one for one in self.manifests if is_deletion(one)]

    @property
    def yaml(self) -> str:
        """What is applied."""
        return methods.as_yaml([one for one in self.manifests if not is_deletion(one)])


def served_version(cluster: Cluster, kind: str) -> str:
    """The version to write, e.g. `v1`; empty when the cluster does not serve the kind."""
    state = cluster.kinds.get(kind, {})
    if state.get("state") != "served":
        return ""
    return str(state.get("version") or RESOURCES[kind].versions[0])


def paths_of(cluster: Cluster, catalog: Catalog) -> list[InstallMethod]:
    """The ways in which something of this catalog can be installed on the cluster."""
    is_source = catalog.source_kind in (
        Catalog.SourceKind.CATALOG_SOURCE,
        Catalog.SourceKind.PACKAGE_MANIFEST,
    )
    fits = {
        InstallMethod.PLATFORM_OPERATOR: True,
        InstallMethod.CLUSTER_EXTENSION: catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG,
        InstallMethod.SUBSCRIPTION: is_source or _sources_of(cluster, catalog).exists(),
    }
    return [one for one in InstallMethod if fits[one] and served_version(cluster, one)]


def plan_install(
    cluster: Cluster,
    package: Package,
    name: str,
    path: str = InstallMethod.PLATFORM_OPERATOR,
    asked: Mapping[str, str] | None = None,
) -> Plan:
    """What installs this package by `path`, and what speaks against it.

    `asked` has values by form field (namespace, channel, version, approval, policy, targets: own,
    all or names with commas, service_account, crd_safety); what is empty has its default. Raises
    OlmwebError with `fields` for values that the cluster would surely refuse, and when it does not
    serve the path.
    """
    choice = choice_for(cluster, package, name, path, asked or {})
    path = choice.path
    found = methods.problems(choice)
    chosen: Resolution | None = None
    if not found:
        try:
            chosen = resolve(
                facts_of(package),
                choice.path,
                channels=[choice.channel] if choice.channel else [],
                version=choice.version if path == InstallMethod.CLUSTER_EXTENSION else "",
            )
        except BadQuestion as error:
            found = {error.field: str(error)}
    if found:
        raise BadRequest(" ".join(found.values()), code="invalid", **found)
    if path == InstallMethod.SUBSCRIPTION and choice.version:
        target = choice.version
    else:
        target = chosen.bundle if chosen else ""
    verdict = verdict_on(cluster, package, target, path, choice.namespace, choice.targets)
    cautions = cautions_of(choice, cluster, package, target)
    return Plan(
        cluster=cluster,
        verb=Action.Verb.INSTALL,
        path=path,
        namespace=choice.namespace if path == InstallMethod.SUBSCRIPTION else "",
        name=choice.name,
        manifests=tuple(methods.objects_for(choice.path, choice)),
        package=package.name,
        catalog=package.catalog.name,
        channel=choice.channel,
        version=choice.version,
        target=target,
        warnings=tuple(cautions),
        consequences=tuple(_install_consequences(choice, target)),
        choice=choice,
        resolution=chosen,
        verdict=verdict,
    )


def verdict_on(
    cluster: Cluster,
    package: Package,
    bundle: str,
    path: str,
    namespace: str = "",
    wanted: tuple[str, ...] = (),
) -> StoredVerdict | None:
    """The verdict on a bundle as `path` would install it; None when it was not evaluated yet.

    Of a Subscription in `namespace`, whose OperatorGroup counts; where there is none yet, one that
    watches `wanted` (none: every namespace).
    """
    targets = watched_from(cluster, namespace, wanted) if path == InstallMethod.SUBSCRIPTION else ()
    return verdict_for(cluster, package, bundle, path, target_of(targets, namespace))


def read_method(text: str) -> InstallMethod:
    """The install method in any case. Raises BadRequest for anything else."""
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadRequest(str(error), path="No such path.") from None


def choice_for(
    cluster: Cluster, package: Package, name: str, path: str, asked: Mapping[str, str]
) -> Choice:
    """The choice with every default filled in. Raises OlmwebError (409) for a path not served."""
    method = read_method(path)
    version = served_version(cluster, method)
    if not version:
        raise OlmwebError(
            f"Cluster {cluster.name} serves no {method}s, so nothing can be installed there this "
            "way.",
            code="not-served",
            status=409,
            hint=_WHERE[method],
        )
    said = {key: value.strip() for key, value in asked.items()}
    choice = Choice(
        path=method,
        package=package.name,
        name=name.strip() or methods.default_name(package.name, method),
        api_version=version,
        known=known_fields(cluster, method, version),
        channel=said.get("channel", ""),
        version=said.get("version", ""),
        approval=said.get("approval", "") or methods.AUTOMATIC,
        policy=said.get("policy", "") or methods.POLICIES[0],
        service_account=said.get("service_account", ""),
        crd_safety=said.get("crd_safety", ""),
    )
    if method == InstallMethod.PLATFORM_OPERATOR:
        return replace(choice, channel="", version="")
    if method == InstallMethod.CLUSTER_EXTENSION:
        ours = package.catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        namespace = said.get("namespace", "") or _suggested(package)
        return replace(
            choice,
            catalog=package.catalog.name if ours else "",
            namespace=namespace,
            make_namespace=not _is_there(cluster, namespace),
        )
    return _subscribed(choice, cluster, package, said)


def _subscribed(
    choice: Choice, cluster: Cluster, package: Package, said: Mapping[str, str]
) -> Choice:
    source = _sources_of(cluster, package.catalog).first()
    wants_all = said.get("targets") == _ALL or (
        not said.get("targets") and default_target(cluster, package) == Target.ALL
    )
    everywhere = _group_of_all(cluster) if wants_all and not said.get("namespace") else None
    namespace = (
        said.get("namespace", "")
        or (everywhere.namespace if everywhere else "")
        or _suggested(package)
    )
    if wants_all:
        targets: tuple[str, ...] = ()
    elif said.get("targets", "") in ("", _OWN):
        targets = (namespace,)
    else:
        targets = tuple(one.strip() for one in said["targets"].split(",") if one.strip())
    return replace(
        choice,
        catalog=source.name if source else "",
        catalog_namespace=source.namespace if source else "",
        namespace=namespace,
        targets=targets,
        make_namespace=not _is_there(cluster, namespace),
        make_group=not groups_in(cluster, namespace),
    )


def known_fields(cluster: Cluster, kind: str, version: str) -> frozenset[str] | None:
    """The fields that the cluster's own definition of the kind has; None when it is not known."""
    resource = RESOURCES[kind]
    row = CRDState.objects.filter(
        cluster=cluster, name=f"{resource.plural}.{resource.group}"
    ).first()
    fields = row.details.get("fields", {}).get(version) if row else None
    return frozenset(map(str, fields)) if fields else None


def install_modes(package: Package) -> frozenset[str]:
    """What the newest bundle of the default channel supports."""
    return frozenset(map(str, package.install_modes))


def default_target(cluster: Cluster, package: Package) -> Target:
    """The OperatorGroup that a Subscription gets when nobody chooses one: that of the package's
    verdict, and before it is evaluated by the install modes. One query."""
    row = Package.objects.filter(pk=package.pk)
    for best in best_rows(chosen_rows(row, InstallMethod.SUBSCRIPTION, cluster.pk)):
        return Target(best.target)
    return Target.ALL if "AllNamespaces" in install_modes(package) else Target.OWN


def _group_of_all(cluster: Cluster) -> Component | None:
    """An OperatorGroup that watches every namespace, such as that of openshift-operators."""
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup").order_by("namespace")
    found = [one for one in rows if details_of(one).get("namespaces") == [""]]
    usual = ("openshift-operators", "operators")
    return next((one for one in found if one.namespace in usual), None)


def _sources_of(cluster: Cluster, catalog: Catalog) -> Any:
    """CatalogSources of the cluster with this catalog's name; its own namespace first."""
    rows = Component.objects.filter(cluster=cluster, kind="CatalogSource", name=catalog.name)
    return (rows.filter(namespace=catalog.namespace) if catalog.namespace else rows).order_by(
        "namespace"
    )


def _suggested(package: Package) -> str:
    head = Bundle.objects.filter(package=package, name=package.head_bundle).first()
    suggested = head.suggested_namespace if head else ""
    return suggested or package.name.replace(".", "-")[:63].strip("-")


def _is_there(cluster: Cluster, namespace: str) -> bool:
    """Whether something that we know of is in the namespace."""
    return (
        Component.objects.filter(cluster=cluster, namespace=namespace).exists()
        or Operator.objects.filter(cluster=cluster, namespace=namespace).exists()
    )


def _install_consequences(choice: Choice, target: str) -> list[str]:
    found = []
    if choice.path == InstallMethod.PLATFORM_OPERATOR:
        found.append("The highest version of all channels is installed, and kept for good.")
    elif target:
        found.append(f"{target} is installed first.")
    if choice.path == InstallMethod.SUBSCRIPTION:
        watched = ", ".join(choice.targets) or "every namespace"
        if choice.make_group:
            found.append(f"The OperatorGroup makes its operators watch {watched}.")
        else:
            found.append(f"The OperatorGroup that is in {choice.namespace} already is used.")
        found.append(
            "Upgrades wait for a person; one that waits holds up all Subscriptions of the "
            "namespace."
            if choice.approval == methods.MANUAL
            else "Upgrades come by themselves, whatever they bring."
        )
    if choice.path == InstallMethod.CLUSTER_EXTENSION:
        found.append(_what_comes(choice.version))
    return found


def _what_comes(version: str) -> str:
    """What a ClusterExtension of this range does without anybody asking."""
    if not version:
        return "Upgrades come by themselves."
    try:
        parse(version)
    except ValueError:
        return "Every version in the range may come by itself."
    return "It stays at this version until somebody changes that."
