"""Plans of exports: the values of a request, the resolved and pinned version, the manifests.

Shared by the page and the REST API. Sends no request to a cluster.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.db.models import Q

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import resolve
from catalogs.resolve.facts import BadQuestion, Resolution, ResolverPackage
from catalogs.resolve.stored import facts_of
from installs.export.files import (
    Manifest,
    Repository,
    argo_application,
    kustomize_folder,
    one_stream,
    zipped,
)
from installs.facts.cluster_facts import namespace_of_global_group
from installs.facts.configuration import config_schema, read_text, require_config_field
from installs.methods import AUTOMATIC, METHODS, InstallChoice
from installs.methods.base import FOLLOWS_NAMESPACE, SourceName, namespace_for
from installs.methods.configuration import CONFIG
from installs.models import ClusterInventory, Component
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.fields import text, texts
from olmweb.kube.resources import CATALOG_SOURCES, OPERATOR_GROUPS

WORDS = (
    *("path", "channel", "version", "name", "namespace", "mode", "targets", "approval"),
    *("source", "source_namespace", "service_account", FOLLOWS_NAMESPACE),
)
# Of the bundles that a caller hands over.
DEFAULTS_FIELDS = ("suggested_namespace", "install_modes", "install_modes_known")
REPOSITORY_WORDS = ("repo", "repo_path", "revision")
DEFAULT_REVISION = "HEAD"
LIMIT = 300  # characters of one value
YAML, KUSTOMIZE, ARGOCD = "manifests.yaml", "kustomize.zip", "argocd.yaml"
TYPES = {YAML: "application/yaml", KUSTOMIZE: "application/zip", ARGOCD: "application/yaml"}
_CATALOG_SOURCE, _GROUP = CATALOG_SOURCES.kind, OPERATOR_GROUPS.kind
_DEFAULT_STRATEGY = "Default"
_ALL, _OWN = "AllNamespaces", "OwnNamespace"
_SOURCES = (Catalog.SourceKind.CATALOG_SOURCE, Catalog.SourceKind.PACKAGE_MANIFEST)
_REPOSITORY = re.compile(r"(?:https?://|ssh://|git@)[^\s\"'<>\\`]+")
_FOLDER = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class Export:
    """`pinned` is the version in the manifests, empty for methods that can't be pinned; `notes` are
    sentences, which the files contain as comments."""

    choice: InstallChoice
    resolution: Resolution
    pinned: str
    manifests: tuple[Manifest, ...]
    notes: tuple[str, ...]

    @property
    def folder(self) -> str:
        return self.choice.name  # a valid DNS name

    @property
    def yaml(self) -> str:
        return one_stream(self.manifests, self.notes).decode()


def plan_export(
    package: Package,
    words: Mapping[str, str],
    facts: ResolverPackage | None = None,
    bundles: Sequence[Bundle] | None = None,
) -> Export:
    """The export with these values; absent ones have their defaults. `facts` and `bundles` are
    those of the package, the newest first, if they are read already.

    Raises OlmwebError with `fields` for invalid values, for a version that does not exist, and for
    values that a cluster would refuse.
    """
    given = _clean(words, WORDS)
    path = _path(package.catalog, given["path"])
    channels = [given["channel"]] if given["channel"] else []
    if given["version"] and (named := _bundle(package, given["version"], bundles)):
        given["version"] = named.version
    try:
        facts = facts or facts_of(package)
        resolution = resolve(facts, path, channels=channels, version=given["version"])
        if resolution.blocked_by == "range" and METHODS[path].needs_group:
            resolution = _named_by_starting_csv(facts, channels, given["version"]) or resolution
    except BadQuestion as error:
        raise BadRequest(str(error), code="invalid", **{error.field: str(error)}) from None
    if not resolution.bundle:
        message = resolution.message or resolution.reason
        raise OlmwebError(
            f"Nothing would be installed: {resolution.reason}",
            code="nothing-chosen",
            status=409,
            hint=message if message != resolution.reason else "",
            fields={"version" if given["version"] else "channel": resolution.reason},
        )
    config = read_text(words.get(CONFIG, ""))
    bundle = _bundle(package, resolution.bundle, bundles)
    head = bundle
    if resolution.bundle != package.head_bundle:
        head = _bundle(package, package.head_bundle, bundles)
    context = _ExportContext(package, bundle, head, given)
    choice, pinned = _choice(package, path, resolution, context, config)
    if config:
        require_config_field(METHODS[path], choice, None)
    wrong = METHODS[path].problems(choice)
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    complete = _with_existing_objects(choice, context)
    return Export(
        choice=choice,
        resolution=resolution,
        pinned=pinned,
        manifests=tuple(METHODS[path].objects(complete)),
        notes=(
            f"{package.name} {resolution.version} from catalog {package.catalog}: "
            f"{resolution.reason}",
            *METHODS[path].export_notes(complete, pinned),
            *_existing_objects(choice, complete, package.catalog.cluster_name),
        ),
    )


def _with_existing_objects(choice: InstallChoice, context: "_ExportContext") -> InstallChoice:
    """With the Namespace and the OperatorGroup of the cluster, too, as Git describes other clusters
    as well. The group keeps its name and its specification, as a second one would stop every
    operator of the namespace. A namespace with several groups, or with one for all namespaces, is
    shared with other operators: neither is included, so that no Git repository owns it. Nor is one
    whose group selects namespaces by labels that are not stored."""
    if not METHODS[choice.method].needs_namespace:
        return choice
    complete = replace(choice, make_namespace=True)
    if choice.make_group:
        return complete
    groups = context.groups_in(choice.namespace)
    if len(groups) != 1:
        return choice
    (group,) = groups
    targets = tuple(filter(None, texts(group.details, "targets")))
    spec = _group_spec(group)
    if bool(group.details.get("selects")) != ("selector" in spec) or not (
        targets or spec.get("selector")
    ):
        return choice
    return replace(complete, make_group=True, group=group.name, targets=targets, group_spec=spec)


def _group_spec(group: Component) -> dict[str, Any]:
    """The specification of an OperatorGroup of the cluster beside its targets, without the field
    that the API server fills: `upgradeStrategy` is `Default` if it is not set (operator-framework
    api crds/operators.coreos.com_operatorgroups.yaml)."""
    strategy = text(group.details, "upgrade_strategy")
    fields = {
        "selector": group.details.get("selector"),
        "serviceAccountName": text(group.details, "service_account"),
        "staticProvidedAPIs": group.details.get("static_apis") is True,
        "upgradeStrategy": "" if strategy == _DEFAULT_STRATEGY else strategy,
    }
    return {name: value for name, value in fields.items() if value}


def _existing_objects(choice: InstallChoice, complete: InstallChoice, cluster: str) -> list[str]:
    """Notes on the included objects that are on the cluster already, and on one that the included
    OperatorGroup needs."""
    names = []
    if complete.make_namespace and not choice.make_namespace:
        names.append(f"Namespace {choice.namespace}")
    if complete.group:
        names.append(f"OperatorGroup {complete.group}")
    notes = [f"Already on cluster {cluster}: {' and '.join(names)}."] if names else []
    if account := complete.group_spec.get("serviceAccountName"):
        notes.append(
            f"OperatorGroup {complete.group} uses ServiceAccount {account} of namespace "
            f"{complete.namespace}, which is not included: it and its permissions must exist."
        )
    return notes


def _named_by_starting_csv(
    facts: ResolverPackage, channels: Sequence[str], version: str
) -> Resolution | None:
    """The first entry of this very version that a Subscription can start at, although no upgrade
    leads to it, as another entry skips it: OLM v0 takes what startingCSV names before it orders the
    channel (operator-lifecycle-manager pkg/controller/registry/resolver/resolver.go)."""
    versions = {bundle.name: bundle.version for bundle in facts.bundles}
    for channel in channels or facts.ordered_channels():
        for entry in facts.channels[channel]:
            if versions.get(entry.name) == version:
                reason = f"{entry.name}: named by startingCSV; no upgrade leads to it."
                return Resolution(entry.name, version, channel, reason)
    return None


def _bundle(package: Package, name: str, bundles: Sequence[Bundle] | None) -> Bundle | None:
    """The bundle with this name, of several the newest."""
    if bundles is None:
        return package.bundles.filter(name=name).first()
    return next((bundle for bundle in bundles if bundle.name == name), None)


def as_file(export: Export, form: str, words: Mapping[str, str]) -> bytes:
    """The bytes of one of TYPES. Raises BadRequest for a repository that can't be read."""
    if form == YAML:
        return one_stream(export.manifests, export.notes)
    if form == KUSTOMIZE:
        return zipped(export.folder, kustomize_folder(export.manifests, export.notes))
    repository = read_repository(words, export.folder)
    return one_stream([argo_application(export.choice.name, repository, export.choice.namespace)])


def read_repository(words: Mapping[str, str], folder: str) -> Repository:
    """The Git repository of the folder; `repo` is needed, the rest has defaults."""
    values = _clean(words, REPOSITORY_WORDS)
    wrong = {}
    if not _REPOSITORY.fullmatch(values["repo"]):
        wrong["repo"] = (
            "Give the address of the Git repository, such as https://git.example.com/apps.git."
        )
    path = values["repo_path"] or folder
    if not _FOLDER.fullmatch(path) or ".." in path.split("/"):
        wrong["repo_path"] = "The folder is relative to the repository, such as operators/etcd."
    revision = values["revision"] or DEFAULT_REVISION
    if not _REVISION.fullmatch(revision):
        wrong["revision"] = "The revision is a branch, tag or commit, such as main."
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    return Repository(values["repo"], path, revision)


def _clean(words: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    values = {name: words.get(name, "").strip() for name in names}
    for name, value in values.items():
        if len(value) > LIMIT or not (value.isprintable() or not value):
            sentence = f"{name} has characters that no manifest holds, or over {LIMIT} of them."
            raise BadRequest(sentence, code="invalid", **{name: sentence})
    return values


def default_path(catalog: Catalog) -> InstallMethod:
    """The usual install method for the catalog."""
    if catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG:
        return InstallMethod.CLUSTER_EXTENSION
    return InstallMethod.SUBSCRIPTION


def _path(catalog: Catalog, text: str) -> InstallMethod:
    if not text:
        return default_path(catalog)
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadRequest(str(error), code="invalid", path=str(error)) from None


def _choice(
    package: Package,
    path: InstallMethod,
    resolution: Resolution,
    context: "_ExportContext",
    config: Mapping[str, Any],
) -> tuple[InstallChoice, str]:
    rules, cluster, given = METHODS[path], package.catalog.cluster, context.given
    offered = rules.fields.values()
    pinned = rules.pin(resolution)
    values = {**given, **rules.values_for(pinned, resolution.bundle, resolution.channel)}
    # `*` is `all` of the install form, whose words `all` and `own` are namespaces here.
    named = dict.fromkeys(target.strip() for target in given["targets"].split(","))
    targets = {"": "", "*": "all"}.get(given["targets"], f"{','.join(named)},")
    values["targets"] = given["mode"] if given["mode"] in ("all", "own") else targets
    account = given["service_account"] if "service_account" in offered else ""
    approval = given["approval"] or values["approval"] or AUTOMATIC
    version = (cluster.kinds.get(path, {}).get("version") if cluster else "") or ""
    choice = InstallChoice(
        method=path,
        package=package.name,
        name=given["name"] or rules.default_name(package.name),
        api_version=version,
        known_fields=frozenset(rules.fields) if account or config else None,
        channel=values["channel"],
        version=values["version"],
        approval=approval if "approval" in offered else AUTOMATIC,
        service_account=account,
        config=config,
        config_schema=config_schema(cluster, path, version) if config and cluster else None,
    )
    return rules.with_defaults(choice, values, context), pinned


@dataclass(frozen=True)
class _ExportContext:
    """The defaults of an export: from the catalog, and the inventory of its cluster."""

    package: Package
    bundle: Bundle | None
    head: Bundle | None  # of the default channel
    given: Mapping[str, str]

    @property
    def cluster_catalog(self) -> str:
        catalog = self.package.catalog
        is_own = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        return catalog.name if is_own else self.given["source"]

    @cached_property
    def _objects(self) -> list[Component]:
        """The cluster's OperatorGroups and its CatalogSources with the name of the catalog, by
        namespace; one query."""
        catalog = self.package.catalog
        if not catalog.cluster_id:
            return []
        named = Q(kind=_CATALOG_SOURCE, name=catalog.name) | Q(kind=_GROUP)
        rows = Component.objects.filter(named, cluster=catalog.cluster_id).order_by("namespace")
        return list(rows.only("kind", "namespace", "name", "details"))

    @property
    def _groups(self) -> list[Component]:
        return [row for row in self._objects if row.kind == _GROUP]

    def watches_all(self) -> bool:
        """Unless the bundle supports its own namespace only."""
        if self.bundle is None or not self.bundle.install_modes_known:
            return True
        return _ALL in self.bundle.install_modes or _OWN not in self.bundle.install_modes

    def supports_own(self) -> bool:
        return self.bundle is not None and self.bundle.supports(_OWN)

    def catalog_source(self) -> SourceName:
        """The requested CatalogSource, else the catalog itself, else the CatalogSource of the
        cluster with the catalog's name, as an install takes it."""
        catalog = self.package.catalog
        is_own = catalog.source_kind in _SOURCES
        if not is_own and not self.given["source"]:
            for row in self._objects:
                if row.kind == _CATALOG_SOURCE:
                    namespace = self.given["source_namespace"] or row.namespace
                    return SourceName(catalog.name, namespace)
        return SourceName(
            self.given["source"] or (catalog.name if is_own else ""),
            self.given["source_namespace"] or (catalog.namespace if is_own else ""),
        )

    def suggested_namespace(self) -> str:
        """That of an install: the newest bundle of the default channel suggests it."""
        return namespace_for(self.package.name, self.head.suggested_namespace if self.head else "")

    def namespace_of_global_group(self) -> str:
        return namespace_of_global_group(self._groups)

    def has_namespace(self, namespace: str) -> bool:
        if any(row.namespace == namespace for row in self._objects):
            return True
        inventory = ClusterInventory.objects.filter(cluster=self.package.catalog.cluster_id).first()
        return bool(inventory and inventory.namespaces and namespace in inventory.namespaces)

    def groups_in(self, namespace: str) -> list[Component]:
        return [row for row in self._groups if row.namespace == namespace]

    def has_group(self, namespace: str) -> bool:
        """A second OperatorGroup in a namespace would stop every operator in it."""
        return bool(self.groups_in(namespace))
