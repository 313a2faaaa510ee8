"""How long steps usually take, what is stuck, and what goes up and down.

The times are generous: each is the controllers' own limit where there is one, else several times
what was seen on real clusters.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

DAY = timedelta(hours=24)
DELETING = "Deleting"
_ANY = "*"

# (kind, reason or phase) -> minutes, and where the number comes from.
USUAL: dict[tuple[str, str], tuple[int, str]] = {
    ("PlatformOperator", ""): (2, "the manager answers within seconds"),
    ("PlatformOperator", "UnpackPending"): (5, "an image pull and one pod"),
    ("PlatformOperator", "InstallPending"): (5, "an image pull and one Helm installation"),
    ("BundleDeployment", ""): (2, "rukpak answers within seconds"),
    ("BundleDeployment", "UnpackPending"): (5, "an image pull and one pod"),
    ("BundleDeployment", "Unpacking"): (5, "an image pull and one pod"),
    ("Bundle", ""): (2, "rukpak answers within seconds"),
    ("Bundle", "UnpackPending"): (5, "an image pull and one pod"),
    ("Bundle", "Unpacking"): (5, "an image pull and one pod"),
    ("ClusterExtension", ""): (2, "operator-controller answers within seconds"),
    ("ClusterExtension", "Absent"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterExtension", "RollingOut"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterExtension", "Reconciling"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterObjectSet", "RollingOut"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterObjectSet", "Reconciling"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterCatalog", ""): (5, "131 MB are unpacked in 3 s; the rest is the image pull"),
    ("CatalogSource", ""): (5, "an image pull and the start of the registry"),
    ("CatalogSource", "CONNECTING"): (5, "an image pull and the start of the registry"),
    ("CatalogSource", "TRANSIENT_FAILURE"): (5, "gRPC tries again every two minutes at most"),
    ("CatalogSource", "IDLE"): (5, "the next resolution connects again"),
    ("Subscription", ""): (5, "resolution takes seconds; a catalog may still start"),
    ("Subscription", "UnpackingInProgress"): (10, "OLM's --bundle-unpack-timeout"),
    ("Subscription", "Installing"): (5, "five times OLM's --install-plan-retry-timeout"),
    ("Subscription", "InstallPlanNotYetReconciled"): (2, "seconds"),
    ("InstallPlan", ""): (2, "seconds"),
    ("InstallPlan", "Planning"): (10, "OLM's --bundle-unpack-timeout"),
    ("InstallPlan", "Installing"): (5, "five times OLM's --install-plan-retry-timeout"),
    ("InstallPlan", "JobIncomplete"): (10, "OLM's --bundle-unpack-timeout"),
    ("ClusterServiceVersion", ""): (2, "seconds"),
    ("ClusterServiceVersion", "RequirementsUnknown"): (2, "seconds"),
    ("ClusterServiceVersion", "RequirementsNotMet"): (5, "the InstallPlan's time"),
    ("ClusterServiceVersion", "AllRequirementsMet"): (2, "seconds"),
    ("ClusterServiceVersion", "InstallSucceeded"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "InstallWaiting"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "NeedsReinstall"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "NeedsCertRotation"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "BeingReplaced"): (10, "requirements and installation of the next"),
    ("ClusterServiceVersion", "Replaced"): (5, "deletion of the old version's objects"),
    ("Deployment", ""): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Deployment", "NewReplicaSetCreated"): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Deployment", "ReplicaSetUpdated"): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Pod", "ContainerCreating"): (5, "volumes and an image pull"),
    ("Pod", "PodInitializing"): (5, "init containers"),
    (_ANY, DELETING): (5, "finalizers and garbage collection"),
}
_WORKING = frozenset(("Healthy",))
_NOT_WORKING = frozenset(("Failed", "Degraded", "Blocked"))


def usual_time(kind: str, step: str) -> timedelta | None:
    """How long the step (a reason or phase) of the kind takes at most; None when not known."""
    found = USUAL.get((kind, step)) or USUAL.get((_ANY, step))
    return timedelta(minutes=found[0]) if found else None


def stuck(kind: str, step: str, since: datetime | None, now: datetime) -> bool:
    """Whether the step lasts longer than usual. What waits for a person is never stuck."""
    usual = usual_time(kind, step)
    return usual is not None and since is not None and now - since > usual


def flaps(healths: Sequence[tuple[datetime, str]], now: datetime) -> int:
    """Changes between working and not working in the last 24 hours.

    `healths` are (since when, health), in any order. What is between the two (Installing,
    Upgrading, waiting for approval, Unknown) does not count as a change.
    """
    count = 0
    before: bool | None = None
    for at, health in sorted(healths):
        if health not in _WORKING | _NOT_WORKING:
            continue
        works = health in _WORKING
        if before is not None and works != before and now - DAY <= at <= now:
            count += 1
        before = works
    return count
