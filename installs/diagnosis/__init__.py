"""Diagnosis of objects by their conditions: health, broken link of the chain, cause and remedy.

Pure: uses neither Django nor clusters. Texts and patterns are data in `installs/knowledge/`.
"""

from installs.diagnosis.approvals import Approval, PlannedChange, approval
from installs.diagnosis.chains import assess, deprecations, diagnose
from installs.diagnosis.evaluate import Requirement, crd_problem, requirement_rows
from installs.diagnosis.knowledge import (
    Entry,
    Finding,
    classify,
    finding_for,
    fingerprint,
    is_command,
    knowledge,
)
from installs.diagnosis.notes import flaps, stuck, usual_time
from installs.diagnosis.types import Condition, Diagnosis, Link, Observation, read_conditions

__all__ = [
    "Approval",
    "Condition",
    "Diagnosis",
    "Entry",
    "Finding",
    "Link",
    "Observation",
    "PlannedChange",
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
