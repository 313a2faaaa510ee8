"""Forms and parameters of the catalog pages."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict

from catalogs.models import Catalog
from catalogs.search.find import ANSWERS, INSTALLED, SORTS, Filters
from catalogs.search.images import DIGEST_START, digest_of
from catalogs.search.index import FACETS, PACKAGE_FACETS
from catalogs.search.query import MAX_WORDS, parse_query
from olmweb.models import Cluster
from olmweb.web.context import clusters, default_cluster
from olmweb.web.forms import OptionField, PageField, QueryForm, TextField, clean_text

MAX_QUERY = 200  # characters of a search
MAX_VALUE = 300  # characters of a facet value: the longest column behind one
MAX_VALUES = 20  # values of one facet
FILTER_NAMES = (INSTALLED, *PACKAGE_FACETS, *FACETS)
ALONE = "-"  # the choice of no cluster, in the parameter `cluster`


class SoftwareForm(QueryForm):
    """Search, facets, order, view and pages of the software catalog."""

    q = TextField()
    sort = OptionField("sort", SORTS)
    view = OptionField("view", ("cards", "table"))
    page = PageField()
    bundles_page = PageField()  # of the bundles that use an image

    def clean_q(self) -> str:
        text: str = self.cleaned_data["q"]
        if len(text) > MAX_QUERY:
            text = text[:MAX_QUERY]
            self.notices.append(f"The search was cut to its first {MAX_QUERY} characters.")
        query = parse_query(text)
        if query.ignored:
            self.notices.append(f"Only the first {MAX_WORDS} words of the search are used.")
        if any("sha256:" in image.lower() and not digest_of(image) for image in query.images):
            self.notices.append(
                f"A digest needs its first {DIGEST_START} characters after “sha256:”."
            )
        return text

    def clean(self) -> dict[str, Any]:
        """Adds `chosen`: facet -> its readable values."""
        values = {name: self._facet_values(name) for name in FILTER_NAMES}
        chosen = {name: frozenset(chosen) for name, chosen in values.items() if chosen}
        return {**self.cleaned_data, "chosen": chosen}

    def _facet_values(self, name: str) -> list[str]:
        texts = map(clean_text, self.params.getlist(name))
        values = list(dict.fromkeys(text for text in texts if text))
        if len(values) > MAX_VALUES:
            values = values[:MAX_VALUES]
            self.notices.append(f"Only the first {MAX_VALUES} values of “{name}” are used.")
        answers = ANSWERS.get(name)
        if answers:
            by_lower = {answer.lower(): answer for answer in answers}
            readable = [by_lower[value.lower()] for value in values if value.lower() in by_lower]
        else:
            readable = [value for value in values if len(value) <= MAX_VALUE]
        if len(readable) < len(values):
            hint = f" Use {', '.join(answers[:-1])} or {answers[-1]}." if answers else ""
            self.notices.append(f"A value of “{name}” can't be read and was left out.{hint}")
        return readable

    @property
    def filters(self) -> Filters:
        values = self.cleaned_data
        return Filters(q=values["q"], chosen=values["chosen"], sort=values["sort"])


def read_option(params: QueryDict, name: str, options: tuple[str, ...], notices: list[str]) -> str:
    """The parameter when it is one of `options`, in any case, else the first with a notice."""
    try:
        return OptionField(name, options).clean(params.get(name, ""))
    except ValidationError as error:
        notices.extend(error.messages)
    return options[0]


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster that the verdicts of a page are for; None for verdicts on the catalog alone.

    `choices` are the values of the parameter `cluster`, empty where there is no choice.
    """

    cluster: Cluster | None
    choices: tuple[str, ...] = ()

    @property
    def cluster_id(self) -> int | None:
        return self.cluster.pk if self.cluster else None

    @property
    def chosen(self) -> str:
        return self.cluster.name if self.cluster else ALONE


def read_target_cluster(
    request: HttpRequest, catalog: Catalog, notices: list[str]
) -> TargetCluster:
    """The cluster of the catalog; for a catalog without one, that of the parameter `cluster`, else
    the person's default cluster. Any other value of the parameter becomes a notice."""
    name = clean_text(request.GET.get("cluster", ""))
    if catalog.cluster is not None:
        if name not in ("", catalog.cluster.name):
            notices.append(
                f"The catalog is of cluster {catalog.cluster.name}: "
                f"it is not evaluated for “{name[:60]}”."
            )
        return TargetCluster(catalog.cluster)
    by_name = {cluster.name: cluster for cluster in clusters(request)}
    if name not in ("", ALONE, *by_name):
        notices.append(f"There is no cluster “{name[:60]}”: verdicts are those without a cluster.")
    target = by_name.get(name or default_cluster(request))
    return TargetCluster(target, (ALONE, *by_name) if by_name else ())
