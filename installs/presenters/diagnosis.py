"""Presents the diagnosis of an operator: chain, notes, remedy steps, condition tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installs.actions.alternatives import installs_instead
from installs.diagnosis import Finding, Link, is_command
from installs.models import Component, Operator
from installs.presenters.object_details import Fact, facts_of
from installs.queries.operator_detail import Parts, key_of
from installs.queries.providers import missing_api, provider_searches
from olmweb.accounts.roles import AnyUser

STATE_ICONS = {
    "ok": "check-circle",
    "progressing": "sync",
    "failed": "exclamation-circle",
    "waiting": "in-progress",
    "absent": "circle",
}
STATE_WORDS = {
    "ok": "OK",
    "progressing": "in progress",
    "failed": "failed",
    "waiting": "waiting",
    "absent": "not there yet",
}
WHAT = {
    "PlatformOperator": "what you asked for",
    "ClusterExtension": "what you asked for",
    "Subscription": "what you asked for",
    "BundleDeployment": "applies the bundle's objects",
    "Bundle": "fetches and checks the bundle's content",
    "ClusterObjectSet": "one revision of the objects",
    "CatalogSource": "the catalog it comes from",
    "InstallPlan": "what OLM resolved, and its approval",
    "ClusterServiceVersion": "the installed version and what it requires",
    "Deployment": "runs the operator",
    "Pod": "one running copy of the operator",
    "OperatorGroup": "which namespaces the operators of this namespace watch",
    "OperatorCondition": "what the operator says about its own upgrade",
    "Operator": "every object of this operator, as OLM counts them",
}


# Findings that are notes -> the state that they are shown as; others are shown as information.
NOTE_STATES = {
    "step-takes-long": "stuck",
    "deletion-takes-long": "stuck",
    "csv-without-subscription": "orphan",
    "deprecated-entry": "deprecated",
    "upgrade-held": "held",
}


@dataclass(frozen=True, slots=True)
class Aid:
    """What stands behind the first sentence of a remedy that has `word`: a link, or plain words."""

    word: str
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a remedy: a command to copy or a sentence to read, and what helps with it."""

    text: str
    command: bool
    aids: tuple[Aid, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One link of the chain as the page shows it; `open` shows its message at once."""

    link: Link
    icon: str
    words: str
    what: str
    created_at: datetime | None
    image: str
    conditions: list[dict[str, Any]]
    facts: list[Fact]
    open: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """An object that is no link of the chain; `row` is None when it is named and not there."""

    kind: str
    namespace: str
    name: str
    what: str
    row: Component | None
    facts: list[Fact]


@dataclass(frozen=True, slots=True)
class Note:
    """What is worth knowing beside the cause; `words` are the cluster's own."""

    state: str
    title: str
    cause: str
    words: str
    steps: list[Step]


@dataclass(frozen=True, slots=True)
class ConditionTable:
    """The conditions of one object, as it says them."""

    title: str
    conditions: list[dict[str, Any]]


def steps(remedy: Iterable[str], aids: Sequence[Aid] = ()) -> list[Step]:
    """A remedy's lines, commands told from sentences, each aid at its own."""
    left = list(aids)
    found = []
    for line in remedy:
        command = is_command(line)
        here = tuple(one for one in left if not command and one.word in line)
        left = [one for one in left if one not in here]
        found.append(Step(line, command, here))
    return found


def notes_shown(notes: Iterable[Finding]) -> list[Note]:
    """Notes of a diagnosis with an icon each."""
    return [
        Note(
            state=NOTE_STATES.get(note.id, "note"),
            title=note.title,
            cause=note.cause,
            words=note.facts.get("message", ""),
            steps=steps(note.remedy),
        )
        for note in notes
    ]


def chain(
    operator: Operator, links: Sequence[Link], components: Sequence[Component]
) -> list[ChainStep]:
    """The chain with ages and conditions of each object; only the first broken link is open."""
    rows: dict[tuple[str, str, str], Operator | Component] = {
        key_of(component): component for component in components
    }
    # A CSV without a Subscription is both: its component has the phase and the requirements.
    rows.setdefault(key_of(operator), operator)
    found = []
    for link in links:
        row = rows.get((link.kind, link.namespace, link.name))
        found.append(
            ChainStep(
                link=link,
                icon=STATE_ICONS.get(link.state, "question-circle"),
                words=STATE_WORDS.get(link.state, link.state),
                what=WHAT.get(link.kind, ""),
                created_at=row.created_at if row else None,
                image=row.image if isinstance(row, Component) else "",
                conditions=row.conditions if row else [],
                facts=facts_of(row) if row else [],
                open=link.first_broken,
            )
        )
    return found


def besides(links: Sequence[Link], parts: Parts) -> list[Beside]:
    """What belongs to it or is named by it and is no link of its chain, absent ones first."""
    shown = {(link.kind, link.namespace, link.name) for link in links}
    absent = [
        Beside(one.kind, one.namespace, one.name, WHAT.get(one.kind, ""), None, [])
        for one in parts.absent
        # OLM makes these two when it needs them: that they are missing says nothing.
        if one.kind not in ("OperatorCondition", "Operator")
        and (one.kind, one.namespace, one.name) not in shown
    ]
    there = [
        Beside(one.kind, one.namespace, one.name, WHAT.get(one.kind, ""), one, facts_of(one))
        for one in parts.components
        if key_of(one) not in shown
    ]
    return absent + there


def condition_tables(operator: Operator, components: Sequence[Component]) -> list[ConditionTable]:
    """The operator's conditions, then those of each component that has any."""
    below = [one for one in components if one.conditions and key_of(one) != key_of(operator)]
    # The sync keeps none of a CSV's: its conditions are a log, not a state.
    own = [] if operator.kind == "ClusterServiceVersion" else [operator]
    return [ConditionTable(f"{one.kind} {one.name}", one.conditions) for one in (*own, *below)]


def aids_of(user: AnyUser, operator: Operator, finding: Finding | None) -> list[Aid]:
    """Links that lead to no refusal and to no empty list."""
    if finding is None:
        return []
    forms = installs_instead(user, operator, finding.instead)
    aids = [Aid(one.path, f"Install as {one.path}", one.url) for one in forms]
    if api := missing_api(finding):
        found = provider_searches(operator.cluster, [api]).get(api)
        none = f"No catalog of {operator.cluster.name} offers one."
        aids.append(
            Aid("provides", f"Find {found.words}", found.url) if found else Aid("provides", none)
        )
    return aids
