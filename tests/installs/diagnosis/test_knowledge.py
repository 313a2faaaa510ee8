"""The knowledge base is sound: patterns, samples, texts; no value breaks out of a command."""

import re
import shlex
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from installs.diagnosis.entries import STAGES, KnowledgeEntry, knowledge
from installs.diagnosis.knowledge import (
    TEXT_LIMIT,
    classify,
    find,
    finding_for,
    fingerprint,
    render,
)
from installs.diagnosis.remedies import (
    ELSE,
    PLACEHOLDER,
    SUBJECT_NAMES,
    for_facts,
    is_command,
    plain_remedy,
)

# Samples that a more precise entry rightly takes, directly or inside a wrapper.
TAKEN_BY = {
    "cs-registry-server": "api-change-refused",
    "required-resource-not-found": "no-matches-for-kind",
}
# Samples that a general entry, whose own words are still there, takes in that wording.
IN_QUOTES = {
    "catalog-graphql-collision",
    "crd-cannot-remove-stored",
    "cs-pod-written-meanwhile",
    "csv-condition-outdated",
    "csv-deployment-unobserved",
    "rk-source-secret-missing",
}
TAKEN_IN = {
    "case of the first letter": {"api-namespace-missing", "helm-removed-api"},
    "lower case": {
        "api-podsecurity",
        "api-rbac-escalation",
        "ce-clustercatalog-kind",
        "cos-collision-olm-v0",
        "cos-collision-unowned",
        "cs-pod-image",
        "csv-condition-outdated",
        "csv-group-changed",
        "image-pull-not-there",
    },
    "single quotes": IN_QUOTES,
    "escaped quotes": IN_QUOTES,
    "backticks": IN_QUOTES,
    "typographic quotes": IN_QUOTES,
    "gRPC error": {"bundle-content-cut", "ce-catalog-fetch", "controller-deadline"},
    "in quotes": IN_QUOTES,
    "log line": IN_QUOTES,
    "full stop": {"sub-constraints-empty"},
    "white space": {"sub-constraints-empty"},
}
# Notes that say that a retry changes nothing, and those that say no more than that there is one.
STAYS = re.compile(
    r"same (?:result|answer)|result stays the same|won.t fix this"
    r"|(?:stays like this|fails) (?:until|while)|^\S+(?: controller)? waits until"
)
RETRIED = re.compile(
    r"\b(?:retries|tries again|is tried again) automatically\."
    r"|\b(?:continues|goes on|succeeds)(?: automatically| by itself)? once\b"
)
# What only another version or another installation helps.
REPORTED = re.compile(r"Report it to the author of the (?:operator|bundle)\b")
BUDGET_SECONDS = 0.4
HOSTILE = ("a", '"', 'a"', "a ", "[a, ", "a/", "a: ", ' in namespace "', "\n", "a.b ", "{}", "-")

entries = pytest.mark.parametrize("entry", knowledge(), ids=lambda entry: entry.id)


def steps_of(entry: KnowledgeEntry) -> list[str]:
    return [*entry.remedy, *(step for variant in entry.variants for step in variant.remedy)]


def remedies_of(entry: KnowledgeEntry) -> list[tuple[str, ...]]:
    return [entry.remedy, *(variant.remedy for variant in entry.variants if variant.remedy)]


def texts_of(entry: KnowledgeEntry) -> list[str]:
    every = dict.fromkeys((name.rstrip("0123456789") for name in entry.regex.groupindex), "x")
    texts = [entry.cause, *filter(None, (variant.cause for variant in entry.variants))]
    for remedy in remedies_of(entry):
        texts += dict.fromkeys((*for_facts(remedy, every), *for_facts(remedy, {})))
    return texts


@entries
def test_every_sample_is_classified_as_its_entry(entry: KnowledgeEntry) -> None:
    expected = TAKEN_BY.get(entry.id, entry.id)
    assert entry.samples
    for sample in entry.samples:
        assert entry.regex.search(sample)
        for kind in entry.kinds:
            match = find(sample, kind=kind)
            assert match is not None
            assert match.entry.id == expected


# Typing errors and blanks in messages of the controllers, and what newer releases write or may.
MENDED = {
    "apiServiceDefintions": "apiServiceDefinitions",
    "webhookDefiniions": "webhookDefinitions",
    "unable to manager conversion": "unable to manage conversion",
    "and passes all probes": "and pass all probes",
    "Must be namespaced scoped": "Must be namespace scoped",
    "unknown validation :": "unknown validation:",
    "none previously :": "none previously:",
}
OTHER = "something else went wrong"


def fixed(text: str) -> str:
    for typo, words in MENDED.items():
        text = text.replace(typo, words)
    return text


def cut(text: str, length: int, end: str = "") -> str:
    """The text as the first of several errors, which are joined by line ends, cut to the length."""
    return f"{text}\n{(OTHER + chr(10)) * 300}"[: length - len(end)] + end


# In these the message is one of several errors, which what is no failure never is.
AMONG_ERRORS = (
    *("list of errors", "list of errors, last", "joined errors", "joined errors, last"),
    *("errors after semicolons", "errors after semicolons, last", "counted errors"),
    *("cut to 1,024 characters", "cut to 4,096 characters", "cut by operator-controller"),
)
# Words or errors around the message.
AROUND = (
    *("error before", "failure before", "two before", "gRPC error", "dots", "ellipsis"),
    *("in quotes", "reconciler", "log line", "will retry", *AMONG_ERRORS),
)
WORDINGS: dict[str, Callable[[str], str]] = {
    "case of the first letter": lambda text: text[:1].swapcase() + text[1:],
    "lower case": str.lower,
    "single quotes": lambda text: text.replace('"', "'"),
    "escaped quotes": lambda text: text.replace('"', '\\"'),
    "backticks": lambda text: text.replace('"', "`"),
    "typographic quotes": lambda text: re.sub('"([^"]*)"', "\u201c\\1\u201d", text),
    "full stop": lambda text: f"{text}.",
    "white space": lambda text: f" {text} \n",
    "error of a resolved bundle": lambda text: (
        f'error for resolved bundle "a.v1.0.0" with version "1.0.0": {text}'
    ),
    "terminal error": lambda text: f"terminal error: {text}",
    "error before": lambda text: f"error: {text}",
    "failure before": lambda text: f"failed to reconcile the object: {text}",
    "two before": lambda text: f"Failed to sync loki: Error: {text}",
    "gRPC error": lambda text: f"rpc error: code = Unknown desc = {text}",
    "dots": lambda text: f"{text}...",
    "ellipsis": lambda text: f"{text}\u2026",
    "in quotes": lambda text: '"' + text.replace('"', '\\"') + '"',
    "typing errors fixed": fixed,
    "list of errors": lambda text: f"[{text}, {OTHER}]",
    "list of errors, last": lambda text: f"[{OTHER}, {text}]",
    "errors after semicolons": lambda text: f"{text}; {OTHER}",
    "errors after semicolons, last": lambda text: f"{OTHER}; {text}",
    "counted errors": lambda text: f"2 errors occurred:\n\t* {text}\n\t* {OTHER}\n\n",
    "reconciler": lambda text: f"Reconciler error: {text}",
    "log line": lambda text: 'level=error msg="' + text.replace('"', '\\"') + '"',
    "will retry": lambda text: f"{text}, will retry",
    "joined errors": lambda text: f"{text}\n{OTHER}",
    "joined errors, last": lambda text: f"{OTHER}\n{text}",
    "cut to 1,024 characters": lambda text: cut(text, 1_024),
    "cut to 4,096 characters": lambda text: cut(text, 4_096),
    "cut by operator-controller": lambda text: cut(text, 4_096, "\n\n... [message truncated]"),
}


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_sample_in_another_wording_is_classified_as_its_entry(wording: str) -> None:
    reword, missed = WORDINGS[wording], set()
    for entry in knowledge():
        if entry.rank < 0 or entry.id in TAKEN_IN.get(wording, ()):
            continue
        if wording in AROUND and entry.pattern.startswith(("^", "(?i)^")):
            continue  # a whole message, or a line that OLM Web makes itself
        if wording in AMONG_ERRORS and entry.stage == "normal":
            continue
        for sample in entry.samples:
            match = find(reword(sample), kind=entry.kinds[0])
            if match is None or match.entry.id != TAKEN_BY.get(entry.id, entry.id):
                missed.add((entry.id, match and match.entry.id))
    assert not missed


def test_titles_are_short_sentences_and_texts_are_whole_ones() -> None:
    for entry in knowledge():
        for title in (entry.title, *(one.title for one in entry.variants if one.title)):
            assert len(title) <= 60, entry.id
            assert title[0].isupper() or title.startswith(("rukpak", "opm")), entry.id
            assert not title.endswith("."), entry.id
        for text in texts_of(entry):
            if text.startswith("$ "):
                assert is_command(text[2:]), entry.id
            else:
                lower = ("rukpak", "catalogd", "spec.", "operator")
                assert text.endswith("."), entry.id
                assert text[0].isupper() or text.startswith(lower), entry.id


def test_a_command_that_deletes_says_why_in_the_step_before_it() -> None:
    for entry in knowledge():
        for remedy in (entry.remedy, *(one.remedy for one in entry.variants)):
            before = "$ "
            for step in remedy:
                if step.startswith("$ ") and " delete " in step:
                    assert not before.startswith("$ "), entry.id
                before = step


@entries
def test_every_remedy_has_a_sentence_without_the_facts_that_its_steps_may_need(
    entry: KnowledgeEntry,
) -> None:
    for remedy in remedies_of(entry):
        steps = for_facts(remedy, {})
        assert [step for step in steps if not step.startswith("$ ")], remedy


def test_a_step_for_messages_without_a_fact_of_other_steps_is_left_out_with_one() -> None:
    steps = ("Look.", "[taint] Tolerate {taint}.", "[else] Add a node.")
    assert for_facts(steps, {}) == for_facts(steps, {"taint": ""}) == ("Look.", "Add a node.")
    assert for_facts(steps, {"taint": "a"}) == ("Look.", "Tolerate {taint}.")


def test_the_paths_to_take_instead_are_named_in_every_remedy() -> None:
    offered = [entry for entry in knowledge() if entry.instead]
    assert len(offered) >= 10
    for entry in offered:
        for remedy in (entry.remedy, *(one.remedy for one in entry.variants)):
            sentences = " ".join(step for step in remedy if not step.startswith("$ "))
            assert all(path in sentences for path in entry.instead), entry.id


def test_every_placeholder_is_a_fact_or_a_name_of_the_subject() -> None:
    for entry in knowledge():
        groups = {name.rstrip("0123456789") for name in entry.regex.groupindex}
        for text in texts_of(entry):
            assert set(PLACEHOLDER.findall(text)) <= groups | set(SUBJECT_NAMES), entry.id
        of_facts = re.findall(r"^\[([a-z_]+)\] ", "\n".join(steps_of(entry)), re.MULTILINE)
        assert set(of_facts) <= groups | {ELSE}, entry.id
        # A fact of these names would hide the subject's own, or the condition of a step.
        assert not groups & {"name", "namespace", "kind", ELSE}, entry.id
        for variant in entry.variants:
            assert variant.fact or variant.kinds or variant.reasons, entry.id
            assert {*filter(None, [variant.fact])} <= groups, entry.id
            assert set(variant.kinds) <= set(entry.kinds), entry.id


def test_the_cause_of_every_sample_has_all_its_facts() -> None:
    samples = [(entry, sample) for entry in knowledge() for sample in entry.samples]
    for entry, sample in samples:
        found = entry.regex.search(sample)
        assert found is not None
        facts = {
            name.rstrip("0123456789"): text for name, text in found.groupdict().items() if text
        }
        names = {"name": "etcd", "namespace": "shop", "kind": entry.kinds[0], "package": "etcd"}
        finding = finding_for(entry.id, facts, names)
        assert finding is not None, entry.id
        assert not re.search(r"<[a-z-]+>|[{}]", finding.cause), entry.id


@entries
def test_no_hostile_text_keeps_a_pattern_busy(entry: KnowledgeEntry) -> None:
    sample = entry.samples[0]
    repeated = (*HOSTILE, sample[: max(10, len(sample) // 2)], sample[:-3])
    for piece in repeated:
        text = (piece * TEXT_LIMIT)[:TEXT_LIMIT]
        started = time.process_time()
        entry.regex.search(text)
        assert time.process_time() - started < BUDGET_SECONDS


def test_ids_and_titles_are_unique_and_every_stage_has_entries() -> None:
    assert len({entry.id for entry in knowledge()}) == len(knowledge()) >= 200
    assert len({entry.title for entry in knowledge()}) == len(knowledge())
    assert {entry.stage for entry in knowledge()} == set(STAGES)


def test_the_causes_of_the_published_audit_have_the_titles_that_pages_show() -> None:
    titles = {entry.id: entry.title for entry in knowledge()}
    for entry in knowledge():
        of_variants = {one.title for one in entry.variants if one.title}
        assert not of_variants & ({*titles.values()} - {entry.title}), entry.id
    assert (
        titles["allnamespaces-required"]
        == "AllNamespaces install mode required by PlatformOperator"
    )
    assert (
        titles["webhookdefinitions-unsupported-rukpak"]
        == "Webhooks not supported by PlatformOperator"
    )
    assert titles["helm-ownership-conflict"] == "Resource conflict: the object exists already"


def test_classifying_a_text_of_the_greatest_length_ends_in_time() -> None:
    started = time.process_time()
    classify('a"b: ' * 1_000_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "value",
    ["x; rm -rf /", "$(reboot)", "`id`", "-nx", "a b", "x\ny", "a'b", "--all", "A" * 300, "|x"],
)
def test_a_hostile_name_never_reaches_a_command(value: str) -> None:
    for entry in knowledge():
        groups = {name.rstrip("0123456789") for name in entry.regex.groupindex}
        facts = dict.fromkeys(groups, value)
        names = {"name": value, "namespace": value, "kind": "PlatformOperator", "package": value}
        finding = finding_for(entry.id, facts, names)
        assert finding is not None
        for command in filter(is_command, finding.remedy):
            assert value not in command
            assert not set(re.sub(r"<[a-z-]+>", "", command)) & set(";|&`$\n")
            shlex.split(re.sub(r"<[a-z-]+>", "x", command))


def test_commands_carry_the_names_of_the_object_and_leave_out_an_empty_namespace() -> None:
    message = (
        'Unable to continue with install: CustomResourceDefinition "things.example.com" in '
        'namespace "" exists and cannot be imported into the current release: invalid ownership '
        'metadata; annotation validation error: key "meta.helm.sh/release-name" must equal "new": '
        'current value is "old"'
    )
    match = find(message, kind="BundleDeployment")
    assert match is not None
    finding = finding_for(match.entry.id, match.facts, {"name": "new", "kind": "PlatformOperator"})
    assert finding is not None
    assert finding.facts["owner"] == "old"
    assert "kubectl get customresourcedefinition things.example.com -o yaml" in finding.remedy
    assert "kubectl get platformoperator old" in finding.remedy
    assert "kubectl delete platformoperator new" in finding.remedy
    assert "belongs to the release old" in finding.cause


def test_a_name_that_is_not_known_leaves_a_placeholder_to_fill_in() -> None:
    finding = classify("AllNamespace install mode must be enabled")
    assert finding is not None
    assert "kubectl delete platformoperator <name>" in finding.remedy


def test_no_line_for_programs_has_a_placeholder_in_angle_brackets() -> None:
    for entry in knowledge():
        finding = finding_for(entry.id, {}, {})
        assert finding is not None
        lines = [finding.title, finding.cause, *plain_remedy(finding.remedy)]
        left = [line for line in lines if re.search(r"<[a-z][a-z-]*>", line)]
        assert not left, (entry.id, left)


def test_an_id_that_is_no_longer_known_has_no_finding() -> None:
    assert finding_for("gone", {}, {"name": "x"}) is None


def test_a_wrapper_gives_way_to_the_cause_inside_it_and_is_kept_as_context() -> None:
    finding = classify(
        "Revision has not rolled out for 5 minute(s). Last status: "
        "Object Deployment.apps/v1 shop/etcd: Available is not True",
        kind="ClusterExtension",
    )
    assert finding is not None
    assert finding.id == "cos-probe-failure"
    assert finding.facts["object_name"] == "etcd"
    assert finding.facts["context"] == "Roll-out takes too long"
    assert "kubectl describe deployment etcd -n shop" in finding.remedy


def test_the_kind_decides_between_entries_with_the_same_words() -> None:
    message = "unsupported bundle: webhookDefinitions are not supported"
    extension = classify(message, kind="ClusterExtension")
    assert extension is not None
    assert extension.id == "ce-webhook-no-cert-provider"
    assert classify(message, kind="CatalogSource") is None


def test_lists_of_errors_give_the_same_finding_in_any_order() -> None:
    parts = [
        "no operators found in package foo in the catalog referenced by subscription s",
        "other",
    ]
    found = {
        finding.id
        for order in (parts, parts[::-1])
        if (finding := classify(f"constraints not satisfiable: {', '.join(order)}"))
    }
    assert found == {"sub-no-package"}


def test_a_deprecation_is_known_by_its_condition_and_a_final_reason_ends_retries() -> None:
    notice = classify("Use channel stable-2.", kind="ClusterExtension", type="ChannelDeprecated")
    assert notice is not None
    assert notice.id == "deprecated-entry"
    forbidden = 'pods "x" is forbidden: User "u" cannot create resource "pods" in API group ""'
    retried, given_up = classify(forbidden), classify(forbidden, reason="Blocked")
    assert retried is not None
    assert given_up is not None
    assert (retried.retryable, given_up.retryable) == (True, False)


def test_unknown_texts_that_differ_only_in_names_have_one_fingerprint() -> None:
    first = fingerprint('widget "a" of sha256:0123456789abcdef failed 3 times')
    assert first == fingerprint('widget "b" of sha256:fedcba9876543210 failed 14 times')
    assert first != fingerprint("something else entirely")
    assert len(fingerprint("x" * 100_000)) <= 300
    assert classify('widget "a" failed') is None


def test_a_remedy_fits_the_kind_of_the_object() -> None:
    refused = "unauthorized: authentication required"
    by_kind = {kind: classify(refused, kind=kind) for kind in ("CatalogSource", "BundleDeployment")}
    remedies = {kind: " ".join(found.remedy) for kind, found in by_kind.items() if found}
    assert "spec.secrets" in remedies["CatalogSource"]
    assert "spec.source.image.pullSecret" in remedies["BundleDeployment"]
    assert "pullSecret" not in remedies["CatalogSource"]
    for kind in ("Bundle", "BundleDeployment"):
        finding = classify("AllNamespace install mode must be enabled", kind=kind, name="loki")
        assert finding is not None
        assert "PlatformOperators install only" not in finding.cause
        assert not any("delete platformoperator" in step for step in finding.remedy)


def test_the_note_about_a_failed_installplan_says_that_it_stays_failed() -> None:
    text = 'error creating role loki: roles.rbac.authorization.k8s.io "loki" is forbidden: x'
    failed, installing = (
        classify(text, kind="InstallPlan", reason=reason)
        for reason in ("InstallComponentFailed", "Installing")
    )
    assert failed is not None
    assert installing is not None
    assert failed.note.startswith("OLM does not try a failed InstallPlan again.")
    assert failed.note != installing.note
    of_csv = classify(text, kind="ClusterServiceVersion", reason="InstallComponentFailed")
    assert of_csv is not None
    assert of_csv.note == installing.note
    stored = finding_for(
        failed.id, failed.facts, {"kind": "Subscription"}, reason="InstallComponentFailed"
    )
    assert stored is not None
    assert stored.note == failed.note


def test_a_list_that_expired_needs_a_retry_only_where_the_installplan_failed() -> None:
    message = (
        'error listing resources in GroupVersionResource schema.GroupVersionResource{Group:"a.b", '
        'Version:"v1", Resource:"c"}: The provided continue parameter is too old to display a '
        "consistent list result."
    )
    steps = {}
    for reason in ("Installing", "InstallComponentFailed"):
        finding = classify(message, kind="InstallPlan", type="Installed", reason=reason)
        assert finding is not None
        steps[reason] = finding.remedy[0]
    assert steps["Installing"].startswith("Nothing needs to be done")
    assert steps["InstallComponentFailed"].startswith("Press Retry on the Subscription")


def test_the_note_names_no_retry_where_the_remedy_replaces_the_installplan() -> None:
    builtin, served = (
        classify(
            f"api-server resource not found installing {kind} loki: GroupVersionKind {api}, "
            f"Kind={kind} not found on the cluster",
            kind="InstallPlan",
            reason="InstallComponentFailed",
        )
        for kind, api in (("PodDisruptionBudget", "policy/v1beta1"), ("Loki", "x.io/v1"))
    )
    assert builtin is not None
    assert builtin.note == "OLM does not try a failed InstallPlan again."
    assert served is not None
    assert any("press Retry" in step for step in served.remedy)
    conflict = classify(
        "Operation cannot be fulfilled on installplans.operators.coreos.com "
        '"install-x": the object has been modified',
        kind="InstallPlan",
        reason="Installing",
    )
    assert conflict is not None
    assert conflict.note.endswith("This does not make the InstallPlan fail.")


def test_a_variant_has_a_title_of_its_own_and_lists_have_that_of_the_entry() -> None:
    message = "webhookDefinitions are not supported"
    kinds = ("PlatformOperator", "BundleDeployment")
    findings = [classify(message, kind=kind) for kind in kinds]
    assert [finding.title for finding in findings if finding] == [
        "Webhooks not supported by PlatformOperator",
        "rukpak does not support bundles with webhooks",
    ]


@entries
def test_a_note_and_whether_retrying_can_help_agree(entry: KnowledgeEntry) -> None:
    findings = [render(replace(entry, variants=()), {}, {})]
    for variant in entry.variants:
        facts = {variant.fact: "x"} if variant.fact else {}
        kind, reason = "".join(variant.kinds[:1]), "".join(variant.reasons[:1])
        findings.append(render(replace(entry, variants=(variant,)), facts, {"kind": kind}, reason))
    for finding in findings:
        if STAYS.search(finding.note):
            assert not finding.retryable, finding.note
        elif RETRIED.search(finding.note):
            assert finding.retryable, finding.note
        if len(finding.remedy) == 1 and REPORTED.match(finding.remedy[0]):
            assert not finding.retryable, finding.remedy


def test_a_variant_may_pass_by_itself_where_its_entry_does_not() -> None:
    found = [
        classify(f"expected exactly one operator, got {count}", kind="Subscription")
        for count in (2, 0)
    ]
    assert [finding.retryable for finding in found if finding] == [False, True]


def test_commands_in_the_namespace_of_olm_v1_are_followed_by_those_of_openshift() -> None:
    """Upstream's manifests have one namespace, OpenShift has two."""
    seen = set()
    for entry in knowledge():
        remedy = render(entry, {}, {}).remedy
        commands = [number for number, step in enumerate(remedy) if "-n olmv1-system" in step]
        if not commands or not is_command(remedy[commands[-1]]):
            continue
        sentence = remedy[commands[-1] + 1]
        assert sentence.startswith("On OpenShift use -n "), entry.id
        words = " ".join(remedy[number] for number in commands)
        for component in ("catalogd", "operator-controller"):
            if component in words:
                assert f"openshift-{component}" in sentence, entry.id
        seen.add(sentence)
    assert len(seen) == 3


def test_commands_in_the_namespace_of_rukpak_are_followed_by_that_of_openshift() -> None:
    remedies = [render(entry, {}, {}).remedy for entry in knowledge()]
    followed = [
        remedy[number + 1 :]
        for remedy in remedies
        for number, step in enumerate(remedy)
        if "-n rukpak-system" in step
    ]
    assert followed
    assert all(any("openshift-rukpak" in step for step in rest) for rest in followed)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ClusterCatalog", "spec.availabilityMode of such a one"),
        ("CatalogSource", "spec.sources of the OperatorHub cluster"),
        ("ClusterExtension", ""),
    ],
)
def test_an_edit_of_a_catalog_says_what_openshift_undoes(kind: str, words: str) -> None:
    message = "error creating image source: reading manifest v9 in q/c: manifest unknown"
    finding = classify(message, kind=kind)
    assert finding is not None
    undone = [step for step in finding.remedy if "OpenShift writes" in step]
    assert [words in step for step in undone] == [True] * bool(words)


def test_the_source_of_a_bundledeployment_is_named_for_both_versions_of_its_api() -> None:
    message = 'source bundle content: bundle unpack git clone error: couldn\'t find remote ref "x"'
    deployment, bundle = (classify(message, kind=kind) for kind in ("BundleDeployment", "Bundle"))
    assert deployment is not None
    assert bundle is not None
    assert "Up to release 0.16 of rukpak" in " ".join(deployment.remedy)
    assert "0.16" not in " ".join(bundle.remedy)


def test_the_source_of_a_bundledeployment_is_where_the_release_of_its_message_has_it() -> None:
    message = 'source bundle content: bundle unpack git clone error: couldn\'t find remote ref "x"'
    kind, reason = "BundleDeployment", "UnpackFailed"
    newer = classify(message, kind=kind, reason=reason)
    former = classify(f"Failed to unpack the c-5d Bundle: {message}", kind=kind, reason=reason)
    assert newer is not None
    assert former is not None
    assert "spec.template" not in " ".join(newer.remedy)
    assert "In this release of rukpak" in " ".join(former.remedy)


def test_an_object_that_can_not_be_parsed_at_the_installation_blames_no_file_for_sure() -> None:
    message = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array"
    unpacking, installing = (
        classify(message, kind="BundleDeployment", reason=reason)
        for reason in ("UnpackFailed", "InstallFailed")
    )
    assert unpacking is not None
    assert installing is not None
    assert "does not name the file" in unpacking.cause
    assert "does not name the file" in installing.cause
