"""CatalogSources as real `opm serve` answers them, beside the same catalog read from its file."""

import lzma
from contextlib import contextmanager
from pathlib import Path

import pytest

from catalogs.models import Bundle, Catalog, Channel, ChannelEntry, Package
from catalogs.sources.registry.source import RegistrySource
from catalogs.sync.catalog import sync_catalog
from tests.peers.controllers import Opm, opm_serve
from tests.worlds.fbc import bundle_blob, channel_blob, jsonl, package, package_blob
from tests.worlds.syncing import make

pytestmark = [pytest.mark.peers, pytest.mark.django_db]

ICON = {"base64data": "iVBORw0KGgo=", "mediatype": "image/png"}


def teas() -> list[dict]:
    """Two channels with replaces, skips and a range; deprecations; dependencies; pre-releases."""
    names = [f"tea.v{version}" for version in ("1.0.0", "1.1.0-rc.1", "1.1.0", "2.0.0")]
    old, candidate, middle, new = names
    entries: list[dict] = [
        {"name": old},
        {"name": middle, "replaces": old, "skips": [candidate], "skipRange": "<1.1.0"},
        {"name": new, "replaces": middle},
    ]
    needs = {
        "type": "olm.package.required",
        "value": {"packageName": "etcd", "versionRange": ">=1.0.0"},
    }
    gone = {"reference": {"schema": "olm.channel", "name": "old"}, "message": "Use stable."}
    return [
        package_blob("tea", icon=ICON, description="Leaves."),
        channel_blob("tea", "stable", entries),
        channel_blob("tea", "old", [{"name": old}]),
        *(bundle_blob(name.partition(".v")[2], "tea") for name in (old, middle)),
        bundle_blob("2.0.0", "tea", properties=[needs]),
        {"schema": "olm.deprecations", "package": "tea", "entries": [gone]},
        *package("etcd", ("1.0.0", "1.1.0", "1.10.0")),
    ]


@contextmanager
def served(folder: Path, content: bytes):
    catalog = folder / "served"
    catalog.mkdir()
    (catalog / "catalog.json").write_bytes(content)
    with opm_serve(catalog) as opm:
        yield opm


def source_of(opm: Opm) -> RegistrySource:
    @contextmanager
    def reach():
        yield opm.address

    return RegistrySource("CatalogSource teas", reach)


def facts(catalog: Catalog) -> dict[str, set[tuple]]:
    """What both ways must tell alike."""
    packages = Package.objects.filter(catalog=catalog)
    entries = ChannelEntry.objects.filter(channel__package__catalog=catalog)
    channels = Channel.objects.filter(package__catalog=catalog)
    bundles = Bundle.objects.filter(package__catalog=catalog)
    shown = ("name", "default_channel", "head_bundle", "head_version", "display_name", "provider")
    return {
        "packages": set(packages.values_list(*shown, "deprecated", "summary", "icon")),
        "channels": set(
            channels.values_list("package__name", "name", "head", "is_default", "deprecation")
        ),
        "entries": {
            (*row[:4], tuple(row[4]), row[5])
            for row in entries.values_list(
                *("channel__package__name", "channel__name", "name", "replaces"),
                *("skips", "skip_range"),
            )
        },
        "bundles": set(
            bundles.values_list("package__name", "name", "version", "image", "deprecated")
        ),
    }


def test_opm_tells_the_same_catalog_as_its_folder(opm_is_built, tmp_path):
    content = jsonl(teas())
    direct = make(tmp_path, content, name="direct")
    assert sync_catalog(direct).outcome == "changed"
    told = Catalog.objects.create(name="told", slug="told", source_kind="CatalogSource")
    with served(tmp_path, content) as opm:
        first = sync_catalog(told, source=source_of(opm))
        assert (first.outcome, first.error) == ("changed", "")
        assert first.requests == 2 + 2 + 3  # two lists, each package, each channel's head
        again = sync_catalog(told, source=source_of(opm))
    assert (again.outcome, again.rows_written) == ("unchanged", 1)
    assert facts(told) == facts(direct)
    for one in (told, direct):
        one.refresh_from_db()
    assert told.problem_count == direct.problem_count == 0


def test_a_registry_that_was_killed_leaves_the_content(opm_is_built, tmp_path):
    told = Catalog.objects.create(name="told", slug="told", source_kind="CatalogSource")
    with served(tmp_path, jsonl(teas())) as opm:
        sync_catalog(told, source=source_of(opm))
        before = facts(told)
        opm.kill()
        dead = sync_catalog(told, source=source_of(opm))
    assert (dead.outcome, dead.error_code) == ("failed", "unreachable")
    assert facts(told) == before


@pytest.mark.data
@pytest.mark.parametrize("name", ["community-4.16", "community-4.20"])
def test_opm_tells_the_same_of_a_real_catalog(opm_is_built, shared_data, tmp_path, name):
    content = lzma.decompress((shared_data / "catalogs" / f"{name}.jsonl.xz").read_bytes())
    direct = make(tmp_path, content, name="direct")
    sync_catalog(direct)
    told = Catalog.objects.create(name="told", slug="told", source_kind="CatalogSource")
    with served(tmp_path, content) as opm:
        result = sync_catalog(told, source=source_of(opm))
    assert (result.outcome, result.error) == ("changed", "")
    ours, theirs = facts(told), facts(direct)
    for part in ours:
        assert ours[part] == theirs[part], part
