"""What is installed, as the clusters last said it, and what people asked OLM Web to do."""

from installs.models.actions import AccessAnswer, Action, ActionBatch
from installs.models.history import CopyReport, Notification, Transition, UnknownMessage
from installs.models.requests import AllowRule, InstallRequest
from installs.models.state import (
    NEEDS_ATTENTION,
    ClusterInventory,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    CRDState,
    Event,
    Health,
    Observed,
    Operator,
    OperatorReference,
)

__all__ = (
    "NEEDS_ATTENTION",
    "AccessAnswer",
    "Action",
    "ActionBatch",
    "AllowRule",
    "CRDState",
    "ClusterInventory",
    "ClusterOperator",
    "ClusterOperatorMember",
    "Component",
    "CopyReport",
    "Event",
    "Health",
    "InstallRequest",
    "Notification",
    "Observed",
    "Operator",
    "OperatorReference",
    "Transition",
    "UnknownMessage",
)
