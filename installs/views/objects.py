"""The YAML of an object, requested by POST. A GET shows what a worker has read for the person."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from installs.methods import METHODS
from installs.queries.lookup import NO_NAMESPACE
from installs.reports import object_yaml as objects
from installs.views.forms import METHODS as FORM_METHODS
from installs.views.forms import go_to
from olmweb.accounts.roles import AnyUser, may_read_yaml, person, person_of, sign_in_required
from olmweb.clusters import get_cluster
from olmweb.web.context import clusters
from olmweb.web.pages import render_live, revision_token, unchanged

# Kind -> the list in the navigation that its objects belong to.
SECTIONS = {
    "CatalogSource": ("Catalogs", "catalogs:catalog-list"),
    "ClusterCatalog": ("Catalogs", "catalogs:catalog-list"),
    "CustomResourceDefinition": ("CRDs", "installs:crds"),
    "ClusterOperator": ("Cluster operators", "installs:clusteroperators"),
}
OPERATORS = ("Installed operators", "installs:operators")


def _require_reader(user: AnyUser) -> None:
    """Raises OlmwebError (403) for people who may not have an object read."""
    person(user, may_read_yaml)


@require_http_methods(FORM_METHODS)
@never_cache
@sign_in_required(check=_require_reader, methods=("POST",))
def object_yaml(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """The YAML that was read for this person in the last minutes, or the request for it."""
    row = get_cluster(cluster, clusters(request))
    place = "" if namespace == NO_NAMESPACE else namespace
    now = timezone.now()
    if request.method == "POST":
        objects.request_yaml(person_of(request), row, kind, place, name, now)
        return go_to(request, reverse("installs:object", args=(cluster, kind, namespace, name)))
    objects.require_stored(row, kind, place, name)
    may_read, why_not = may_read_yaml(request.user)
    result = (
        objects.current_yaml(person_of(request), row, kind, place, name, now) if may_read else None
    )
    pending = result is not None and objects.is_pending(result, now)
    token = revision_token(pending, result and (result.pk, result.requested_at, result.finished_at))
    if (answer := unchanged(request, token)) is not None:
        return answer
    section, route = SECTIONS.get(kind, OPERATORS)
    context = {
        "cluster": row,
        "kind": kind,
        "namespace": place,
        "name": name,
        "page": _page_of(row.name, kind, namespace, name),
        "section": section,
        "section_url": reverse(route),
        "nav_path": reverse(route),
        "command": objects.kubectl_command(kind, place, name),
        "may_read": may_read,
        "why_not": why_not,
        "result": result,
        "pending": pending,
        "lost": result is not None and result.finished_at is None and not pending,
        "minutes": int(objects.SHOWN.total_seconds() // 60),
    }
    return render_live(request, "installs/object.html", context, token=token, topics=("objects",))


def _page_of(cluster: str, kind: str, namespace: str, name: str) -> str:
    """The address of the object's own page; empty for an object that has none."""
    if kind == "ClusterOperator":
        return reverse("installs:clusteroperator", args=(cluster, name))
    if kind in METHODS:
        return reverse("installs:operator", args=(cluster, kind, namespace, name))
    return ""
