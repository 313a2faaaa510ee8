"""Whom a change of a catalog concerns: what is installed from it, and in which way.

One query finds what is installed, by the app registry: catalogs must not import installs. The rest
is pure: changes of one package in, effects on one installed thing out.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.apps import apps
from django.db.models import Q

from catalogs.models import Catalog
from catalogs.revisions.compare import Change, Kind

DANGER, WARNING, INFO = "danger", "warning", "info"


@dataclass(frozen=True, slots=True)
class Installed:
    """Something installed, or asked for. `channels` are those it asks for, none for any; `bundle`
    is a name or an image reference. `url_namespace` is `-` for objects without a namespace."""

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
        """Whether it is this bundle that is installed."""
        if self.bundle and self.bundle == bundle:
            return True
        if version:
            return version == self.version
        named = bundle.removeprefix(self.package).removeprefix(".").removeprefix("v")
        return bool(self.version) and named == self.version


class Effect(NamedTuple):
    """One way in which an installed thing is concerned. `tone` is one of danger, warning, info;
    `words` go on after its name, as in "its channel stable is gone"."""

    installed: Installed
    tone: str
    words: str


def installed_from(catalog: Catalog) -> dict[str, list[Installed]]:
    """What is installed from this catalog, by package; one query.

    On the catalog's own cluster and, where it says from which catalog, from this one; on any
    cluster for a catalog that no cluster serves.
    """
    operators = apps.get_model("installs", "Operator")._default_manager.exclude(package="")
    if catalog.cluster_id is not None:
        operators = operators.filter(
            Q(catalog="") | Q(catalog=catalog.name), cluster=catalog.cluster_id
        )
    found: dict[str, list[Installed]] = defaultdict(list)
    rows = operators.order_by("cluster__name", "kind", "namespace", "name").values_list(
        *("cluster__name", "kind", "namespace", "name", "package", "channel", "version", "bundle")
    )
    for cluster, kind, namespace, name, package, channel, version, bundle in rows:
        channels = tuple(one for one in channel.split(", ") if one)
        found[package].append(
            Installed(cluster, kind, namespace, name, package, channels, version, bundle)
        )
    return dict(found)


def effects(
    changes: Sequence[Change], installed: Mapping[str, Sequence[Installed]]
) -> list[Effect]:
    """How the changes of one package concern what is installed of it, the worst first."""
    found: dict[Effect, None] = {}
    for one in installed.get(changes[0].package, ()) if changes else ():
        for change in changes:
            tone, words = _effect(change, one)
            if words:
                found[Effect(one, tone, words)] = None
    order = (DANGER, WARNING, INFO)
    return sorted(found, key=lambda effect: order.index(effect.tone))


def _effect(change: Change, one: Installed) -> tuple[str, str]:
    """Tone and words; no words when the change is none of its business."""
    match change.kind:
        case Kind.PACKAGE_REMOVED:
            return DANGER, "its package is gone from the catalog"
        case Kind.BUNDLE_REMOVED | Kind.BUNDLE_PRUNED if one.has(change.subject, change.before):
            gone = "was pruned" if change.kind == Kind.BUNDLE_PRUNED else "is gone"
            return WARNING, f"its installed version {change.before or change.subject} {gone}"
        case Kind.BUNDLE_CHANGED if one.has(change.subject):
            return INFO, "its installed version has another content under the same name"
        case Kind.IMAGES_CHANGED if one.has(change.subject):
            return INFO, "its installed version has other images"
        case Kind.DEPRECATED | Kind.UNDEPRECATED:
            return _deprecation(change, one)
        case Kind.DEFAULT_CHANNEL_CHANGED if not one.channels:
            return INFO, f"the default channel is now {change.after or 'none'}"
    return _channel(change, one)


def _channel(change: Change, one: Installed) -> tuple[str, str]:
    own = change.subject in one.channels
    match change.kind:
        case Kind.CHANNEL_REMOVED if own:
            return DANGER, f"its channel {change.subject} is gone"
        case Kind.CHANNEL_CHANGED if own and change.before and one.has(change.before):
            return WARNING, f"its installed version left its channel {change.subject}"
        case Kind.HEAD_MOVED if (own or not one.channels) and not one.has(change.after):
            whose = f"{'its channel' if own else 'channel'} {change.subject}"
            if not change.after:
                return WARNING, f"{whose} has no single head any more"
            return INFO, f"upgrade available: the head of {whose} is now {change.after}"
    return "", ""


def _deprecation(change: Change, one: Installed) -> tuple[str, str]:
    what = change.after or change.before
    if what == "channel" and change.subject in one.channels:
        whose = f"its channel {change.subject}"
    elif what == "bundle" and one.has(change.subject):
        whose = "its installed version"
    elif what == "package":
        whose = "its package"
    else:
        return "", ""
    if change.kind == Kind.DEPRECATED:
        return WARNING, f"{whose} is deprecated"
    return INFO, f"{whose} is no longer deprecated"
