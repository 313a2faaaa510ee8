"""Fixtures of the API tests: the world, and callers of each kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from olmweb.models import ApiToken, Cluster
from tests.worlds.rest import ROOT, World, build_world

Get = Callable[..., Any]


@contextmanager
def rows_of_module(blocker: DjangoDbBlocker, build: Callable[[], object]) -> Iterator[None]:
    """Rows that are built once a module: each test's own changes are undone to this point."""
    with blocker.unblock(), transaction.atomic():
        build()
        with blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def stored_world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with rows_of_module(django_db_blocker, build_world):
        yield


@pytest.fixture
def world(stored_world: None, db: None) -> World:
    clusters = {cluster.name: cluster for cluster in Cluster.objects.all()}
    return World(prod=clusters["prod"], edge=clusters["edge"])


@pytest.fixture
def public(settings: Any) -> None:
    settings.PUBLIC_READ = True


# What people did is not public.
OF_PEOPLE = ("actions", "requests", "bulk-installs", "tokens", "events")


@pytest.fixture
def token(bob: User) -> str:
    return ApiToken.issue(bob.pk, "read")[0]


@pytest.fixture
def get(client: Client, public: None, token: str) -> Get:
    """GET below /api/v1/ with reading public: as anybody, with a token where that is needed."""
    client.get(f"{ROOT}status", headers={"Authorization": f"Bearer {token}"})  # its first use today

    def call(path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        if path.startswith(OF_PEOPLE):
            headers = {"Authorization": f"Bearer {token}", **headers}
        return client.get(ROOT + path, query or {}, headers=headers)

    return call
