"""Verdicts in REST rows: the filter by them, and each way's on a package and on a bundle."""

from django.db.models import Exists, F, OuterRef, Q

from catalogs.api.rows import VerdictRow
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package, Prediction, PredictionRun
from catalogs.search import ANSWERS
from catalogs.verdicts.engine import Verdict
from catalogs.verdicts.stored import TARGETS, WAYS, Predicted, overlaid, predicted, verdicts_of
from olmweb.api.lists import Filter

UNKNOWN = "-unknown"


def _installable(value: str) -> Q:
    """Packages of which the path would take a bundle with this verdict, on their catalog's cluster.

    What a cluster's facts change replaces what the catalog alone says, as `overlaid` does; nothing
    is said of a catalog that was not judged for its cluster yet.
    """
    path = value.removesuffix(UNKNOWN)
    judged = PredictionRun.objects.filter(cluster=F("catalog__cluster")).values("catalog")
    known = Q(catalog__cluster=None) | Q(catalog__in=judged)
    installable = _for_any_target(path, Verdict.INSTALLABLE)
    if value.endswith(UNKNOWN):
        return known & _for_any_target(path, Verdict.UNKNOWN) & ~installable
    return known & installable


def _for_any_target(path: str, verdict: Verdict) -> Q:
    matches = Q()
    for target in TARGETS if path == InstallMethod.SUBSCRIPTION else TARGETS[:1]:
        rows = Prediction.objects.filter(
            package=OuterRef("pk"), path=path, target=target.value, chosen=True
        )
        here, alone = rows.filter(cluster=OuterRef("catalog__cluster")), rows.filter(cluster=None)
        matches |= Q(Exists(here.filter(verdict=verdict.value)))
        matches |= Q(Exists(alone.filter(verdict=verdict.value))) & ~Q(Exists(here))
    return matches


INSTALLABLE = Filter(
    "installable",
    "What installs it, or may (PATH-unknown), as predicted for its catalog's cluster.",
    _installable,
    choices=ANSWERS["installable"],
)


def package_verdicts(package: Package) -> list[VerdictRow]:
    """On what each way would take of it. One query."""
    chosen = Prediction.objects.filter(package=package, chosen=True).select_related("bundle")
    rows = {
        (row.path, row.target): _row(predicted(row), row.bundle.name if row.bundle else "")
        for row in overlaid(chosen, package.catalog.cluster_id)
    }
    return [rows[way] for way in WAYS if way in rows]


def bundle_verdicts(bundle: Bundle) -> list[VerdictRow]:
    return [
        _row(one, bundle.name) for one in verdicts_of(bundle, bundle.package.catalog.cluster_id)
    ]


def _row(one: Predicted, bundle: str) -> VerdictRow:
    return VerdictRow(
        one.path.value, one.target.value, one.verdict.value, one.rule, one.sentence, bundle
    )
