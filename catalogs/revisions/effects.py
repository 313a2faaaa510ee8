"""Effects of a catalog's changes on the operators that are installed from it.

One query reads the operators, by the app registry: catalogs must not import installs. The rest is
pure.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.apps import apps

from catalogs.models import Catalog
from catalogs.queries import other_catalog
from catalogs.revisions.compare import ChangeKind, PackageChange, Sides

DANGER, WARNING, INFO = "danger", "warning", "info"
_NO_LONGER = "no longer in the catalog"


@dataclass(frozen=True, slots=True)
class AffectedOperator:
    """An installed or requested operator. `channels` are the requested ones, empty for any;
    `bundle` is a name or an image reference. `url_namespace` is `-` for cluster-scoped objects."""

    cluster: str
    kind: str
    namespace: str
    name: str
    package: str
    channels: tuple[str, ...]
    version: str
    bundle: str

    @property
    def url_namespace(self) -> str:
        return self.namespace or "-"

    def has(self, bundle: str, version: str = "") -> bool:
        """Whether this bundle is the installed one."""
        if self.bundle and self.bundle == bundle:
            return True
        if version:
            return version == self.version
        named = bundle.removeprefix(self.package).removeprefix(".").removeprefix("v")
        return bool(self.version) and named == self.version


class Effect(NamedTuple):
    """One effect on an installed operator. `tone` is one of danger, warning, info; `text` continues
    after its name, as in "its channel stable was removed"."""

    installed: AffectedOperator
    tone: str
    text: str


def installed_from(catalog: Catalog) -> dict[str, list[AffectedOperator]]:
    """The operators that are installed from this catalog, by package; one query: those on its
    cluster that come from no other one. A catalog without a cluster may serve any: all of them."""
    operators = apps.get_model("installs", "Operator")._default_manager.exclude(package="")
    if catalog.cluster_id is not None:
        operators = operators.filter(cluster=catalog.cluster_id)
    by_package: dict[str, list[AffectedOperator]] = defaultdict(list)
    rows = operators.order_by("cluster__name", "kind", "namespace", "name").values_list(
        *("cluster__name", "kind", "namespace", "name", "package", "channel", "version", "bundle"),
        *("catalog", "catalog_namespace"),
        named=True,
    )
    for row in rows:
        if catalog.cluster_id is not None and other_catalog(row, catalog):
            continue
        by_package[row.package].append(
            AffectedOperator(
                row.cluster__name,
                row.kind,
                row.namespace,
                row.name,
                row.package,
                channels=tuple(filter(None, row.channel.split(", "))),
                version=row.version,
                bundle=row.bundle,
            )
        )
    return dict(by_package)


def effects(
    changes: Sequence[PackageChange],
    installed: Mapping[str, Sequence[AffectedOperator]],
    sides: Sides | None = None,
) -> list[Effect]:
    """The effects of one package's changes on its installed operators, the worst first. With
    `sides` the effects of a move from one catalog to the other."""
    other = sides.after if sides else ""
    unique: dict[Effect, None] = {}
    for operator in installed.get(changes[0].package, ()) if changes else ():
        for change in changes:
            tone, text = _effect(change, operator, other)
            if text:
                unique[Effect(operator, tone, text)] = None
    order = (DANGER, WARNING, INFO)
    return sorted(unique, key=lambda effect: order.index(effect.tone))


def _effect(change: PackageChange, operator: AffectedOperator, other: str) -> tuple[str, str]:
    """Tone and text; no text when the change does not affect the operator. `other` names the
    catalog of a move; empty for revisions of one catalog."""
    match change.kind:
        case ChangeKind.PACKAGE_REMOVED:
            return DANGER, f"its package is {f'not in {other}' if other else _NO_LONGER}"
        case ChangeKind.BUNDLE_REMOVED | ChangeKind.BUNDLE_PRUNED if operator.has(
            change.subject, change.before
        ):
            removed = "was pruned" if change.kind == ChangeKind.BUNDLE_PRUNED else "was removed"
            missing = f"is not in {other}" if other else removed
            return WARNING, f"its installed version {change.before or change.subject} {missing}"
        case ChangeKind.BUNDLE_CHANGED if operator.has(change.subject):
            if other:
                return INFO, f"its installed version has different requirements or APIs in {other}"
            return INFO, "the content of its installed version changed under the same name"
        case ChangeKind.IMAGES_CHANGED if operator.has(change.subject):
            if other:
                return INFO, f"its installed version has different images in {other}"
            return INFO, "the images of its installed version changed"
        case ChangeKind.DEPRECATED | ChangeKind.UNDEPRECATED:
            return _deprecation(change, operator, other)
        case ChangeKind.DEFAULT_CHANNEL_CHANGED if not operator.channels:
            channel = change.after or "none"
            new = f"is {channel} in {other}" if other else f"is now {channel}"
            return INFO, f"the default channel {new}"
    return _channel(change, operator, other)


def _channel(change: PackageChange, operator: AffectedOperator, other: str) -> tuple[str, str]:
    own = change.subject in operator.channels
    match change.kind:
        case ChangeKind.CHANNEL_REMOVED if own:
            missing = f"is not in {other}" if other else "was removed"
            return DANGER, f"its channel {change.subject} {missing}"
        case ChangeKind.CHANNEL_CHANGED if own and change.before and operator.has(change.before):
            missing = f"is not in channel {change.subject} of {other}"
            left = missing if other else f"left its channel {change.subject}"
            return WARNING, f"its installed version {left}"
        case ChangeKind.HEAD_MOVED if (own or not operator.channels) and not operator.has(
            change.after
        ):
            whose = f"{'its channel' if own else 'channel'} {change.subject}"
            if not change.after:
                lost = f"has no single head in {other}" if other else "has no single head any more"
                return WARNING, f"{whose} {lost}"
            if other:
                return INFO, f"the head of {whose} is {change.after} in {other}"
            return INFO, f"upgrade available: the head of {whose} is now {change.after}"
    return "", ""


def _deprecation(change: PackageChange, operator: AffectedOperator, other: str) -> tuple[str, str]:
    what = change.after or change.before
    if what == "channel" and change.subject in operator.channels:
        whose = f"its channel {change.subject}"
    elif what == "bundle" and operator.has(change.subject):
        whose = "its installed version"
    elif what == "package":
        whose = "its package"
    else:
        return "", ""
    where = f" in {other}" if other else ""
    if change.kind == ChangeKind.DEPRECATED:
        return WARNING, f"{whose} is deprecated{where}"
    return INFO, f"{whose} is {'not' if other else 'no longer'} deprecated{where}"
