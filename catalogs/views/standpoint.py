"""For which cluster a page tells its verdicts: another one may be told otherwise."""

from dataclasses import dataclass

from django.http import HttpRequest

from catalogs.models import Catalog
from catalogs.views import forms
from olmweb.models import Cluster
from olmweb.web.context import clusters

ALONE = "-"  # the choice of no cluster, in the parameter `cluster`


@dataclass(frozen=True, slots=True)
class Standpoint:
    """`cluster` is None where the catalog alone is asked; `choices` are values of the parameter
    `cluster`, the chosen one among them, empty where there is nothing to choose."""

    cluster: Cluster | None
    choices: tuple[str, ...] = ()

    @property
    def cluster_id(self) -> int | None:
        return self.cluster.pk if self.cluster else None

    @property
    def chosen(self) -> str:
        return self.cluster.name if self.cluster else ALONE


def standpoint(request: HttpRequest, catalog: Catalog, notices: list[str]) -> Standpoint:
    """A catalog of a cluster is judged for that one, one of none for each and by itself. What the
    parameter `cluster` asks for beyond that becomes a notice."""
    asked = forms.clean(request.GET.get("cluster", ""))
    if catalog.cluster is not None:
        if asked not in ("", catalog.cluster.name):
            notices.append(
                f"The catalog is of cluster {catalog.cluster.name}: "
                f"it is not judged for “{asked[:60]}”."
            )
        return Standpoint(catalog.cluster)
    known = {each.name: each for each in clusters(request)}
    if asked not in ("", ALONE, *known):
        notices.append(f"There is no cluster “{asked[:60]}”: the catalog alone is asked.")
    return Standpoint(known.get(asked), (ALONE, *known) if known else ())
