"""What the approval of an InstallPlan changes, also for other operators.

OLM creates one InstallPlan for all Subscriptions of a namespace, and a single Subscription with
manual approval makes the whole plan wait.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis.evaluate import APPROVAL
from installs.diagnosis.types import Observation
from olmweb.kube.fields import items, number, text, texts

CRD = "CustomResourceDefinition"
_SHOWN = (CRD, "ClusterRole", "Role", "Secret", "Subscription")


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One ClusterServiceVersion of the plan. `action` is install, upgrade, keep or dependency.

    `subscription` and `package` are empty for a dependency, whose Subscription OLM creates.
    """

    csv: str
    action: str
    subscription: str = ""
    package: str = ""
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """What the plan would do. `objects` counts its steps by kind; `cut`: the plan has more steps
    than are stored, so the counts are too low."""

    plan: str
    namespace: str
    needed: bool
    changes: tuple[PlannedChange, ...]
    objects: tuple[tuple[str, int], ...]
    crds: tuple[str, ...]
    cut: bool

    @property
    def carried(self) -> tuple[PlannedChange, ...]:
        """The changes without the versions that stay."""
        return tuple(change for change in self.changes if change.action != "keep")

    def others(self, subscription: str) -> tuple[PlannedChange, ...]:
        """The changes for other Subscriptions."""
        return tuple(change for change in self.carried if change.subscription != subscription)

    @property
    def words(self) -> str:
        """The change for a button: `upgrade to 1.4.2`, of several versions their number."""
        if len(self.carried) != 1:
            return f"{len(self.carried)} operators" if self.carried else ""
        [change] = self.carried
        name, _, version = change.csv.partition(".v")
        return f"{'upgrade to' if change.action == 'upgrade' else 'install'} {version or name}"

    @property
    def sentence(self) -> str:
        """What the approval changes, in one sentence."""
        parts = [_words(change) for change in self.carried]
        brings = [
            f"{count} {kind}{'s' if count > 1 else ''}"
            for kind, count in self.objects
            if kind in _SHOWN
        ]
        sentence = f"Approving {self.plan} {listing(parts) or 'changes no version'}"
        if not brings:
            return f"{sentence}."
        return f"{sentence}; it writes {'at least ' if self.cut else ''}{listing(brings)}."


def approval(plan: Observation, subscriptions: Sequence[Observation]) -> Approval:
    """What the approval of the InstallPlan changes.

    `subscriptions` are all those of its namespace, with the versions installed now; without them
    every version counts as a dependency.
    """
    steps = items(plan.details, "steps")
    counted = Counter(text(step, "kind") for step in steps)
    return Approval(
        plan=plan.name,
        namespace=plan.namespace,
        needed=plan.phase == APPROVAL and plan.details.get("approved") is not True,
        changes=tuple(
            _change(csv, plan.namespace, subscriptions) for csv in texts(plan.details, "csvs")
        ),
        objects=tuple(sorted((kind, count) for kind, count in counted.items() if kind)),
        crds=tuple(sorted(text(step, "name") for step in steps if text(step, "kind") == CRD)),
        cut=number(plan.details, "steps_total") > len(steps),
    )


def _change(csv: str, namespace: str, subscriptions: Sequence[Observation]) -> PlannedChange:
    for subscription in subscriptions:
        if subscription.namespace != namespace or text(subscription.details, "current_csv") != csv:
            continue
        installed = text(subscription.details, "installed_csv")
        package = subscription.extra.get("package", "")
        if installed == csv:
            return PlannedChange(csv, "keep", subscription.name, package)
        action = "upgrade" if installed else "install"
        return PlannedChange(csv, action, subscription.name, package, installed)
    return PlannedChange(csv, "dependency")


def _words(change: PlannedChange) -> str:
    if change.action == "upgrade":
        return f"upgrades {change.replaces} to {change.csv}"
    if change.action == "dependency":
        return f"installs {change.csv} as a dependency"
    return f"installs {change.csv}"


def listing(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))
