"""Other install methods for the package of a failed operator, as links to their forms.

A link leads to a form whose defaults have no known hindrance. The forms are found by planning each
install, in many queries, and depend on rows of the cluster and of its catalogs alone, so they are
kept in memory until the revision of the cluster or of a catalog changes. The user's rights on the
cluster are read for each page.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Max, Q
from django.urls import reverse

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.verdicts.rules import RULES, Verdict
from installs.actions.buttons import access_refusals, rights_of
from installs.actions.install_rows import InstallRows
from installs.actions.plan import Plan, paths_of, plan_install
from installs.models import Action, Operator
from olmweb.accounts.roles import AnyUser, may_act
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.web.revisions import PerRevision

CATALOGS_PLANNED = 3  # catalogs that are planned from, for each method: a page waits for it
# Warnings about installs that would fail.
_HINDRANCES = frozenset(
    (
        *(rule.id for rule in RULES if rule.verdict == Verdict.NOT_INSTALLABLE),
        *("nothing-chosen", "already-there"),
        "too-many-operatorgroups",
    )
)


@dataclass(frozen=True, slots=True)
class Alternative:
    """An install by another method. `url` opens its form, filled in."""

    path: str
    url: str


class _Form(NamedTuple):
    """A form that could be offered; `namespace` is that of the plan of its defaults."""

    path: str
    catalog: str
    namespace: str


class _Question(NamedTuple):
    """The methods that are asked for, for the package of an operator."""

    operator: int
    paths: tuple[str, ...]


class _Stamped(NamedTuple):
    """A question with the revisions of the rows that decide it."""

    pk: _Question
    revision: tuple[object, ...]


def alternatives(
    user: AnyUser,
    operator: Operator,
    paths: Sequence[str],
    catalogs: Callable[[], Iterable[Catalog]],
) -> tuple[Alternative, ...]:
    """The methods among `paths` (kinds) that can install the operator's package, in their order.

    Each from the first catalog of its cluster that it can be installed from: the operator's own if
    possible, else the first by name. `catalogs` reads those of `catalogs_beside`. Anonymous users
    are offered all, as they can sign in. At most two queries; if the cluster or its catalogs
    changed two more, and up to twenty for each path and each of CATALOGS_PLANNED catalogs.
    """
    wanted = tuple(path for path in paths if path in tuple(InstallMethod) and path != operator.kind)
    if not (wanted and operator.package) or (user.is_authenticated and not may_act(user)[0]):
        return ()
    cluster = operator.cluster
    question = _Question(operator.pk, wanted)
    stamp = (cluster.revision, *(_stamp(row) for row in catalogs() if row.cluster_id == cluster.pk))
    forms = _FORMS.of([_Stamped(question, stamp)])[question]
    install = Action.Verb.INSTALL
    rights = {form.path: rights_of(install, form.path, form.namespace) for form in forms}
    refused = access_refusals(user, cluster, rights)
    return tuple(
        Alternative(
            form.path,
            reverse("installs:install", args=(cluster.name, form.catalog, operator.package))
            + f"?path={form.path}",
        )
        for form in forms
        if form.path not in refused
    )


def catalogs_beside(operator: Operator) -> list[Catalog]:
    """The catalogs of the operator's cluster and those of no cluster, by slug, with the time of
    the last change of their verdicts, alone or for the cluster; one query."""
    cluster = operator.cluster
    runs = Q(prediction_runs__cluster=None) | Q(prediction_runs__cluster=cluster)
    rows = Catalog.objects.filter(cluster=cluster) | Catalog.objects.filter(cluster=None)
    changed_at = Max("prediction_runs__changed_at", filter=runs)
    catalogs: list[Catalog] = [
        *rows.annotate(verdicts_changed_at=changed_at).order_by("slug", "pk"),
    ]
    for catalog in catalogs:
        if catalog.cluster_id is not None:
            catalog.cluster = cluster
    return catalogs


def by_preference(operator: Operator, packages: Iterable[Package]) -> list[Package]:
    """The packages, with their catalogs, in the order in which another install method tries them:
    that of the operator's own catalog first, then by name of the catalog. The first that nothing
    known is against is installed, alone or in a bulk migration."""
    return sorted(
        packages,
        key=lambda row: (row.catalog.name != operator.catalog, row.catalog.name, row.catalog.slug),
    )


def _stamp(catalog: Catalog) -> tuple[object, ...]:
    """Of its content, its verdicts and its health."""
    changed_at = catalog.verdicts_changed_at  # type: ignore[attr-defined]
    return (
        *(catalog.pk, catalog.revision, changed_at, catalog.state),
        tuple(tuple(sorted(condition.items())) for condition in catalog.conditions),
    )


def _read_forms(questions: Collection[_Question]) -> dict[_Question, tuple[_Form, ...]]:
    """One query, one for each operator, and those of the plans."""
    ids = {question.operator for question in questions}
    operators = Operator.objects.select_related("cluster").in_bulk(ids)
    forms: dict[_Question, tuple[_Form, ...]] = dict.fromkeys(questions, ())
    for question in questions:
        if (operator := operators.get(question.operator)) is not None:
            forms[question] = tuple(_forms(operator, question.paths))
    return forms


def _forms(operator: Operator, paths: Iterable[str]) -> Iterable[_Form]:
    rows = Package.objects.filter(catalog__cluster=operator.cluster_id, name=operator.package)
    rows = rows.exclude(catalog__state=Catalog.State.DISABLED).select_related("catalog__cluster")
    packages = by_preference(operator, rows)
    planned = [(package, InstallRows(operator.cluster, package)) for package in packages]
    for path in paths if packages else ():
        same = (path, operator.package)
        if any((row.kind, row.package) == same for row in planned[0][1].operators):
            continue
        for package, of_install in planned[:CATALOGS_PLANNED]:
            plan = _plan(operator.cluster, path, package, of_install)
            if plan is not None:
                yield _Form(path, package.catalog.slug, plan.namespace)
                break


def _plan(cluster: Cluster, path: str, package: Package, rows: InstallRows) -> Plan | None:
    """The plan of the install form with its defaults; None if something known is against it."""
    if path not in paths_of(cluster, package.catalog):
        return None
    try:
        plan = plan_install(cluster, package, "", path, rows=rows)
    except OlmwebError:
        return None
    if plan.verdict is not None and plan.verdict.verdict == Verdict.NOT_INSTALLABLE:
        return None
    return None if any(warning.rule in _HINDRANCES for warning in plan.warnings) else plan


_FORMS = PerRevision(_read_forms)
