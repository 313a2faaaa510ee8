"""The tab Versions of a package: all versions in order, and a form that resolves one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import QueryDict

from catalogs import queries
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package
from catalogs.resolve import BadQuestion, resolve, v1
from catalogs.resolve.analysis import V1
from catalogs.resolve.facts import ResolverPackage
from catalogs.semver import identifiers_key
from catalogs.verdicts.read import verdicts
from catalogs.views import presenters
from catalogs.views.channels import facts_shown, shown_semantics
from olmweb.web.forms import clean_text
from olmweb.web.pagination import paginate

ROWS = 50  # of the table on one page
CANDIDATES = 25  # shown; the rest are counted by reason
METHODS = {
    InstallMethod.PLATFORM_OPERATOR: "PlatformOperator",
    InstallMethod.CLUSTER_EXTENSION: "ClusterExtension (OLM v1)",
    InstallMethod.SUBSCRIPTION: "Subscription (OLM v0)",
}
# code of a candidate that is not chosen -> how those beyond the table are counted
CODES = {
    "channel": "not in the channel",
    "range": "outside the range",
    "successor": "no upgrade from what is installed",
    "skipped": "skipped",
    "chain": "not on the chain from the head",
    "deprecated": "deprecated",
    "order": "behind the chosen one",
    "dependency": "refused",
    "version": "without a version that can be read",
}


def versions_tab(
    package: Package, choice: queries.Choice, context: Mapping[str, Any]
) -> dict[str, Any]:
    params: QueryDict = context["params"]
    semantics = shown_semantics(package, context)
    facts = facts_shown(package, choice, context)
    ordered = _ordered(choice.bundles, facts, semantics)
    page = paginate(ordered, context["page_number"], ROWS, context["notices"])
    channels = facts.channels_of()
    stored = verdicts([bundle.pk for bundle in page], context["target_cluster"].cluster_id)
    rows = [
        {
            "bundle": bundle,
            "url": presenters.bundle_url(package, bundle.name),
            "channels": channels.get(bundle.name, ()),
            "verdicts": presenters.verdict_words(
                verdict
                for path in InstallMethod
                if (verdict := stored.get(bundle.pk, {}).get(path))
            ),
        }
        for bundle in page
    ]
    return {
        "semantics": semantics,
        "page": page,
        "rows": rows,
        "question": _question(package, facts, params),
    }


def _ordered(bundles: Sequence[Bundle], facts: ResolverPackage, semantics: str) -> Sequence[Bundle]:
    """Newest first: as OLM v1 prefers them, or by version and opm's release."""
    if semantics == V1:
        rank = {bundle.name: place for place, bundle in enumerate(v1.preference(facts.bundles))}
        return sorted(bundles, key=lambda bundle: rank[bundle.name])
    return sorted(
        bundles,
        key=lambda bundle: (bundle.version_key, identifiers_key(tuple(bundle.release.split(".")))),
        reverse=True,
    )


def _question(package: Package, facts: ResolverPackage, params: QueryDict) -> dict[str, Any]:
    """The form "Test resolution" and, with a method in the URL, its answer."""
    values = {
        "version": clean_text(params.get("range", "")),
        "channel": clean_text(params.get("in", "")),
        "installed": clean_text(params.get("installed", "")),
    }
    context: dict[str, Any] = {"paths": METHODS, **values, "errors": {}, "answer": None}
    try:
        method = InstallMethod.parse(params.get("path", ""))
    except ValueError:
        return context
    context["path"] = method
    try:
        answer = resolve(
            facts,
            method,
            channels=[values["channel"]] if values["channel"] else (),
            version=values["version"],
            installed=values["installed"],
        )
    except BadQuestion as error:
        context["errors"] = {error.field: str(error)}
        return context
    beyond = Counter(
        CODES[candidate.code] for candidate in answer.candidates[CANDIDATES:] if candidate.code
    )
    context["answer"] = answer
    context["url"] = presenters.bundle_url(package, answer.bundle) if answer.bundle else ""
    context["candidates"] = answer.candidates[:CANDIDATES]
    context["beyond"] = [(count, words) for words, count in beyond.most_common()]
    return context
