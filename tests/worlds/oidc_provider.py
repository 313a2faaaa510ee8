"""A real OpenID provider in a process of its own, and people at it.

`python -m tests.worlds.oidc_provider PORT AGE AUDIENCE` serves oidc-provider-mock, whose tokens
Authlib makes. AGE is how many seconds an ID token is valid (negative: expired when it is made);
AUDIENCE, when given, is written into ID tokens instead of the client that asked.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import urllib3

from tests.services import free_port

HTTP = urllib3.PoolManager(retries=False, timeout=5)


@dataclass(frozen=True, slots=True)
class RunningProvider:
    issuer: str
    process: "subprocess.Popen[bytes]"

    def set_user(self, subject: str, **claims: Any) -> None:
        """Makes the person, or gives them other claims."""
        answer = HTTP.request(
            "PUT",
            f"{self.issuer}/users/{subject}",
            body=msgspec.json.encode(claims),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status == 204, answer.data

    def sign_in(self, address: str, subject: str) -> str:
        """What a browser does at the provider: where it is sent back to."""
        answer = HTTP.request("POST", address, fields={"sub": subject}, redirect=False)
        assert answer.status == 302, answer.data
        return str(answer.headers["Location"])

    def deny(self, address: str) -> str:
        answer = HTTP.request("POST", address, fields={"action": "deny"}, redirect=False)
        return str(answer.headers["Location"])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


@contextmanager
def provider(*, age: int = 3600, audience: str = "") -> Iterator[RunningProvider]:
    """The provider, ready; stopped at the end."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worlds.oidc_provider", str(port), str(age), audience],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"},
    )
    running = RunningProvider(f"http://127.0.0.1:{port}", process)
    try:
        _wait_until_ready(running)
        yield running
    finally:
        if process.poll() is None:
            running.stop()


def _wait_until_ready(running: RunningProvider) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            HTTP.request("GET", f"{running.issuer}/.well-known/openid-configuration")
            return
        except urllib3.exceptions.HTTPError:
            if time.monotonic() > deadline or running.process.poll() is not None:
                raise
            time.sleep(0.1)


def main(port: str, age: str, audience: str) -> None:
    import oidc_provider_mock
    from authlib.oidc.core import OpenIDCode  # type: ignore[import-untyped]
    from werkzeug.serving import run_simple

    if audience:
        OpenIDCode.get_audiences = lambda self, request: [audience]
    app = oidc_provider_mock.app(access_token_max_age=timedelta(seconds=int(age)))
    run_simple("127.0.0.1", int(port), app, threaded=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
