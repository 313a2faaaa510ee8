"""The commands of the documentation name objects that the chart and the manifest have."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import ci_values, named, of_kind, pod_templates, rendered
from tests.conftest import ROOT

pytestmark = pytest.mark.peers

INSTALL = ROOT / "docs" / "install-kubernetes.md"
PAGES = [INSTALL, ROOT / "docs" / "operations.md", ROOT / "docs" / "metrics.md"]
MANIFEST = ROOT / "deploy" / "kubernetes" / "rbac.yaml"
README = ROOT / "deploy" / "kubernetes" / "README.md"


def commands(page: Path, program: str) -> list[str]:
    """Commands of the page's shell blocks that run `program`, each as one line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(" +", " ", line) for line in lines if re.search(rf"(^|[|] ){program} ", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_kubectl_is_called_with_the_namespace_of_the_release(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"`kubectl (.+?)`", text, re.S)
    assert all(command.startswith(("config", "exec")) for command in inline), inline
    for command in commands(page, "kubectl"):
        assert "--namespace olmweb" in command or "kubectl apply -f" in command, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_objects_and_keys_of_a_release_with_the_trial_servers(page: Path) -> None:
    objects = rendered(ci_values("minimal"))
    text = "\n".join(commands(page, "kubectl"))
    secret = named(objects, "Secret", "olmweb-generated")
    for name, key in re.findall(r"get secret (\S+) -o jsonpath='\{\.data\.(.+?)\}'", text):
        assert name == "olmweb-generated"
        assert key in secret["data"]
    server = named(objects, "StatefulSet", "olmweb-postgresql")
    [container] = server["spec"]["template"]["spec"]["containers"]
    values = {entry["name"]: entry.get("value") for entry in container["env"]}
    for pod, command in re.findall(r"exec (?:--stdin )?(\S+) -- (.+?)(?: [<>].*)?$", text, re.M):
        assert pod == f"{server['metadata']['name']}-0"
        assert f"--username {values['POSTGRES_USER']} " in command
        assert values["POSTGRES_DB"] in command.replace("--dbname=", "").split()[3:]
    [claim] = server["spec"]["volumeClaimTemplates"]
    for name in re.findall(r"persistentvolumeclaim (\S+)", text):
        assert name == f"{claim['metadata']['name']}-{server['metadata']['name']}-0"


def test_a_restore_with_the_chart_waits_for_the_pods_of_all_deployments() -> None:
    objects = rendered(ci_values("minimal"))
    kubectl = commands(ROOT / "docs" / "operations.md", "kubectl")
    programs = re.findall(r" -- (\w+)", "\n".join(kubectl))
    assert programs == ["pg_dump", "dropdb", "createdb", "pg_restore"]
    [waiting] = [command for command in kubectl if " wait pod --for=delete " in command]
    [others] = re.findall(r"app.kubernetes.io/component notin \((.+)\)", waiting)
    deployments = {
        thing["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for thing in of_kind(objects, "Deployment")
    }
    assert pod_templates(objects).keys() - set(others.split(",")) == deployments
    grace = max(
        thing["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for thing in of_kind(objects, "Deployment")
    )
    assert grace < 180


@pytest.mark.parametrize("page", [INSTALL, README], ids=lambda page: page.name)
def test_on_openshift_the_roles_are_in_the_namespaces_of_openshift(page: Path) -> None:
    [command] = commands(page, "sed")
    done = subprocess.run(
        ["sh", "-c", command.partition(" | ")[0]], cwd=ROOT, capture_output=True, text=True
    )
    namespaces = {
        (thing["metadata"]["name"], thing["metadata"]["namespace"])
        for thing in yaml.safe_load_all(done.stdout)
        if thing["kind"] in ("Role", "RoleBinding")
    }
    assert namespaces == {
        ("olmweb-catalog-reader", "openshift-catalogd"),
        ("olmweb-registry-reader", "openshift-marketplace"),
        ("olmweb-unpack-retrier", "openshift-marketplace"),
    }
    before = len(MANIFEST.read_text().splitlines())
    assert len(done.stdout.splitlines()) == before


def test_the_table_of_roles_names_their_namespaces() -> None:
    rows = re.findall(r"^\| (`olmweb-.+?`) \| `(.+?)` \|", README.read_text(), re.M)
    documented = {(role, space) for roles, space in rows for role in re.findall("`(.+?)`", roles)}
    assert documented == {
        (thing["metadata"]["name"], thing["metadata"]["namespace"])
        for thing in yaml.safe_load_all(MANIFEST.read_text())
        if thing["kind"] == "Role"
    }
