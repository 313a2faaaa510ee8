"""Objects whose fields hold anything at all are written, diagnosed and shown; no page fails.

The sandbox's own objects are played, each field of them replaced now and then by a value of
another type or a text that some later step could trip over.
"""

import copy
import html
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from django.test import Client

from installs.models import Operator
from installs.state.listing import SERVED, ResourceList, Snapshot
from installs.state.resources import WATCHED_RESOURCES, decode
from installs.state.write import write_snapshot
from olmweb.kube.decode import narrow_list
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.worlds import cluster_v0 as v0

pytestmark = pytest.mark.django_db

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, 1.5, [], {}, [[[[]]]], [None, 1, "a", {"a": []}]),
    *({"a": {"b": [1, {"c": None}]}}, "", "x\x00y", "é" * 5_000, "<script>alert(1)</script>"),
    *("2026-13-45T99:99:99Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "a\nb\tc", "%s {}"),
    *("../../x", "a/b", "..", "a%2fb", "?", "#", " ", "\u202e\ufeff", "javascript:alert(1)"),
    *("http://[", "http://x:99999/", ">=1.0.0 <0", "v99999999999999999999.0.0", "01.2.3", "True"),
)
PAGES = ("/", "/clusters/prod", "/operators/", "/cluster-operators/", "/crds/", "/catalogs/")
LINKS = re.compile(r'href="(/(?:operators|clusters|cluster-operators|crds|readiness)/[^"#]*)"')


@pytest.fixture(scope="module")
def objects() -> dict[str, list[Any]]:
    """A few objects of each kind."""
    sandbox = Sandbox()
    sandbox.start()
    found = {
        feed.kind: list(sandbox.store.items(feed.kind, "")[0])[:12] for feed in WATCHED_RESOURCES
    }
    sandbox.stop()
    found["CustomResourceDefinition"] += [v0.crd(), v0.crd(stored=("v1alpha1", "v1"))]
    found["OperatorCondition"] += [v0.operator_condition(overrides=[{"type": "Upgradeable"}])]
    assert sum(1 for listed in found.values() if listed) >= 15
    return found


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Where something could stand instead."""
    if path:
        yield path
    listed: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        listed = value.items()
    elif isinstance(value, list):
        listed = enumerate(value[:5])
    for key, inner in listed:
        yield from places(inner, *path, key)


def spoiled(thing: Any, chance: random.Random) -> Any:
    """A copy, mostly with another value in one to four places."""
    made = copy.deepcopy(thing)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        *above, last = chance.choice(list(places(made)))
        inner = made
        for key in above:
            inner = inner[key]
        if chance.random() < 0.2:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(chance.choice(VALUES))
    return made


def told(objects: dict[str, list[Any]], chance: random.Random) -> Snapshot:
    """What a list of every feed would give of such a cluster."""
    feeds = {}
    for feed in WATCHED_RESOURCES:
        items = [spoiled(one, chance) for one in objects[feed.kind]]
        body = msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})
        decoded = [decode(feed, one) for one in narrow_list(body, feed.kind)["items"]]
        kept = {one.key: one for one in decoded if one}
        feeds[feed.name] = ResourceList(SERVED, "v1", "7", tuple(kept.values()))
    return Snapshot(feeds, "v1.30", "https://cluster.example")


@pytest.mark.parametrize("seed", range(6))
def test_no_content_of_an_object_breaks_a_pass_or_a_page(
    seed: int, objects: dict[str, list[Any]], admin_client: Client, settings: Any
) -> None:
    settings.CLUSTERS = ["prod"]
    chance = random.Random(seed)
    cluster = Cluster.objects.create(name="prod", context="prod", reachable=True)
    for _ in range(2):
        write_snapshot(cluster, told(objects, chance))
    assert Operator.objects.count() > 10
    links: set[str] = set()
    for page in PAGES:
        answer = admin_client.get(page)
        assert answer.status_code == 200, page
        links |= {html.unescape(link) for link in LINKS.findall(answer.content.decode())}
    shown = chance.sample(sorted(links), min(len(links), 15))
    assert len(shown) > 5
    for link in shown:
        assert admin_client.get(link).status_code < 500, link
