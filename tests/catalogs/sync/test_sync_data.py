"""Real catalogs, counted and validated by another reader of the same bytes."""

import json
import lzma
from collections import Counter

import pytest

from catalogs.models import Bundle, BundleGVK, Catalog, Channel, ChannelEntry, Package
from catalogs.sync.catalog import sync_catalog

pytestmark = [pytest.mark.django_db, pytest.mark.data]


def plain_head(entries: list[dict]) -> str:
    """The only entry that no entry replaces or skips, "" when there isn't exactly one."""
    left = {entry["name"] for entry in entries}
    for entry in entries:
        left -= {entry.get("replaces"), *(entry.get("skips") or ())}
    return left.pop() if len(left) == 1 else ""


@pytest.mark.parametrize("name", ["community-4.16", "community-4.20", "community-full"])
def test_a_real_catalog_is_synced_whole(shared_data, name):
    path = shared_data / "catalogs" / f"{name}.jsonl.xz"
    schemas: Counter[str] = Counter()
    heads, entries, defaults, gvks = {}, 0, {}, 0
    with lzma.open(path) as lines:
        for line in lines:
            blob = json.loads(line)
            schemas[blob["schema"]] += 1
            if blob["schema"] == "olm.channel":
                heads[blob["package"], blob["name"]] = plain_head(blob["entries"])
                entries += len({entry["name"] for entry in blob["entries"]})
            elif blob["schema"] == "olm.package":
                defaults[blob["name"]] = blob["defaultChannel"]
            else:
                kinds = ("olm.gvk", "olm.gvk.required")
                gvks += sum(found["type"] in kinds for found in blob["properties"])
    catalog = Catalog.objects.create(name=name, slug=name, source_kind="File", source=str(path))
    result = sync_catalog(catalog)
    assert (result.outcome, result.packages, result.channels, result.bundles) == (
        "changed",
        schemas["olm.package"],
        schemas["olm.channel"],
        schemas["olm.bundle"],
    )
    assert dict(Package.objects.values_list("name", "default_channel")) == defaults
    stored = Channel.objects.values_list("package__name", "name", "head")
    assert {(package, channel): head for package, channel, head in stored} == heads
    assert ChannelEntry.objects.count() == entries
    assert BundleGVK.objects.count() == gvks
    assert not Bundle.objects.filter(install_modes_known=False).exists()
    assert not Package.objects.filter(head_bundle="").exists()
