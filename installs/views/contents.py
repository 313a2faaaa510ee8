"""What will this install? One bundle beside a cluster, and how it differs from another."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.contents.report import CLUSTER, Report
from catalogs.models import Bundle, Package
from catalogs.views import presenters
from catalogs.views.bundle import inspection_shown
from installs.facts import bundle_contents as found_contents
from olmweb.models import Cluster
from olmweb.web.context import clusters
from olmweb.web.forms import clean_text
from olmweb.web.pages import render_page

CHOICES = 200  # bundles offered to compare with


@require_safe
def contents(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    """`?cluster=` for a catalog of none; `?from=` names the bundle to compare with."""
    found = lookup.get_package(cluster, catalog, package)
    shown = lookup.get_bundle(found, bundle)
    shown.package = found
    notices: list[str] = []
    where = _cluster(request, found, notices)
    told = found_contents.contents(shown, where)
    context: dict[str, Any] = {
        "package": found,
        "catalog": found.catalog,
        "status": presenters.catalog_status(found.catalog),
        "bundle": shown,
        "bundle_url": presenters.bundle_url(found, shown.name),
        "inspected": inspection_shown(found, shown),
        "clusters": [] if found.catalog.cluster else clusters(request),
        "cluster": where,
        "told": told,
        "wide": _granted(told.report, wide=True),
        "narrow": _granted(told.report, wide=False),
        "notices": notices,
        **_compared(request, found, shown, told, where, notices),
    }
    return render_page(request, "installs/contents.html", context)


def _granted(found: Report, *, wide: bool) -> list[Any]:
    return [each for each in found.permissions if (each.scope == CLUSTER) is wide]


def _cluster(request: HttpRequest, package: Package, notices: list[str]) -> Cluster | None:
    """The catalog's own cluster; of one without, the cluster asked for or the first."""
    if package.catalog.cluster is not None:
        return package.catalog.cluster
    known = {each.name: each for each in clusters(request)}
    asked = clean_text(request.GET.get("cluster", ""))
    if asked and asked not in known:
        notices.append(f"There is no cluster “{asked}”.")
    return known.get(asked) or next(iter(known.values()), None)


def _compared(
    request: HttpRequest,
    package: Package,
    shown: Bundle,
    told: found_contents.BundleContents,
    cluster: Cluster | None,
    notices: list[str],
) -> dict[str, Any]:
    """The bundle to compare with: the one asked for, else the one installed."""
    asked = clean_text(request.GET.get("from", ""))
    names = package.bundles.exclude(name=shown.name).values_list("name", "version")
    installed = found_contents.installed_bundle(package, cluster)
    before = installed
    if asked:
        before = package.bundles.filter(name=asked).first()
        if before is None:
            notices.append(f"There is no bundle “{asked}” in this package.")
    if before is not None and before.name == shown.name:
        before = None
    return {
        "choices": list(names[:CHOICES]),
        "installed_name": installed.name if installed else "",
        "before": before,
        "before_url": presenters.bundle_url(package, before.name, "installs:contents")
        if before
        else "",
        "sections": found_contents.between(before, told) if before else None,
    }
