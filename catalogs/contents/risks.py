"""What a permission lets its holder do, worst first: why an RBAC rule is dangerous, in a sentence.

Facts: Kubernetes documentation, "Role Based Access Control Good Practices" (privilege escalation
risks). Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

READ = frozenset(("get", "list", "watch"))
WRITE = frozenset(("create", "update", "patch", "delete", "deletecollection"))
CHANGE = frozenset(("create", "update", "patch"))
ANY = "*"


class Level(StrEnum):
    """Worst first."""

    DANGER = "danger"
    CAUTION = "caution"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class _Risk:
    level: Level
    group: str
    resources: frozenset[str]
    verbs: frozenset[str]
    says: str


def _risk(level: Level, group: str, resources: str, verbs: Iterable[str], says: str) -> _Risk:
    return _Risk(level, group, frozenset(resources.split()), frozenset(verbs), says)


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
    """How bad a rule is, and why, worst first. `named`: the rule is for certain names only, which
    makes it no worse than a caution."""
    own = (frozenset(groups), frozenset(resources), frozenset(verbs))
    found = _everything(*own) or [(risk.level, risk.says) for risk in _RISKS if _grants(risk, *own)]
    if named:
        found = [(Level.CAUTION, f"{says.rstrip('.')}; only those named.") for _, says in found]
    if not found:
        return Level.PLAIN, ()
    return found[0][0], tuple(dict.fromkeys(says for _, says in found))


def _everything(
    groups: frozenset[str], resources: frozenset[str], verbs: frozenset[str]
) -> list[tuple[Level, str]]:
    if ANY not in resources:
        return []
    if ANY in groups and ANY in verbs:
        return [(_DANGER, "It may do everything with everything, as cluster-admin may (*).")]
    what = "all kinds" if ANY in groups else f"all kinds of {_of(groups)}"
    if ANY in verbs:
        level = _DANGER if "" in groups else _CAUTION
        more = ", secrets and pods' exec too" if "" in groups else ""
        return [(level, f"It may do everything with {what}{more} (*).")]
    if verbs & READ and groups & {"", ANY}:
        return [(_DANGER, f"It may read {what}, secrets too (*).")]
    return [(_CAUTION, f"It may {', '.join(sorted(verbs))} {what} (*).")] if verbs else []


def _of(groups: frozenset[str]) -> str:
    return ", ".join(sorted(group or "the core group" for group in groups)) or "no group"


def _grants(
    risk: _Risk, groups: frozenset[str], resources: frozenset[str], verbs: frozenset[str]
) -> bool:
    return (
        bool(groups & {risk.group, ANY})
        and any(_covers(each, risk.resources) for each in resources)
        and (ANY in verbs or bool(verbs & risk.verbs))
    )


def _covers(resource: str, wanted: frozenset[str]) -> bool:
    """`*/exec` stands for the subresource of every resource, `*` for all."""
    if resource == ANY or resource in wanted:
        return True
    head, slash, sub = resource.partition("/")
    return bool(slash) and any(
        each.partition("/")[2] == sub and head in (ANY, each.partition("/")[0])
        for each in wanted
        if "/" in each
    )
