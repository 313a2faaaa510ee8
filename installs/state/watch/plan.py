"""What a session watches and from where on: by what the cluster serves and what our rows tell.

A feed goes on from the position in its Stream row. A full pass (installs.state.full_sync) comes
first where that can't be: a cluster never read, one that serves other kinds than it did, or many
feeds that have no position.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from installs.state.read import ABSENT
from installs.state.resources import FEEDS, Feed, feeds_of, served_by
from installs.state.watch.backoff import Course
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import ConfigError, KubeError, Unauthorized, Unreachable
from olmweb.kube.resources import EVENTS, Served
from olmweb.models import Cluster, Stream

# A safety net under the watches: whatever a stream, a proxy or we ourselves lost is found again by
# a list, and rows that an older version of OLM Web decoded are decoded anew. A few feeds a
# session, so that they never come all at once.
LIST_AGAIN = timedelta(hours=1)
LISTS_AT_ONCE = 3
MANY = 5  # feeds without a position: one pass is then less noise than as many lists


@dataclass(frozen=True, slots=True)
class Plan:
    discovery: Discovery
    rows: Mapping[str, Stream]
    courses: dict[str, Course]

    def fits(self, discovery: Discovery) -> bool:
        """Whether the cluster still serves the same."""
        return (discovery.served, set(discovery.failed)) == (
            self.discovery.served,
            set(self.discovery.failed),
        )

    def highest(self) -> int:
        """The newest position. Those of Events don't count: their store may be another one."""
        known = [one.position for one in self.courses.values() if one.feed.resource is not EVENTS]
        return max((int(one) for one in known if one.isdigit()), default=0)


def served_feeds(discovery: Discovery) -> dict[Feed, Served | None]:
    """What to ask for of each feed, None where the cluster has nothing of it; feeds of which
    discovery knows nothing are left out."""
    found: dict[Feed, Served | None] = {}
    for feed in FEEDS:
        with suppress(KubeError):
            found[feed] = served_by(feed, discovery)
    return found


def make(discovery: Discovery, rows: Mapping[str, Stream]) -> Plan:
    """Every feed that can be read goes on from its row; the oldest lists are made anew."""
    courses = {}
    for feed, served in served_feeds(discovery).items():
        if served is None:
            continue
        row = rows.get(feed.name)
        course = Course(feed, served)
        if row is not None:
            course.state, course.error = row.state, row.error
            if row.listed_at is not None and row.state != Stream.State.ABSENT:
                course.position = row.resource_version
        courses[feed.name] = course
    limit = timezone.now() - LIST_AGAIN
    listed = sorted(
        (row.listed_at, name)
        for name, row in rows.items()
        if row.listed_at is not None and row.listed_at < limit and name in courses
    )
    for _, name in listed[:LISTS_AT_ONCE]:
        courses[name].position = ""
    return Plan(discovery, rows, courses)


def needs_pass(cluster: Cluster, plan: Plan) -> bool:
    """Whether to read everything first; `plan` was made without."""
    if cluster.synced_at is None or _serves_others(cluster, plan.discovery):
        return True
    return len([name for name in plan.courses if name not in plan.rows]) > MANY


def _serves_others(cluster: Cluster, discovery: Discovery) -> bool:
    """Whether a kind is served, or not, or in another version, unlike when we read it last."""
    found = served_feeds(discovery)
    for kind, known in cluster.kinds.items():
        feeds = feeds_of((kind,))
        if not all(feed in found for feed in feeds):
            continue
        served = [one for feed in feeds if (one := found[feed]) is not None]
        if bool(served) == (known.get("state") == ABSENT):
            return True
        if served and known.get("version") not in (served[0].version, ""):
            return True
    return False


def went_back(client: KubeClient, plan: Plan, highest: int) -> bool:
    """Whether the cluster is older than what we have of it: restored, or made anew.

    A watch from a version that is yet to come says nothing at all until then, so this is asked
    before. One request, where the first feed may be read. Raises Unreachable, Unauthorized and
    ConfigError.
    """
    for course in plan.courses.values():
        if course.feed.resource is EVENTS:
            continue
        try:
            page = next(client.list_pages(course.served.resource, course.served.version, limit=1))
        except (Unreachable, Unauthorized, ConfigError):
            raise
        except KubeError:
            continue  # this feed's own trouble: another one will do
        return page.resource_version.isdigit() and int(page.resource_version) < highest
    client.version()
    return False
