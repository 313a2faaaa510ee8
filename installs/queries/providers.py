"""Searches of the software catalog for packages that provide a missing API."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from catalogs.models import BundleGVK, Catalog
from installs.diagnosis.knowledge import Finding
from olmweb.models import Cluster


@dataclass(frozen=True, slots=True)
class MissingApi:
    """A kind of an API group, or the plural of its CustomResourceDefinition."""

    group: str
    kind: str = ""
    plural: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """A search of the software catalog: its words and its URL."""

    words: str
    url: str


def api_of_crd(name: str) -> MissingApi:
    """The API of a CustomResourceDefinition, whose name is PLURAL.GROUP."""
    plural, _, group = name.partition(".")
    return MissingApi(group, plural=plural)


def missing_api(finding: Finding) -> MissingApi | None:
    """The missing API of the finding; None when it names none with a group."""
    facts = finding.facts
    if crd := facts.get("crd"):
        api = api_of_crd(crd)
    else:
        group, _, version = (facts.get("gv") or facts.get("version") or "").rpartition("/")
        api = MissingApi(group if version else "", kind=facts.get("object_kind", ""))
    return api if api.group and (api.kind or api.plural) else None


def provider_searches(cluster: Cluster, apis: Collection[MissingApi]) -> dict[MissingApi, Search]:
    """API -> the search that finds its providers in the cluster's catalogs, if there are any.

    The kind of a definition is guessed from its plural as Kubernetes does (apimachinery,
    UnsafeGuessKindToResource); if no kind of the group has that plural, the search is for the
    group. One query, none without `apis`.
    """
    if not apis:
        return {}
    rows = BundleGVK.objects.filter(
        group__in={api.group for api in apis},
        required=False,
        bundle__package__catalog__cluster=cluster,
    ).exclude(bundle__package__catalog__state=Catalog.State.DISABLED)
    kinds: dict[str, set[str]] = defaultdict(set)
    for group, kind in rows.order_by().values_list("group", "kind").distinct():
        kinds[group].add(kind)
    words_of = {api: _search_words(api, kinds[api.group]) for api in apis}
    url = reverse("catalogs:software")
    return {
        api: Search(
            words, f"{url}?{urlencode({'q': f'provides:{words}', 'cluster': cluster.name})}"
        )
        for api, words in words_of.items()
        if words
    }


def _search_words(api: MissingApi, kinds: Collection[str]) -> str:
    if api.kind:
        return f"{api.group}/{api.kind}" if api.kind in kinds else ""
    fitting = sorted(kind for kind in kinds if _plural(kind) == api.plural)
    if fitting:
        return f"{api.group}/{fitting[0]}"
    return api.group if kinds else ""


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
