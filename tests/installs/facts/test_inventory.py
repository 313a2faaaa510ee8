"""What a cluster serves and its namespaces, as the sandbox's and a scripted server tell them."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from installs.facts.cluster_facts import cluster_facts
from installs.facts.inventory import is_due, read_catalogd, read_inventory
from installs.models import ClusterInventory
from olmweb.kube.session import open_client
from olmweb.models import Cluster
from tests.factories import make_cluster, make_component, make_crd, make_watch
from tests.kubefake import Answer, KubeFake, status_answer

pytestmark = pytest.mark.django_db


def _script(fake: KubeFake, kinds: list[str], namespaces: Answer, *groups: Any) -> None:
    fake.script("GET", "/api", Answer(200, {"versions": ["v1"]}))
    fake.script("GET", "/apis", Answer(200, {"groups": groups}))
    fake.script("GET", "/api/v1", Answer(200, {"resources": [{"kind": each} for each in kinds]}))
    fake.script("GET", "/api/v1/namespaces", namespaces)


def _namespaces(*names: str) -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    return Answer(200, {"metadata": {}, "items": items})


def test_kinds_and_names_of_namespaces_are_kept(tmp_path: Path) -> None:
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _script(fake, ["Pod", "Secret"], _namespaces("b", "a"))
        assert read_inventory(cluster, it)
        _script(fake, ["Pod", "Secret"], _namespaces("a", "b"))
        assert not read_inventory(cluster, it)
        accept = fake.requests[-1].header("Accept")[0]
    row = ClusterInventory.objects.get(cluster=cluster)
    assert (row.kinds, row.namespaces) == (["/v1/Pod", "/v1/Secret"], ["a", "b"])
    assert "PartialObjectMetadataList" in accept


def test_namespaces_that_we_may_not_list_are_not_known(tmp_path: Path) -> None:
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _script(fake, ["Pod"], status_answer(403, "namespaces is forbidden", "Forbidden"))
        read_inventory(cluster, it)
    row = ClusterInventory.objects.get(cluster=cluster)
    assert (row.kinds, row.namespaces) == (["/v1/Pod"], None)


def _with_extensions(fake: KubeFake, *roles: dict[str, Any], more: Sequence[Any] = ()) -> None:
    """A cluster that serves ClusterExtensions; its ClusterRoleBindings can't be listed."""
    group, version = "olm.operatorframework.io", "olm.operatorframework.io/v1"
    served = {"name": group, "versions": [{"groupVersion": version, "version": "v1"}]}
    _script(fake, ["Pod"], _namespaces("a"), served, *more)
    kinds = [{"kind": "ClusterExtension", "group": "", "version": ""}]
    fake.script("GET", f"/apis/{version}", Answer(200, {"resources": kinds}))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    items = [{"metadata": one} for one in roles]
    fake.script("GET", f"{rbac}/clusterroles", Answer(200, {"metadata": {}, "items": items}))
    forbidden = status_answer(403, "clusterrolebindings is forbidden", "Forbidden")
    fake.script("GET", f"{rbac}/clusterrolebindings", forbidden)


def test_cluster_roles_are_kept_with_their_owners_where_an_installer_looks_at_them(
    tmp_path: Path,
) -> None:
    helm = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "b", "meta.helm.sh/release-namespace": "n"},
    }
    owner = {"owner-kind": "ClusterExtension", "owner-name": "c"}
    labels = {f"olm.operatorframework.io/{key}": value for key, value in owner.items()}
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_extensions(
            fake,
            {"name": "plain"},
            {"name": "of-helm", **helm},
            {"name": "of-olm", **helm, "labels": helm["labels"] | labels},
        )
        read_inventory(cluster, it)
    assert ClusterInventory.objects.get(cluster=cluster).shared == {
        "ClusterRole": {"plain": "", "of-helm": "n/b", "of-olm": "ClusterExtension/c"}
    }
    assert cluster_facts(cluster).shared == ClusterInventory.objects.get(cluster=cluster).shared


def _with_v0(fake: KubeFake) -> None:
    group, version = "operators.coreos.com", "operators.coreos.com/v1alpha1"
    served = {"name": group, "versions": [{"groupVersion": version, "version": "v1alpha1"}]}
    _script(fake, ["Pod"], _namespaces("a"), served)
    kinds = [{"kind": each} for each in ("Subscription", "ClusterServiceVersion")]
    fake.script("GET", f"/apis/{version}", Answer(200, {"resources": kinds}))
    empty = Answer(200, {"metadata": {}, "items": []})
    fake.script("GET", "/apis/apiregistration.k8s.io/v1/apiservices", empty)


def test_objects_of_crds_that_an_installer_made_are_counted(tmp_path: Path) -> None:
    cluster = make_cluster()
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    for name in ("as", "bs", "cs"):
        make_crd(cluster=cluster, name=f"{name}.x.example", owner_name="x")
    make_crd(cluster=cluster, name="others.x.example")
    make_crd(cluster=cluster, name="gone.x.example", owner_name="x", served=[])
    one = {"metadata": {"name": "a"}}
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_v0(fake)
        many = {"metadata": {"remainingItemCount": 46}, "items": [one]}
        fake.script("GET", "/apis/x.example/v1/as", Answer(200, many))
        fake.script("GET", "/apis/x.example/v1/bs", Answer(200, {"metadata": {}, "items": []}))
        fake.script("GET", "/apis/x.example/v1/cs", status_answer(404, "not found", "NotFound"))
        read_inventory(cluster, it)
        asked = [each.path for each in fake.requests if "/x.example/" in each.path]
    assert ClusterInventory.objects.get().instances == {"as.x.example": 47, "bs.x.example": 0}
    assert len(asked) == 3
    crds = cluster_facts(cluster).crds or {}
    found = {name: crd.objects for name, crd in crds.items()}
    assert (found["as.x.example"], found["bs.x.example"]) == (40, 0)
    assert found["cs.x.example"] is found["others.x.example"] is None


def test_who_may_list_no_objects_asks_for_few_of_them(tmp_path: Path) -> None:
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_v0(fake)
        for number in range(6):
            make_crd(cluster=cluster, name=f"c{number}s.x.example", owner_name="x")
            forbidden = status_answer(403, "forbidden", "Forbidden")
            fake.script("GET", f"/apis/x.example/v1/c{number}s", forbidden)
        read_inventory(cluster, it)
        asked = [each.path for each in fake.requests if "/x.example/" in each.path]
    assert ClusterInventory.objects.get().instances == {}
    assert len(asked) == 3


def test_other_cluster_wide_kinds_of_bundles_are_kept_where_they_are_served(
    tmp_path: Path,
) -> None:
    group = "console.openshift.io"
    served = {
        "name": group,
        "versions": [{"groupVersion": f"{group}/v1alpha1", "version": "v1alpha1"}],
    }
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_extensions(fake, {"name": "plain"}, more=[served])
        plugins = f"/apis/{group}/v1alpha1"
        kinds = Answer(200, {"resources": [{"kind": "ConsolePlugin"}]})
        fake.script("GET", plugins, kinds)
        fake.script("GET", f"{plugins}/consoleplugins", _namespaces("logs"))
        read_inventory(make_cluster(), it)
        asked = {each.path.partition("?")[0] for each in fake.requests}
    assert ClusterInventory.objects.get().shared == {
        "ClusterRole": {"plain": ""},
        "ConsolePlugin": {"logs": ""},
    }
    assert not any("priorityclasses" in path or "consolelinks" in path for path in asked)


def test_api_services_that_olm_did_not_make_are_known_where_olm_is(tmp_path: Path) -> None:
    group, version = "operators.coreos.com", "operators.coreos.com/v1alpha1"
    served = {"name": group, "versions": [{"groupVersion": version, "version": "v1alpha1"}]}
    owner = {"olm.owner": "a.v1", "olm.owner.kind": "ClusterServiceVersion"}
    items = [
        {"metadata": {"name": "v1.apps"}},
        {"metadata": {"name": "v1.own", "labels": owner | {"olm.owner.namespace": "n"}}},
        {"metadata": {"name": "v1.half", "labels": owner}},
    ]
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _script(fake, ["Pod"], _namespaces("a"), served)
        kinds = Answer(200, {"resources": [{"kind": "ClusterServiceVersion"}]})
        fake.script("GET", f"/apis/{version}", kinds)
        services = Answer(200, {"metadata": {}, "items": items})
        fake.script("GET", "/apis/apiregistration.k8s.io/v1/apiservices", services)
        read_inventory(cluster, it)
    assert ClusterInventory.objects.get().foreign_apis == ["v1.apps", "v1.half"]
    told = cluster_facts(cluster).foreign_apis
    assert told == frozenset({"v1.apps", "v1.half"})


@pytest.mark.parametrize(("status", "expected"), [(404, frozenset()), (403, None)])
def test_a_cluster_without_the_kind_has_no_foreign_api_services(
    tmp_path: Path, status: int, expected: frozenset[str] | None
) -> None:
    group, version = "operators.coreos.com", "operators.coreos.com/v1alpha1"
    served = {"name": group, "versions": [{"groupVersion": version, "version": "v1alpha1"}]}
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _script(fake, ["Pod"], _namespaces("a"), served)
        kinds = Answer(200, {"resources": [{"kind": "ClusterServiceVersion"}]})
        fake.script("GET", f"/apis/{version}", kinds)
        fake.script("GET", "/apis/apiregistration.k8s.io/v1/apiservices", Answer(status, {}))
        read_inventory(cluster, it)
    assert cluster_facts(cluster).foreign_apis == expected


def test_nothing_of_it_is_read_where_no_such_installer_is(tmp_path: Path) -> None:
    cluster = make_cluster()
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _script(fake, ["Pod"], _namespaces("a"))
        read_inventory(cluster, it)
    assert ClusterInventory.objects.get(cluster=cluster).shared is None


def test_a_cluster_is_asked_again_after_minutes_and_only_when_it_answers() -> None:
    cluster = make_cluster()
    assert is_due(cluster)
    row = ClusterInventory.objects.create(cluster=cluster)
    assert not is_due(cluster)
    row.read_at = timezone.now() - timedelta(minutes=6)
    row.save()
    assert is_due(cluster)
    cluster.reachable = False
    cluster.save()
    assert not is_due(cluster)


def test_the_gates_of_operator_controller_are_kept_where_it_runs(tmp_path: Path) -> None:
    cluster = make_cluster()
    args = ["--feature-gates=WebhookProviderCertManager=true"]
    spec = {"template": {"spec": {"containers": [{"args": args}]}}}
    name = {"name": "operator-controller-controller-manager"}
    deployments = {"metadata": {}, "items": [{"metadata": name, "spec": spec}]}
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_extensions(fake, {"name": "plain"})
        fake.script("GET", "/apis/apps/v1/deployments", Answer(200, deployments))
        read_inventory(cluster, it)
    assert cluster_facts(cluster).gates == {"WebhookProviderCertManager": True}


def test_objects_of_a_cluster_service_version_that_is_gone_are_kept(tmp_path: Path) -> None:
    cluster = make_cluster()
    make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace="n", name="b.v1", details={}
    )

    def owned(name: str, csv: str) -> dict[str, Any]:
        labels = {"olm.owner": csv, "olm.owner.kind": "ClusterServiceVersion"}
        return {"metadata": {"name": name, "labels": labels | {"olm.owner.namespace": "n"}}}

    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    items = [owned("of-a", "a.v1"), owned("of-b", "b.v1"), {"metadata": {"name": "foreign"}}]
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        _with_v0(fake)
        fake.script("GET", webhooks, Answer(200, {"metadata": {}, "items": items}))
        rbac = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        fake.script("GET", rbac, status_answer(403, "clusterroles is forbidden", "Forbidden"))
        read_inventory(cluster, it)
        selectors = [request.query for request in fake.requests if request.path == webhooks]
    assert ClusterInventory.objects.get().orphans == {
        "ValidatingWebhookConfiguration": {"of-a": "n/a.v1"}
    }
    assert [query["labelSelector"] for query in selectors] == ["olm.owner,olm.owner.kind"]


def test_findings_are_derived_again_after_catalogd_stops_or_runs_again(tmp_path: Path) -> None:
    cluster = make_cluster(assessed="rules")

    def assessed_after(answer: Answer) -> str:
        _with_extensions(fake, {"name": "plain"})
        empty = Answer(200, {"metadata": {}, "items": []})  # no operator-controller
        fake.script("GET", "/apis/apps/v1/deployments", empty, answer)
        read_inventory(cluster, it)
        cluster.refresh_from_db()
        marked = cluster.assessed
        Cluster.objects.filter(pk=cluster.pk).update(assessed="rules")
        return marked

    def deployment(available: int, replicas: int = 1) -> Answer:
        meta = {"name": "catalogd-controller-manager", "namespace": "olmv1-system"}
        state = {"spec": {"replicas": replicas}, "status": {"availableReplicas": available}}
        return Answer(200, {"metadata": {}, "items": [{"metadata": meta, **state}]})

    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        assert assessed_after(deployment(1)) == "rules"
        assert assessed_after(deployment(2, replicas=2)) == "rules"
        assert assessed_after(deployment(0, replicas=0)) == ""
        assert assessed_after(deployment(0, replicas=0)) == "rules"
        assert assessed_after(deployment(1)) == ""


def test_the_pods_of_catalogd_are_read_while_it_is_not_available(tmp_path: Path) -> None:
    labels = {"control-plane": "catalogd-controller-manager"}
    deployment: dict[str, Any] = {
        "metadata": {"name": "catalogd-controller-manager", "namespace": "olmv1-system"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}},
    }
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}
    container = {"name": "manager", "ready": False, "restartCount": 0, "state": state}
    pod = {"metadata": {"name": "catalogd-x"}, "status": {"containerStatuses": [container]}}
    pods, deployments = "/api/v1/namespaces/olmv1-system/pods", "/apis/apps/v1/deployments"

    def answer(thing: dict[str, Any]) -> Answer:
        return Answer(200, {"metadata": {}, "items": [thing]})

    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        fake.script("GET", pods, answer(pod))
        fake.script("GET", deployments, answer(deployment | {"status": {"availableReplicas": 1}}))
        assert read_catalogd(it) == {"namespace": "olmv1-system", "replicas": 1, "available": 1}
        assert not [request for request in fake.requests if request.path == pods]
        fake.script("GET", deployments, answer(deployment))
        catalogd = read_catalogd(it)
        (read,) = [request.query for request in fake.requests if request.path == pods]
        fake.script("GET", deployments, status_answer(403, "no", "Forbidden"))
        assert read_catalogd(it) is None
    assert read["labelSelector"] == "control-plane=catalogd-controller-manager"
    assert catalogd is not None
    assert (catalogd["available"], catalogd["pods_total"]) == (0, 1)
    assert [entry["reason"] for entry in catalogd["pods"]] == ["ImagePullBackOff"]
