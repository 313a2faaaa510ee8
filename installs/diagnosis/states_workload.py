"""What conditions of Deployments and waiting reasons of their pods mean. Data only.

A waiting reason is written as a condition of type `waiting` without a status. Sources: the
Deployment controller, kubelet and scheduler of Kubernetes 1.20 to 1.36.
"""

TABLE = {
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
        waiting - Unschedulable,SchedulingGated,SchedulerError R
        waiting - Evicted,NodeLost,OOMKilled,Error,ContainerCannotRun,DeadlineExceeded R
        waiting - UnexpectedAdmissionError,OutOfcpu,OutOfmemory,OutOfpods,NodeAffinity R
    """,
}
