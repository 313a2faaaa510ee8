"""Configurations checked by the served schema beside the answers of a real API server, and on real
OLM v0: what a configuration and its changes do to the operator's Deployment."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.actions import follow
from installs.actions.configuration import plan_configure
from installs.actions.plan import Plan, plan_install
from installs.actions.record import dry_run, request
from installs.methods.configuration import config_problems, read_config, schema_for
from installs.models import Action, Operator
from installs.state.decode.workloads import custom_resource_definition
from installs.state.full_sync import sync_cluster
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from tests.factories import make_package
from tests.installs.methods.test_configuration import EXTENSION
from tests.peers import servers
from tests.peers.client import APPLY, ApiRefused, wait_until
from tests.peers.servers import ApiServer
from tests.real.test_crd_upgrade import crd, installed
from tests.real.world import CATALOG, SECONDS, World

pytestmark = pytest.mark.peers

GOOD = (
    "env: [{name: LOG_LEVEL, value: debug}, {name: A, valueFrom: {fieldRef: {fieldPath: a}}}]",
    "env: [{name: A, valueFrom: {configMapKeyRef: {key: a}}}]",
    "envFrom: [{secretRef: {name: proxy}, prefix: P_}]",
    "env:\nnodeSelector: {kubernetes.io/os: linux}",
    "resources: {requests: {cpu: 2, memory: 512Mi}, limits: {cpu: '1.5', memory: 1e3}}",
    "resources: {claims: [{name: a}, {name: b}]}",
    "tolerations: [{key: infra, operator: Exists, effect: Anything, tolerationSeconds: 30}]",
    "volumes: [{name: ca, configMap: {name: trusted, items: [{key: a, path: b, mode: 420}]}}]",
    "volumeMounts: [{name: ca, mountPath: /etc/ca, readOnly: true}]",
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}",
    "selector: {matchLabels: {a: b}}\nannotations: {a: '1'}",
)
BAD = (
    "env: {LOG_LEVEL: debug}",
    "env: [{name: A, value: 1}]",
    "env: [{name: A, value: true}]",
    "env: [{value: a}]",
    "env: [null]",
    "env: [{name: A, valueFrom: {configMapKeyRef: {name: a}}}]",
    "envs: []",
    "env: [{name: A, values: b}]",
    "nodeSelector: {a: true}",
    "nodeSelector: [a]",
    "resources: {limits: {cpu: 1 core}}",
    "resources: {limits: {cpu: true}}",
    "resources: {limits: {cpu: 1.5}}",
    "resources: {claims: [{name: a}, {name: a}]}",
    "tolerations: [{tolerationSeconds: 1.5}]",
    "tolerations: [{tolerationSeconds: '30'}]",
    "volumes: [{configMap: {name: trusted}}]",
    "volumeMounts: [{name: ca}]",
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}",
    "annotations: {a: 1}",
)
INLINE_GOOD = (
    "{configType: Inline, inline: {watchNamespace: apps}}",
    "{configType: Inline, inline: {deploymentConfig: {env: [{name: A}]}, other: [1]}}",
)
INLINE_BAD = (
    "{configType: Inline}",
    "{configType: Inline, inline: {}}",
    "{configType: Inline, inline: a}",
    "{inline: {watchNamespace: apps}}",
    "{configType: Helm, inline: {a: b}}",
    "{configType: Inline, inline: {a: b}, more: 1}",
)


def schema_of(definition: dict[str, Any], version: str) -> dict[str, Any]:
    """The schema of `spec.config` as the sync stores it of the server's definition."""
    decoded = custom_resource_definition(definition)
    assert decoded is not None
    schema: dict[str, Any] = decoded.columns["config_schemas"][version]
    return schema


def answer(server: ApiServer, collection: str, body: dict[str, Any]) -> str:
    """What a server-side apply that is not kept is refused with; empty if it is accepted."""
    path = f"{collection}/{body['metadata']['name']}?fieldManager=olmweb&dryRun=All"
    try:
        server.admin.call("PATCH", path, body, content_type=APPLY)
    except ApiRefused as error:
        if error.status not in (400, 422, 500):  # 500: no typed patch
            raise
        return str(error)
    return ""


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_the_server_refuses_what_the_schema_refuses(apiserver: ApiServer, text: str) -> None:
    name = "subscriptions.operators.coreos.com"
    served = apiserver.admin.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
    config = read_config(text)
    problems = config_problems(config, schema_of(served, "v1alpha1"))
    body = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": "configured"},
        "spec": {"name": "a", "source": "b", "sourceNamespace": "c", "config": config},
    }
    path = "/apis/operators.coreos.com/v1alpha1/namespaces/default/subscriptions"
    refused = answer(apiserver, path, body)
    assert bool(problems) == bool(refused) == (text in BAD), (problems, refused)


V1_GROUP = "olm.operatorframework.io"
# Of spec.config of a ClusterExtension.
RULE = "has(self.configType) && self.configType == 'Inline' ? has(self.inline) : !has(self.inline)"


@pytest.fixture(scope="module")
def extensions(apiserver: ApiServer) -> str:
    """The collection of a kind with the experimental `spec.config` of a ClusterExtension."""
    definition = crd("configured")
    config = EXTENSION | {"x-kubernetes-validations": [{"rule": RULE}]}
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["config"] = config
    installed(apiserver, definition)
    path = "/apis/crdsafety.example.com/v1/namespaces/default/configured"

    def is_served() -> bool:
        try:
            apiserver.admin.call("GET", path)
        except ApiRefused:
            return False
        return True

    wait_until(is_served, "the kind being served")
    return path


@pytest.mark.parametrize("text", [*INLINE_GOOD, *INLINE_BAD])
def test_the_server_refuses_an_inline_configuration_that_the_schema_refuses(
    apiserver: ApiServer, extensions: str, text: str
) -> None:
    config = read_config(text)
    problems = config_problems(config, schema_for(InstallMethod.CLUSTER_EXTENSION, EXTENSION))
    body = {
        "apiVersion": "crdsafety.example.com/v1",
        "kind": "Configured",
        "metadata": {"name": "one"},
        "spec": {"config": config},
    }
    refused = answer(apiserver, extensions, body)
    assert bool(problems) == bool(refused) == (text in INLINE_BAD), (problems, refused)


@pytest.mark.django_db
def test_a_configuration_and_its_changes_reach_the_deployment_of_the_operator(
    olm: World, olivia: User, tmp_path: Path, settings: Any
) -> None:
    settings.KUBECONFIG = str(olm.server.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.CLUSTERS, settings.WRITE_AS = ["real"], "service-account"
    namespace, name = "configured-by-us", "tern"
    cluster = Cluster.objects.create(name="real", context="real")
    assert not sync_cluster(cluster).error
    cluster.refresh_from_db()
    catalog = Catalog.objects.get(cluster=cluster, name=CATALOG)
    package = make_package(name=name, catalog=catalog)

    def send(plan: Plan) -> Action:
        assert (tried := dry_run(plan, olivia)).ok, tried
        action = request(plan, olivia)

        def play(_seconds: float) -> None:
            time.sleep(0.5)
            if olm.kubectl.list("apps/v1", "Deployment", namespace):
                olm.play_node(namespace)

        def has_ended() -> bool:
            Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
            return follow.run(action.pk, pause=play) is None

        wait_until(has_ended, f"the end of {plan.verb}", SECONDS)
        action.refresh_from_db()
        return action

    def pod() -> dict[str, Any]:
        """The pod of the one Deployment, as far as configurations can set it."""
        olm.play_node(namespace)
        (deployment,) = olm.kubectl.list("apps/v1", "Deployment", namespace)
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        # OLM adds a variable of its own, OPERATOR_CONDITION_NAME.
        env = [item for item in container.get("env") or [] if item["name"] in ("LEVEL", "MODE")]
        return {
            "env": env,
            "resources": container.get("resources") or {},
            "nodeSelector": spec.get("nodeSelector") or {},
            "tolerations": spec.get("tolerations") or [],
        }

    def edit(config: dict[str, Any], *, take: bool = False) -> Action:
        assert not sync_cluster(cluster).error
        row = Operator.objects.select_related("cluster").get(namespace=namespace, name=name)
        return send(plan_configure(row, config, take=take))

    whole = {
        "env": [{"name": "LEVEL", "value": "debug"}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "128Mi"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    }
    values = {"namespace": namespace, "targets": namespace, "approval": "Automatic"}
    installed = send(plan_install(cluster, package, "", "Subscription", values, config=whole))
    assert installed.state == "succeeded", installed.outcome
    wait_until(lambda: pod() == whole, "the Deployment as configured", SECONDS, pause=1)

    other = whole | {"env": [{"name": "MODE", "value": "b"}], "resources": {"limits": {"cpu": "1"}}}
    assert edit(other).state == "succeeded"
    assert olm.subscription(namespace, name)["spec"]["config"] == other
    wait_until(lambda: pod() == other, "the Deployment with the change", SECONDS, pause=1)
    assert edit(other).outcome_code == "already-so"

    fewer = {field: other[field] for field in ("env", "nodeSelector")}
    assert edit(fewer).state == "succeeded"
    assert olm.subscription(namespace, name)["spec"]["config"] == fewer
    wait_until(
        lambda: pod() == fewer | {"resources": {}, "tolerations": []},
        "the Deployment without the removed fields",
        SECONDS,
        pause=1,
    )
    assert edit({}).state == "succeeded"
    assert "config" not in olm.subscription(namespace, name)["spec"]
    by_hand = {"env": [{"name": "MODE", "value": "by-hand"}], "annotations": {"x.y/z": "1"}}
    olm.kubectl.merge(olm.subscription(namespace, name), {"spec": {"config": by_hand}})
    wait_until(lambda: pod()["env"] == by_hand["env"], "the change by hand", SECONDS, pause=1)
    row = Operator.objects.select_related("cluster").get(namespace=namespace, name=name)
    assert dry_run(plan_configure(row, {}), olivia).code == "config-kept"
    assert edit({}, take=True).state == "succeeded"
    assert "config" not in olm.subscription(namespace, name)["spec"]
    wait_until(lambda: not any(pod().values()), "the Deployment of the bundle", SECONDS, pause=1)


@pytest.mark.django_db
def test_the_configuration_of_a_cluster_extension_is_edited_on_a_real_server(
    fresh_apiserver: ApiServer, olivia: User, tmp_path: Path, settings: Any
) -> None:
    """With the CustomResourceDefinition of operator-controller and its experimental field (1.11,
    helm/olmv1/base/operator-controller/crd/experimental)."""
    server, name = fresh_apiserver, "tern"
    servers.apply_crds(server)
    definition = yaml.safe_load(servers.crd_file("clusterextensions." + V1_GROUP).read_text())
    [version] = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["config"] = EXTENSION | {"x-kubernetes-validations": [{"rule": RULE}]}
    installed(server, definition)
    settings.KUBECONFIG = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.CLUSTERS, settings.WRITE_AS = ["real"], "service-account"
    cluster = Cluster.objects.create(name="real", context="real")
    source = {"type": "Image", "image": {"ref": "quay.io/example/catalog:v1"}}
    server.admin.create(
        {
            "apiVersion": f"{V1_GROUP}/v1",
            "kind": "ClusterCatalog",
            "metadata": {"name": "harbour"},
            "spec": {"source": source},
        }
    )
    assert not sync_cluster(cluster).error
    cluster.refresh_from_db()
    package = make_package(name=name, catalog=Catalog.objects.get(cluster=cluster, name="harbour"))

    def there() -> dict[str, Any]:
        spec: dict[str, Any] = server.admin.get(f"{V1_GROUP}/v1", "ClusterExtension", name)["spec"]
        return spec

    def send(plan: Plan) -> Action:
        assert (tried := dry_run(plan, olivia)).ok, tried
        action = request(plan, olivia)
        follow.run(action.pk, pause=lambda _: None)
        action.refresh_from_db()
        return action

    def edit(config: dict[str, Any]) -> Plan:
        assert not sync_cluster(cluster).error
        row = Operator.objects.select_related("cluster").get(kind="ClusterExtension", name=name)
        return plan_configure(row, config)

    def inline(**values: Any) -> dict[str, Any]:
        return {"configType": "Inline", "inline": values}

    first = inline(watchNamespace="apps")
    values = {"namespace": "apps", "service_account": "installer", "version": "1.0.0"}
    send(plan_install(cluster, package, "", "ClusterExtension", values, config=first))
    Action.objects.update(state="succeeded")  # no controller installs it
    before = there()
    assert before["config"] == first

    env = [{"name": "LEVEL", "value": "debug"}]
    other = inline(watchNamespace="", deploymentConfig={"env": env, "nodeSelector": {"a": "b"}})
    changes = dry_run(edit(other), olivia).changes
    assert "+        value: debug" in changes, changes
    send(edit(other))
    assert there() == before | {"config": other}, "and nothing else changed"
    Action.objects.update(state="succeeded")
    assert send(edit(other)).outcome_code == "already-so"

    fewer = inline(watchNamespace="apps")
    send(edit(fewer))
    assert there() == before | {"config": fewer}, "the removed fields are removed"
    Action.objects.update(state="succeeded")

    for bad, field in (
        (inline(watchNamespace=1), "config.inline.watchNamespace"),
        (inline(deploymentConfig={"env": [{"value": "a"}]}), "config.inline.deploymentConfig.env"),
        ({"configType": "Inline"}, "config.inline"),
        ({"configType": "Helm", "inline": {"a": "b"}}, "config.configType"),
    ):
        with pytest.raises(OlmwebError) as refused:
            edit(bad)
        assert any(at.startswith(field) for at in refused.value.fields), refused.value.fields

    send(edit({}))
    assert "config" not in there()
