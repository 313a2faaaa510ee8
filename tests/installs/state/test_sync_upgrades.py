"""Which newer version an operator could have, and what keeps it from it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from catalogs.graph import GraphEntry
from catalogs.models import Catalog
from catalogs.semver import read_version
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from installs.models import Operator
from installs.state.catalog_offers import UpgradeOffer, is_usable, offers_of, usable_catalogs
from installs.state.full_sync import sync_cluster
from installs.state.observation import ComponentRow
from installs.state.upgrades import NONE, Upgrade, is_deprecated, of_extension, version_of
from olmweb.kube.resources import CLUSTER_EXTENSIONS
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_package
from tests.kubefake import KubeFake
from tests.worlds import cluster as world


def offer(
    channels: Mapping[str, Sequence[str]],
    *,
    catalog: str = "community",
    priority: int = 0,
    deprecated: tuple[str, ...] = (),
) -> UpgradeOffer:
    """Bundles `etcd.vVERSION`, each replacing the one before it in its channel."""
    names = {channel: [f"etcd.v{one}" for one in listed] for channel, listed in channels.items()}
    versions = {f"etcd.v{one}": one for listed in channels.values() for one in listed}
    return UpgradeOffer(
        catalog=catalog,
        priority=priority,
        cluster_catalog=True,
        entries={
            channel: [GraphEntry(name, listed[i - 1] if i else "") for i, name in enumerate(listed)]
            for channel, listed in names.items()
        },
        heads={channel: listed[-1] for channel, listed in names.items()},
        versions=versions,
        parsed={name: one for name, v in versions.items() if (one := read_version(v))},
        deprecated={f"etcd.v{one}" for one in deprecated},
    )


def extension(version: str = "1.0.0", **fields: Any) -> Operator:
    policy = fields.pop("policy", "CatalogProvided")
    return Operator(
        kind="ClusterExtension",
        name="etcd",
        package="etcd",
        version=version,
        bundle=f"etcd.v{version}",
        details={"policy": policy},
        **fields,
    )


STABLE = {"stable": ("1.0.0", "1.1.0", "1.2.0")}


def test_the_next_version_of_a_chain_is_the_upgrade_and_not_a_later_one() -> None:
    assert of_extension(extension(), [offer(STABLE)]) == Upgrade("1.1.0")
    assert of_extension(extension("1.2.0"), [offer(STABLE)]) == NONE
    assert of_extension(extension("9.0.0"), [offer(STABLE)]) == NONE


def test_an_upgrade_over_any_channel_counts_unless_the_spec_names_others() -> None:
    two = offer({"stable": ("1.0.0",), "beta": ("1.0.0", "2.0.0")})
    assert of_extension(extension(), [two]) == Upgrade("2.0.0")
    held = "2.0.0 is in the channels beta; the spec asks for stable."
    assert of_extension(extension(channel="stable"), [two]) == Upgrade("2.0.0", held)
    assert of_extension(extension(channel="stable, beta"), [two]) == Upgrade("2.0.0")


def test_a_range_of_the_spec_holds_what_it_leaves_out() -> None:
    held = "The spec's version range <1.1.0 leaves out 1.1.0."
    found = of_extension(extension(version_asked="<1.1.0"), [offer({"s": ("1.0.0", "1.1.0")})])
    assert found == Upgrade("1.1.0", held)
    assert of_extension(extension(version_asked="1.x"), [offer(STABLE)]) == Upgrade("1.1.0")
    assert of_extension(extension(version_asked="no range"), [offer(STABLE)]).held == ""


def test_a_newer_version_without_a_way_to_it_is_held_unless_the_spec_certifies_itself() -> None:
    apart = offer({"old": ("1.0.0",), "new": ("2.0.0", "2.1.0")})
    held = "Catalog community has no upgrade from 1.0.0 to 2.1.0."
    assert of_extension(extension(), [apart]) == Upgrade("2.1.0", held)
    assert of_extension(extension(policy="SelfCertified"), [apart]) == Upgrade("2.1.0")


def test_a_newer_version_without_a_direct_upgrade_names_the_versions_between() -> None:
    pinned = extension(version_asked="1.0.0")
    held = "Catalog community has no direct upgrade from 1.0.0 to 1.2.0; upgrade over 1.1.0."
    assert of_extension(pinned, [offer(STABLE)]) == Upgrade("1.2.0", held)


def test_what_is_not_deprecated_comes_before_what_is() -> None:
    row = extension(policy="SelfCertified")
    assert of_extension(row, [offer(STABLE, deprecated=("1.2.0",))]) == Upgrade("1.1.0")
    gone = offer(STABLE, deprecated=("1.1.0", "1.2.0"))
    assert of_extension(row, [gone]) == Upgrade("1.2.0")


def test_of_several_catalogs_the_one_of_the_highest_priority_counts() -> None:
    low, high = offer(STABLE), offer({"s": ("1.0.0", "1.0.1")}, catalog="ours", priority=10)
    assert of_extension(extension(), [low, high]) == Upgrade("1.0.1")
    assert of_extension(extension(catalog="community"), [low, high]) == Upgrade("1.1.0")
    assert of_extension(extension(catalog="nowhere"), [low, high]) == NONE


def test_a_catalog_of_a_higher_priority_with_the_installed_version_alone_holds_the_upgrade() -> (
    None
):
    low, high = offer(STABLE), offer({"s": ("1.0.0",)}, catalog="ours", priority=10)
    held = "Catalog ours has priority 10 over 0, and no newer version than 1.0.0."
    assert of_extension(extension(), [low, high]) == Upgrade("1.1.0", held)
    assert of_extension(extension(catalog="community"), [low, high]) == Upgrade("1.1.0")
    equal = offer({"s": ("1.0.0",)}, catalog="ours")
    assert of_extension(extension(), [low, equal]) == Upgrade("1.1.0")
    deprecated = offer({"s": ("1.0.0",)}, catalog="ours", priority=10, deprecated=("1.0.0",))
    assert of_extension(extension(), [low, deprecated]) == Upgrade("1.1.0")
    other = extension(channel="stable")
    assert of_extension(other, [low, high]) == Upgrade("1.1.0"), "ours has no channel stable"


@pytest.mark.parametrize("row", [extension("not-a-version"), extension("")])
def test_what_has_no_version_has_no_upgrade(row: Operator) -> None:
    assert of_extension(row, [offer(STABLE)]) == NONE


def test_the_version_of_a_csv_is_its_own_word_or_the_catalogs_or_in_its_name() -> None:
    csv = ComponentRow(
        id=1,
        kind="ClusterServiceVersion",
        namespace="etcd",
        name="etcd.v9.9.9",
        conditions=[],
        details={"version": "1.0.0"},
        phase="",
        deleting=False,
        created_at=None,
        operator_id=None,
        image="",
    )
    assert version_of("etcd.v9.9.9", {csv.name: csv}, None) == "1.0.0"
    told = offer(STABLE)
    told.versions["odd-name"] = "3.0.0"
    assert version_of("odd-name", {}, told) == "3.0.0"
    assert version_of("etcd.v1.5.0", {}, None) == "1.5.0"
    assert version_of("etcd.very", {}, None) == version_of("etcd", {}, None) == ""


def test_conditions_on_deprecation_come_before_the_catalogs_word() -> None:
    row, told = extension(), offer(STABLE, deprecated=("1.0.0",))
    assert is_deprecated(row, [], told)
    assert not is_deprecated(row, [{"type": "Deprecated", "status": "False"}], told)
    assert is_deprecated(row, [{"type": "BundleDeprecated", "status": "True"}], None)
    assert not is_deprecated(row, [], None)


@pytest.mark.django_db
def test_offers_are_of_the_clusters_catalogs_and_of_those_without_a_cluster() -> None:
    ours, other = make_cluster(name="ours"), make_cluster(name="other")
    mine = make_catalog(name="mine", cluster=ours)
    for catalog in (mine, make_catalog(name="theirs", cluster=other), make_catalog(name="file")):
        make_package(name="etcd", catalog=catalog, bundles={"1.0.0": {"deprecated": True}})
    Catalog.objects.create(name="new", slug="new", cluster=ours)  # never read
    found = offers_of(ours.pk, {"etcd", "unknown"})
    assert [(one.catalog, one.cluster_catalog) for one in found["etcd"]] == [
        ("mine", True),
        ("file", False),
    ]
    assert found["etcd"][0].heads == {"stable": "etcd.v1.1.0"}
    assert found["etcd"][0].deprecated == {"etcd.v1.0.0"}
    assert "unknown" not in found


@pytest.mark.usefixtures("recorded")
def test_an_extension_gets_its_upgrade_when_its_catalog_gets_content(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_cluster_extension(
        fake,
        "ext",
        world.condition("Installed", "True", "Succeeded"),
        world.condition("Progressing", "True", "Succeeded", "Desired state reached"),
    )
    sync_cluster(cluster)
    assert Operator.objects.get().upgrade == ""
    catalog = make_catalog(name="community", cluster=cluster)
    make_package(
        name="ext-package", catalog=catalog, channels={"stable": ("1.0.0", "1.2.3", "2.0.0")}
    )
    (entry,) = catalog.packages.get().channels.get().entries.filter(name="ext-package.v2.0.0")
    entry.replaces = "ext.v1.2.3"
    entry.save()
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert (row.upgrade, row.upgrade_held, row.deprecated) == ("2.0.0", "", False)
    narrowed = fake._objects[CLUSTER_EXTENSIONS.group, CLUSTER_EXTENSIONS.plural]["ext"]
    narrowed["spec"]["source"]["catalog"]["version"] = "1.x"
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert row.upgrade_held == "The spec's version range 1.x leaves out 2.0.0."


@pytest.mark.django_db
def test_a_catalog_that_was_read_is_usable_as_the_query_selects_it() -> None:
    prod, lab = make_cluster(name="prod"), make_cluster(name="lab")
    for cluster in (None, prod, lab):
        for revision in (0, 1):
            for access_method in ("", PACKAGE_MANIFEST):
                make_catalog(
                    name=f"{cluster}-{revision}-{access_method or 'content'}",
                    cluster=cluster,
                    revision=revision,
                    access_method=access_method,
                )
    selected = set(Catalog.objects.filter(usable_catalogs(prod.pk)))
    assert {row for row in Catalog.objects.all() if is_usable(row, prod.pk)} == selected
    assert {row.cluster for row in selected} == {None, prod}
    assert len(selected) == 2
