"""The search terms of a package: its folded words, the kinds that its bundles provide, and the
repositories of their images.

A query is split into words by the same functions. Pure: no database.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html import unescape

from catalogs.fbc.bundle import BundleFacts, BundleGVKRow
from catalogs.fbc.package_texts import Texts

MAX_WORD = 64  # characters of a word that count
MAX_WORDS = 3000  # different words of a package: a real one has a tenth of that
MAX_TEXT = 200_000  # characters that words are cut from; folding can make 18 of one
# Languages without spaces between words: every character is a word.
_ALONE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[^\W_])+")
_TAG = re.compile(r"<[^<>]*>")


def fold(text: str) -> str:
    """Lower case without accents: what search compares."""
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
    """Every word that a package can be found by, once, with spaces between."""
    fields = [name, texts.display_name, *texts.keywords, *kinds, texts.provider, *texts.categories]
    words = dict.fromkeys(words_of(" ".join(fields)[:MAX_TEXT]))
    words.update(dict.fromkeys(words_of(texts.summary)))
    words.update(dict.fromkeys(words_of(plain_text(texts.description_html))))
    return " ".join(list(words)[:MAX_WORDS])


class SearchTerms:
    """What the bundles of one package contribute to search, `add`ed one after another. Lists are
    sorted; `head` is the name of the bundle that represents the package."""

    def __init__(self) -> None:
        self._gvks: dict[str, list[BundleGVKRow]] = {}  # by bundle
        self._images: set[str] = set()

    def add(self, facts: BundleFacts) -> None:
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
