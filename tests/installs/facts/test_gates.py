"""The feature gates of operator-controller, read from its Deployment, and what they change."""

from pathlib import Path
from typing import Any

import pytest

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.evaluate import predict
from catalogs.verdicts.facts import ClusterFacts
from installs.actions.install_rows import InstallRows
from installs.actions.warnings import install_warnings
from installs.facts.inventory import NAME, gates_of, read_gates
from installs.methods import InstallChoice
from installs.models import ClusterInventory
from olmweb.kube.session import open_client
from tests.factories import make_bundle, make_catalog, make_cluster, make_package
from tests.kubefake import Answer, KubeFake, status_answer

URL = "/apis/apps/v1/deployments"
GATE = "SingleOwnNamespaceInstallSupport"


def _deployment(*args: str, name: str = NAME) -> dict[str, Any]:
    container = {"name": "manager", "command": ["/operator-controller"], "args": list(args)}
    template = {"spec": {"containers": [container]}}
    return {"metadata": {"name": name, "namespace": "o"}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("args", "gates"),
    [
        (["--leader-elect", f"--feature-gates={GATE}=true"], {GATE: True}),
        (["--feature-gates=A=true,B=false", "--feature-gates=C=1"], {"A": 1, "B": 0, "C": 1}),
        (["--feature-gates", "A=True, B=F"], {"A": True, "B": False}),
        (["--feature-gates=A=true", "--feature-gates=A=false"], {"A": False}),
        (["--feature-gates=", "--feature-gates"], {}),
        ([], {}),
    ],
)
def test_gates_are_what_the_arguments_name(args: list[str], gates: dict[str, bool]) -> None:
    assert gates_of(_deployment(*args)) == gates


@pytest.mark.parametrize(
    "odd", [{}, {"spec": []}, {"spec": {"template": {"spec": {"containers": 1}}}}]
)
def test_a_deployment_of_any_shape_is_read(odd: dict[str, Any]) -> None:
    assert gates_of(odd) == {}


@pytest.mark.parametrize(
    ("answer", "gates"),
    [
        ([_deployment("--feature-gates=A=true"), _deployment(name="other")], {"A": True}),
        ([_deployment("--feature-gates=A=true"), _deployment("--feature-gates=A=false")], None),
        ([], None),
        (status_answer(403, "deployments is forbidden", "Forbidden"), None),
    ],
)
def test_gates_of_one_deployment_that_may_be_read_are_known(
    answer: Any, gates: dict[str, bool] | None, tmp_path: Path
) -> None:
    listed = {"metadata": {}, "items": answer}
    with KubeFake() as fake, open_client("prod", str(fake.write_kubeconfig(tmp_path / "k"))) as it:
        fake.script("GET", URL, Answer(200, listed) if isinstance(answer, list) else answer)
        assert read_gates(it) == gates
        assert len(fake.requests) == 1


def _said(gates: dict[str, bool] | None, served: frozenset[Any] | None = None, **facts: Any) -> Any:
    told: dict[str, Any] = {"install_modes": frozenset({"OwnNamespace"}), "owned_api_services": 0}
    bundle = Contents(**told | facts)
    cluster = ClusterFacts("c", gates=gates, served=served)
    found = predict(bundle, InstallMethod.CLUSTER_EXTENSION, cluster=cluster).results
    return {each.rule: each.sentence for each in found}


def test_install_modes_are_judged_by_the_gate_that_is_known() -> None:
    alone = _said(None, webhooks=0)["ce-install-mode"]
    assert f"It takes it only when it runs with the feature gate {GATE}, and with" in alone
    off = _said({GATE: False}, webhooks=0)["ce-install-mode"]
    assert f"It would take it if it ran with the feature gate {GATE}, which is off here" in off
    on = _said({GATE: True}, webhooks=0)
    assert "ce-install-mode" not in on
    assert "with the namespace of the ClusterExtension in spec.config" in on["ce-watch-namespace"]


def test_webhooks_are_judged_by_the_providers_that_are_known() -> None:
    both = {"WebhookProviderCertManager": False, "WebhookProviderOpenshiftServiceCA": False}
    assert "are off" in _said(both, webhooks=1)["ce-webhook-provider"]
    manager = {"WebhookProviderCertManager": True}
    missing = _said(manager, frozenset(), webhooks=1)["ce-webhook-provider"]
    assert "Certificate (cert-manager.io/v1) is not served" in missing
    assert "ce-webhook" in _said({}, webhooks=1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("gates", "words"),
    [
        (None, "operator-controller 1.3 to 1.10 with the feature gate PreflightPermissions"),
        ({"PreflightPermissions": True}, "runs with the feature gate PreflightPermissions here"),
        ({"PreflightPermissions": False}, "runs without the feature gate PreflightPermissions"),
        ({}, "runs without the feature gate PreflightPermissions here"),
    ],
)
def test_who_looks_at_the_rights_of_a_service_account_is_told_by_the_gate(
    gates: dict[str, bool] | None, words: str
) -> None:
    cluster = make_cluster()
    package = make_package(catalog=make_catalog(cluster=cluster), name="etcd", channels={})
    bundle = make_bundle(package=package, version="1.0.0")
    ClusterInventory.objects.create(cluster=cluster, gates=gates)
    choice = InstallChoice(
        method=InstallMethod.CLUSTER_EXTENSION,
        package="etcd",
        name="etcd",
        service_account="installer",
    )
    rows = InstallRows(cluster, package)
    warnings = {
        warning.rule: warning.text for warning in install_warnings(choice, rows, bundle.name)
    }
    assert words in warnings["service-account-rights"]
