"""Who a request is (token and impersonation) and what they may do: a small RBAC table.

Owns identities and rules; must not know objects. The sandbox's own token is a member of
system:masters; everybody else comes in through impersonation, as OLM Web's users do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver.errors import Cause, bad_request, forbidden, forbidden_path, invalid

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
class Rule:
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
    Rule(
        "olmweb-view",
        frozenset({"olmweb-viewers", "olmweb-operators", "olmweb-admins", "admin"}),
        READ,
        frozenset(),
    ),
    Rule(
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
)
# What the default roles let everybody who signed in ask: about themselves.
_REVIEWS = {
    "authorization.k8s.io": ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    "authentication.k8s.io": ("selfsubjectreviews",),
}


def identify(
    authorization: str,
    token: str,
    user: str,
    groups: Iterable[str],
    uid: str = "",
    extra: Iterable[tuple[str, str]] = (),
) -> Identity | None:
    """The identity of a request; None when its bearer token isn't ours (401).

    `user` and the rest are the impersonation headers. Raises ApiError 400 for groups without a
    user. Nobody but the token's owner may impersonate: others stay who they are.
    """
    if not authorization:
        return ANONYMOUS
    if token and authorization != f"Bearer {token}":
        return None
    named = tuple(groups)
    if user:
        return Identity(user, _all_groups(user, named), uid, tuple(extra))
    if named or uid:
        listed = ", ".join(f'"{group}"' for group in named)
        found = f"[]string{{{listed}}}" if named else "[]string(nil)"
        raise bad_request(
            f'requested &user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{found}, '
            "Extra:map[string][]string(nil)} without impersonating a user name"
        )
    return ADMIN


def _all_groups(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    parts = user.split(":")
    if not groups and parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)


def decide(who: Identity, verb: str, group: str, resource: str) -> Decision:
    """RBAC's answer and its reason, as an access review prints it.

    `resource` is a plural, with `/subresource` where there is one.
    """
    if MASTERS in who.groups:
        return Decision(allowed=True)
    for rule in RULES:
        if verb not in rule.verbs or (rule.plurals and resource not in rule.plurals):
            continue
        if who.user in rule.subjects:
            return Decision(True, _because(rule.name, who.user, "User"))
        for subject in who.groups:
            if subject in rule.subjects:
                return Decision(True, _because(rule.name, subject))
    if verb == "create" and resource in _REVIEWS.get(group, ()) and AUTHENTICATED in who.groups:
        return Decision(True, _because("system:basic-user", AUTHENTICATED))
    return Decision(allowed=False)


def decide_path(who: Identity, path: str) -> Decision:
    """Whether `who` may get a path that is no resource."""
    if MASTERS in who.groups:
        return Decision(allowed=True)
    if path.rstrip("/") in _HEALTH:
        return Decision(True, _because("system:public-info-viewer", who.groups[-1]))
    known = any(path == root or path.startswith(f"{root}/") for root in _DISCOVERY)
    if known and AUTHENTICATED in who.groups:
        return Decision(True, _because("system:discovery", AUTHENTICATED))
    return Decision(allowed=False)


def _because(role: str, subject: str, sort: str = "Group") -> str:
    binding = f'ClusterRoleBinding "{role}" of ClusterRole "{role}"'
    return f'RBAC: allowed by {binding} to {sort} "{subject}"'


def require(
    who: Identity, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
) -> None:
    """Raises ApiError 403 in RBAC's words."""
    if not decide(who, verb, group, resource).allowed:
        raise forbidden(who.user, verb, group, resource, namespace, name)


def require_path(who: Identity, path: str) -> None:
    """Raises ApiError 403 for a path that is no resource."""
    if not decide_path(who, path).allowed:
        raise forbidden_path(who.user, path)


def access_review(who: Identity, spec: Mapping[str, Any]) -> dict[str, Any]:
    """`status` of a SelfSubjectAccessReview for its `spec`; ApiError 422 when it asks nothing."""
    wanted, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (wanted is None) == (path is None):
        text = (
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must "
            "be specified"
        )
        cause = Cause("FieldValueInvalid", text, "spec.resourceAttributes")
        raise invalid("", "authorization.k8s.io", "", [cause])
    if wanted is None:
        decision = decide_path(who, str((path or {}).get("path", "")))
    else:
        subresource = wanted.get("subresource", "")
        resource = wanted.get("resource", "") + (f"/{subresource}" if subresource else "")
        decision = decide(who, wanted.get("verb", ""), wanted.get("group", ""), resource)
    status: dict[str, Any] = {"allowed": decision.allowed}
    return status | ({"reason": decision.reason} if decision.reason else {})


def self_review(who: Identity) -> dict[str, Any]:
    """`status` of a SelfSubjectReview."""
    info: dict[str, Any] = {"username": who.user, "groups": list(who.groups)}
    info |= {"uid": who.uid} if who.uid else {}
    return {"userInfo": info | ({"extra": {k: [v] for k, v in who.extra}} if who.extra else {})}


def rules_review(who: Identity) -> dict[str, Any]:
    """`status` of a SelfSubjectRulesReview; every rule here holds in every namespace."""
    found = [
        {
            "verbs": sorted(rule.verbs),
            "apiGroups": ["*"],
            "resources": sorted(rule.plurals) or ["*"],
        }
        for rule in RULES
        if rule.subjects & {who.user, *who.groups}
    ]
    if MASTERS in who.groups:
        found = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    found += [
        {"verbs": ["create"], "apiGroups": [group], "resources": list(resources)}
        for group, resources in _REVIEWS.items()
    ]
    paths = [*_HEALTH, *_DISCOVERY, *(f"{root}/*" for root in _DISCOVERY)]
    return {
        "resourceRules": found,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}],
        "incomplete": False,
    }
