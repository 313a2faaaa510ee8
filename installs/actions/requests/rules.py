"""The allow-list: what may be asked for, and what goes through without approval. Asks nobody."""

from fnmatch import fnmatchcase

from django.db.models import Q

from catalogs.semver import masterminds_range, parse
from installs.models import AllowRule
from olmweb.errors import OlmwebError
from olmweb.models import Cluster


def matches(rule: AllowRule, package: str, version: str) -> bool:
    """Whether the rule is about this package and version; a version that is none matches none."""
    if not fnmatchcase(package, rule.package.replace("[", "[[]")):
        return False
    if not rule.versions:
        return True
    try:
        return masterminds_range(rule.versions)(parse(version))
    except ValueError:
        return False


def allowed(cluster: Cluster, path: str, package: str, version: str) -> list[AllowRule]:
    """The rules that let this be asked for, those without approval first.

    None are needed while there is no rule at all. Raises OlmwebError (403) when there are rules
    and none of them matches.
    """
    rules = list(
        AllowRule.objects.filter(Q(cluster=None) | Q(cluster=cluster), path__in=("", path))
        .select_related("saved_by")
        .order_by("-without_approval", "id")
    )
    found = [rule for rule in rules if matches(rule, package, version)]
    if not found and AllowRule.objects.exists():
        raise OlmwebError(
            f"{package} {version} is not on the allow-list, so it can't be asked for.",
            code="not-allowed",
            status=403,
            hint="Choose another version, or ask an administrator of OLM Web to add it.",
        )
    return found
