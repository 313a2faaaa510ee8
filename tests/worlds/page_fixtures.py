"""Who looks at the pages, and the cluster that most of them are about."""

from typing import Any

import pytest
from django.test import Client

from olmweb.models import Cluster
from tests.factories import make_cluster


@pytest.fixture
def reader(client: Client, bob: Any) -> Client:
    """Signed in, and may change nothing."""
    client.force_login(bob)
    return client


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(name="prod")
