"""The installs that a remedy names instead of the failed one: forms that the cluster allows.

Offers nothing that is known to be refused: by the role, by what the cluster said of the person's
rights, by what it serves, by a catalog, a namespace or a stored verdict. Asks no cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.verdicts import RULES, Verdict
from installs.actions.buttons import path_refusal
from installs.actions.plan import paths_of, plan_install
from installs.models import Operator
from olmweb.accounts.roles import AnyUser, may_act
from olmweb.errors import OlmwebError

TRIED = 3  # catalogs that may be planned from, for each path: a page waits for it
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
    one, and up to twenty for each path and each of the first TRIED catalogs.
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
    return next((one for one in packages[:TRIED] if _goes(user, operator, path, one)), None)


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
