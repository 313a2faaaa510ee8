"""Fixtures of the API tests: the world, and callers of each kind."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from olmweb.models import ApiToken
from tests.api.world import ROOT, World, build_world

Get = Callable[..., Any]


@pytest.fixture
def world(db: None) -> World:
    return build_world()


@pytest.fixture
def public(settings: Any) -> None:
    settings.PUBLIC_READ = True


@pytest.fixture
def get(client: Client, public: None) -> Get:
    """GET below /api/v1/ as anybody, with reading public."""

    def call(path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        return client.get(ROOT + path, query or {}, headers=headers)

    return call


@pytest.fixture
def token(bob: User) -> str:
    return ApiToken.issue(bob.pk, "read")[0]
