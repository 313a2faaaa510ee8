"""Install requests: a viewer requests a version of a package, a user who may decides.

Records and ends requests and applies the allow-list. An approved request becomes an Action of the
user who approved it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import structlog
from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.utils import timezone

from catalogs.models import Bundle, Catalog, Package
from installs.actions import authority, record
from installs.actions.events import record_request
from installs.actions.install_rows import InstallRows
from installs.actions.plan import Plan, plan_install, read_method
from installs.methods import METHODS
from installs.models import Action, AllowRule, InstallRequest
from installs.queries.lookup import get_request
from olmweb.accounts.roles import ASK, DECIDE, DECIDE_OWN, AnyUser, may, may_act, person
from olmweb.clusters import require_configured
from olmweb.errors import BadRequest, OlmwebError
from olmweb.eventlog.types import EventType
from olmweb.models import ApiToken, Cluster

log = structlog.get_logger(__name__)

REASON_LIMIT = 2000  # characters
WORD_LIMIT = 1000
NOT_ONES_OWN = "You can't decide your own request; another operator or an admin decides it."
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,300}")


# --- submitting ---------------------------------------------------------------------------------


def require_requester(user: AnyUser) -> User:
    """The user, who may submit requests. Raises OlmwebError (403) otherwise."""
    if isinstance(user, User) and may(user, ASK):
        return user
    raise OlmwebError(
        "Your account has no role. An administrator of OLM Web can grant one."
        if user.is_authenticated
        else "Sign in to request an installation.",
        code="not-allowed",
        status=403,
    )


def values_of(
    package: Package, method: str, version: str, namespace: str, service_account: str = ""
) -> dict[str, str]:
    """Form values of `plan_install` that install this version and no later one.

    Raises BadRequest for a version that the package does not have.
    """
    bundle = Bundle.objects.filter(package=package, version=version).order_by("ordinal").first()
    if bundle is None or not _VERSION.fullmatch(version):
        raise BadRequest(
            f"{package.name} has no version {version[:60]}.", code="invalid", version="Choose one."
        )
    rules = METHODS[read_method(method)]
    channels = package.channels.filter(entries__name=bundle.name).order_by("-is_default", "name")
    channel = channels.first()
    values = rules.values_for(version, bundle.name, channel.name if channel else "")
    if namespace and rules.needs_namespace:
        values["namespace"] = namespace
    if service_account and "service_account" in rules.fields.values():
        values["service_account"] = service_account
    return values


def plan_for(
    cluster: Cluster,
    package: Package,
    method: str,
    version: str,
    values: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
) -> Plan:
    """The current plan of a request. Raises OlmwebError if it would install another version."""
    rows = InstallRows(cluster, package, values.get("channel", ""), values.get("version", ""))
    plan = plan_install(cluster, package, "", method, values, rows, config)
    bundle = rows.bundle(plan.target)
    got = bundle.version if bundle else ""
    if got != version:
        instead = f"{got} would be installed" if got else "nothing would be installed"
        raise BadRequest(
            f"{package.name} {version} can't be installed as a {plan.kind}: {instead}.",
            code="other-version",
            version=f"This install method would not install {version}.",
            hint=METHODS[plan.kind].version_hint,
        )
    return plan


class Submitted(NamedTuple):
    """A request, and whether it is a new one."""

    request: InstallRequest
    created: bool


def submit(
    cluster: Cluster,
    package: Package,
    user: AnyUser,
    *,
    path: str,
    version: str,
    namespace: str = "",
    service_account: str = "",
    config: Mapping[str, Any] | None = None,
    reason: str,
) -> Submitted:
    """Records the request, or returns the user's equal request that waits, with its own reason.

    A rule without approval that pins all of it approves it at once, as the user who saved the rule;
    if the cluster or the permissions of that user are against it, the request waits, with the
    reason. Raises OlmwebError with `fields` for invalid values, and 409 for a removed cluster, or
    if the user's request for the same version waits with another `config`.
    """
    requester = require_requester(user)
    require_configured(cluster)
    reason = reason.strip()
    if not reason:
        raise BadRequest("Give a reason.", code="invalid", reason="Give a reason.")
    _require_length("reason", reason, REASON_LIMIT)
    values = values_of(package, path, version, namespace.strip(), service_account.strip())
    plan = plan_for(cluster, package, path, version, values, config)
    wanted = dict(plan.choice.config) if plan.choice else {}
    rules = matching_rules(cluster, path, package.name, version)
    try:
        with transaction.atomic():
            request, created = InstallRequest.objects.get_or_create(
                cluster=cluster,
                path=plan.kind,
                namespace=plan.namespace,
                name=plan.name,
                version=version,
                user=requester,
                state=InstallRequest.State.WAITING,
                defaults={
                    "catalog": package.catalog,
                    "catalog_name": package.catalog.name,
                    "package": package.name,
                    "bundle": plan.target,
                    "asked": values,
                    "config": wanted,
                    "reason": reason,
                },
            )
            if created:
                record_request(EventType.REQUEST_OPENED, request)
    except IntegrityError:
        raise OlmwebError(
            "The same request was just decided.", code="busy", status=409, hint="See Activity."
        ) from None
    if request.config != wanted:
        raise OlmwebError(
            f"Your request {request.pk} for the same version waits with another configuration.",
            code="busy",
            status=409,
            hint="Withdraw it, then request the installation again.",
        )
    if created:
        log.info("install requested", request=request.pk, package=package.name, version=version)
        approve_by_rules(request, plan, package.catalog, rules)
    return Submitted(request, created)


def withdraw(pk: int, user: AnyUser) -> InstallRequest:
    """Withdraws the user's own request. Raises OlmwebError: 403 for others, 409 when decided."""
    requester = require_requester(user)
    request = get_request(pk)
    if request.user_id != requester.pk:
        raise OlmwebError(
            "Only the requester may withdraw a request.", code="not-allowed", status=403
        )
    with transaction.atomic():
        _end(request, InstallRequest.State.WITHDRAWN, requester)
        record_request(EventType.REQUEST_WITHDRAWN, request)
    return request


def matching_rules(cluster: Cluster, path: str, package: str, version: str) -> list[AllowRule]:
    """The rules of the allow-list that permit this request, those without approval first.

    An allow-list without rules permits everything. Raises OlmwebError (403) if it has rules and
    none matches.
    """
    rules = _allow_list()
    matching = [rule for rule in rules if rule.permits(cluster, path, package, version)]
    if rules and not matching:
        raise OlmwebError(
            f"{package} {version} is not on the allow-list, so it can't be requested.",
            code="not-allowed",
            status=403,
            hint="Choose another version or install method, or ask an administrator of OLM Web to "
            "add it.",
        )
    return matching


def permits_any(
    cluster: Cluster, paths: Sequence[str], package: str, versions: Sequence[str]
) -> bool:
    """Whether the allow-list permits any of the versions by any of the install methods."""
    rules = _allow_list()
    return not rules or any(
        rule.permits(cluster, path, package, version)
        for rule in rules
        for path in paths
        for version in versions
    )


def _allow_list() -> list[AllowRule]:
    rules = AllowRule.objects.select_related("saved_by__oidc_identity")
    return list(rules.order_by("-without_approval", "id"))


# --- deciding -----------------------------------------------------------------------------------


def may_decide(user: AnyUser, request: InstallRequest) -> tuple[bool, str]:
    """Whether this user may approve or decline the request, and if not, why."""
    if not may(user, DECIDE):
        return False, "Your role may not decide requests; operators and admins do."
    if request.user_id == user.pk and not may(user, DECIDE_OWN):
        return False, NOT_ONES_OWN
    return may_act(user)


def waiting_for(user: AnyUser, clusters: Sequence[Cluster]) -> list[InstallRequest]:
    """The open requests for these clusters that this user may decide, oldest first; one query, and
    none for visitors. Permissions are read only when there is an open request."""
    if not user.is_authenticated:
        return []
    rows = InstallRequest.objects.select_related("cluster", "user").filter(
        cluster__in=[cluster.pk for cluster in clusters], state=InstallRequest.State.WAITING
    )
    return [row for row in rows.order_by("created_at", "pk") if may_decide(user, row)[0]]


def require_decider(user: AnyUser, request: InstallRequest) -> User:
    """The user, who may decide the request. Raises OlmwebError (403) otherwise."""
    allowed, why = may_decide(user, request)
    if not allowed:
        raise OlmwebError(why, code="not-allowed", status=403)
    return person(user)


def package_of(request: InstallRequest) -> Package:
    """The current package of the request. Raises OlmwebError (409) if the catalog lacks it."""
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


def plan_of(request: InstallRequest, package: Package) -> Plan:
    """The plan that an approval would carry out now. Raises OlmwebError as `plan_for`."""
    cluster, version = request.cluster, request.version
    return plan_for(cluster, package, request.path, version, request.asked, request.config)


def review_token(request: InstallRequest, plan: Plan, user: AnyUser) -> str:
    """A token that this user was shown this plan of this request, for `approve`."""
    return record.reviewed([plan], user, _purpose(request))


def _purpose(request: InstallRequest) -> str:
    return f"request-{request.pk}"


def approve(
    request: InstallRequest,
    plan: Plan,
    user: AnyUser,
    *,
    review_token: str,
    word: str = "",
    token: ApiToken | None = None,
) -> Action:
    """Records the approver's Action for the reviewed plan, after a dry run. `token` is the API
    token that it was approved with, whose end ends the right to send it.

    Raises OlmwebError: 403 for users who may not decide or did not review this plan, 409 when the
    request is decided or the object busy, 422 when the cluster would refuse; the request then
    waits as before.
    """
    decider = require_decider(user, request)
    record.require_reviewed(review_token, [plan], decider, _purpose(request))
    _require_waiting(request)
    return _carry_out(request, plan, decider, word=_checked(word), token=token)


def decline(request: InstallRequest, user: AnyUser, *, word: str) -> None:
    """Declines the request with a reason. Raises OlmwebError as `approve`, 400 without a reason."""
    decider = require_decider(user, request)
    word = _checked(word)
    if not word:
        raise BadRequest(
            "Give a reason for declining.", code="invalid", word="Give a reason for declining."
        )
    with transaction.atomic():
        _end(request, InstallRequest.State.DECLINED, decider, word=word)
        record_request(EventType.REQUEST_DECIDED, request)


def approve_by_rules(
    request: InstallRequest, plan: Plan, catalog: Catalog, rules: Sequence[AllowRule]
) -> None:
    """Approves the request by the first rule without approval that pins all of it, as the user who
    saved that rule; otherwise notes the reason on the request, which waits for a person."""
    reason = ""
    for rule in rules:
        if not rule.without_approval:
            continue
        try:
            _approve_by_rule(request, plan, catalog, rule)
        except OlmwebError as error:
            reason = reason or f"The rule for {rule} could not approve it: {error.message}"
            log.info("rule did not let a request through", request=request.pk, reason=error.message)
        else:
            return
    if reason:
        waiting = InstallRequest.objects.filter(pk=request.pk, state=InstallRequest.State.WAITING)
        waiting.update(word=reason)
        request.refresh_from_db()


def _approve_by_rule(
    request: InstallRequest, plan: Plan, catalog: Catalog, rule: AllowRule
) -> None:
    """Raises OlmwebError with the reason why the rule can't approve the request."""
    reason = authority.rule_problem(rule)
    reason = reason or authority.unpinned(rule, plan, catalog, request.version)
    if reason:
        raise OlmwebError(reason, code="not-pinned", status=409)
    owner = person(rule.saved_by or AnonymousUser())
    if request.user_id == owner.pk and not may(owner, DECIDE_OWN):
        raise OlmwebError(NOT_ONES_OWN, code="not-allowed", status=403)
    _carry_out(request, plan, owner, word="", rule=rule)


def _end(
    request: InstallRequest, state: InstallRequest.State, decider: User, **values: Any
) -> None:
    """Ends a waiting request, once. Raises OlmwebError (409) if it was decided in the meantime."""
    values |= {"state": state, "decided_by": decider, "decided_at": timezone.now()}
    waiting = InstallRequest.objects.filter(pk=request.pk, state=InstallRequest.State.WAITING)
    if not waiting.update(**values):
        request.refresh_from_db()
        _require_waiting(request)
    for name, value in values.items():
        setattr(request, name, value)
    log.info("request decided", request=request.pk, state=request.state)


def _carry_out(
    request: InstallRequest,
    plan: Plan,
    decider: User,
    *,
    word: str,
    rule: AllowRule | None = None,
    token: ApiToken | None = None,
) -> Action:
    dry_run_result = record.dry_run(plan, decider)
    if not dry_run_result.ok:
        raise dry_run_result.as_error(422)
    with transaction.atomic():
        if rule is not None:
            _require_unchanged(rule)
        # Ended first: the second of two approvers stops here, before there is an action.
        _end(request, InstallRequest.State.APPROVED, decider, word=word, rule=rule)
        request.action = record.request(
            plan, decider, dry_run_result=dry_run_result, rule=rule, token=token
        )
        request.save(update_fields=["action"])
        record_request(EventType.REQUEST_DECIDED, request)
    return request.action


def _require_unchanged(rule: AllowRule) -> None:
    """Locks the rule until the end of the transaction. Raises OlmwebError (409) if it was changed
    since it was read, such as during the dry run."""
    rows = AllowRule.objects.select_for_update().filter(pk=rule.pk)
    if rows.values_list("saved_at", flat=True).first() != rule.saved_at:
        raise OlmwebError("The rule was changed meanwhile.", code="changed", status=409)


def _require_waiting(request: InstallRequest) -> None:
    if request.state == InstallRequest.State.WAITING:
        return
    decider = request.decided_by.get_username() if request.decided_by else "somebody"
    raise OlmwebError(
        f"{decider} has {request.state} this request already.",
        code="decided",
        status=409,
        hint="Reload the request to see its state.",
    )


def _checked(word: str) -> str:
    word = word.strip()
    _require_length("word", word, WORD_LIMIT)
    return word


def _require_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        sentence = f"Use at most {limit} characters."
        raise BadRequest(
            f"The {field} is too long. {sentence}", code="invalid", **{field: sentence}
        )
