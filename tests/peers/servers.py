"""etcd and kube-apiserver as context managers, on free loopback ports, and our CRDs for them.

Several API servers may share one etcd, each under a prefix of its own. No controller manager runs:
namespaces stay Terminating, nothing is garbage-collected and Deployments never progress; a test
plays the controller with `Client.set_status`.
"""

import base64
import json
import secrets
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.peers.build import binary
from tests.peers.client import ApiRefused, Client, wait_until
from tests.peers.processes import Server, folder
from tests.services import free_port

CRDS = Path(__file__).resolve().parent / "crds"
REAL_CRDS = CRDS.parent.parent.parent.parent / "shared" / "data" / "crds"
# Two generations of one CRD: a server has the older one unless a test asks otherwise.
NOT_BY_DEFAULT = {"bundledeployments.core.rukpak.io.v1alpha2"}
# User -> groups. `admin` may do everything; the others nothing until a test binds a role.
USERS = {
    "admin": ("system:masters",),
    "olmweb": ("olmweb",),
    "olivia": ("olmweb-operators",),
    "bob": ("olmweb-viewers",),
    "nobody": (),
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def program(name: str) -> str:
    path = binary(name)
    if path is None:
        raise RuntimeError(f"{name} is not built; `make peers` builds it")
    return str(path)


class Etcd:
    """A running etcd. `compact` forgets history, so that old resourceVersions get 410."""

    def __init__(self, home: Path) -> None:
        port, peer = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.data_dir = home / "data"
        of_peers = f"http://127.0.0.1:{peer}"
        self.server = Server(
            "etcd",
            [program("etcd"), "--data-dir", str(self.data_dir), "--unsafe-no-fsync",
             "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
             "--listen-peer-urls", of_peers, "--initial-advertise-peer-urls", of_peers,
             "--initial-cluster", f"default={of_peers}", "--log-level", "warn"],
            home,
        )  # fmt: skip
        self._http = urllib3.PoolManager(retries=False, timeout=5)

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self.server.process

    def start(self) -> None:
        self.server.launch()
        wait_until(self._healthy, "etcd's /health", pause=0.03)

    def _healthy(self) -> bool:
        self.server.check()
        try:
            return self._http.request("GET", f"{self.url}/health").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        self.server.stop()

    def close(self) -> None:
        self._http.clear()
        self.kill()

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._http.request("POST", f"{self.url}/v3/{path}", body=json.dumps(body))
        if answer.status != 200:
            raise RuntimeError(f"etcd refused {path}: {answer.data.decode()}")
        return answer.json()

    def compact(self) -> int:
        """Forgets everything before the current revision, and returns that.

        An API server with a watch cache still serves what its cache holds; one that starts later,
        or runs with watch_cache=False, answers 410 to an older resourceVersion.
        """
        revision = int(self._call("maintenance/status", {})["header"]["revision"])
        self._call("kv/compaction", {"revision": str(revision), "physical": True})
        return revision


@contextmanager
def etcd() -> Iterator[Etcd]:
    """An etcd with data of its own."""
    with folder("etcd") as home:
        running = Etcd(home)
        try:
            running.start()
            yield running
        finally:
            running.close()


class ApiServer:
    """A running kube-apiserver. `admin` is a client with all rights, `client(user)` another's."""

    def __init__(
        self, etcd: Etcd, home: Path, *, prefix: str, audit_log: bool, watch_cache: bool
    ) -> None:
        self.etcd = etcd
        self.home = home
        self.prefix = prefix
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.tokens = {user: secrets.token_urlsafe(24) for user in USERS}
        self.token = self.tokens["admin"]
        self.ca_file = home / "certs" / "apiserver.crt"
        self._clients: dict[str, Client] = {}
        _write_files(home, self.tokens)
        options = _options(etcd, home, prefix, self.port, watch_cache)
        self._audit_log = home / "audit.jsonl"
        if audit_log:
            options |= {
                "audit-policy-file": str(home / "audit-policy.json"),
                "audit-log-path": str(self._audit_log),
            }
        command = [program("kube-apiserver"), *(f"--{k}={v}" for k, v in options.items())]
        self.server = Server("kube-apiserver", command, home)

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self.server.process

    @property
    def admin(self) -> Client:
        return self.client("admin")

    def client(self, user: str) -> Client:
        if user not in self._clients:
            self._clients[user] = Client(self.url, str(self.ca_file), self.tokens[user])
        return self._clients[user]

    def start(self) -> None:
        """Starts it, also again after `kill` or `stop`, and waits until it is ready."""
        self.server.launch()
        wait_until(self._ready, "kube-apiserver's /readyz", seconds=60, pause=0.05)

    def _ready(self) -> bool:
        self.server.check()
        if not self.ca_file.is_file():
            return False
        try:
            self.admin.call("GET", "/readyz")
        except (urllib3.exceptions.HTTPError, ApiRefused, OSError):
            return False
        return True

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        self.server.stop()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.kill()

    def write_kubeconfig(self, path: Path, context: str = "real", token: str | None = None) -> Path:
        """Writes a kubeconfig with one context for the given token, else the administrator's."""
        ca = base64.b64encode(self.ca_file.read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": ca}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": context, "user": {"token": token or self.token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        }
        path.write_text(json.dumps(config, indent=1))
        path.chmod(0o600)
        return path

    def audit_events(self) -> list[dict[str, Any]]:
        """What was asked of the server so far; needs audit_log=True."""
        return [json.loads(line) for line in self._audit_log.read_text().splitlines()]


def _write_files(home: Path, tokens: dict[str, str]) -> None:
    """The files that kube-apiserver's options name."""
    (home / "tokens.csv").write_text(
        "".join(
            f'{token},{user},{user},"{",".join(USERS[user])}"\n' for user, token in tokens.items()
        )
    )
    (home / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
    subprocess.run(
        ["openssl", "genrsa", "-out", str(home / "sa.key"), "2048"],
        check=True,
        capture_output=True,
    )


def _options(etcd: Etcd, home: Path, prefix: str, port: int, watch_cache: bool) -> dict[str, str]:
    return {
        "etcd-servers": etcd.url,
        "etcd-prefix": f"/{prefix}",
        "cert-dir": str(home / "certs"),
        "secure-port": str(port),
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "service-cluster-ip-range": "10.0.0.0/24",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": str(home / "sa.key"),
        "service-account-signing-key-file": str(home / "sa.key"),
        "authorization-mode": "RBAC",
        "token-auth-file": str(home / "tokens.csv"),
        "disable-admission-plugins": "ServiceAccount",
        "watch-cache": str(watch_cache).lower(),
    }


@contextmanager
def apiserver(
    etcd: Etcd, *, prefix: str = "", audit_log: bool = False, watch_cache: bool = True
) -> Iterator[ApiServer]:
    """A kube-apiserver on `etcd`; without a prefix it gets an empty one of its own.

    With an earlier prefix it serves what another left there.
    """
    with folder("apiserver") as home:
        running = ApiServer(
            etcd,
            home,
            prefix=prefix or f"test-{secrets.token_hex(4)}",
            audit_log=audit_log,
            watch_cache=watch_cache,
        )
        try:
            running.start()
            yield running
        finally:
            running.close()


def crd_file(name: str) -> Path:
    """The real CRD where it lies beside the checkout, else the project's own small one."""
    real = REAL_CRDS / f"{name}.yaml"
    return real if real.is_file() else CRDS / f"{name}.yaml"


def apply_crds(server: ApiServer, names: Iterable[str] | None = None) -> None:
    """Applies CRDs and waits until all are served.

    `names`: of files in tests/peers/crds without suffix; None: all that OLM Web reads, with
    BundleDeployment in its v1alpha1 generation.
    """
    chosen = sorted({path.stem for path in CRDS.glob("*.yaml")} - NOT_BY_DEFAULT)
    paths = []
    for name in names or chosen:
        crd = yaml.load(crd_file(name).read_text(), yaml.CSafeLoader)
        crd.pop("status", None)
        spec = server.admin.apply(crd)["spec"]
        version = next(v["name"] for v in spec["versions"] if v["storage"])
        paths.append(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1")
    wait_until(lambda: all(_is_served(server, path) for path in paths), "every CRD being served")


def _is_served(server: ApiServer, path: str) -> bool:
    try:
        server.admin.call("GET", path)
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise
    return True
