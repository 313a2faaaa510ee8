"""Real catalogs compared: the counts beside those of another reader of the same bytes."""

import json
import lzma
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum
from django.db.models.functions import Length

from catalogs.models import Catalog, Package, PackageOutline
from catalogs.revisions.differences import differences, find_point
from catalogs.revisions.outline import decode
from catalogs.revisions.record import outline_of_rows
from catalogs.sync.catalog import sync_catalog

pytestmark = [pytest.mark.django_db, pytest.mark.data]
Raw = dict[str, dict[str, Any]]


def raw(path: Path) -> Raw:
    """Package to what of it is compared, read without any code of ours."""
    result: Raw = defaultdict(lambda: {"default": None, "channels": {}, "bundles": {}})
    with lzma.open(path) as lines:
        for line in lines:
            blob = json.loads(line)
            if blob["schema"] == "olm.package":
                result[blob["name"]]["default"] = blob["defaultChannel"]
            elif blob["schema"] == "olm.channel":
                result[blob["package"]]["channels"][blob["name"]] = blob["entries"]
            elif blob["schema"] == "olm.bundle":
                images = {item.get("image") for item in blob.get("relatedImages") or ()} - {
                    None,
                    "",
                }
                result[blob["package"]]["bundles"][blob["name"]] = (blob.get("image"), images)
    return result


def head(entries: list[dict[str, Any]]) -> str:
    left = {entry["name"] for entry in entries}
    for entry in entries:
        left -= {entry.get("replaces"), *(entry.get("skips") or ())}
    return left.pop() if len(left) == 1 else ""


def expected(before: Raw, after: Raw) -> dict[str, set[tuple[str, str]]]:
    """(package, subject) by kind; pruned bundles count as removed."""
    result: dict[str, set[tuple[str, str]]] = defaultdict(set)
    result["package removed"] = {(name, "") for name in before.keys() - after.keys()}
    result["package added"] = {(name, "") for name in after.keys() - before.keys()}
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        for kind, part in (("bundle", "bundles"), ("channel", "channels")):
            gone, come = old[part].keys() - new[part].keys(), new[part].keys() - old[part].keys()
            result[f"{kind} removed"] |= {(name, item) for item in gone}
            result[f"{kind} added"] |= {(name, item) for item in come}
        result["channel head moved"] |= {
            (name, channel)
            for channel in old["channels"].keys() & new["channels"].keys()
            if head(old["channels"][channel]) != head(new["channels"][channel])
        }
        result["images changed"] |= {
            (name, bundle)
            for bundle in old["bundles"].keys() & new["bundles"].keys()
            if old["bundles"][bundle] != new["bundles"][bundle]
        }
        if old["default"] != new["default"]:
            result["default channel changed"].add((name, ""))
    return {kind: subjects for kind, subjects in result.items() if subjects}


@pytest.fixture
def files(shared_data: Path) -> dict[str, Path]:
    names = ("4.16", "4.20", "full")
    return {name: shared_data / "catalogs" / f"community-{name}.jsonl.xz" for name in names}


def synced(name: str, path: Path) -> Catalog:
    catalog = Catalog.objects.create(slug=name, name=name, source_kind="File", source=str(path))
    assert sync_catalog(catalog).outcome == "changed"
    return catalog


def found_between(one: Catalog, other: Catalog) -> dict[str, set[tuple[str, str]]]:
    result: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for item in differences(find_point(one), find_point(other)):
        for change in item.changes:
            kind = change.kind.replace("pruned", "removed")
            result[kind].add((change.package, change.subject))
    return result


OURS = {"bundle changed", "channel changed", "deprecated", "no longer deprecated"}


def test_4_16_against_4_20_and_each_against_the_full_one_are_what_the_files_say(
    files: dict[str, Path],
) -> None:
    catalogs = {name: synced(name, path) for name, path in files.items()}
    contents = {name: raw(path) for name, path in files.items()}
    for item, other in (("4.16", "4.20"), ("4.20", "4.16"), ("4.16", "full"), ("full", "4.20")):
        result = found_between(catalogs[item], catalogs[other])
        wanted = expected(contents[item], contents[other])
        assert {kind: result[kind] for kind in result.keys() - OURS} == wanted, (item, other)
    upgrade = found_between(catalogs["4.16"], catalogs["4.20"])
    assert (len(upgrade["package removed"]), len(upgrade["package added"])) == (3, 22)
    assert "bundle changed" not in upgrade, "the same bundles, with the CSV in another form"
    assert "images changed" not in upgrade
    size = PackageOutline.objects.filter(catalog=catalogs["full"]).aggregate(
        size=Sum(Length("data"))
    )["size"]
    assert size < 500_000


def test_the_outline_of_the_rows_of_a_real_catalog_is_that_of_its_blobs(
    files: dict[str, Path],
) -> None:
    synced("4.20", files["4.20"])
    for package in Package.objects.all():
        outline = decode(PackageOutline.objects.get(package=package.name).data)
        assert outline_of_rows(package.pk) == outline
