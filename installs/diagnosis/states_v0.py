"""What conditions and phases of OLM v0's kinds mean. Data only; see states.py.

A phase is written as a condition of type `phase` whose status is the phase. Conditions of a
Subscription are abnormal-true: one that is not true says that its problem is not there.
Source: operator-lifecycle-manager up to v0.43; platform-operators for its ClusterOperator.
"""

TABLE = {
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
        phase Failed InstallComponentFailed R
        phase Failed InstallComponentFailedNoRetry B
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
