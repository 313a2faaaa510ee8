"""What conditions mean: (kind, type, status, reason) -> class, as their controllers write them.

A status alone says nothing: `HasValidBundle=True/UnpackPending` is still unpacking and
`Progressing=True/Succeeded` is a steady state. What is not in the tables is UNKNOWN, not a guess.
A line is `types statuses reasons class`, each a list with commas; `-` stands for an empty text, `*`
for any text, and a line that names the text comes before one with `*`.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import product


class State(Enum):
    HEALTHY = "H"
    PROGRESSING = "P"
    RETRYING = "R"  # an error that the controller tries again
    FAILED = "F"
    DEGRADED = "D"  # installed but impaired
    BLOCKED = "B"  # until a person acts
    INFORMATION = "I"
    UNKNOWN = "U"
    ABSENT = "-"  # the condition is not there


BROKEN = frozenset((State.RETRYING, State.FAILED, State.DEGRADED, State.BLOCKED))
ANY = "*"
PHASE = "phase"
WAITING = "waiting"

# PlatformOperators and rukpak's kinds.
# Sources: platform-operators main and 4.12, rukpak v0.9 to v0.24.
_RUKPAK = {
    "PlatformOperator": """
        Installed True InstallSuccessful H
        Installed False SourceFailed,InstallFailed,UpgradeFailed,ReconcileFailed R
        Installed False BundleLoadFailed,ReadingContentFailed R
        Installed False ErrorGettingClient,ErrorGettingReleaseState,CreateDynamicWatchFailed R
        Installed False UnpackFailed F
        Installed False UnpackPending,InstallPending,Unpacking P
    """,
    "Bundle": """
        Unpacked True UnpackSuccessful H
        Unpacked False UnpackPending,Unpacking P
        Unpacked False UnpackFailed F
        Unpacked Unknown ProcessingFinalizerFailed R
    """,
    # Both generations: v1alpha1 has HasValidBundle and Installed, v1alpha2 adds the others.
    "BundleDeployment": """
        HasValidBundle True UnpackPending,Unpacking P
        HasValidBundle True UnpackSuccessful H
        HasValidBundle False UnpackFailed F
        HasValidBundle Unknown ReconcileFailed R
        HasValidBundle False BundleLoadFailed,ReadingContentFailed,ReconcileFailed R
        Unpacked True UnpackSuccessful H
        Unpacked False UnpackPending,Unpacking P
        Unpacked False UnpackFailed F
        Unpacked Unknown ProcessingFinalizerFailed R
        Installed True InstallationSucceeded H
        Installed False InstallFailed,UpgradeFailed,ReconcileFailed R
        Installed False ErrorGettingClient,ErrorGettingReleaseState,CreateDynamicWatchFailed R
        Healthy True Healthy H
        Healthy False Unhealthy D
        Healthy False InstallationStatusFalse R
    """,
}

# OLM v1. Sources: operator-controller and catalogd v1.0 to v1.11. Before v1.6 a deprecation
# condition that is not true has the reason Deprecated all the same: the status decides.
_OLM_V1 = {
    "ClusterExtension": """
        Installed True Succeeded H
        Installed False Failed F
        Installed False Absent P
        Installed Unknown Failed R
        Progressing True Succeeded H
        Progressing True Retrying R
        Progressing True RollingOut P
        Progressing False Blocked,InvalidConfiguration B
        Progressing False ProgressDeadlineExceeded F
        Progressing False Archived I
        Available True ProbesSucceeded H
        Available False ProbeFailure D
        Available False RollingOut P
        Available Unknown Reconciling P
        Available Unknown Archived I
        Deprecated,PackageDeprecated,ChannelDeprecated,BundleDeprecated True Deprecated I
        Deprecated,PackageDeprecated,ChannelDeprecated,BundleDeprecated False Deprecated H
        Deprecated,PackageDeprecated,ChannelDeprecated,BundleDeprecated False NotDeprecated H
        Deprecated,PackageDeprecated,ChannelDeprecated Unknown DeprecationStatusUnknown I
        BundleDeprecated Unknown Absent,DeprecationStatusUnknown I
    """,
    "ClusterObjectSet": """
        Progressing True Succeeded H
        Progressing True RollingOut P
        Progressing True Retrying R
        Progressing False Blocked B
        Progressing False ProgressDeadlineExceeded F
        Progressing False Archived I
        Available True ProbesSucceeded H
        Available False ProbeFailure D
        Available False RollingOut P
        Available Unknown Reconciling R
        Available Unknown Archived I
        Succeeded True Succeeded H
    """,
    "ClusterCatalog": """
        Progressing True Succeeded H
        Progressing True Retrying R
        Progressing False Blocked B
        Serving True Available H
        Serving False Unavailable D
        Serving False UserSpecifiedUnavailable B
    """,
}

# OLM v0. A phase is written as a condition of type `phase` whose status is the phase. Conditions
# of a Subscription are abnormal-true: one that is not true says that its problem is absent.
# Source: operator-lifecycle-manager up to v0.42; platform-operators for its ClusterOperator.
_OLM_V0 = {
    "Subscription": """
        CatalogSourcesUnhealthy True UnhealthyCatalogSourceFound D
        CatalogSourcesUnhealthy True CatalogSourcesAdded,CatalogSourcesDeleted D
        CatalogSourcesUnhealthy True CatalogSourcesUpdated D
        CatalogSourcesUnhealthy True NoCatalogSourcesFound B
        CatalogSourcesUnhealthy False AllCatalogSourcesHealthy H
        CatalogSourcesUnhealthy False CatalogSourcesAdded,CatalogSourcesDeleted I
        CatalogSourcesUnhealthy False CatalogSourcesUpdated I
        CatalogSourcesUnhealthy Unknown * I
        InstallPlanMissing True ReferencedInstallPlanNotFound F
        InstallPlanPending True InstallPlanNotYetReconciled,Planning,Installing P
        InstallPlanPending True RequiresApproval B
        InstallPlanFailed True InstallComponentFailed,InstallCheckFailed F
        InstallPlanFailed True DependenciesConflict,PlanUnknown,InstallPlanFailed F
        ResolutionFailed True ConstraintsNotSatisfiable F
        ResolutionFailed True ErrorPreventedResolution R
        BundleUnpacking True UnpackingInProgress P
        BundleUnpackFailed True BundleUnpackFailed,ErrorPreventedUnpacking F
        BundleUnpackFailed True EnsureInstallPlanFailed R
        InstallPlanMissing,InstallPlanPending,InstallPlanFailed False * H
        ResolutionFailed,BundleUnpacking,BundleUnpackFailed False * H
        Deprecated,PackageDeprecated,ChannelDeprecated,BundleDeprecated True * I
        Deprecated,PackageDeprecated,ChannelDeprecated,BundleDeprecated False * H
    """,
    "InstallPlan": """
        phase -,Planning,Installing - P
        phase RequiresApproval - B
        phase Complete - H
        phase Failed - F
        Installed True - H
        Installed False InstallComponentFailed F
        Installed False InstallCheckFailed R
        Installed False Unknown P
        BundleLookupPending True JobNotStarted,JobIncomplete P
        BundleLookupPending True CatalogSourceMissing,BundleNotUnpacked P
        BundleLookupPending False * H
        BundleLookupFailed True * F
        BundleLookupFailed False * H
    """,
    "ClusterServiceVersion": """
        phase - - P
        phase Pending RequirementsUnknown P
        phase Pending RequirementsNotMet R
        phase Pending OperatorConditionNotUpgradeable B
        phase Pending NeedsReinstall,NeedsCertRotation,APIServiceResourcesNeedReinstall P
        phase Pending DetectedClusterChange P
        phase InstallReady AllRequirementsMet,InstallWaiting,ComponentUnhealthy,NeedsReinstall P
        phase Installing InstallSucceeded,InstallWaiting P
        phase Succeeded InstallSucceeded H
        phase Replacing BeingReplaced P
        phase Deleting Replaced I
        phase Failed RequirementsNotMet D
        phase Failed NoOperatorGroup,TooManyOperatorGroups B
        phase Failed NoTargetNamespaces,UnsupportedOperatorGroup,InvalidInstallModes B
        phase Failed InterOperatorGroupOwnerConflict B
        phase Failed CannotModifyStaticOperatorGroupProvidedAPIs B
        phase Failed OwnerConflict B
        phase Failed InvalidInstallStrategy,InvalidWebhookDescription F
        phase Failed InstallComponentFailed,InstallComponentFailedNoRetry R
        phase Failed InstallCheckFailed R
        phase Failed ComponentUnhealthy D
        phase Failed APIServiceResourceIssue,APIServiceInstallFailed D
        phase * Copied I
    """,
    "CatalogSource": """
        reason - SpecInvalidError B
        reason - ConfigMapError,RegistryServerError R
        reason - InvalidIntervalError I
        connectionState READY - H
        connectionState CONNECTING,IDLE - P
        connectionState * - D
    """,
    "OperatorGroup": """
        OperatorGroupServiceAccount True ServiceAccountNotFound B
        OperatorGroupServiceAccount False * H
        MultipleOperatorGroup True MultipleOperatorGroupsFound B
        MultipleOperatorGroup False * H
    """,
    "OperatorCondition": """
        Upgradeable True * H
        Upgradeable False * B
        Upgradeable Unknown * I
    """,
    # Of the cluster operators only what OLM itself and the platform operators manager write.
    "ClusterOperator": """
        Upgradeable True * H
        Upgradeable False IncompatibleOperatorsInstalled,ErrorCheckingOperatorCompatibility B
        Upgradeable False - I
        Available True AsExpected H
        Available False PlatformOperatorError F
        Available False - R
        Progressing False AsExpected H
        Progressing True - I
        Degraded False - H
    """,
}

# Deployments and their pods. A waiting reason is written as a condition of type `waiting` without
# a status. Sources: the Deployment controller, kubelet and scheduler of Kubernetes 1.20 to 1.36.
_WORKLOADS = {
    "Deployment": """
        Available True * H
        Available False * D
        Available Unknown * P
        Progressing True NewReplicaSetAvailable H
        Progressing True NewReplicaSetCreated,FoundNewReplicaSet,ReplicaSetUpdated P
        Progressing Unknown DeploymentPaused,DeploymentResumed I
        Progressing False ProgressDeadlineExceeded,ReplicaSetCreateError R
        ReplicaFailure True * R
    """,
    "Pod": """
        waiting - ContainerCreating,PodInitializing P
        waiting - ImagePullBackOff,ErrImagePull,InvalidImageName,ErrImageNeverPull R
        waiting - ImageInspectError,RegistryUnavailable,SignatureValidationFailed R
        waiting - CrashLoopBackOff,RunContainerError,CreateContainerError R
        waiting - CreateContainerConfigError,PostStartHookError,PreStartHookError R
        waiting - Unschedulable,SchedulingGated,SchedulerError,PreCreateHookError R
        waiting - Evicted,NodeLost,OOMKilled,Error,ContainerCannotRun,DeadlineExceeded R
        waiting - UnexpectedAdmissionError,OutOfcpu,OutOfmemory,OutOfpods,NodeAffinity R
        waiting - Terminated,NodeShutdown,Preempting,EvictionByEvictionAPI R
        waiting - PreemptionByScheduler,DeletionByTaintManager,DeletionByPodGC R
        waiting - TerminationByKubelet,ContainerStatusUnknown,StartError R
    """,
}


def _read(tables: Mapping[str, str]) -> dict[tuple[str, str, str, str], State]:
    rows = {}
    for kind, text in tables.items():
        for line in filter(None, (line.split() for line in text.splitlines())):
            types, statuses, reasons, letter = line
            for names in product(types.split(","), statuses.split(","), reasons.split(",")):
                type_, status, reason = ("" if name == "-" else name for name in names)
                rows[kind, type_, status, reason] = State(letter)
    return rows


STATES = _read(_RUKPAK | _OLM_V1 | _OLM_V0 | _WORKLOADS)
WORDS = {
    State.HEALTHY: "all is well",
    State.PROGRESSING: "in progress",
    State.RETRYING: "failing, and tried again",
    State.FAILED: "failed",
    State.DEGRADED: "installed but impaired",
    State.BLOCKED: "blocked until a person acts",
    State.INFORMATION: "information, not a failure",
}


def meanings(kind: str, reason: str, type_: str = "") -> tuple[tuple[str, str, str], ...]:
    """(condition type, status, what it means) of every place where the kind has this reason.

    A phase is of the type `phase` with the phase as its status; see WORDS for the meanings.
    """
    return tuple(
        (row[1], row[2], WORDS[state])
        for row, state in STATES.items()
        if row[0] == kind and row[3] == reason and type_ in ("", row[1])
    )


def class_of(kind: str, type_: str, status: str, reason: str) -> State:
    """The class of one condition; UNKNOWN when no known controller writes it."""
    for key in ((status, reason), (status, ANY), (ANY, reason)):
        state = STATES.get((kind, type_, *key))
        if state is not None:
            return state
    return State.UNKNOWN
