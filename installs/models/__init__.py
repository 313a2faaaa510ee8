"""Installed objects as last read from the clusters, and the requests of people."""

from installs.models.actions import AccessAnswer as AccessAnswer
from installs.models.actions import Action as Action
from installs.models.actions import ActionBatch as ActionBatch
from installs.models.actions import ActionKey as ActionKey
from installs.models.history import CopyReport as CopyReport
from installs.models.history import CrdCheck as CrdCheck
from installs.models.history import Notification as Notification
from installs.models.history import ObjectYaml as ObjectYaml
from installs.models.history import Transition as Transition
from installs.models.history import UnknownMessage as UnknownMessage
from installs.models.requests import AllowRule as AllowRule
from installs.models.requests import InstallRequest as InstallRequest
from installs.models.state import FAILING as FAILING
from installs.models.state import NEEDS_ATTENTION as NEEDS_ATTENTION
from installs.models.state import ClusterInventory as ClusterInventory
from installs.models.state import ClusterOperator as ClusterOperator
from installs.models.state import ClusterOperatorMember as ClusterOperatorMember
from installs.models.state import Component as Component
from installs.models.state import CRDState as CRDState
from installs.models.state import Event as Event
from installs.models.state import Health as Health
from installs.models.state import Observed as Observed
from installs.models.state import Operator as Operator
from installs.models.state import OperatorReference as OperatorReference
from installs.models.webhooks import WebhookDelivery as WebhookDelivery
from installs.models.webhooks import WebhookReceiver as WebhookReceiver
