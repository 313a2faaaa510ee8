"""Tags for the permissions of a user on buttons and forms, on the pages of catalogs too, and for
the names of accounts."""

from typing import Any

from django import template
from django.urls import reverse

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.actions.buttons import InstallOffer, install_offer, path_refusal
from installs.methods.base import NAMESPACE_LIMIT
from installs.reports import object_yaml
from olmweb.accounts.roles import account_name
from olmweb.models import Cluster
from olmweb.web.context import clusters

register = template.Library()
register.filter("account", account_name)


@register.simple_tag(takes_context=True)
def install_offer_of(context: dict[str, Any], package: Package) -> InstallOffer:
    """`{% install_offer_of package as offer %}`; at most five queries, asks no cluster."""
    request = context["request"]
    return install_offer(request.user, package.catalog, clusters(request))


@register.inclusion_tag("installs/_object_links.html")
def object_links(
    cluster: Cluster, kind: str, namespace: str, name: str, with_yaml: bool = True
) -> dict[str, Any]:
    """Links to the YAML of an object, unless it is on this page, and to the Console; no query."""
    yaml = reverse("installs:object", args=(cluster.name, kind, namespace or "-", name))
    console = object_yaml.console_link(cluster, kind, namespace, name)
    return {"yaml": yaml if with_yaml else "", "console": console}


@register.inclusion_tag("installs/_object_entries.html")
def object_entries(cluster: Cluster, kind: str, namespace: str, name: str) -> dict[str, Any]:
    """As `object_links`, for a menu."""
    return object_links(cluster, kind, namespace, name)


@register.inclusion_tag("installs/_path_refused.html", takes_context=True)
def path_refused(
    context: dict[str, Any], cluster: Cluster | None, path: str, namespace: str
) -> dict[str, Any]:
    """The refusal of the cluster for an install by this method, if there was one."""
    odd = len(namespace) > NAMESPACE_LIMIT  # the form says so itself
    if cluster is None or path not in tuple(InstallMethod) or odd:
        return {"refused": None}
    return {"refused": path_refusal(context["request"].user, cluster, path, namespace)}
