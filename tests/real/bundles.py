"""Bundles of our own for real OLM v0, as a file-based catalog.

Every bundle carries its manifests in the catalog and names no image, so that OLM needs no pod to
unpack it; its Deployment runs nothing, for there is no node.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GROUP = "harbour.example.com"
ALL_MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")


@dataclass(frozen=True, slots=True)
class Bundle:
    """One version of an operator that owns a CRD named after its package.

    `requires`: plural names of CRDs of GROUP that must exist, which nobody provides; `needs`:
    kinds of GROUP that the resolver must find a provider of; `ships`: (apiVersion, kind) of
    objects that the bundle brings too, named as its package; without `owns` it has no CRD.
    """

    package: str
    version: str
    modes: tuple[str, ...] = ALL_MODES
    requires: tuple[str, ...] = ()
    replaces: str = ""
    channels: tuple[str, ...] = ("stable",)
    needs: tuple[str, ...] = ()
    ships: tuple[tuple[str, str], ...] = ()
    owns: bool = True

    @property
    def name(self) -> str:
        return f"{self.package}.v{self.version}"

    def blob(self) -> dict[str, Any]:
        manifests = [self._csv(), *([crd(self._plural, self._kind)] if self.owns else ())]
        manifests += [
            {"apiVersion": version, "kind": kind, "metadata": {"name": self.package}, "spec": {}}
            for version, kind in self.ships
        ]
        return {
            "schema": "olm.bundle",
            "package": self.package,
            "name": self.name,
            "image": "",
            "properties": [
                {
                    "type": "olm.package",
                    "value": {"packageName": self.package, "version": self.version},
                },
                *(
                    {
                        "type": "olm.gvk",
                        "value": {"group": GROUP, "version": "v1", "kind": kind},
                    }
                    for kind in ((self._kind,) if self.owns else ())
                ),
                *(
                    {
                        "type": "olm.gvk.required",
                        "value": {"group": GROUP, "version": "v1", "kind": kind},
                    }
                    for kind in self.needs
                ),
                *(
                    {
                        "type": "olm.bundle.object",
                        "value": {"data": base64.b64encode(json.dumps(one).encode()).decode()},
                    }
                    for one in manifests
                ),
            ],
        }

    @property
    def _kind(self) -> str:
        return self.package.title()

    @property
    def _plural(self) -> str:
        return f"{self.package}s"

    def _csv(self) -> dict[str, Any]:
        labels = {"app": self.package}
        container = {"name": "manager", "image": f"registry.example/{self.package}:{self.version}"}
        deployment = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": self.package, "containers": [container]},
            },
        }
        rules = [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]
        install = {
            "deployments": [{"name": f"{self.package}-controller", "spec": deployment}],
            "permissions": [{"serviceAccountName": self.package, "rules": rules}],
        }
        return {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name, "annotations": {}},
            "spec": {
                "displayName": f"{self._kind} Operator",
                "description": "Made for tests.",
                "version": self.version,
                **({"replaces": self.replaces} if self.replaces else {}),
                "maturity": "stable",
                "provider": {"name": "OLM Web"},
                "installModes": [
                    {"type": mode, "supported": mode in self.modes} for mode in ALL_MODES
                ],
                "install": {"strategy": "deployment", "spec": install},
                "customresourcedefinitions": {
                    "owned": [self._described(self._plural, self._kind)] if self.owns else [],
                    "required": [self._described(plural, "Needed") for plural in self.requires],
                },
            },
        }

    def _described(self, plural: str, kind: str) -> dict[str, str]:
        return {
            "name": f"{plural}.{GROUP}",
            "version": "v1",
            "kind": kind,
            "displayName": kind,
            "description": kind,
        }


def crd(plural: str, kind: str, group: str = GROUP) -> dict[str, Any]:
    """A CRD that takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [version],
        },
    }


def write_catalog(folder: Path, bundles: Iterable[Bundle]) -> None:
    """Writes a catalog that `opm serve` takes: every package has the channel `stable`."""
    by_package: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_package.setdefault(bundle.package, []).append(bundle)
    for package, versions in by_package.items():
        blobs = [
            {"schema": "olm.package", "name": package, "defaultChannel": "stable"},
            *_channels(package, versions),
            *(one.blob() for one in versions),
        ]
        (folder / package).mkdir()
        text = "\n".join(json.dumps(blob) for blob in blobs)
        (folder / package / "catalog.json").write_text(text)


def _channels(package: str, versions: list[Bundle]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in versions:
        entry = {"name": one.name, **({"replaces": one.replaces} if one.replaces else {})}
        for channel in one.channels:
            found.setdefault(channel, []).append(entry)
    return [
        {"schema": "olm.channel", "package": package, "name": name, "entries": entries}
        for name, entries in found.items()
    ]
