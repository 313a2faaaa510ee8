"""What is wrong with CustomResourceDefinitions, in their rows."""

from collections.abc import Collection

from installs.diagnosis import crd_problem, read_conditions
from installs.models import CRDState
from installs.state.bulk import update
from installs.state.store import batched


def assess_crds(ids: Collection[int]) -> int:
    """Brings finding and facts of these rows up to date; returns how many it wrote."""
    written = 0
    for batch in batched(sorted(ids)):
        touched = []
        for row in CRDState.objects.filter(id__in=batch).order_by("id"):
            found = crd_problem(
                row.name, row.defined, row.served, row.stored, read_conditions(row.conditions)
            )
            finding, facts = (found[0][:100], dict(found[1])) if found else ("", {})
            if (finding, facts) != (row.finding, row.facts):
                row.finding, row.facts = finding, facts
                touched.append(row)
        update(CRDState, touched, ["finding", "facts"])
        written += len(touched)
    return written
