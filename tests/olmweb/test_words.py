"""Pages, messages and rules use the words of the OpenShift Console and of OLM."""

from pathlib import Path

import pytest

from tests.conftest import ROOT

# Texts that made admins stop, each with the one that took its place.
REPLACED = {
    "comes along or must be there": "Dependencies",
    "Reaches into the cluster": "Webhooks, APIServices and namespace",
    ">As its author published": "Catalog entry as published",
    "not there any more": "Not found",
    "have no edge at all": "without any edge",
    'replace or skip each other in a ring"': "in a cycle of replaces and skips",
    '"If moved"': "Installed",
    "retries by itself": "retries automatically",
    "goes away by itself": "disappears automatically",
    "goes on by itself": "continues automatically",
    "belongs to nobody": "has no owner",
    "lie in etcd": "are stored in etcd",
    "PlatformOperator that asks for it": "the PlatformOperator",
    "feeds that it serves": "served resources watched",
    "In step with it": "Last synced",
    "feeds can't be read": "watched resources can't be read",
    "It is tried again by itself": "It is retried automatically",
    "The registry asked to wait": "The registry limits requests",
    '"not there yet"': "not created",
    "Last heard": "Last event",
    "Nothing was heard": "No event",
    "and why not the rest": "what blocks the others",
    "judged yet": "evaluated yet",
    ">Way<": "Access method",
    "no better way": "no better access method",
    "is shown as a way": "upgrade paths",
    '"Risk" "May"': "Verbs",
    "It asks for none": "None requested",
    "Owner now": "Current owner",
    "in the way of an update": "blocks an update",
    "Is asked about": "Called for",
    "What OLM says": "Message of OLM",
    "does not know this message": "No entry of the knowledge base matches",
    "nothing that a known controller writes": "no condition of a known controller",
    "stand in the way": "block an upgrade",
    "what you asked for": "the request",
    "follows {now}; it stays": "is an upgrade of ...",
    "heads and edges don't count": "channel heads and upgrade edges are ignored",
    "goes there by itself": "is upgraded to it automatically",
    "dry run needs the namespace": "its namespace does not exist yet",
    "pending InstallPlan blocks all Subscriptions": "no Subscription ... is updated",
    "Nothing says that the next update": "The cluster reports no condition that blocks an update",
    "Install software": "Browse software catalog",
    "began to fail": "new failures",
    "first seen, in the state": "discovered at first sync",
    "Waiting for you": "Needs your action",
    "CRDs that will block an upgrade<": "CRDs with stale storedVersions",
    "this installer": "the name of the controller",
    "Retrying alone": "Retrying won't fix this",
    "Retrying does not help": "Retrying won't fix this",
    "Objects owned by another release": "Resource conflict: owned by another operator",
    "Catalog pod does not answer": "CatalogSource unhealthy: registry pod not responding",
    "crashes again and again": "Operator pod in CrashLoopBackOff",
    "Upgrade held": "No direct upgrade to ...",
    "Where it stands": "Install progress",
    "Also involved": "Related objects",
    "Freshness": "Sync status",
    ">Feeds<": "Watched resources",
    "Not heard from": "unreachable since",
    "What was heard of each kind": "Sync status",
    "Can it be installed?": "Compatibility with ...",
    "No rule speaks against it": "No blocking rule found",
    "rules that speak": "matching rules",
    "Its prediction": "Why?",
    "Show the way": "Find upgrade path",
    "The way there": "Upgrade path",
    "The way: ": "Upgrade path: ",
    "the way asked for": "upgrade path",
    "no other version leads to": "without incoming upgrade",
    "Goes by itself to": "Auto-upgrades to",
    "What would be chosen?": "Test resolution",
    "Beside what happened": "Predicted vs actual",
    "Came true": "Matched",
    "Ways to read it": "Access methods",
    "Who does what with it": "Impact by consumer",
    "obstacle{{": "blocker",
    "the way out of each": "each with its resolution",
    "Way out:": "Resolution:",
    "How much it weighs": "Severity",
    "Can't be taken over": "Not migratable",
    "What would become of it": "Verdict of the migration",
    '"In the way"': "Blockers and changes",
    "Where it can go": "Channel and version",
    "As it is": "No change",
    "Approval of upgrades": "Update approval",
    "Not tried yet": "Not validated yet",
    "What would be sent": "Manifests to apply",
    "Waits for its turn": "Queued",
    "is carried out:": "completed:",
    "pluralize }} under way": "in progress",
    ">Asked": "Requested",
    '"Asked"': "Requested",
    "<dt>Sent<": "Applied",
    "<dt>Ended<": "Finished",
    "What was sent": "Manifests",
    "cluster took it": "Applied",
    "What goes with it": "What will be deleted",
    "know what goes with it": "I understand that these resources will be deleted",
    "this is sent:": "Manifests to apply",
    "Waits for approval": "Manual approval required",
    "waits for approval to install": "requires manual approval to install",
    "Ask for it": "Request installation",
    "so nothing was asked for": "Form changed, nothing applied. Review again.",
    "package gone": "package removed",
    "is not kept": "is not stored",
    ">Who<": "View operators",
    ">Fix<": "View remedy",
    "Where it {%": "Install progress",
    "is carried out": "completed",
    "I know what goes with it": "I understand that these resources will be deleted",
    "come by themselves": "install automatically",
    "This is not what was reviewed": "Form changed, nothing applied. Review again.",
    "Exactly this is sent": "Manifests to apply",
    "The cluster took it": "Applied",
    'aria-label="Path"': "Install method",
    'words="Path"': "Install method",
}
FOLDERS = ("templates", "catalogs", "installs", "olmweb")
TEXTS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".html", ".py", ".yaml", ".txt") and "migrations" not in path.parts
]


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    assert len(TEXTS) > 300
    return {path: path.read_text(encoding="utf-8") for path in TEXTS}


@pytest.mark.parametrize("old", REPLACED)
def test_a_replaced_text_does_not_come_back(texts: dict[Path, str], old: str) -> None:
    found = [str(path.relative_to(ROOT)) for path, text in texts.items() if old in text]
    assert not found, f"say {REPLACED[old]!r} instead of {old!r}"
