"""What a person selected for a bulk install: what each is on this cluster, and what is against it.

Reads rows, a fixed number of queries however much is selected, but for one a catalog. Asks no
cluster.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import StoredVerdict, best_rows, chosen_rows, stored_verdict
from catalogs.verdicts.rules import Verdict
from installs.actions.plan import paths_of
from installs.models import Action, Operator
from olmweb.models import LOCAL, Cluster

CAP = 50  # packages that one batch installs
SHOWN = 200  # of a selection; what is beyond that is not looked at


@dataclass(frozen=True, slots=True)
class Key:
    """Names a package as the address of its page does: `prod/redhat-operators/etcd`."""

    cluster: str
    catalog: str
    package: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.catalog}/{self.package}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selected package on one cluster and path.

    `hindrance` says why it can't be installed with the others, `doubt` why it is ticked only when
    the person does that; `package` is None only with a hindrance. `prediction` is the stored
    verdict on the bundle that the path would choose, None when it was not judged yet.
    """

    key: Key
    package: Package | None = None
    prediction: StoredVerdict | None = None
    bundle: str = ""
    hindrance: str = ""
    doubt: str = ""

    @property
    def name(self) -> str:
        return self.key.package


def read_keys(texts: Iterable[str]) -> list[Key]:
    """The keys among the texts, each once; what is none is left out, as is all beyond SHOWN."""
    keys: dict[Key, None] = {}
    for text in texts:
        parts = text.split("/")
        if len(parts) == 3 and all(parts) and len(text) <= 1000:
            keys[Key(*parts)] = None
    return list(keys)[:SHOWN]


@dataclass(frozen=True, slots=True)
class Selection:
    """The packages that the keys name, on whichever cluster; one query."""

    keys: Sequence[Key]
    packages: dict[Key, Package]

    def on(self, cluster: Cluster, key: Key) -> Package | None:
        """The package that the key means on this cluster: of the very catalog that it names, or
        of the catalog with the same name that is the cluster's own or no cluster's."""
        package = self.packages.get(key)
        if package is not None and package.catalog.cluster_id in (None, cluster.pk):
            return package
        others = (replace(key, cluster=name) for name in (cluster.name, LOCAL))
        return next((self.packages[other] for other in others if other in self.packages), None)


def read_selection(keys: Sequence[Key]) -> Selection:
    rows = Package.objects.filter(
        name__in={key.package for key in keys}, catalog__slug__in={key.catalog for key in keys}
    ).select_related("catalog", "catalog__cluster")
    return Selection(
        keys, {Key(row.catalog.cluster_name, row.catalog.slug, row.name): row for row in rows}
    )


def places(selection: Selection, clusters: Sequence[Cluster]) -> dict[Cluster, list[InstallMethod]]:
    """Cluster -> the paths by which at least one of the selected can be installed there.

    Those of the first one selected come first.
    """
    methods: dict[Cluster, list[InstallMethod]] = {}
    for cluster in clusters:
        paths = _paths(selection, cluster)
        usable = {path for allowed in paths.values() for path in allowed}
        if usable:
            methods[cluster] = [path for path in InstallMethod if path in usable]
    first = next((key.cluster for key in selection.keys if key.cluster != LOCAL), "")
    return dict(sorted(methods.items(), key=lambda item: (item[0].name != first, item[0].name)))


def _paths(selection: Selection, cluster: Cluster) -> dict[Catalog, list[InstallMethod]]:
    """Of each catalog that a selected package has on this cluster."""
    packages = [selection.on(cluster, key) for key in selection.keys]
    catalogs = {package.catalog for package in packages if package is not None}
    return {catalog: paths_of(cluster, catalog) for catalog in catalogs}


def candidates(
    selection: Selection, cluster: Cluster, path: InstallMethod, targets: str = ""
) -> list[Candidate]:
    """Every selected package, in the order of their names.

    `targets` as a form has it, what the OperatorGroup of a Subscription selects: all, own, or
    empty for what each supports.
    """
    paths = _paths(selection, cluster)
    on = {key: selection.on(cluster, key) for key in selection.keys}
    packages = [package for package in on.values() if package is not None]
    verdicts = _verdicts(packages, cluster, path, targets)
    busy, installed = _busy(packages, cluster), _installed(packages, cluster)
    results: list[Candidate] = []
    names: dict[str, Key] = {}
    for key in sorted(selection.keys, key=lambda key: (key.package, str(key))):
        package = on[key]
        if package is None:
            where = f"Cluster {cluster.name} has no catalog {key.catalog} with it."
            results.append(Candidate(key, hindrance=where))
            continue
        candidate = verdicts.get(package.pk, Candidate(key))
        candidate = replace(candidate, key=key, package=package)
        if path not in paths[package.catalog]:
            why = f"Nothing of catalog {package.catalog.name} is installed as a {path} there."
        elif package.name in names:
            why = f"It is selected already, from {names[package.name].catalog}."
        else:
            why = busy.get(package.name, "")
        names.setdefault(package.name, key)
        doubt = installed.get(package.name, "") or _doubt(candidate)
        results.append(replace(candidate, hindrance=why, doubt="" if why else doubt))
    return results


def _doubt(candidate: Candidate) -> str:
    if candidate.prediction is None or candidate.prediction.verdict != Verdict.NOT_INSTALLABLE:
        return ""
    return candidate.prediction.sentence


def _verdicts(
    packages: Sequence[Package], cluster: Cluster, path: InstallMethod, targets: str
) -> dict[int, Candidate]:
    """Package key -> verdict on what the path would choose of it; one query."""
    selected = Package.objects.filter(pk__in=[package.pk for package in packages])
    target = None  # no choice: the best target of each package
    if targets:  # named namespaces have no verdicts of their own
        target = WatchTarget.OWN if targets == WatchTarget.OWN else WatchTarget.ALL
    return {
        row.package_id: Candidate(
            Key("", "", row.package.name),
            prediction=stored_verdict(row),
            bundle=row.bundle.name if row.bundle else "",
        )
        for row in best_rows(chosen_rows(selected, path, cluster.pk, target))
    }


def _busy(packages: Sequence[Package], cluster: Cluster) -> dict[str, str]:
    """Package -> what of it is not finished on the cluster; one query."""
    rows = Action.objects.filter(
        cluster=cluster, state__in=Action.OPEN, package__in={package.name for package in packages}
    ).only("pk", "package", "verb")
    return {
        row.package: f"Its {row.verb}, action {row.pk}, is not finished."
        for row in rows.order_by("-pk")
    }


def _installed(packages: Sequence[Package], cluster: Cluster) -> dict[str, str]:
    """Package -> as what the cluster has it already; one query."""
    rows = Operator.objects.filter(
        cluster=cluster, kind__in=InstallMethod, package__in={package.name for package in packages}
    ).order_by("kind", "namespace", "name")
    return {
        row.package: f"It is there already, as {row.kind} {row.name}"
        + (f" in {row.namespace}." if row.namespace else ".")
        for row in rows
    }
