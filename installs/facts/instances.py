"""Counts the objects of the kinds that a removal deletes, in requests as the person who removes."""

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
    """The objects of a definition, `name` as PLURAL.GROUP; `count` None with the reason `why`."""

    name: str
    kind: str
    count: int | None = None
    why: str = ""


def count_instances(
    cluster: Cluster, definitions: Sequence[CRDState], user: AnyUser
) -> list[Counted]:
    """One request per definition, in their order. Returns errors of the cluster, raises none."""
    identity = impersonation_for(user)
    counted: list[Counted] = []
    silent = ""  # why the cluster did not answer: no further requests
    with client_for(cluster, timeout=TIMEOUT) as client:
        for number, definition in enumerate(definitions):
            why = silent or ("" if number < MOST else f"Only the first {MOST} kinds are counted.")
            if why:
                counted.append(Counted(definition.name, definition.served_kind, why=why))
                continue
            try:
                counted.append(_count(client, definition, identity))
            except (Unreachable, Unauthorized) as error:
                silent = error.message
                counted.append(Counted(definition.name, definition.served_kind, why=silent))
            except KubeError as error:
                counted.append(Counted(definition.name, definition.served_kind, why=error.message))
    return counted


def _count(client: KubeClient, definition: CRDState, identity: Impersonation | None) -> Counted:
    if not definition.served:
        return Counted(definition.name, definition.served_kind, why="No version of it is served.")
    version = definition.served[-1]
    resource = Resource(
        definition.group, (version,), definition.name.partition(".")[0], definition.served_kind
    )
    count = client.count_objects(resource, version, as_user=identity)
    return Counted(definition.name, definition.served_kind, count)
