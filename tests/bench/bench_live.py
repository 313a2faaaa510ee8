"""Pages that are open: how late they are, what they cost at rest, what they cost others."""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import psycopg
from playwright.sync_api import Page, sync_playwright

from olmweb.kube.client import KubeClient
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.kube.session import open_client
from tests.bench.tools import ROOT, at_rest, environment, migrate, one, p95, row, until
from tests.e2e.product import CHROMIUM_FLAGS, demo
from tests.services import free_port, postgres, postgres_bin, redis

CHANGES = 20
VERSION = "v1alpha1"
NAME = "icon-demo"
SHOWN = f"""document.querySelector('tr a[href*="{NAME}"]')"""
MANIFEST = {
    "apiVersion": f"platform.openshift.io/{VERSION}",
    "kind": "PlatformOperator",
    "metadata": {"name": NAME},
    "spec": {"package": {"name": NAME}},
}
AT_REST, BUSY = 1000, 200  # open pages
PATH = "/cluster-operators/"
REST_SECONDS, BUSY_SECONDS = 40, 40
CHANGE_SECONDS = 0.5
ASK_SECONDS = 0.1


def run() -> list[dict[str, Any]]:
    """Rows of the table; those for which a program is missing are left out."""
    return _lateness() + _open_pages()


def _lateness() -> list[dict[str, Any]]:
    """From a change in a cluster to the page of a person, in a browser on the demo."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    with demo() as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        page = browser.new_page(base_url=product.url)
        page.goto(f"/operators/?view=all&q={NAME}")
        with open_client("sandbox", str(product.folder / "kubeconfig")) as client:
            seconds = [one for _ in range(CHANGES // 2) for one in _come_and_go(page, client)]
        browser.close()
    return [row("live: cluster event to open page, p95", p95(seconds), "s", 0.5)]


def _come_and_go(page: Page, client: KubeClient) -> tuple[float, float]:
    """Seconds until an open list shows a new operator, and until it shows that it is gone."""
    started = time.perf_counter()
    client.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    _wait(page, SHOWN)
    came = time.perf_counter() - started
    time.sleep(1)
    started = time.perf_counter()
    client.delete(PLATFORM_OPERATORS, VERSION, NAME)
    _wait(page, f"!{SHOWN}")
    return came, time.perf_counter() - started


def _wait(page: Page, expression: str) -> None:
    """Looks at each frame; expect() looks after 0.1, 0.35, 0.85 and 1.85 s."""
    page.wait_for_function(f"() => {expression}", polling="raf", timeout=30_000)


def _open_pages() -> list[dict[str, Any]]:
    """One web process as in production, on PostgreSQL, with a watcher of one cluster."""
    if not (postgres_bin() and shutil.which("redis-server")):
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name, ExitStack() as stack:
        folder, port = Path(name), free_port()
        fleet = stack.enter_context(_cluster(folder / "kubeconfig"))
        url = stack.enter_context(postgres())
        environ = environment(
            folder,
            DATABASE_URL=url,
            REDIS_URL=stack.enter_context(redis()),
            KUBECONFIG=str(folder / "kubeconfig"),
            OLMWEB_SECRET_KEY="only for this measurement " * 3,
            OLMWEB_HOSTS="127.0.0.1",
            OLMWEB_HTTPS="false",
            OLMWEB_PUBLIC_READ="true",
            OLMWEB_WEB_PROCESSES="1",
            OLMWEB_CLUSTERS="c1=c1",
        )
        migrate(environ)
        collect = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
        subprocess.run(collect, check=True, env=environ, cwd=ROOT)
        for command in (
            ["-m", "celery", "-A", "olmweb", "worker", "--queues", "actions,watch", "-l", "error",
             "--pool", "threads", "--concurrency", "8"],
            ["-m", "celery", "-A", "olmweb", "beat", "-l", "error"],
        ):  # fmt: skip
            stack.enter_context(_process(command, environ))
        web = stack.enter_context(_process(["manage.py", "web", "--port", str(port)], environ))
        address = f"http://127.0.0.1:{port}"
        with psycopg.connect(url, autocommit=True) as database:
            until(lambda: one(database, _WATCHED) == 1, 120)
        until(lambda: _seconds(address) < 60, 60)
        _, idle = at_rest(web.pid, 2)
        with _visitors(address, AT_REST):
            cores, memory = at_rest(web.pid, REST_SECONDS)
        alone = [_seconds(address) for _ in range(50)]
        busy = _beside(address, fleet)
    return [
        row("live: 1,000 open pages at rest", cores, "cores", 0.1),
        row("live: 1,000 open pages at rest, memory over idle", memory - idle, "MB", 100),
        row("live: a page alone, p95", 1000 * p95(alone), "ms", 60),
        row("live: a page beside 200 open ones that change, p95", 1000 * p95(busy), "ms", 60),
    ]


_WATCHED = (
    "select count(*) from olmweb_resourcewatch"
    " where resource = 'ClusterOperator' and state = 'watching'"
)


@contextmanager
def _cluster(kubeconfig: Path) -> Iterator["subprocess.Popen[str]"]:
    """A simulated cluster, c1 (c0 is slow), which changes with each line on stdin."""
    with _talking(["tests.bench.fleet", "2", str(kubeconfig)]) as fleet:
        assert fleet.stdout
        fleet.stdout.readline()
        yield fleet


@contextmanager
def _visitors(address: str, number: int) -> Iterator[None]:
    with _talking(["tests.bench.visitors", address, str(number), PATH]) as visitors:
        assert visitors.stdout
        assert visitors.stdout.readline() == "open\n"
        yield
        counts = json.loads(visitors.communicate(timeout=60)[0])
        print(f"{number} open pages: {counts}", file=sys.stderr)
        assert not counts.get("failed"), counts


@contextmanager
def _talking(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """A module of the tests that runs until the end of its stdin."""
    command = [sys.executable, "-m", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.communicate(timeout=120)


@contextmanager
def _process(arguments: list[str], environ: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environ, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()


def _beside(address: str, fleet: "subprocess.Popen[str]") -> list[float]:
    """Seconds of each request of one more person, beside open pages of a cluster that changes."""
    over = threading.Event()
    changing = threading.Thread(target=_change, args=(fleet, over))
    with _visitors(address, BUSY):
        changing.start()
        end = time.monotonic() + BUSY_SECONDS
        seconds = []
        while time.monotonic() < end:
            seconds.append(_seconds(address))
            time.sleep(ASK_SECONDS)
        over.set()
        changing.join()
    return seconds


def _change(fleet: "subprocess.Popen[str]", over: threading.Event) -> None:
    assert fleet.stdin
    assert fleet.stdout
    while not over.wait(CHANGE_SECONDS):
        fleet.stdin.write("touch\n")
        fleet.stdin.flush()
        fleet.stdout.readline()


def _seconds(address: str) -> float:
    """Of one page, 99 when it is not answered."""
    started = time.perf_counter()
    try:
        with urllib.request.urlopen(address + PATH, timeout=30) as response:  # noqa: S310
            response.read()
    except OSError:
        return 99.0
    return time.perf_counter() - started
