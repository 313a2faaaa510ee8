"""What a request wants exported: its words read against the stored catalog, pinned, checked.

Shared by the page and the REST API. Reads rows; asks no cluster.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import resolve
from catalogs.resolve.facts import BadQuestion, Resolution
from catalogs.resolve.stored import facts_of
from installs.export.files import (
    Manifest,
    Repository,
    argo_application,
    kustomize_folder,
    one_stream,
    zipped,
)
from installs.methods import MANUAL, METHODS, InstallChoice
from installs.models import ClusterInventory, Component
from olmweb.errors import BadRequest, OlmwebError

WORDS = (
    *("path", "channel", "version", "name", "namespace", "targets", "approval"),
    *("source", "source_namespace", "service_account"),
)
REPOSITORY_WORDS = ("repo", "repo_path", "revision")
LIMIT = 300  # characters of one value
YAML, KUSTOMIZE, ARGOCD = "manifests.yaml", "kustomize.zip", "argocd.yaml"
TYPES = {YAML: "application/yaml", KUSTOMIZE: "application/zip", ARGOCD: "application/yaml"}
_ALL, _OWN = "AllNamespaces", "OwnNamespace"
_REPOSITORY = re.compile(r"(?:https?://|ssh://|git@)[^\s\"'<>\\`]+")
_FOLDER = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class Export:
    """What would be exported. `pinned` is the version that the manifests name, empty where the
    path can't be pinned; `notes` are sentences that the files carry as comments."""

    choice: InstallChoice
    resolution: Resolution
    pinned: str
    manifests: tuple[Manifest, ...]
    notes: tuple[str, ...]

    @property
    def folder(self) -> str:
        return self.choice.name  # checked: a DNS name

    @property
    def yaml(self) -> str:
        return one_stream(self.manifests, self.notes).decode()


def plan_export(package: Package, words: Mapping[str, str]) -> Export:
    """The export that these words ask for; absent ones have their defaults.

    Raises OlmwebError with `fields` for what can't be read, for a version that nothing has, and for
    values that a cluster would surely refuse.
    """
    given = _clean(words, WORDS)
    path = _path(package.catalog, given["path"])
    channels = [given["channel"]] if given["channel"] else []
    try:
        resolution = resolve(facts_of(package), path, channels=channels, version=given["version"])
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
    choice, pinned = _choice(package, path, resolution, given)
    wrong = METHODS[path].problems(choice)
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    return Export(
        choice=choice,
        resolution=resolution,
        pinned=pinned,
        manifests=tuple(METHODS[path].objects(choice)),
        notes=_notes(package, choice, resolution, pinned),
    )


def as_file(export: Export, form: str, words: Mapping[str, str]) -> bytes:
    """The bytes of one of TYPES. Raises BadRequest for a repository that can't be read."""
    if form == YAML:
        return one_stream(export.manifests, export.notes)
    if form == KUSTOMIZE:
        return zipped(export.folder, kustomize_folder(export.manifests, export.notes))
    repository = read_repository(words, export.folder)
    return one_stream([argo_application(export.choice.name, repository, export.choice.namespace)])


def read_repository(words: Mapping[str, str], folder: str) -> Repository:
    """The Git repository that the folder is kept in; `repo` is needed, the rest has defaults."""
    values = _clean(words, REPOSITORY_WORDS)
    wrong = {}
    if not _REPOSITORY.fullmatch(values["repo"]):
        wrong["repo"] = (
            "Give the address of the Git repository, such as https://git.example.com/apps.git."
        )
    place = values["repo_path"] or folder
    if not _FOLDER.fullmatch(place) or ".." in place.split("/"):
        wrong["repo_path"] = "The folder is relative to the repository, such as operators/etcd."
    revision = values["revision"] or "HEAD"
    if not _REVISION.fullmatch(revision):
        wrong["revision"] = "The revision is a branch, tag or commit, such as main."
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    return Repository(values["repo"], place, revision)


def _clean(words: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    values = {name: words.get(name, "").strip() for name in names}
    for name, value in values.items():
        if len(value) > LIMIT or not (value.isprintable() or not value):
            sentence = f"{name} has characters that no manifest holds, or over {LIMIT} of them."
            raise BadRequest(sentence, code="invalid", **{name: sentence})
    return values


def default_path(catalog: Catalog) -> InstallMethod:
    """The way that a catalog is made for."""
    kinds = Catalog.SourceKind
    return (
        InstallMethod.CLUSTER_EXTENSION
        if catalog.source_kind == kinds.CLUSTER_CATALOG
        else InstallMethod.SUBSCRIPTION
    )


def _path(catalog: Catalog, text: str) -> InstallMethod:
    if not text:
        return default_path(catalog)
    try:
        return InstallMethod.parse(text)
    except ValueError as error:
        raise BadRequest(str(error), code="invalid", path=str(error)) from None


def _choice(
    package: Package, path: InstallMethod, resolution: Resolution, given: Mapping[str, str]
) -> tuple[InstallChoice, str]:
    bundle = (
        Bundle.objects.filter(package=package, name=resolution.bundle).order_by("-ordinal").first()
    )
    catalog = package.catalog
    from_source = catalog.source_kind in (
        Catalog.SourceKind.CATALOG_SOURCE,
        Catalog.SourceKind.PACKAGE_MANIFEST,
    )
    from_cluster_catalog = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
    namespace = given["namespace"] or _namespace(package, bundle)
    pinned = METHODS[path].pin(resolution)
    values: dict[str, object] = {
        "method": path,
        "package": package.name,
        "name": given["name"] or METHODS[path].default_name(package.name),
    }
    state = catalog.cluster.kinds.get(path, {}) if catalog.cluster else {}
    values["api_version"] = state.get("version") or ""
    if METHODS[path].needs_namespace:
        values |= {"namespace": namespace, "make_namespace": not _has_namespace(catalog, namespace)}
    if path == InstallMethod.CLUSTER_EXTENSION:
        account = given["service_account"]
        values |= {
            "catalog": catalog.name if from_cluster_catalog else given["source"],
            "channel": given["channel"],
            "version": pinned,
            "service_account": account,
            "known_fields": frozenset(METHODS[path].fields) if account else None,
        }
    if path == InstallMethod.SUBSCRIPTION:
        values |= {
            "catalog": given["source"] or (catalog.name if from_source else ""),
            "catalog_namespace": given["source_namespace"]
            or (catalog.namespace if from_source else ""),
            "channel": resolution.channel,
            "version": resolution.bundle,
            "approval": given["approval"] or MANUAL,
            "targets": _targets(given["targets"], namespace, bundle),
            "make_group": not _has_group(catalog, namespace),
        }
    return InstallChoice(**values), pinned  # type: ignore[arg-type]


def _namespace(package: Package, bundle: Bundle | None) -> str:
    suggested = bundle.suggested_namespace if bundle else ""
    return suggested or METHODS[InstallMethod.PLATFORM_OPERATOR].default_name(package.name).replace(
        ".", "-"
    )


def _targets(text: str, namespace: str, bundle: Bundle | None) -> tuple[str, ...]:
    """`*` for all namespaces; without a word all, unless the bundle only supports its own."""
    if text == "*":
        return ()
    if text:
        return tuple(dict.fromkeys(target.strip() for target in text.split(",") if target.strip()))
    modes = bundle.install_modes if bundle and bundle.install_modes_known else [_ALL]
    return () if _ALL in modes or _OWN not in modes else (namespace,)


def _has_namespace(catalog: Catalog, namespace: str) -> bool:
    inventory = ClusterInventory.objects.filter(cluster=catalog.cluster_id).first()
    return bool(inventory and inventory.namespaces and namespace in inventory.namespaces)


def _has_group(catalog: Catalog, namespace: str) -> bool:
    """A second OperatorGroup in a namespace would stop every operator in it."""
    return Component.objects.filter(
        cluster=catalog.cluster_id, kind="OperatorGroup", namespace=namespace
    ).exists()


def _notes(
    package: Package, choice: InstallChoice, resolution: Resolution, pinned: str
) -> tuple[str, ...]:
    first = (
        f"{package.name} {resolution.version} from catalog {package.catalog}: {resolution.reason}"
    )
    return first, *METHODS[choice.method].export_notes(choice, pinned)
