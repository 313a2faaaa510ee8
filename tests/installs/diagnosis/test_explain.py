"""The command `explain`: JSON as documented, words for people, one sentence for bad input."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

MESSAGE = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"


def explain(*args: str) -> str:
    out = io.StringIO()
    call_command("explain", *args, stdout=out)
    return out.getvalue()


def test_json_is_one_object_with_the_documented_keys() -> None:
    answer = json.loads(explain("--json", "--kind", "Bundle", MESSAGE))
    assert answer["finding"] == "allnamespaces-required"
    assert answer["title"] == "AllNamespaces install mode required by this rukpak release"
    assert answer["retryable"] is False
    assert answer["confidence"] == "high"
    assert answer["facts"] == {}
    assert any(step.startswith("kubectl ") for step in answer["remedy"])


def test_an_unknown_message_has_null_for_its_finding_and_the_same_keys() -> None:
    unknown = json.loads(explain("--json", "the moon is wrong"))
    assert unknown["finding"] is None
    assert unknown.keys() == json.loads(explain("--json", MESSAGE)).keys()


def test_words_for_people_show_cause_and_commands() -> None:
    text = explain(MESSAGE)
    assert "AllNamespaces install mode required by PlatformOperator" in text
    assert "$ kubectl delete platformoperator NAME\n" in text
    assert "In these commands NAME stands for the name of the object." in text
    assert "No entry of the knowledge base" in explain("the moon is wrong")


def test_the_name_and_namespace_of_the_object_are_put_into_the_commands() -> None:
    text = explain("--name", "etcd", MESSAGE)
    assert "$ kubectl delete platformoperator etcd\n" in text
    assert "stands for" not in text
    message = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"
    remedy = json.loads(explain("--json", "--namespace", "shop", message))["remedy"]
    assert "kubectl -n shop get operatorgroups -o yaml" in remedy
    remedy = json.loads(explain("--json", message))["remedy"]
    assert "kubectl -n NAMESPACE get operatorgroups -o yaml" in remedy
    assert remedy[-1] == (
        "In these commands NAMESPACE stands for the namespace, NAME stands for the name of the "
        "object."
    )
    assert "$ kubectl delete platformoperator NAME\n" in explain("--name", "$(reboot)", MESSAGE)


def test_the_message_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(MESSAGE))
    assert "AllNamespaces" in explain("-")


def test_a_reason_of_any_kind_is_explained_with_or_without_its_message() -> None:
    asked = ("--kind", "ClusterServiceVersion", "--reason", "UnsupportedOperatorGroup")
    alone = explain(*asked)
    assert "phase Failed: blocked until a person acts." in alone
    assert "give the message too" in alone
    told = json.loads(
        explain(
            "--json",
            *asked,
            "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace",
        )
    )
    assert told["finding"] == "csv-installmode-unsupported"
    assert told["meaning"] == [
        "UnsupportedOperatorGroup of a ClusterServiceVersion, phase Failed: blocked until a person "
        "acts."
    ]
    waiting = explain("--kind", "Pod", "--reason", "ImagePullBackOff")
    assert "An image of the pod can't be pulled" in waiting
    assert (
        json.loads(explain("--json", "--kind", "Subscription", "--reason", "Odd"))["meaning"] == []
    )


@pytest.mark.parametrize(
    ("kind", "message", "finding"),
    [
        ("InstallPlan", "no operator group found that is managing this namespace", "ip-og-missing"),
        ("CatalogSource", "TRANSIENT_FAILURE", "cs-not-connected"),
        ("OperatorGroup", "ServiceAccount sa1 not found", "og-sa-notfound"),
        ("Deployment", "Deployment does not have minimum availability.", "deployment-unavailable"),
        ("Job", 'pods "loki-init-x2" is forbidden: exceeded quota: q, requested: pods=1, '
         "used: pods=9, limited: pods=9", "api-quota"),
        ("ClusterExtensionRevision", "Unauthorized", "api-unauthenticated"),
        ("CustomResourceDefinition", "customresourcedefinition a.b: stores v1, which it does not "
         "serve", "crd-stored-version-unserved"),
    ],
)  # fmt: skip
def test_messages_of_every_kind_are_explained(kind: str, message: str, finding: str) -> None:
    assert json.loads(explain("--json", "--kind", kind, message))["finding"] == finding


def test_no_message_and_a_wrong_kind_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" "))
    with pytest.raises(CommandError, match="no message"):
        explain()
    with pytest.raises(CommandError, match="--kind Widget is not a kind"):
        explain("--kind", "Widget", MESSAGE)


def test_each_line_of_ndjson_is_answered_by_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = [
        json.dumps({"kind": "Bundle", "type": "Unpacked", "reason": "X", "message": MESSAGE}),
        "",
        "no JSON",
        json.dumps({"kind": "Moon", "message": "the moon is wrong"}),
        json.dumps({"kind": "Subscription", "reason": "ConstraintsNotSatisfiable"}),
    ]
    file = tmp_path / "messages.ndjson"
    file.write_text("\n".join(lines))
    answers = [json.loads(line) for line in explain("--ndjson", str(file)).splitlines()]
    assert answers[0]["finding"] == "allnamespaces-required"
    assert answers[1] == {"error": "Line 3 is not a JSON object."}
    assert answers[2]["finding"] is None
    assert answers[2].keys() == answers[0].keys()
    assert answers[3]["meaning"]
    monkeypatch.setattr("sys.stdin", io.StringIO(lines[0]))
    assert json.loads(explain("--ndjson"))["finding"] == "allnamespaces-required"
    with pytest.raises(CommandError, match="can't be read"):
        explain("--ndjson", str(tmp_path / "nothing"))
    with pytest.raises(CommandError, match="leave TEXT out"):
        explain("--ndjson", str(file), "--", MESSAGE)


@pytest.mark.parametrize(
    ("reason", "message", "finding", "words"),
    [
        ("ImagePullBackOff", "Back-off pulling image", "cs-pod-image", "spec.image"),
        (
            "CrashLoopBackOff",
            "back-off; it ended with Error, exit code 2",
            "cs-pod-crash",
            "code 2",
        ),
        ("OOMKilled", "", "cs-pod-memory", "grpcPodConfig"),
        ("Unschedulable", "0/3 nodes are available", "cs-pod-unscheduled", "0/3 nodes"),
        ("Evicted", "The node was low on resource: memory.", "cs-pod-evicted", "low on resource"),
    ],
)
def test_the_reason_of_a_pod_of_a_catalog_is_explained_as_on_its_page(
    reason: str, message: str, finding: str, words: str
) -> None:
    given = ("--json", f"--reason={reason}", *([message] if message else []))
    answer = json.loads(explain("--kind=CatalogSource", "--name=community", *given))
    assert answer["finding"] == finding
    assert words in " ".join([answer["cause"], *answer["remedy"]])
    assert not [step for step in answer["remedy"] if "?" in step]
    assert json.loads(explain("--kind=Pod", *given))["finding"]
