"""What a request wants exported: its words read against the stored catalog, pinned, checked.

Shared by the page and the REST API. Reads rows; asks no cluster.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import resolve, v1
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
from installs.methods import AUTOMATIC, FIELDS, MANUAL, Choice, default_name, objects_for, problems
from installs.models import Component, Surface
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

    choice: Choice
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
    asked = _clean(words, WORDS)
    path = _path(package.catalog, asked["path"])
    channels = [asked["channel"]] if asked["channel"] else []
    try:
        found = resolve(facts_of(package), path, channels=channels, version=asked["version"])
    except BadQuestion as error:
        raise BadRequest(str(error), code="invalid", **{error.field: str(error)}) from None
    if not found.bundle:
        message = found.message or found.reason
        raise OlmwebError(
            f"Nothing would be installed: {found.reason}",
            code="nothing-chosen",
            status=409,
            hint=message if message != found.reason else "",
            fields={"version" if asked["version"] else "channel": found.reason},
        )
    choice, pinned = _choice(package, path, found, asked)
    wrong = problems(choice)
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    return Export(
        choice=choice,
        resolution=found,
        pinned=pinned,
        manifests=tuple(objects_for(path, choice)),
        notes=_notes(package, choice, found, pinned),
    )


def as_file(found: Export, form: str, words: Mapping[str, str]) -> bytes:
    """The bytes of one of TYPES. Raises BadRequest for a repository that can't be read."""
    if form == YAML:
        return one_stream(found.manifests, found.notes)
    if form == KUSTOMIZE:
        return zipped(found.folder, kustomize_folder(found.manifests, found.notes))
    repository = read_repository(words, found.folder)
    namespace = (
        found.choice.namespace if found.choice.path != InstallMethod.PLATFORM_OPERATOR else ""
    )
    return one_stream([argo_application(found.choice.name, repository, namespace)])


def read_repository(words: Mapping[str, str], folder: str) -> Repository:
    """The Git repository that the folder is kept in; `repo` is needed, the rest has defaults."""
    asked = _clean(words, REPOSITORY_WORDS)
    wrong = {}
    if not _REPOSITORY.fullmatch(asked["repo"]):
        wrong["repo"] = (
            "Give the address of the Git repository, such as https://git.example.com/apps.git."
        )
    place = asked["repo_path"] or folder
    if not _FOLDER.fullmatch(place) or ".." in place.split("/"):
        wrong["repo_path"] = "The folder is relative to the repository, such as operators/etcd."
    revision = asked["revision"] or "HEAD"
    if not _REVISION.fullmatch(revision):
        wrong["revision"] = "The revision is a branch, tag or commit, such as main."
    if wrong:
        raise BadRequest(" ".join(wrong.values()), code="invalid", **wrong)
    return Repository(asked["repo"], place, revision)


def _clean(words: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    found = {name: words.get(name, "").strip() for name in names}
    for name, value in found.items():
        if len(value) > LIMIT or not (value.isprintable() or not value):
            sentence = f"{name} has characters that no manifest holds, or over {LIMIT} of them."
            raise BadRequest(sentence, code="invalid", **{name: sentence})
    return found


def default_path(catalog: Catalog) -> InstallMethod:
    """The way that a catalog is made for."""
    kinds = Catalog.SourceKind
    return (
        InstallMethod.CLUSTER_EXTENSION
        if catalog.source_kind == kinds.CLUSTER_CATALOG
        else InstallMethod.SUBSCRIPTION
    )


def _path(catalog: Catalog, asked: str) -> InstallMethod:
    if not asked:
        return default_path(catalog)
    try:
        return InstallMethod.parse(asked)
    except ValueError as error:
        raise BadRequest(str(error), code="invalid", path=str(error)) from None


def _choice(
    package: Package, path: InstallMethod, found: Resolution, asked: Mapping[str, str]
) -> tuple[Choice, str]:
    bundle = Bundle.objects.filter(package=package, name=found.bundle).order_by("-ordinal").first()
    catalog = package.catalog
    from_source = catalog.source_kind in (
        Catalog.SourceKind.CATALOG_SOURCE,
        Catalog.SourceKind.PACKAGE_MANIFEST,
    )
    from_cluster_catalog = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
    namespace = asked["namespace"] or _namespace(package, bundle)
    pinned = _pin(path, found)
    values: dict[str, object] = {
        "path": path,
        "package": package.name,
        "name": asked["name"] or default_name(package.name, path),
    }
    state = catalog.cluster.kinds.get(path, {}) if catalog.cluster else {}
    values["api_version"] = state.get("version") or ""
    if path != InstallMethod.PLATFORM_OPERATOR:
        values |= {"namespace": namespace, "make_namespace": not _has_namespace(catalog, namespace)}
    if path == InstallMethod.CLUSTER_EXTENSION:
        account = asked["service_account"]
        values |= {
            "catalog": catalog.name if from_cluster_catalog else asked["source"],
            "channel": asked["channel"],
            "version": pinned,
            "service_account": account,
            "known": frozenset(FIELDS[path]) if account else None,
        }
    if path == InstallMethod.SUBSCRIPTION:
        values |= {
            "catalog": asked["source"] or (catalog.name if from_source else ""),
            "catalog_namespace": asked["source_namespace"]
            or (catalog.namespace if from_source else ""),
            "channel": found.channel,
            "version": found.bundle,
            "approval": asked["approval"] or MANUAL,
            "targets": _targets(asked["targets"], namespace, bundle),
            "make_group": not _has_group(catalog, namespace),
        }
    return Choice(**values), pinned  # type: ignore[arg-type]


def _pin(path: InstallMethod, found: Resolution) -> str:
    """The version as the path's own field reads it; empty where it has none."""
    if path == InstallMethod.PLATFORM_OPERATOR:
        return ""
    if path == InstallMethod.SUBSCRIPTION:
        return found.version
    for text in (found.version, found.version.partition("+")[0]):
        try:
            v1.read_range(text)
        except BadQuestion:
            continue
        return text
    return ""


def _namespace(package: Package, bundle: Bundle | None) -> str:
    suggested = bundle.suggested_namespace if bundle else ""
    return suggested or default_name(package.name, InstallMethod.PLATFORM_OPERATOR).replace(
        ".", "-"
    )


def _targets(asked: str, namespace: str, bundle: Bundle | None) -> tuple[str, ...]:
    """`*` for all namespaces; without a word all, unless the bundle only supports its own."""
    if asked == "*":
        return ()
    if asked:
        return tuple(dict.fromkeys(one.strip() for one in asked.split(",") if one.strip()))
    modes = bundle.install_modes if bundle and bundle.install_modes_known else [_ALL]
    return () if _ALL in modes or _OWN not in modes else (namespace,)


def _has_namespace(catalog: Catalog, namespace: str) -> bool:
    surface = Surface.objects.filter(cluster=catalog.cluster_id).first()
    return bool(surface and surface.namespaces and namespace in surface.namespaces)


def _has_group(catalog: Catalog, namespace: str) -> bool:
    """A second OperatorGroup in a namespace would stop every operator in it."""
    return Component.objects.filter(
        cluster=catalog.cluster_id, kind="OperatorGroup", namespace=namespace
    ).exists()


def _notes(package: Package, choice: Choice, found: Resolution, pinned: str) -> tuple[str, ...]:
    notes = [f"{package.name} {found.version} from catalog {package.catalog}: {found.reason}"]
    if choice.path == InstallMethod.PLATFORM_OPERATOR:
        notes.append("A PlatformOperator can't be pinned: it takes the highest version there is.")
    elif choice.path == InstallMethod.SUBSCRIPTION:
        held = "each InstallPlan waits for approval, the first one, too"
        if choice.approval == AUTOMATIC:
            held = "approval is Automatic, so OLM goes on from it along the channel by itself"
        notes.append(f"Starts at {choice.version}; {held}.")
        if not choice.make_group:
            notes.append(
                f"Namespace {choice.namespace} has an OperatorGroup already: none is made."
            )
    else:
        notes.append(f"Pinned to {pinned}: raise spec.source.catalog.version to upgrade.")
        if choice.service_account:
            notes.append(
                f"ServiceAccount {choice.service_account} needs the permissions that the bundle's "
                "objects ask for; they are not part of this."
            )
    return tuple(notes)
