"""What an object's conditions mean: its health, the broken link of its chain, cause and remedy.

Pure: knows neither Django nor clusters. Texts and patterns are data in `installs/knowledge/`.
"""

from installs.diagnosis.approvals import Approval, Change, approval
from installs.diagnosis.chains import assess, deprecations, diagnose
from installs.diagnosis.classify import classify, finding_for, fingerprint
from installs.diagnosis.crds import crd_problem
from installs.diagnosis.knowledge import Entry, knowledge
from installs.diagnosis.remedies import is_command
from installs.diagnosis.requirements import Requirement, requirement_rows
from installs.diagnosis.times import flaps, stuck, usual_time
from installs.diagnosis.types import (
    Condition,
    Diagnosis,
    Finding,
    Link,
    Observation,
    read_conditions,
)

__all__ = [
    "Approval",
    "Change",
    "Condition",
    "Diagnosis",
    "Entry",
    "Finding",
    "Link",
    "Observation",
    "Requirement",
    "approval",
    "assess",
    "classify",
    "crd_problem",
    "deprecations",
    "diagnose",
    "finding_for",
    "fingerprint",
    "flaps",
    "is_command",
    "knowledge",
    "read_conditions",
    "requirement_rows",
    "stuck",
    "usual_time",
]
