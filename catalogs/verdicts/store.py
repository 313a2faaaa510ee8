"""Judges every bundle of a catalog by every path, and brings the stored rows to what comes out.

Owns the rows of Prediction. What is looked at of clusters and of other catalogs comes with a Place;
the rules are `catalogs.verdicts`'s, the choice of bundles `catalogs.resolve`'s. Reads blobs,
a pack at a time, so it is for tasks and commands.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from django.db import transaction
from django.db.models import Q

from catalogs.contents.stored import contents_of, inspected_images
from catalogs.fbc import blob as fbc
from catalogs.fbc.blob import as_json
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package, Prediction
from catalogs.resolve import resolve
from catalogs.resolve.facts import Resolution
from catalogs.resolve.stored import BUNDLE_FIELDS, facts_of_all
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.storage.blobs import read_blobs
from catalogs.verdicts import (
    CatalogOffers,
    ClusterFacts,
    Contents,
    RuleResult,
    Target,
    Verdict,
    predict,
    read_contents,
)
from catalogs.verdicts import Prediction as Evaluation
from catalogs.verdicts.read import (
    ANY_TARGET,
    NOT_READ,
    WAYS,
    MethodVerdict,
    StoredRuleResult,
    StoredVerdict,
    over_targets,
    title_of,
    way_key,
)
from olmweb.bulk import Table, delete

PACKAGES_AT_ONCE = 20  # in one transaction; their rows are in memory together
_FIELDS = (
    *("package", "bundle", "cluster", "path", "target"),
    *("chosen", "channel", "verdict", "rule", "sentence", "found"),
)
# What the PackageManifest API leaves out of the ClusterServiceVersion that it shows.
_NOT_TOLD: dict[str, Any] = {
    "webhooks": None,
    "conversion_webhooks": None,
    "webhook_rules": (),
    "hooks": (),
    "deployments": None,
    "shipped": None,
    "crd_versions": None,
    "crds_strict": None,
}
_NAMED = ("name", "version")  # what differs from version to version
# package, bundle, cluster, path, target -> the other fields, `found` as JSON
_Key = tuple[int, int | None, int | None, str, str]
_Values = tuple[bool, str, str, str, str, str]
_Outcome = tuple[str, str, str, str]  # verdict, rule, sentence, `found` as JSON
_Judgement = tuple[int | None, InstallMethod, Target, _Outcome]
_SHAPE = attrgetter(*(each.name for each in fields(Contents) if each.name not in _NAMED))


@dataclass(frozen=True, slots=True)
class Place:
    """Where to: a cluster with all that it is offered; no `cluster_id`: the catalog alone."""

    cluster_id: int | None
    facts: ClusterFacts
    market: CatalogOffers

    @property
    def ways(self) -> tuple[tuple[InstallMethod, Target], ...]:
        """WAYS, and what else the OperatorGroups of the cluster select."""
        seen = {each.target for each in self.facts.groups}
        more = (Target.SINGLE, Target.MULTI, Target.MIXED)
        return WAYS + tuple((InstallMethod.SUBSCRIPTION, each) for each in more if each in seen)


@dataclass(slots=True)
class Judged:
    """`counts`: cluster (None: the catalog alone) -> path -> {verdict: packages}."""

    counts: dict[int | None, dict[str, Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    bundles: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a path would take of a package: the key of the bundle, or why none."""

    bundle: int | None
    channel: str
    resolution: Resolution


def judge(catalog: Catalog, places: Sequence[Place]) -> Judged:
    """Judges all packages; `places` begins with that of the catalog alone.

    Writes what differs from the rows that are there, and no rows of other places. A batch of
    packages is one transaction: a pass that dies half-way is made again.
    """
    result = Judged()
    told_in_part = catalog.way == PACKAGE_MANIFEST
    packages = Package.objects.filter(catalog=catalog).order_by("name")
    batch: list[Package] = []
    for package in packages.iterator(chunk_size=500):
        batch.append(package)
        if len(batch) == PACKAGES_AT_ONCE:
            _judge_batch(batch, places, result, told_in_part=told_in_part)
            batch = []
    if batch:
        _judge_batch(batch, places, result, told_in_part=told_in_part)
    return result


def evaluate_bundle(
    bundle: Bundle, place: Place, path: InstallMethod, target: Target
) -> StoredVerdict:
    """The verdict on one bundle, from its blob; nothing is stored."""
    ((_, contents),) = _contents([bundle])
    if contents is None:
        outcome = _unreadable(path, bundle.name)
    else:
        if bundle.package.catalog.way == PACKAGE_MANIFEST:
            contents = replace(contents, **_NOT_TOLD)
        outcome = predict(contents, path, cluster=place.facts, market=place.market, target=target)
    verdict, rule, sentence, _ = _outcome(outcome)
    found = tuple(
        StoredRuleResult(each.rule, each.verdict, each.sentence) for each in outcome.found
    )
    return StoredVerdict(path, target, Verdict(verdict), rule, sentence, found)


def _judge_batch(
    packages: Sequence[Package], places: Sequence[Place], result: Judged, *, told_in_part: bool
) -> None:
    rows: dict[_Key, _Values] = {}
    bench = _Bench(places)
    bundles = list(
        Bundle.objects.filter(package__in=packages).order_by("ordinal").only(*BUNDLE_FIELDS)
    )
    taken = _taken(packages, bundles)
    for bundle, contents in _contents(bundles):
        result.bundles += 1
        if contents is not None and told_in_part:
            contents = replace(contents, **_NOT_TOLD)
        for cluster, path, target, outcome in bench.outcomes(bundle.name, contents):
            one = taken[bundle.package_id, path]
            key = (bundle.package_id, bundle.pk, cluster, path.value, target.value)
            rows[key] = _values(one if one.bundle == bundle.pk else None, outcome)
    for place in places:
        _judge_nothing(place, taken, rows)
    _count(rows, places, result)
    result.written += _store(packages, places, rows)


def _taken(
    packages: Sequence[Package], bundles: Sequence[Bundle]
) -> dict[tuple[int, InstallMethod], _Taken]:
    """Of bundles with the same name the last, as caches of catalogs keep it."""
    ids = {(bundle.package_id, bundle.name): bundle.pk for bundle in bundles}
    found = {}
    for package_id, facts in facts_of_all(packages, bundles).items():
        for path in InstallMethod:
            chosen = resolve(facts, path)
            # OLM v1 refuses the bundle that it settled on: the rules say why, with all others.
            tried = chosen.candidates[0] if chosen.blocked_by == "dependency" else chosen
            bundle_id = ids.get((package_id, tried.bundle)) if tried.bundle else None
            found[package_id, path] = _Taken(bundle_id, chosen.channel, chosen)
    return found


def _contents(bundles: Sequence[Bundle]) -> Iterator[tuple[Bundle, Contents | None]]:
    """None for a bundle whose blob is not there or no JSON. What an inspected image told counts
    instead of what the catalog leaves out."""
    inspected = inspected_images(bundle.image for bundle in bundles if bundle.image)
    waiting: dict[str, list[Bundle]] = defaultdict(list)
    for bundle in bundles:
        waiting[bundle.blob_id or ""].append(bundle)
    for sha256, blob in read_blobs(each for each in waiting if each):
        for bundle in waiting.pop(sha256):
            known = contents_of(bundle) if bundle.image in inspected else None
            yield bundle, known or _read(blob, bundle.deprecated)
    for left in waiting.values():
        yield from ((bundle, None) for bundle in left)


def _read(blob: bytes, deprecated: bool) -> Contents | None:
    try:
        if not blob.lstrip().startswith(b"{"):
            blob = fbc.yaml_to_json(blob)
        return read_contents(blob, deprecated=deprecated)
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return None


class _Bench:
    """Judges bundles, those of one shape once: the versions of an operator mostly differ in name
    and version only, at which few rules look."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._installed = {one.bundle for place in places for one in place.facts.installed}
        self._known: dict[tuple[Any, ...], list[_Judgement]] = {}

    def outcomes(self, name: str, contents: Contents | None) -> list[_Judgement]:
        """What is said of it in every way; of a cluster only where that differs."""
        if contents is None:
            return self._judge(name, None)
        if contents.constraints:  # decoded as they are: no keys
            return self._judge(name, contents)
        shape = (name if name in self._installed else "", *_SHAPE(contents))
        if shape not in self._known:
            self._known[shape] = self._judge(name, contents)
        return self._known[shape]

    def _judge(self, name: str, contents: Contents | None) -> list[_Judgement]:
        alone: dict[tuple[InstallMethod, Target], Evaluation] = {}
        found = []
        for place in self._places:
            for way in place.ways:
                path, target = way
                if contents is None:
                    said = _unreadable(path, name)
                else:
                    said = predict(
                        contents, path, cluster=place.facts, market=place.market, target=target
                    )
                if place.cluster_id is None:
                    alone[way] = said
                elif said == alone.get(way):
                    continue
                found.append((place.cluster_id, path, target, _outcome(said)))
        return found


def _judge_nothing(
    place: Place, taken: dict[tuple[int, InstallMethod], _Taken], rows: dict[_Key, _Values]
) -> None:
    """Packages of which a path would take nothing; a cluster changes nothing of that."""
    ways = WAYS if place.cluster_id is None else place.ways[len(WAYS) :]
    for (package_id, path), one in taken.items():
        for target in (target for way, target in ways if way == path and one.bundle is None):
            key = (package_id, None, place.cluster_id, path.value, target.value)
            rows[key] = _values(one, _outcome(_nothing(path, one.resolution)))


def _values(taken: _Taken | None, outcome: _Outcome) -> _Values:
    return (taken is not None, taken.channel if taken else "", *outcome)


def _outcome(said: Evaluation) -> _Outcome:
    found = [
        {"rule": each.rule, "verdict": each.verdict.value, "sentence": each.sentence}
        for each in said.found
    ]
    return (
        said.verdict.value,
        said.deciding.rule if said.deciding else "",
        said.found[0].sentence if said.found else "",
        as_json(found),
    )


def _unreadable(path: InstallMethod, bundle: str) -> Evaluation:
    sentence = f"The catalog has no readable blob of {bundle}; its problems say why."
    found = RuleResult(NOT_READ, title_of(NOT_READ), Verdict.UNKNOWN, sentence, {})
    return Evaluation(path, found.verdict, (found,))


def _nothing(path: InstallMethod, chosen: Resolution) -> Evaluation:
    """No bundle would be chosen, or one that the catalog doesn't have."""
    if chosen.bundle:
        return _unreadable(path, chosen.bundle)
    rule = chosen.blocked_by or "no-bundles"
    sentence = chosen.message or chosen.reason
    found = RuleResult(rule, title_of(rule), Verdict.NOT_INSTALLABLE, sentence, {})
    return Evaluation(path, found.verdict, (found,))


def _count(rows: dict[_Key, _Values], places: Sequence[Place], result: Judged) -> None:
    chosen = [(key, values) for key, values in rows.items() if values[0]]
    for place in places:
        packages: dict[tuple[int, str], dict[str, MethodVerdict]] = defaultdict(dict)
        for cluster_id in dict.fromkeys((None, place.cluster_id)):  # a cluster's replace the others
            for (package, _, cluster, path, target), (_, _, verdict, rule, *_) in chosen:
                if cluster == cluster_id:
                    verdict_here = MethodVerdict(path, target, verdict, rule)
                    packages[package, path][target] = verdict_here
        counts = result.counts[place.cluster_id]
        for (_, path), targets in packages.items():
            for row in targets.values():
                counts[way_key(path, row.target)][row.verdict] += 1
            if path == InstallMethod.SUBSCRIPTION:
                best = over_targets(targets.values())[0]
                counts[way_key(path, ANY_TARGET)][best.verdict] += 1


def _store(packages: Sequence[Package], places: Sequence[Place], rows: dict[_Key, _Values]) -> int:
    """Brings the rows of these places to `rows`; returns how many were deleted and inserted."""
    clusters = [place.cluster_id for place in places if place.cluster_id is not None]
    here = Q(cluster=None) | Q(cluster__in=clusters)
    with transaction.atomic():
        stored = Prediction.objects.filter(here, package__in=packages).order_by()
        gone = []
        for pk, *key_and_values in stored.values_list("id", *(_id(name) for name in _FIELDS)):
            key, values = tuple(key_and_values[:5]), key_and_values[5:]
            wanted = rows.get(key)
            if wanted is not None and (*values[:-1], as_json(values[-1])) == wanted:
                del rows[key]
            else:
                gone.append(pk)
        for start in range(0, len(gone), 500):
            ids = gone[start : start + 500]
            delete(Prediction, f"id IN ({', '.join(['%s'] * len(ids))})", ids)
        table = Table(Prediction, *_FIELDS)
        table.extend([(*key, *values) for key, values in rows.items()])
        table.finish()
    return len(gone) + table.written


def _id(name: str) -> str:
    return f"{name}_id" if name in ("package", "bundle", "cluster") else name
