"""The requirements of a bundle, and the packages that meet them for the resolver of OLM v0."""

from typing import Any

import pytest

from catalogs.contents.bundle_facts import ApiKind
from catalogs.semver import parse
from catalogs.verdicts.dependencies import (
    Dependency,
    NamespaceResolver,
    RequiredPackage,
    SearchedCatalog,
    requirements_of,
)
from catalogs.verdicts.facts import ClusterOffers

API = ApiKind("store.example", "v1", "Bucket")
STORE = RequiredPackage("store", ">=2.0.0")


def offers(*providers: str, **versions: str) -> ClusterOffers:
    provided = {API: frozenset(providers)} if providers else {}
    return ClusterOffers(provided, {name: (parse(text),) for name, text in versions.items()})


def resolver(*catalogs: SearchedCatalog, **fields: Any) -> NamespaceResolver:
    values: dict[str, Any] = {"own": ("olm", "own"), "own_catalogs_only": False, "installed": {}}
    values |= {"all_offers": offers("store", "vault"), **fields}
    return NamespaceResolver(namespace="team", catalogs=catalogs, **values)


def constraint(**value: Any) -> dict[str, Any]:
    names = {"package": ("packageName", "versionRange"), "gvk": ("group", "version", "kind")}
    return {
        word: dict(zip(names[word], content, strict=True))
        if word in names
        else {"constraints": content}
        for word, content in value.items()
    }


def test_constraints_that_must_all_hold_are_requirements_in_their_order() -> None:
    either = constraint(any=[constraint(package=STORE), constraint(gvk=API)])
    nested = constraint(all=[constraint(gvk=API), either, constraint(package=("b", "1.x"))])
    requirements, others = requirements_of([STORE], [], [nested, constraint(package=STORE), "x"])
    assert requirements == [STORE, API, RequiredPackage("b", "1.x")]
    assert others == [either, "x"]


def test_a_requirement_that_a_constraint_repeats_counts_once() -> None:
    wide = constraint(all=[constraint(package=STORE)] * 100_000)
    assert requirements_of((), (), [wide]) == ([STORE], [])


def test_catalogs_are_searched_in_the_order_of_the_resolver() -> None:
    def catalog(namespace: str, name: str, priority: int = 0) -> SearchedCatalog:
        return SearchedCatalog(namespace, name, priority, offers(store="2.1.0"))

    ordered = [
        catalog("olm", "own", -5),
        catalog("olm", "z", 7),
        catalog("team", "b"),
        catalog("olm", "a"),
        catalog("openshift-marketplace", "c"),
    ]
    hidden = catalog("other", "a", 99)
    while ordered:
        first = ordered[0]
        dependency = resolver(hidden, *reversed(ordered)).resolve(STORE)
        assert dependency.catalog == f"{first.namespace}/{first.name}"
        del ordered[0]
    assert resolver(hidden).resolve(STORE) == Dependency("Package store >=2.0.0")
    alone = resolver(catalog("olm", "own"), catalog("team", "b"), own_catalogs_only=True)
    assert alone.resolve(STORE).catalog == "team/b"


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2.0.0", {"installed": True}),
        ("v2.3.0", {"installed": True}),
        ("", {"installed": True}),
        ("1.9.0", {"installed": True, "outdated": "1.9.0"}),
    ],
)
def test_an_installed_package_counts_before_those_of_catalogs(
    version: str, fields: dict[str, Any]
) -> None:
    catalog = SearchedCatalog("team", "b", 0, offers("store", "vault", store="2.1.0"))
    here = resolver(catalog, installed={"store": [version]})
    assert here.resolve(STORE) == Dependency("Package store >=2.0.0", ("store",), **fields)
    text = "API Bucket (store.example/v1)"
    assert here.resolve(API) == Dependency(text, ("store",), installed=True)
    assert resolver(catalog).resolve(API) == Dependency(text, ("store", "vault"), "team/b")


def test_packages_beyond_the_first_are_counted_and_an_unreadable_range_has_none() -> None:
    catalog = SearchedCatalog("team", "b", 0, offers(*"edcba", store="2.1.0"))
    dependency = resolver(catalog).resolve(API)
    assert (dependency.packages, dependency.more) == (("a", "b", "c"), 2)
    assert not resolver(catalog).resolve(RequiredPackage("store", "~2")).packages
