"""The verdict on what each operator of a cluster asked for, which need not be what an audit judges.

Resolves as the operator's own controller would, with its channel and version range, and takes the
stored verdict on that bundle: six queries for all operators together. Runs no rule on a bundle.
"""

from collections.abc import Mapping, Sequence

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, Prediction
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import PackageFacts, Resolution
from catalogs.resolve.stored import facts_of_all
from catalogs.verdicts import Target, Verdict
from catalogs.verdicts.read import StoredRuleResult, StoredVerdict, overlaid, predicted, title_of
from installs.models import Operator

Verdicts = Mapping[tuple[int, Target], StoredVerdict]  # bundle key, target
NO_BUNDLE = "no-bundles"


def verdicts_on(
    catalog: Catalog,
    path: InstallMethod,
    operators: Sequence[Operator],
    targets: Mapping[int, Target],
    cluster: int,
) -> dict[int, StoredVerdict | None]:
    """Operator key -> the verdict on the bundle that it asks for; None where it is not known.

    `targets` are by operator key, too. Operators whose package the catalog lacks are left out.
    """
    wanted = {each.package for each in operators}
    packages = {
        each.name: each for each in Package.objects.filter(catalog=catalog, name__in=wanted)
    }
    facts = facts_of_all(list(packages.values()))
    asked = {
        each.pk: _resolved(facts[packages[each.package].pk], path, each)
        for each in operators
        if each.package in packages
    }
    chosen = {found.bundle for found in asked.values() if found is not None and found.bundle}
    ids, found_verdicts = _stored(packages, chosen, path, cluster)
    found: dict[int, StoredVerdict | None] = {}
    for each in operators:
        if each.pk not in asked:
            continue
        resolution, target = asked[each.pk], targets[each.pk]
        if resolution is not None and not resolution.bundle:
            found[each.pk] = _nothing(path, target, resolution)
        else:
            bundle = resolution.bundle if resolution else ""
            pk = ids.get((packages[each.package].pk, bundle), 0)
            found[each.pk] = found_verdicts.get((pk, target))
    return found


def _resolved(facts: PackageFacts, path: InstallMethod, operator: Operator) -> Resolution | None:
    """None when what it asks for can't be read."""
    channels = [each.strip() for each in operator.channel.split(",") if each.strip()]
    try:
        found = resolve(facts, path, channels=channels, version=operator.version_asked)
    except BadQuestion:
        return None
    # OLM v1 refuses the bundle that it settled on: the rules say why, with all others.
    if found.blocked_by == "dependency" and found.candidates:
        first = found.candidates[0]
        return Resolution(first.bundle, first.version, found.channel)
    return found


def _stored(
    packages: Mapping[str, Package], bundles: set[str], path: InstallMethod, cluster: int
) -> tuple[dict[tuple[int, str], int], Verdicts]:
    """Keys of these bundles by package and name, and what is stored of them."""
    rows = Prediction.objects.filter(
        package__in=packages.values(), bundle__name__in=bundles, path=path.value
    ).select_related("bundle")
    ids: dict[tuple[int, str], int] = {}
    found: dict[tuple[int, Target], StoredVerdict] = {}
    for row in overlaid(rows, cluster):
        if row.bundle is not None:
            ids[row.package_id, row.bundle.name] = row.bundle.pk
            found[row.bundle.pk, Target(row.target)] = predicted(row)
    return ids, found


def _nothing(path: InstallMethod, target: Target, resolution: Resolution) -> StoredVerdict:
    rule = resolution.blocked_by or NO_BUNDLE
    sentence = resolution.message or resolution.reason or title_of(rule)
    said = StoredRuleResult(rule, Verdict.NOT_INSTALLABLE, sentence)
    return StoredVerdict(path, target, said.verdict, rule, sentence, (said,))
