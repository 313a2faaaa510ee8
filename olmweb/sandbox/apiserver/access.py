"""Authentication (token and impersonation) and authorization (a small RBAC table).

Must not know objects. The sandbox's own token is a member of system:masters; every other user is
impersonated, as OLM Web does for its users.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

from olmweb.sandbox.apiserver.errors import (
    StatusCause,
    bad_request,
    forbidden,
    forbidden_path,
    invalid,
)

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "update", "patch", "delete"})
_HEALTH = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API server sees it."""

    user: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`subjects` (users or groups) may do `verbs` on `plurals` of any API group."""

    name: str
    subjects: frozenset[str]
    verbs: frozenset[str]
    plurals: frozenset[str]  # empty: every resource and subresource


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


ADMIN = Identity("sandbox-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))

RULES = (
    AccessRule(
        "olmweb-view",
        frozenset({"olmweb-viewers", "olmweb-operators", "olmweb-admins", "admin"}),
        READ,
        frozenset(),
    ),
    AccessRule(
        "olmweb-operate",
        frozenset({"olmweb-operators", "olmweb-admins", "admin"}),
        WRITE,
        frozenset(
            {
                "platformoperators",
                "clusterextensions",
                "namespaces",
                "serviceaccounts",
                "operatorgroups",
                "subscriptions",
                "installplans",
                "clusterserviceversions",
                "bundledeployments",
                "bundles",
                "configmaps",
                "jobs",
            }
        ),
    ),
    # As cluster-admins have it: clean-up deletes definitions, which operators may not.
    AccessRule("olmweb-demo-admin", frozenset({"olmweb-admins", "admin"}), WRITE, frozenset()),
)
# Resources and kinds of the reviews that system:basic-user allows every authenticated user.
REVIEWS: Mapping[str, Mapping[str, str]] = {
    "authorization.k8s.io": {
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    },
    "authentication.k8s.io": {"selfsubjectreviews": "SelfSubjectReview"},
}
_EXTRA = "impersonate-extra-"


def identify(headers: Message, token: str, *, require_token: bool) -> Identity | None:
    """The identity of a request; None for a bearer token other than `token` (401).

    A request without Authorization is anonymous, or the token's owner unless `require_token`: the
    owner alone may impersonate. Raises ApiError 400 for impersonated groups without a user.
    """
    authorization = headers.get("Authorization", "")
    if not authorization and require_token:
        return ANONYMOUS
    if authorization and authorization != f"Bearer {token}":
        return None
    user, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    groups = tuple(headers.get_all("Impersonate-Group") or ())
    if user:
        extra = tuple(
            (name.lower().removeprefix(_EXTRA), value)
            for name, value in headers.items()
            if name.lower().startswith(_EXTRA)
        )
        return Identity(user, _all_groups(user, groups), uid, extra)
    if groups or uid:
        listed = ", ".join(f'"{group}"' for group in groups)
        text = f"[]string{{{listed}}}" if groups else "[]string(nil)"
        raise bad_request(
            f'requested &user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{text}, '
            "Extra:map[string][]string(nil)} without impersonating a user name"
        )
    return ADMIN


def _all_groups(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    parts = user.split(":")
    if not groups and parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)


def decide(identity: Identity, verb: str, group: str, resource: str) -> Decision:
    """RBAC's answer and its reason, as an access review prints it.

    `resource` is a plural, with `/subresource` where there is one.
    """
    if MASTERS in identity.groups:
        return Decision(allowed=True)
    for rule in RULES:
        if verb not in rule.verbs or (rule.plurals and resource not in rule.plurals):
            continue
        if identity.user in rule.subjects:
            return Decision(True, _because(rule.name, identity.user, "User"))
        for subject in identity.groups:
            if subject in rule.subjects:
                return Decision(True, _because(rule.name, subject))
    if verb == "create" and resource in REVIEWS.get(group, ()) and AUTHENTICATED in identity.groups:
        return Decision(True, _because("system:basic-user", AUTHENTICATED))
    return Decision(allowed=False)


def decide_path(identity: Identity, path: str) -> Decision:
    """Whether `identity` may get a non-resource path."""
    if MASTERS in identity.groups:
        return Decision(allowed=True)
    if path.rstrip("/") in _HEALTH:
        return Decision(True, _because("system:public-info-viewer", identity.groups[-1]))
    is_discovery = any(path == root or path.startswith(f"{root}/") for root in _DISCOVERY)
    if is_discovery and AUTHENTICATED in identity.groups:
        return Decision(True, _because("system:discovery", AUTHENTICATED))
    return Decision(allowed=False)


def _because(role: str, subject: str, sort: str = "Group") -> str:
    binding = f'ClusterRoleBinding "{role}" of ClusterRole "{role}"'
    return f'RBAC: allowed by {binding} to {sort} "{subject}"'


def require(
    identity: Identity, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
) -> None:
    """Raises ApiError 403 in RBAC's words."""
    if not decide(identity, verb, group, resource).allowed:
        raise forbidden(identity.user, verb, group, resource, namespace, name)


def require_path(identity: Identity, path: str) -> None:
    """Raises ApiError 403 for a non-resource path."""
    if not decide_path(identity, path).allowed:
        raise forbidden_path(identity.user, path)


def access_review(identity: Identity, spec: Mapping[str, Any]) -> dict[str, Any]:
    """`status` of a SelfSubjectAccessReview for its `spec`; ApiError 422 for an empty one."""
    wanted, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (wanted is None) == (path is None):
        text = (
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must "
            "be specified"
        )
        cause = StatusCause("FieldValueInvalid", text, "spec.resourceAttributes")
        raise invalid("", "authorization.k8s.io", "", [cause])
    if wanted is None:
        decision = decide_path(identity, str((path or {}).get("path", "")))
    else:
        subresource = wanted.get("subresource", "")
        resource = wanted.get("resource", "") + (f"/{subresource}" if subresource else "")
        decision = decide(identity, wanted.get("verb", ""), wanted.get("group", ""), resource)
    status: dict[str, Any] = {"allowed": decision.allowed}
    return status | ({"reason": decision.reason} if decision.reason else {})


def self_review(identity: Identity) -> dict[str, Any]:
    """`status` of a SelfSubjectReview."""
    info: dict[str, Any] = {"username": identity.user, "groups": list(identity.groups)}
    info |= {"uid": identity.uid} if identity.uid else {}
    return {
        "userInfo": info
        | ({"extra": {k: [v] for k, v in identity.extra}} if identity.extra else {})
    }


def rules_review(identity: Identity) -> dict[str, Any]:
    """`status` of a SelfSubjectRulesReview; every rule here holds in every namespace."""
    rules = [
        {
            "verbs": sorted(rule.verbs),
            "apiGroups": ["*"],
            "resources": sorted(rule.plurals) or ["*"],
        }
        for rule in RULES
        if rule.subjects & {identity.user, *identity.groups}
    ]
    if MASTERS in identity.groups:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    rules += [
        {"verbs": ["create"], "apiGroups": [group], "resources": list(resources)}
        for group, resources in REVIEWS.items()
    ]
    paths = [*_HEALTH, *_DISCOVERY, *(f"{root}/*" for root in _DISCOVERY)]
    return {
        "resourceRules": rules,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}],
        "incomplete": False,
    }
