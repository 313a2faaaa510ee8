"""What a message decides its texts say: who speaks, which case it is, and what can help there."""

from pathlib import Path
from typing import NamedTuple

import pytest

from installs.diagnosis.knowledge import classify, finding_for


class Case(NamedTuple):
    kind: str
    type: str
    message: str
    says: list[str]
    omits: list[str]


def _cases() -> list[Case]:
    lines = Path(__file__).with_name("texts.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [
        Case(
            kind,
            type,
            message.replace("\\n", "\n"),
            says.split("|"),
            [words for words in omits.split("|") if words],
        )
        for kind, type, message, says, omits in cells
    ]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.message[-60:])
def test_texts_say_what_the_message_decides(case: Case) -> None:
    finding = classify(case.message, kind=case.kind, type=case.type, name="loki", namespace="loki")
    assert finding is not None
    text = " ".join((finding.title, finding.cause, *finding.remedy, finding.note))
    assert [words for words in case.says if words not in text] == []
    assert [words for words in case.omits if words in text] == []


@pytest.mark.parametrize(
    "message",
    [
        "apiServices not installed",
        "webhooks not installed",
        "Webhook install failed: conversionWebhook not ready",
        'installing: waiting for deployment loki to become ready: deployment "loki" not available: '
        "Deployment does not have minimum availability.",
        'installing: waiting for deployment loki to become ready: deployment "loki" waiting for 1 '
        "outdated replica(s) to be terminated",
        'installing: waiting for deployment loki to become ready: deployment "loki" waiting for 1 '
        "old replicas are pending termination",
    ],
)
def test_install_waiting_is_normal_at_first(message: str) -> None:
    """OLM sets InstallWaiting only in the phase Installing, and ends that after five minutes."""
    texts = {
        reason: classify(
            message, kind="ClusterServiceVersion", reason=reason, name="loki", namespace="loki"
        )
        for reason in ("InstallWaiting", "ComponentUnhealthy")
    }
    waiting, unhealthy = texts["InstallWaiting"], texts["ComponentUnhealthy"]
    assert waiting is not None
    assert "This is normal" in waiting.cause
    assert waiting.remedy[0].startswith("Wait some ")
    assert "If it stays" in waiting.remedy[0]
    assert unhealthy is not None
    assert "This is normal" not in unhealthy.cause


def test_apiservice_of_a_reinstall_is_made_again() -> None:
    finding = classify(
        "apiServices not installed", kind="ClusterServiceVersion", reason="NeedsReinstall"
    )
    assert finding is not None
    assert "OLM installs the operator again, which makes it" in finding.cause


def test_rukpak_sends_a_bundle_with_a_mutable_configmap_again() -> None:
    finding = classify(
        'admission webhook "vbundles.core.rukpak.io" denied the request: '
        "bundle.spec.source.configmaps[0].configmap.name is invalid: "
        'configmap "c" is not immutable',
        kind="BundleDeployment",
        reason="ReconcileFailed",
    )
    assert finding is not None
    assert finding.note.startswith("rukpak tries again automatically")
    assert any("patch configmap c --type merge" in step for step in finding.remedy)


def test_finalizer_of_a_source_that_rukpak_does_not_know_is_taken_off_by_hand() -> None:
    message = 'source type "upload" not supported'
    deleted = classify(message, kind="BundleDeployment", reason="ProcessingFinalizerFailed")
    assert deleted is not None
    assert "is being deleted" in deleted.cause
    assert "core.rukpak.io/cleanup-unpack-cache" in deleted.remedy[0]
    unpacked = classify(message, kind="BundleDeployment", reason="UnpackFailed")
    assert unpacked is not None
    assert "is being deleted" not in unpacked.cause


def test_olm_that_does_not_know_its_release_blocks_the_next_minor_version() -> None:
    finding = classify(
        "failed to determine current OpenShift Y-stream release", kind="ClusterOperator"
    )
    assert finding is not None
    assert "Upgradeable is False" in finding.note


@pytest.mark.parametrize("reason", ["Installing", ""])
def test_olm_tries_a_plan_that_a_webhook_denies_for_as_long_as_the_status_decides(
    reason: str,
) -> None:
    finding = classify(
        'retrying execution due to error: admission webhook "v.x.io" denied the request: no',
        kind="InstallPlan",
        reason=reason,
    )
    assert finding is not None
    assert "without end if the webhook denies with the status 403" in finding.note


def test_olm_tries_what_it_may_not_install_again_soon() -> None:
    message = (
        'install strategy failed: install strategy failed: deployments.apps "loki" is forbidden: '
        "exceeded quota: objects, requested: count/deployments.apps=1, "
        "used: count/deployments.apps=9, limited: count/deployments.apps=9"
    )
    reason = "InstallComponentFailedNoRetry"
    finding = classify(message, kind="ClusterServiceVersion", reason=reason)
    assert finding is not None
    stored = finding_for(
        finding.id, finding.facts, {"kind": "ClusterServiceVersion"}, reason=reason
    )
    assert stored is not None
    for note in (finding.note, stored.note):
        assert note.startswith("OLM tries again mostly within some minutes.")
        assert "only those with the label olm.managed" in note
    assert (finding.retryable, stored.retryable) == (True, True)


@pytest.mark.parametrize(
    ("reason", "goes_on"),
    [("InstallComponentFailed", True), ("InstallComponentFailedNoRetry", False)],
)
def test_olm_fails_forward_from_a_denied_version_unless_it_waits_for_permissions(
    reason: str, goes_on: bool
) -> None:
    finding = classify(
        'install strategy failed: admission webhook "w.x.io" denied the request: no owner',
        kind="ClusterServiceVersion",
        reason=reason,
    )
    assert finding is not None
    steps = [step for step in finding.remedy if "fail forward" in step or "Delete the" in step]
    assert ["allows fail forward" in step for step in steps] == [True, False][not goes_on :]
    assert finding.retryable


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("InstallWaiting", "Its cache lags behind"),
        ("NeedsReinstall", "The installation before this one failed"),
        ("ComponentUnhealthy", "does not exist any more"),
    ],
)
def test_why_a_deployment_is_missing_depends_on_what_olm_did_before(
    reason: str, words: str
) -> None:
    finding = classify(
        "installing: missing deployment with name=loki", kind="ClusterServiceVersion", reason=reason
    )
    assert finding is not None
    assert words in finding.cause


def test_the_note_on_a_failed_plan_does_not_repeat_the_retry_of_the_remedy() -> None:
    finding = classify(
        'risk of data loss updating "issuers.cert-manager.io": new CRD removes version v1alpha2 '
        "that is listed as a stored version on the existing CRD",
        kind="InstallPlan",
        reason="InstallComponentFailed",
    )
    assert finding is not None
    assert finding.note == "OLM does not try a failed InstallPlan again."
    assert "For an upgrade the Subscription" in finding.remedy[-1]


@pytest.mark.parametrize("kind", ["InstallPlan", "Subscription"])
@pytest.mark.parametrize(
    ("message", "tells_upgrade"),
    [
        ("error creating role loki: etcdserver: leader changed", True),
        ('secret pull-secret does not exist - secrets "pull-secret" not found', True),
        ("Bundle extract Job failed with Reason: DeadlineExceeded, and Message: late", False),
        ('error creating role loki: namespaces "loki" not found', False),
    ],
)
def test_the_note_on_a_failed_plan_says_what_the_retry_leaves_of_an_upgrade(
    kind: str, message: str, tells_upgrade: bool
) -> None:
    finding = classify(message, kind=kind, reason="InstallComponentFailed")
    assert finding is not None
    assert ("Retry lists the objects that are left to delete" in finding.note) is tells_upgrade


def test_nothing_is_retried_in_a_namespace_that_is_gone() -> None:
    finding = classify(
        'error creating role loki: namespaces "loki" not found',
        kind="InstallPlan",
        reason="InstallComponentFailed",
    )
    assert finding is not None
    assert "Retry" not in finding.note


@pytest.mark.parametrize(
    ("kind", "reason", "begins"),
    [
        ("InstallPlan", "InstallComponentFailed", "Press Retry on the Subscription, which makes"),
        ("InstallPlan", "Installing", "Wait for the next attempt of the InstallPlan"),
    ],
)
def test_only_a_plan_that_has_not_failed_has_another_attempt(
    kind: str, reason: str, begins: str
) -> None:
    finding = classify(
        'error updating rolebinding loki: rolebindings.rbac.authorization.k8s.io "loki" not found',
        kind=kind,
        reason=reason,
    )
    assert finding is not None
    assert finding.remedy[0].startswith(begins)


def test_a_clusterserviceversion_that_failed_has_another_attempt() -> None:
    finding = classify(
        'install strategy failed: Post "https://10.96.0.1:443/apis/apps/v1/namespaces/loki'
        '/deployments": dial tcp 10.96.0.1:443: connect: connection refused',
        kind="ClusterServiceVersion",
        reason="InstallComponentFailed",
    )
    assert finding is not None
    assert not any("Retry" in step for step in finding.remedy)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Internal error occurred: resource quota evaluation timed out", "the ResourceQuotas of"),
        ('error updating CRD "lokis.x.io": admission webhook "v.x.io" denied the request: no',
         "does not allow the CRD lokis.x.io, which the InstallPlan brings"),
        ('admission webhook "v.x.io" denied the request: no', "An InstallPlan makes no pods"),
        ('clusterroles.rbac.authorization.k8s.io "loki" is forbidden: ValidatingAdmissionPolicy '
         "'p' with binding 'b' denied request: no", "An InstallPlan makes no pods"),
    ],
)  # fmt: skip
def test_the_message_of_a_failed_plan_decides_its_explanation(message: str, expected: str) -> None:
    finding = classify(message, kind="InstallPlan", reason="InstallComponentFailed")
    assert finding is not None
    text = " ".join((finding.cause, *finding.remedy))
    assert expected in text
    assert "meet it with spec.config" not in text


def test_olm_makes_what_is_missing_of_an_apiservice_when_it_installs_again() -> None:
    finding = classify(
        'services "loki-operator-service" not found',
        kind="ClusterServiceVersion",
        reason="APIServiceResourceIssue",
    )
    assert finding is not None
    assert "for the operator's APIServices" in finding.cause
    assert finding.remedy[0].startswith("Wait until OLM has installed the operator again")


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        ("redhat-operators", "openshift-marketplace", "of this catalog back"),
        ("acme", "openshift-marketplace", ""),
        ("redhat-operators", "olm", ""),
        ("", "", "of its own catalogs"),
    ],
)
def test_openshift_writes_only_its_own_catalogs_back(
    name: str, namespace: str, expected: str
) -> None:
    finding = classify(
        "couldn't ensure registry server - update pod acme-x7q2p in a CrashLoopBackOff state: "
        "deleted update pod",
        kind="CatalogSource",
        name=name,
        namespace=namespace,
    )
    assert finding is not None
    sentences = [step for step in finding.remedy if step.startswith("OpenShift writes")]
    assert [expected in step for step in sentences] == ([True] if expected else [])


def test_the_note_on_a_plan_does_not_repeat_a_remedy_that_begins_with_the_retry() -> None:
    finding = classify(
        "retrying execution due to error: error generating ownerrefs for secret loki: "
        'clusterserviceversions.operators.coreos.com "loki.v6" not found',
        kind="InstallPlan",
    )
    assert finding is not None
    assert "press Retry" not in finding.note


@pytest.mark.parametrize(
    ("refusal", "retryable"),
    [
        ('ConfigMap "loki" is invalid: data: Forbidden: field is immutable when', True),
        ('Secret "loki" is invalid: type: Invalid value: "Opaque": field is immutable', True),
        (
            'Deployment.apps "d" is invalid: spec.selector: Invalid value: {}: field is immutable',
            True,
        ),
        (
            'PersistentVolumeClaim "d" is invalid: spec: Forbidden: '
            "spec is immutable after creation",
            False,
        ),
    ],
)
def test_retrying_helps_once_an_object_that_must_not_change_is_deleted(
    refusal: str, retryable: bool
) -> None:
    finding = classify(f"error updating configmap: loki: {refusal}", kind="InstallPlan")
    assert finding is not None
    assert finding.retryable is retryable


def test_an_installed_kind_that_kubernetes_removed_leads_to_the_record_of_the_release() -> None:
    finding = classify(
        'required resource not found: no matches for kind "PodSecurityPolicy" in version '
        '"policy/v1beta1"',
        kind="BundleDeployment",
        reason="ReconcileFailed",
        name="loki",
    )
    assert finding is not None
    assert "kubectl get secrets -A -l owner=helm,name=loki" in finding.remedy
    assert not finding.retryable


@pytest.mark.parametrize("kind", ["InstallPlan", "Subscription"])
@pytest.mark.parametrize("reason", ["InstallCheckFailed", "InstallComponentFailed"])
def test_the_pod_of_a_job_that_took_too_long_is_gone(kind: str, reason: str) -> None:
    finding = classify(
        "Bundle unpacking failed. Reason: DeadlineExceeded, and Message: "
        "Job was active longer than specified deadline",
        kind=kind,
        reason=reason,
    )
    assert finding is not None
    assert "lets the InstallPlan fail" in finding.cause
    assert "The pod itself is deleted at the deadline" in finding.remedy[0]
    assert not [step for step in finding.remedy if "get jobs,pods" in step]
