"""Whose authority an action has: what an allow rule may approve, and the check before it is sent.

A rule without approval acts for the user who saved it, on behalf of somebody who may not: it
approves only what it pins, and only while its owner may save it. Between the request of an action
and its sending the user, the token or the rule behind it may have lost the right, so a worker
checks all of them again. The audit log gets the changes of rules, and when one ends with its owner.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.signals import post_save, pre_delete, pre_save
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.actions.claims import claimed
from installs.actions.install_rows import fields_of
from installs.actions.objects import full_name
from installs.actions.plan import Plan
from installs.diagnosis.approvals import listing
from installs.facts.cluster_facts import groups_in
from installs.methods import MANUAL, METHODS
from installs.methods.cluster_extension import CATALOG_LABEL
from installs.models import Action, AllowRule, CRDState, InstallRequest
from installs.models.requests import names_in
from installs.models.steps import Apply, deletion_entry, remakes
from installs.state.observation import details_of, read_unread_kinds
from olmweb.accounts import audit
from olmweb.accounts.roles import DECIDE, impersonation_for, may, may_act, sign_in_problem
from olmweb.errors import OlmwebError
from olmweb.kube.fields import dig
from olmweb.kube.resources import NAMESPACES, OPERATOR_GROUPS, SERVICE_ACCOUNTS
from olmweb.models import ApiToken, AuditEvent

Field = tuple[str, ...]  # the keys that lead to a value of a manifest
Pins = dict[Field, frozenset[str]]  # field -> the values that a rule allows

# The owner of a rule has at least one: a rule goes on approving whatever is requested later.
SAVE_RULES = ("installs.add_allowrule", "installs.change_allowrule")

_NAME, _NAMESPACE = ("metadata", "name"), ("metadata", "namespace")
_TARGETS = ("spec", "targetNamespaces")
_CATALOG = ("spec", "source", "catalog")
_SELECTOR = (*_CATALOG, "selector", "matchLabels", CATALOG_LABEL)
_ACCOUNT = ("spec", "serviceAccount", "name")


# --- rules without approval ---------------------------------------------------------------------


def owner_problem(rule: AllowRule) -> str:
    """Why a rule approves nothing because of the user who saved it; empty if that user may still
    act on clusters, decide requests and save rules."""
    owner = rule.saved_by
    if owner is None:
        return "Nobody owns this rule; an admin has to save it again."
    if not owner.is_active:
        return f"{owner}, who saved this rule, is disabled."
    if not may_act(owner)[0] or not may(owner, DECIDE):
        return f"{owner}, who saved this rule, may not approve installs any more."
    if not any(may(owner, permission) for permission in SAVE_RULES):
        return f"{owner}, who saved this rule, may not save rules any more."
    return sign_in_problem(owner)


def rule_problem(rule: AllowRule) -> str:
    """Why a rule without approval approves nothing at all; empty if it approves what it pins."""
    if rule.left_open:
        names = ", ".join(rule.left_open).replace("path", "install method")
        return f"The rule names no {names}."
    if rule.path == InstallMethod.PLATFORM_OPERATOR:
        return "A PlatformOperator names neither catalog nor version, so no rule can pin it."
    return owner_problem(rule)


def unpinned(rule: AllowRule, plan: Plan, catalog: Catalog, version: str) -> str:
    """What of an install of this version the rule does not pin, as a sentence; empty when it pins
    everything.

    Every field of every manifest has to be pinned, so that a field that is new here waits for a
    person until somebody decides about it.
    """
    if not rule.permits(plan.cluster, plan.kind, plan.package, version):
        return f"The rule is not about {plan.package} {version} as a {plan.kind} on this cluster."
    name = f"{catalog.namespace}/{catalog.name}" if catalog.namespace else catalog.name
    if catalog.cluster_id != plan.cluster.pk or name not in names_in(rule.catalogs):
        return f"The rule does not name the catalog {name}."
    pins, required = _pins(rule, plan, catalog, version)
    for step in plan.steps:
        if not isinstance(step, Apply):
            return f"The rule does not allow to delete {step.label}."
        if reason := _unpinned_field(step, pins.get(step.kind, {}), required.get(step.kind, ())):
            return reason
        if step.kind == InstallMethod.CLUSTER_EXTENSION and not _pins_account(rule, plan, step):
            return (
                "The ClusterExtension names no ServiceAccount, so OLM installs it with its own "
                "rights, which the rule does not pin."
            )
    return _group_problem(rule, plan) if METHODS[plan.kind].needs_group else ""


def _unpinned_field(step: Apply, allowed: Pins, required: tuple[Field, ...]) -> str:
    contents = {k: v for k, v in step.manifest.items() if k not in ("apiVersion", "kind")}
    fields = list(_fields(contents))
    present = {field for field, _text in fields}
    for field in required:
        if field not in present:
            return f"The {step.kind} leaves {'.'.join(field)} open, which the rule can't pin."
    for field, text in fields:
        if text not in allowed.get(field, ()):
            return f"The rule does not pin {'.'.join(field)} {text} of the {step.kind}."
    return ""


def _pins_account(rule: AllowRule, plan: Plan, step: Apply) -> bool:
    """Whether the rule pins whose rights install a ClusterExtension: it names a ServiceAccount, or
    on this cluster none can name any, and the rule has none either."""
    if dig(step.manifest, *_ACCOUNT):
        return True
    rows = CRDState.objects.filter(cluster=plan.cluster, name=full_name(step.kind))
    known = fields_of(rows.values_list("details__fields", flat=True).first(), step.version)
    is_served = known is None or ".".join(_ACCOUNT) in known  # not known counts as served
    return not is_served and not rule.service_accounts


def _group_problem(rule: AllowRule, plan: Plan) -> str:
    """What the rule does not pin of the OperatorGroups that are in the namespace already: OLM
    installs with the scope and the rights of that group, and a second one is never created."""
    if OPERATOR_GROUPS.kind in read_unread_kinds(plan.cluster.pk):
        return f"The OperatorGroups of {plan.cluster.name} can't be read, so no rule pins them."
    namespaces, accounts = names_in(rule.namespaces), names_in(rule.service_accounts)
    for group in groups_in(plan.cluster, plan.namespace):
        name = f"OperatorGroup {group.namespace}/{group.name}"
        details = details_of(group)
        # OLM writes the status after the specification: either may be what the operator watches.
        selected = {*(details.get("targets") or ()), *(details.get("namespaces") or ())}
        if details.get("selects"):
            return f"The {name} selects namespaces by their labels, which no rule pins."
        if not details.get("targets") or "" in selected:
            return f"The {name} selects every namespace, which no rule pins."
        if others := sorted(selected.difference(namespaces)):
            return f"The {name} selects {listing(others)}, which the rule does not pin."
        account = str(details.get("service_account") or "")
        if account and account not in accounts:
            return f"The rule does not pin the ServiceAccount {account} of the {name}."
    return ""


def _pins(
    rule: AllowRule, plan: Plan, catalog: Catalog, version: str
) -> tuple[dict[str, Pins], dict[str, tuple[Field, ...]]]:
    """Kind -> the values that the rule allows; kind -> the fields that must be there."""
    namespaces = frozenset(names_in(rule.namespaces))
    accounts = frozenset(names_in(rule.service_accounts))
    name = frozenset({METHODS[plan.kind].default_name(plan.package)})
    package = frozenset({plan.package})
    pins: dict[str, Pins] = {
        NAMESPACES.kind: {_NAME: namespaces},
        SERVICE_ACCOUNTS.kind: {_NAME: accounts, _NAMESPACE: namespaces},
        OPERATOR_GROUPS.kind: {
            _NAME: namespaces,
            _NAMESPACE: namespaces,
            _TARGETS: namespaces,
        },
        InstallMethod.CLUSTER_EXTENSION: {
            _NAME: name,
            ("spec", "namespace"): namespaces,
            _ACCOUNT: accounts,
            ("spec", "source", "sourceType"): frozenset({"Catalog"}),
            (*_CATALOG, "packageName"): package,
            (*_CATALOG, "version"): frozenset({version}),
            _SELECTOR: frozenset({catalog.name}),
        },
        InstallMethod.SUBSCRIPTION: {
            _NAME: name,
            _NAMESPACE: namespaces,
            ("spec", "name"): package,
            ("spec", "source"): frozenset({catalog.name}),
            ("spec", "sourceNamespace"): frozenset({catalog.namespace} - {""}),
            # The channel follows from the version, and none of its later versions comes by itself.
            ("spec", "channel"): frozenset({plan.channel}),
            ("spec", "startingCSV"): frozenset({plan.target}),
            ("spec", "installPlanApproval"): frozenset({MANUAL}),
        },
    }
    required: dict[str, tuple[Field, ...]] = {
        # Without targets an OperatorGroup selects every namespace.
        OPERATOR_GROUPS.kind: (_TARGETS,),
        InstallMethod.CLUSTER_EXTENSION: (
            *(("spec", "namespace"), (*_CATALOG, "packageName"), (*_CATALOG, "version")),
            _SELECTOR,
        ),
        InstallMethod.SUBSCRIPTION: tuple(
            ("spec", key)
            for key in ("name", "source", "sourceNamespace", "startingCSV", "installPlanApproval")
        ),
    }
    return pins, required


def _fields(value: Any, field: Field = ()) -> Iterator[tuple[Field, str]]:
    """Every value of a manifest with the keys that lead to it; the items of a list share theirs."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _fields(inner, (*field, str(key)))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _fields(inner, field)
    else:
        yield field, str(value)


# --- before an action is sent --------------------------------------------------------------------


def require_authority(action: Action) -> None:
    """Checks the user, the token and the rule behind an action, and takes the user's present
    groups for it. Called before each attempt to send it.

    Raises OlmwebError (403) with the reason why it must not be sent. A retry that has deleted its
    object is not checked any more: it has to make the object again.
    """
    # Neither `sent_at`, which is set before the first request, nor the deletion of other objects
    # counts: while the object itself exists, nothing is lost when the retry stops.
    if remakes(action.steps) and deletion_entry(action.main) in action.done:
        return
    user = action.user
    if user is None:
        raise _refused("The account that requested it was deleted.")
    if not user.is_active:
        raise _refused(f"The account of {user}, who requested it, is disabled.")
    if not may_act(user)[0]:
        raise _refused(f"{user}, who requested it, may not change clusters any more.")
    if reason := sign_in_problem(user) or _token_problem(action) or _rule_problem(action, user):
        raise _refused(reason)
    identity = impersonation_for(user)
    username = identity.user if identity else ""
    groups = list(identity.groups) if identity else []
    if (action.as_user, action.as_groups) != (username, groups):
        action.as_user, action.as_groups = username, groups
        claimed(action).update(as_user=username, as_groups=groups)


def _token_problem(action: Action) -> str:
    if action.by_token is None:
        return ""
    token = ApiToken.objects.filter(pk=action.by_token).first()
    if token is None:
        return "The API token that requested it was deleted."
    if token.ends_at <= timezone.now():
        return "The API token that requested it has expired."
    if token.scope != ApiToken.Scope.ACT:
        return "The API token that requested it may only read."
    return ""


def _rule_problem(action: Action, user: User) -> str:
    if action.by_rule is None:
        return ""
    rule = (
        AllowRule.objects.select_related("saved_by__oidc_identity")
        .filter(pk=action.by_rule)
        .first()
    )
    if rule is None:
        return "The allow rule that approved it was deleted."
    is_same = rule.saved_by_id == user.pk and rule.saved_at <= action.created_at
    if not rule.without_approval or not is_same:
        return "The allow rule that approved it was changed since."
    return rule_problem(rule) or _unpinned_now(rule, action)


def _unpinned_now(rule: AllowRule, action: Action) -> str:
    """What the rule, as it is now, does not pin of the action. The time at which a rule was saved
    does not tell: it is taken before the rule is written, and clocks differ. OperatorGroups change
    as well."""
    version = InstallRequest.objects.filter(action=action).values_list("version", flat=True).first()
    if version is None or action.chosen_catalog is None:
        return "The request that the allow rule approved, or its catalog, was deleted."
    plan = Plan(
        cluster=action.cluster,
        verb=action.verb,
        kind=action.path,
        namespace=action.namespace,
        name=action.name,
        steps=action.steps,
        package=action.package,
        channel=action.channel,
        target=action.target,
    )
    return unpinned(rule, plan, action.chosen_catalog, version)


def _refused(reason: str) -> OlmwebError:
    return OlmwebError(
        reason,
        code="not-allowed",
        status=403,
        hint="Somebody with the role operator can request it again.",
    )


# --- the audit log of the rules ------------------------------------------------------------------

_AUDITED = (
    *("package", "versions", "path", "cluster_id", "without_approval"),
    *("catalogs", "namespaces", "service_accounts", "saved_by_id"),
)
_STATES = (
    *(audit.Event.RULE_CREATED, audit.Event.RULE_CHANGED),
    *(audit.Event.RULE_ENDED, audit.Event.RULE_RESUMED),
)


def _before_rule(instance: AllowRule, update_fields: Any, raw: bool, **_: Any) -> None:
    if not raw:
        audit.before_save(instance, _AUDITED, update_fields)


def _rule_saved(instance: AllowRule, created: bool, raw: bool, **_: Any) -> None:
    changed = {} if created or raw else audit.changes(instance)
    if created and not raw:
        _record(audit.Event.RULE_CREATED, instance, without_approval=instance.without_approval)
    elif changed:
        values = {name: f"{old or '-'} → {new or '-'}" for name, (old, new) in changed.items()}
        _record(audit.Event.RULE_CHANGED, instance, changed=values)


def _rule_deleted(instance: AllowRule, **_: Any) -> None:
    _record(audit.Event.RULE_DELETED, instance)


def _record(event: str, rule: AllowRule, **detail: Any) -> None:
    audit.record(event, rule.saved_by, rule=rule.pk, package=rule.package, **detail)


def _owner_changed(instance: AuditEvent, **_: Any) -> None:
    """When the transaction ends: it may take a role and give another."""
    if instance.event == audit.Event.ROLES_CHANGED and instance.user_id:
        transaction.on_commit(partial(_follow_owner, instance.user_id), robust=True)


def _follow_owner(user_id: int) -> None:
    for rule in _rules_of(user_id):
        problem = owner_problem(rule)
        if problem and not _has_ended(rule):
            _record(audit.Event.RULE_ENDED, rule, reason=problem)
        elif not problem and _has_ended(rule):
            _record(audit.Event.RULE_RESUMED, rule)


def _owner_deleted(instance: User, **_: Any) -> None:
    for rule in _rules_of(instance.pk):
        if not _has_ended(rule):
            _record(audit.Event.RULE_ENDED, rule, reason=f"The account {instance} was deleted.")


def _rules_of(user_id: int) -> list[AllowRule]:
    rules = AllowRule.objects.select_related("saved_by__oidc_identity")
    return list(rules.filter(saved_by=user_id, without_approval=True))


def _has_ended(rule: AllowRule) -> bool:
    events = AuditEvent.objects.filter(event__in=_STATES, detail__rule=rule.pk)
    last = events.values_list("event", flat=True).first()
    return last == audit.Event.RULE_ENDED


def connect_audit() -> None:
    """Connects the receivers that record changes of rules, and of the rights of their owners."""
    pre_save.connect(_before_rule, sender=AllowRule)
    post_save.connect(_rule_saved, sender=AllowRule)
    pre_delete.connect(_rule_deleted, sender=AllowRule)
    pre_delete.connect(_owner_deleted, sender=User)
    post_save.connect(_owner_changed, sender=AuditEvent)
