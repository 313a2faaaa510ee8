"""The verdict on one bundle and path: every rule asked, the worst answer first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.engine.check import Answer, Asked, Known
from catalogs.verdicts.engine.checks import CHECKS
from catalogs.verdicts.engine.rules import Rule, Scope, Verdict, rules_of
from catalogs.verdicts.engine.sites import SITE_CHECKS, Site
from catalogs.verdicts.engine.surroundings import NO_CLUSTER, ClusterFacts, Market, Target

_ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Found:
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
    found: tuple[Found, ...] = ()

    @property
    def deciding(self) -> Found | None:
        """The rule that makes it not installable or unknown."""
        first = self.found[0] if self.found else None
        return first if first and first.verdict != Verdict.WARNING else None


def predict(
    contents: Contents,
    path: InstallMethod,
    *,
    cluster: ClusterFacts = NO_CLUSTER,
    market: Market | None = None,
    target: Target = Target.ALL,
) -> Prediction:
    """What would come of installing the bundle on `path`.

    Without a `cluster` from catalog facts alone; without a `market` nothing is said of
    dependencies. `target` is what the OperatorGroup of a Subscription selects.
    """
    asked = Asked(contents, cluster, market, target)
    found = _found((rule, CHECKS[rule.id](asked)) for rule in rules_of(path))
    found.sort(key=lambda each: _ORDER.index(each.verdict))
    worst = found[0].verdict if found else Verdict.INSTALLABLE
    verdict = Verdict.INSTALLABLE if worst == Verdict.WARNING else worst
    return Prediction(path, verdict, tuple(found))


def on_site(path: InstallMethod, scope: Scope, site: Site) -> list[Found]:
    """What the rules of this scope say of a place, whatever the bundle; in their order."""
    return _found((rule, SITE_CHECKS[rule.id](site)) for rule in rules_of(path, scope))


def _found(answers: Iterable[tuple[Rule, Answer]]) -> list[Found]:
    found = []
    for rule, answer in answers:
        if answer is None:
            continue
        if answer is Known.NOT:
            if rule.unknown:
                found.append(Found(rule.id, rule.title, Verdict.UNKNOWN, rule.unknown, {}))
            continue
        sentence = rule.says.format_map(answer)
        found.append(Found(rule.id, rule.title, rule.verdict, sentence, answer))
    return found
