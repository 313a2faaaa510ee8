"""Warnings about an install, which never prevent it. Reads rows only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from catalogs.install_methods import InstallMethod
from catalogs.verdicts.catalog_health import health_context, health_notes, source_of
from catalogs.verdicts.rules import RULES
from installs.actions.install_rows import InstallRows
from installs.audit.audit import check_namespace
from installs.diagnosis.entries import by_id
from installs.methods import METHODS, InstallChoice
from installs.models import Operator
from installs.queries.operators import has_installed_nothing

ONE_GROUP = "sub-one-group"
SOURCES = {rule.id: rule.source for rule in RULES}


@dataclass(frozen=True, slots=True)
class InstallWarning:
    """`rule` is the id of the expected finding, or of our own rule; `source` is where the rule is
    in the controllers' code; `other` is the installed operator that it is about."""

    rule: str
    text: str
    source: str = ""
    other: Operator | None = field(default=None, compare=False)


def install_warnings(
    choice: InstallChoice, rows: InstallRows, target: str
) -> Iterator[InstallWarning]:
    """`target` is the bundle to install, empty if there is none. Its verdict is part of
    the plan and not among these. One query beside those of `rows`."""
    yield from _of_catalog(choice, rows)
    yield from _of_bundle(choice, rows, target)
    if METHODS[choice.method].needs_group:
        yield from _of_groups(choice, rows)
    yield from _of_neighbours(choice, rows)


def _of_catalog(choice: InstallChoice, rows: InstallRows) -> Iterator[InstallWarning]:
    """The health of the catalog, such as that it does not answer."""
    context = health_context(rows.package.catalog, rows.cluster.pk)
    for note in health_notes(context)[choice.method]:
        yield InstallWarning(note.rule, note.sentence, SOURCES[note.rule])


def _of_bundle(choice: InstallChoice, rows: InstallRows, target: str) -> Iterator[InstallWarning]:
    if not target:
        in_channel = f" in channel {choice.channel}" if choice.channel else ""
        sentence = f"No version of {rows.package.name}{in_channel} matches."
        yield InstallWarning("nothing-chosen", sentence)
        return
    bundle = rows.bundle(target)
    if bundle is None:
        return  # a sync replaced it just now
    if bundle.deprecated:
        yield InstallWarning("deprecated", f"The catalog marks {target} as deprecated.")
    method = METHODS[choice.method]
    names_account = choice.service_account and "service_account" in method.fields.values()
    if names_account and choice.known_fields and "service_account" not in method.offered(choice):
        yield InstallWarning(
            "service-account-ignored",
            f"spec.serviceAccount is deprecated on cluster {rows.cluster.name} or absent there, so "
            f"{choice.service_account} is left out: operator-controller installs {target} itself.",
        )
    elif names_account:
        yield InstallWarning(
            "service-account-rights",
            f"The ServiceAccount {choice.service_account} needs every right that {target} asks "
            f"for; a new one has none. {_preflight(rows.gates)} 1.11 and later do not look at the "
            "ServiceAccount.",
        )


def _preflight(gates: Mapping[str, bool] | None) -> str:
    """How operator-controller treats missing permissions, by its feature gates."""
    if gates is None:
        return (
            "operator-controller 1.3 to 1.10 with the feature gate PreflightPermissions lists all "
            "that is missing before it installs; without it, the install stops at the first."
        )
    if gates.get("PreflightPermissions"):
        return (
            "operator-controller runs with the feature gate PreflightPermissions here and lists "
            "all that is missing before it installs."
        )
    return (
        "operator-controller runs without the feature gate PreflightPermissions here: up to 1.10, "
        "the install stops at the first that is missing."
    )


def _of_groups(choice: InstallChoice, rows: InstallRows) -> Iterator[InstallWarning]:
    groups = rows.groups_in(choice.namespace)
    if len(groups) > 1:
        names = ", ".join(group.name for group in groups[:4])
        yield InstallWarning(
            "too-many-operatorgroups",
            f"Namespace {choice.namespace} has {len(groups)} OperatorGroups ({names}); OLM "
            "installs nothing where there is more than one.",
        )
    check = check_namespace(
        source_of(rows.package.catalog),
        rows.catalog_sources,
        choice.namespace,
        groups,
        groups_listed=rows.groups_listed,
    )
    for result in (*((check.blocker,) if check.blocker else ()), *check.notes):
        # A missing group is created by the install; several are warned of above.
        if result.rule != ONE_GROUP or len(groups) == 1:
            yield InstallWarning(result.rule, result.sentence, SOURCES[result.rule])


def _of_neighbours(choice: InstallChoice, rows: InstallRows) -> Iterator[InstallWarning]:
    kind = choice.method
    namespace = choice.namespace if METHODS[kind].resource.namespaced else ""
    own = [
        row
        for row in rows.operators
        if (row.kind, row.namespace, row.name) == (kind, namespace, choice.name)
    ]
    same = [row for row in rows.operators if row.package == choice.package and row not in own]
    for other in same[:3]:
        where = f" in {other.namespace}" if other.namespace else ""
        name = f"{other.kind} {other.name}{where}"
        if other.kind in METHODS and has_installed_nothing(other):
            yield InstallWarning(
                "same-package",
                f"{name} is of the same package and failed before it installed anything. Remove "
                "it, so that it does not compete with this install later.",
                other=other,
            )
        elif kind == other.kind and METHODS[kind].one_per_package:
            yield InstallWarning(
                "helm-ownership-conflict",
                f"{name} installs the same package; a second one would fail, because both bring "
                "the same objects.",
                by_id()["helm-ownership-conflict"].source[0],
                other,
            )
        else:
            sentence = f"{name} installs the same package already. {_beside(kind, other.kind)}"
            yield InstallWarning("same-package", sentence, other=other)
    for row in own:
        yield InstallWarning(
            "already-there",
            f"A {kind} named {choice.name} exists already, for the package {row.package}.",
            other=row,
        )


def _beside(kind: str, other: str) -> str:
    """What happens to an install beside one of the same package."""
    if kind == other == InstallMethod.SUBSCRIPTION:
        return (
            "Both bring the same CustomResourceDefinitions; OLM v0 refuses the second where the "
            "namespaces of their OperatorGroups overlap."
        )
    if kind == InstallMethod.SUBSCRIPTION:
        conflict = (
            "A Subscription beside it would write over the CustomResourceDefinitions of the "
            f"{other}, and two operators would work on the same custom resources."
        )
    else:
        conflict = (
            f"A {kind} beside it would be refused the objects that both bring, such as the "
            f"CustomResourceDefinitions: they belong to the {other}."
        )
    if other not in METHODS or other == InstallMethod.SUBSCRIPTION:
        return conflict
    return (
        f"{conflict} The removal of the {other} deletes its CustomResourceDefinitions with all "
        "objects of their kinds."
    )
