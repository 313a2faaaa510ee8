"""Evaluates every bundle of a catalog for every install method and stores the verdicts.

Owns the rows of Prediction. A VerdictContext has the facts of the cluster and of other catalogs;
`catalogs.resolve` chooses the bundles. Reads blobs, so it is for tasks and commands.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from operator import attrgetter
from typing import Any

from django.db.models import Q

from catalogs.contents.bundle_facts import Contents, read_contents
from catalogs.contents.stored import contents_of, inspected_images
from catalogs.fbc import blob as fbc
from catalogs.fbc.blob import as_json
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package, Prediction
from catalogs.resolve import resolve
from catalogs.resolve.facts import Resolution
from catalogs.resolve.stored import BUNDLE_FIELDS, facts_of_all, full_catalogs
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.storage.blobs import read_blobs
from catalogs.verdicts.evaluate import BundleEvaluation, predict
from catalogs.verdicts.facts import ClusterFacts, ClusterOffers, WatchTarget
from catalogs.verdicts.read import (
    ANY_TARGET,
    METHOD_TARGETS,
    MethodVerdict,
    StoredVerdict,
    method_key,
    over_targets,
)
from catalogs.verdicts.rules import NOT_READ, RuleResult, Verdict
from olmweb.bulk import Table, delete
from olmweb.runtime.leases import fenced_transaction

PACKAGES_AT_ONCE = 20  # in one transaction; their rows are in memory together
_FIELDS = (
    *("package", "bundle", "cluster", "path", "target"),
    *("chosen", "channel", "verdict", "rule", "sentence", "results"),
)
# Fields that the PackageManifest API omits from a ClusterServiceVersion.
_NOT_IN_PACKAGE_MANIFEST: dict[str, Any] = {
    "webhooks": None,
    "conversion_webhooks": None,
    "webhook_rules": (),
    "hooks": (),
    "deployments": None,
    "shipped": None,
    "crd_versions": None,
    "crds_strict": None,
}
_NAMED = ("name", "version")  # differ between the versions of an operator
# package, bundle, cluster, path, target -> the other fields, `results` as JSON
_Key = tuple[int, int | None, int | None, str, str]
_Values = tuple[bool, str, str, str, str, str]
_Outcome = tuple[str, str, str, str]  # verdict, rule, sentence, `results` as JSON
_BundleVerdict = tuple[int | None, InstallMethod, WatchTarget, _Outcome]
_SHAPE = attrgetter(*(field_.name for field_ in fields(Contents) if field_.name not in _NAMED))


@dataclass(frozen=True, slots=True)
class VerdictContext:
    """A cluster with its catalog offers; without `cluster_id`, the catalog alone."""

    cluster_id: int | None
    facts: ClusterFacts
    market: ClusterOffers

    @property
    def method_targets(self) -> tuple[tuple[InstallMethod, WatchTarget], ...]:
        """METHOD_TARGETS and the further targets of the cluster's OperatorGroups."""
        selected = {group.target for group in self.facts.groups}
        more = (WatchTarget.SINGLE, WatchTarget.MULTI, WatchTarget.MIXED)
        return METHOD_TARGETS + tuple(
            (InstallMethod.SUBSCRIPTION, target) for target in more if target in selected
        )


@dataclass(slots=True)
class EvaluationSummary:
    """`counts`: cluster (None: the catalog alone) -> path -> {verdict: packages}; `written_for`:
    cluster -> deleted and inserted rows."""

    counts: dict[int | None, dict[str, Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    bundles: int = 0
    written_for: Counter[int | None] = field(default_factory=Counter)

    @property
    def written(self) -> int:
        return self.written_for.total()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The bundle of a package that an install method chooses: its key, or None with the reason in
    `resolution`."""

    bundle: int | None
    resolution: Resolution


def evaluate_catalog(catalog: Catalog, contexts: Sequence[VerdictContext]) -> EvaluationSummary:
    """Evaluates all packages, a transaction for each batch; the first of `contexts` is the catalog
    alone. Writes only rows that differ, and none of other contexts."""
    result = EvaluationSummary()
    packages = catalog.packages.order_by("name").iterator(chunk_size=500)
    while batch := list(islice(packages, PACKAGES_AT_ONCE)):
        _evaluate_batch(batch, contexts, result)
    return result


def evaluate_bundle(
    bundle: Bundle, context: VerdictContext, path: InstallMethod, target: WatchTarget
) -> StoredVerdict:
    """The verdict on one bundle, from its blob. Stores nothing."""
    ((_, contents),) = _contents([bundle], [bundle.package])
    evaluation = _evaluation(contents, bundle.name, context, path, target)
    verdict, rule, sentence, _ = _outcome(evaluation)
    return StoredVerdict(path, target, Verdict(verdict), rule, sentence, evaluation.results)


def _evaluation(
    contents: Contents | None,
    bundle: str,
    context: VerdictContext,
    path: InstallMethod,
    target: WatchTarget,
) -> BundleEvaluation:
    if contents is None:
        return _unreadable(path, bundle)
    facts, market = context.facts, context.market
    return predict(contents, path, cluster=facts, market=market, target=target)


def _evaluate_batch(
    packages: Sequence[Package],
    contexts: Sequence[VerdictContext],
    result: EvaluationSummary,
) -> None:
    rows: dict[_Key, _Values] = {}
    evaluator = _Evaluator(contexts)
    bundles = list(
        Bundle.objects.filter(package__in=packages).order_by("ordinal").only(*BUNDLE_FIELDS)
    )
    chosen = chosen_bundles(packages, bundles)
    for bundle, contents in _contents(bundles, packages):
        result.bundles += 1
        for cluster, path, target, outcome in evaluator.outcomes(bundle.name, contents):
            choice = chosen[bundle.package_id, path]
            key = (bundle.package_id, bundle.pk, cluster, path.value, target.value)
            rows[key] = _values(choice if choice.bundle == bundle.pk else None, outcome)
    for context in contexts:
        _add_packages_without_bundle(context, chosen, rows)
    _count(rows, contexts, result)
    result.written_for += _store(packages, contexts, rows)


def chosen_bundles(
    packages: Sequence[Package], bundles: Sequence[Bundle]
) -> dict[tuple[int, InstallMethod], _Chosen]:
    """(package key, install method) -> the bundle that it chooses. `bundles` are those of the
    packages, with BUNDLE_FIELDS; of several with one name the last counts, as in the caches of
    catalogs."""
    ids = {(bundle.package_id, bundle.name): bundle.pk for bundle in bundles}
    choices = {}
    for package_id, facts in facts_of_all(packages, bundles).items():
        for path in InstallMethod:
            chosen = resolve(facts, path)
            # OLM v1 refuses the chosen bundle because of a dependency: a rule says so.
            evaluated = chosen.candidates[0] if chosen.blocked_by == "dependency" else chosen
            bundle_id = ids.get((package_id, evaluated.bundle)) if evaluated.bundle else None
            choices[package_id, path] = _Chosen(bundle_id, chosen)
    return choices


def _contents(
    bundles: Sequence[Bundle], packages: Sequence[Package]
) -> Iterator[tuple[Bundle, Contents | None]]:
    """The contents of each bundle of the packages, which are of one catalog; None without a
    readable blob. What the PackageManifest API omits of a bundle is taken from the ClusterCatalog
    of the same catalog, and is unknown without one."""
    if not packages or packages[0].catalog.access_method != PACKAGE_MANIFEST:
        yield from ((bundle, contents) for bundle, contents, _ in _own_contents(bundles))
        return
    full = _full_contents(bundles, packages)
    for bundle, contents, inspected in _own_contents(bundles):
        if contents is None or inspected:
            yield bundle, contents
        elif (other := full.get(bundle.pk)) is None:
            yield bundle, replace(contents, **_NOT_IN_PACKAGE_MANIFEST)
        else:
            omitted = {name: getattr(other, name) for name in _NOT_IN_PACKAGE_MANIFEST}
            yield bundle, replace(contents, **omitted)


def _own_contents(bundles: Collection[Bundle]) -> Iterator[tuple[Bundle, Contents | None, bool]]:
    """The contents that the catalog has of each bundle, or those of its inspected image, which take
    precedence; and whether they are those of the image."""
    inspected = inspected_images(bundle.image for bundle in bundles if bundle.image)
    waiting: dict[str, list[Bundle]] = defaultdict(list)
    for bundle in bundles:
        waiting[bundle.blob_id or ""].append(bundle)
    for sha256, blob in read_blobs(sha256 for sha256 in waiting if sha256):
        for bundle in waiting.pop(sha256):
            contents = contents_of(bundle) if bundle.image in inspected else None
            if contents is not None:
                yield bundle, contents, True
            else:
                yield bundle, _read(blob, bundle.deprecated), False
    for left in waiting.values():
        yield from ((bundle, None, False) for bundle in left)


def _full_contents(
    bundles: Sequence[Bundle], packages: Sequence[Package]
) -> dict[int, Contents | None]:
    """Bundle key -> the contents of the bundle of its package, name and version in
    `full_catalogs`."""
    names = {package.pk: package.name for package in packages}
    rows = Bundle.objects.filter(
        package__catalog__in=full_catalogs(packages[0].catalog), package__name__in=names.values()
    )
    rows = rows.select_related("package").only(*BUNDLE_FIELDS, "package__name").order_by("ordinal")
    full = {(row.package.name, row.name, row.version): row for row in rows}
    keys = {row.pk: (names[row.package_id], row.name, row.version) for row in bundles}
    same = {pk: full[key] for pk, key in keys.items() if key in full}
    contents = {row.pk: read for row, read, _ in _own_contents({*same.values()})}
    return {pk: contents[row.pk] for pk, row in same.items()}


def _read(blob: bytes, deprecated: bool) -> Contents | None:
    try:
        if not blob.lstrip().startswith(b"{"):
            blob = fbc.yaml_to_json(blob)
        return read_contents(blob, deprecated=deprecated)
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return None


class _Evaluator:
    """Evaluates bundles and caches the verdicts by all contents but name and version: the versions
    of an operator mostly differ in these only, and few rules use them."""

    def __init__(self, contexts: Sequence[VerdictContext]) -> None:
        self._contexts = contexts
        self._installed = {
            operator.bundle for context in contexts for operator in context.facts.installed
        }
        self._cache: dict[tuple[Any, ...], list[_BundleVerdict]] = {}

    def outcomes(self, name: str, contents: Contents | None) -> list[_BundleVerdict]:
        """The verdicts by install method and target; for a cluster only those that differ from the
        catalog's own."""
        if contents is None:
            return self._evaluate(name, None)
        if contents.constraints:  # undecoded dicts: not hashable
            return self._evaluate(name, contents)
        shape = (name if name in self._installed else "", *_SHAPE(contents))
        if shape not in self._cache:
            self._cache[shape] = self._evaluate(name, contents)
        return self._cache[shape]

    def _evaluate(self, name: str, contents: Contents | None) -> list[_BundleVerdict]:
        alone: dict[tuple[InstallMethod, WatchTarget], BundleEvaluation] = {}
        verdicts = []
        for context in self._contexts:
            for method_target in context.method_targets:
                path, target = method_target
                evaluation = _evaluation(contents, name, context, path, target)
                if context.cluster_id is None:
                    alone[method_target] = evaluation
                elif evaluation == alone.get(method_target):
                    continue
                verdicts.append((context.cluster_id, path, target, _outcome(evaluation)))
        return verdicts


def _add_packages_without_bundle(
    context: VerdictContext,
    chosen: dict[tuple[int, InstallMethod], _Chosen],
    rows: dict[_Key, _Values],
) -> None:
    """Adds rows for packages without a chosen bundle, which does not depend on the cluster."""
    targets = context.method_targets
    if context.cluster_id is not None:
        targets = targets[len(METHOD_TARGETS) :]
    for (package_id, path), choice in chosen.items():
        for method, target in targets if choice.bundle is None else ():
            if method != path:
                continue
            key = (package_id, None, context.cluster_id, path.value, target.value)
            rows[key] = _values(choice, _outcome(_nothing(path, choice.resolution)))


def _values(choice: _Chosen | None, outcome: _Outcome) -> _Values:
    return (choice is not None, choice.resolution.channel if choice else "", *outcome)


def _outcome(evaluation: BundleEvaluation) -> _Outcome:
    results = [
        {"rule": result.rule, "verdict": result.verdict.value, "sentence": result.sentence}
        for result in evaluation.results
    ]
    return (
        evaluation.verdict.value,
        evaluation.deciding.rule if evaluation.deciding else "",
        evaluation.results[0].sentence if evaluation.results else "",
        as_json(results),
    )


def _unreadable(path: InstallMethod, bundle: str) -> BundleEvaluation:
    sentence = f"The catalog has no readable blob of {bundle}; its problems say why."
    result = RuleResult(NOT_READ, Verdict.UNKNOWN, sentence)
    return BundleEvaluation(path, result.verdict, (result,))


def _nothing(path: InstallMethod, chosen: Resolution) -> BundleEvaluation:
    """The evaluation if no bundle is chosen, or one that the catalog lacks."""
    if chosen.bundle:
        return _unreadable(path, chosen.bundle)
    rule = chosen.blocked_by or "no-bundles"
    result = RuleResult(rule, Verdict.NOT_INSTALLABLE, chosen.message or chosen.reason)
    return BundleEvaluation(path, result.verdict, (result,))


def _count(
    rows: dict[_Key, _Values], contexts: Sequence[VerdictContext], result: EvaluationSummary
) -> None:
    chosen = [(key, values) for key, values in rows.items() if values[0]]
    for context in contexts:
        packages: dict[tuple[int, str], dict[str, MethodVerdict]] = defaultdict(dict)
        # rows of the cluster replace those of the catalog alone
        for cluster_id in dict.fromkeys((None, context.cluster_id)):
            for (package, _, cluster, path, target), (_, _, verdict, rule, *_) in chosen:
                if cluster == cluster_id:
                    verdict_here = MethodVerdict(path, target, verdict, rule)
                    packages[package, path][target] = verdict_here
        counts = result.counts[context.cluster_id]
        for (_, path), targets in packages.items():
            for row in targets.values():
                counts[method_key(path, row.target)][row.verdict] += 1
            if path == InstallMethod.SUBSCRIPTION:
                best = over_targets(targets.values())[0]
                counts[method_key(path, ANY_TARGET)][best.verdict] += 1


def _store(
    packages: Sequence[Package], contexts: Sequence[VerdictContext], rows: dict[_Key, _Values]
) -> Counter[int | None]:
    """Replaces the differing rows of these contexts; returns the number of deletes and inserts for
    each cluster."""
    clusters = [context.cluster_id for context in contexts if context.cluster_id is not None]
    here = Q(cluster=None) | Q(cluster__in=clusters)
    with fenced_transaction():
        stored = Prediction.objects.filter(here, package__in=packages).order_by()
        gone = []
        written: Counter[int | None] = Counter()
        for pk, *key_and_values in stored.values_list("id", *(_id(name) for name in _FIELDS)):
            key, values = tuple(key_and_values[:5]), key_and_values[5:]
            wanted = rows.get(key)
            if wanted is not None and (*values[:-1], as_json(values[-1])) == wanted:
                del rows[key]
            else:
                gone.append(pk)
                written[key[2]] += 1
        for start in range(0, len(gone), 500):
            ids = gone[start : start + 500]
            delete(Prediction, f"id IN ({', '.join(['%s'] * len(ids))})", ids)
        table = Table(Prediction, *_FIELDS)
        table.extend([(*key, *values) for key, values in rows.items()])
        table.finish()
    written.update(key[2] for key in rows)
    return written


def _id(name: str) -> str:
    return f"{name}_id" if name in ("package", "bundle", "cluster") else name
