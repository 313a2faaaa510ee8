"""What is worth knowing of an installation although it does not decide its health."""

from collections.abc import Sequence
from datetime import datetime

from installs.diagnosis.types import Diagnosis, Finding, Observation


def notes_of(
    subject: Observation,
    components: Sequence[Observation],
    found: Diagnosis,
    now: datetime | None,
) -> tuple[Finding, ...]:
    """The notes, most important first; empty when there is nothing to say."""
    return ()
