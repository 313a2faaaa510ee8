"""Pages and REST say the same of every operator and of every package of the demo."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from catalogs.models import Catalog
from catalogs.sync.catalog import sync_catalog
from installs.facts.evaluate import refresh
from installs.facts.inventory import read_inventory
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from olmweb.web.pagination import PAGE_SIZE
from tests.worlds.html import Page, read

ROOT = "/api/v1"
VERDICTS = {
    "installable": "Installable", "not-installable": "Not installable", "unknown": "Unknown",
}  # fmt: skip
TARGETS = {"own": "in its own namespace", "all": "for all namespaces"}
HEALTH = {"NeedsApproval": "Needs approval"}  # where the words of pages are not those of REST


@pytest.fixture(scope="module")
def demo(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: Any
) -> Iterator[None]:
    """The cluster of the demo with its catalogs and the verdicts on them, read once."""
    sandbox = Sandbox(step_seconds=3600)
    sandbox.start()
    kubeconfig = tmp_path_factory.mktemp("demo") / "kubeconfig"
    sandbox.write_kubeconfig(kubeconfig)
    before, settings.KUBECONFIG = settings.KUBECONFIG, str(kubeconfig)
    try:
        with django_db_blocker.unblock(), transaction.atomic():
            cluster = Cluster.objects.create(name="sandbox", context="sandbox")
            assert sync_cluster(cluster).error == ""
            cluster.refresh_from_db()
            outcomes = [sync_catalog(row).outcome for row in Catalog.objects.order_by("slug")]
            assert outcomes == ["changed", "failed", "changed", "changed", "changed"]
            read_inventory(cluster)
            for catalog in Catalog.objects.filter(revision__gt=0):
                refresh(catalog, [cluster])
            with django_db_blocker.block():
                yield
            transaction.set_rollback(True)
    finally:
        settings.KUBECONFIG = before
        sandbox.stop()


@pytest.fixture
def page(demo: None, reader: Client) -> Callable[..., Page]:
    def page(address: str, **query: str) -> Page:
        answer = reader.get(address, query)
        assert answer.status_code == 200, answer.content
        return read(answer)

    return page


@pytest.fixture
def get(demo: None, reader: Client) -> Callable[..., Any]:
    def get(path: str, **query: Any) -> Any:
        answer = reader.get(f"{ROOT}/{path}", query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return get


def everything(get: Callable[..., Any], path: str, **query: Any) -> list[dict[str, Any]]:
    items = get(path, limit=500, **query)
    assert items["next"] is None
    rows: list[dict[str, Any]] = items["items"]
    return rows


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_page_of_every_operator_says_what_rest_says(
    page: Callable[..., Page], get: Callable[..., Any]
) -> None:
    operators = everything(get, "operators")
    assert len(operators) == 84
    for row in operators:
        name = f"{row['cluster']}/{row['kind']}/{row['namespace'] or '-'}/{row['name']}"
        shown = page(f"/operators/{name}")
        facts = dict(shown.facts_below("Version and catalog"))
        assert (name, HEALTH.get(row["health"], row["health"]) in shown.text) == (name, True)
        available = f" {row['upgrade']} available"
        upgrade = available if row["upgrade"] not in ("", row["version"]) else ""
        version = f"{row['version'] or '–'}{upgrade}"
        assert (name, facts["Version"].partition(" (")[0]) == (name, version)
        assert (name, facts.get("Channel", "")) == (name, row["channel"])
        assert (name, facts["Catalog"].split(" ")[0]) == (name, row["catalog_name"] or "–")
        named = [f"/catalogs/{row['catalog']}"] if row["catalog"] else []
        links = [link for link in shown.links if link.startswith(f"/catalogs/{row['cluster']}/")]
        assert (name, links) == (name, named)
        finding = row["finding"]
        if finding is not None:
            assert (name, shown.texts_of("h2")[0]) == (name, finding["title"])
            steps = shown.texts_of("li")
            for step in finding["remedy"]:
                assert any(text.startswith(one_line(step)) for text in steps), (name, step)
        if row["health"] == "NeedsApproval":
            held = "Manual approval required: InstallPlan"
        else:
            held = row["upgrade_held"]
        assert (name, held in shown.text) == (name, True)


def test_the_list_of_operators_is_that_of_rest(
    page: Callable[..., Page], get: Callable[..., Any]
) -> None:
    rows = everything(get, "operators")
    shown: list[str] = []
    while len(shown) < len(rows):
        number = str(1 + len(shown) // PAGE_SIZE)
        shown += map(" ".join, page("/operators/", view="all", page=number).rows[1:])
    assert len(shown) == len(rows)
    for row in rows:
        # An update that needs approval is said beside the version of a healthy operator.
        health = HEALTH.get(row["health"], row["health"]).lower()
        words = (health, row["version"], row["channel"], row["catalog_name"])
        lines = [line.lower() for line in shown if line.startswith(row["name"])]
        assert any(all(word.lower() in line for word in words) for line in lines), (row, lines)


def test_the_page_of_every_package_says_what_rest_says(
    page: Callable[..., Page], get: Callable[..., Any]
) -> None:
    packages = everything(get, "packages")
    assert len(packages) == 176, "two catalogs, by two access methods each"
    for item in packages:
        name = f"{item['catalog']}/{item['package']}"
        row = get(f"packages/{name}")
        overview = page(f"/software/{name}")
        facts = dict(overview.facts_below("Compatibility with sandbox"))
        assert (name, verdicts_in(facts)) == (name, in_words(row["verdicts"], row["bundle"]))
        assert (name, facts["Bundle"], facts["Version"]) == (name, row["bundle"], row["version"])
        of_bundle = page(f"/software/{name}/{row['bundle']}")
        shown = verdicts_in(dict(of_bundle.facts_below("Compatibility with sandbox")))
        verdicts = get(f"bundles/{name}/{row['bundle']}")["verdicts"]
        assert (name, shown) == (name, in_words(verdicts, row["bundle"]))
        channels = page(f"/software/{name}", tab="channels")
        assert f"Channels {len(row['channels'])}" in channels.texts_of("a"), name
        for channel in row["channels"]:
            assert has_channel(channels, channel), (name, channel)


def in_words(verdicts: list[dict[str, Any]], bundle: str) -> dict[str, str]:
    """The facts of a page about `bundle` for the verdicts of REST, by their terms."""
    assert len(verdicts) == 4, verdicts
    facts = {}
    for verdict in verdicts:
        of_subscription = verdict["method"] == "Subscription"
        of_target = f" {TARGETS[verdict['target']]}" if of_subscription else ""
        where = "from the default channel first" if of_subscription else "among all channels"
        is_other = verdict["bundle"] not in ("", bundle)
        other = f"Chosen {where}: {verdict['bundle']}" if is_other else ""
        notes = [part for note in verdict["notes"] for part in (note["title"], note["sentence"])]
        texts = [VERDICTS[verdict["verdict"]], other, verdict["sentence"], *notes]
        facts[verdict["method"] + of_target] = one_line(" ".join(texts))
    return facts


def verdicts_in(facts: dict[str, str]) -> dict[str, str]:
    """The facts about install methods, without the folds of the matching rules."""
    methods = ("PlatformOperator", "ClusterExtension", "Subscription")
    of_methods = {term: fact for term, fact in facts.items() if term.startswith(methods)}
    return {term: re.split(r" All \d+ matching", fact)[0] for term, fact in of_methods.items()}


def has_channel(page: Page, channel: dict[str, Any]) -> bool:
    """Whether the tab Channels shows it with its head: as a link above the graph, or as a row of a
    table where the catalog has no graph."""
    name, default = channel["channel"], " default" if channel["default"] else ""
    link = f"{name} {channel['head_version'] or 'no single head'}{default}"
    row = [name + default, f"{channel['head']} {channel['head_version']}"]
    return any(text.startswith(link) for text in page.texts_of("a")) or any(
        [cells[0].removesuffix(" Deprecated"), cells[1]] == row for cells in page.rows if cells[1:]
    )
