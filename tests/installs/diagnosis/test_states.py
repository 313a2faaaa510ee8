"""Every condition, reason and phase that the controllers write has the class that people gave it.

The table is written down a second time here, from reading the controllers' code, and compared. A
row is `type status reason classes`: where the code leaves it to the circumstances several classes
are possible, and ours must be one of them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from installs.diagnosis.entries import KINDS
from installs.diagnosis.knowledge import classify
from installs.diagnosis.states import STATES, State, class_of

READ_FROM_CODE = {
    "PlatformOperator": """
        Installed True InstallSuccessful H
        Installed False SourceFailed R
        Installed False InstallFailed R
        Installed False UnpackPending P
        Installed False InstallPending P
        Installed False UnpackFailed FR
        Installed False BundleLoadFailed R
        Installed False ReadingContentFailed R
        Installed False ReconcileFailed R
        Installed False ErrorGettingClient R
        Installed False ErrorGettingReleaseState R
        Installed False UpgradeFailed R
        Installed False CreateDynamicWatchFailed R
    """,
    "Bundle": """
        Unpacked True UnpackSuccessful H
        Unpacked False UnpackPending P
        Unpacked False Unpacking P
        Unpacked False UnpackFailed F
        Unpacked Unknown ProcessingFinalizerFailed R
    """,
    "BundleDeployment": """
        HasValidBundle True UnpackPending P
        HasValidBundle False UnpackFailed F
        HasValidBundle True UnpackSuccessful H
        HasValidBundle Unknown ReconcileFailed R
        HasValidBundle False BundleLoadFailed R
        HasValidBundle False ReadingContentFailed R
        Installed True InstallationSucceeded H
        Installed False InstallFailed RF
        Installed False UpgradeFailed RD
        Installed False ReconcileFailed RD
        Installed False ErrorGettingClient R
        Installed False ErrorGettingReleaseState R
        Installed False CreateDynamicWatchFailed R
        Unpacked True UnpackSuccessful H
        Unpacked False UnpackPending P
        Unpacked False Unpacking P
        Unpacked False UnpackFailed FR
        Unpacked Unknown ProcessingFinalizerFailed R
        Healthy True Healthy H
        Healthy False Unhealthy D
        Healthy False InstallationStatusFalse R
    """,
    "ClusterExtension": """
        Installed True Succeeded H
        Installed False Failed FR
        Installed False Absent P
        Installed Unknown Failed R
        Progressing True Succeeded H
        Progressing True Retrying R
        Progressing False Blocked B
        Progressing False InvalidConfiguration B
        Progressing True RollingOut P
        Progressing False ProgressDeadlineExceeded F
        Progressing False Archived I
        Available True ProbesSucceeded H
        Available False ProbeFailure D
        Available False RollingOut P
        Available Unknown Reconciling P
        Available Unknown Archived IP
        Deprecated True Deprecated I
        Deprecated False NotDeprecated H
        Deprecated False Deprecated H
        Deprecated Unknown DeprecationStatusUnknown I
        PackageDeprecated True Deprecated I
        PackageDeprecated False NotDeprecated H
        PackageDeprecated False Deprecated H
        PackageDeprecated Unknown DeprecationStatusUnknown I
        ChannelDeprecated True Deprecated I
        ChannelDeprecated False NotDeprecated H
        ChannelDeprecated False Deprecated H
        ChannelDeprecated Unknown DeprecationStatusUnknown I
        BundleDeprecated True Deprecated I
        BundleDeprecated False NotDeprecated HI
        BundleDeprecated False Deprecated HI
        BundleDeprecated Unknown Absent I
        BundleDeprecated Unknown DeprecationStatusUnknown I
    """,
    "ClusterObjectSet": """
        Progressing True Succeeded H
        Progressing True RollingOut P
        Progressing True Retrying R
        Progressing False Blocked B
        Progressing False ProgressDeadlineExceeded F
        Progressing False Archived I
        Available True ProbesSucceeded H
        Available False ProbeFailure DP
        Available False RollingOut P
        Available Unknown Reconciling R
        Available Unknown Archived I
        Succeeded True Succeeded H
    """,
    "ClusterCatalog": """
        Progressing True Succeeded HI
        Progressing True Retrying R
        Progressing False Blocked B
        Serving True Available H
        Serving False Unavailable D
        Serving False UserSpecifiedUnavailable B
    """,
    "Subscription": """
        CatalogSourcesUnhealthy True UnhealthyCatalogSourceFound D
        CatalogSourcesUnhealthy False AllCatalogSourcesHealthy H
        CatalogSourcesUnhealthy False CatalogSourcesAdded I
        CatalogSourcesUnhealthy False CatalogSourcesDeleted I
        CatalogSourcesUnhealthy False CatalogSourcesUpdated I
        CatalogSourcesUnhealthy True CatalogSourcesAdded D
        CatalogSourcesUnhealthy True CatalogSourcesDeleted D
        CatalogSourcesUnhealthy True CatalogSourcesUpdated D
        CatalogSourcesUnhealthy True NoCatalogSourcesFound B
        InstallPlanMissing True ReferencedInstallPlanNotFound F
        InstallPlanPending True InstallPlanNotYetReconciled P
        InstallPlanPending True Planning P
        InstallPlanPending True Installing P
        InstallPlanPending True RequiresApproval B
        InstallPlanFailed True InstallComponentFailed F
        InstallPlanFailed True InstallCheckFailed F
        InstallPlanFailed True DependenciesConflict F
        InstallPlanFailed True PlanUnknown F
        InstallPlanFailed True InstallPlanFailed F
        ResolutionFailed True ConstraintsNotSatisfiable FB
        ResolutionFailed True ErrorPreventedResolution R
        BundleUnpacking True UnpackingInProgress P
        BundleUnpackFailed True BundleUnpackFailed F
        BundleUnpackFailed True ErrorPreventedUnpacking F
        BundleUnpackFailed True EnsureInstallPlanFailed R
        Deprecated True - I
        PackageDeprecated True - I
        ChannelDeprecated True - I
        BundleDeprecated True - I
    """,
    "InstallPlan": """
        phase - - P
        phase Planning - P
        phase RequiresApproval - B
        phase Installing - P
        phase Complete - H
        phase Failed - F
        Installed True - H
        Installed False InstallComponentFailed F
        Installed False InstallCheckFailed R
        Installed False Unknown P
        BundleLookupPending True JobNotStarted P
        BundleLookupPending True JobIncomplete P
        BundleLookupPending True CatalogSourceMissing P
        BundleLookupPending True BundleNotUnpacked P
        BundleLookupFailed True DeadlineExceeded F
        BundleLookupFailed True BackoffLimitExceeded F
    """,
    "ClusterServiceVersion": """
        phase Pending RequirementsUnknown P
        phase Pending RequirementsNotMet RB
        phase Pending OperatorConditionNotUpgradeable B
        phase Pending NeedsReinstall P
        phase Pending NeedsCertRotation P
        phase Pending APIServiceResourcesNeedReinstall P
        phase Pending DetectedClusterChange P
        phase InstallReady AllRequirementsMet P
        phase InstallReady InstallWaiting P
        phase InstallReady ComponentUnhealthy P
        phase InstallReady NeedsReinstall P
        phase Installing InstallSucceeded P
        phase Installing InstallWaiting P
        phase Succeeded InstallSucceeded H
        phase Replacing BeingReplaced P
        phase Deleting Replaced I
        phase Failed RequirementsNotMet D
        phase Failed NoOperatorGroup B
        phase Failed TooManyOperatorGroups B
        phase Failed NoTargetNamespaces B
        phase Failed UnsupportedOperatorGroup B
        phase Failed InvalidInstallModes B
        phase Failed InterOperatorGroupOwnerConflict B
        phase Failed CannotModifyStaticOperatorGroupProvidedAPIs B
        phase Failed OwnerConflict B
        phase Failed InvalidInstallStrategy F
        phase Failed InvalidWebhookDescription F
        phase Failed InstallComponentFailed R
        phase Failed InstallComponentFailedNoRetry R
        phase Failed InstallCheckFailed RF
        phase Failed ComponentUnhealthy D
        phase Failed APIServiceResourceIssue D
        phase Failed APIServiceInstallFailed D
        phase Succeeded Copied I
        phase Failed Copied I
    """,
    "CatalogSource": """
        reason - SpecInvalidError B
        reason - ConfigMapError R
        reason - RegistryServerError R
        reason - InvalidIntervalError I
        connectionState READY - H
        connectionState CONNECTING - P
        connectionState TRANSIENT_FAILURE - D
        connectionState IDLE - P
        connectionState SHUTDOWN - D
    """,
    "OperatorGroup": """
        OperatorGroupServiceAccount True ServiceAccountNotFound B
        MultipleOperatorGroup True MultipleOperatorGroupsFound B
    """,
    "OperatorCondition": """
        Upgradeable False Draining B
        Upgradeable True Ready H
    """,
    "ClusterOperator": """
        Upgradeable False IncompatibleOperatorsInstalled IB
        Upgradeable False ErrorCheckingOperatorCompatibility IB
        Upgradeable False - IB
        Available True AsExpected H
        Progressing False AsExpected H
        Degraded False - H
        Available False PlatformOperatorError F
        Progressing True - I
    """,
    "Deployment": """
        Available True MinimumReplicasAvailable H
        Available False MinimumReplicasUnavailable D
        Progressing True NewReplicaSetAvailable H
        Progressing True ReplicaSetUpdated P
        Progressing False ProgressDeadlineExceeded R
        ReplicaFailure True FailedCreate R
    """,
    "Pod": """
        waiting - ContainerCreating P
        waiting - PodInitializing P
        waiting - ImagePullBackOff R
        waiting - ErrImagePull R
        waiting - CrashLoopBackOff R
        waiting - CreateContainerConfigError R
        waiting - Unschedulable R
    """,
}
# Declared in an API and written by no controller that we know.
NEVER_WRITTEN = (
    ("ClusterServiceVersion", "phase", "Pending", "WaitingOnCleanup"),
    ("ClusterServiceVersion", "phase", "Unknown", ""),
    ("BundleDeployment", "Healthy", "False", "ObjectLookupFailure"),
    ("BundleDeployment", "Healthy", "Unknown", "InstallationStatusUnknown"),
    ("BundleDeployment", "HasValidBundle", "True", "BundleLoadFailed"),
    ("InstallPlan", "Resolved", "True", ""),
)


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    for kind, table in READ_FROM_CODE.items():
        for line in filter(None, (line.split() for line in table.splitlines())):
            type_, status, reason, classes = ("" if one == "-" else one for one in line)
            yield kind, type_, status, reason, classes


@pytest.mark.parametrize(("kind", "type_", "status", "reason", "classes"), list(rows()))
def test_class_of_every_condition(
    kind: str, type_: str, status: str, reason: str, classes: str
) -> None:
    assert class_of(kind, type_, status, reason).value in classes


@pytest.mark.parametrize(
    ("kind", "reason"),
    sorted(
        {
            (row[0], row[3])
            for row, state in STATES.items()
            if state is State.RETRYING and row[0] in KINDS
        }
    ),
)
def test_a_finding_is_retryable_in_a_state_that_the_controller_tries_again(
    kind: str, reason: str
) -> None:
    refused = 'pods "x" is forbidden: User "u" cannot create resource "pods" in API group ""'
    finding = classify(refused, kind=kind, reason=reason)
    assert finding is not None
    assert finding.retryable


@pytest.mark.parametrize("never", NEVER_WRITTEN)
def test_what_no_controller_writes_is_unknown(never: tuple[str, str, str, str]) -> None:
    assert class_of(*never) is State.UNKNOWN


def test_a_kind_that_is_not_in_the_tables_is_unknown() -> None:
    assert class_of("Widget", "Ready", "True", "Fine") is State.UNKNOWN


def test_every_exact_row_of_ours_about_olm_is_written_down_twice() -> None:
    """A row that nobody read from the code, or one that was forgotten here, shows up."""
    checked = {row[:4] for row in rows()}
    exact = {
        row
        for row in STATES
        if "*" not in row and row[0] not in ("Pod", "Deployment", "ClusterOperator")
    }
    assert exact - checked <= {
        # A reason of rukpak that a PlatformOperator would copy if it ever stood there.
        ("PlatformOperator", "Installed", "False", "Unpacking"),
        ("BundleDeployment", "HasValidBundle", "True", "Unpacking"),
        ("BundleDeployment", "HasValidBundle", "False", "ReconcileFailed"),
        ("ClusterServiceVersion", "phase", "", ""),
    }


@pytest.mark.data
def test_every_reason_of_the_written_reference_is_in_the_tables(shared_data: Path) -> None:
    """Each word that the reference's tables of conditions name as a reason is known here."""
    text = (shared_data.parent / "docs" / "failures.md").read_text()
    section = text[text.index("# 2. Condition") : text.index("# 3. Failure")]
    known = {word for row in STATES for word in row[1:]}
    missing = set()
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|-: "):
            missing |= set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][A-Za-z]+)+\b", " ".join(cells[:3])))
    others = {"CatalogSource", "OperatorGroup", "ClusterOperator", "BundleDeploymentHealth"}
    assert missing - known - others == set()
