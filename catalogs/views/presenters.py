"""Presents catalogs and packages: URLs, cards, facets, page slices, verdict labels, states."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from urllib.parse import quote_plus, urlencode

from django.db.models import Count
from django.http import QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString

from catalogs.contents.bulk_inspection import BUDGET
from catalogs.fbc.package_texts import fold
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, CatalogInspection, Package
from catalogs.queries import other_catalog, sync_error
from catalogs.search.find import (
    ANSWERS,
    FAILED,
    INSTALLED,
    Filters,
    OperatorState,
    PackageMatch,
    Result,
)
from catalogs.search.highlight import has_word, mark, snippet
from catalogs.search.index import (
    DIRECT,
    INTERMEDIATE,
    MANY,
    NO,
    NO_UPGRADE,
    SEVERAL,
    SINGLE,
    SOME,
    UNCOUNTED,
    UNKNOWN_UPGRADE,
    YES,
    CatalogStamp,
    Row,
    full_path,
)
from catalogs.search.matching import Hits, descriptions_of, unplaced_words
from catalogs.search.query import SearchQuery
from catalogs.sources import access_methods
from catalogs.verdicts import catalog_inspection
from catalogs.verdicts.read import MethodVerdict, StoredVerdict
from catalogs.verdicts.rules import Verdict, title_of
from catalogs.views.forms import FILTER_NAMES
from olmweb.models import LOCAL
from olmweb.web.addresses import address
from olmweb.web.preferences import CLEARED

FACET_FIRST = 8  # values of a facet in sight, the others are folded
FACET_MOST = 100  # values of a facet at all, the most frequent; a search finds the others
TITLES = {
    "installable": "Installable by",
    INSTALLED: "Installed",
    "catalog": "Source",
    "catalogs": "Number of catalogs",
    "versions": "Number of versions",
    "upgrade_path": "Upgrade path",
    "cluster": "Cluster",
    "category": "Category",
    "provider": "Provider",
    "capability": "Capability level",
    "install_mode": "Install mode",
    "infrastructure_feature": "Infrastructure features",
    "deprecated": "Deprecated",
    "keyword": "Keyword",
    "provides": "Provides",
}
SHOWN_FACETS = tuple(name for name in TITLES if name not in UNCOUNTED)
VERDICT_TEXTS = {
    Verdict.INSTALLABLE.value: "Installable by",
    Verdict.NOT_INSTALLABLE.value: "Not by",
    Verdict.UNKNOWN.value: "Unknown by",
}
NAMES_SHOWN = 3  # of catalogs or clusters, in a tooltip
KINDS_SHOWN = 3  # of those that a search asked for, on one card
CAPABILITIES = (
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
)
WORDS = {
    **{YES: "Yes", SOME: "In some catalogs", FAILED: "Failed or blocked", NO: "No"},
    **{SEVERAL: "Several", SINGLE: "One", MANY: "3 or more", "-": "No cluster"},
    **{DIRECT: "Direct to newest version", INTERMEDIATE: "Over intermediate versions"},
    **{NO_UPGRADE: "No upgrade", UNKNOWN_UPGRADE: "Not known"},
} | {
    f"{path}{mark}": f"{path}{word}"
    for path in InstallMethod
    for mark, word in (("", ""), ("-unknown", ": facts missing"))
}
_ORIGINS = {
    access_methods.EXACT: "",
    access_methods.REBUILT: "rebuilt from the registry's answers, not the author's bytes",
    access_methods.WITHOUT_GRAPH: "rebuilt from the API's list: it does not tell the upgrade "
    "graph, nor what bundles other than heads are",
}
# State of a way -> the page's own state with the same icon.
_ICONS = {
    access_methods.USED: "ok",
    access_methods.FAILED: "failed",
    access_methods.IMPOSSIBLE: "absent",
    access_methods.UNTRIED: "waiting",
}


@dataclass(frozen=True, slots=True)
class FacetValue:
    label: str
    count: int
    chosen: bool
    url: str  # the same page with this value added or taken away

    def html(self) -> SafeString:
        """The list item. Made here, and by hand, because a page has hundreds of them."""
        css = "" if self.count else ' class="olm-muted"'
        current = ' aria-current="true"' if self.chosen else ""
        return SafeString(
            f'<li><a href="{escape(self.url)}"{current}>'
            f"<span{css}>{escape(self.label)}</span>"
            f"<b>{self.count}</b></a></li>"
        )


@dataclass(frozen=True, slots=True)
class SoftwareFacet:
    name: str
    title: str
    first: Sequence[FacetValue]
    rest: Sequence[FacetValue]
    undecided: bool = False  # counts packages whose verdict lacks facts

    @property
    def first_items(self) -> SafeString:
        """The list items of `first`."""
        return SafeString("".join(value.html() for value in self.first))

    @property
    def rest_items(self) -> SafeString:
        """The list items of `rest`."""
        return SafeString("".join(value.html() for value in self.rest))


def verdict_labels(verdicts: Iterable[MethodVerdict]) -> list[tuple[str, str]]:
    """(verdict, words) for a label each: by which paths it installs, by which not and why."""
    return [
        (verdict, f"{VERDICT_TEXTS[verdict]} {words}") for verdict, words in verdict_words(verdicts)
    ]


def verdict_words(verdicts: Iterable[MethodVerdict | StoredVerdict]) -> list[tuple[str, str]]:
    """(verdict, its install methods and why not), each verdict once."""
    by: dict[str, list[str]] = {}
    for row in verdicts:
        why = f": {title_of(row.rule)}" if row.verdict == Verdict.NOT_INSTALLABLE else ""
        by.setdefault(row.verdict, []).append(row.label + why)
    return [(verdict, ", ".join(by[verdict])) for verdict in VERDICT_TEXTS if verdict in by]


def _first_names(names: Iterable[str]) -> str:
    """The names, separated by commas: at most NAMES_SHOWN, and the number of the others."""
    listed = list(names)
    more = len(listed) - NAMES_SHOWN
    text = ", ".join(listed[:NAMES_SHOWN])
    return f"{text} and {more} more" if more > 0 else text


@dataclass(frozen=True, slots=True)
class Card:
    """A package in the list; `url` is empty when no URL can carry its name.

    The texts have the search words marked; `why` has further reasons for the match.
    """

    row: Row
    sources: Sequence[Row]  # one of each catalog
    catalog: CatalogStamp  # of the row
    installed: Mapping[OperatorState, Sequence[str]]
    url: str
    icon_url: str
    title: SafeString
    name: SafeString
    provider: SafeString
    summary: SafeString
    why: Sequence[SafeString] = ()
    differs: Sequence[str] = ()
    other_images: bool = False  # of bundles with the same name, if the sources differ

    @property
    def upgrade_path(self) -> Sequence[str] | None:
        """Versions of the longest path of the default channel; None if not known."""
        return full_path((self.row, *self.sources))

    @property
    def upgrade_steps(self) -> int:
        return max(0, len(self.upgrade_path or ()) - 1)

    @property
    def upgrade_path_words(self) -> str:
        """The versions of a path over others: `0.6.1 → 1.0.0 → 1.1.0`; empty for a single step."""
        path = self.upgrade_path or ()
        if len(path) < 3:
            return ""
        first, *over, last = path
        return f"{first} → {over[0] if len(over) == 1 else f'{len(over)} more'} → {last}"

    @property
    def key(self) -> str:
        """Names the package in the form of a bulk install."""
        return f"{self.row.cluster}/{self.row.catalog}/{self.row.name}"

    @property
    def difference(self) -> str:
        """The aspects in which the sources differ, the most important first; empty when they are
        one package."""
        aspects = ["versions"] if self._versions_differ else []
        if self.other_images:
            aspects.append("images")
        *first, last = (*aspects, *self.differs)
        return f"{', '.join(first)} and {last}" if first else last

    @property
    def _versions_differ(self) -> bool:
        return len({row.head_version for row in self.sources}) > 1

    @property
    def source_names(self) -> str:
        """The first catalogs that have it, for a tooltip: `redhat-operators on prod`, or on how
        many clusters; with their versions where these differ."""
        places: dict[tuple[str, bool, str], list[str]] = {}
        versions_differ = self._versions_differ
        for row in self.sources:
            version = f" ({row.head_version or 'no version'})" if versions_differ else ""
            place = (row.source, row.cluster == LOCAL, version)
            places.setdefault(place, []).append(row.cluster)
        return _first_names(
            f"{source}{version}"
            if local
            else f"{source} on {clusters[0] if len(clusters) == 1 else f'{len(clusters)} clusters'}"
            f"{version}"
            for (source, local, version), clusters in places.items()
        )

    @property
    def compare_url(self) -> str:
        """The comparison of the package in the shown catalog with the first other one that has it,
        each by the access method that reads most of it; empty without one."""
        others = (row for row in self.sources if row.source != self.row.source)
        other = next(others, None)
        if other is None:
            return ""
        first, second = (f"{row.cluster}/{row.source}" for row in (self.row, other))
        values = {"from": first, "to": second, "package": self.row.name}
        return reverse("catalogs:compare", query=values)

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """(verdict, words) for a label each: by which paths it installs, by which not and why."""
        return verdict_labels(self.row.verdicts)

    @property
    def verdicts_for(self) -> str:
        """The cluster that the verdicts are for."""
        return "no cluster" if self.row.cluster == LOCAL else f"cluster {self.row.cluster}"

    @property
    def installed_labels(self) -> list[tuple[str, str, str]]:
        """(health, other catalog, clusters) for a label each: the catalog of the operators, empty
        if it is this catalog or not known, and the first clusters that report the health."""
        clusters: dict[tuple[str, str], list[str]] = {}
        for state, names in self.installed.items():
            clusters.setdefault((state.health, other_catalog(state, self.catalog)), []).extend(
                names
            )
        return [(*key, _first_names(dict.fromkeys(names))) for key, names in clusters.items()]


@dataclass(frozen=True, slots=True)
class Label:
    """A chosen filter and the URL without it."""

    title: str
    value: str
    url: str


@dataclass(frozen=True, slots=True)
class Status:
    """`tone` is one of success, info, warning, danger, neutral; `sentence` may be empty."""

    word: str
    tone: str
    sentence: str = ""
    hint: str = ""


_quoted = lru_cache(maxsize=4096)(quote_plus)  # every page of the list has the same values


# Both are asked for dozens of times a page and routes don't change while a process lives.
@lru_cache(maxsize=16384)
def package_url(cluster: str, catalog: str, name: str) -> str:
    """Empty for a name that no URL can carry (a catalog may hold anything)."""
    try:
        return address("catalogs:package", cluster, catalog, name)
    except NoReverseMatch:
        return ""


def cards(
    matches: Sequence[PackageMatch],
    query: SearchQuery,
    hits: Hits | None,
    installed: Mapping[str, Mapping[OperatorState, Sequence[str]]],
    stamps: Iterable[CatalogStamp],
) -> list[Card]:
    """The cards of a page; at most one query, for descriptions that contain a search word.
    `installed` is that of installed_states, `stamps` are all catalogs."""
    catalogs = {stamp.pk: stamp for stamp in stamps}
    read_as = hits.read_as if hits else {}
    words = (*query.words, *(near for names in read_as.values() for near in names))
    kinds = hits.kinds if hits else frozenset()
    sought = {
        match.row.id: [
            word
            for word in unplaced_words(match.row, query.words)
            if not has_word(match.row.summary, word)
        ]
        for match in matches
    }
    texts = descriptions_of([key for key, unseen in sought.items() if unseen])
    other_images = _with_other_images(match for match in matches if match.differs)
    shown_cards = []
    for match in matches:
        row = match.row
        why = _kinds_found(row, words, kinds)
        passage = snippet(texts.get(row.id, ""), tuple(sought[row.id]))
        shown_cards.append(
            Card(
                row,
                list({(other.cluster, other.source): other for other in match.sources}.values()),
                catalogs[row.catalog_id],
                installed.get(row.name, {}),
                package_url(row.cluster, row.catalog, row.name),
                icon_url(row.icon) if row.icon else "",
                title=mark(row.title, words),
                name=mark(row.name, words),
                provider=mark(row.provider, words),
                summary=mark(row.summary, words),
                why=[*why, passage] if passage else why,
                differs=match.differs,
                other_images=row.name in other_images,
            )
        )
    return shown_cards


def _with_other_images(matches: Iterable[PackageMatch]) -> set[str]:
    """The names of the packages whose sources have a bundle of one name with other images. One
    query, and none without matches."""
    ids = [row.id for match in matches for row in match.sources]
    if not ids:
        return set()
    rows = Bundle.objects.filter(package__in=ids).exclude(image="").order_by()
    images = rows.values("package__name", "name").annotate(images=Count("image", distinct=True))
    return set(images.filter(images__gt=1).values_list("package__name", flat=True))


def read_as(hits: Hits | None) -> list[tuple[str, str]]:
    """Mistyped words with the names that were taken for them."""
    names = hits.read_as if hits else {}
    return [(word, ", ".join(near)) for word, near in names.items()]


def _kinds_found(row: Row, words: tuple[str, ...], kinds: frozenset[str]) -> list[SafeString]:
    """The matching kinds, searched as `provides:` or as a plain word."""

    def wanted(kind: str) -> bool:
        return kind in kinds or fold(kind.rpartition("/")[2]) in words

    if not (kinds or words):
        return []
    now = [kind for kind in row.provides if wanted(kind)]
    before = [kind for kind in row.provided_before if kind in kinds]
    lines = []
    for verb, listed in (("Provides", now), ("Older versions provide", before)):
        if listed:
            more = f" and {len(listed) - KINDS_SHOWN} more" if len(listed) > KINDS_SHOWN else ""
            lines.append(SafeString(escape(f"{verb} {', '.join(listed[:KINDS_SHOWN])}{more}")))
    return lines


def icon_url(sha256: str) -> str:
    return address("catalogs:icon", sha256)


def file_name(text: str) -> str:
    """`text` with anything but ASCII letters, digits, `-`, `.` and `_` replaced by `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def bundle_url(package: Package, name: str, route: str = "catalogs:bundle") -> str:
    """The page of a bundle, or the API's `route` for it; empty for a name no URL can carry."""
    catalog = package.catalog
    try:
        return address(route, catalog.cluster_name, catalog.slug, package.name, name)
    except NoReverseMatch:
        return ""


def facets(result: Result, filters: Filters, params: QueryDict) -> list[SoftwareFacet]:
    """The facets worth showing: those with a choice to make or one made."""
    pairs = filter_pairs(params)
    query = urlencode(pairs)
    shown_facets = []
    for name in SHOWN_FACETS:
        counts = result.counts[name]
        chosen = filters.chosen.get(name, frozenset())
        values = sorted({*counts, *chosen}, key=lambda value: _order(name, value, counts, chosen))[
            :FACET_MOST
        ]
        if not chosen and (not any(counts.values()) or (name == "cluster" and len(values) < 2)):
            continue
        shown = [
            FacetValue(
                label=_label(name, value),
                count=counts.get(value, 0),
                chosen=value in chosen,
                url=_toggled(pairs, query, name, value),
            )
            for value in values
        ]
        if shown:
            first = max(FACET_FIRST, len(chosen))
            undecided = name == "installable" and any(
                value.endswith("-unknown") for value in values
            )
            shown_facets.append(
                SoftwareFacet(name, TITLES[name], shown[:first], shown[first:], undecided)
            )
    return shown_facets


def _label(facet: str, value: str) -> str:
    """The words of a value; those of catalogs, such as keywords, are shown as they are."""
    return WORDS.get(value, value) if facet in ANSWERS or facet == "cluster" else value


def chosen_labels(filters: Filters, params: QueryDict) -> list[Label]:
    pairs = filter_pairs(params)
    query = urlencode(pairs)
    labels = [
        Label(TITLES[name], _label(name, value), _toggled(pairs, query, name, value))
        for name, values in filters.chosen.items()
        for value in sorted(values)
    ]
    if filters.q:
        without = [(key, value) for key, value in pairs if key != "q"]
        labels.insert(0, Label("Search", filters.q, f"?{urlencode(without) or CLEARED}"))
    return labels


def filter_pairs(params: QueryDict) -> list[tuple[str, str]]:
    """The query string without the page and the revision token."""
    return [
        (key, value)
        for key in ("q", *FILTER_NAMES, "sort", "view")
        for value in params.getlist(key)
        if value
    ]


def catalog_status(catalog: Catalog) -> Status:
    """The state of the catalog in a word, with a sentence and a hint for an abnormal one."""
    states = Catalog.State
    if catalog.state == states.DISABLED:
        return Status(
            "Disabled",
            "neutral",
            "The cluster keeps this catalog but serves nothing from it (availabilityMode is "
            "Unavailable). What was read before is shown.",
            "Set spec.availabilityMode to Available on the ClusterCatalog.",
        )
    error = sync_error(catalog)
    if error and catalog.on_removed:
        return Status("Cluster removed", "neutral", error.message, error.hint)
    if catalog.cluster is not None and catalog.cluster.unreachable:
        return Status(
            "Unreachable",
            "warning",
            f"Cluster {catalog.cluster.name} can't be reached.",  # the shell says why
        )
    if error and catalog.state == states.FAILED:
        return Status("Failed", "danger", error.message, error.hint)
    if catalog.state == states.NEW:
        return Status("Not read yet", "info", catalog.error_text, catalog.error_hint)
    if error and catalog.stale:
        return Status("Stale", "warning", error.message, error.hint)
    return Status("Serving", "success")


def _order(
    name: str, value: str, counts: Mapping[str, int], chosen: frozenset[str]
) -> tuple[bool, int, int, str]:
    """Chosen ones first, then levels from low to high, the rest by count."""
    fixed = CAPABILITIES.index(value) if value in CAPABILITIES and name == "capability" else 99
    if name in ANSWERS:
        return False, ANSWERS[name].index(value), 0, value
    return value not in chosen, fixed, -counts.get(value, 0), value.lower()


def _toggled(pairs: Sequence[tuple[str, str]], query: str, name: str, value: str) -> str:
    """The query string of `pairs`, which is `query`, with the pair added or taken away."""
    pair = (name, value)
    if pair in pairs:
        return f"?{urlencode([other for other in pairs if other != pair]) or CLEARED}"
    return f"?{query}{'&' if query else ''}{name}={_quoted(value)}"


@dataclass(frozen=True, slots=True)
class AccessMethodRow:
    """An access method in a table: `icon` is a key of the states, `state` the text beside it."""

    method: str
    state: str
    icon: str
    reason: str


def origin(method: str) -> str:
    """The origin of content read by this method; empty for the author's own bytes."""
    return _ORIGINS[access_methods.fidelity(method)]


def access_method_rows(rows: Iterable[Mapping[str, str]]) -> list[AccessMethodRow]:
    """The access methods of a catalog with their outcomes."""
    return [
        AccessMethodRow(
            row.get("way", ""),
            row.get("state", "").capitalize(),
            _ICONS.get(row.get("state", ""), "unknown"),
            row.get("why", ""),
        )
        for row in rows
        if isinstance(row, Mapping)
    ]


@dataclass(frozen=True, slots=True)
class ImagesLeft:
    """Bundle images that could not be inspected for one reason, and the remedy."""

    reason: str
    count: int
    remedy: str


@dataclass(frozen=True, slots=True)
class InspectedImages:
    """The inspection of all bundle images of a catalog: `state` is that of `state_of`, `icon` a key
    of the states, `word` the text beside it. `waits_for` names registries, or the daily budget."""

    state: str
    icon: str
    word: str
    enabled: bool
    row: CatalogInspection | None
    inspected: int
    left: int
    percent: int
    waits_for: str
    failures: tuple[ImagesLeft, ...]


_INSPECTION_STATES = {
    catalog_inspection.OFF: ("disabled", "Off"),
    catalog_inspection.QUEUED: ("pending", "Waiting for a worker"),
    catalog_inspection.RUNNING: ("running", "Running"),
    catalog_inspection.PAUSED: ("waiting", "Waiting"),
    catalog_inspection.DONE: ("succeeded", "Complete"),
    catalog_inspection.STOPPED: ("stopped", "Stopped"),
}
_FAILURES = {  # reason -> words, remedy
    "no-credentials": (
        "No credentials",
        "Add the registry to the file that REGISTRY_AUTH_FILE names.",
    ),
    "not-found": (
        "Not found",
        "The registry or its mirror does not have the image: mirror it, or check the catalog.",
    ),
    "unreachable": (
        "Registry unreachable",
        "Check the network, the proxy and the mirrors of the registry.",
    ),
    "bad-url": (
        "Address not allowed",
        "A registry with a private address needs credentials, a mirror entry or a place in "
        "OLMWEB_INSECURE_REGISTRIES.",
    ),
    "blocked": ("Blocked", "The registries.conf file blocks the registry."),
    "rate-limited": ("Too many requests", "Credentials often raise the limit of a registry."),
    "http-status": ("Registry error", "Ask the operator of the registry."),
    "too-slow": ("Too slow", "Check the network and the load of the registry."),
    "too-large": ("Too large", "The image is not built as a bundle; tell its author."),
}


def inspected_images(catalog: Catalog) -> InspectedImages:
    """The inspection of the catalog's bundle images; the catalog comes with it."""
    row = catalog_inspection.row_of(catalog)
    state = catalog_inspection.state_of(catalog)
    icon, word = _INSPECTION_STATES[state]
    if state == catalog_inspection.DONE and row is not None and row.failed:
        icon, word = "warning", "Complete, some images failed"
    wanted = row.wanted if row else 0
    left = row.left if row else 0
    waits_for = ", ".join(row.waiting_for) if row else ""
    failures = [
        ImagesLeft(*_failure(reason, count))
        for reason, count in sorted((row.failed if row else {}).items())
    ]
    return InspectedImages(
        state=state,
        icon=icon,
        word=word,
        enabled=catalog_inspection.is_enabled(catalog),
        row=row,
        inspected=row.inspected + row.reused if row else 0,
        left=left,
        percent=100 * (wanted - left) // wanted if wanted else 0,
        waits_for="the daily budget" if waits_for == BUDGET else waits_for,
        failures=tuple(failures),
    )


def _failure(reason: str, count: int) -> tuple[str, int, str]:
    words, remedy = _FAILURES.get(
        reason, ("Not a readable bundle", "The pages of the bundles say what is wrong.")
    )
    return f"{words} ({reason})", count, remedy
