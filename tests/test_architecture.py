"""The architecture page, the index of the documentation, and the size of each app's top level."""

import re

from tests.conftest import ROOT

APPS = ("olmweb", "catalogs", "installs")
TOP_LEVEL_FILES = 12
NOT_DESCRIBED = ("__pycache__", "migrations")


def test_every_package_is_on_the_architecture_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [path for app in APPS for path in (ROOT / app).iterdir() if path.is_dir()]
    names = [f"{path.parent.name}/{path.name}/" for path in folders]
    described = [name for name in names if not name.rstrip("/").endswith(NOT_DESCRIBED)]
    assert not [name for name in described if f"`{name}`" not in page]
    named = re.findall(r"`((?:olmweb|catalogs|installs)/[a-z_]*/)`", page)
    assert not [name for name in named if not (ROOT / name).is_dir()]


def test_the_top_level_of_an_app_stays_small() -> None:
    for app in APPS:
        files = [path.name for path in (ROOT / app).iterdir() if path.is_file()]
        assert len(files) <= TOP_LEVEL_FILES, f"{app}: {sorted(files)}"


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert not [page for page in pages if f"]({page})" not in index]
