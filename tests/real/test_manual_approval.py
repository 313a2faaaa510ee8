"""How far a starting version with manual approval pins an operator, on real OLM v0."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.peers.client import Object, wait_until
from tests.peers.controllers import opm_serve
from tests.peers.processes import folder
from tests.real.bundles import Bundle, write_catalog
from tests.real.world import SECONDS, V1ALPHA1, World

pytestmark = pytest.mark.peers

FIRST = Bundle("pilot", "1.0.0")
SECOND = Bundle("pilot", "1.1.0", replaces="pilot.v1.0.0")
OTHER = Bundle("wharf", "1.0.0")
Publish = Callable[..., None]


@contextmanager
def changing_catalog(olm: World, namespace: str, *bundles: Bundle) -> Iterator[Publish]:
    """The CatalogSource `changing` in the namespace; yields a function that replaces its bundles
    and waits until OLM reads the new content."""
    with folder("changing-catalog") as catalog:
        write_catalog(catalog, bundles)
        with opm_serve(catalog) as opm:
            source = olm.catalog_source("changing", namespace, opm.address)

            def state() -> str:
                current = olm.kubectl.get(V1ALPHA1, "CatalogSource", "changing", namespace)
                return str(current["status"]["connectionState"]["lastObservedState"])

            def publish(*bundles: Bundle) -> None:
                opm.stop()
                wait_until(lambda: state() != "READY", "OLM missing the catalog", SECONDS)
                for old in catalog.iterdir():
                    (old / "catalog.json").unlink()
                    old.rmdir()
                write_catalog(catalog, bundles)
                opm.start()
                wait_until(lambda: state() == "READY", "OLM reading the catalog again", SECONDS)

            yield publish
            olm.kubectl.delete(source)


def wait_for_plans(olm: World, namespace: str, *expected: tuple[list[str], bool]) -> None:
    """Waits until the InstallPlans of the namespace have these ClusterServiceVersions each, and
    are approved or not."""

    def plans() -> list[tuple[list[str], bool]]:
        specs = [plan["spec"] for plan in olm.kubectl.list(V1ALPHA1, "InstallPlan", namespace)]
        rows = [(sorted(spec["clusterServiceVersionNames"]), spec["approved"]) for spec in specs]
        return sorted(rows)

    wait_until(lambda: plans() == sorted(expected), f"InstallPlans {expected}", SECONDS)


def install(olm: World, namespace: str, csv: str) -> None:
    """Approves the InstallPlan of a version and waits until the version has succeeded."""
    olm.approve(olm.install_plan(namespace, csv))
    olm.csv(namespace, csv, "Installing")

    def has_succeeded() -> bool:
        olm.play_node(namespace)
        current = olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", csv, namespace)
        return bool(current["status"]["phase"] == "Succeeded")

    wait_until(has_succeeded, f"{csv} Succeeded", SECONDS, pause=1)


def subscribe(olm: World, namespace: str, package: str, **spec: str) -> Object:
    return olm.subscribe(
        namespace,
        package,
        source="changing",
        sourceNamespace=namespace,
        installPlanApproval="Manual",
        **spec,
    )


def test_a_new_head_does_not_change_the_plan_of_the_starting_version(olm: World) -> None:
    namespace = olm.own_namespace("pinned")
    with changing_catalog(olm, namespace, FIRST) as publish:
        subscribe(olm, namespace, "pilot", startingCSV=FIRST.name)
        olm.install_plan(namespace, FIRST.name)
        publish(FIRST, SECOND)
        # OLM resolves the whole namespace again for another Subscription: still the first version.
        olm.subscribe(namespace, "winch", installPlanApproval="Manual")
        together = [FIRST.name, "winch.v1.0.0"]
        wait_for_plans(olm, namespace, ([FIRST.name], False), (together, False))


def test_the_next_version_waits_and_is_carried_by_the_plan_of_another_operator(olm: World) -> None:
    namespace = olm.own_namespace("carried")
    with changing_catalog(olm, namespace, FIRST, OTHER) as publish:
        subscribe(olm, namespace, "pilot", startingCSV=FIRST.name)
        install(olm, namespace, FIRST.name)
        publish(FIRST, SECOND, OTHER)
        wait_for_plans(olm, namespace, ([FIRST.name], True), ([SECOND.name], False))
        assert olm.csv(namespace, FIRST.name, "Succeeded")

        subscribe(olm, namespace, "wharf")
        together = [SECOND.name, OTHER.name]
        wait_for_plans(
            olm,
            namespace,
            ([FIRST.name], True),
            ([SECOND.name], False),
            (together, False),
        )
        # The approval of the install of `wharf` upgrades the pinned `pilot`.
        olm.approve(olm.install_plan(namespace, OTHER.name))
        olm.csv(namespace, SECOND.name, "Installing")
        olm.csv(namespace, OTHER.name, "Installing")
