"""Manifests as files: one YAML stream, a Kustomize folder, an Argo CD Application. Pure.

Names of packages are a catalog's words: they go through the YAML writer and are never part of a
file's name.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Manifest = Mapping[str, Any]
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold: same bytes for same content
_MODE = 0o644 << 16


@dataclass(frozen=True, slots=True)
class Repository:
    """Where the folder is kept in Git, for Argo CD. `project` and `namespace` are Argo CD's."""

    url: str
    path: str
    revision: str = "HEAD"
    project: str = "default"
    namespace: str = "argocd"


def one_stream(manifests: Sequence[Manifest], notes: Sequence[str] = ()) -> bytes:
    """All of them as documents of one file, in order of application, notes as comments above."""
    return (_comments(notes) + _documents(manifests)).encode()


def kustomize_folder(manifests: Sequence[Manifest], notes: Sequence[str] = ()) -> dict[str, bytes]:
    """File name -> content: a file an object, and the kustomization that lists them in order."""
    names = _file_names(manifests)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
    }
    files = {
        name: _documents([manifest]).encode()
        for name, manifest in zip(names, manifests, strict=True)
    }
    return {"kustomization.yaml": (_comments(notes) + _dump(kustomization)).encode(), **files}


def zipped(folder: str, files: Mapping[str, bytes]) -> bytes:
    """A zip with one folder in it. The same content gives the same bytes, whenever it is made."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{folder}/{name}", date_time=EPOCH)
            entry.external_attr = _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whatever the machine that writes it
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def argo_application(name: str, repository: Repository, target_namespace: str) -> Manifest:
    """The Argo CD Application that keeps the folder applied.

    Server-side apply, as OLM Web itself does; nothing is pruned by itself, because removing a
    Subscription or ClusterExtension is a decision of its own.
    """
    destination = {"server": "https://kubernetes.default.svc"}
    if target_namespace:
        destination["namespace"] = target_namespace
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": repository.namespace},
        "spec": {
            "project": repository.project,
            "source": {
                "repoURL": repository.url,
                "path": repository.path,
                "targetRevision": repository.revision,
            },
            "destination": destination,
            "syncPolicy": {
                "automated": {"prune": False, "selfHeal": True},
                "syncOptions": ["ServerSideApply=true"],
            },
        },
    }


def _file_names(manifests: Sequence[Manifest]) -> list[str]:
    """By kind, in order; the kinds are ours, the names of objects are not in them."""
    return [
        f"{number:02}-{str(manifest['kind']).lower()}.yaml"
        for number, manifest in enumerate(manifests, 1)
    ]


def _documents(manifests: Sequence[Manifest]) -> str:
    return "---\n".join(_dump(manifest) for manifest in manifests)


def _dump(manifest: Manifest) -> str:
    """ASCII with escapes: no character that an editor or a diff hides."""
    return yaml.safe_dump(dict(manifest), sort_keys=False, allow_unicode=False)


def _comments(notes: Sequence[str]) -> str:
    """Each note on one line, whatever it holds."""
    return "".join(
        f"# {' '.join(note.split()).encode('ascii', 'replace').decode()}\n" for note in notes
    )
