"""The texts, the icon and the search terms of a package.

A query is split into words by the same functions. Pure.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape

import msgspec

from catalogs.fbc import blob
from catalogs.fbc.bundle import BundleGVKRow, Csv, CsvTexts, ParsedBundle, supported
from catalogs.markup import text as markup

MAX_WORD = 64  # characters of a word that count
MAX_WORDS = 3000  # different words of a package: a real one has a tenth of that
MAX_TEXT = 200_000  # characters that words are cut from; folding can make 18 of one
# Languages without spaces between words: every character is a word.
_ALONE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[^\W_])+")
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of the bundle that represents the package."""

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
    icon: markup.SafeIcon | None = None


def read_texts(package: blob.PackageIn, csv: Csv | None, icon: markup.SafeIcon | None) -> Texts:
    """`icon` is the package's own; the default is that of its CSV. Parts of a wrong type are left
    out, as is an icon with nothing to draw."""
    texts = blob.decode(csv.raw, CsvTexts)[0] if csv else CsvTexts()
    annotations = texts.annotations or {}
    description = texts.description or package.description or ""
    short = annotations.get("description") or package.description or description
    if package.icon is None and csv and csv.icon:
        icon = markup.read_icon(csv.icon.base64data or "", csv.icon.mediatype or "")
    return Texts(
        display_name=(texts.displayName or "").strip(),
        summary=markup.plain_summary(short),
        provider=((texts.provider.name if texts.provider else "") or "").strip(),
        categories=_unique(annotations.get("categories", "").split(",")),
        keywords=_unique(texts.keywords or []),
        capability=annotations.get("capabilities", "").strip(),
        infrastructure_features=_features(annotations),
        install_modes=supported(texts.installModes),
        description_html=markup.render_markdown(description),
        links=[
            {"name": link.name or url, "url": url}
            for link in texts.links or ()
            if (url := markup.safe_url(link.url or ""))
        ],
        maintainers=[
            {"name": person.name or "", "email": person.email or ""}
            for person in texts.maintainers or ()
        ],
        icon=None if icon and icon.is_blank else icon,
    )


def _features(annotations: dict[str, str]) -> list[str]:
    """Infrastructure features by both notations: a JSON list, and one annotation per feature."""
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


# -- search


def fold(text: str) -> str:
    """Lower case without accents, for comparisons in search."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    # Per distinct character: one object per character of a long text would fill the memory.
    accents = [ord(char) for char in set(plain) if unicodedata.combining(char)]
    return plain.translate(dict.fromkeys(accents)) if accents else plain


def words_of(text: str) -> list[str]:
    """The folded words of `text`: runs of letters and digits, in its order, with repeats."""
    folded = fold(text)
    words = (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)
    return [word[:MAX_WORD] for word in words]


def plain_text(html: str) -> str:
    """The text of HTML that `markup.render_markdown` wrote, in one line."""
    return " ".join(unescape(_TAG.sub(" ", html)).split())


def repository_of(image: str) -> str:
    """An image reference without tag and digest: `quay.io/a/b:v1@sha256:...` -> `quay.io/a/b`."""
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def document(name: str, texts: Texts, kinds: Iterable[str]) -> str:
    """The search words of a package, each once, with spaces between."""
    fields = [name, texts.display_name, *texts.keywords, *kinds, texts.provider, *texts.categories]
    words = dict.fromkeys(words_of(" ".join(fields)[:MAX_TEXT]))
    words.update(dict.fromkeys(words_of(texts.summary)))
    words.update(dict.fromkeys(words_of(plain_text(texts.description_html))))
    return " ".join(list(words)[:MAX_WORDS])


class SearchTerms:
    """The search terms of one package from its bundles; call `add` for each. Lists are sorted;
    `head` is the name of the bundle that represents the package."""

    def __init__(self) -> None:
        self._gvks: dict[str, list[BundleGVKRow]] = {}  # by bundle
        self._images: set[str] = set()

    def add(self, facts: ParsedBundle) -> None:
        self._gvks[facts.name] = facts.gvks
        self._images.add(facts.image)
        self._images.update(related.image for related in facts.images)

    def words(self, name: str, texts: Texts, head: str) -> str:
        gvks = self._gvks.get(head, ())
        return document(name, texts, [gvk.kind for gvk in gvks if not gvk.required])

    def provided_by(self, head: str) -> list[str]:
        """GROUP/KIND that this bundle provides."""
        return sorted(set(_provided(self._gvks.get(head, ()))))

    def provided_only_by_others(self, head: str) -> list[str]:
        """GROUP/KIND that only other bundles provide."""
        every = {kind for gvks in self._gvks.values() for kind in _provided(gvks)}
        return sorted(every.difference(_provided(self._gvks.get(head, ()))))

    def repositories(self) -> list[str]:
        return sorted({repository_of(image) for image in self._images if image})


def _provided(gvks: Iterable[BundleGVKRow]) -> Iterator[str]:
    return (f"{gvk.group}/{gvk.kind}" for gvk in gvks if not gvk.required)
