"""What conditions of PlatformOperators and of rukpak's kinds mean. Data only; see states.py.

Sources: platform-operators main and 4.12, rukpak v0.9 to v0.24.
"""

TABLE = {
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
