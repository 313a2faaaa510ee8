"""Who a request is (token and impersonation) and what they may do: a small RBAC table.

Owns identities and rules; must not know objects. The sandbox's own token is a member of
system:masters; everybody else comes in through impersonation, as OLM Web's users do.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from olmweb.sandbox.errors import bad_request, forbidden
from olmweb.sandbox.kinds import Kind

MASTERS = "system:masters"
READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API server sees it."""

    user: str
    groups: tuple[str, ...]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """`subjects` (users or groups) may do `verbs` on `plurals` of our API groups."""

    name: str
    subjects: frozenset[str]
    verbs: frozenset[str]
    plurals: frozenset[str]  # empty: every resource


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""


ADMIN = Identity("sandbox-admin", (MASTERS, "system:authenticated"))

RULES = (
    Rule(
        "olmweb-view",
        frozenset({"olmweb-viewers", "olmweb-operators", "admin"}),
        READ,
        frozenset(),
    ),
    Rule(
        "olmweb-operate",
        frozenset({"olmweb-operators", "admin"}),
        WRITE,
        frozenset({"platformoperators"}),
    ),
    Rule("olmweb-admin", frozenset({"admin"}), WRITE, frozenset({"clusterextensions"})),
)


def identify(
    authorization: str, token: str, user: str, groups: Iterable[str], uid: str = ""
) -> Identity | None:
    """The identity of a request; None when its bearer token isn't ours (401).

    `user` and `groups` are the impersonation headers. Raises ApiError 400 for groups without a
    user.
    """
    if token and authorization != f"Bearer {token}":
        return None
    named = tuple(groups)
    if not user:
        if named:
            raise bad_request(f"requested {list(named)} without impersonating a user")
        return ADMIN
    everyone = () if "system:authenticated" in named else ("system:authenticated",)
    return Identity(user, (*named, *everyone), uid)


def decide(who: Identity, verb: str, plural: str) -> Decision:
    """RBAC's answer and its reason, as an access review prints it."""
    if MASTERS in who.groups:
        return Decision(allowed=True)
    for rule in RULES:
        if verb not in rule.verbs or (rule.plurals and plural not in rule.plurals):
            continue
        if who.user in rule.subjects:
            return Decision(True, _because(rule, "User", who.user))
        for group in who.groups:
            if group in rule.subjects:
                return Decision(True, _because(rule, "Group", group))
    return Decision(allowed=False)


def _because(rule: Rule, kind: str, subject: str) -> str:
    return (
        f'RBAC: allowed by ClusterRoleBinding "{rule.name}" of ClusterRole "{rule.name}" '
        f'to {kind} "{subject}"'
    )


def require(who: Identity, verb: str, kind: Kind, namespace: str = "", name: str = "") -> None:
    """Raises ApiError 403 in RBAC's words."""
    if not decide(who, verb, kind.plural).allowed:
        raise forbidden(who.user, verb, kind.group, kind.plural, namespace, name)


def access_review(who: Identity, spec: dict[str, object]) -> dict[str, object]:
    """`status` of a SelfSubjectAccessReview for its `spec`."""
    attributes = spec.get("resourceAttributes")
    if not isinstance(attributes, dict):
        decision = Decision(allowed=MASTERS in who.groups)
    else:
        decision = decide(who, attributes.get("verb", ""), attributes.get("resource", ""))
    status: dict[str, object] = {"allowed": decision.allowed}
    return status | ({"reason": decision.reason} if decision.reason else {})


def self_review(who: Identity) -> dict[str, object]:
    """`status` of a SelfSubjectReview."""
    info: dict[str, object] = {"username": who.user, "groups": list(who.groups)}
    return {"userInfo": info | ({"uid": who.uid} if who.uid else {})}
