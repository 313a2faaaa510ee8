"""The knowledge base against what real controllers said: no message without an explanation."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.knowledge import classify, find, finding_for
from installs.diagnosis.types import Observation, read_conditions
from tests.worlds.observations import NS, broken, finding_id

pytestmark = pytest.mark.data

# Entries that were taken together: one pattern tells the three cases of ownership apart.
RENAMED = {
    "helm-ownership-other-release": "helm-ownership-conflict",
    "helm-ownership-unmanaged": "helm-ownership-conflict",
    "helm-ownership-generic": "helm-ownership-conflict",
    # A wrapper gives way to the cause inside it.
    "required-resource-not-found": "no-matches-for-kind",
    "cs-registry-server": "api-change-refused",
    "crd-validate-other": "api-internal-error",
    "bundle-storage": "rk-store-full",
    "crd-dataloss-check-error": "crd-update-failed",
    "csv-strategy-invalid": "csv-strategy-unsupported",
    # Entries of their own since, as the remedy differs.
    "csv-webhook-not-ready": "csv-conversion-not-ready",
    "csv-deployment-drift": "csv-deployment-rewrite",
}
RENAMED_FOR = {
    ("crdify-legacy", "BundleDeployment"): "rk-crd-upgrade-unsafe",
    ("api-podsecurity", "CatalogSource"): "cs-podsecurity",
    ("helm-pending-operation", "ClusterExtension"): "ce-helm-pending-operation",
}
# Written by hand into the status of two recorded BundleDeployments, by no controller.
PLAYED = {"ok"}


def test_every_pattern_of_the_reference_has_its_entry(shared_data: Path) -> None:
    patterns = msgspec.yaml.decode((shared_data / "failures.yaml").read_bytes())
    assert len(patterns) > 200
    for pattern in patterns:
        for kind in pattern["kinds"]:
            renamed = RENAMED.get(pattern["id"], pattern["id"])
            expected = RENAMED_FOR.get((pattern["id"], kind), renamed)
            match = find(pattern["sample"], kind=kind)
            assert match is not None, pattern["id"]
            assert match.entry.id == expected, (pattern["id"], kind)


def test_no_recorded_message_is_unknown(shared_data: Path) -> None:
    count = 0
    for path in sorted((shared_data / "recorded").glob("*.json")):
        for item in json.loads(path.read_text())["items"]:
            for kind, message in messages(item):
                count += 1
                assert message in PLAYED or find(message, kind=kind), (path.name, message)
    assert count > 50


def messages(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every message of one object with the kind of what it is about."""
    if about := item.get("involvedObject"):
        # OLM reports a failed resolution on the Namespace; it is the Subscriptions' failure.
        kind = "Subscription" if about["kind"] == "Namespace" else about["kind"]
        yield kind, item["message"]
        return
    status = item.get("status", {})
    told = [status.get("message", "")]
    told += [one.get("message", "") for one in status.get("conditions", ())]
    told += [
        one["message"] for one in status.get("requirementStatus", ()) if one["status"] != "Present"
    ]
    yield from ((item["kind"], message) for message in told if message)


def outcomes(shared_data: Path) -> Iterator[dict[str, Any]]:
    """What real OLM did with real operators; without what is of that set-up and not of them."""
    for name in ("all", "own"):
        path = (
            shared_data / "truth" / f"olm-v0-{name}-namespace{'s' if name == 'all' else ''}.jsonl"
        )
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if not row["artifact"]:
                yield row


def scene(row: dict[str, Any]) -> tuple[Observation, list[Observation]]:
    """The Subscription and its components, as the sync would show them to the diagnosis."""
    named = {"current_csv": row["bundle"], "installed_csv": row["bundle"], "plan": "install-1"}
    subject = Observation(
        "Subscription",
        NS,
        "s",
        read_conditions(row["subscription"] or ()),
        details=named if row["phase"] else {},
        extra={"package": row["package"], "catalog": "community", "catalog_namespace": "olm"},
    )
    parts = [Observation("CatalogSource", "olm", "community", details={"state": "READY"})]
    if plan := row["installplan"]:
        parts.append(
            Observation(
                "InstallPlan",
                NS,
                "install-1",
                read_conditions(plan.get("conditions") or ()),
                phase=plan["phase"] or "",
                details={"csvs": [row["bundle"]]},
            )
        )
    if row["phase"]:
        parts.append(
            Observation(
                "ClusterServiceVersion",
                NS,
                row["bundle"],
                phase=row["phase"],
                details={
                    "reason": row["reason"],
                    "message": row["message"],
                    "requirements": row["missing"],
                },
            )
        )
    return subject, parts


def test_what_real_olm_did_with_real_operators_is_explained(shared_data: Path) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for row in outcomes(shared_data):
        diagnosis = diagnose(*scene(row))
        seen[diagnosis.health, finding_id(diagnosis)] += 1
        if row["phase"] == "Succeeded":
            assert (diagnosis.health, broken(diagnosis)) == ("Healthy", ("", "")), row["package"]
        elif diagnosis.health != "Installing":
            assert diagnosis.finding is not None, (row["package"], diagnosis.message)
            assert broken(diagnosis) != ("", ""), row["package"]
            again = finding_for(diagnosis.finding.id, diagnosis.finding.facts, {"name": "x"})
            assert again is not None
            assert again.cause == diagnosis.finding.cause
    assert seen["Healthy", ""] > 100
    assert seen["Blocked", "csv-installmode-unsupported"] >= 20
    assert seen["Failed", "plan-api-missing"] >= 5
    assert seen["Failed", "sub-required-dependency-missing"] == 2
    assert seen["Unknown", ""] == 0


def test_where_the_csv_names_a_symptom_the_install_plan_is_blamed(shared_data: Path) -> None:
    blamed = 0
    for row in outcomes(shared_data):
        plan = row["installplan"] or {}
        if row["phase"] == "Pending" and plan.get("phase") == "Failed":
            diagnosis = diagnose(*scene(row))
            assert (broken(diagnosis)[0], finding_id(diagnosis)) == (
                "InstallPlan", "plan-api-missing",
            )  # fmt: skip
            blamed += 1
    assert blamed >= 5


# An entry that says more took these.
MORE_PRECISE = {
    "sub-catalog-list-failed": "sub-catalog-service-missing",
    "api-webhook-failed": "api-webhook-certificate",
    "bundle-storage": "rk-store-full",
    "csv-strategy-invalid": "csv-rule-invalid",
    "image-conn-refused-timeout": "image-proxy-unreachable",
    "unpack-pod-failed": "rk-unpack-permission",
    "ce-config-invalid": "ce-config-wrong-type",
    "crdify-property": "crdify-required",
}
# Of 76 messages that had no finding when the list was made.
WITHOUT_FINDING = 0


def test_messages_of_the_controllers_keep_their_findings_and_get_more(shared_data: Path) -> None:
    lines = (shared_data / "messages.jsonl").read_text().splitlines()
    assert len(lines) > 300
    lost, without = [], 0
    for line in map(json.loads, lines):
        finding = classify(
            line["message"] or line["reason"],
            kind=line["kind"],
            type=line["type"],
            reason=line["reason"],
        )
        then = line["finding_then"]
        kept = finding is not None and finding.id in (then, MORE_PRECISE.get(then))
        if line["verdict"] == "right" and not kept:
            lost.append(line)
        without += finding is None and line["verdict"] == "unexplained"
    assert not lost
    assert without <= WITHOUT_FINDING
