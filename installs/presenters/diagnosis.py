"""Presents the diagnosis of an operator: chain, notes, remedy steps, condition tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from catalogs.models import Catalog
from installs.actions.alternatives import alternatives
from installs.diagnosis.knowledge import Finding
from installs.diagnosis.remedies import is_command, is_filled
from installs.diagnosis.types import ChainLink
from installs.models import NEEDS_ATTENTION, Component, Health, Operator
from installs.presenters.object_details import Fact, facts_of
from installs.queries.catalog_troubles import catalog_trouble
from installs.queries.operator_detail import Parts, key_of
from installs.queries.providers import missing_api, provider_searches
from installs.reports import object_yaml
from installs.state.observation import UnreadKind, details_of
from olmweb.accounts.roles import AnyUser, may_act
from olmweb.kube.resources import CATALOG_SOURCES, CLUSTER_CATALOGS, INSTALL_PLANS

STATE_ICONS = {
    "ok": "check-circle",
    "progressing": "sync",
    "failed": "exclamation-circle",
    "waiting": "in-progress",
    "absent": "circle",
    "unknown": "question-circle",
}
STATE_WORDS = {
    "ok": "OK",
    "progressing": "in progress",
    "failed": "failed",
    "waiting": "waiting",
    "absent": "not created",
    "unknown": "not known",
}
WHAT = {
    "PlatformOperator": "the request",
    "ClusterExtension": "the request",
    "Subscription": "the request",
    "BundleDeployment": "applies the bundle's objects",
    "Bundle": "fetches and checks the bundle's content",
    "ClusterObjectSet": "one revision of the objects",
    "CatalogSource": "the catalog of the package",
    "InstallPlan": "the resolved versions and their approval",
    "ClusterServiceVersion": "the installed version and what it requires",
    "Deployment": "runs the operator",
    "Pod": "a running instance of the operator",
    "OperatorGroup": "which namespaces the operators of this namespace watch",
    "OperatorCondition": "whether the operator allows an upgrade",
    "Operator": "all objects of this operator, as listed by OLM",
}

# Source of a catalog -> the kind of its object on the cluster.
CATALOG_KINDS = {
    Catalog.SourceKind.CATALOG_SOURCE: CATALOG_SOURCES.kind,
    Catalog.SourceKind.PACKAGE_MANIFEST: CATALOG_SOURCES.kind,
    Catalog.SourceKind.CLUSTER_CATALOG: CLUSTER_CATALOGS.kind,
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
class RemedyLink:
    """A link, or plain text without `url`, behind the first sentence of a remedy with `word`."""

    word: str
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class RemedyStep:
    """One step of a remedy: commands to copy or sentences, one in each line, with links."""

    text: str
    command: bool
    links: tuple[RemedyLink, ...] = ()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@dataclass(frozen=True, slots=True)
class NextStep:
    """An operator that an action was about, and the next step. `plan` is the InstallPlan in
    `plan_namespace` that requires approval, or empty."""

    operator: Operator
    failing: bool
    plan: str = ""
    plan_namespace: str = ""


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One link of the chain as the page shows it; `open` shows its message at once. `is_next`: it
    is of the version after the installed one. `unread` is set for an object that is not known."""

    link: ChainLink
    icon: str
    words: str
    what: str
    created_at: datetime | None
    image: str
    conditions: list[dict[str, Any]]
    facts: list[Fact]
    open: bool
    has_yaml: bool  # the object can be read on its YAML page
    is_next: bool
    unread: UnreadKind | None


@dataclass(frozen=True, slots=True)
class RelatedObject:
    """An object that is no link of the chain; `row` is None when it is named and not stored,
    `unread` is set then if it may exist."""

    kind: str
    namespace: str
    name: str
    what: str
    row: Component | None
    facts: list[Fact]
    unread: UnreadKind | None = None

    @property
    def has_yaml(self) -> bool:
        """Whether the object can be read on its YAML page."""
        return self.row is not None and self.kind in object_yaml.KINDS


@dataclass(frozen=True, slots=True)
class Note:
    """A note beside the cause; `words` are the message of the cluster."""

    state: str
    title: str
    cause: str
    words: str
    steps: list[RemedyStep]


@dataclass(frozen=True, slots=True)
class ConditionTable:
    """The conditions of one object."""

    title: str
    conditions: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ResourceConflict:
    """An object that an operator brings and that exists already, with its owner in words; `owning`
    is the owner if it is an operator of the cluster."""

    resource: str
    owner: str
    operator: Operator
    owning: Operator | None


def resource_conflicts(
    operators: Iterable[Operator], owners: Mapping[tuple[int, str], Operator]
) -> list[ResourceConflict]:
    """The conflict of each operator, by object; empty if a finding names no object, or none of them
    an owner. `owners` are those of `conflict_owners`."""
    conflicts = []
    owned = False
    for row in operators:
        facts = row.facts
        name = facts.get("object_name") or facts.get("object")
        if not name:
            return []
        owned = owned or bool(facts.get("owner"))
        words = f"{facts.get('object_kind', '')} {name}".strip()
        namespace = facts.get("object_namespace")
        words += f" in {namespace}" if namespace else ""
        owning = owners.get((row.cluster_id, facts.get("owner", "")))
        conflicts.append(ResourceConflict(words, _owner_in_words(facts), row, owning))
    return sorted(conflicts, key=lambda conflict: conflict.resource) if owned else []


def _owner_in_words(facts: Mapping[str, str]) -> str:
    if facts.get("owner"):
        return f"{facts.get('owner_kind') or 'release'} {facts['owner']}"
    if facts.get("other_namespace"):
        return f"release in namespace {facts['other_namespace']}"
    return facts.get("manager") or ("no release" if facts.get("unowned_release") else "not known")


def remedy_steps(remedy: Iterable[str], links: Sequence[RemedyLink] = ()) -> list[RemedyStep]:
    """The lines of a remedy as steps, each link at the first sentence with its word. Commands about
    an object whose name is not known are left out: they can't be run as they are."""
    left = list(links)
    steps_shown = []
    for line in remedy:
        command = is_command(line)
        if command and not is_filled(line):
            continue
        here = tuple(link for link in left if not command and link.word in line)
        left = [link for link in left if link not in here]
        steps_shown.append(RemedyStep(line, command, here))
    return steps_shown


def trouble_of_catalog(catalog: Catalog) -> dict[str, Any]:
    """What the page of a catalog shows of its object on the cluster: `trouble`, a CatalogTrouble or
    None, and `trouble_steps`, its remedy. At most three queries."""
    kind = CATALOG_KINDS.get(Catalog.SourceKind(catalog.source_kind))
    if catalog.cluster is None or kind is None:
        return {"trouble": None}
    trouble = catalog_trouble(catalog.cluster, kind, catalog.namespace, catalog.name)
    finding = trouble.finding if trouble else None
    return {
        "trouble": trouble,
        "trouble_steps": remedy_steps(finding.remedy) if finding else [],
    }


def notes_shown(notes: Iterable[Finding]) -> list[Note]:
    """Notes of a diagnosis with an icon each."""
    return [
        Note(
            state=NOTE_STATES.get(note.id, "note"),
            title=note.title,
            cause=note.cause,
            words=note.facts.get("message", ""),
            steps=remedy_steps(note.remedy),
        )
        for note in notes
    ]


def chain(operator: Operator, links: Sequence[ChainLink], parts: Parts) -> list[ChainStep]:
    """The chain with ages and conditions of each object; the first broken link is open, and those
    that are not known."""
    rows: dict[tuple[str, str, str], Operator | Component] = {
        key_of(component): component for component in parts.components
    }
    # A CSV without a Subscription is both: its component has the phase and the requirements.
    rows.setdefault(key_of(operator), operator)
    installed = bool(details_of(operator).get("installed_csv"))
    shown = []
    for link in links:
        row = rows.get((link.kind, link.namespace, link.name))
        unread = parts.unread.get(link.kind) if link.state == "unknown" else None
        shown.append(
            ChainStep(
                link=link,
                icon=STATE_ICONS.get(link.state, "question-circle"),
                words=_state_words(link, unread),
                what=WHAT.get(link.kind, ""),
                created_at=row.created_at if row else None,
                image=row.image if isinstance(row, Component) else "",
                conditions=row.conditions if row else [],
                facts=facts_of(row) if row else [],
                open=link.first_broken or unread is not None,
                unread=unread,
                is_next=link.kind == INSTALL_PLANS.kind and installed,
                has_yaml=row is not None and link.kind in object_yaml.KINDS,
            )
        )
    return shown


def _state_words(link: ChainLink, unread: UnreadKind | None) -> str:
    """A Subscription names only an InstallPlan that OLM v0 has created: one that is absent was
    deleted."""
    if unread is not None and unread.forbidden:
        return "can't be read"
    if (link.kind, link.state) == (INSTALL_PLANS.kind, "absent"):
        return "deleted"
    return STATE_WORDS.get(link.state, link.state)


def related_objects(links: Sequence[ChainLink], parts: Parts) -> list[RelatedObject]:
    """Objects that belong to the operator or are named by it, outside its chain, those that are not
    stored first.
    """
    shown = {(link.kind, link.namespace, link.name) for link in links}
    absent = [
        RelatedObject(
            reference.kind,
            reference.namespace,
            reference.name,
            WHAT.get(reference.kind, ""),
            None,
            [],
            parts.unread.get(reference.kind),
        )
        for reference in parts.absent
        # OLM makes these two when it needs them: that they are missing says nothing.
        if reference.kind not in ("OperatorCondition", "Operator")
        and (reference.kind, reference.namespace, reference.name) not in shown
    ]
    there = [
        RelatedObject(
            component.kind,
            component.namespace,
            component.name,
            WHAT.get(component.kind, ""),
            component,
            facts_of(component),
        )
        for component in parts.components
        if key_of(component) not in shown
    ]
    return absent + there


def condition_tables(operator: Operator, components: Sequence[Component]) -> list[ConditionTable]:
    """The operator's conditions, then those of each component that has any."""
    below = [
        component
        for component in components
        if component.conditions and key_of(component) != key_of(operator)
    ]
    # The sync keeps none of a CSV's: its conditions are a log, not a state.
    own = [] if operator.kind == "ClusterServiceVersion" else [operator]
    return [ConditionTable(f"{row.kind} {row.name}", row.conditions) for row in (*own, *below)]


def remedy_links(
    user: AnyUser,
    operator: Operator,
    finding: Finding | None,
    catalogs: Callable[[], Sequence[Catalog]],
    *,
    configurable: bool = False,
) -> list[RemedyLink]:
    """Links that lead to no refusal and to no empty list. `catalogs` reads those of
    `catalogs_beside` the operator. `configurable`: the operator has `spec.config`, whose form is
    offered to people who act on clusters."""
    if finding is None:
        return []
    forms = alternatives(user, operator, finding.instead, catalogs) if finding.instead else ()
    links = [RemedyLink(form.path, f"Install as {form.path}", form.url) for form in forms]
    if configurable and may_act(user)[0]:
        where = (operator.cluster.name, operator.kind, operator.namespace or "-", operator.name)
        address = reverse("installs:configure", args=where)
        links.append(RemedyLink("spec.config", "Edit configuration", address))
    if api := missing_api(finding):
        search = provider_searches(operator.cluster, [api]).get(api)
        none = f"No catalog of {operator.cluster.name} offers one."
        links.append(
            RemedyLink("provides", f"Find {search.words}", search.url)
            if search
            else RemedyLink("provides", none)
        )
    return links


def next_steps(operators: Iterable[Operator], *, acts: bool) -> list[NextStep]:
    """What leads on from an action; an approval is offered only to people who act on clusters."""
    steps = []
    for row in operators:
        details = details_of(row)
        waits = row.health == Health.NEEDS_APPROVAL
        plan = str(details.get("plan") or "") if waits and acts else ""
        namespace = str(details.get("plan_namespace") or row.namespace)
        failing = row.health in NEEDS_ATTENTION and not waits
        steps.append(NextStep(row, failing, plan, namespace))
    return steps
