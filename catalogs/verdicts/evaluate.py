"""The verdict on one bundle and install method: the results of all rules, worst first."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.check_input import Answer, CheckContext, Unread
from catalogs.verdicts.checks import CHECKS
from catalogs.verdicts.facts import NO_CLUSTER, ClusterOffers, ClusterFacts, WatchTarget
from catalogs.verdicts.health_checks import HEALTH_CHECKS, HealthContext
from catalogs.verdicts.rules import Rule, Scope, Verdict, rules_of

_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule. `facts` are the values of its sentence by name."""

    rule: str
    title: str
    verdict: Verdict
    sentence: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BundleEvaluation:
    """`results` are worst first; `verdict` is installable if there are only warnings."""

    path: InstallMethod
    verdict: Verdict
    results: tuple[RuleResult, ...] = ()

    @property
    def deciding(self) -> RuleResult | None:
        """The rule that makes it not installable or unknown."""
        first = self.results[0] if self.results else None
        return first if first and first.verdict != Verdict.WARNING else None


def predict(
    contents: Contents,
    path: InstallMethod,
    *,
    cluster: ClusterFacts = NO_CLUSTER,
    market: ClusterOffers | None = None,
    target: WatchTarget = WatchTarget.ALL,
) -> BundleEvaluation:
    """Evaluates all rules for installing the bundle with `path`.

    Without `cluster`, uses catalog facts alone; without `market`, ignores dependencies. `target`
    is the selection of a Subscription's OperatorGroup.
    """
    context = CheckContext(contents, cluster, market, target)
    answers = ((rule, CHECKS[rule.id](context)) for rule in rules_of(path))
    results = [
        result for rule, answer in answers if (result := result_of(rule, answer, cluster.name))
    ]
    results.sort(key=lambda result: _ORDER.index(result.verdict))
    worst = results[0].verdict if results else Verdict.INSTALLABLE
    verdict = Verdict.INSTALLABLE if worst == Verdict.WARNING else worst
    return BundleEvaluation(path, verdict, tuple(results))


def check_health(path: InstallMethod, scope: Scope, context: HealthContext) -> list[RuleResult]:
    """The results of the rules of this scope on a catalog or namespace, in their order."""
    answers = ((rule, HEALTH_CHECKS[rule.id](context)) for rule in rules_of(path, scope))
    return [result for rule, answer in answers if (result := result_of(rule, answer))]


def result_of(rule: Rule, answer: Answer, cluster: str = "") -> RuleResult | None:
    """None for a rule that passes, or has no result for a missing fact. `cluster` is the name of
    the cluster; a fact of it that was not read makes the verdict unknown."""
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
