"""Fixtures that every test shares: people, loopback only, components that may be missing."""

import gc
import os
import shutil
import socket
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.signals import request_finished, request_started
from django.db import connection

from olmweb.kube.transport import TokenBucket
from olmweb.management.commands import migrate
from olmweb.sandbox.apiserver.store import Store, copied
from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.controllers.platform_operators import PlatformOperators
from olmweb.sandbox.scenario import world
from olmweb.web.revisions import PerRevision
from tests.migrated import fill_connection
from tests.run import ASKING_FILES, files_of_peers
from tests.services import HOW_TO_GET, postgres_bin, required

pytest_plugins = [
    "tests.peers.fixtures",
    "tests.real.fixtures",
    "tests.worlds.page_fixtures",
    "tests.worlds.rest_fixtures",
]

LONGEST = (
    "tests/installs/state/test_watch_cluster.py",
    "tests/real/test_watch_faults.py",
    "tests/real/test_olm_v0.py",
    "tests/installs/state/test_watch_worker.py",
    "tests/real/test_olm_v0_rows.py",
    "tests/real/test_watch_cache.py",
    "tests/real/test_watch_clocks.py",
    "tests/e2e/test_real_actions.py",
    "tests/e2e/test_accessibility.py",
    "tests/e2e/test_real_olm.py",
    "tests/olmweb/serving/test_server.py",
    "tests/olmweb/runtime/test_redis_worker.py",
    "tests/olmweb/web/test_security.py",
    "tests/catalogs/sync/test_sync_processes.py",
)
DATABASE_FIXTURES = {"db", "transactional_db"}
ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    # The real hasher takes a quarter of a second per user, and no test is about it.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Each test client would look through all static files at its first request.
    settings.WHITENOISE_AUTOREFRESH = True
    # No property is about time, and other work on the machine makes any example slow.
    hypothesis.settings.register_profile("olmweb", deadline=None)
    hypothesis.settings.register_profile(
        "quick", hypothesis.settings(max_examples=10), deadline=None
    )
    hypothesis.settings.load_profile(config.getoption("hypothesis_profile") or "olmweb")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Marks what asks the database: pytest-django refuses it to all others of this process.
    tests.run looks for the journeys and for the soak in their own folders only, and for tests on
    the real components in the files that name their marker.

    Those whose database is that of a process which they start carry the marker themselves. The
    files that take longest begin first: one that begins last keeps one process busy alone.
    """
    peers = set(files_of_peers())
    for item in items:
        if item.get_closest_marker("peers") and not {str(item.path), str(item.path.parent)} & peers:
            raise pytest.UsageError(f"{item.nodeid} has the marker peers: write it in its file")
        for marker in ("e2e", "soak"):
            if item.get_closest_marker(marker) and f"/tests/{marker}/" not in str(item.path):
                raise pytest.UsageError(f"{item.nodeid} has the marker {marker}: tests/{marker}/")
        fixtures = getattr(item, "fixturenames", ())
        if item.get_closest_marker("django_db") or not DATABASE_FIXTURES.isdisjoint(fixtures):
            item.add_marker("database")
    if path := os.environ.get(ASKING_FILES):
        asking = {str(item.path) for item in items if is_asking(item)}
        Path(path).write_text("\n".join(sorted(asking)), encoding="utf-8")
    yield
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def pytest_collection_finish() -> None:
    """Code, settings and tests live as long as the run, and looking for garbage among their
    700,000 objects would take a twelfth of its processor time. The web server does the same."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def is_asking(item: pytest.Item) -> bool:
    """Whether a test runs on the second database, too."""
    names = {mark.name for mark in item.iter_markers()}
    return "database" in names and names.isdisjoint({"one_database", "e2e", "peers", "soak"})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile the files of tests/conformance count as one: they share two servers."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return str(Path(path).parent) if path.startswith("tests/conformance/") else path

    return Together(config, log) if config.getoption("dist") == "loadfile" else None


def need(component: str, present: bool) -> None:
    """Skips the test when a component is missing, or fails it where OLMWEB_TEST_REQUIRE says so."""
    if present:
        return
    if component in required():
        pytest.fail(f"{component} is required: {HOW_TO_GET[component]}")
    pytest.skip(HOW_TO_GET[component])


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that tries to leave this machine fails at once."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])
            if not (host.startswith("127.") or host in ("::1", "localhost")):
                raise AssertionError(f"a test tried to connect to {host}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def no_limit_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own limit of requests a second, whose tests bring their own bucket, costs no time."""
    fast = partial(TokenBucket, rate=10_000, burst=10_000)
    monkeypatch.setattr("olmweb.kube.transport.TokenBucket", fast)


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    from django.core.cache import cache

    yield
    cache.clear()


@pytest.fixture(autouse=True)
def values_per_revision(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Factories write rows without a new revision of their cluster, so each page reads them anew.
    Tests with the marker `revisions` keep values as the product does, none of another test."""
    keeps = request.node.get_closest_marker("revisions") is not None
    kept, used, pages = PerRevision.of, set[int](), [0]

    def begin(**_: object) -> None:
        pages[0] += 1
        if not keeps:
            used.clear()

    def end(**_: object) -> None:
        pages[0] -= 1

    def of(values: PerRevision[Any], rows: Iterable[Any]) -> dict[int, Any]:
        if id(values) not in used or not (keeps or pages[0]):
            used.add(id(values))
            values._stored.clear()
        return kept(values, rows)

    monkeypatch.setattr(PerRevision, "of", of)
    request_started.connect(begin)
    request_finished.connect(end)
    yield
    request_started.disconnect(begin)
    request_finished.disconnect(end)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """The migration of the test database finds the tables there, copied from another database."""
    handle = migrate.Command.handle

    def fill_and_handle(self: migrate.Command, *args: Any, **options: Any) -> None:
        filling.stop()
        fill_connection(connection)
        handle(self, *args, **options)

    filling = patch.object(migrate.Command, "handle", fill_and_handle)
    filling.start()
    yield
    filling.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real catalogs, CRDs and the audit, where they lie beside the checkout."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real catalogs are not beside this checkout (../shared/data)")
    return folder


@pytest.fixture
def alice(db: None) -> User:
    """Administrator."""
    return User.objects.create_superuser("alice", password="alice-password")


@pytest.fixture
def bob(db: None) -> User:
    """Viewer: may read."""
    user = User.objects.create_user("bob", password="bob-password")
    user.groups.add(Group.objects.get_or_create(name="olmweb-viewers")[0])
    return user


@pytest.fixture
def olivia(db: None) -> User:
    """Operator: the sandbox's RBAC lets this group write PlatformOperators."""
    user = User.objects.create_user("olivia", password="olivia-password")
    user.groups.add(Group.objects.get_or_create(name="olmweb-operators")[0])
    return user


@pytest.fixture
def tess(db: None) -> User:
    """May try, says OLM Web; no cluster knows her."""
    user = User.objects.create_user("tess", password="tess-password")
    user.user_permissions.add(Permission.objects.get(codename="add_action"))
    return user


# Of the audit's 69 PlatformOperators: those that tests need. The first read of a cluster with all
# of them, which most tests of actions begin with, takes twice the time.
FEW = ("3scale-operator", "advanced-cluster-management", "eap", "external-dns-operator")
_built: dict[bool, tuple[datetime, Any]] = {}  # the scenario as it was built last; True: whole


def _restore_or_build(monkeypatch: pytest.MonkeyPatch, *, whole: bool) -> None:
    build = world.build

    def restore_or_build(store: Store, platform_operators: PlatformOperators) -> None:
        now = store.now()
        if whole not in _built or abs(now - _built[whole][0]) > timedelta(seconds=30):
            build(store, platform_operators)
            if not whole:
                _leave_few(store)
                platform_operators.aggregate()  # or the first step of the controllers would
            _built[whole] = now, copied(store.snapshot())
        store.restore(copied(_built[whole][1]))

    monkeypatch.setattr(world, "build", restore_or_build)


def _leave_few(store: Store) -> None:
    for operator in store.items("PlatformOperator")[0]:
        if operator["metadata"]["name"] not in FEW:
            store.delete("PlatformOperator", operator["metadata"]["name"])
    namespaces = {item["metadata"]["name"] for item in store.items("Namespace")[0]}
    for csv in store.items("ClusterServiceVersion")[0]:
        if csv["metadata"]["namespace"] not in namespaces:
            store.delete(csv["kind"], csv["metadata"]["name"], csv["metadata"]["namespace"])


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes begin with the same objects, which are built anew when half a minute old: the
    demo's with FEW of its PlatformOperators."""
    _restore_or_build(monkeypatch, whole=False)


@pytest.fixture
def whole_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `scenario`, with all PlatformOperators of the audit."""
    _restore_or_build(monkeypatch, whole=True)


@pytest.fixture
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    """A simulated cluster in this process; the context "sandbox" of the settings leads to it."""
    server = Sandbox(step_seconds=0.02)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def chromium() -> str:
    path = shutil.which("chromium") or ""
    need("chromium", bool(path))
    return path


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    from tests.services import redis

    need("redis", shutil.which("redis-server") is not None)
    with redis() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    from tests.services import postgres

    need("postgres", postgres_bin() is not None)
    with postgres() as url:
        yield url
