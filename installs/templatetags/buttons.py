"""Tags for the permissions of a user on buttons and forms, on the pages of catalogs too."""

from typing import Any

from django import template

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.actions.buttons import InstallOffer, install_offer, path_refusal
from installs.methods.base import NAMESPACE_LIMIT
from olmweb.models import Cluster
from olmweb.web.context import clusters

register = template.Library()


@register.simple_tag(takes_context=True)
def install_offer_of(context: dict[str, Any], package: Package) -> InstallOffer:
    """`{% install_offer_of package as offer %}`; at most five queries, asks no cluster."""
    request = context["request"]
    return install_offer(request.user, package.catalog, clusters(request))


@register.inclusion_tag("installs/_path_refused.html", takes_context=True)
def path_refused(
    context: dict[str, Any], cluster: Cluster | None, path: str, namespace: str
) -> dict[str, Any]:
    """The refusal of the cluster for an install by this method, if there was one."""
    odd = len(namespace) > NAMESPACE_LIMIT  # the form says so itself
    if cluster is None or path not in tuple(InstallMethod) or odd:
        return {"refused": None}
    return {"refused": path_refusal(context["request"].user, cluster, path, namespace)}
