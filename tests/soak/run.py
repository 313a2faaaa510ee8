"""Load, then chaos, on the processes of one stack; the rows of the table.

The load: open pages, changes in the clusters and catalog syncs beside one more person's pages.
The chaos: each fault while actions are requested over REST, clusters and catalogs change, and two
readers follow the log of events.
"""

import itertools
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.bench.bench_sync import CATALOG
from tests.bench.tools import one, p95, row, until
from tests.soak import chaos
from tests.soak.changes import Changes
from tests.soak.fleet import Fleet
from tests.soak.followers import Followers, PageReader, StreamReader, broken_histories, read_log
from tests.soak.requested import Api, Requests
from tests.soak.stack import (
    DEFAULT_SHARES,
    Stack,
    client_group,
    remove_groups,
    stack,
    start_process,
)

PASSWORD = "only for this measurement"
PAGE = "/cluster-operators/"  # what stays open
PAGES = ("/", "/operators/", PAGE, "/software/")  # what one more person opens
PAGE_MS, ROWS_SECONDS = 100.0, 10.0
READY_SECONDS, END_SECONDS = 900.0, 600.0
SETTLED_SECONDS = 30  # verdicts that wait are evaluated every 10 s
ASK_SECONDS = 0.1
SAID = 20  # problems of one kind that are printed
MEET_SECONDS = 20.0
ENDED, SURPLUS = "actions requested and ended", "actions recorded beyond the requests"
LOST, DOUBLED = "actions lost", "deletes or creates that a cluster saw twice"
DIFFERENT = "rows unlike the clusters' objects"
EVENTS, TAILED = "events recorded during the faults", "events that a reader lost, doubled or moved"
BROKEN = "events that do not continue the one before of their object"
_WATCHED = (
    "select count(*) from olmweb_resourcewatch"
    " where resource = 'ClusterOperator' and state = 'watching'"
)
_INSTALLABLE = (
    "select count(distinct c.cluster_id) from catalogs_package p"
    " join catalogs_catalog c on c.id = p.catalog_id"
)
_PREDICTED = (
    "select count(distinct r.cluster_id) from catalogs_predictionrun r"
    " join installs_clusterinventory i on i.cluster_id = r.cluster_id"
    " where r.inputs <> '' and i.read_at is not null"
)
_VERDICTS_CHANGE = (
    "select count(*) from catalogs_predictionrun"
    " where changed_at > now() - make_interval(secs => %s)"
)


@dataclass(frozen=True, slots=True)
class Size:
    clusters: int
    pages: int  # open at once
    load_seconds: float  # 0: no load
    changes: float  # of objects in all clusters together, a second
    each: int  # actions of a cluster
    events: int  # recorded during the faults, at least
    between: float  # seconds from the end of one fault to the next
    actions_pause: float  # longer than the claim of an action (90 s); 0: not paused
    watch_pause: float  # longer than the lease of a watched cluster (3 s)
    redis: float


FULL = Size(50, 200, 40, 10, 20, 10_000, 4, 100, 25, 60)
SHORT = Size(3, 0, 0, 25, 6, 1_500, 1, 0, 15, 8)


def soak(size: Size) -> list[dict[str, Any]]:
    """Rows of the table. Raises RuntimeError when the stack does not become ready."""
    with tempfile.TemporaryDirectory(prefix="olmweb-soak-") as name, ExitStack() as exits:
        folder = Path(name)
        exits.callback(remove_groups)
        fleet = Fleet(size.clusters, folder / "kubeconfig")
        exits.callback(fleet.stop)
        product = exits.enter_context(stack(folder, fleet.names))
        product.manage("createadmin", OLMWEB_ADMIN_PASSWORD=PASSWORD)
        token = product.manage("apitoken", "admin", "--scope", "act").split()[0]
        _wait_until_ready(product, size.clusters)
        rows = _load(product, fleet, size) if size.load_seconds else []
        api = Api(product.urls, token)
        requests = Requests(api, fleet.names, size.each)
        requests.choose()
        followers = Followers([StreamReader(product.urls, token), PageReader(api)])
        changes = Changes(product, fleet, api, size.changes)
        return rows + _chaos(product, fleet, size, requests, changes, followers)


def _wait_until_ready(product: Stack, clusters: int) -> None:
    """Until every cluster is watched and has a catalog to install from, and its verdicts, made with
    a first reading of the cluster, change no more."""
    with psycopg.connect(product.postgres.url, autocommit=True) as database:
        deadline = time.monotonic() + READY_SECONDS
        for statement in (_WATCHED, _INSTALLABLE, _PREDICTED):
            while (ready := one(database, statement)) < clusters:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{ready} of {clusters} clusters after {READY_SECONDS:g} s")
                time.sleep(1)
        until(lambda: not one(database, _VERDICTS_CHANGE, SETTLED_SECONDS), READY_SECONDS, pause=1)


def _load(product: Stack, fleet: Fleet, size: Size) -> list[dict[str, Any]]:
    """A person opens pages while others have pages open, clusters change and a catalog syncs."""
    seconds: list[float] = []
    syncs: list[float] = []

    def sync(number: int) -> None:
        began = time.monotonic()
        product.manage("sync_catalog", f"large{number}", "--file", str(catalog))
        syncs.append(time.monotonic() - began)

    def change(number: int) -> None:
        fleet.touch(f"Load{number}", number % size.clusters, 1)

    with ExitStack() as exits:
        catalog = product.folder / "catalog.jsonl"
        exits.enter_context(_open_pages(product.urls[1], size.pages))
        exits.enter_context(_meanwhile(change, 1 / size.changes))
        if CATALOG.is_file():
            with lzma.open(CATALOG) as packed, catalog.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
            exits.enter_context(_meanwhile(sync, 0))
        else:
            _say("no catalog syncs: the catalog that tests/bench/bench_sync.py names is missing")
        exits.enter_context(client_group())
        for page in PAGES:  # once before: a new process reads what later pages only compare
            _open(product.urls[0] + page)
        end = time.monotonic() + size.load_seconds
        for page in itertools.cycle(PAGES):
            if time.monotonic() > end:
                break
            seconds.append(_open(product.urls[0] + page))
            time.sleep(ASK_SECONDS)
    _say(f"{len(seconds)} pages; load of the machine: {os.getloadavg()[0]:.0f}")
    _say(f"syncs of the large catalog: {[round(s, 1) for s in syncs]} s")
    _say(f"the slowest pages: {[round(1000 * s) for s in sorted(seconds)[-15:]]} ms")
    what = f"a page beside {size.pages} open ones, {size.clusters} changing clusters and syncs"
    return [row(f"{what}, p95", 1000 * p95(seconds), "ms", PAGE_MS)]


def _open(url: str) -> float:
    """Seconds until the whole page is there."""
    began = time.perf_counter()
    urllib.request.urlopen(url, timeout=60).read()  # noqa: S310
    return time.perf_counter() - began


def _chaos(
    product: Stack,
    fleet: Fleet,
    size: Size,
    requests: Requests,
    changes: Changes,
    followers: Followers,
) -> list[dict[str, Any]]:
    rows = []
    before = _events(product)
    requests.start()
    faults = list(
        chaos.all_faults(
            product,
            actions_pause=size.actions_pause,
            watch_pause=size.watch_pause,
            redis=size.redis,
        )
    )
    allowed = shares(requests.total, len(faults))
    for number, fault in enumerate(faults):
        # Each fault meets actions that were accepted since the one before.
        accepted = len(requests.actions)
        requests.allow(allowed[number])
        time.sleep(size.between)
        deadline = time.monotonic() + MEET_SECONDS
        while len(requests.actions) == accepted and time.monotonic() < deadline:
            time.sleep(ASK_SECONDS)
        fault.apply()
        seconds = chaos.seconds_until_rows(product, fleet, f"Chaos{number}")
        _say(f"{fault.name}: rows after {seconds:.1f} s; {len(requests.actions)} actions accepted")
        rows.append(row(f"{fault.name}: until the rows follow", seconds, "s", ROWS_SECONDS))
    requests.join(END_SECONDS)
    until(lambda: _events(product) - before >= size.events, END_SECONDS, pause=1)
    changes.stop()
    _say(f"the actions: {dict(Counter(requests.states.values()))}")
    for outcome, number in Counter(requests.outcomes.values()).most_common(10):
        _say(f"{number} x {outcome}")
    different = chaos.different_rows(product, fleet, ROWS_SECONDS)
    counts = fleet.counts()
    lost, doubled = requests.lost(counts), requests.doubled(counts)
    with psycopg.connect(product.postgres.url, autocommit=True) as database:
        recorded = one(database, "select count(*) from installs_action")
        # Afterwards nothing is recorded: the rows are those of the clusters.
        tailed = followers.problems(database)
        log = read_log(database)
    broken = broken_histories(log)
    for problem in (*lost, *doubled, *different, *tailed[:SAID], *broken[:SAID]):
        _say(problem)
    _say(f"{len(log)} events: {dict(Counter(event['type'] for event in log))}")
    for reader in followers.readers:
        _say(f"{reader.name}: {len(reader.received)} events")
    return [
        *rows,
        row(ENDED, requests.ended, "", size.clusters * size.each, at_least=True),
        row(SURPLUS, recorded - len(set(requests.actions.values())), "", 0),
        row(LOST, len(lost), "", 0),
        row(DOUBLED, len(doubled), "", 0),
        row(DIFFERENT, len(different), "", 0),
        row(EVENTS, len(log) - before, "", size.events, at_least=True),
        row(TAILED, len(tailed), "", 0),
        row(BROKEN, len(broken), "", 0),
    ]


def shares(total: int, parts: int) -> list[int]:
    """`total` in whole parts that differ by one at most."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]


def _events(product: Stack) -> int:
    with psycopg.connect(product.postgres.url) as database:
        return one(database, "select count(*) from olmweb_changeevent")


@contextmanager
def _meanwhile(turn: Callable[[int], None], pause: float) -> Iterator[None]:
    """Repeats `turn` beside the block, and raises what it raised."""
    over, errors = threading.Event(), list[Exception]()

    def work() -> None:
        try:
            for number in itertools.count():
                if over.wait(pause):
                    return
                turn(number)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def _open_pages(address: str, number: int) -> Iterator[None]:
    """Open pages as browsers keep them, in a process of their own."""
    command = [sys.executable, "-m", "tests.bench.visitors", address, str(number), PAGE]
    visitors = start_process(
        "visitors", command, DEFAULT_SHARES,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert visitors.stdout
        if visitors.stdout.readline() != "open\n":
            raise RuntimeError("the open pages ended")
        yield
    finally:
        _say(f"{number} open pages: {visitors.communicate(timeout=60)[0].strip()}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
