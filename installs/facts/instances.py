"""How many objects there are of the kinds that a removal takes along; asked as the person who
would remove, while they wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.models import CRDState
from olmweb.accounts.roles import AnyUser, impersonation_for
from olmweb.clusters import client_for
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import KubeError, Unauthorized, Unreachable
from olmweb.kube.resources import Resource
from olmweb.models import Cluster

MOST = 40  # kinds that are counted
TIMEOUT = (5.0, 5.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """Objects of one definition, `name` as PLURAL.GROUP; None with `why` when it isn't known."""

    name: str
    kind: str
    count: int | None = None
    why: str = ""


def count_instances(
    cluster: Cluster, definitions: Sequence[CRDState], user: AnyUser
) -> list[Counted]:
    """One request a definition, in their order. Never raises for what the cluster says."""
    who = impersonation_for(user)
    counted: list[Counted] = []
    silent = ""  # why the cluster did not answer: it is not asked again
    with client_for(cluster, timeout=TIMEOUT) as client:
        for number, one in enumerate(definitions):
            why = silent or ("" if number < MOST else f"Only the first {MOST} kinds are counted.")
            if why:
                counted.append(Counted(one.name, one.served_kind, why=why))
                continue
            try:
                counted.append(_count(client, one, who))
            except (Unreachable, Unauthorized) as error:
                silent = error.message
                counted.append(Counted(one.name, one.served_kind, why=silent))
            except KubeError as error:
                counted.append(Counted(one.name, one.served_kind, why=error.message))
    return counted


def _count(client: KubeClient, one: CRDState, who: Impersonation | None) -> Counted:
    if not one.served:
        return Counted(one.name, one.served_kind, why="No version of it is served.")
    version = one.served[-1]
    resource = Resource(one.group, (version,), one.name.partition(".")[0], one.served_kind)
    count = client.count_objects(resource, version, as_user=who)
    return Counted(one.name, one.served_kind, count)
