"""Manifests as files: one YAML stream, a Kustomize folder, an Argo CD Application. Pure.

Names of packages are text of a catalog: they are written as YAML and never part of a file's name.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from installs.methods import as_yaml

Manifest = dict[str, Any]
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip can hold: same bytes for same content
_MODE = 0o644 << 16


@dataclass(frozen=True, slots=True)
class Repository:
    """The Git repository of the folder, for Argo CD."""

    url: str
    path: str
    revision: str


def one_stream(manifests: Sequence[Manifest], notes: Sequence[str] = ()) -> bytes:
    """All manifests as documents of one file, in order of application, below the notes."""
    return (_comments(notes) + as_yaml(manifests)).encode()


def kustomize_folder(manifests: Sequence[Manifest], notes: Sequence[str] = ()) -> dict[str, bytes]:
    """File name -> content: a file an object, and the kustomization that lists them in order."""
    # By kind: the name of an object is text of a catalog.
    names = [
        f"{number:02}-{str(manifest['kind']).lower()}.yaml"
        for number, manifest in enumerate(manifests, 1)
    ]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
    }
    files = {name: one_stream([manifest]) for name, manifest in zip(names, manifests, strict=True)}
    return {"kustomization.yaml": one_stream([kustomization], notes), **files}


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
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {
            "project": "default",
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


def _comments(notes: Sequence[str]) -> str:
    """Each note on one line, whatever it holds."""
    return "".join(
        f"# {' '.join(note.split()).encode('ascii', 'replace').decode()}\n" for note in notes
    )
