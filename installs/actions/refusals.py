"""What a cluster said no to, as a sentence and, where it says so, at the field of the form."""

import re
from dataclasses import dataclass, field

from catalogs.install_methods import InstallMethod
from installs.methods import form_field
from olmweb.kube.errors import Conflict, Forbidden, Invalid, KubeError

_MANAGER = re.compile(r'"([^"]{1,128})"')


@dataclass(frozen=True, slots=True)
class Refusal:
    """`fields` maps a form field, or a field of the object, to its own sentence."""

    code: str
    message: str
    hint: str = ""
    fields: dict[str, str] = field(default_factory=dict)


def explain(
    error: KubeError,
    *,
    cluster: str,
    as_user: str,
    verb: str,
    plural: str,
    kind: str = InstallMethod.PLATFORM_OPERATOR,
) -> Refusal:
    """The refusal in words. `verb` is an Action's; `plural` the resource with its group."""
    if isinstance(error, Forbidden):
        return _forbidden(error, cluster, as_user, verb, plural)
    if isinstance(error, Conflict) and error.causes:
        return _conflict(error, kind)
    if isinstance(error, Invalid):
        fields = _fields(error, kind)
        return Refusal(error.code, error.message, error.hint, fields)
    return Refusal(error.code, error.message, error.hint)


def _fields(error: KubeError, kind: str) -> dict[str, str]:
    return {form_field(cause.field, kind): cause.message for cause in error.causes if cause.field}


def _forbidden(error: Forbidden, cluster: str, as_user: str, verb: str, plural: str) -> Refusal:
    if as_user and "impersonate" in error.message:
        return Refusal(
            "impersonation-forbidden",
            f"OLM Web may not act as {as_user} on cluster {cluster}: {error.message}",
            "Ask the cluster's administrator to let OLM Web impersonate this person and each of "
            "their groups, as the second ClusterRole in deploy/ does.",
        )
    said = error.message.removeprefix(f"Cluster {cluster} does not allow this: ")
    who = as_user or "The service account of OLM Web"
    verbs = "delete" if verb == "remove" else "create and patch"
    return Refusal(
        error.code,
        f"{who} may not {verb} this on cluster {cluster}: {said}",
        f"Ask the cluster's administrator for the right to {verbs} {plural}.",
    )


def _conflict(error: Conflict, kind: str) -> Refusal:
    fields = _fields(error, kind)
    owners = {match[1] for cause in error.causes if (match := _MANAGER.search(cause.message))}
    named = ", ".join(sorted(owners)) or "another manager"
    paths = ", ".join(cause.field.removeprefix(".") for cause in error.causes if cause.field)
    return Refusal(
        error.code,
        f"Nothing was changed: {paths or 'a field'} belongs to {named}.",
        f"Change it where {named} manages it; OLM Web takes no field away from another unasked.",
        fields,
    )
