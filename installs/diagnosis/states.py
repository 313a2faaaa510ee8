"""What each condition means: (kind, type, status, reason) -> class, as its controller writes it.

Data only. A status alone says nothing: `HasValidBundle=True/UnpackPending` is still unpacking and
`Progressing=True/Succeeded` is a steady state. What is not in the table is UNKNOWN, not a guess.
Sources: platform-operators main, rukpak v0.9 to v0.24, operator-controller and catalogd v1.
"""

from enum import Enum


class Class(Enum):
    HEALTHY = "H"
    PROGRESSING = "P"
    RETRYING = "R"  # an error that the controller tries again
    FAILED = "F"
    DEGRADED = "D"  # installed but impaired
    BLOCKED = "B"  # until a person acts
    INFORMATION = "I"
    UNKNOWN = "U"
    ABSENT = "-"  # the condition is not there


BROKEN = frozenset((Class.RETRYING, Class.FAILED, Class.DEGRADED, Class.BLOCKED))

# kind: "type status reason[,reason] class"; one line a group.
_TABLE = {
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


def _read(table: dict[str, str]) -> dict[tuple[str, str, str, str], Class]:
    rows = {}
    for kind, text in table.items():
        for line in filter(None, (line.split() for line in text.splitlines())):
            type_, status, reasons, letter = line
            for reason in reasons.split(","):
                rows[kind, type_, status, reason] = Class(letter)
    return rows


STATES = _read(_TABLE)


def class_of(kind: str, type_: str, status: str, reason: str) -> Class:
    """The class of one condition; UNKNOWN when no known controller writes it."""
    return STATES.get((kind, type_, status, reason), Class.UNKNOWN)
