"""The chart as helm renders it."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT
from tests.peers.build import binary

CHART = ROOT / "deploy" / "helm" / "olmweb"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
NAMESPACE = "olmweb"
KUBE_VERSION = ("--kube-version", "1.36.0")
Object = dict[str, Any]


class HelmRefused(Exception):
    """What helm wrote when it failed."""


def helm(*arguments: str | Path, kubeconfig: Path | None = None) -> str:
    """Output of helm. Raises HelmRefused."""
    environment = {**os.environ, "HELM_CACHE_HOME": "/nonexistent"}
    environment["KUBECONFIG"] = str(kubeconfig or "/nonexistent")
    done = subprocess.run(
        [str(binary("helm")), *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise HelmRefused(done.stderr + done.stdout)
    return done.stdout


def render(*arguments: str | Path, release: str = "olmweb") -> list[Object]:
    """Objects of `helm template`; `arguments` such as --values FILE or --set a=b."""
    return documents(
        helm("template", release, CHART, "--namespace", NAMESPACE, *KUBE_VERSION, *arguments)
    )


@cache
def rendered(values: Path) -> list[Object]:
    """Objects of the chart with one of CI_VALUES. Not to be changed: they are shared."""
    return render("--values", values)


def documents(text: str) -> list[Object]:
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [thing for thing in objects if thing["kind"] in kinds]


def named(objects: list[Object], kind: str, name: str) -> Object:
    return next(
        thing for thing in objects if (thing["kind"], thing["metadata"]["name"]) == (kind, name)
    )


def pod_templates(objects: list[Object]) -> dict[str, Object]:
    """Pod templates of all workloads, by the name of their component."""
    workloads = of_kind(objects, "Deployment", "StatefulSet", "Job")
    return {
        thing["metadata"]["labels"]["app.kubernetes.io/component"]: thing["spec"]["template"]
        for thing in workloads
    }


def containers(template: Object) -> list[Object]:
    return [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]


def ci_values(name: str) -> Path:
    return CHART / "ci" / f"{name}-values.yaml"
