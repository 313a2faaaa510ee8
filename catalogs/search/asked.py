"""A search, taken apart: plain words, `provides:` and `image:`.

Pure. Nothing a person types is an error: quotes, operators and other signs only separate words.
"""

from dataclasses import dataclass

from catalogs.fbc.search_words import fold, words_of

MAX_WORDS = 10  # of a search that count
PROVIDES, IMAGE = "provides:", "image:"


@dataclass(frozen=True, slots=True)
class Asked:
    """`words` are folded, each once; `provides` and `images` as they were written."""

    words: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    ignored: bool = False  # some words were too many

    @property
    def nothing(self) -> bool:
        return not (self.words or self.provides or self.images)

    @property
    def phrase(self) -> str:
        """The words as names are compared with them: after a space each."""
        return "".join(f" {word}" for word in self.words)


def take_apart(text: str) -> Asked:
    """A prefix without anything behind it says nothing yet and is left out."""
    plain: list[str] = []
    marked: dict[str, list[str]] = {PROVIDES: [], IMAGE: []}
    for part in text.split():
        prefix = next((each for each in marked if part.lower().startswith(each)), "")
        value = part[len(prefix) :].strip("\"'") if prefix else ""
        if value:
            marked[prefix].append(value)
        elif not prefix:
            plain += words_of(part)
    words = tuple(dict.fromkeys(plain))
    return Asked(
        words=words[:MAX_WORDS],
        provides=tuple(dict.fromkeys(marked[PROVIDES]))[:MAX_WORDS],
        images=tuple(dict.fromkeys(marked[IMAGE]))[:MAX_WORDS],
        ignored=len(words) > MAX_WORDS,
    )


def provides(asked: str, kind: str) -> bool:
    """Whether GROUP/KIND `kind` is what `provides:asked` means: a kind, a group, or both."""
    wanted, (group, _, name) = fold(asked), fold(kind).rpartition("/")
    return wanted in (name, group, f"{group}/{name}")
