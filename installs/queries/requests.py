"""Reads behind the requests pages."""

from django.db.models import Count, Max, Q

from installs.models import InstallRequest, Operator
from installs.queries.keyset import Page, paginate

STATES = tuple(str(value) for value in InstallRequest.State.values)


def request_page(
    *, state: str = "", cluster: str = "", user: str = "", q: str = "", cursor: str = ""
) -> Page[InstallRequest]:
    """One page of requests, newest first; two queries. Raises BadRequest (cursor)."""
    rows = InstallRequest.objects.select_related("cluster", "user", "decided_by")
    if state:
        rows = rows.filter(state=state)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    if user:
        rows = rows.filter(user__username=user)
    for word in q.split()[:8]:
        rows = rows.filter(Q(package__icontains=word) | Q(reason__icontains=word))
    return paginate(rows, ("created_at",), descending=True, cursor=cursor)


def requests_revision() -> str:
    """What moves when any request was made or decided; one query."""
    totals = InstallRequest.objects.aggregate(
        newest=Max("pk"),
        decided=Max("decided_at"),
        waiting=Count("pk", filter=Q(state=InstallRequest.State.WAITING)),
    )
    return ":".join(str(value) for value in totals.values())


def installed_of(request: InstallRequest) -> list[Operator]:
    """What is installed of the same package on the same cluster; one query."""
    rows = Operator.objects.filter(cluster=request.cluster_id)
    same = Q(package=request.package) | Q(kind=request.path, name=request.name)
    return list(rows.filter(same).order_by("kind", "namespace", "name")[:20])
