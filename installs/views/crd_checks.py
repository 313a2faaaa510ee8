"""The check of a cluster's CRDs and objects before an upgrade, requested by POST.

A GET shows what a worker has read for the person.
"""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from installs.actions import crd_check as checks
from installs.methods import METHODS
from installs.queries.lookup import get_operator
from installs.views.forms import METHODS as FORM_METHODS
from installs.views.forms import go_to
from olmweb.accounts.roles import AnyUser, may_read_yaml, person, person_of, sign_in_required
from olmweb.web.pages import render_live, revision_token, unchanged


def _require_reader(user: AnyUser) -> None:
    """Raises OlmwebError (403) for people who may not have objects read."""
    person(user, may_read_yaml)


@require_http_methods(FORM_METHODS)
@never_cache
@sign_in_required(check=_require_reader, methods=("POST",))
def crd_check(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str, bundle: str
) -> HttpResponse:
    """The check that was made for this person in the last half hour, or the request for it."""
    operator = get_operator(cluster, kind, namespace, name)
    where = (cluster, kind, namespace, name)
    now = timezone.now()
    if request.method == "POST":
        checks.request_check(person_of(request), operator, bundle, now)
        return go_to(request, reverse("installs:crd-check", args=(*where, bundle)))
    may_read, why_not = may_read_yaml(request.user)
    result = checks.current_check(person_of(request), operator, bundle, now) if may_read else None
    pending = result is not None and checks.is_pending(result, now)
    token = revision_token(
        pending, result and (result.pk, result.requested_at, result.started_at, result.finished_at)
    )
    if (answer := unchanged(request, token)) is not None:
        return answer
    context = {
        "operator": operator,
        "method": METHODS.get(operator.kind),
        "bundle": bundle,
        "page": reverse("installs:operator", args=where),
        "may_read": may_read,
        "why_not": why_not,
        "check": result,
        "crds": result.result.get("crds", []) if result else [],
        "pending": pending,
        "lost": result is not None and result.finished_at is None and not pending,
        "minutes": int(checks.SHOWN.total_seconds() // 60),
        "limit": checks.OBJECTS,
        "shown": checks.ROWS,
    }
    return render_live(
        request, "installs/crd_check.html", context, token=token, topics=("objects",)
    )
