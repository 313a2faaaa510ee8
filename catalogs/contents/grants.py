"""What one set of permissions grants beyond another, however their rules are cut. Pure.

Rules say the same in many ways: `*` covers every verb, two rules may be one. So they are taken
apart into single grants, compared, and put together again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from catalogs.contents.report import NAMESPACE, Permission
from catalogs.contents.risks import ANY, Level, risks

MOST = 20_000  # single grants of one rule; one that says more is compared as a whole


class _Grant(NamedTuple):
    scope: str
    account: str
    group: str
    resource: str
    name: str  # "" for all
    verb: str


def beyond(these: Iterable[Permission], those: Iterable[Permission]) -> list[Permission]:
    """What `these` grant and `those` don't, the worst first."""
    wholes: list[Permission] = []
    grants: set[_Grant] = set()
    known_wholes: set[Permission] = set()
    known: set[_Grant] = set()
    for permission in those:
        known_wholes.add(permission)
        known.update(_grants(permission))
    for permission in these:
        found = set(_grants(permission))
        if not found and permission not in known_wholes:
            wholes.append(permission)
        grants |= found
    wholes += _together(each for each in grants if not _covered(each, known))
    order = tuple(Level)
    return sorted(
        wholes,
        key=lambda each: (each.scope == NAMESPACE, order.index(Level(each.level)), each.what),
    )


def _grants(permission: Permission) -> Iterator[_Grant]:
    names = permission.names or ("",)
    size = len(permission.groups) * len(permission.resources) * len(permission.verbs) * len(names)
    if size > MOST or permission.urls:
        return
    for group, resource, name, verb in product(
        permission.groups, permission.resources, names, permission.verbs
    ):
        yield _Grant(permission.scope, permission.account, group, resource, name, verb)


def _covered(grant: _Grant, known: set[_Grant]) -> bool:
    return any(
        _Grant(grant.scope, grant.account, *rest) in known
        for rest in product(
            (grant.group, ANY), (grant.resource, ANY), (grant.name, ""), (grant.verb, ANY)
        )
    )


def _together(grants: Iterable[_Grant]) -> Iterator[Permission]:
    verbs: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for each in grants:
        verbs[each[:-1]].add(each.verb)
    resources: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (scope, account, group, resource, name), found in verbs.items():
        resources[(scope, account, group, name), tuple(sorted(found))].append(resource)
    for ((scope, account, group, name), may), what in resources.items():
        level, why = risks((group,), what, may, named=bool(name))
        if scope == NAMESPACE and level == Level.DANGER:
            level = Level.CAUTION
        names = (name,) if name else ()
        yield Permission(scope, account, (group,), tuple(sorted(what)), may, names, (), level, why)
