"""What an object's conditions mean: its health, the broken link of its chain, cause and remedy.

Pure: knows neither Django nor clusters. Texts and patterns are data in `installs/knowledge/`.
"""

from installs.diagnosis.chains import assess, deprecations, diagnose
from installs.diagnosis.classify import classify, finding_for, fingerprint
from installs.diagnosis.knowledge import Entry, knowledge
from installs.diagnosis.remedies import is_command
from installs.diagnosis.requirements import Requirement, requirement_rows
from installs.diagnosis.types import (
    Condition,
    Diagnosis,
    Finding,
    Link,
    Observation,
    read_conditions,
)

__all__ = [
    "Condition",
    "Diagnosis",
    "Entry",
    "Finding",
    "Link",
    "Observation",
    "Requirement",
    "assess",
    "classify",
    "deprecations",
    "diagnose",
    "finding_for",
    "fingerprint",
    "is_command",
    "knowledge",
    "read_conditions",
    "requirement_rows",
]
