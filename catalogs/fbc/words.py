"""Words as search sees them: folded, cut from any text, gathered for each package.

Owns what is indexed of a package: its words, the kinds that its bundles provide, the repositories
of their images. Pure: knows neither the database nor queries; a search cuts its words here too, so
that both sides agree.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html import unescape

from catalogs.fbc.bundle import BundleFacts
from catalogs.fbc.texts import Texts

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
    # Not one by one: a long text of an alphabet would be as many objects at once.
    accents = [ord(char) for char in set(plain) if unicodedata.combining(char)]
    return plain.translate(dict.fromkeys(accents)) if accents else plain


def words_of(text: str) -> list[str]:
    """The folded words of `text`: runs of letters and digits, in its order, with repeats."""
    folded = fold(text)
    found = (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)
    return [word[:MAX_WORD] for word in found]


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
    parts = [name, texts.display_name, *texts.keywords, *kinds, texts.provider, *texts.categories]
    found = dict.fromkeys(words_of(" ".join(parts)[:MAX_TEXT]))
    found.update(dict.fromkeys(words_of(texts.summary)))
    found.update(dict.fromkeys(words_of(plain_text(texts.description_html))))
    return " ".join(list(found)[:MAX_WORDS])


class Gatherer:
    """Notes the bundles of one package after another; `take` ends a package."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[tuple[str, str, str, bool]]] = {}
        self._images: set[str] = set()

    def note(self, facts: BundleFacts) -> None:
        self._kinds[facts.name] = facts.gvks
        self._images.add(facts.image)
        self._images.update(image for _, image in facts.images)

    def take(
        self, name: str, texts: Texts, head: str
    ) -> tuple[str, list[str], list[str], list[str]]:
        """Words, GROUP/KIND that the bundle `head` provides, those of other bundles only,
        repositories; all sorted. Forgets the package."""
        now = dict.fromkeys(_provided(self._kinds.pop(head, ())))
        every = {kind for gvks in self._kinds.values() for kind in _provided(gvks)}
        repositories = {repository_of(image) for image in self._images if image}
        words = document(name, texts, [kind.rpartition("/")[2] for kind in now])
        self._kinds, self._images = {}, set()
        return words, sorted(now), sorted(every.difference(now)), sorted(repositories)


def _provided(gvks: Iterable[tuple[str, str, str, bool]]) -> Iterator[str]:
    return (f"{group}/{kind}" for group, _, kind, required in gvks if not required)
