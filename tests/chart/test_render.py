"""What the chart renders with each of its ci values, and what its schema refuses."""

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from olmweb import settings
from tests.chart.rendering import (
    CHART,
    CI_VALUES,
    KUBE_VERSION,
    HelmRefused,
    Object,
    ci_values,
    containers,
    helm,
    named,
    of_kind,
    pod_templates,
    render,
    rendered,
)
from tests.conftest import ROOT

pytestmark = pytest.mark.peers

MINIMAL = ci_values("minimal")
# Settings that values of the chart give, or that a container has no use for.
GIVEN = {
    "DATABASE_URL", "DOCKER_CONFIG", "KUBECONFIG", "OLMWEB_ADMIN_PASSWORD", "OLMWEB_CLUSTERS",
    "OLMWEB_DATA_DIR", "OLMWEB_DEBUG", "OLMWEB_HOSTS", "OLMWEB_METRICS_TOKEN", "OLMWEB_SECRET_KEY",
    "OLMWEB_TRUSTED_PROXIES", "OLMWEB_WEB_PROCESSES", "OLMWEB_WEB_THREADS", "REDIS_URL",
    "REGISTRY_AUTH_FILE",
}  # fmt: skip

each_values = pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)


@each_values
def test_helm_lint_finds_nothing(values: Path) -> None:
    helm("lint", "--strict", *KUBE_VERSION, "--values", values, CHART)


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert (
        chart["version"] == chart["appVersion"] == re.findall('^version = "(.+)"', project, re.M)[0]
    )


def test_the_schema_lists_every_setting_that_no_value_gives() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["definitions"]["setting"]["enum"]) == settings.env.names - GIVEN


def test_every_documented_value_is_in_the_schema_and_has_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def names(part: Any, prefix: str = "") -> set[str]:
        if "$ref" in part:
            part = schema["definitions"][part["$ref"].rpartition("/")[2]]
        inner = part.get("properties", {})
        return {prefix, *(name for key in inner for name in names(inner[key], f"{prefix}.{key}"))}

    def defaults(part: Any, prefix: str = "") -> set[str]:
        inner = part if isinstance(part, dict) else {}
        return {
            prefix,
            *(name for key in inner for name in defaults(inner[key], f"{prefix}.{key}")),
        }

    free = (".labels.", ".requests.", ".limits.")
    assert names(schema) - {".global"} == {
        name for name in defaults(values) if not any(part in name for part in free)
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "web.replica=2",
        "workers.syncs.replicas=1",
        "settings.OLMWEB_RETENTION=30",
        "settings.OLMWEB_HOSTS=a.example.com",
        "secretSettings.OLMWEB_OIDC_SECRET.name=a,secretSettings.OLMWEB_OIDC_SECRET.key=b",
        "image.repository=",
        "image.digest=latest",
        "hosts={https://olmweb.example.com}",
        "trustedProxies={proxy.example.com}",
        "workers.sync.spool=six",
        "web.resources.requests.cpu=true",
        "rbac.impersonatedGroups=",
    ],
)
def test_a_misspelt_or_senseless_value_is_refused(wrong: str) -> None:
    with pytest.raises(HelmRefused, match="don't meet the specifications of the schema"):
        render("--values", MINIMAL, "--set", wrong)


def test_resources_may_be_numbers() -> None:
    resources = {
        "requests": {"cpu": 1, "memory": 3221225472},
        "limits": {"cpu": 1.5, "memory": "4Gi"},
    }
    objects = render("--values", MINIMAL, "--set-json", f"web.resources={json.dumps(resources)}")
    [web] = pod_templates(objects)["web"]["spec"]["containers"]
    assert web["resources"] == resources


def test_without_a_database_the_sentence_names_the_value_to_set() -> None:
    with pytest.raises(HelmRefused, match=r"Set database\.existingSecret .* or trial\.enabled"):
        render("--values", MINIMAL, "--set", "trial.enabled=false")


@pytest.mark.parametrize(
    ("own", "trial", "port"), [("database", "redis", 5432), ("redis", "postgresql", 6379)]
)
def test_the_trial_starts_no_server_whose_existing_secret_is_named(
    own: str, trial: str, port: int
) -> None:
    objects = render("--values", MINIMAL, "--set", f"{own}.existingSecret=mine")
    servers = {thing["metadata"]["name"] for thing in of_kind(objects, "StatefulSet")}
    assert servers == {f"olmweb-{trial}"}
    for kind in ("Service", "NetworkPolicy"):
        names = {thing["metadata"]["name"] for thing in of_kind(objects, kind)}
        assert names & {"olmweb-postgresql", "olmweb-redis"} == servers
    data = named(objects, "Secret", "olmweb-generated")["data"]
    address = "database-url" if trial == "postgresql" else "redis-url"
    assert data.keys() & {"database-url", "postgresql-password", "redis-url", "redis-password"} == {
        address, f"{trial}-password",
    }  # fmt: skip
    # A server of one's own is anywhere, the trial's in its pod.
    egress = named(objects, "NetworkPolicy", "olmweb-default")["spec"]["egress"]
    to = {rule["ports"][0]["port"]: rule.get("to") for rule in egress}
    assert to.pop(port) is None
    component = "app.kubernetes.io/component"
    [peer] = to[5432 if trial == "postgresql" else 6379]
    assert peer["podSelector"]["matchLabels"][component] == trial


@each_values
def test_every_container_is_restricted_and_writes_to_its_own_volumes_only(values: Path) -> None:
    for component, template in pod_templates(rendered(values)).items():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, component
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_on_openshift_no_user_id_is_asked_for() -> None:
    assert "runAs" not in json.dumps(rendered(ci_values("openshift"))).replace("runAsNonRoot", "")
    assert not of_kind(rendered(ci_values("openshift")), "Ingress")
    route = of_kind(rendered(ci_values("openshift")), "Route")[0]
    assert route["spec"]["tls"]["insecureEdgeTerminationPolicy"] == "Redirect"


def test_only_processes_that_talk_to_clusters_have_a_token() -> None:
    templates = pod_templates(rendered(ci_values("everything")))
    accounts = {
        component: template["spec"]["serviceAccountName"].rpartition("-")[2]
        for component, template in templates.items()
        if template["spec"]["automountServiceAccountToken"]
    }
    assert accounts == {
        "web": "writer",
        "worker-actions": "writer",
        "worker-sync": "reader",
        "worker-reports": "reader",
        "watcher": "reader",
    }
    others = {
        templates[name]["spec"]["serviceAccountName"] for name in templates if name not in accounts
    }
    assert others == {"olm-web-idle"}


@each_values
def test_every_pod_finds_the_volumes_labels_and_accounts_that_it_names(values: Path) -> None:
    objects = rendered(values)
    accounts = {thing["metadata"]["name"] for thing in of_kind(objects, "ServiceAccount")}
    for thing in of_kind(objects, "Deployment", "StatefulSet"):
        wanted = thing["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= thing["spec"]["template"]["metadata"]["labels"].items()
    for template in pod_templates(objects).values():
        assert template["spec"]["serviceAccountName"] in accounts
    for budget in of_kind(objects, "PodDisruptionBudget"):
        wanted = budget["spec"]["selector"]["matchLabels"]
        assert wanted["app.kubernetes.io/component"] in pod_templates(objects)
    web = named(objects, "Service", _name(objects, "web"))
    assert (
        web["spec"]["selector"].items()
        <= pod_templates(objects)["web"]["metadata"]["labels"].items()
    )


def test_the_queues_of_the_workers_are_those_that_tasks_use() -> None:
    from olmweb.celery import app

    app.loader.import_default_modules()
    queues = {
        command[command.index("--queues") + 1]
        for template in pod_templates(rendered(MINIMAL)).values()
        for command in [template["spec"]["containers"][0].get("command", [])]
        if "--queues" in command
    }
    used = {
        getattr(task, "queue", None) or app.conf.task_default_queue
        for name, task in app.tasks.items()
        if not name.startswith("celery.")
    }
    assert queues == {"actions", "sync", "reports", "watch"}
    assert used <= queues


def test_a_process_is_given_more_time_to_stop_than_it_takes() -> None:
    templates = pod_templates(rendered(MINIMAL))
    graces = {
        name: template["spec"].get("terminationGracePeriodSeconds", 30)
        for name, template in templates.items()
    }
    assert graces["web"] >= 5 + 30
    for name in ("worker-actions", "worker-sync", "worker-reports", "watcher"):
        assert graces[name] > settings.WORKER_STOP_SECONDS + 30


def _fullname(objects: list[Object]) -> str:
    return _name(objects, "web").removesuffix("-web")


def _name(objects: list[Object], component: str) -> str:
    return next(
        thing["metadata"]["name"]
        for thing in of_kind(objects, "Deployment")
        if thing["metadata"]["labels"]["app.kubernetes.io/component"] == component
    )


def _rules(objects: list[Object], suffix: str) -> list[str]:
    """Rules of the role whose name ends so, each as sorted JSON."""
    return sorted(
        json.dumps(rule, sort_keys=True)
        for thing in objects
        if thing["kind"] in ("Role", "ClusterRole") and thing["metadata"]["name"].endswith(suffix)
        for rule in thing["rules"]
    )


@pytest.mark.parametrize(
    "role", ["-reader", "-catalog-reader", "-impersonator", "-operator", "-unpack-retrier"]
)
def test_the_roles_are_those_of_the_manifest_for_other_clusters(role: str) -> None:
    everything = render(
        "--values", ci_values("everything"), "--set", "settings.OLMWEB_WRITE_AS=user"
    )
    manifest = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/rbac.yaml").read_text()))
    ours = [thing for thing in manifest if thing["metadata"]["name"] != "olmweb-registry-reader"]
    assert _rules(everything, role) == _rules(ours, role) != []


def test_writing_as_the_service_account_gives_it_the_operators_role_and_no_impersonation() -> None:
    objects = rendered(ci_values("everything"))
    names = {thing["metadata"]["name"] for thing in of_kind(objects, "ClusterRoleBinding")}
    assert names == {"olm-web-reader", "olm-web-operator"}
    subjects = named(objects, "ClusterRoleBinding", "olm-web-operator")["subjects"]
    assert {"kind": "ServiceAccount", "name": "olm-web-writer", "namespace": "olmweb"} in subjects


def test_a_changed_setting_makes_a_new_job_and_new_pods_and_changes_no_selector() -> None:
    before = rendered(MINIMAL)
    same = render("--values", MINIMAL)
    after = render("--values", MINIMAL, "--set", "settings.OLMWEB_RETENTION_DAYS=30")

    def jobs(objects: list[Object]) -> set[str]:
        return {thing["metadata"]["name"] for thing in of_kind(objects, "Job")}

    assert jobs(before) == jobs(same)
    assert not jobs(before) & jobs(after)
    for component, template in pod_templates(before).items():
        assert template == pod_templates(same)[component]
        is_server = component in ("postgresql", "redis")
        assert (template == pod_templates(after)[component]) is is_server
    for thing in of_kind(before, "Deployment", "StatefulSet"):
        other = named(after, thing["kind"], thing["metadata"]["name"])
        assert thing["spec"]["selector"] == other["spec"]["selector"]
    # A Job of the same name has the same template, whatever else changes: it is immutable.
    newer = render("--values", MINIMAL, "--set-string", "image.tag=2")
    assert not jobs(before) & jobs(newer)
    scaled = render("--values", MINIMAL, "--set", "web.replicas=5")
    assert of_kind(before, "Job") == of_kind(scaled, "Job")


def test_the_names_of_jobs_have_the_revision_and_fit_into_a_label() -> None:
    for release in ("olmweb", "r" * 53):
        jobs = of_kind(render("--values", MINIMAL, release=release), "Job")
        for job in jobs:
            name = job["metadata"]["name"]
            component = job["metadata"]["labels"]["app.kubernetes.io/component"]
            assert re.fullmatch(rf"{release[:32]}-{component}-1-[0-9a-f]{{8}}", name)
            assert len(name) <= 63 - len("99999")  # room for a long history


def environment(template: Object, kind: str = "containers") -> dict[str, Any]:
    """Variables of the first container of a pod template; fails if a name is there twice."""
    entries = template["spec"][kind][0]["env"]
    variables = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}
    assert len(variables) == len(entries)
    return variables


def test_large_numbers_and_booleans_reach_the_settings_as_written() -> None:
    data = environment(pod_templates(rendered(ci_values("everything")))["web"])
    assert data["OLMWEB_RETENTION_DAYS"] == "1000000"
    assert data["OLMWEB_PUBLIC_READ"] == "true"
    assert data["OLMWEB_HOSTS"] == "olmweb.example.com,catalog.example.com"
    assert data["OLMWEB_CLUSTERS"] == "in-cluster,east=east"
    assert data["OLMWEB_TRUSTED_PROXIES"] == "10.128.0.0/14"


def test_the_default_of_trusted_proxies_is_that_of_the_settings() -> None:
    data = environment(pod_templates(rendered(MINIMAL))["web"])
    assert "OLMWEB_TRUSTED_PROXIES" not in data


def test_settings_are_part_of_the_pods_so_that_old_pods_keep_theirs() -> None:
    objects = render("--values", MINIMAL, "--set", "settings.OLMWEB_CONSOLES=a=https://$(HOME)/$$")
    assert not of_kind(objects, "ConfigMap")
    for component, template in pod_templates(objects).items():
        for container in containers(template):
            assert "envFrom" not in container
        if component not in ("postgresql", "redis"):
            # Kubernetes replaces $(NAME), and $$ by $.
            assert environment(template)["OLMWEB_CONSOLES"] == "a=https://$$(HOME)/$$$$"
            assert environment(template)["OLMWEB_HOSTS"] == "olmweb.example.com"


def test_an_entry_of_extra_env_replaces_the_setting_of_its_name() -> None:
    reference = {"secretKeyRef": {"name": "mine", "key": "token"}}
    extra = [
        {"name": "OLMWEB_HOSTS", "value": "other.example.com"},
        {"name": "OLMWEB_METRICS_TOKEN", "valueFrom": reference},
        {"name": "TMPDIR", "value": "/more"},
        {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
    ]
    source = [{"secretRef": {"name": "more"}}]
    objects = render(
        "--values", MINIMAL,
        "--set-json", f"extraEnv={json.dumps(extra)}",
        "--set-json", f"extraEnvFrom={json.dumps(source)}",
    )  # fmt: skip
    before = environment(pod_templates(rendered(MINIMAL))["web"])
    web = pod_templates(objects)["web"]
    assert web["spec"]["containers"][0]["envFrom"] == source
    for kind in ("containers", "initContainers"):
        after = environment(web, kind)
        assert after["OLMWEB_HOSTS"] == "other.example.com"
        assert after["TMPDIR"] == "/more"
        assert after["OLMWEB_METRICS_TOKEN"] == reference
        # A name and its file would be refused at the start.
        assert before.keys() - after.keys() == {"OLMWEB_METRICS_TOKEN_FILE"}
        assert after.keys() - before.keys() == {"OLMWEB_METRICS_TOKEN", "HTTPS_PROXY"}


@each_values
def test_every_process_has_a_token_for_metrics(values: Path) -> None:
    objects = rendered(values)
    name = "olmweb" if "external" in values.name else f"{_fullname(objects)}-generated"
    for component, template in pod_templates(objects).items():
        sources = [
            source["secret"]
            for volume in template["spec"]["volumes"]
            for source in volume.get("projected", {}).get("sources", ())
        ]
        item = {"key": "metrics-token", "path": "OLMWEB_METRICS_TOKEN"}
        if component not in ("postgresql", "redis"):
            assert {"name": name, "items": [item]} in sources
    for secret in of_kind(objects, "Secret"):
        assert len(b64decode(secret["data"]["metrics-token"])) >= 16


def test_no_secret_is_rendered_where_all_exist() -> None:
    assert not of_kind(rendered(ci_values("external-oidc")), "Secret")
