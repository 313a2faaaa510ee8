"""The soak requests no more actions than it was allowed to, so that each fault meets some."""

import time
from typing import Any

from tests.peers.client import wait_until
from tests.soak.requested import Api, Requests
from tests.soak.run import shares


class Accepting(Api):
    """Accepts every action, which has succeeded at once."""

    def __init__(self) -> None:
        super().__init__(["http://127.0.0.1:1"], "token")
        self.keys: list[str] = []

    def post(self, path: str, body: dict[str, Any], key: str) -> Any:
        self.keys.append(key)
        return {"id": len(self.keys)}

    def get(self, path: str, **query: str) -> Any:
        return {"state": "succeeded"}


def test_a_client_requests_as_many_actions_as_it_is_allowed_to() -> None:
    api = Accepting()
    requests = Requests(api, ["c0"], each=4, wanted={"c0": [("acme", "acme"), ("brisk", "brisk")]})
    assert requests.total == 4
    requests.start()
    requests.allow(1)
    wait_until(lambda: requests.ended == 1, "the end of the first action")
    time.sleep(0.2)
    assert api.keys == ["remove-c0-acme"]
    requests.allow(3)
    requests.join(10)
    assert api.keys == [
        "remove-c0-acme", "install-c0-acme", "remove-c0-brisk", "install-c0-brisk",
    ]  # fmt: skip
    assert (requests.ended, requests.failures) == (4, [])


def test_every_fault_has_its_share_of_the_actions() -> None:
    assert shares(18, 12) == [1, 2] * 6
    assert (min(shares(1000, 13)), sum(shares(1000, 13))) == (76, 1000)
