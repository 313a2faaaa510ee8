"""Messages that join several errors: how they are taken apart, and what is said of each error."""

import pytest

from installs.diagnosis.knowledge import Finding, classify, finding_for
from installs.diagnosis.parts import errors_of, without_dumps
from tests.installs.diagnosis.test_producers import REFUSALS

FORBIDDEN = (
    'cannot patch "sa" with kind ServiceAccount: serviceaccounts "sa" is forbidden: User '
    '"system:serviceaccount:loki:installer" cannot patch resource "serviceaccounts" in API group '
    '"" in the namespace "loki"'
)
IMMUTABLE = (
    'cannot patch "d" with kind Deployment: Deployment.apps "d" is invalid: spec.selector: '
    "Invalid value: v1.LabelSelector{}: field is immutable"
)
CONFLICT = (
    'cannot patch "c" with kind ConfigMap: Operation cannot be fulfilled on configmaps "c": the '
    "object has been modified; please apply your changes to the latest version and try again"
)
ONE_ERROR = (
    'admission policy "p" denied request: failed expression: object.spec.a && object.spec.b',
    'Deployment.apps "d" is invalid: spec.template: Invalid value: [a, b]: must be one',
    "error using catalogsource olm/a: failed to list bundles: desc = a, b: connection refused",
    "no catalog, no package and no channel",
)


def explained(message: str, kind: str = "BundleDeployment") -> Finding:
    finding = classify(message, kind=kind, name="loki")
    assert finding is not None
    return finding


def ids(finding: Finding) -> list[str]:
    return [finding.id, *(other.id for other in finding.others)]


@pytest.mark.parametrize("message", ONE_ERROR)
def test_what_is_part_of_one_error_does_not_divide_it(message: str) -> None:
    assert errors_of(message) == [message]


def test_errors_keep_the_words_before_and_after_their_list() -> None:
    assert errors_of(
        "[failed to list a, for b, failed to list c]: failed to run sourcing logic"
    ) == [
        "failed to list a, for b: failed to run sourcing logic",
        "failed to list c: failed to run sourcing logic",
    ]


def test_errors_of_a_list_that_are_not_alike_are_told_by_how_errors_begin() -> None:
    assert errors_of('[services "a" is forbidden: x, y, Unauthorized, failed to do z: w, v]') == [
        'services "a" is forbidden: x, y',
        "Unauthorized",
        "failed to do z: w, v",
    ]
    refused = 'admission webhook "x" denied the request: '
    path = 'bundle.spec.source.configmaps[0].path is invalid: "../x" is outside bundle root'
    name = 'bundle.spec.source.configmaps[1].configmap.name is invalid: configmap "b" is mutable'
    assert errors_of(f"{refused}[{path}, {name}]") == [refused + path, refused + name]


@pytest.mark.parametrize(
    "waited", ["timed out waiting for the condition", "context deadline exceeded"]
)
def test_a_way_back_that_took_too_long_is_no_error_of_its_own(waited: str) -> None:
    message = f"rollback failed: {waited}: original upgrade error: {IMMUTABLE}"
    assert errors_of(message) == [message]
    finding = classify(message, kind="BundleDeployment", type="Installed")
    assert finding is not None
    assert finding.id == "api-immutable"
    assert "Error 2 of 2" not in " ".join(finding.remedy)


def test_the_error_of_the_upgrade_comes_before_those_of_the_way_back() -> None:
    message = f"rollback failed: {FORBIDDEN} && {CONFLICT}: original upgrade error: {IMMUTABLE}"
    assert errors_of(message) == [IMMUTABLE, FORBIDDEN, CONFLICT]
    assert errors_of(
        f"rollback failed: release has no 0 version: original upgrade error: {IMMUTABLE}"
    ) == [f"rollback failed: release has no 0 version: original upgrade error: {IMMUTABLE}"]


@pytest.mark.parametrize(
    ("done", "second"),
    [
        ("rolling back the release", FORBIDDEN),
        ("cleaning up resources", f"unable to cleanup resources: {CONFLICT}"),
        ("rolling back the release", "timed out waiting for the condition"),
    ],
)
def test_helm_names_the_error_of_the_way_back_last(done: str, second: str) -> None:
    message = f"an error occurred while {done}. original upgrade error: {IMMUTABLE}: {second}"
    assert errors_of(message) == [IMMUTABLE, second]


def test_items_of_a_list_have_the_line_before_it() -> None:
    assert errors_of("2 upgrades are blocked:\n- a\n- b") == [
        "2 upgrades are blocked:\n- a",
        "2 upgrades are blocked:\n- b",
    ]


@pytest.mark.parametrize(
    "message",
    [
        f"{FORBIDDEN} && {IMMUTABLE} && {CONFLICT}",
        f'error for resolved bundle "loki.v6" with version "6.0.0": {CONFLICT} && {IMMUTABLE} && '
        f"{FORBIDDEN}",
        f"rollback failed: {CONFLICT} && {FORBIDDEN}: original upgrade error: {IMMUTABLE}",
    ],
)
def test_every_refusal_has_its_object_and_its_remedy(message: str) -> None:
    finding = explained(message)
    assert set(ids(finding)) == {"api-immutable", "api-forbidden", "api-write-conflict"}
    assert finding.id == "api-immutable"
    assert "The message names 3 errors" in finding.cause
    steps = "\n".join(finding.remedy)
    assert "Error 2 of 3: " in steps
    assert "Error 3 of 3: " in steps
    assert "kubectl auth can-i patch serviceaccounts -n loki" in steps
    assert "kubectl get deployment -A --field-selector metadata.name=d" in steps
    assert "kubectl get configmaps -A --field-selector metadata.name=c" in steps
    assert finding.retryable


def test_retrying_does_not_help_if_it_helps_against_one_of_two_refusals_only() -> None:
    claim = (
        'cannot patch "d" with kind PersistentVolumeClaim: PersistentVolumeClaim "d" is invalid: '
        "spec: Forbidden: spec is immutable after creation except resources.requests"
    )
    assert not explained(f"{FORBIDDEN} && {claim}").retryable


def test_none_of_two_refusals_is_left_out() -> None:
    refusals = [row.message for row in REFUSALS if "\n" not in row.message]
    for number, (one, other) in enumerate(zip(refusals, refusals[7:], strict=False)):
        words = [
            f'cannot patch "a{number}" with kind A: {one}',
            f'cannot patch "b{number}" with kind B: {other}',
        ]
        known = {explained(error).id for error in words}
        assert known <= set(ids(explained(" && ".join(words)))), (one, other)


def test_no_part_has_the_object_of_another_one() -> None:
    stored = (
        'cannot patch "a" with kind CustomResourceDefinition: CustomResourceDefinition'
        '.apiextensions.k8s.io "lokis.x.io" is invalid: status.storedVersions[0]: Invalid value: '
        '"v1alpha1": must appear in spec.versions'
    )
    finding = explained(f"{IMMUTABLE} && {stored}")
    assert "CRD lokis.x.io does not have the version v1alpha1" in finding.cause
    assert "Deployment d" in finding.others[0].cause


def test_a_stored_finding_says_the_same_of_all_errors() -> None:
    finding = explained(f"{FORBIDDEN} && {IMMUTABLE}", "ClusterExtension")
    names = {"name": "loki", "kind": "ClusterExtension"}
    stored = finding_for(finding.id, finding.facts, names)
    assert stored is not None
    assert (stored.cause, stored.remedy) == (finding.cause, finding.remedy)


def test_errors_of_one_cause_are_told_by_their_objects() -> None:
    other = IMMUTABLE.replace('"d"', '"e"')
    finding = explained(f"{IMMUTABLE} && {other} && {IMMUTABLE}")
    assert ids(finding) == ["api-immutable", "api-immutable"]
    assert "Error 2 of 2: The installation changes spec.selector of Deployment e" in (
        "\n".join(finding.remedy)
    )


def test_two_catalogs_have_their_own_causes() -> None:
    finding = explained(
        "[failed to populate resolver cache from source a/olm: failed to list bundles: rpc error: "
        'code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial '
        'tcp 10.0.0.1:50051: connect: no route to host", failed to populate resolver cache from '
        "source b/shop: failed to list bundles: rpc error: code = ResourceExhausted desc = grpc: "
        "received message larger than max (5000000 vs. 4194304)]",
        "Subscription",
    )
    assert "catalog b of the namespace shop is larger" in finding.cause
    assert "catalog a of the namespace olm" in finding.others[0].cause
    assert "kubectl -n olm get networkpolicies" in finding.remedy


def test_more_errors_than_can_be_read_are_counted() -> None:
    refusals = [IMMUTABLE.replace('"d"', f'"d{number}"') for number in range(9)]
    finding = explained(" && ".join(refusals))
    assert "The message names 9 errors" in finding.cause
    assert finding.remedy[-1] == "The message names 4 more; see it for them."
    assert [step for step in finding.remedy if step.startswith("Error ")][-1].startswith(
        "Error 5 of 9: "
    )


def test_an_entry_for_all_errors_together_stays_alone() -> None:
    finding = explained(
        "ClusterServiceVersions blocking minor version upgrades to 4.23 or major version upgrades "
        "to 5.0:\n- maximum supported OCP version for loki/loki.v6 is 4.22\n- maximum supported "
        "OCP version for shop/shop.v1 is 4.21",
        "ClusterOperator",
    )
    assert ids(finding) == ["co-olm-blocking-upgrade"]


def test_a_former_kind_is_named_in_every_error() -> None:
    finding = explained(
        "reconciling object: reconciling apps/v1, Kind=Deployment a/b: creating resource: "
        f"{IMMUTABLE}\nreconciling /v1, Kind=ServiceAccount a/sa: creating resource: {FORBIDDEN}",
        "ClusterExtensionRevision",
    )
    assert len(finding.others) == 1
    assert "clusterobjectset" not in " ".join(finding.remedy).lower()


JSON = f'[{{"name":"{"a" * 100}]","columns":[{{"name":"b"}}]}},{{"name":"c"}}]'
VERSION = f'v1.Version{{Name:"{"a" * 100}}}\\"", Columns:[]v1.Column{{v1.Column{{Name:"b"}}}}}}'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f"spec: Invalid value: []v1.Version{{{VERSION}}}: no rule",
            "spec: Invalid value: {…}: no rule",
        ),
        (f"spec: Invalid value: {JSON}: no rule", "spec: Invalid value: {…}: no rule"),
        (
            f"[a: Invalid value: {VERSION}: first, b: Invalid value: {VERSION}: second]",
            "[a: Invalid value: {…}: first, b: Invalid value: {…}: second]",
        ),
    ],
)
def test_a_long_structure_leaves_the_rule_that_it_breaks(message: str, expected: str) -> None:
    assert without_dumps(message) == expected


@pytest.mark.parametrize("message", [IMMUTABLE, f"spec: Invalid value: {VERSION[:-4]}"])
def test_a_short_structure_or_one_that_was_cut_stays(message: str) -> None:
    assert without_dumps(message) == message
