"""The verdict on one bundle and install method: the results of all rules, worst first."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.check_input import Answer, CheckContext, Unread
from catalogs.verdicts.checks import CHECKS
from catalogs.verdicts.facts import NO_CLUSTER, CatalogOffers, ClusterFacts, Target
from catalogs.verdicts.health_checks import SITE_CHECKS, Site
from catalogs.verdicts.rules import Rule, Scope, Verdict, rules_of

_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule says. `facts` are texts by name, as its sentence uses them."""

    rule: str
    title: str
    verdict: Verdict
    sentence: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prediction:
    """`found` is worst first; `verdict` is installable when nothing but warnings was found."""

    path: InstallMethod
    verdict: Verdict
    found: tuple[RuleResult, ...] = ()

    @property
    def deciding(self) -> RuleResult | None:
        """The rule that makes it not installable or unknown."""
        first = self.found[0] if self.found else None
        return first if first and first.verdict != Verdict.WARNING else None


def predict(
    contents: Contents,
    path: InstallMethod,
    *,
    cluster: ClusterFacts = NO_CLUSTER,
    market: CatalogOffers | None = None,
    target: Target = Target.ALL,
) -> Prediction:
    """What would come of installing the bundle on `path`.

    Without a `cluster` from catalog facts alone; without a `market` nothing is said of
    dependencies. `target` is what the OperatorGroup of a Subscription selects.
    """
    context = CheckContext(contents, cluster, market, target)
    answers = ((rule, CHECKS[rule.id](context)) for rule in rules_of(path))
    found = [
        result for rule, answer in answers if (result := result_of(rule, answer, cluster.name))
    ]
    found.sort(key=lambda each: _ORDER.index(each.verdict))
    worst = found[0].verdict if found else Verdict.INSTALLABLE
    verdict = Verdict.INSTALLABLE if worst == Verdict.WARNING else worst
    return Prediction(path, verdict, tuple(found))


def on_site(path: InstallMethod, scope: Scope, site: Site) -> list[RuleResult]:
    """What the rules of this scope say of a place, whatever the bundle; in their order."""
    answers = ((rule, SITE_CHECKS[rule.id](site)) for rule in rules_of(path, scope))
    return [result for rule, answer in answers if (result := result_of(rule, answer))]


def result_of(rule: Rule, answer: Answer, cluster: str = "") -> RuleResult | None:
    """None for a rule that passes, or says nothing without the facts that it needs. `cluster` is
    the name of the cluster: a fact of it that was not read leaves the verdict unknown."""
    if answer is None:
        return None
    unknown = ""
    if answer is Unread.FACT:
        unknown = rule.unknown
    elif isinstance(answer, Unread) and cluster and rule.verdict != Verdict.WARNING:
        unknown = (
            f"It is not known whether this rule holds, because {answer} were not read: "
            f"`manage.py sync_cluster {cluster}` reads them, if its account may."
        )
    if unknown:
        return RuleResult(rule.id, rule.title, Verdict.UNKNOWN, unknown, {})
    if not isinstance(answer, Mapping):
        return None
    return RuleResult(rule.id, rule.title, rule.verdict, rule.says.format_map(answer), answer)
