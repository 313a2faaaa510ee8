"""From a change in a cluster to the webhook: passes record_changes, the task tells."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from installs import tasks
from installs.models import Notification, Transition
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.models import Cluster
from tests.kubefake import KubeFake
from tests.worlds import cluster as world
from tests.worlds.webhook_receiver import Receiver

pytestmark = pytest.mark.usefixtures("recorded")


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    with Receiver() as running:
        settings.WEBHOOK_URL = f"http://{running.host}/"
        settings.WEBHOOK_FORMAT = "json"
        yield running


def put(fake: KubeFake, name: str, *, failed: bool) -> None:
    """The same object every time: another uid would be another operator."""
    done = world.condition("Installed", "True", "InstallSuccessful")
    broken = world.condition("Installed", "False", "UnpackFailed", world.FAILURE)
    world.put_platform_operator(fake, name, broken if failed else done, uid=f"uid-of-{name}")


def told(receiver: Receiver) -> list[tuple[str, str, str]]:
    tasks.notify()
    return [
        (one["name"], one["from"], one["to"]) for body in receiver.bodies for one in body["changes"]
    ]


def test_a_failure_its_end_and_a_deletion_reach_the_webhook(
    fake: KubeFake, cluster: Cluster, receiver: Receiver
) -> None:
    put(fake, "good", failed=False)
    put(fake, "bad", failed=True)  # since before we looked: nobody needs to be told now
    tasks.sync_cluster(cluster.pk)
    assert told(receiver) == []
    put(fake, "good", failed=True)
    tasks.sync_cluster(cluster.pk)
    failed = ("good", "Healthy", "Failed")
    assert told(receiver) == [failed]
    assert receiver.bodies[0]["changes"][0]["finding"]["id"] == "allnamespaces-required"
    put(fake, "good", failed=False)
    tasks.sync_cluster(cluster.pk)
    healthy = ("good", "Failed", "Healthy")
    assert told(receiver) == [failed, healthy]
    fake.remove(PLATFORM_OPERATORS, "bad")  # told of nothing, so of no end
    put(fake, "good", failed=True)
    tasks.sync_cluster(cluster.pk)
    told(receiver)
    fake.remove(PLATFORM_OPERATORS, "good")
    tasks.sync_cluster(cluster.pk)
    assert told(receiver) == [failed, healthy, failed, ("good", "Failed", "Deleted")]


def test_a_pass_that_is_rolled_back_tells_nothing(
    fake: KubeFake, cluster: Cluster, receiver: Receiver
) -> None:
    put(fake, "good", failed=False)
    tasks.sync_cluster(cluster.pk)
    put(fake, "good", failed=True)
    before = Transition.objects.count()
    with transaction.atomic():
        tasks.sync_cluster(cluster.pk)
        assert Notification.objects.exists()
        transaction.set_rollback(True)
    assert Transition.objects.count() == before
    assert told(receiver) == []
