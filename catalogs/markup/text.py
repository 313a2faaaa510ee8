"""Makes untrusted texts, links and icons of catalogs safe to show. Pure.

All inputs are capped, so hostile ones cost bounded time.
"""

import binascii
import hashlib
import re
from base64 import b64decode
from dataclasses import dataclass
from html import escape, unescape
from typing import Final
from urllib.parse import urlsplit

import comrak
import nh3

from catalogs.markup.svg import SvgFault, scrub

MAX_TEXT = 200_000  # characters of Markdown that are rendered
MAX_HTML = 2_000_000  # characters of HTML; tables can make more out of a small text
MAX_CELLS = 100_000  # of tables, counted generously; real descriptions have at most 3,000
MAX_DEPTH = 60  # nested elements; sanitising takes time with the square of the depth
MAX_ICON = 1_000_000  # bytes, before and after scrubbing
MAX_URL = 2_000
CUT_NOTE: Final = "<p><em>The text is longer than 200,000 characters: the rest is cut.</em></p>"

_EXTENSIONS = comrak.ExtensionOptions()
_EXTENSIONS.table = _EXTENSIONS.autolink = _EXTENSIONS.strikethrough = True
_WITHOUT_TABLES = comrak.ExtensionOptions()
_WITHOUT_TABLES.autolink = _WITHOUT_TABLES.strikethrough = True
_RENDERING = comrak.RenderOptions()  # its default leaves raw HTML and unsafe links out
_RENDERING.github_pre_lang = True
_IMAGE = re.compile(r'<img src="[^"]*" alt="([^"]*)"(?: title="[^"]*")? />')
_HEADING = re.compile(r"<(/?)h([1-6])>")
_TAG = re.compile(r"<(/?)[a-z][^<>]*?(/?)>")
_ANY_TAG = re.compile(r"<[^<>]*>")
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_MAIL = re.compile(r"mailto:[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_DATA_URI = re.compile(r"data:[^,]{0,100};base64,", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n?|\n")  # as the renderer reads them
_WORD = re.compile(r"[a-z0-9]+")
_TAGS = (
    "p br hr h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td"
)
_ALIGN = {"align": {"left", "right", "center"}}


# -- text -----------------------------------------------------------------------------------------


def render_markdown(text: str) -> str:
    """Markdown as HTML that is safe to mark so.

    Raw HTML is left out, images become their alternative text, headings start at h3, links are
    http(s) or mailto with rel="nofollow noopener noreferrer". Text past 200,000 characters is cut,
    with a note. Tables that could have more than 100,000 cells, and text whose HTML would be huge
    or absurdly nested, are shown as they were written.
    """
    part = text[:MAX_TEXT]
    html = _IMAGE.sub(r"\1", _to_html(part))
    if len(html) > MAX_HTML or _depth(html) > MAX_DEPTH:
        html = f"<pre>{escape(part)}</pre>"
    html = _HEADING.sub(lambda tag: f"<{tag[1]}h{min(6, int(tag[2]) + 2)}>", html)
    return _CLEANER.clean(html) + (CUT_NOTE if len(text) > MAX_TEXT else "")


def plain_summary(text: str, limit: int = 200) -> str:
    """The first paragraph of a Markdown text as one line of plain text, at most `limit` characters.

    Plain text, not HTML: the caller escapes it. Reads the first 5,000 characters only.
    """
    html = _to_html(text[:5_000])
    for match in _PARAGRAPH.finditer(html):
        words = unescape(_ANY_TAG.sub("", _IMAGE.sub("", match[1]))).split()
        if words:
            break
    else:
        words = unescape(_ANY_TAG.sub(" ", _IMAGE.sub("", html))).split()
    line = " ".join(words)
    if len(line) <= limit:
        return line
    cut = line[: limit - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[limit // 2 :] else cut).rstrip(" ,;:.") + "…"


def safe_url(text: str) -> str | None:
    """The address if it may be a link (http or https, no user part, printable), else None."""
    url = text.strip(" ")
    if len(url) > MAX_URL or " " in url or "\\" in url or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises when it isn't a number
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return url


def _to_html(text: str) -> str:
    """GitHub's Markdown without raw HTML; lone surrogates, which JSON allows, are replaced."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    extensions = _WITHOUT_TABLES if _cells(readable) > MAX_CELLS else _EXTENSIONS
    html: str = comrak.render_markdown(
        readable, extension_options=extensions, render_options=_RENDERING
    )
    return html


def _cells(text: str) -> int:
    """The most cells that the tables of a text can have.

    The renderer fills every row up to the width of its table's head: 100 kB can become 15 million
    cells, 200 kB more than memory holds.
    """
    lines = _LINE_END.split(text)
    return len(lines) * (1 + max(line.count("|") for line in lines))


def _depth(html: str) -> int:
    """The deepest nesting of elements in the renderer's output, which is always well formed."""
    depth = deepest = 0
    for tag in _TAG.finditer(html):
        if tag[1]:
            depth -= 1
        elif not tag[2]:
            depth += 1
            deepest = max(deepest, depth)
    return deepest


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Called for each attribute; the cleaner would keep title and lang on every element."""
    if name != "href":
        return value if name in ("start", "align", "rel") else None  # rel is the cleaner's own
    return value if _MAIL.fullmatch(value) else safe_url(value)


_CLEANER = nh3.Cleaner(
    tags=set(_WORD.findall(_TAGS)),
    clean_content_tags={"script", "style"},
    attributes={"a": {"href"}, "ol": {"start"}},
    attribute_filter=_attribute,
    tag_attribute_values={"th": _ALIGN, "td": _ALIGN},
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="nofollow noopener noreferrer",
)


# -- icons ----------------------------------------------------------------------------------------


# Of an SVG as `scrub` writes it.
_SHAPE = re.compile(
    rb"<(?:path|rect|circle|ellipse|line|polyline|polygon|text|use)\b|<image [^>]*href="
)


class IconFault(ValueError):
    """An icon that can't be shown; the message is one sentence for the catalog's problem list."""


@dataclass(frozen=True, slots=True)
class SafeIcon:
    """Bytes that may be served under the sniffed type; sha256 in hexadecimal names them."""

    media_type: str
    data: bytes
    sha256: str

    @property
    def is_blank(self) -> bool:
        """Whether it is an SVG without a shape: all of it was in elements that are left out."""
        return self.media_type == "image/svg+xml" and not _SHAPE.search(self.data)


def read_icon(base64data: str, mediatype: str) -> SafeIcon | None:
    """As check_icon(), but None when there is no usable icon."""
    try:
        return check_icon(base64data, mediatype)
    except IconFault:
        return None


def check_icon(base64data: str, mediatype: str) -> SafeIcon:
    """Decodes and sniffs an icon; SVG is scrubbed. The declared type is used in messages only.

    Raises IconFault for an icon that is empty, not base64, over 1 MB, of unknown kind or bad SVG.
    """
    text = "".join(base64data[: 2 * MAX_ICON].split()).rstrip("=")
    if prefix := _DATA_URI.match(text):
        text = text[prefix.end() :]
    if not text:
        raise IconFault("The icon has no data.")
    if len(base64data) > 2 * MAX_ICON or len(text) * 3 // 4 > MAX_ICON:
        raise IconFault("The icon is larger than 1 MB.")
    try:
        data = b64decode(text.translate({45: "+", 95: "/"}) + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise IconFault("The icon's base64data is not base64.") from None
    media_type = _sniff(data)
    if not media_type:
        declared = f" (declared as {mediatype[:60]!r})" if mediatype else ""
        raise IconFault(f"The icon{declared} is none of PNG, JPEG, GIF, WebP and SVG.")
    if media_type == "image/svg+xml":
        try:
            data = scrub(data)
        except SvgFault as fault:
            raise IconFault(f"The icon's SVG {fault}.") from None
    return SafeIcon(media_type, data, hashlib.sha256(data).hexdigest())


def _sniff(data: bytes) -> str:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    start = data[:8192].removeprefix(b"\xef\xbb\xbf").lstrip()
    return "image/svg+xml" if start.startswith(b"<") and b"<svg" in start else ""
