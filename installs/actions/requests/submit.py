"""Asking for a package in a version: recorded before anything else happens."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

import structlog
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from catalogs.models import Bundle, Package
from catalogs.semver import masterminds_range, parse
from installs.actions import plan as planning
from installs.actions.plan import Plan, read_method
from installs.actions.requests import decide
from installs.methods import METHODS
from installs.models import AllowRule, InstallRequest
from olmweb.accounts.roles import ASK, AnyUser, may
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

log = structlog.get_logger(__name__)

REASON_LIMIT = 2000  # characters
_EXACT = re.compile(r"[0-9A-Za-z.+-]{1,300}")


def may_ask(user: AnyUser) -> tuple[bool, str]:
    """Whether this person may ask, and if not, why."""
    if not user.is_authenticated:
        return False, "Sign in to ask for something."
    if not may(user, ASK):
        return False, "Your account has no role; ask an administrator of OLM Web for one."
    return True, ""


def require_asker(user: AnyUser) -> User:
    """The person who may ask. Raises OlmwebError (403) otherwise."""
    allowed, why = may_ask(user)
    if not allowed or not isinstance(user, User):
        raise OlmwebError(why, code="not-allowed", status=403)
    return user


def values_of(
    package: Package, method: str, version: str, namespace: str, service_account: str = ""
) -> dict[str, str]:
    """Form values of `planning.plan_install` that install this version and no later one.

    Raises BadRequest for a version that the package does not have.
    """
    bundle = Bundle.objects.filter(package=package, version=version).order_by("ordinal").first()
    if bundle is None or not _EXACT.fullmatch(version):
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
    cluster: Cluster, package: Package, method: str, version: str, values: Mapping[str, str]
) -> Plan:
    """What would be sent for it now. Raises OlmwebError where that would be another version."""
    plan = planning.plan_install(cluster, package, "", method, values)
    bundle = Bundle.objects.filter(package=package, name=plan.target).first()
    got = bundle.version if bundle else ""
    if got != version:
        instead = f"{got} would be installed" if got else "nothing would be installed"
        raise BadRequest(
            f"{package.name} {version} can't be had as a {plan.kind}: {instead}.",
            code="other-version",
            version=f"This path would not give {version}.",
            hint=METHODS[plan.kind].version_hint,
        )
    return plan


def ask(
    cluster: Cluster,
    package: Package,
    user: AnyUser,
    *,
    path: str,
    version: str,
    namespace: str = "",
    service_account: str = "",
    reason: str,
) -> InstallRequest:
    """Records the request; asked twice while it waits, the same one is returned.

    A rule that needs no approval then lets it through at once, in the name of whoever saved the
    rule; where the cluster or that person's rights are against it, the request goes on waiting
    with the reason. Raises OlmwebError with `fields` for what can't be asked for.
    """
    asker = require_asker(user)
    reason = reason.strip()
    if not reason:
        raise BadRequest("Say why you need it.", code="invalid", reason="Say why you need it.")
    if len(reason) > REASON_LIMIT:
        limit = f"Use at most {REASON_LIMIT} characters."
        raise BadRequest(f"The reason is too long. {limit}", code="invalid", reason=limit)
    values = values_of(package, path, version, namespace.strip(), service_account.strip())
    plan = plan_for(cluster, package, path, version, values)
    matching_rules = allowed(cluster, path, package.name, version)
    request, created = _record(plan, package, asker, version, values, reason)
    letting = [rule for rule in matching_rules if rule.without_approval]
    if created and letting:
        decide.let_through(request, plan, letting[0])
        request.refresh_from_db()
    return request


def _record(
    plan: Plan, package: Package, asker: User, version: str, values: dict[str, str], reason: str
) -> tuple[InstallRequest, bool]:
    """The request and whether it is new."""
    identity = {
        "cluster": plan.cluster,
        "path": plan.kind,
        "namespace": plan.namespace,
        "name": plan.name,
        "version": version,
        "user": asker,
    }
    for _ in range(2):
        try:
            with transaction.atomic():
                made = InstallRequest.objects.create(
                    **identity,
                    catalog=package.catalog,
                    catalog_name=package.catalog.name,
                    package=package.name,
                    bundle=plan.target,
                    asked=values,
                    reason=reason,
                )
            log.info("install requested", request=made.pk, package=package.name, version=version)
            return made, True
        except IntegrityError:
            waiting = InstallRequest.objects.filter(
                **identity, state=InstallRequest.State.WAITING
            ).first()
            if waiting:
                return waiting, False
    raise OlmwebError(
        "The same request was just decided.", code="busy", status=409, hint="Look at Activity."
    )


def withdraw(pk: int, user: AnyUser) -> InstallRequest:
    """The asker takes it back. Raises OlmwebError: 403 for others, 409 when it is decided."""
    asker = require_asker(user)
    request = decide.find(pk)
    if request.user_id != asker.pk:
        raise OlmwebError("Only who asked may withdraw a request.", code="not-allowed", status=403)
    decide.end(
        request, state=InstallRequest.State.WITHDRAWN, decided_by=asker, decided_at=timezone.now()
    )
    return request


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
    matching = [rule for rule in rules if matches(rule, package, version)]
    if not matching and AllowRule.objects.exists():
        raise OlmwebError(
            f"{package} {version} is not on the allow-list, so it can't be asked for.",
            code="not-allowed",
            status=403,
            hint="Choose another version, or ask an administrator of OLM Web to add it.",
        )
    return matching
