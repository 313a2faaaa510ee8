"""Approving and declining: once, by who may, and never what was not seen."""

from typing import Any

import structlog
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from catalogs.models import Package
from installs.actions import record
from installs.actions.plan import Plan
from installs.models import Action, AllowRule, InstallRequest
from olmweb.accounts.roles import DECIDE, DECIDE_OWN, AnyUser, may, may_act, person
from olmweb.errors import BadRequest, Missing, OlmwebError

log = structlog.get_logger(__name__)

WORD_LIMIT = 1000  # characters
_DONE = {
    InstallRequest.State.APPROVED: "approved",
    InstallRequest.State.DECLINED: "declined",
    InstallRequest.State.WITHDRAWN: "withdrawn",
}


def find(pk: int) -> InstallRequest:
    """The request with everybody it names. Raises Missing."""
    rows = InstallRequest.objects.select_related(
        "cluster", "catalog", "catalog__cluster", "user", "decided_by", "rule", "action"
    )
    request = rows.filter(pk=pk).first() if pk < 2**63 else None
    if request is None:
        raise Missing(
            f"There is no request {pk}.",
            code="unknown-request",
            hint="Old requests are deleted after the retention time; Activity lists the rest.",
        )
    return request


def may_decide(user: AnyUser, request: InstallRequest) -> tuple[bool, str]:
    """Whether this person may approve or decline it, and if not, why."""
    if not may(user, DECIDE):
        return False, "Your role may not decide requests; operators and admins do."
    if request.user_id == user.pk and not may(user, DECIDE_OWN):
        return False, "Nobody decides their own request; another operator or an admin does."
    return may_act(user)


def require_decider(user: AnyUser, request: InstallRequest) -> User:
    """The person who may decide it. Raises OlmwebError (403) otherwise."""
    allowed, why = may_decide(user, request)
    if not allowed:
        raise OlmwebError(why, code="not-allowed", status=403)
    return person(user)


def package_of(request: InstallRequest) -> Package:
    """The package as the catalog has it now. Raises OlmwebError (409) when it has not."""
    package = (
        Package.objects.select_related("catalog", "catalog__cluster")
        .filter(catalog=request.catalog_id, name=request.package)
        .first()
    )
    if package is None:
        raise OlmwebError(
            f"The catalog {request.catalog_name} no longer has {request.package}.",
            code="gone",
            status=409,
            hint="Decline the request.",
        )
    return package


def approve(
    request: InstallRequest, plan: Plan, user: AnyUser, *, review_token: str, word: str = ""
) -> Action:
    """Records the Action of the approver for exactly the plan they saw (`actions.reviewed`).

    The cluster tries it first. Raises OlmwebError: 403 for who may not or did not see this plan,
    409 when somebody decided first or the object is busy, 422 when the cluster would refuse; the
    request then waits as before.
    """
    decider = require_decider(user, request)
    record.require_reviewed(review_token, plan, decider)
    _require_waiting(request)
    return _carry_out(request, plan, decider, word=_checked(word))


def decline(request: InstallRequest, user: AnyUser, *, word: str) -> None:
    """Ends it with a word to who asked. Raises OlmwebError as `approve`, 400 without a word."""
    decider = require_decider(user, request)
    word = _checked(word)
    if not word:
        raise BadRequest("Say why you decline it.", code="invalid", word="Say why you decline it.")
    end(
        request,
        state=InstallRequest.State.DECLINED,
        decided_by=decider,
        decided_at=timezone.now(),
        word=word,
    )


def let_through(request: InstallRequest, plan: Plan, rule: AllowRule) -> None:
    """Approves it by the rule, as who saved the rule; else notes on the request why not."""
    owner = rule.saved_by
    try:
        if owner is None:
            raise OlmwebError("nobody saved that rule", code="no-owner", status=409)
        _carry_out(request, plan, person(owner), word="", rule=rule)
    except OlmwebError as error:
        log.info("rule did not let a request through", request=request.pk, reason=error.message)
        note = f"The rule for {rule} could not let it through: {error.message}"
        waiting = InstallRequest.objects.filter(pk=request.pk, state=InstallRequest.State.WAITING)
        waiting.update(word=note)


def end(request: InstallRequest, **values: Any) -> None:
    """Ends a waiting request, once. Raises OlmwebError (409) when it was decided meanwhile."""
    waiting = InstallRequest.objects.filter(pk=request.pk, state=InstallRequest.State.WAITING)
    if not waiting.update(**values):
        request.refresh_from_db()
        _require_waiting(request)
    for name, value in values.items():
        setattr(request, name, value)
    log.info("request decided", request=request.pk, state=request.state)


def _carry_out(
    request: InstallRequest, plan: Plan, decider: User, *, word: str, rule: AllowRule | None = None
) -> Action:
    dry_run_result = record.dry_run(plan, decider)
    if not dry_run_result.ok:
        raise OlmwebError(
            dry_run_result.message,
            code=dry_run_result.code,
            status=422,
            hint=dry_run_result.hint,
            fields=dry_run_result.fields,
        )
    with transaction.atomic():
        # First who decides: of two approvers the second stops here, before there is an action.
        end(
            request,
            state=InstallRequest.State.APPROVED,
            decided_by=decider,
            decided_at=timezone.now(),
            word=word,
            rule=rule,
        )
        action = record.request(
            plan, decider, dry_run_result=dry_run_result, idempotency_key=f"request-{request.pk}"
        )
        InstallRequest.objects.filter(pk=request.pk).update(action=action)
    request.action = action
    return action


def _require_waiting(request: InstallRequest) -> None:
    if request.state == InstallRequest.State.WAITING:
        return
    decider = request.decided_by.get_username() if request.decided_by else "somebody"
    raise OlmwebError(
        f"{decider} has {_DONE[InstallRequest.State(request.state)]} this request already.",
        code="decided",
        status=409,
        hint="Open it again to see how it ended.",
    )


def _checked(word: str) -> str:
    word = word.strip()
    if len(word) > WORD_LIMIT:
        limit = f"Use at most {WORD_LIMIT} characters."
        raise BadRequest(f"The word is too long. {limit}", code="invalid", word=limit)
    return word
