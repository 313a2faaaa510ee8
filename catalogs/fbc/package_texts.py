"""What a package says about itself, from the bundle that stands for it: texts, icon, search words.

Pure: knows the CSV's shapes and markup, neither channels nor the database.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from catalogs.fbc import blob, csvs
from catalogs.fbc.bundle import supported
from catalogs.markup import text as markup


@dataclass(frozen=True, slots=True)
class Texts:
    """What the bundle that stands for the package says about it."""

    display_name: str = ""
    summary: str = ""
    provider: str = ""
    categories: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    capability: str = ""
    infrastructure_features: list[str] = field(default_factory=list)
    install_modes: list[str] = field(default_factory=list)
    description_html: str = ""
    links: list[dict[str, str]] = field(default_factory=list)
    maintainers: list[dict[str, str]] = field(default_factory=list)
    icon: markup.Icon | None = None


def read_texts(package: blob.PackageIn, csv: csvs.Csv | None, icon: markup.Icon | None) -> Texts:
    """`icon` is the package's own; without one its CSV's is taken."""
    found = csvs.read_texts(csv) if csv else csvs.CsvTexts()
    annotations = found.annotations or {}
    description = found.description or package.description or ""
    short = annotations.get("description") or package.description or description
    if package.icon is None and csv and csv.icon:
        icon = markup.read_icon(csv.icon.base64data or "", csv.icon.mediatype or "")
    return Texts(
        display_name=(found.displayName or "").strip(),
        summary=markup.plain_summary(short),
        provider=((found.provider.name if found.provider else "") or "").strip(),
        categories=_unique(annotations.get("categories", "").split(",")),
        keywords=_unique(found.keywords or []),
        capability=annotations.get("capabilities", "").strip(),
        infrastructure_features=_features(annotations),
        install_modes=supported(found.installModes),
        description_html=markup.render_markdown(description),
        links=[
            {"name": link.name or url, "url": url}
            for link in found.links or ()
            if (url := markup.safe_url(link.url or ""))
        ],
        maintainers=[
            {"name": person.name or "", "email": person.email or ""}
            for person in found.maintainers or ()
        ],
        icon=icon,
    )


def _features(annotations: dict[str, str]) -> list[str]:
    """Infrastructure features by both notations: a JSON list, and one annotation per feature."""
    listed: list[str] = []
    text = annotations.get("operators.openshift.io/infrastructure-features", "")
    try:
        listed = msgspec.json.decode(text, type=list[str]) if text else []
    except msgspec.DecodeError:
        listed = []
    prefix = "features.operators.openshift.io/"
    listed += [
        key.removeprefix(prefix)
        for key, value in annotations.items()
        if key.startswith(prefix) and value == "true"
    ]
    return _unique(listed)


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for value in values if (text := value.strip())))
