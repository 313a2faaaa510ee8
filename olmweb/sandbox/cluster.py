"""A sandbox cluster: the API server, the controllers and the scenario, on a port of 127.0.0.1.

For demos, screenshots and tests without a cluster. Public: `Sandbox`. Must not know Django.
"""

import threading
from datetime import datetime
from pathlib import Path

import yaml

from olmweb.sandbox.apiserver.api import SandboxApi
from olmweb.sandbox.apiserver.http_server import ApiServer, Request, Response, Script
from olmweb.sandbox.apiserver.reads import Watches
from olmweb.sandbox.apiserver.store import StateFile, Store
from olmweb.sandbox.controllers.catalog_apis import Catalogd, PackageManifests, Registries
from olmweb.sandbox.controllers.olm_v0 import OlmV0
from olmweb.sandbox.controllers.olm_v1 import OlmV1
from olmweb.sandbox.controllers.platform_operators import CATALOG_SOURCE, PlatformOperators
from olmweb.sandbox.scenario import world
from olmweb.sandbox.scenario.catalogs import catalogs, served

TOKEN = "sandbox-admin-token"  # noqa: S105  # guards nothing: the server listens on loopback only


class Sandbox:
    """One sandbox cluster.

    `port` 0 takes a free port. With `state_file` the objects survive a restart. `step_seconds` is
    the duration of one step of an install. Without `require_token` a request without credentials
    is the administrator's: kubectl sends none over plain HTTP. Raises ValueError for an unknown
    scenario and OSError if the port is in use.
    """

    def __init__(
        self,
        scenario: str = "audit",
        port: int = 0,
        state_file: Path | None = None,
        step_seconds: float = 1.0,
        bookmark_seconds: float = 5.0,
        token: str = TOKEN,
        *,
        require_token: bool = True,
    ) -> None:
        if scenario not in world.SCENARIOS:
            scenarios = ", ".join(world.SCENARIOS)
            raise ValueError(f"There is no scenario {scenario}; there are: {scenarios}.")
        self.script = Script()
        self.store = Store()
        self._step_seconds = step_seconds
        self._token = token
        self._watches = Watches(self.store, bookmark_seconds)
        self._api = SandboxApi(self.store, self._watches)
        self._catalogd = Catalogd(self._is_serving)
        self.registries = Registries(self.store)
        self._manifests = PackageManifests(self.store, catalogs())
        self.platform_operators = PlatformOperators(self.store, catalogs()[CATALOG_SOURCE[1]])
        self._olm_v0 = OlmV0(self.store, catalogs())
        self._olm_v1 = OlmV1(self.store, catalogs())
        self._state = StateFile(state_file, self.store, world.fingerprint()) if state_file else None
        if not (self._state and self._state.load()):
            world.build(self.store, self.platform_operators)
        for name in catalogs():
            self._catalogd.publish(name, served(name), self._unpacked_at(name))
        self._server = ApiServer(
            port, token, self.script, self._respond, require_token=require_token
        )
        self._stopping = threading.Event()
        self._threads = (
            threading.Thread(
                target=self._server.serve_forever, args=(0.05,), name="sandbox", daemon=True
            ),
            threading.Thread(target=self._step, name="sandbox-controllers", daemon=True),
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serves requests and moves installs from now on."""
        for thread in self._threads:
            thread.start()
        if self._state:
            self._state.start()

    def stop(self) -> None:
        """Ends every connection and thread within seconds; writes the state file last."""
        self._stopping.set()
        self._watches.stop()
        self._server.stop()
        for thread in self._threads:
            thread.join(timeout=3)
        if self._state:
            self._state.stop()

    def close(self) -> None:
        """Closes the port of a sandbox that was never started."""
        self._server.server_close()

    def step_all(self) -> None:
        """One step of every controller."""
        self.platform_operators.step_all()
        self._olm_v0.step_all()
        self._olm_v1.step_all()

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

    def _step(self) -> None:
        settled = -1
        while not self._stopping.wait(self._step_seconds):
            if self.store.version == settled:
                continue
            before = self.store.version
            self.step_all()
            # A step that wrote can have a next one; only a pass without writes is the end.
            settled = before if self.store.version == before else -1

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

    def _respond(self, request: Request) -> Response:
        for api in (self._catalogd, self._manifests, self.registries):
            if response := api.respond(request):
                return response
        return self._api.handle(request)
