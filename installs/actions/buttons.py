"""The actions that pages offer a person: buttons, and installs by another method.

The reason of a disabled button comes from the role (`olmweb.accounts.roles`), from the cluster's
answer (`installs.actions.permissions`), or from here (catalogs, namespaces and verdicts).

A role and what is served decide first; then the cluster's last answer on the person's permissions
(installs.actions.permissions), catalogs, namespaces and stored verdicts. Asks no cluster. A button
that is on is no promise: the review tries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.verdicts.rules import RULES, Verdict
from installs.actions import permissions
from installs.actions.change import INSTALL_PLAN
from installs.actions.permissions import Answer, rights_of
from installs.actions.plan import paths_of, plan_install
from installs.methods import METHODS
from installs.models import Action, Operator
from olmweb.accounts.roles import AnyUser, may_act
from olmweb.errors import OlmwebError
from olmweb.models import Cluster


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether packages of a catalog can be installed. `hindrance` is a sentence that holds for
    everybody, `refused` what the cluster said of this person."""

    hindrance: str = ""
    refused: Answer | None = None


def install_offer(user: AnyUser, catalog: Catalog, clusters: Sequence[Cluster]) -> Offer:
    """What to say at the Install button of a package of the catalog."""
    if catalog.cluster is None:
        # A PlatformOperator takes what the cluster's own catalog has: no reason to offer this one.
        if not any(
            set(paths_of(cluster, catalog)) - {InstallMethod.PLATFORM_OPERATOR}
            for cluster in clusters
        ):
            return Offer("This catalog belongs to no cluster, so no cluster can install from it.")
        return Offer()
    name = catalog.cluster.name
    if catalog.state == Catalog.State.DISABLED:
        return Offer(f"Catalog {catalog.slug} is disabled on cluster {name}.")
    paths = paths_of(catalog.cluster, catalog)
    if not paths:
        return Offer(f"Cluster {name} serves nothing that could install from this catalog.")
    permissions_by_path = {str(path): rights_of(Action.Verb.INSTALL, path) for path in paths}
    answers = permissions.answers(user, catalog.cluster, permissions_by_path)
    if len(answers) < len(paths) or any(answer.allowed for answer in answers.values()):
        return Offer()
    return Offer(refused=answers[paths[0]])


def path_refusal(user: AnyUser, cluster: Cluster, path: str, namespace: str) -> Answer | None:
    """What the cluster said when it would not let this person install by the path.

    `namespace` is the one of the form, empty when each package has its own; only a Subscription
    lives in one.
    """
    where = namespace if METHODS[path].resource.namespaced else ""
    answers = permissions.answers(
        user, cluster, {path: rights_of(Action.Verb.INSTALL, path, where)}
    )
    answer = answers.get(path)
    return answer if answer is not None and not answer.allowed else None


def refusals(user: AnyUser, operator: Operator, plan_namespace: str = "") -> dict[str, Answer]:
    """Verb -> what the cluster said, of the actions on this operator that it would refuse.

    `plan_namespace` is that of the InstallPlan that waits for approval.
    """
    if operator.kind not in METHODS:
        return {}
    here = (operator.kind, operator.namespace)
    permissions_by_verb = {
        str(verb): rights_of(verb, *here)
        for verb in (Action.Verb.UPGRADE, Action.Verb.RETRY, Action.Verb.REMOVE)
    }
    if plan_namespace:
        permissions_by_verb[str(Action.Verb.APPROVE)] = rights_of(
            Action.Verb.APPROVE, INSTALL_PLAN, plan_namespace
        )
    answers = permissions.answers(user, operator.cluster, permissions_by_verb)
    return {verb: answer for verb, answer in answers.items() if not answer.allowed}


CATALOGS_PLANNED = 3  # catalogs that may be planned from, for each path: a page waits for it
# Cautions with which nothing would come of it; the others only should make a person think.
_HINDRANCES = frozenset(
    (
        *(rule.id for rule in RULES if rule.verdict == Verdict.NOT_INSTALLABLE),
        *("nothing-chosen", "unknown-bundle", "already-there"),
        "too-many-operatorgroups",
    )
)


@dataclass(frozen=True, slots=True)
class Instead:
    """An install by another path. `url` opens its form, filled in."""

    path: str
    url: str


def installs_instead(
    user: AnyUser, operator: Operator, paths: Sequence[str]
) -> tuple[Instead, ...]:
    """Of the paths (kinds) those by which the operator's package can be installed, in their order.

    Each from one catalog of its cluster: the operator's own if it can be, else the first by name.
    Who is not signed in is offered them, by signing in. No query when there are no paths, else
    one, and up to twenty for each path and each of the first CATALOGS_PLANNED catalogs.
    """
    wanted = [path for path in paths if path in tuple(InstallMethod) and path != operator.kind]
    if not (wanted and operator.package) or (user.is_authenticated and not may_act(user)[0]):
        return ()
    rows = Package.objects.filter(catalog__cluster=operator.cluster_id, name=operator.package)
    packages = sorted(
        rows.exclude(catalog__state=Catalog.State.DISABLED).select_related("catalog__cluster"),
        key=lambda row: (row.catalog.name != operator.catalog, row.catalog.name, row.catalog.slug),
    )
    offered = ((path, _first(user, operator, path, packages)) for path in wanted)
    return tuple(
        Instead(path, _form(package, path)) for path, package in offered if package is not None
    )


def _first(
    user: AnyUser, operator: Operator, path: str, packages: Sequence[Package]
) -> Package | None:
    """The first package that can be installed by the path."""
    same = Operator.objects.filter(cluster=operator.cluster_id, kind=path, package=operator.package)
    if not packages or same.exists():
        return None
    return next(
        (
            package
            for package in packages[:CATALOGS_PLANNED]
            if _goes(user, operator, path, package)
        ),
        None,
    )


def _goes(user: AnyUser, operator: Operator, path: str, package: Package) -> bool:
    """Whether nothing that is known speaks against the form as it opens."""
    cluster = operator.cluster
    if path not in paths_of(cluster, package.catalog):
        return False
    try:
        plan = plan_install(cluster, package, "", path)
    except OlmwebError:
        return False
    if plan.verdict is not None and plan.verdict.verdict == Verdict.NOT_INSTALLABLE:
        return False
    if any(caution.rule in _HINDRANCES for caution in plan.warnings):
        return False
    return path_refusal(user, cluster, path, plan.namespace) is None


def _form(package: Package, path: str) -> str:
    catalog = package.catalog
    url = reverse("installs:install", args=(catalog.cluster_name, catalog.slug, package.name))
    return f"{url}?path={path}"
