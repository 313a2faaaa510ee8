"""The chart on a real API server: every object accepted, nothing changed by a second apply, pods
admitted under restricted pod security, and the rights of the ServiceAccounts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import (
    CHART,
    CI_VALUES,
    NAMESPACE,
    Object,
    ci_values,
    documents,
    helm,
    of_kind,
    pod_templates,
    rendered,
)
from tests.conftest import ROOT
from tests.migrated import fill_database
from tests.peers import servers
from tests.peers.build import binary
from tests.peers.client import ApiRefused, Client, wait_until
from tests.peers.controllers import ensure_namespace, service_account_token

pytestmark = [pytest.mark.peers, pytest.mark.slow]

GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
RELEASE = "trial"  # of the test that installs, in a namespace of its own
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "impersonate")


@pytest.fixture(scope="module")
def server(real_etcd: servers.Etcd) -> Iterator[servers.ApiServer]:
    """An API server with the kinds that OLM Web reads, those of Prometheus and Route, and the
    namespaces of catalogs; OLM Web's own accepts restricted pods only."""
    with servers.apiserver(real_etcd) as running:
        servers.apply_crds(running)
        for name in ("routes", "servicemonitors", "prometheusrules"):
            path = binary(f"{name}.yaml")
            assert path
            running.admin.apply(yaml.load(path.read_text(), yaml.CSafeLoader))
        for namespace in ("olmv1-system", "openshift-catalogd", "openshift-marketplace", "olm"):
            ensure_namespace(running.admin, namespace)
        for namespace in (NAMESPACE, "elsewhere"):
            enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
            running.admin.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": namespace, "labels": enforced},
                }
            )
        yield running


@pytest.fixture(scope="module")
def schemas(server: servers.ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a JSON schema of every kind that the server serves, for kubeconform."""
    home = tmp_path_factory.mktemp("schemas")
    definitions = wait_until(lambda: _definitions(server), "schemas of Prometheus' kinds", 60)
    for definition in definitions.values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
        for part in (definition, *definition.get("properties", {}).values()):
            if part.get("format") == "int-or-string":
                part["type"] = ["string", "integer"]
    (home / "_all.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in definitions.items():
        for kind in definition.get(GROUP_VERSION_KIND, ()):
            parts = (kind["group"].split(".")[0], kind["version"])
            file = "-".join([kind["kind"].lower(), *filter(None, parts)]) + ".json"
            schema = {"$ref": f"_all.json#/definitions/{name}"}
            (home / file).write_text(json.dumps(schema))
    return home


def _definitions(server: servers.ApiServer) -> dict[str, Any] | None:
    """The schemas of all kinds; None while those of the last CRDs are missing, which the server
    publishes some seconds after it serves their kinds."""
    definitions: dict[str, Any] = server.admin.call("GET", "/openapi/v2")["definitions"]
    names = " ".join(definitions)
    return definitions if "ServiceMonitor" in names and "PrometheusRule" in names else None


def apply(client: Client, thing: Object) -> Object:
    """Server-side apply that refuses unknown and doubled fields."""
    meta = thing["metadata"]
    namespace = meta.get("namespace", "")
    path = client.path(thing["apiVersion"], thing["kind"], meta["name"], namespace)
    query = "?fieldManager=chart&force=true&fieldValidation=Strict"
    return client.call("PATCH", path + query, thing, content_type="application/apply-patch+yaml")


def test_every_object_fits_the_schemas_of_the_api_server(schemas: Path) -> None:
    objects = [thing for values in CI_VALUES for thing in rendered(values)]
    misspelt = json.loads(json.dumps(of_kind(objects, "Deployment")[0]))
    misspelt["metadata"]["name"] = "misspelt"
    misspelt["spec"]["replica"] = 2
    location = f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    command = [str(binary("kubeconform")), "-strict", "-summary", "-output", "json", "-n", "1",
               "-schema-location", location]  # fmt: skip
    text = yaml.dump_all([*objects, misspelt], Dumper=yaml.CSafeDumper)
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    assert [resource["name"] for resource in answer["resources"]] == ["misspelt"]
    summary = answer["summary"]
    assert (summary["valid"], summary["skipped"]) == (len(objects), 0)


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_every_object_is_accepted_and_a_second_apply_changes_nothing(
    values: Path, server: servers.ApiServer
) -> None:
    objects = rendered(values)
    first = [apply(server.admin, thing) for thing in objects]
    second = [apply(server.admin, thing) for thing in objects]
    versions = [
        (before["kind"], before["metadata"]["name"])
        for before, after in zip(first, second, strict=True)
        if before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]
    ]
    assert versions == []
    for thing in objects:
        server.admin.delete(thing)


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_every_pod_is_admitted_under_restricted_pod_security(
    values: Path, server: servers.ApiServer
) -> None:
    for component, template in pod_templates(rendered(values)).items():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": component, "namespace": NAMESPACE},
            "spec": json.loads(json.dumps(template["spec"])),
        }
        claimed = {mount["name"] for c in pod["spec"]["containers"] for mount in c["volumeMounts"]}
        missing = claimed - {volume["name"] for volume in pod["spec"]["volumes"]}
        for name in missing:  # the StatefulSet's controller adds those of its claims
            claim = {"claimName": name}
            pod["spec"]["volumes"].append({"name": name, "persistentVolumeClaim": claim})
        created = server.admin.create(pod)
        server.admin.call("DELETE", server.admin._path_of(created) + "?gracePeriodSeconds=0")


def install(server: servers.ApiServer, home: Path, command: str, *arguments: str | Path) -> str:
    kubeconfig = server.write_kubeconfig(home / "kubeconfig")
    return helm(
        *command.split(), RELEASE, *arguments, "--namespace", "elsewhere", kubeconfig=kubeconfig
    )


def test_install_upgrade_rollback_and_uninstall_keep_the_generated_secret(
    server: servers.ApiServer, tmp_path: Path
) -> None:
    values = ("--values", ci_values("minimal"))

    def secret() -> Object:
        name = f"{RELEASE}-olmweb-generated"
        return dict(server.admin.get("v1", "Secret", name, "elsewhere")["data"])

    def versions() -> dict[tuple[str, str], str]:
        manifest = documents(install(server, tmp_path, "get manifest"))
        return {
            (thing["kind"], thing["metadata"]["name"]): server.admin.get(
                thing["apiVersion"],
                thing["kind"],
                thing["metadata"]["name"],
                thing["metadata"].get("namespace", ""),
            )["metadata"]["resourceVersion"]
            for thing in manifest
        }

    notes = install(server, tmp_path, "install", CHART, *values)
    assert f"get secret {RELEASE}-olmweb-generated -o jsonpath='{{.data.admin-password}}'" in notes
    generated, before = secret(), versions()
    assert len(generated) == 7

    # As docs/operations.md stops the processes for a restore.
    scale = f"/apis/apps/v1/namespaces/elsewhere/deployments/{RELEASE}-olmweb-web/scale"
    none = {"spec": {"replicas": 0}}
    server.admin.call("PATCH", scale, none, content_type="application/merge-patch+json")
    install(server, tmp_path, "upgrade", CHART, *values)
    assert secret() == generated
    web = server.admin.get("apps/v1", "Deployment", f"{RELEASE}-olmweb-web", "elsewhere")
    assert web["spec"]["replicas"] == 2
    # The Jobs run again; nothing else is changed.
    first, before = before, versions()
    different = {name for name in before if before[name] != first.get(name)}
    jobs = {name for name in before if name[0] == "Job"}
    assert len(jobs) == 2
    assert different == jobs | {("Deployment", f"{RELEASE}-olmweb-web")}
    assert not jobs & first.keys()

    install(server, tmp_path, "upgrade", CHART, *values, "--set-string", "image.tag=2")
    changed = versions()
    assert secret() == generated
    kinds = {name for name in before if before[name] != changed.get(name)}
    assert {kind for kind, _ in kinds} == {"Deployment", "Job"}

    install(server, tmp_path, "rollback", "2")
    assert secret() == generated
    assert versions().keys() == before.keys()
    stored = server.admin.list("batch/v1", "Job", "elsewhere")
    assert {("Job", job["metadata"]["name"]) for job in stored} == jobs

    install(server, tmp_path, "uninstall")
    assert secret() == generated
    assert not server.admin.list("apps/v1", "Deployment", "elsewhere")


def test_two_renderings_with_existing_secrets_are_equal() -> None:
    """Argo CD renders without the cluster and would see a difference each time."""
    values = ("--values", ci_values("external-oidc"))
    arguments = ("template", "olmweb", CHART, "--kube-version", "1.36.0", *values)
    assert helm(*arguments) == helm(*arguments)


class Rights:
    """What ServiceAccounts of the chart may do, as the API server's authoriser answers."""

    def __init__(self, server: servers.ApiServer) -> None:
        self._client = server.admin

    def allowed(
        self,
        account: str,
        verb: str,
        group: str,
        resource: str,
        namespace: str = "",
        name: str = "",
    ) -> bool:
        plural, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb, "group": group, "resource": plural, "subresource": subresource,
            "namespace": namespace, "name": name,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:olmweb-{account}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": attributes,
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._client.call("POST", path, review)["status"]["allowed"])

    def served(self) -> Iterator[tuple[str, str]]:
        """(group, resource or resource/subresource) of everything that the server serves."""
        for entry in self._client.call("GET", "/api/v1")["resources"]:
            yield "", entry["name"]
        for group in self._client.call("GET", "/apis")["groups"]:
            for version in group["versions"]:
                path = f"/apis/{version['groupVersion']}"
                for entry in self._client.call("GET", path)["resources"]:
                    yield group["name"], entry["name"]


@pytest.fixture
def installed(server: servers.ApiServer) -> servers.ApiServer:
    """The server with the chart's objects, which other tests delete."""
    for thing in rendered(ci_values("openshift")):
        apply(server.admin, thing)
    return server


def granted(suffix: str) -> set[tuple[str, str, str]]:
    """(verb, group, resource) of the cluster-wide rules of deploy/kubernetes/rbac.yaml."""
    manifest = yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text())
    return {
        (verb, group, resource)
        for thing in manifest
        if thing["kind"] == "ClusterRole" and thing["metadata"]["name"] == f"olmweb-{suffix}"
        for rule in thing["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_accounts_may_do_what_the_roles_say_and_nothing_else(
    installed: servers.ApiServer,
) -> None:
    rights = Rights(installed)
    served = {*rights.served(), ("", "users"), ("", "groups"), ("", "secrets"), ("", "pods/exec")}
    for account, expected in (
        ("idle", set()),
        ("reader", granted("reader")),
        ("writer", granted("reader") | {("impersonate", "", "users")}),
    ):
        allowed = {
            (verb, group, resource)
            for group, resource in served
            for verb in VERBS
            if rights.allowed(account, verb, group, resource)
        }
        served_here = {rule for rule in expected if rule[1:] in served}
        everyone = {rule for rule in allowed if rule[2].startswith("self")}  # reviews of oneself
        assert allowed - everyone == served_here, account
    assert {("", "secrets"), ("", "pods/exec"), ("apps", "deployments")} <= served


def test_only_the_groups_of_the_roles_can_be_impersonated_and_one_proxy_be_read(
    installed: servers.ApiServer,
) -> None:
    rights = Rights(installed)
    for account in ("reader", "writer"):
        writes = account == "writer"
        group = ("impersonate", "", "groups")
        assert rights.allowed(account, *group, name="olmweb-operators") is writes
        assert not rights.allowed(account, *group, name="system:masters")
    proxy = ("get", "", "services/proxy")
    catalogd = "https:catalogd-service:443"
    assert rights.allowed("reader", *proxy, "openshift-catalogd", catalogd)
    assert not rights.allowed("reader", *proxy, "openshift-catalogd", "https:other:443")
    assert not rights.allowed("reader", *proxy, NAMESPACE, catalogd)
    assert not rights.allowed("idle", *proxy, "openshift-catalogd", catalogd)


def test_the_writer_acts_as_a_person_of_the_roles_groups_and_never_as_itself(
    installed: servers.ApiServer,
) -> None:
    subscription = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": "etcd", "namespace": NAMESPACE},
        "spec": {"name": "etcd", "source": "catalog", "sourceNamespace": "olm"},
    }
    path = f"/apis/operators.coreos.com/v1alpha1/namespaces/{NAMESPACE}/subscriptions?dryRun=All"
    ca_file = str(installed.ca_file)
    token = service_account_token(installed.admin, NAMESPACE, "olmweb-writer")
    with closing(Client(installed.url, ca_file, token)) as writer:

        def create(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            try:
                writer.call("POST", path, subscription, headers=named)
            except ApiRefused as error:
                return error.status
            return 201

        assert create(Impersonate_User="olivia", Impersonate_Group="olmweb-operators") == 201
        assert create(Impersonate_User="bob", Impersonate_Group="olmweb-viewers") == 403
        assert create(Impersonate_User="root", Impersonate_Group="system:masters") == 403
        assert create() == 403


def manage(home: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "OLMWEB_DATA_DIR": str(home),
        "KUBECONFIG": str(home / "kubeconfig"),
        "OLMWEB_CLUSTERS": "real=real",
        "DATABASE_URL": f"sqlite:///{home / 'sync.sqlite3'}",
    }
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


STATES = """
from olmweb.models import ResourceWatch
print({watch.resource: watch.state for watch in ResourceWatch.objects.all()})
"""


def test_the_readers_rights_are_enough_for_a_sync(
    installed: servers.ApiServer, tmp_path: Path
) -> None:
    token = service_account_token(installed.admin, NAMESPACE, "olmweb-reader")
    installed.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    fill_database(f"sqlite:///{tmp_path / 'sync.sqlite3'}")
    report = json.loads(manage(tmp_path, "sync_cluster", "real", "--json"))
    assert report["outcome"] == "changed", report
    states = manage(tmp_path, "shell", "-v", "0", "-c", STATES)
    assert "forbidden" not in states
    assert "listed" in states or "watching" in states
    assert all(kind in json.dumps(report) for kind in ("Subscription", "ClusterExtension"))
