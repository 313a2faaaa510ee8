"""Every place in the controllers that sets a message has its finding, whatever is around the text.

`producers.tsv` has the places with their messages, placeholders filled in; `refusals.tsv` has what
kube-apiserver answers, which any controller passes on about any object.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from installs.diagnosis.entries import by_id
from installs.diagnosis.knowledge import classify
from installs.diagnosis.remedies import (
    PLACEHOLDER,
    fill_command,
    fill_sentence,
    is_command,
    plain_remedy,
)
from tests.installs.diagnosis.test_knowledge import AMONG_ERRORS, WORDINGS

HERE = Path(__file__).parent
FILES = ("producers.tsv", "refusals.tsv")
# Kind and condition of an object, and the words with which its controller passes an error on.
PASSED_ON = (
    ("BundleDeployment", "Installed", "InstallFailed", "{}"),
    ("PlatformOperator", "Installed", "InstallFailed", "{}"),
    ("Bundle", "Unpacked", "UnpackFailed", "source bundle content: {}"),
    (
        *("ClusterExtension", "Progressing", "Retrying"),
        'error for resolved bundle "loki.v6" with version "6.0.0": {}',
    ),
    (
        *("ClusterObjectSet", "Progressing", "Retrying"),
        "reconciling object: reconciling apps/v1, Kind=Deployment a/b: {}",
    ),
    ("BundleDeployment", "Installed", "ReconcileFailed", "create error: {}"),
    ("InstallPlan", "Installed", "InstallComponentFailed", "error creating clusterrole loki: {}"),
    ("InstallPlan", "", "Installing", "retrying execution due to error: {}"),
    ("ClusterServiceVersion", "Failed", "InstallComponentFailed", "install strategy failed: {}"),
    (
        *("CatalogSource", "", "RegistryServerError"),
        "couldn't ensure registry server - error ensuring service account: loki: {}",
    ),
    (
        *("Subscription", "BundleUnpackFailed", "EnsureInstallPlanFailed"),
        "error ensuring InstallPlan: {}",
    ),
    ("Deployment", "ReplicaFailure", "FailedCreate", "{}"),
)


# Kind, and words of PASSED_ON -> the only kinds of objects that are written there. Without an entry
# it is any kind but pods.
WRITTEN = {
    ("Bundle", "source bundle content: {}"): ("pod",),
    (
        "ClusterObjectSet",
        "reconciling object: reconciling apps/v1, Kind=Deployment a/b: {}",
    ): ("deployment",),
    ("InstallPlan", "error creating clusterrole loki: {}"): ("clusterrole",),
    ("ClusterServiceVersion", "install strategy failed: {}"): (
        *("deployment", "service", "secret", "serviceaccount", "apiservice"),
        *("role", "rolebinding", "clusterrole", "clusterrolebinding"),
    ),
    (
        "CatalogSource",
        "couldn't ensure registry server - error ensuring service account: loki: {}",
    ): ("serviceaccount",),
    ("Subscription", "error ensuring InstallPlan: {}"): ("installplan",),
    ("Deployment", "{}"): ("pod",),
}
# The kind or the plural of the object that a refusal is about; its namespace is missing for any.
ABOUT = re.compile(
    r"^(?:object is being deleted: |Operation cannot be fulfilled on )?"
    r'(?!Get |Post |Patch |namespaces )([A-Za-z]+)(?:\.[\w.]+)? (?:"|is forbidden|in version )'
)


class Producer(NamedTuple):
    project: str
    place: str
    kind: str
    type: str
    reason: str
    message: str
    finding: str


class Refusal(NamedTuple):
    place: str
    message: str
    findings: str

    def reported(self) -> list[tuple[str, str, str, str]]:
        """Kind, type, reason and message of the objects that can report it."""
        about = ABOUT.match(self.message)
        written = about[1].lower().removesuffix("s") if about else ""
        # OLM tries what is forbidden without an end, so that it never fails a plan.
        forbidden = " is forbidden: " in self.message
        return [
            (kind, type_, reason, words.format(self.message))
            for kind, type_, reason, words in PASSED_ON
            if not (forbidden and (kind, reason) == ("InstallPlan", "InstallComponentFailed"))
            and (
                not written
                or (
                    written in WRITTEN[kind, words]
                    if (kind, words) in WRITTEN
                    else written != "pod"
                )
            )
        ]


def _rows(name: str) -> list[list[str]]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [
        [re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), cell) for cell in cells]
        for cells in (line.split("\t") for line in lines if not line.startswith("#"))
    ]


PRODUCERS = [Producer(*row) for row in _rows("producers.tsv")]
REFUSALS = [Refusal(*row) for row in _rows("refusals.tsv")]


def test_every_producer_has_the_finding_of_the_table() -> None:
    assert len(PRODUCERS) > 900
    assert len({producer.place for producer in PRODUCERS}) > 400
    wrong = []
    for producer in PRODUCERS:
        finding = classify(
            producer.message or producer.reason,
            kind=producer.kind,
            type=producer.type,
            reason=producer.reason,
        )
        if finding is None or finding.id != producer.finding:
            wrong.append((producer.place, producer.message, finding and finding.id))
    assert not wrong


def test_every_refusal_of_the_api_server_is_explained_where_it_is_reported() -> None:
    assert len(REFUSALS) > 100
    wrong = []
    for refusal in REFUSALS:
        assert refusal.reported()
        for kind, type_, reason, text in refusal.reported():
            finding = classify(text, kind=kind, type=type_, reason=reason)
            if finding is None or finding.id not in refusal.findings.split():
                wrong.append((kind, refusal.message, finding and finding.id))
    assert not wrong


@pytest.mark.parametrize("kind", ["ClusterExtension", "InstallPlan", "PlatformOperator"])
def test_no_refusal_of_the_api_server_is_blamed_on_a_registry(kind: str) -> None:
    for refusal in REFUSALS:
        finding = classify(refusal.message, kind=kind)
        assert finding is not None
        assert not finding.id.startswith(("image-", "rk-", "cs-")), refusal.message


def test_no_placeholder_is_left_in_a_sentence_about_a_producer() -> None:
    left = set()
    for producer in PRODUCERS:
        finding = classify(
            producer.message or producer.reason,
            kind=producer.kind,
            type=producer.type,
            reason=producer.reason,
            name="loki",
            namespace="loki",
        )
        assert finding is not None
        sentences = [step for step in finding.remedy_templates if not step.startswith("$ ")]
        for template in (finding.cause_template, *sentences):
            missing = {
                name for name in PLACEHOLDER.findall(template) if not finding.values.get(name)
            }
            left |= {(finding.id, name) for name in missing}
    assert not left


def test_no_command_lacks_a_value_that_the_message_has() -> None:
    messages = [(row.message or row.reason, row.kind, row.type, row.reason) for row in PRODUCERS]
    messages += [
        (text, kind, type_, reason)
        for refusal in REFUSALS
        for kind, type_, reason, text in refusal.reported()
    ]
    left = set()
    for message, kind, type_, reason in messages:
        finding = classify(message, kind=kind, type=type_, reason=reason)
        assert finding is not None
        for template in finding.remedy_templates:
            if not template.startswith("$ "):
                continue
            for name in PLACEHOLDER.findall(template):
                value = finding.values.get(name)
                if value and "<" in fill_command(f"{{{name}}}", finding.values):
                    left.add((finding.id, name, value))
    assert not left


def test_a_remedy_says_what_to_do_and_not_only_where_to_read() -> None:
    for entry in by_id().values():
        for remedy in (entry.remedy, *(variant.remedy for variant in entry.variants)):
            steps = [fill_sentence(step, {}) for step in remedy]
            assert any(not step.startswith("Read the rest of the message") for step in steps), (
                entry.id
            )


def test_no_remedy_removes_what_would_uninstall_the_operator_without_saying_so() -> None:
    uninstalls = re.compile(
        r"delete (?:csv|clusterserviceversions?|clusterextensions?|platformoperators?|"
        r"bundledeployments?|crds?|customresourcedefinitions?|namespaces?)\b"
    )
    for entry in by_id().values():
        for remedy in (entry.remedy, *(variant.remedy for variant in entry.variants)):
            before = ""
            for step in plain_remedy([step.removeprefix("$ ") for step in remedy]):
                if is_command(step) and uninstalls.search(step):
                    assert re.search(
                        r"uninstall|removes? |deletes? |away|objects|gone|twice|instead|install",
                        before,
                        re.IGNORECASE,
                    ), (entry.id, step)
                before = step


# Of the producers, how many another entry may take in one wording; all stay explained.
TAKEN_BY_ANOTHER = 12


@pytest.mark.parametrize("wording", WORDINGS)
def test_no_producer_is_unexplained_in_another_wording(wording: str) -> None:
    unexplained, taken = [], []
    for producer in PRODUCERS:
        normal = by_id()[producer.finding].stage == "normal"
        if not producer.message or (normal and wording in AMONG_ERRORS):
            continue
        finding = classify(
            WORDINGS[wording](producer.message),
            kind=producer.kind,
            type=producer.type,
            reason=producer.reason,
        )
        if finding is None:
            unexplained.append(producer.message)
        elif finding.id != producer.finding:
            taken.append((producer.finding, finding.id, producer.message))
    assert not unexplained
    assert len(taken) <= TAKEN_BY_ANOTHER, taken


def test_every_match_has_a_literal_of_its_entry_and_few_entries_have_none() -> None:
    texts = {producer.message for producer in PRODUCERS} | {row.message for row in REFUSALS}
    for entry in by_id().values():
        for text in (*texts, *entry.samples):
            if entry.literals and entry.regex.search(text):
                assert any(literal in text for literal in entry.literals), (entry.id, text)
    assert sum(not entry.literals for entry in by_id().values()) < 40
