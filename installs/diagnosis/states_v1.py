"""What conditions of OLM v1's kinds mean. Data only; see states.py.

Sources: operator-controller and catalogd v1.0 to v1.11. Before v1.6 a deprecation condition that
is not true has the reason Deprecated all the same, so those are told apart by status.
"""

TABLE = {
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
