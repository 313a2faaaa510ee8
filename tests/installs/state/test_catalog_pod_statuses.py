"""Why the pods of a catalog don't run, from statuses as kubelet and scheduler write them."""

from collections.abc import Mapping
from typing import Any

import pytest

from installs.diagnosis.catalog_pods import catalog_pod_line
from installs.diagnosis.knowledge import Finding, classify
from installs.state.pods import not_ready_of, waiting_of
from tests.worlds.observations import catalog
from tests.worlds.pod_statuses import CASES, PodCase, pod


def finding(raw: Mapping[str, Any]) -> Finding | None:
    """The finding about the catalog `olm/community`, whose only pod this is."""
    line = catalog_pod_line(
        catalog("TRANSIENT_FAILURE", pods=[*waiting_of(raw), *not_ready_of(raw)], pods_total=1)
    )
    return classify(line, kind="CatalogSource", name="community", namespace="olm")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_every_way_in_which_a_pod_does_not_run_has_its_cause_and_remedy(case: PodCase) -> None:
    found = finding(pod("community-x7k2p", "olm", "community", case.status))
    assert found is not None
    assert found.id == case.finding
    text = " ".join((found.cause, *found.remedy))
    assert [words for words in case.says if words not in text] == []
    assert "TRANSIENT_FAILURE" not in found.title + found.cause
    assert any(step.startswith("kubectl") for step in found.remedy)
