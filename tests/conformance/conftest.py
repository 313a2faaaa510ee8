"""The two servers, with the same kinds and the same roles, and the count of comparisons."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import urllib3

from olmweb.sandbox.apiserver import access
from olmweb.sandbox.apiserver.kinds import all_kinds, crd_manifest
from olmweb.sandbox.cluster import TOKEN, Sandbox
from tests.conformance.server import APPLY, Server
from tests.conftest import need
from tests.peers import servers as peers
from tests.peers.build import binary

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def sandbox_server() -> Iterator[Server]:
    # No controller step within a run: nobody but the test writes.
    sandbox = Sandbox(step_seconds=3600, bookmark_seconds=60)
    sandbox.start()
    with urllib3.PoolManager() as pool:
        yield Server("sandbox", sandbox, TOKEN, pool, sandbox.store.compact, None)
    sandbox.stop()


@pytest.fixture(scope="package")
def real_server() -> Iterator[Server]:
    """An API server on an etcd of its own: the tests compact it. It ends with these tests."""
    need("apiserver", all(binary(name) for name in ("etcd", "kube-apiserver")))
    with ExitStack() as stack:
        etcd = stack.enter_context(peers.etcd())
        made: list[Server] = []

        def start(**options: Any) -> Server:
            api = stack.enter_context(peers.apiserver(etcd, prefix="conformance", **options))
            pool = urllib3.PoolManager(ca_certs=str(api.ca_file))
            stack.callback(pool.clear)
            return Server("real", api, api.token, pool, etcd.compact, None)

        def without_cache() -> Server:
            if not made:
                made.append(start(watch_cache=False))
            return made[0]

        server = start()
        server.without_cache = without_cache
        _serve_our_kinds(server)
        _bind_our_roles(server)
        yield server


def _serve_our_kinds(server: Server) -> None:
    """The CRDs that the sandbox says it has, given to a server that checks them."""
    custom = [kind for kind in all_kinds() if kind.custom]
    for kind in custom:
        crd = crd_manifest(kind)
        answer = server.call("PATCH", f"{CRDS}/{kind.resource}", crd, type=APPLY, fieldManager="t")
        assert answer.status == 201, answer.data
    for kind in custom:
        prefix = f"/apis/{kind.group}/{kind.version}/{kind.plural}"
        _until(lambda path=prefix: server.get(path).status == 200)


def _bind_our_roles(server: Server) -> None:
    for rule in access.RULES:
        role: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": rule.name},
            "rules": [
                {
                    "apiGroups": ["*"],
                    "resources": sorted(rule.plurals) or ["*"],
                    "verbs": sorted(rule.verbs),
                }
            ],
        }
        server.made(f"{RBAC}/clusterroles", role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        subject = {"apiGroup": "rbac.authorization.k8s.io"}
        binding = {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {**reference, "name": rule.name},
            "subjects": [
                {**subject, "kind": sort, "name": name}
                for name in sorted(rule.subjects)
                for sort in ("Group", "User")
            ],
        }
        del binding["rules"]
        server.made(f"{RBAC}/clusterrolebindings", binding)
    extensions = "/apis/olm.operatorframework.io/v1/clusterextensions"
    _until(lambda: server.get(extensions, user="v", groups=("olmweb-viewers",)).status == 200)


def _until(check: Any) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.peers)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    chosen: Server = request.getfixturevalue(f"{request.param}_server")
    before = chosen.compared
    yield chosen
    request.node.user_properties.append(("compared", chosen.compared - before))


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"n{next(_numbers)}"


@pytest.fixture
def ns(server: Server) -> str:
    """A namespace of the test's own."""
    made = f"ns{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made}}
    server.made("/api/v1/namespaces", body)
    return made


# --- the count


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """`N comparisons in M tests` for each server, and the tests whose counts differ."""
    counts: dict[str, dict[str, int]] = {"sandbox": {}, "real": {}}
    for report in terminalreporter.stats.get("", []):
        compared = dict(getattr(report, "user_properties", ())).get("compared")
        if report.when != "teardown" or compared is None:
            continue
        test, _, parameters = report.nodeid.partition("[")
        which, _, others = parameters.partition("-")
        counts[which.rstrip("]")][f"{test}[{others}"] = compared
    for which, tests in counts.items():
        if tests:
            text = f"conformance, {which}: {sum(tests.values())} comparisons in {len(tests)} tests"
            terminalreporter.write_line(text)
    both = counts["sandbox"].keys() & counts["real"].keys()
    for test in sorted(both):
        if counts["sandbox"][test] != counts["real"][test]:
            terminalreporter.write_line(f"conformance: not the same count in {test}")
