"""The sandbox: a Kubernetes API server with OLM's kinds, a scenario, and the controllers' moves.

For demos, screenshots and tests without a cluster; a process that ends takes it along. Public
surface: `Sandbox`. Must not know Django.
"""

import threading
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import yaml

from olmweb.sandbox.apiserver.api import Api
from olmweb.sandbox.apiserver.connections import Server
from olmweb.sandbox.apiserver.messages import Request, Response
from olmweb.sandbox.apiserver.script import Script
from olmweb.sandbox.apiserver.state import StateFile
from olmweb.sandbox.apiserver.store import Store, copied, timestamp
from olmweb.sandbox.apiserver.watches import Watches
from olmweb.sandbox.controllers.catalogd import PREFIX, Catalogd
from olmweb.sandbox.controllers.controller import Controller
from olmweb.sandbox.controllers.manifests import PackageManifests
from olmweb.sandbox.controllers.registries import Registries
from olmweb.sandbox.controllers.rules import Release, read_release
from olmweb.sandbox.scenario import content, world

TOKEN = "sandbox-admin-token"  # noqa: S105  # guards nothing: the server listens on loopback only


@cache
def _releases() -> tuple[Release, ...]:
    """Of the catalog that PlatformOperators are made from."""
    blobs = content.catalogs()["redhat-operators"]
    return tuple(read_release(blob) for blob in blobs if blob["schema"] == "olm.bundle")


class Sandbox:
    """One sandbox cluster on 127.0.0.1.

    `port` 0 takes a free one. With `state_file` everything in the store survives a restart.
    `step_seconds` is how long one step of an install takes. Raises ValueError for an unknown
    scenario and OSError when the port is taken.
    """

    def __init__(
        self,
        scenario: str = "audit",
        port: int = 0,
        state_file: Path | None = None,
        step_seconds: float = 1.0,
        bookmark_seconds: float = 5.0,
        token: str = TOKEN,
    ) -> None:
        if scenario not in world.SCENARIOS:
            known = ", ".join(world.SCENARIOS)
            raise ValueError(f"There is no scenario {scenario}; there are: {known}.")
        self.script = Script()
        self.store = Store()
        self.catalogd = Catalogd(self._is_serving)
        self.registries = Registries(self.store)
        self._token = token
        self._watches = Watches(self.store, bookmark_seconds)
        self._api = Api(self.store, self._watches)
        catalogs = content.catalogs()
        self._manifests = PackageManifests(self.store, catalogs)
        self.controller = Controller(self.store, _releases(), step_seconds)
        self._state = StateFile(state_file, self.store) if state_file else None
        if not (self._state and self._state.load()):
            world.build(self.store, self.controller)
        for name in catalogs:
            self.catalogd.publish(name, content.served(name), self._unpacked_at(name))
        self._server = Server(port, token, self.script, self._handle)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="sandbox", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serves from now on, and moves installs along."""
        self._thread.start()
        self.controller.start()
        if self._state:
            self._state.start()

    def stop(self) -> None:
        """Ends every connection and thread within seconds; writes the state file last."""
        self.controller.stop()
        self._watches.stop()
        self._server.stop()
        self._thread.join(timeout=3)
        if self._state:
            self._state.stop()

    def close(self) -> None:
        """Gives the port back of a sandbox that was never started."""
        self._server.server_close()

    def expire_lists(self) -> None:
        """Makes every continue token too old: the next page of a started list answers 410."""
        self.store.expire_lists()

    def write_kubeconfig(self, path: Path, context: str = "sandbox") -> None:
        """A kubeconfig with one context for this sandbox, readable by its owner only."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": context, "user": {"token": self._token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))

    def publish_catalog(self, name: str, data: bytes) -> None:
        """Replaces a ClusterCatalog's content; its resolved digest and times follow."""
        now = datetime.now(UTC)
        published = self.catalogd.publish(name, data, now)
        with self.store.changed:
            catalog = self.store.get("ClusterCatalog", name)
            if catalog is None:
                raise KeyError(f"There is no ClusterCatalog {name}.")
            changed = copied(catalog)
            image = changed["status"]["resolvedSource"]["image"]
            image["ref"] = image["ref"].split("@")[0] + "@" + published.digest
            changed["status"]["lastUnpacked"] = timestamp(now)
            self.store.put(changed)

    def _is_serving(self, name: str) -> bool:
        catalog = self.store.get("ClusterCatalog", name)
        conditions = (catalog or {}).get("status", {}).get("conditions", [])
        return any(
            condition["type"] == "Serving" and condition["status"] == "True"
            for condition in conditions
        )

    def _unpacked_at(self, name: str) -> datetime:
        catalog = self.store.get("ClusterCatalog", name)
        text = (catalog or {}).get("status", {}).get("lastUnpacked", "")
        return datetime.fromisoformat(text) if text else self.store.now()

    def _handle(self, request: Request) -> Response:
        if request.path.startswith(PREFIX + "/"):
            inner = Request(
                request.method,
                request.path.removeprefix(PREFIX),
                request.query,
                request.headers,
                request.body,
                request.who,
            )
            return self.catalogd.handle(inner)
        answer = self._manifests.answer(request) or self.registries.answer(request)
        return answer or self._api.handle(request)
