"""OLM v0, opm, catalogd and an image registry as context managers, each beside a real API server.

OLM opens port 8080 (both of its programs; it can't be told otherwise, and does without when the
port is taken). Everything else listens on free ports.
"""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from tests.peers.client import Client, wait_until
from tests.peers.processes import Server, folder, with_parent
from tests.peers.servers import ApiServer, program
from tests.services import free_port, wait_for_port

DOCKER = "application/vnd.docker"
CONFIGS_LABEL = "operators.operatorframework.io.index.configs.v1"
SERVICE_ACCOUNT = Path("/run/secrets/kubernetes.io/serviceaccount")


def ensure_namespace(client: Client, name: str) -> None:
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def wait_for_log(server: Server, words: str, seconds: float = 30) -> None:
    """Waits until the process has logged `words` since it was launched the first time."""

    def logged() -> bool:
        server.check()
        return words in server.log.read_text(errors="replace")

    wait_until(logged, f"{server.name} saying {words!r}", seconds)


class Opm:
    """A running `opm serve`; `address` is what a CatalogSource's spec.address takes."""

    def __init__(self, catalog: Path, home: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.server = Server(
            "opm",
            [program("opm"), "serve", str(catalog), "--cache-dir", str(home / "cache"),
             "--cache-enforce-integrity=false", "--port", str(self.port),
             "--pprof-addr", "", "--termination-log", str(home / "termination.log")],
            home,
        )  # fmt: skip
        self._cache = home / "cache"

    def start(self) -> None:
        """Starts it, also again after `stop` or `kill`; a changed catalog is read anew."""
        shutil.rmtree(self._cache, ignore_errors=True)
        self.server.launch()
        assert self.server.process
        wait_for_port(self.port, self.server.process, "opm")

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        self.server.stop()


@contextmanager
def opm_serve(catalog: Path) -> Iterator[Opm]:
    """A catalog folder (file-based catalog) served over gRPC."""
    with folder("opm") as home:
        running = Opm(catalog, home)
        try:
            running.start()
            yield running
        finally:
            running.kill()


class OlmV0:
    """The two running programs of OLM v0; `namespace` is where global catalogs belong."""

    def __init__(self, server: ApiServer, namespace: str, home: Path) -> None:
        self.namespace = namespace
        kubeconfig = str(server.write_kubeconfig(home / "kubeconfig"))
        of_olm = ["--namespace", namespace]
        self.catalog = Server(
            "catalog", [program("catalog"), *of_olm, "--kubeconfig", kubeconfig], home
        )
        self.olm = Server("olm", [program("olm"), *of_olm], home, {"KUBECONFIG": kubeconfig})

    def start(self) -> None:
        """Starts both, also again after `kill`, and waits until they work."""
        for server in (self.catalog, self.olm):
            server.log.unlink(missing_ok=True)
            server.launch()
        for server in (self.catalog, self.olm):
            wait_for_log(server, "starting workers...")

    def kill(self) -> None:
        self.olm.kill()
        self.catalog.kill()


@contextmanager
def olm_v0(server: ApiServer, namespace: str = "olm") -> Iterator[OlmV0]:
    """OLM v0's controllers on `server`, whose CRDs must be there (`apply_crds`)."""
    ensure_namespace(server.admin, namespace)
    with folder("olm") as home:
        running = OlmV0(server, namespace, home)
        try:
            running.start()
            yield running
        finally:
            running.kill()


class Registry:
    """A running image registry without TLS; `host` is the first part of an image reference."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = {
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(home / "blobs")}},
            "http": {"addr": self.host},
        }
        (home / "config.yml").write_text(json.dumps(config))
        program = shutil.which("docker-registry")
        if program is None:
            raise RuntimeError("docker-registry is not installed; `make peers` installs it")
        self.server = Server("docker-registry", [program, "serve", str(home / "config.yml")], home)
        self._http = urllib3.PoolManager(retries=False, timeout=30)

    def start(self) -> None:
        self.server.launch()
        assert self.server.process
        wait_for_port(self.port, self.server.process, "docker-registry")

    def close(self) -> None:
        self._http.clear()
        self.server.kill()

    def push_catalog(self, repository: str, tag: str, content: bytes) -> str:
        """Pushes an image with `content` as /configs/catalog.json; returns its reference."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            entry = tarfile.TarInfo("configs/catalog.json")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        return self.push_image(repository, tag, [packed.getvalue()])

    def push_image(
        self,
        repository: str,
        tag: str,
        layers: list[bytes],
        labels: dict[str, str] | None = None,
        history: list[str] | None = None,
    ) -> str:
        """Pushes an image of these layers (tars), whose label names /configs unless others are
        given; returns its reference. `history` has the step of each layer."""
        config = {
            "history": [{"created_by": step} for step in history or ()],
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {CONFIGS_LABEL: "/configs"} if labels is None else labels},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        }
        of_layer = f"{DOCKER}.image.rootfs.diff.tar.gzip"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{DOCKER}.distribution.manifest.v2+json",
            "config": self._blob(
                repository, f"{DOCKER}.container.image.v1+json", json.dumps(config).encode()
            ),
            "layers": [
                self._blob(repository, of_layer, gzip.compress(layer, mtime=0)) for layer in layers
            ],
        }
        self.push_manifest(repository, tag, manifest)
        return f"{self.host}/{repository}:{tag}"

    def push_manifest(self, repository: str, tag: str, manifest: dict[str, Any]) -> str:
        """Pushes a manifest or an index; returns its digest."""
        data = json.dumps(manifest).encode()
        where = f"http://{self.host}/v2/{repository}/manifests/{tag}"
        self._send("PUT", where, data, manifest["mediaType"])
        return digest(data)

    def _blob(self, repository: str, media_type: str, content: bytes) -> dict[str, Any]:
        begun = self._send("POST", f"http://{self.host}/v2/{repository}/blobs/uploads/")
        where = f"{begun.headers['Location']}&digest={digest(content)}"
        self._send("PUT", where, content, "application/octet-stream")
        return {"mediaType": media_type, "size": len(content), "digest": digest(content)}

    def _send(
        self, method: str, url: str, body: bytes = b"", content_type: str = ""
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": content_type} if content_type else {}
        answer = self._http.request(method, url, body=body, headers=headers)
        if answer.status >= 400:
            raise RuntimeError(f"the registry refused {method} {url}: {answer.data.decode()}")
        return answer


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@contextmanager
def registry() -> Iterator[Registry]:
    """An empty image registry."""
    with folder("registry") as home:
        running = Registry(home)
        try:
            running.start()
            yield running
        finally:
            running.close()


class Catalogd:
    """A running catalogd; `url` and `ca_file` are how one reads from it."""

    def __init__(self, server: ApiServer, registry: Registry, home: Path) -> None:
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.ca_file = server.ca_file
        key = server.ca_file.with_suffix(".key")
        containers = home / ".config" / "containers"
        containers.mkdir(parents=True)
        (containers / "registries.conf").write_text(
            f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n'
        )
        token = home / "token"
        token.write_text(service_account_token(server.admin, "olmv1-system", "catalogd"))
        options = {
            "kubeconfig": str(server.write_kubeconfig(home / "kubeconfig")),
            "system-namespace": "olmv1-system",
            "catalogs-server-addr": f"127.0.0.1:{port}",
            "external-address": f"127.0.0.1:{port}",
            "tls-cert": str(server.ca_file),
            "tls-key": str(key),
            "metrics-bind-address": f"127.0.0.1:{free_port()}",
            "health-probe-bind-address": f"127.0.0.1:{free_port()}",
            "webhook-server-port": str(free_port()),
            "cache-dir": str(home / "cache"),
        }
        self.port = port
        command = [program("catalogd"), *(f"--{k}={v}" for k, v in options.items())]
        self.server = Server("catalogd", as_in_a_pod(command, token), home, {"HOME": str(home)})

    def start(self) -> None:
        self.server.launch()
        assert self.server.process
        wait_for_port(self.port, self.server.process, "catalogd")

    def kill(self) -> None:
        self.server.kill()


def as_in_a_pod(command: list[str], token: Path) -> list[str]:
    """`command` in a mount namespace of its own, with the token where a pod has it."""
    script = (
        f'mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && cp "$1" {SERVICE_ACCOUNT}/token'
        ' && shift && exec "$@"'
    )
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "--"]
    return [*namespace, "sh", "-c", script, "sh", str(token), *with_parent(command)]


def service_account_token(client: Client, namespace: str, name: str) -> str:
    """A token of a service account, which is made when it is not there."""
    ensure_namespace(client, namespace)
    account = {"name": name, "namespace": namespace}
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    path = client.path("v1", "ServiceAccount", name, namespace) + "/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return client.call("POST", path, request)["status"]["token"]


@contextmanager
def catalogd(server: ApiServer, registry: Registry) -> Iterator[Catalogd]:
    """catalogd on `server`, whose CRDs must be there; it may pull from `registry`."""
    with folder("catalogd") as home:
        running = Catalogd(server, registry, home)
        try:
            running.start()
            yield running
        finally:
            running.kill()
