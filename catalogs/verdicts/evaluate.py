"""The verdict on one bundle and install method: the results of all rules, worst first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from catalogs.contents.bundle_facts import Contents
from catalogs.install_methods import InstallMethod
from catalogs.verdicts import bundle_checks, cluster_checks
from catalogs.verdicts.facts import (
    NO_CLUSTER,
    Answer,
    CheckContext,
    ClusterFacts,
    ClusterOffers,
    Unread,
    WatchTarget,
)
from catalogs.verdicts.health_checks import HEALTH_CHECKS, HealthContext
from catalogs.verdicts.rules import RuleResult, RuleScope, Verdict, VerdictRule, rules_of

_ORDER = tuple(Verdict)
# A check returns None (passes), the facts of its sentence (hits), or an Unread for a missing fact.
CHECKS: Mapping[str, Callable[[CheckContext], Answer]] = {
    "sub-prohibited": bundle_checks.prohibited,
    "sub-package-required": bundle_checks.required_packages,
    "sub-api-required": bundle_checks.required_apis,
    "sub-constraint": bundle_checks.constraints,
    "sub-api-twice": bundle_checks.provided_twice,
    "sub-mode-twice": bundle_checks.duplicate_modes,
    "sub-install-mode": bundle_checks.group_mode,
    "sub-kind-unserved": cluster_checks.unserved_kinds,
    "sub-stored-version": cluster_checks.stored_versions,
    "sub-min-kube": cluster_checks.min_kube,
    "sub-native-api": cluster_checks.native_apis,
    "sub-required-crd": cluster_checks.required_crds,
    "sub-webhook-name": bundle_checks.webhook_name_twice,
    "sub-crd-owned": cluster_checks.provided_elsewhere,
    "sub-api-service-owned": cluster_checks.api_provided_elsewhere,
    "sub-api-service-foreign": cluster_checks.foreign_api,
    "sub-conversion-mode": bundle_checks.conversion_mode,
    "sub-webhook-rule": bundle_checks.forbidden_webhook,
    "sub-orphan": cluster_checks.orphan,
    "sub-existing-objects": cluster_checks.existing_objects,
    "sub-api-several": bundle_checks.several_providers,
    "ce-ambiguous": bundle_checks.ambiguous,
    "ce-outranked": bundle_checks.outranked,
    "ce-dependency": bundle_checks.dependency,
    "ce-folder": bundle_checks.folders,
    "ce-install-mode": cluster_checks.watching,
    "ce-watch-namespace": cluster_checks.watch_namespace,
    "ce-api-service": bundle_checks.api_services,
    "ce-webhook": cluster_checks.gated_webhooks,
    "ce-webhook-provider": cluster_checks.webhook_provider,
    "ce-bundle-fault": bundle_checks.inconsistent,
    "ce-conversion-mode": bundle_checks.conversion_mode,
    "ce-webhook-rule": bundle_checks.forbidden_webhook,
    "ce-kind-unsupported": bundle_checks.unsupported_kind,
    "ce-kind-unserved": cluster_checks.unserved_kinds,
    "ce-object-unnamed": bundle_checks.unnamed_object,
    "ce-stored-version": cluster_checks.stored_versions,
    "ce-crd-owned": partial(cluster_checks.crd_of_another, kind=InstallMethod.CLUSTER_EXTENSION),
    "ce-object-owned": partial(
        cluster_checks.object_of_another, kind=InstallMethod.CLUSTER_EXTENSION
    ),
    "ce-min-kube": cluster_checks.min_kube,
    "ce-native-api": cluster_checks.native_apis,
    "po-folder": bundle_checks.folders,
    "po-install-mode": bundle_checks.all_namespaces,
    "po-api-service": bundle_checks.api_services,
    "po-webhook": bundle_checks.webhooks,
    "po-object-unnamed": bundle_checks.unnamed_object,
    "po-kind-unserved": cluster_checks.unserved_kinds,
    "po-namespace-exists": cluster_checks.namespace_exists,
    "po-crd-owned": partial(cluster_checks.crd_of_another, kind=InstallMethod.PLATFORM_OPERATOR),
    "po-role-exists": cluster_checks.role_exists,
    "po-object-owned": partial(
        cluster_checks.object_of_another, kind=InstallMethod.PLATFORM_OPERATOR
    ),
    "po-package-installed": cluster_checks.package_installed,
    "po-dependency-ignored": bundle_checks.needs,
    "po-min-kube": cluster_checks.min_kube,
    "po-native-api": cluster_checks.native_apis,
    "api-shared": bundle_checks.api_shared,
    "max-openshift": cluster_checks.max_openshift,
    "deprecated": bundle_checks.deprecated,
}


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
    """Evaluates all rules for installing the bundle with `path`, by catalog facts alone without
    `cluster`, ignoring dependencies without `market`. `target` is the selection of a Subscription's
    OperatorGroup."""
    context = CheckContext(contents, cluster, market, target)
    answers = ((rule, CHECKS[rule.id](context)) for rule in rules_of(path))
    results = [
        result for rule, answer in answers if (result := result_of(rule, answer, cluster.name))
    ]
    results.sort(key=lambda result: _ORDER.index(result.verdict))
    worst = results[0].verdict if results else Verdict.INSTALLABLE
    verdict = Verdict.INSTALLABLE if worst == Verdict.WARNING else worst
    return BundleEvaluation(path, verdict, tuple(results))


def check_health(path: InstallMethod, scope: RuleScope, context: HealthContext) -> list[RuleResult]:
    """The results of the rules of this scope on a catalog or namespace, in their order."""
    answers = ((rule, HEALTH_CHECKS[rule.id](context)) for rule in rules_of(path, scope))
    return [result for rule, answer in answers if (result := result_of(rule, answer))]


def result_of(rule: VerdictRule, answer: Answer, cluster: str = "") -> RuleResult | None:
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
        return RuleResult(rule.id, Verdict.UNKNOWN, unknown)
    if not isinstance(answer, Mapping):
        return None
    return RuleResult(rule.id, rule.verdict, rule.says.format_map(answer))
