"""The knowledge base: finds the entry (entries.py) for a message, and fills its texts.

Entries are matched by rank (-1 lines of OLM Web's own that quote a controller, 0 specific, 1
answers of any API server, 2 its most general ones and wrappers, 3 what is left, 4 any text of a
kind, which has to be known), then in the order of entries.py; the first match wins. Where a message
names the error of a way back, too, the error that made it necessary comes first. A `wrapper` only
adds context: the text in its group `detail`, `inner`, `last` or `logs` is classified again. A
message that joins several errors has the finding of one of them, whose texts go on with those of
the others (parts.py). Patterns must be bounded: no unlimited repetition except at their end.
Matching is bounded in time by cutting the text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import msgspec

from installs.diagnosis.entries import KINDS, KnowledgeEntry, Variant, by_id, knowledge
from installs.diagnosis.parts import (
    error_before_way_back,
    errors_of,
    in_current_words,
    parts_of,
    strip_prefixes,
    without_dumps,
)
from installs.diagnosis.polling_pods import of_polling_pod, with_polling_pod
from installs.diagnosis.remedies import (
    completed,
    fill_sentence,
    fill_steps,
    for_facts,
    replaces_plan,
    with_more_errors,
)

_ONLY_WITH_KIND = 4  # rank
# Events of what makes pods, such as a ReplicaSet or a Job, with the answer of the API server.
_POD_REFUSED = re.compile(
    r"(?:Error creating|create Pod \S{1,253} in StatefulSet \S{1,253} failed error): "
    r'|pods "[^"]{1,253}" is forbidden: violates PodSecurity "'
)
# The same in this condition, whatever the answer is, and without it.
_NO_REPLICA = "ReplicaFailure"
_NO_POD = re.compile(r'pods "[^"]{1,253}" is forbidden: |Pod "[^"]{1,253}" is invalid: ')
# What a kind was called in earlier releases, which report the same messages. Texts about an object
# of the former kind name that kind.
_FORMER_KINDS = {"ClusterExtensionRevision": "ClusterObjectSet", "Catalog": "ClusterCatalog"}
# Kinds that no entry is about, whose Events tell of the pods and objects that they hold.
_MAKERS_OF_REPLICAS = ("ReplicaSet", "StatefulSet", "DaemonSet")
_MAKERS_OF_PODS = ("Job", *_MAKERS_OF_REPLICAS, "Namespace")


@dataclass(frozen=True, slots=True)
class Finding:
    """A known cause. `remedy` mixes sentences and commands; see `remedies.is_command`.

    `note` says what happens without action; `confidence` is high, medium or low; `source` names the
    lines of the controllers' code that write such a message; `instead` are the kinds with which the
    remedy says to install the package in place of this one. Texts are filled with `values` when
    they are read, as a sync needs only ids and facts, thousands of times. `others` are those of
    further errors that the message joins with this one; their causes and remedies follow in those
    of this finding.
    """

    id: str
    title: str
    cause_template: str
    remedy_templates: tuple[str, ...]
    retryable: bool
    facts: dict[str, str]
    confidence: str
    source: tuple[str, ...]
    note: str = ""
    instead: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    others: tuple["Finding", ...] = ()

    @property
    def cause(self) -> str:
        cause = fill_sentence(self.cause_template, self.values)
        if self._errors == 1:
            return cause
        if self._excludes_nodes:
            return f"{cause} {_MORE_REASONS.format(self._errors)}"
        count = f"The message names {self._errors} errors; read the steps for all of them first."
        return f"{cause} {count}"

    @property
    def remedy(self) -> tuple[str, ...]:
        steps = fill_steps(self.remedy_templates, self.values)
        if self._errors == 1:
            return steps
        errors = []
        for other in self._further:
            title = "" if other.title == self.title else f"{other.title}. "
            errors.append((title + other.cause, other.remedy))
        noun = "Reason" if self._excludes_nodes else "Error"
        return with_more_errors(steps, errors, self._errors, noun)

    @property
    def _excludes_nodes(self) -> bool:
        """Whether the message lists reasons of the scheduler, of which one is a way out."""
        return "excludes" in self.facts

    @property
    def _further(self) -> list["Finding"]:
        """The other errors with causes of their own; several errors may have the same."""
        causes = {fill_sentence(self.cause_template, self.values)}
        further = []
        for other in self.others:
            if other.cause not in causes:
                further.append(other)
            causes.add(other.cause)
        return further

    @property
    def _errors(self) -> int:
        return 1 + len(self._further) + int(self.facts.get(_LEFT_OUT, "0"))


def explained_kinds() -> frozenset[str]:
    """Kinds of objects whose messages and Events can be explained."""
    about = {kind for entry in knowledge() for kind in entry.kinds}
    return frozenset({*about, *_FORMER_KINDS, *_MAKERS_OF_PODS})


# -- classification of messages --------------------------------------------------------------------

# Condition messages can't be longer (apiextensions limit, and where OLM v1 cuts its own).
TEXT_LIMIT = 32_768
# Condition types of OLM v0 and v1 that only report a deprecation.
DEPRECATIONS = ("PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Deprecated")
# What such a condition is about, by the facts of its entry; the last one may be about any.
_DEPRECATED_LEVELS = {
    "PackageDeprecated": "of_package",
    "ChannelDeprecated": "of_channel",
    "BundleDeprecated": "of_bundle",
}
_DEPRECATED = "deprecated-entry"
# What earlier releases of OLM v1 write instead of a notice, with the reason of one.
_UNCHECKED = "deprecation checks have not been attempted as "
# Reasons of such a condition whose status is False or Unknown; OLM v1.6 and newer.
_NOT_DEPRECATED = ("NotDeprecated", "DeprecationStatusUnknown", "Absent")
# Reasons with which a controller says that it waits for a person.
_FINAL = ("Blocked", "InvalidConfiguration", "ConstraintsNotSatisfiable")
_GIVEN_UP = "The controller waits until something changes."
# OLM tries a CSV with this reason again when it is told of an object of RBAC that it sees,
# which it also is every five minutes without a change.
_WAITS_FOR_RBAC = "InstallComponentFailedNoRetry"
_TRIED_AFTER_RBAC = (
    "OLM tries again mostly within some minutes. A Role or RoleBinding that you make does not "
    "bring the next attempt forward, as OLM sees only those with the label olm.managed."
)
# A plan with this reason is Failed; the one of a CSV is tried again.
_PLAN_FAILED = "InstallComponentFailed"
_HAVE_PLANS = ("InstallPlan", "Subscription")
_PLAN_STAYS_FAILED = "OLM does not try a failed InstallPlan again."
_RETRY = "press Retry on the Subscription"
_NAMES_RETRY = re.compile(r"\b[Pp]ress Retry on the Subscription\b")
# OLM makes the ClusterServiceVersions of a plan before all else (OrderSteps of its API), and goes
# back to no other version while they exist; see installs/actions/retry.py.
_RETRY_OF_UPGRADE = (
    "For an upgrade whose ClusterServiceVersion exists, which OLM makes first, Retry lists the "
    "objects that are left to delete by hand."
)
_NAMES_BOTH_VERSIONS = re.compile(r"\bFor an upgrade\b|\bone that (?:it|this) replaces\b")
_PLAN_GOES = ("api-namespace-terminating", "api-namespace-missing")
# A plan in this phase has no message but the error of its last attempt, which begins so.
_PLAN_TRIED = "Installing"
_TRIED_AGAIN = "retrying execution due to error:"
# OLM tries what the cluster forbids without a limit of time.
_REFUSALS = (
    *("api-forbidden", "api-rbac-escalation", "api-owner-reference", "api-namespace-terminating"),
    *("api-quota", "api-quota-needs-limits", "api-quota-uncounted", "api-limitrange"),
    *("api-podsecurity", "api-scc", "api-pod-serviceaccount-missing", "api-priorityclass-missing"),
    *("api-admission-policy", "api-change-refused"),
)
_PLAN_FAILS_SOON = (
    "OLM tries the InstallPlan again for a minute, unless --install-plan-retry-timeout says "
    "otherwise. Then it stays failed."
)
# A webhook chooses the status with which it denies; 403 is what OLM tries without a limit of time.
_DENIED = "api-webhook-denied"
_PLAN_DENIED = (
    "OLM tries the InstallPlan again, without end if the webhook denies with the status 403, else "
    "for a minute. Then it stays failed."
)
# What a conflict is about when OLM writes the status of a plan, which is no step of the plan.
_PLANS = "installplans.operators.coreos.com"
# Facts of a message that joins several errors: a JSON list of those that the entry is not of, and
# how many of them it leaves out.
_MORE_REASONS = (
    "The message names {} reasons that exclude nodes; the pod starts once one node that it may use "
    "has none of them left."
)
_OTHERS, _LEFT_OUT = "other_errors", "errors_left_out"
_OTHERS_LIMIT = 4
# Entries whose message may refuse several fields of one object.
_FIELD_ERRORS = ("api-invalid", "crd-schema-invalid", "crd-existing-cr-invalid")
# Facts that name another object than the subject that reports the message.
_REPORTER = ("kind", "namespace", "name")
# Facts that say which object an error is about.
_OBJECT_FACTS = (
    "excludes",
    *("object_kind", "object_name", "object_namespace", "object", "resource", "crd", "property"),
    *("catalog", "catalog_name", "catalog_namespace", "host", "csv", "apiservice", "deployment"),
    *("secret", "configmap", "po", "clusteroperator", "catalogd", "controller"),
)
_INNER_GROUPS = ("detail", "inner", "last", "logs")
_WRAPPER_DEPTH = 5
_STEP_LIMIT = 200  # characters of the words of a wrapper that say what the controller did
_REWORDED_LIMIT = 2_000
_ERRORS_LIMIT = 6
# How errors are joined: one a line, maybe with a bullet, or after semicolons.
_ERROR_ENDS = re.compile(r"\n\s{0,9}(?:\* )?|; ")
_LOGGED = re.compile(r'\b(?:msg|err|error)="((?:[^"\\]|\\.){1,2000})"')
_WHOLLY_QUOTED = re.compile(r"\\?[\"'`\u201c]([\s\S]+?)\\?[\"'`\u201d]")
# What follows an error of the way back: the error that made it necessary (parts.py).
_FIRST_ERROR = re.compile(r": original (?:upgrade|install) error: ")
# Quotes and backslashes in a quoted text of crdify, and the facts that come from one.
_ESCAPED = re.compile(r'\\(["\\])')
_GO_QUOTED = ("regexp", "former", "rule", "transition", "escaped")
# Ends of sentences and of texts that were cut, of which one is operator-controller's, and what
# callers say of the next attempt.
_CUT_END = re.compile(
    r"(?:,? (?:will retry|retrying|requeuing)"
    r"|\s{0,9}(?:\.{1,3}|\u2026)(?: \[message truncated\])?)$"
)
_WORDS_BEFORE = re.compile(
    r"(?i:^(?:rpc error: code = \w{1,40} desc = |(?:(?:reconciler )?error|warning"
    r"|(?:failed to|unable to|could not|cannot|can't|error while|error) [^:\"'\n]{1,100}): ))"
)
_QUOTES = re.compile(r"\\+[\"'`]|[\"'`\u2018\u2019\u201c\u201d]")
_CONFIDENCE = {"verified": "high", "partial": "medium", "unverified": "low"}
# What rukpak up to 0.16 writes to the owner of a Bundle before that one's message, and reasons with
# which it always does.
_OF_BUNDLE = re.compile(r"Failed to unpack the (\S{1,253}) Bundle: ")
_UNPACKING = ("UnpackFailed", "UnpackPending")


@dataclass(frozen=True, slots=True)
class KnowledgeMatch:
    """The entry that a text matched and what its pattern extracted."""

    entry: KnowledgeEntry
    facts: dict[str, str]

    @property
    def generality(self) -> tuple[bool, int]:
        """The more it says the less it is: a wrapper without a known cause inside it says least."""
        return self.entry.wrapper, self.entry.rank


def classify(
    text: str,
    *,
    kind: str = "",
    type: str = "",
    reason: str = "",
    name: str = "",
    namespace: str = "",
) -> Finding | None:
    """The finding for a raw message, None if no entry matches.

    `kind` is the Kubernetes kind of the object with the message, empty for any; `type` and `reason`
    are those of the condition. `name` and `namespace` of the object are filled into the texts. A
    deprecation is recognized by its type, because its message is that of the catalog's author,
    unless its reason says otherwise; a reason that ends all retries makes the finding not
    retryable.
    """
    if kind in _FORMER_KINDS:
        finding = classify(
            text, kind=_FORMER_KINDS[kind], type=type, reason=reason, name=name, namespace=namespace
        )
        return _about_former_kind(finding, kind) if finding else None
    refused = _POD_REFUSED.match(text) or (
        (kind in _MAKERS_OF_REPLICAS and type == _NO_REPLICA)
        or (kind in _MAKERS_OF_PODS and _NO_POD.match(text))
    )
    if kind not in KINDS and refused:
        kind = "Deployment"
    subject = {"kind": kind, "name": name, "namespace": namespace}
    names = {key: value for key, value in subject.items() if value}
    notice = text and reason not in _NOT_DEPRECATED and not text.startswith(_UNCHECKED)
    if type in DEPRECATIONS and notice:
        entry = by_id()[_DEPRECATED]
        groups = entry.regex.search(text[:TEXT_LIMIT])
        facts = _facts(groups) if groups else {}
        if type in _DEPRECATED_LEVELS:
            facts.setdefault(_DEPRECATED_LEVELS[type], type)
        return render(entry, facts, names)
    match = find(text, kind=kind)
    if match is None:
        return None
    if kind == "InstallPlan" and text.startswith(_TRIED_AGAIN):
        reason = reason or _PLAN_TRIED
    finding = _with_outcome(render(match.entry, match.facts, names, reason), kind, reason)
    return replace(finding, retryable=False, note=_GIVEN_UP) if reason in _FINAL else finding


def _about_former_kind(finding: Finding, kind: str) -> Finding:
    successor = _FORMER_KINDS[kind]

    def renamed(text: str) -> str:
        return text.replace(successor, kind).replace(successor.lower(), kind.lower())

    return replace(
        finding,
        cause_template=renamed(finding.cause_template),
        remedy_templates=tuple(map(renamed, finding.remedy_templates)),
        note=renamed(finding.note),
        others=tuple(_about_former_kind(other, kind) for other in finding.others),
    )


def finding_for(
    finding_id: str, facts: Mapping[str, str], names: Mapping[str, str], *, reason: str = ""
) -> Finding | None:
    """A stored finding with its texts filled; None if the id does not exist any more.

    `names` are the subject's: any of name, namespace, kind, package. `reason` is the stored reason
    of the subject.
    """
    entry = by_id().get(finding_id)
    if entry is None:
        return None
    return _with_outcome(render(entry, dict(facts), names, reason), names.get("kind", ""), reason)


def _with_outcome(finding: Finding, kind: str, reason: str) -> Finding:
    """The finding whose note says how long OLM tries an InstallPlan, whatever the cause, that a
    failed one stays failed, and when it tries a ClusterServiceVersion again that waits for RBAC.
    It names the Retry unless the remedy does, or replaces the plan, or the plan goes with its
    namespace; and what the Retry leaves of an upgrade."""
    if reason == _WAITS_FOR_RBAC:
        retryable = finding.retryable and finding.id in (*_REFUSALS, _DENIED)
        return replace(finding, retryable=retryable, note=_TRIED_AFTER_RBAC)
    if kind in _HAVE_PLANS and reason == _PLAN_FAILED:
        note = _PLAN_STAYS_FAILED
    elif kind == "InstallPlan" and reason == _PLAN_TRIED and not _tried_for_ever(finding):
        note = _PLAN_DENIED if finding.id == _DENIED else _PLAN_FAILS_SOON
    else:
        return finding
    steps = finding.remedy_templates
    replaced = not finding.retryable and replaces_plan(steps)
    names_retry = any(map(_NAMES_RETRY.search, steps))
    if finding.id in _PLAN_GOES or (replaced and not names_retry):
        return replace(finding, note=note)
    if not names_retry:
        note = f"{note} When the cause is gone, {_RETRY}."
    if by_id()[finding.id].installs_nothing or any(map(_NAMES_BOTH_VERSIONS.search, steps)):
        return replace(finding, note=note)
    return replace(finding, note=f"{note} {_RETRY_OF_UPGRADE}")


def _tried_for_ever(finding: Finding) -> bool:
    return finding.id in _REFUSALS or finding.facts.get("resource") == _PLANS


def find(text: str, *, kind: str = "") -> KnowledgeMatch | None:
    """The first entry that matches, following wrappers to the root cause.

    Lists (`[a, b]`, several constraints, several CRD checks) are split: the entry that comes first
    in the knowledge base wins, because controllers write such lists in random order, and the other
    errors become facts. A text with no
    entry, or only a general one, is tried once more in other wordings: in any case, with other
    quotes, without dots at its end and common words before it, as the message in a line of a log,
    and error by error where line ends or semicolons join several. That a message begins with the
    name of a Bundle is a fact, and so is the name if the entry has commands about its pod.
    """
    text = in_current_words(without_dumps(text[:TEXT_LIMIT]))
    match = _find_one(text, kind)
    others = _others(match, text, kind) if match else []
    if match is None:
        return None
    facts = {**match.facts, **_of_bundle(text, match.entry), **of_polling_pod(text, kind)}
    if match.entry.id in _FIELD_ERRORS and (fields := _fields(match, text, kind)):
        facts["detail"] = fields
    if others:
        facts[_OTHERS] = json.dumps(others[:_OTHERS_LIMIT])
    if len(others) > _OTHERS_LIMIT:
        facts[_LEFT_OUT] = str(len(others) - _OTHERS_LIMIT)
    return KnowledgeMatch(match.entry, facts)


def _of_bundle(text: str, entry: KnowledgeEntry) -> dict[str, str]:
    """That the text begins with the name of a Bundle, and the name if the entry has commands about
    the pod of that."""
    bundle = _OF_BUNDLE.match(text)
    if bundle is None:
        return {}
    remedies = (entry.remedy, *(variant.remedy for variant in entry.variants))
    has_pod = any("{unpack_pod}" in step for remedy in remedies for step in remedy)
    return {"makes_bundles": "true"} | ({"unpack_pod": bundle[1]} if has_pod else {})


def _others(match: KnowledgeMatch, text: str, kind: str) -> list[str]:
    """The errors that the text joins with the one of the match, and that have another cause or are
    about another object. None if the match is of an entry for all of them together."""
    errors = errors_of(text)
    if len(errors) == 1:
        return []
    by_subject: dict[tuple[str, ...], str] = {}  # the first error of each
    for error in errors:
        other = _of_error(error, kind)
        if other and not other.entry.wrapper and other.entry.stage != "normal":
            by_subject.setdefault(_subject(other), error)
    if by_subject.pop(_subject(match), ""):
        subjects = list(by_subject)
        if "excludes" in match.facts:  # reasons of the scheduler, of which any is a way out
            subjects.sort(key=lambda subject: list(by_id()).index(subject[0]))
        return [by_subject[subject] for subject in subjects]
    # Its texts are about all errors that have its cause.
    others = [error for subject, error in by_subject.items() if subject[0] != match.entry.id]
    return others if len(others) < len(by_subject) else []


def _fields(match: KnowledgeMatch, text: str, kind: str) -> str:
    """What the text says of each field of the object that the match is about, if of several."""
    matches = [_of_error(error, kind) for error in errors_of(text)]
    same = [other for other in matches if other and _subject(other) == _subject(match)]
    return "; ".join(other.facts.get("detail", "") for other in same) if len(same) > 1 else ""


def _subject(match: KnowledgeMatch) -> tuple[str, ...]:
    """The cause of a match and the object that it is about, with what is said of a property."""
    facts = match.facts
    about = facts.get("detail", "") if "property" in facts else ""
    return match.entry.id, about, *(facts.get(name, "") for name in _OBJECT_FACTS)


@lru_cache(maxsize=256)
def _of_error(error: str, kind: str) -> KnowledgeMatch | None:
    return _find_one(error, kind)


def _find_one(text: str, kind: str) -> KnowledgeMatch | None:
    match = _follow(text, _entries_for(kind), _WRAPPER_DEPTH)
    if match is not None and match.generality < (False, 1):
        return match
    other = _find_reworded(text[:_REWORDED_LIMIT], kind)
    if match is None or (other is not None and other.generality < match.generality):
        return other
    return match


def render(
    entry: KnowledgeEntry, facts: dict[str, str], names: Mapping[str, str], reason: str = ""
) -> Finding:
    """The entry's finding, its texts to be filled with the names and the facts.

    `reason` is that of the condition with the message.

    Facts win: if another object than the subject reports the message, they contain its `kind`,
    `namespace` and `name`, and the commands are about that object.
    """
    values = {**names, **facts}
    kind = values.get("kind", "")
    variant = _variant(entry, facts, kind, reason)
    retryable = variant.retryable if variant else None
    others = _findings_of_others(facts, names, reason)
    return Finding(
        id=entry.id,
        title=(variant and variant.title) or entry.title,
        cause_template=with_polling_pod((variant and variant.cause) or entry.cause, facts),
        remedy_templates=completed(
            _about_unpack_pod(for_facts((variant or entry).remedy, facts), facts),
            kind,
            plan_failed=kind in _HAVE_PLANS and reason == _PLAN_FAILED,
            fails_forward=reason != _WAITS_FOR_RBAC,
            clusterwide=facts.get("object_namespace") == "",
            makes_bundles=_makes_bundles(facts, reason),
            written_back=_is_written_back(values),
        ),
        retryable=(entry.retryable if retryable is None else retryable)
        and all(other.retryable for other in others),
        facts=facts,
        confidence=_CONFIDENCE[entry.verified],
        source=entry.source,
        note=(variant and variant.note) or entry.note,
        instead=entry.instead,
        values=values,
        others=others,
    )


def _findings_of_others(
    facts: Mapping[str, str], names: Mapping[str, str], reason: str
) -> tuple[Finding, ...]:
    """The findings of the further errors of a message, about the object that reports it."""
    subject = {**names, **{name: facts[name] for name in _REPORTER if name in facts}}
    kind = subject.get("kind", "")
    matches = [_of_error(error, kind) for error in json.loads(facts.get(_OTHERS, "[]"))]
    return tuple(
        render(match.entry, match.facts, subject, reason) for match in matches if match is not None
    )


# CatalogSources that marketplace-operator of OpenShift writes back (pkg/defaults).
_MARKETPLACE = "openshift-marketplace"
_DEFAULT_CATALOGS = (
    *("redhat-operators", "certified-operators", "community-operators", "redhat-marketplace"),
)


def _is_written_back(values: Mapping[str, str]) -> bool | None:
    """Whether the CatalogSource that a message is about is one of OpenShift's own; None if its
    name is not known."""
    if values.get("kind") == "CatalogSource":
        namespace, name = values.get("namespace"), values.get("name")
    else:
        namespace, name = values.get("object_namespace"), values.get("catalog")
    if not namespace or not name:
        return None
    return namespace == _MARKETPLACE and name in _DEFAULT_CATALOGS


def _makes_bundles(facts: Mapping[str, str], reason: str) -> bool | None:
    """Whether a message of a BundleDeployment is of a release of rukpak that makes Bundles of it;
    None if neither the message nor the reason tells."""
    if facts.get("makes_bundles"):
        return True
    return False if reason in _UNPACKING else None


def _about_unpack_pod(steps: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """The steps about the pod that unpacks a bundle, which has the name of the Bundle in the
    message, or else of the object itself."""
    if facts.get("unpack_pod"):
        return steps
    return tuple(step.replace("{unpack_pod}", "{name}") for step in steps)


def _variant(
    entry: KnowledgeEntry, facts: Mapping[str, str], kind: str, reason: str
) -> Variant | None:
    """The first variant of the entry that fits."""
    return next((row for row in entry.variants if row.fits(facts, kind, reason)), None)


def title_for(finding_id: str, facts: Mapping[str, str], kind: str, reason: str = "") -> str:
    """The title of a stored finding; empty if the id does not exist any more.

    `kind` and `reason` are those of the subject.
    """
    entry = by_id().get(finding_id)
    if entry is None:
        return ""
    variant = _variant(entry, facts, facts.get("kind", kind), reason)
    return (variant and variant.title) or entry.title


@lru_cache(maxsize=256)  # in a burst many objects have the same message, each needed twice
def fingerprint(text: str) -> str:
    """The text with all parts replaced that vary between objects, at most 300 characters.

    Messages without an entry are counted by it.
    """
    text = strip_prefixes(text[:TEXT_LIMIT])
    text = re.sub(r'"[^"\n]{0,300}"|\'[^\'\n]{0,300}\'', '"…"', text)
    text = re.sub(r"\bsha256:[0-9a-f]{6,64}\b|\b[0-9a-f]{8,64}\b", "#", text)
    text = re.sub(r"\d+", "0", text)
    return " ".join(text.split())[:300]


@lru_cache(maxsize=256)  # texts without an entry are many passes, and come back at every sync
def _find_reworded(text: str, kind: str) -> KnowledgeMatch | None:
    text = _CUT_END.sub("", text.strip())
    bare = unquoted[1] if (unquoted := _WHOLLY_QUOTED.fullmatch(text)) else text
    wordings = [
        wording for part in (bare, _without_words_before(bare)) for wording in _quoted(part)
    ]
    wordings += [logged[1].replace('\\"', '"') for logged in _LOGGED.finditer(text)]
    matches = [_in_any_case(wording, kind) for wording in dict.fromkeys(wordings)]
    # One of the joined errors may be a line of a log, so that one that is no failure counts for
    # nothing.
    errors = [error.strip() for error in _ERROR_ENDS.split(text)[:_ERRORS_LIMIT]]
    of_errors = [_in_any_case(error, kind) for error in errors if error and error != text]
    matches += [match for match in of_errors if match and match.entry.stage != "normal"]
    return min(filter(None, matches), key=lambda match: match.generality, default=None)


def _in_any_case(text: str, kind: str) -> KnowledgeMatch | None:
    return _follow(text, _entries_in_any_case(kind), _WRAPPER_DEPTH, any_case=True)


def _quoted(text: str) -> tuple[str, str, str]:
    """The text with its own quotes, with double ones and with single ones."""
    plain = _QUOTES.sub('"', text)
    return text, plain, plain.replace('"', "'")


def _without_words_before(text: str) -> str:
    """The text without words that any caller puts before an error."""
    for _ in range(_WRAPPER_DEPTH):
        text = _WORDS_BEFORE.sub("", text, count=1)
    return text


@cache
def _entries_in_any_case(kind: str) -> tuple[KnowledgeEntry, ...]:
    return tuple(
        msgspec.structs.replace(
            entry,
            regex=re.compile(entry.pattern, re.IGNORECASE),
            literals=tuple(literal.lower() for literal in entry.literals),
        )
        for entry in _entries_for(kind)
        if entry.rank >= 0
    )


@cache
def _entries_for(kind: str) -> tuple[KnowledgeEntry, ...]:
    """The entries about `kind`; about any kind if it is empty or no entry knows it, as for Events
    of a Namespace or a Job."""
    about = tuple(entry for entry in knowledge() if kind in entry.kinds)
    return about or tuple(entry for entry in knowledge() if entry.rank < _ONLY_WITH_KIND)


def _follow(
    text: str, entries: Sequence[KnowledgeEntry], depth: int, *, any_case: bool = False
) -> KnowledgeMatch | None:
    match = _first(text, entries, any_case)
    if match is None or not match.entry.wrapper or depth == 0:
        return match
    inner = next((match.facts[group] for group in _INNER_GROUPS if match.facts.get(group)), "")
    shorter = inner and len(inner) < len(text)
    root = _follow(inner, entries, depth - 1, any_case=any_case) if shorter else None
    if root is None or root.entry.id == match.entry.id or root.entry.stage == "normal":
        return match
    if root.entry.wrapper and root.entry.rank > match.entry.rank:
        return match
    facts = {**root.facts, "context": match.entry.title}
    step = strip_prefixes(text).removesuffix(inner).strip(": -\n")[-_STEP_LIMIT:]
    if step and "step" in root.entry.regex.groupindex:
        facts.setdefault("step", step)
    return KnowledgeMatch(root.entry, facts)


def _first(text: str, entries: Sequence[KnowledgeEntry], any_case: bool) -> KnowledgeMatch | None:
    text = strip_prefixes(text)
    forth = error_before_way_back(text)
    cause = _first(forth, entries, any_case) if forth else None
    if cause is not None and not cause.entry.wrapper:
        return cause
    parts = [(part, part.lower() if any_case else part) for part in parts_of(text)]
    for entry in entries:
        literals = entry.literals
        for part, searched in parts:
            for literal in literals:
                if literal in searched:
                    break
            else:
                if literals:
                    continue
            if match := entry.regex.search(part):
                return KnowledgeMatch(entry, _facts(match))
    return None


def _facts(match: re.Match[str]) -> dict[str, str]:
    """Named groups that matched; `crd2` of a second alternative becomes `crd`."""
    facts: dict[str, str] = {}
    for name, value in match.groupdict().items():
        if value is not None:
            fact = name.rstrip("0123456789")
            value = _ESCAPED.sub(r"\1", value) if fact in _GO_QUOTED else value
            facts.setdefault(fact, _FIRST_ERROR.split(value)[0].strip())
    return facts
