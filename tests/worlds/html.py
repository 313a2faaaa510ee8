"""What every rendered page must hold: nothing inline, one heading, names for what can be used."""

import itertools
from html.parser import HTMLParser
from typing import Any

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
BLOCKS = {"dt", "dd", "th", "td", "tr", "li", "h2", "a"}  # whose texts are kept
FORBIDDEN_PREFIXES = ("hx-on", "hx-vals", "hx-vars", "on")


class Page(HTMLParser):
    """A page read into what the assertions need."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.controls: list[dict[str, str]] = []
        self.links: list[str] = []
        self.tables: list[bool] = []  # whether each has a name
        self.tags: list[str] = []
        self.words: list[str] = []
        self.texts: list[tuple[str, str]] = []  # (tag, text) of elements of BLOCKS, in their order
        self.open: list[str] = []
        self._begun: list[int] = []  # per open element of BLOCKS: words before it
        self.feed(text.replace("<wbr>", ""))  # a name is one word to a reader
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self._check_inline(tag, values)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "label" and "for" in values:
            self.labelled.add(values["for"])
        wrapped = "label" in self.open
        if (
            tag in ("input", "select", "textarea")
            and values.get("type") != "hidden"
            and not wrapped
        ):
            self.controls.append(values)
        if tag == "table":
            self.tables.append(bool(values.get("aria-label") or values.get("aria-labelledby")))
        if tag == "caption" and self.tables:
            self.tables[-1] = True
        if tag == "a":
            self.links.append(values.get("href", ""))
        if tag not in VOID:
            self.open.append(tag)
        if tag in BLOCKS:
            self._begun.append(len(self.words))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-1:] or 'nothing'}")
        if tag in BLOCKS and self._begun:
            words = self.words[self._begun.pop() :]
            self.texts.append((tag, " ".join(" ".join(words).split())))
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside in ("script", "style"):
            if data.strip():
                self.problems.append(f"text inside <{inside}>: {data.strip()[:60]}")
        else:
            self.words.append(data)

    def _check_inline(self, tag: str, values: dict[str, str]) -> None:
        if tag == "style" or "style" in values:
            self.problems.append(f"<{tag}> has inline style")
        if tag == "script" and not values.get("src", "").startswith("/static/"):
            self.problems.append("a script is not from /static/")
        for name, value in values.items():
            if name.startswith(FORBIDDEN_PREFIXES):
                self.problems.append(f"<{tag}> has {name}")
            if name in ("href", "src", "action") and value.lower().startswith(
                ("javascript:", "data:text", "vbscript:")
            ):
                self.problems.append(f"<{tag} {name}={value[:40]}>")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def texts_of(self, tag: str) -> list[str]:
        """The text of each element of a tag of BLOCKS."""
        return [text for name, text in self.texts if name == tag]

    def facts_below(self, heading: str) -> list[tuple[str, str]]:
        """The terms with their facts from an h2 to the next one."""
        begin = self.texts.index(("h2", heading)) + 1
        section = itertools.takewhile(lambda item: item[0] != "h2", self.texts[begin:])
        texts = [item for item in section if item[0] in ("dt", "dd")]
        pairs = itertools.pairwise(texts)
        return [(term, fact) for (a, term), (b, fact) in pairs if (a, b) == ("dt", "dd")]

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each row of tables; a cell with a table in it is none of these pages."""
        rows: list[list[str]] = []
        cells: list[str] = []
        for tag, text in self.texts:
            if tag in ("td", "th"):
                cells.append(text)
            elif tag == "tr":
                rows.append(cells)
                cells = []
        return rows


def read(response: Any) -> Page:
    return Page(response.content.decode())


def assert_page(response: Any, status: int = 200) -> Page:
    """A whole page: sound markup, nothing inline, unique ids, one h1, landmarks, named controls."""
    assert response.status_code == status, response.content.decode()[:600]
    page = read(response)
    assert page.problems == []
    assert page.open == [], "tags left open"
    assert len(page.ids) == len(set(page.ids)), "ids are not unique"
    assert page.tags.count("h1") == 1
    assert page.tags.count("html") == page.tags.count("main") == 1
    assert_named(page)
    return page


def assert_fragment(response: Any, status: int = 200) -> Page:
    """What htmx swaps in: sound markup, and no page around it."""
    assert response.status_code == status, response.content.decode()[:600]
    page = read(response)
    assert page.problems == []
    assert not {"html", "body", "main", "head"} & set(page.tags)
    assert "HX-Request" in response["Vary"]
    return page


def assert_named(page: Page) -> None:
    for control in page.controls:
        named = control.get("aria-label") or control.get("id") in page.labelled
        assert named, f"a control has no label: {control}"
    assert all(page.tables), "a table has no name"
