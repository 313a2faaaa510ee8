"""A catalog without the objects of its bundles, and the registry with their images."""

from collections.abc import Iterator
from typing import Any

import pytest

from catalogs.models import Catalog
from tests.factories import make_catalog
from tests.worlds.image_registry_fake import RegistryFake, registry_fake


@pytest.fixture(scope="module")
def running() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


@pytest.fixture
def fake(running: RegistryFake, settings: Any) -> RegistryFake:
    running.wrong.clear()
    running.script.clear()
    running.seen.clear()
    settings.INSECURE_REGISTRIES = frozenset([running.host])
    return running


@pytest.fixture
def catalog() -> Catalog:
    return make_catalog(name="community", revision=1)
