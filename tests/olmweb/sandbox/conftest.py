"""A running sandbox and a small client on urllib3: nothing of the product is used here."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import urllib3

from olmweb.sandbox.cluster import TOKEN, Sandbox

STEP = 0.02


class Client:
    """JSON requests to one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.pool = urllib3.PoolManager()

    def raw(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **kwargs: Any
    ) -> urllib3.BaseHTTPResponse:
        sent = urllib3.HTTPHeaderDict({"Authorization": f"Bearer {TOKEN}"})
        sent.extend(headers or {})
        return self.pool.request(
            method, self.sandbox.url + path, headers=sent, retries=False, timeout=10, **kwargs
        )

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        """Status code and decoded body."""
        data = None if body is None else json.dumps(body)
        sent = urllib3.HTTPHeaderDict({"Content-Type": content_type})
        sent.extend(headers or {})
        answer = self.raw(method, path, sent, body=data)
        return answer.status, answer.json()

    def get(self, path: str) -> Any:
        status, body = self.call("GET", path)
        assert status == 200, body
        return body

    def apply(self, path: str, body: Any, **query: str) -> tuple[int, Any]:
        options = "&".join(f"{k}={v}" for k, v in ({"fieldManager": "olmweb"} | query).items())
        return self.call(
            "PATCH", f"{path}?{options}", body, content_type="application/apply-patch+yaml"
        )

    def as_user(self, user: str, *groups: str) -> urllib3.HTTPHeaderDict:
        """Impersonation headers: one Impersonate-Group for each group."""
        headers = urllib3.HTTPHeaderDict({"Impersonate-User": user})
        for group in groups:
            headers.add("Impersonate-Group", group)
        return headers

    def close(self) -> None:
        self.pool.clear()


OPERATORS = "/apis/platform.openshift.io/v1alpha1/platformoperators"


def operator(name: str, package: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": name},
        "spec": {"package": {"name": package or name}},
    }


def installed(item: dict[str, Any]) -> dict[str, str]:
    """The Installed condition, or {}."""
    conditions = item.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Installed"), {})


def wait_for(check: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    running = Sandbox(step_seconds=STEP, bookmark_seconds=0.2)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[Client]:
    made = Client(sandbox)
    yield made
    made.close()
