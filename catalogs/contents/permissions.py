"""RBAC permissions of a bundle: the rules granted, their risks, and the difference of two sets.

The risks follow the Kubernetes documentation, "Role Based Access Control Good Practices" (privilege
escalation risks). Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, NamedTuple

from olmweb.kube.fields import Object, dig, items, text, texts

CLUSTER, NAMESPACE = "cluster", "namespace"
READ = frozenset(("get", "list", "watch"))
WRITE = frozenset(("create", "update", "patch", "delete", "deletecollection"))
CHANGE = frozenset(("create", "update", "patch"))
ANY = "*"
MOST_GRANTS = 20_000  # of one rule; a larger rule is compared as a whole


class Level(StrEnum):
    """Worst first."""

    DANGER = "danger"
    CAUTION = "caution"
    PLAIN = "plain"


_ORDER = tuple(Level)


@dataclass(frozen=True, slots=True)
class _Risk:
    level: Level
    group: str
    resources: frozenset[str]
    verbs: frozenset[str]
    sentence: str


def _risk(level: Level, group: str, resources: str, verbs: Iterable[str], sentence: str) -> _Risk:
    return _Risk(level, group, frozenset(resources.split()), frozenset(verbs), sentence)


_RBAC = "rbac.authorization.k8s.io"
_DANGER, _CAUTION = Level.DANGER, Level.CAUTION
_RISKS = (
    _risk(_DANGER, _RBAC, "roles clusterroles", ("escalate",),
          "It may give itself any permission (escalate)."),
    _risk(_DANGER, _RBAC, "roles clusterroles", ("bind",),
          "It may bind any role, cluster-admin too, to anybody (bind)."),
    _risk(_DANGER, "", "users groups serviceaccounts", ("impersonate",),
          "It may act as somebody else (impersonate)."),
    _risk(_DANGER, "", "nodes/proxy", (*READ, *CHANGE),
          "It may run commands in every pod of a node through its kubelet (nodes/proxy)."),
    _risk(_DANGER, "", "pods/exec pods/attach", ("get", "create"),
          "It may run commands in pods of others, with all that these can reach (pods/exec)."),
    _risk(_DANGER, "", "secrets", READ,
          "It may read secrets: passwords, keys and tokens of others."),
    _risk(_DANGER, "", "serviceaccounts/token", ("create",),
          "It may make tokens of service accounts and act as them."),
    _risk(_DANGER, "certificates.k8s.io", "certificatesigningrequests/approval", CHANGE,
          "It may approve certificates, with which anybody can be impersonated."),
    _risk(_DANGER, "admissionregistration.k8s.io",
          "validatingwebhookconfigurations mutatingwebhookconfigurations", CHANGE,
          "It may put itself before requests to the API server, and read or change them."),
    _risk(_CAUTION, _RBAC, "roles rolebindings clusterroles clusterrolebindings", CHANGE,
          "It may hand permissions on, as far as its own go."),
    _risk(_CAUTION, "", "pods", ("create",),
          "It may start pods with any service account of their namespace."),
    _risk(_CAUTION, "apps", "deployments daemonsets statefulsets replicasets", CHANGE,
          "It may start pods with any service account of their namespace."),
    _risk(_CAUTION, "batch", "jobs cronjobs", CHANGE,
          "It may start pods with any service account of their namespace."),
    _risk(_CAUTION, "", "secrets", WRITE, "It may write or delete secrets of others."),
    _risk(_CAUTION, "", "persistentvolumes", ("create",),
          "It may make volumes of a node's own files (hostPath)."),
    _risk(_CAUTION, "", "nodes nodes/status", (*CHANGE, "delete"), "It may change nodes."),
    _risk(_CAUTION, "", "namespaces", (*CHANGE, "delete"),
          "It may make, label or delete namespaces."),
    _risk(_CAUTION, "apiextensions.k8s.io", "customresourcedefinitions", (*CHANGE, "delete"),
          "It may change or delete CRDs, and with them all objects of their kinds."),
    _risk(_CAUTION, "apiregistration.k8s.io", "apiservices", CHANGE,
          "It may answer for whole API groups."),
    _risk(_CAUTION, "security.openshift.io", "securitycontextconstraints",
          (*CHANGE, "use"), "It may loosen what pods are allowed to be."),
)  # fmt: skip


def risks(
    groups: Iterable[str], resources: Iterable[str], verbs: Iterable[str], *, named: bool = False
) -> tuple[Level, tuple[str, ...]]:
    """The level of an RBAC rule and its reasons, worst first; at most a caution for a rule that is
    restricted to resource names (`named`)."""
    own = (frozenset(groups), frozenset(resources), frozenset(verbs))
    matches = _everything(*own) or [
        (risk.level, risk.sentence) for risk in _RISKS if _applies(risk, *own)
    ]
    if named:
        matches = [
            (Level.CAUTION, f"{sentence.rstrip('.')}; only those named.") for _, sentence in matches
        ]
    if not matches:
        return Level.PLAIN, ()
    return matches[0][0], tuple(dict.fromkeys(sentence for _, sentence in matches))


def _everything(
    groups: frozenset[str], resources: frozenset[str], verbs: frozenset[str]
) -> list[tuple[Level, str]]:
    if ANY not in resources:
        return []
    if ANY in groups and ANY in verbs:
        return [(_DANGER, "It may do everything with everything, as cluster-admin may (*).")]
    what = "all kinds" if ANY in groups else f"all kinds of {_group_names(groups)}"
    if ANY in verbs:
        level = _DANGER if "" in groups else _CAUTION
        more = ", secrets and pods' exec too" if "" in groups else ""
        return [(level, f"It may do everything with {what}{more} (*).")]
    if verbs & READ and groups & {"", ANY}:
        return [(_DANGER, f"It may read {what}, secrets too (*).")]
    return [(_CAUTION, f"It may {', '.join(sorted(verbs))} {what} (*).")] if verbs else []


def _group_names(groups: frozenset[str]) -> str:
    return ", ".join(sorted(group or "the core group" for group in groups)) or "no group"


def _applies(
    risk: _Risk, groups: frozenset[str], resources: frozenset[str], verbs: frozenset[str]
) -> bool:
    return (
        bool(groups & {risk.group, ANY})
        and any(_covers(resource, risk.resources) for resource in resources)
        and (ANY in verbs or bool(verbs & risk.verbs))
    )


def _covers(resource: str, wanted: frozenset[str]) -> bool:
    """Whether an RBAC resource, such as `*` or `*/exec`, includes one of the wanted resources."""
    if resource == ANY or resource in wanted:
        return True
    head, slash, sub = resource.partition("/")
    return bool(slash) and any(
        candidate.partition("/")[2] == sub and head in (ANY, candidate.partition("/")[0])
        for candidate in wanted
        if "/" in candidate
    )


@dataclass(frozen=True, slots=True)
class Permission:
    """An RBAC rule granted to `account`. `scope` is cluster or namespace; `why` lists the reasons
    for the level, worst first."""

    scope: str
    account: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    level: str = Level.PLAIN
    why: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The resources with their groups, in the notation of kubectl."""
        if self.urls:
            return ", ".join(self.urls)
        shown = []
        for group in self.groups or ("",):
            shown += [f"{resource}.{group}" if group else resource for resource in self.resources]
        return ", ".join(shown)


def account_of(permission: Object) -> str:
    return text(permission, "serviceAccountName") or "default"


def permissions_of(csv: dict[str, Any], shipped: list[dict[str, Any]]) -> tuple[Permission, ...]:
    """Permissions granted by the ClusterServiceVersion and the bundle's role bindings, worst first
    within each scope."""
    install = dig(csv, "spec", "install", "spec")
    permissions = [
        _permission(scope, account_of(entry), rule)
        for scope, key in ((CLUSTER, "clusterPermissions"), (NAMESPACE, "permissions"))
        for entry in items(install, key)
        for rule in items(entry, "rules")
    ]
    permissions += _bound(shipped)
    permissions.sort(
        key=lambda permission: (permission.scope != CLUSTER, _ORDER.index(Level(permission.level)))
    )
    return tuple(dict.fromkeys(permissions))


def _permission(scope: str, account: str, rule: Object) -> Permission:
    groups, resources = tuple(texts(rule, "apiGroups")), tuple(texts(rule, "resources"))
    verbs, names = tuple(texts(rule, "verbs")), tuple(texts(rule, "resourceNames"))
    level, why = risks(groups, resources, verbs, named=bool(names))
    if scope == NAMESPACE and level == Level.DANGER:
        level = Level.CAUTION
    urls = tuple(texts(rule, "nonResourceURLs"))
    return Permission(scope, account, groups, resources, verbs, names, urls, level, why)


def _bound(shipped: list[dict[str, Any]]) -> Iterator[Permission]:
    """Permissions granted by the role bindings among the bundle's manifests."""
    roles = {
        (text(manifest, "kind"), text(manifest, "metadata", "name")): manifest
        for manifest in shipped
        if manifest.get("kind") in ("ClusterRole", "Role")
    }
    for binding in shipped:
        if binding.get("kind") not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        scope = CLUSTER if binding["kind"] == "ClusterRoleBinding" else NAMESPACE
        accounts = (
            ", ".join(text(subject, "name") for subject in items(binding, "subjects")) or "nobody"
        )
        kind, name = text(binding, "roleRef", "kind"), text(binding, "roleRef", "name")
        role = roles.get((kind, name))
        if role is not None:
            for rule in items(role, "rules"):
                yield _permission(scope, accounts, rule)
            continue
        admin = name == "cluster-admin" and scope == CLUSTER
        sentence = (
            "It is bound to cluster-admin: it may do everything."
            if admin
            else f"It is bound to {kind} {name}, which the bundle does not ship."
        )
        level = Level.DANGER if admin else Level.CAUTION
        yield Permission(scope, accounts, (), (f"{kind}/{name}",), (), level=level, why=(sentence,))


class _Grant(NamedTuple):
    scope: str
    account: str
    group: str
    resource: str
    name: str  # "" for all
    verb: str


def beyond(these: Iterable[Permission], those: Iterable[Permission]) -> list[Permission]:
    """The permissions in `these` that `those` do not grant, worst first.

    Rules are split into single grants, compared and merged again, since the same permissions can be
    written as different rules: `*` covers every verb, and one rule can stand for several.
    """
    rules: list[Permission] = []
    grants: set[_Grant] = set()
    granted_rules: set[Permission] = set()
    granted: set[_Grant] = set()
    for permission in those:
        granted_rules.add(permission)
        granted.update(_grants(permission))
    for permission in these:
        single = set(_grants(permission))
        if not single and permission not in granted_rules:
            rules.append(permission)
        grants |= single
    rules += _merge(grant for grant in grants if not _covered(grant, granted))
    return sorted(
        rules,
        key=lambda permission: (
            permission.scope == NAMESPACE,
            _ORDER.index(Level(permission.level)),
            permission.what,
        ),
    )


def _grants(permission: Permission) -> Iterator[_Grant]:
    names = permission.names or ("",)
    size = len(permission.groups) * len(permission.resources) * len(permission.verbs) * len(names)
    if size > MOST_GRANTS or permission.urls:
        return
    for group, resource, name, verb in product(
        permission.groups, permission.resources, names, permission.verbs
    ):
        yield _Grant(permission.scope, permission.account, group, resource, name, verb)


def _covered(grant: _Grant, granted: set[_Grant]) -> bool:
    return any(
        _Grant(grant.scope, grant.account, *rest) in granted
        for rest in product(
            (grant.group, ANY), (grant.resource, ANY), (grant.name, ""), (grant.verb, ANY)
        )
    )


def _merge(grants: Iterable[_Grant]) -> Iterator[Permission]:
    verbs: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for grant in grants:
        verbs[grant[:-1]].add(grant.verb)
    resources: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (scope, account, group, resource, name), allowed in verbs.items():
        resources[(scope, account, group, name), tuple(sorted(allowed))].append(resource)
    for ((scope, account, group, name), may), what in resources.items():
        level, why = risks((group,), what, may, named=bool(name))
        if scope == NAMESPACE and level == Level.DANGER:
            level = Level.CAUTION
        names = (name,) if name else ()
        yield Permission(scope, account, (group,), tuple(sorted(what)), may, names, (), level, why)
