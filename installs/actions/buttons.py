"""Which buttons a person sees that change a cluster, and why one is off. Asks no cluster.

A role and what is served decide first; then what the cluster last said of the person's rights
(installs.actions.permissions). A button that is on is no promise: the review tries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.actions import permissions
from installs.actions.change import INSTALL_PLAN, REMOVABLE
from installs.actions.permissions import Answer, rights_of
from installs.actions.plan import paths_of
from installs.models import Action, Operator
from olmweb.accounts.roles import AnyUser
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
            set(paths_of(one, catalog)) - {InstallMethod.PLATFORM_OPERATOR} for one in clusters
        ):
            return Offer("This catalog belongs to no cluster, so no cluster can install from it.")
        return Offer()
    name = catalog.cluster.name
    if catalog.state == Catalog.State.DISABLED:
        return Offer(f"Catalog {catalog.slug} is disabled on cluster {name}.")
    paths = paths_of(catalog.cluster, catalog)
    if not paths:
        return Offer(f"Cluster {name} serves nothing that could install from this catalog.")
    asked = {str(path): rights_of(Action.Verb.INSTALL, path) for path in paths}
    found = permissions.answers(user, catalog.cluster, asked)
    if len(found) < len(paths) or any(one.allowed for one in found.values()):
        return Offer()
    return Offer(refused=found[paths[0]])


def path_refusal(user: AnyUser, cluster: Cluster, path: str, namespace: str) -> Answer | None:
    """What the cluster said when it would not let this person install by the path.

    `namespace` is the one of the form, empty when each package has its own; only a Subscription
    lives in one.
    """
    where = namespace if path == InstallMethod.SUBSCRIPTION else ""
    found = permissions.answers(user, cluster, {path: rights_of(Action.Verb.INSTALL, path, where)})
    said = found.get(path)
    return said if said is not None and not said.allowed else None


def refusals(user: AnyUser, operator: Operator, plan_namespace: str = "") -> dict[str, Answer]:
    """Verb -> what the cluster said, of the actions on this operator that it would refuse.

    `plan_namespace` is that of the InstallPlan that waits for approval.
    """
    if operator.kind not in REMOVABLE:
        return {}
    here = (operator.kind, operator.namespace)
    asked = {
        str(verb): rights_of(verb, *here)
        for verb in (Action.Verb.UPGRADE, Action.Verb.RETRY, Action.Verb.REMOVE)
    }
    if plan_namespace:
        asked[str(Action.Verb.APPROVE)] = rights_of(
            Action.Verb.APPROVE, INSTALL_PLAN, plan_namespace
        )
    found = permissions.answers(user, operator.cluster, asked)
    return {verb: one for verb, one in found.items() if not one.allowed}
