"""What helps with the steps of a remedy: forms that install another way, searches that find."""

from installs.actions.alternatives import installs_instead
from installs.diagnosis import Finding
from installs.models import Operator
from installs.presenters.chain import Aid
from installs.queries.providers import missing_api, provider_searches
from olmweb.accounts.roles import AnyUser


def aids_of(user: AnyUser, operator: Operator, finding: Finding | None) -> list[Aid]:
    """Links that lead to no refusal and to no empty list."""
    if finding is None:
        return []
    forms = installs_instead(user, operator, finding.instead)
    aids = [Aid(one.path, f"Install as {one.path}", one.url) for one in forms]
    if api := missing_api(finding):
        found = provider_searches(operator.cluster, [api]).get(api)
        none = f"No catalog of {operator.cluster.name} offers one."
        aids.append(
            Aid("provides", f"Find {found.words}", found.url) if found else Aid("provides", none)
        )
    return aids
