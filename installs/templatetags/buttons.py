"""For the pages of catalogs, whose views know nothing of installs: what the Install button says."""

from typing import Any

from django import template

from catalogs.models import Package
from installs.buttons import Offer, install_offer
from olmweb.context import clusters

register = template.Library()


@register.simple_tag(takes_context=True)
def install_offer_of(context: dict[str, Any], package: Package) -> Offer:
    """`{% install_offer_of package as offer %}`; at most five queries, asks no cluster."""
    request = context["request"]
    return install_offer(request.user, package.catalog, clusters(request))
