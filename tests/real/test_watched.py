"""OLM Web watching real OLM v0: every step reaches the row by itself, in one unbroken watch."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installs.models import Health, Operator
from installs.state.watch.run import watch_cluster
from installs.state.watch.session import End
from olmweb.models import Cluster
from tests.peers.client import wait_until
from tests.real.world import SECONDS, World

# The watch has threads of its own, which must see what is written.
pytestmark = [pytest.mark.peers, pytest.mark.django_db(transaction=True)]

# From the cluster's change to the row; the watch itself takes a tenth of a second.
SOON = 5.0


class Watcher:
    """Runs the watch in this thread and a story beside it; the story may wait for rows."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._rows: dict[tuple[str, str], str] = {}
        self._over = False
        self._failure: BaseException | None = None

    def run(self, cluster: Cluster, story: Callable[[], None]) -> End:
        thread = threading.Thread(target=self._tell, args=(story,))
        thread.start()
        try:
            report = watch_cluster(cluster, seconds=180, stop=self._look)
        finally:
            self._over = True
            thread.join()
        if self._failure:
            raise self._failure
        return report.end

    def _tell(self, story: Callable[[], None]) -> None:
        try:
            story()
        except BaseException as error:  # raised again where the test is
            self._failure = error
        finally:
            self._over = True

    def _look(self) -> bool:
        """Asked by the watch a few times a second, in the thread that has the database."""
        self._rows = {(row.namespace, row.name): row.health for row in Operator.objects.all()}
        return self._over

    def wait_for(self, namespace: str, name: str, health: Health) -> None:
        """Waits for a row, and keeps how long that took."""
        began = time.monotonic()

        def is_so() -> bool:
            return self._over or self._rows.get((namespace, name)) == health

        wait_until(is_so, f"{name} being {health}", SECONDS, pause=0.02)
        assert not self._over, "the watch ended before its time"
        self.delays.append(time.monotonic() - began)


@pytest.fixture
def cluster(olm: World, tmp_path: Path, settings: Any) -> Cluster:
    settings.KUBECONFIG = str(olm.server.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.CLUSTERS = ["real"]
    return Cluster.objects.create(name="real", context="real")


def test_every_step_of_an_installation_reaches_the_row_within_seconds(
    olm: World, cluster: Cluster
) -> None:
    watcher = Watcher()

    def story() -> None:
        namespace = olm.own_namespace("watched")
        olm.subscribe(namespace, "winch", installPlanApproval="Manual")
        plan = olm.install_plan(namespace, "winch.v1.0.0")
        olm.tied(namespace, "winch", "winch.v1.0.0")
        watcher.wait_for(namespace, "winch", Health.NEEDS_APPROVAL)
        olm.approve(plan)
        olm.csv(namespace, "winch.v1.0.0", "Installing", "InstallWaiting")
        watcher.wait_for(namespace, "winch", Health.INSTALLING)
        olm.play_node(namespace)
        olm.csv(namespace, "winch.v1.0.0", "Succeeded")
        watcher.wait_for(namespace, "winch", Health.HEALTHY)

    assert watcher.run(cluster, story) is End.TIME
    assert max(watcher.delays) < SOON, watcher.delays


def test_the_watch_goes_on_after_the_api_server_was_killed(olm: World, cluster: Cluster) -> None:
    watcher = Watcher()

    def story() -> None:
        namespace = olm.own_namespace("killed")
        olm.subscribe(namespace, "winch", installPlanApproval="Manual")
        olm.install_plan(namespace, "winch.v1.0.0")
        watcher.wait_for(namespace, "winch", Health.NEEDS_APPROVAL)
        olm.server.kill()
        time.sleep(3)
        olm.server.start()
        olm.approve(olm.install_plan(namespace, "winch.v1.0.0"))
        olm.csv(namespace, "winch.v1.0.0", "Installing", "InstallWaiting")
        watcher.wait_for(namespace, "winch", Health.INSTALLING)

    watcher.run(cluster, story)
