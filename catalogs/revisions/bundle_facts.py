"""What differs between two bundles of one name in two catalogs, from the content that is stored.

Outlines have only digests of these facts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from catalogs.models import Bundle, BundleGVK, Catalog
from catalogs.revisions.compare import ChangeKind, PackageChange

_FIELDS = {
    "version": "version",
    "release": "release",
    "min_kube_version": "Kubernetes from",
    "max_openshift_version": "OpenShift up to",
    "suggested_namespace": "suggested namespace",
    "released_at": "created",
}
_OF_FACTS = (ChangeKind.BUNDLE_CHANGED, ChangeKind.DISPLAY_NAME_CHANGED)
_Facts = dict[str, frozenset[str]]
_NAME = "display name"  # no requirement: a change of its own


def describe_bundles(
    changes: Sequence[PackageChange], first: Catalog, second: Catalog
) -> list[PackageChange]:
    """The changes, with the differing facts as `before` and `after` of each changed bundle; a
    display name that differs is a change of its own. Two queries, none without such bundles."""
    wanted = {(change.package, change.subject) for change in changes if change.kind in _OF_FACTS}
    if not wanted:
        return list(changes)
    facts = _facts(wanted, (first.pk, second.pk))
    described = []
    for change in changes:
        if change.kind not in _OF_FACTS:
            described.append(change)
            continue
        key = (change.package, change.subject)
        old, new = facts.get((first.pk, *key), {}), facts.get((second.pk, *key), {})
        names = [next(iter(bundle.pop(_NAME, ())), "") for bundle in (old, new)]
        renamed = names[0] != names[1]
        if old != new:
            kind, before, after = ChangeKind.BUNDLE_CHANGED, _only_in(old, new), _only_in(new, old)
            described.append(change._replace(kind=kind, before=before, after=after))
        elif not renamed:
            described.append(change)
        if renamed:
            kind, (before, after) = ChangeKind.DISPLAY_NAME_CHANGED, names
            described.append(change._replace(kind=kind, before=before, after=after))
    return described


def _only_in(facts: _Facts, others: _Facts) -> str:
    """The facts that are not in `others`: "required packages b 1; install modes OwnNamespace"."""
    parts = [
        f"{label} {', '.join(sorted(values - others.get(label, frozenset())))}"
        for label, values in facts.items()
        if values - others.get(label, frozenset())
    ]
    return "; ".join(parts)


def _facts(
    wanted: set[tuple[str, str]], catalogs: tuple[int, int]
) -> dict[tuple[int, str, str], _Facts]:
    bundles = Bundle.objects.filter(
        package__catalog__in=catalogs,
        package__name__in={package for package, _ in wanted},
        name__in={bundle for _, bundle in wanted},
    ).select_related("package")
    apis: dict[int, list[BundleGVK]] = defaultdict(list)
    rows = {bundle.pk: bundle for bundle in bundles}
    for api in BundleGVK.objects.filter(bundle__in=rows):
        apis[api.bundle_id].append(api)
    return {
        (bundle.package.catalog_id, bundle.package.name, bundle.name): {
            label: frozenset(values)
            for label, values in _labelled(bundle, apis[bundle.pk])
            if values
        }
        for bundle in rows.values()
    }


def _labelled(bundle: Bundle, apis: Sequence[BundleGVK]) -> Iterator[tuple[str, set[str]]]:
    for field, label in _FIELDS.items():
        yield label, {getattr(bundle, field)} - {""}
    yield _NAME, {bundle.display_name} - {""}
    yield "install modes", set(bundle.install_modes)
    packages = bundle.required_packages
    yield "required packages", {f"{package['name']} {package['range']}" for package in packages}
    yield "required APIs", {str(api) for api in apis if api.required}
    yield "provided APIs", {str(api) for api in apis if not api.required}
    if bundle.constraint_count:
        yield "constraints", {str(bundle.constraint_count)}
