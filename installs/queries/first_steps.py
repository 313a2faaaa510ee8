"""The steps to the first cluster, with the state of each as far as workers have stored it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from olmweb.clusters import parse_entries
from olmweb.errors import OlmwebError
from olmweb.kube.session import IN_CLUSTER
from olmweb.models import Cluster

OPEN, DONE, WAITING, RUNNING, FAILED = "todo", "ok", "waiting", "running", "failed"
EXAMPLE = "my-cluster"
ACCOUNT, KUBECONFIG, SETTING, SYNC = "account", "kubeconfig", "setting", "sync"
# The step to which an error of a cluster that was never read belongs, by its code; else SYNC.
_STEPS = {"forbidden": ACCOUNT, "kubeconfig": KUBECONFIG, "unauthorized": KUBECONFIG}


@dataclass(frozen=True, slots=True)
class FirstStep:
    """`state` is one of the constants above; `error` and `hint` explain FAILED."""

    name: str
    state: str
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """`cluster` is the configured one, None without a row of it; `name` is its name, or EXAMPLE.

    `named`: the name is that of a cluster, not EXAMPLE.
    """

    name: str
    named: bool
    cluster: Cluster | None
    steps: tuple[FirstStep, ...]
    in_cluster: bool
    embedded: bool


def first_steps(clusters: Sequence[Cluster]) -> FirstSteps:
    """For no cluster, or one that was never read completely; no query."""
    problem: OlmwebError | None = None
    entries: dict[str, str] = {}
    try:
        entries = parse_entries(settings.CLUSTERS)
    except OlmwebError as error:
        problem = error
    cluster = clusters[0] if clusters else None
    name = cluster.name if cluster else next(iter(entries), EXAMPLE)
    return FirstSteps(
        name=name,
        named=cluster is not None or bool(entries),
        cluster=cluster,
        steps=_steps(cluster, bool(entries), problem),
        in_cluster=entries.get(name) == IN_CLUSTER,
        embedded=settings.EMBEDDED,
    )


def _steps(
    cluster: Cluster | None, configured: bool, problem: OlmwebError | None
) -> tuple[FirstStep, ...]:
    checked = cluster is not None and cluster.checked_at is not None
    answered = cluster is not None and cluster.reachable is True
    states = {
        ACCOUNT: DONE if answered else OPEN,
        KUBECONFIG: DONE if answered else OPEN,
        SETTING: DONE if cluster or configured else OPEN,
        SYNC: RUNNING if answered else WAITING if configured and not checked else OPEN,
    }
    faults: dict[str, tuple[str, str]] = {}
    if problem is not None:
        states[SETTING], faults[SETTING] = FAILED, (problem.message, problem.hint)
    if cluster is not None and cluster.stale:
        step = _STEPS.get(cluster.error_code, SYNC)
        states[step], faults[step] = FAILED, (cluster.error_text, cluster.error_hint)
        if step == ACCOUNT:  # the credentials were accepted
            states[KUBECONFIG] = DONE
    return tuple(FirstStep(name, states[name], *faults.get(name, ())) for name in states)
