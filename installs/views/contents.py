"""The contents of one bundle on a cluster, and the difference from another bundle."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.contents.permissions import CLUSTER
from catalogs.contents.report import BundleReport
from catalogs.models import Bundle, Package
from catalogs.views import presenters
from catalogs.views.bundle import inspection_status
from installs.facts import bundle_contents as found_contents
from olmweb.models import Cluster
from olmweb.web.context import clusters, default_cluster
from olmweb.web.forms import clean_text
from olmweb.web.pages import render_page

CHOICES = 200  # bundles offered to compare with


@require_safe
def contents(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    """`?cluster=` for a catalog of none; `?from=` names the bundle to compare with."""
    package_row = lookup.get_package(cluster, catalog, package)
    shown = lookup.get_bundle(package_row, bundle)
    shown.package = package_row
    notices: list[str] = []
    where = _cluster(request, package_row, notices)
    bundle_contents = found_contents.contents(shown, where)
    context: dict[str, Any] = {
        "package": package_row,
        "catalog": package_row.catalog,
        "status": presenters.catalog_status(package_row.catalog),
        "bundle": shown,
        "bundle_url": presenters.bundle_url(package_row, shown.name),
        "inspected": inspection_status(package_row, shown),
        "clusters": [] if package_row.catalog.cluster else clusters(request),
        "cluster": where,
        "contents": bundle_contents,
        "wide": _granted(bundle_contents.report, wide=True),
        "narrow": _granted(bundle_contents.report, wide=False),
        "notices": notices,
        **_compared(request, package_row, shown, bundle_contents, where, notices),
    }
    return render_page(request, "installs/contents.html", context)


def _granted(report: BundleReport, *, wide: bool) -> list[Any]:
    return [
        permission for permission in report.permissions if (permission.scope == CLUSTER) is wide
    ]


def _cluster(request: HttpRequest, package: Package, notices: list[str]) -> Cluster | None:
    """The cluster of the catalog; for a catalog without one, the requested cluster, the person's
    default cluster, or the first."""
    if package.catalog.cluster is not None:
        return package.catalog.cluster
    by_name = {cluster.name: cluster for cluster in clusters(request)}
    name = clean_text(request.GET.get("cluster", ""))
    if name and name not in by_name:
        notices.append(f"There is no cluster “{name}”.")
    return by_name.get(name or default_cluster(request)) or next(iter(by_name.values()), None)


def _compared(
    request: HttpRequest,
    package: Package,
    shown: Bundle,
    bundle_contents: found_contents.BundleContents,
    cluster: Cluster | None,
    notices: list[str],
) -> dict[str, Any]:
    """The bundle to compare with: the requested one, else the installed one."""
    name = clean_text(request.GET.get("from", ""))
    names = package.bundles.exclude(name=shown.name).values_list("name", "version")
    installed = found_contents.installed_bundle(package, cluster)
    before = installed
    if name:
        before = package.bundles.filter(name=name).first()
        if before is None:
            notices.append(f"There is no bundle “{name}” in this package.")
    if before is not None and before.name == shown.name:
        before = None
    return {
        "choices": list(names[:CHOICES]),
        "installed_name": installed.name if installed else "",
        "before": before,
        "before_url": presenters.bundle_url(package, before.name, "installs:contents")
        if before
        else "",
        "sections": found_contents.between(before, bundle_contents) if before else None,
    }
