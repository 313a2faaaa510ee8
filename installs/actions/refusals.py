"""Why an action is refused for what its main object is on the cluster now.

The dry run of an action and the worker that sends it make the same checks, so that a review refuses
what the worker would refuse.
"""

from typing import Any

from installs.actions.objects import RETRIED, DryRun
from installs.models import Action
from installs.models.steps import Apply, Manifest, Step
from olmweb.kube.fields import text, texts

Verb = Action.Verb
CARRIES_MORE = "carries-more"  # code: the InstallPlan carries more than the approved version
CARRIES_MORE_HINT = (
    "Nothing was approved. Approve all of the InstallPlan if the rest is wanted, too. OLM creates "
    "one InstallPlan for all Subscriptions of a namespace: operators in namespaces of their own "
    "are approved one by one."
)
# Labels and annotations that OLM or a retry put on a Subscription, or that say nothing of it.
_OF_OLM = ("operators.coreos.com/", "olm.", RETRIED, "kubectl.kubernetes.io/last-applied")


def refusal_of(
    verb: str,
    main: Step,
    there: Manifest | None,
    *,
    uid: str = "",
    only: str = "",
    remakes: bool = False,
) -> DryRun | None:
    """The refusal to carry out an action with the step `main`; None if nothing is in the way.

    `there` is the object as the cluster has it, None if it does not exist; `uid` that of the
    reviewed object, empty if unknown; `only` the one version to approve; `remakes` whether the
    object is deleted and made again. An object that is being deleted is not in the way of an
    install, which waits for its end.
    """
    if verb == Verb.INSTALL:
        return _taken(main, there)
    if verb == Verb.REMOVE:
        if there is None or not _is_another(there, uid):
            return None
        return _replaced(
            main, "deleted", "Check the new object, and request its removal if it should be "
            "deleted, too."
        )  # fmt: skip
    if there is None:
        sentence = f"{main.kind} {main.name} is gone; nothing was changed."
        return DryRun(False, sentence, "gone")
    if _is_another(there, uid):
        return _replaced(main, "changed")
    if remakes and isinstance(main, Apply) and (why := _remake_problem(there, main.manifest)):
        sentence = f"{main.kind} {main.name} can't be made again as it was: {why}."
        return DryRun(False, sentence, "changed", "Review it again.")
    if verb == Verb.APPROVE and only and (why := _approval_problem(there, only)):
        return DryRun(False, why, CARRIES_MORE, CARRIES_MORE_HINT)
    return None


def adopted_refusal(label: str) -> DryRun:
    """The refusal to delete a leftover that belongs to an operator again."""
    return DryRun(
        False,
        f"{label} belongs to an operator again and was not deleted.",
        "replaced",
        "Review what is still left over.",
    )


def is_being_deleted(there: Manifest | None) -> bool:
    return there is not None and bool(there["metadata"].get("deletionTimestamp"))


def includes(there: Any, wanted: Any) -> bool:
    """Whether the object has all wanted values; the server adds defaults of its own."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(key in there and includes(there[key], value) for key, value in wanted.items())
    return bool(there == wanted)


def _is_another(there: Manifest, uid: str) -> bool:
    return bool(uid) and text(there, "metadata", "uid", limit=64) != uid


def _replaced(main: Step, done: str, hint: str = "") -> DryRun:
    return DryRun(
        False,
        f"{main.kind} {main.name} was replaced by another object of the same name; nothing was "
        f"{done}.",
        "replaced",
        hint,
    )


def _taken(main: Step, there: Manifest | None) -> DryRun | None:
    """An install never turns an existing operator into another one."""
    if there is None or is_being_deleted(there) or not isinstance(main, Apply):
        return None
    spec = there.get("spec") or {}
    if includes(spec, main.manifest["spec"]):
        return None
    package = (
        text(spec, "package", "name")
        or text(spec, "name")
        or text(spec, "source", "catalog", "packageName")
    )
    what = f", for the package {package}" if package else " with another specification"
    return DryRun(
        False,
        f"{main.kind} {main.name} exists already{what}; nothing was changed.",
        "taken",
        "Choose another name, or remove the existing object first.",
    )


def _remake_problem(there: Manifest, manifest: Manifest) -> str:
    """Why the object can't be deleted and made again as `manifest` without losing anything.

    Empty when it can. Labels and annotations of OLM's own come back by themselves.
    """
    if there.get("spec") != manifest["spec"]:
        return "its specification is not what was shown"
    meta = there["metadata"]
    if meta.get("ownerReferences"):
        return "another object owns it"
    names = [*(meta.get("labels") or {}), *(meta.get("annotations") or {})]
    foreign = [name for name in names if not name.startswith(_OF_OLM)]
    return f"it has {foreign[0]}, which would be lost" if foreign else ""


def _approval_problem(install_plan: Manifest, only: str) -> str:
    """Why this InstallPlan, as the cluster has it, can't be approved for the ClusterServiceVersion
    `only` and nothing else, in a sentence; empty if it can."""
    names = texts(install_plan.get("spec") or {}, "clusterServiceVersionNames")
    others = sorted(name for name in names if name != only)
    name = install_plan["metadata"]["name"]
    if only not in names:
        return f"InstallPlan {name} does not carry {only}, but {', '.join(others) or 'no version'}."
    return f"InstallPlan {name} carries not only {only}: {', '.join(others)}." if others else ""
