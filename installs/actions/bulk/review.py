"""The plans of a bulk install, tried by the cluster as the person who asks, and sealed.

The seal says which plans a person was shown: any of them may be confirmed, and no other.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.core import signing

from installs.actions import record
from installs.actions.bulk.selection import CAP, Candidate
from installs.actions.plan import Plan
from olmweb.accounts.roles import AnyUser
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

SECONDS = 25.0  # for all dry runs together: a person waits
SHARED = ("namespace", "targets", "approval", "policy", "service_account")
_SALT = "installs.actions.bulk.review"


@dataclass(frozen=True, slots=True)
class Item:
    """One package of a review. Without `problem` the cluster would take `plan`."""

    candidate: Candidate
    plan: Plan | None = None
    dry_run_result: record.DryRun | None = None
    problem: str = ""
    hint: str = ""


def require_few(count: int) -> None:
    """Raises BadRequest for more than one batch may have, or for nothing."""
    if not count:
        raise BadRequest("Select at least one package.", code="none-selected")
    if count > CAP:
        raise BadRequest(
            f"These are {count} packages, and at most {CAP} can be installed at once.",
            code="too-many",
            hint=f"Leave {count - CAP} of them for the next bulk install.",
        )


def plan(
    chosen: Sequence[Candidate],
    cluster: Cluster,
    path: str,
    values: Mapping[str, str],
    user: AnyUser,
) -> list[Item]:
    """A plan for each, or the reason why there is none.

    Raises OlmwebError: 403 for who may not act, 400 when there are none or too many, or with
    `fields` when a value that is asked once for all is wrong.
    """
    require_few(len(chosen))
    shared = {name: values.get(name, "") for name in SHARED}
    items = []
    for candidate in chosen:
        if candidate.package is None or candidate.hindrance:
            items.append(Item(candidate, problem=candidate.hindrance))
            continue
        try:
            made = record.plan_install(cluster, candidate.package, "", user, path, shared)
        except OlmwebError as error:
            if error.status == 403 or error.code == "not-served" or _is_shared(error, values):
                raise
            items.append(Item(candidate, problem=error.message, hint=error.hint))
            continue
        items.append(Item(candidate, made))
    return items


def _is_shared(error: OlmwebError, values: Mapping[str, str]) -> bool:
    """Whether the fault is in what was asked once for all, and not in a package's own default."""
    missing = {"service_account"}  # has no default that could be a package's own
    return any(name in missing or values.get(name) for name in error.fields if name in SHARED)


def dry_run(items: Sequence[Item], user: AnyUser, seconds: float = SECONDS) -> list[Item]:
    """Lets the cluster try each, for so long in all; what it does not answer is not asked twice."""
    until = time.monotonic() + seconds
    results: list[Item] = []
    silent = ""
    for item in items:
        if item.plan is None:
            results.append(item)
            continue
        if not silent and time.monotonic() > until:
            silent = f"The cluster took more than {seconds:.0f} s for those before it: not tried."
        if silent:
            results.append(replace(item, problem=silent, hint="Select fewer, or review again."))
            continue
        result = record.dry_run(item.plan, user)
        if result.code == "unreachable":
            silent = result.message
        results.append(
            replace(item, dry_run_result=result, problem=_told(result), hint=result.hint)
        )
    return results


def _told(result: record.DryRun) -> str:
    if result.ok:
        return ""
    fields = [
        f"{name}: {text}" for name, text in result.fields.items() if text not in result.message
    ]
    return " ".join([result.message, *fields])


def accepted(items: Sequence[Item]) -> list[Item]:
    """Those that the cluster would take."""
    return [item for item in items if item.plan is not None and not item.problem]


def seal(items: Sequence[Item], user: AnyUser) -> str:
    """A token of the plans that the cluster would take and that the person is shown."""
    digests = [record.digest(item.plan, user) for item in accepted(items) if item.plan]
    return signing.dumps(digests, salt=_SALT, compress=True)


def require_sealed(token: str, items: Sequence[Item], user: AnyUser) -> None:
    """Raises OlmwebError (403) unless this person was shown each of these plans."""
    try:
        digests = set(signing.loads(token, salt=_SALT, max_age=record.REVIEW_SECONDS))
    except signing.BadSignature:
        digests = set()
    if all(item.plan is None or record.digest(item.plan, user) in digests for item in items):
        return
    raise OlmwebError(
        "This is not what was reviewed, so nothing was asked for.",
        code="not-reviewed",
        status=403,
        hint="Open the form again, review it, and confirm what it shows.",
    )
