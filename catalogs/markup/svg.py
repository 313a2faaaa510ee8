"""Makes an SVG image inert: the result draws, and neither runs code, fetches nor links. Pure.

Entity declarations are refused, so expat expands and fetches nothing. The result may hold CSS:
serve it with a sandboxing content security policy that allows inline styles.
"""

import re
from html import escape
from xml.parsers import expat

MAX_ELEMENTS = 20_000
MAX_DEPTH = 100
MAX_NAMESPACE = 1_000  # characters; the parser repeats it in the name of each element and attribute
MAX_USES = 24  # `use` of `use` multiplies; this many can't become more than a few thousand shapes

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_WORD = re.compile(r"\w+")
_ELEMENTS = frozenset(
    _WORD.findall(
        "svg g defs symbol use path rect circle ellipse line polyline polygon image text tspan"
        " textPath"
        " title desc linearGradient radialGradient stop clipPath mask pattern marker filter style"
        " feBlend feColorMatrix feComponentTransfer feComposite feFlood feFuncA feFuncB feFuncG"
        " feFuncR"
        " feGaussianBlur feMerge feMergeNode feMorphology feOffset feDropShadow"
    )
)
_LOCAL = re.compile(r"#[A-Za-z0-9_.:-]+")
_RASTER = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINES = {9: "&#9;", 10: "&#10;", 13: "&#13;"}  # else a space when an attribute is read
_SCRIPT = re.compile(r"\w\s*script\s*:", re.IGNORECASE)
# The bound is twice the longest known name: without it the time is quadratic in a word's length.
# The argument is matched by a lookahead: it may contain another call.
_CALL = re.compile(r"([A-Za-z-]{0,20})\(\s*(['\"]?)(?=([^)]{0,200}))")
_CALLS = frozenset(
    _WORD.findall(
        "rgb rgba hsl hsla matrix translate translatex translatey scale scalex scaley rotate skewx"
        " skewy not calc"
    )
)


class SvgFault(ValueError):
    """SVG that is refused whole; the message completes the sentence "The icon's SVG ..."."""


def scrub(data: bytes) -> bytes:
    """The image as UTF-8 SVG with only allowed elements, attributes and local references.

    SvgFault when it isn't well-formed XML, declares entities, isn't SVG or is absurdly large.
    """
    writer = _Writer()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _doctype
    parser.EntityDeclHandler = _entity
    parser.StartNamespaceDeclHandler = _namespace
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise SvgFault(f"is not well-formed XML (line {error.lineno})") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, SvgFault):
            raise
        raise SvgFault("has an encoding that can't be read") from None
    return "".join(writer.out).encode()


def _doctype(name: str, system: str | None, public: str | None, internal: bool) -> None:
    # Drawing programs write a bare DOCTYPE, which is left out; one with a body declares entities.
    if internal:
        raise SvgFault("has a DOCTYPE with declarations")


def _entity(*_: object) -> None:
    raise SvgFault("declares entities")


def _namespace(_prefix: str | None, uri: str | None) -> None:
    if uri and len(uri) > MAX_NAMESPACE:
        raise SvgFault(f"has a namespace of more than {MAX_NAMESPACE:,} characters")


class _Writer:
    """Writes the allowed part of the document while expat reads it."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.open: list[str] = []
        self.dropped = 0  # depth inside an element that isn't copied
        self.elements = 0
        self.uses = 0
        self.css: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        self.elements += 1
        if self.elements > MAX_ELEMENTS or len(self.open) + self.dropped > MAX_DEPTH:
            raise SvgFault("has too many or too deeply nested elements")
        if not self.open and not self.dropped and (local != "svg" or space not in ("", _SVG)):
            raise SvgFault("does not begin with an svg element")
        # No browser reads children of style as CSS.
        inside_style = bool(self.open) and self.open[-1] == "style"
        if self.dropped or inside_style or space not in ("", _SVG) or local not in _ELEMENTS:
            self.dropped += 1
            return
        self.uses += local == "use"
        if self.uses > MAX_USES:
            raise SvgFault(f"has more than {MAX_USES} use elements")
        text = "".join(
            f' {key}="{escape(value).translate(_LINES)}"'
            for key, value in sorted(_attributes(local, attributes).items())
        )
        root = f' xmlns="{_SVG}"' if not self.open else ""
        self.open.append(local)
        self.out.append(f"<{local}{root}{text}>")

    def end(self, name: str) -> None:
        if self.dropped:
            self.dropped -= 1
            return
        local = self.open.pop()
        if local == "style":
            css = _without_comments("".join(self.css))
            self.out.append(escape(css, quote=False) if _harmless(css) else "")
            self.css.clear()
        self.out.append(f"</{local}>")

    def text(self, text: str) -> None:
        if self.dropped or not self.open:
            return
        if self.open[-1] == "style":
            self.css.append(text)
        else:
            self.out.append(escape(text, quote=False))


def _without_comments(css: str) -> str:
    """The CSS without comments. Text after the last end of a comment stays as it is: searching the
    end of many open comments takes quadratic time."""
    commented, end, rest = css.rpartition("*/")
    return _COMMENT.sub("", commented + end) + rest


def _attributes(element: str, attributes: dict[str, str]) -> dict[str, str]:
    safe: dict[str, str] = {}
    for name, value in attributes.items():
        space, _, local = name.rpartition(" ")
        if local == "href" and space in ("", _XLINK):
            raster = element == "image" and _RASTER.fullmatch(value.strip())
            if _LOCAL.fullmatch(value.strip()) or raster:
                safe["href"] = value.strip()
        elif not space and not local.lower().startswith("on") and _harmless(value):
            safe[local] = value
    return safe


def _harmless(value: str) -> bool:
    """No escape, at-rule, scheme or function that could fetch; url() may name a local id."""
    if "\\" in value or "@" in value or "/*" in value:
        return False
    if ":" in value and _SCRIPT.search(value):
        return False
    # Long values are paths, without a parenthesis.
    for name, _, argument in _CALL.findall(value) if "(" in value else ():
        called = name.lower()
        if called == "url":
            if not _LOCAL.fullmatch(argument.strip().strip("'\"")):
                return False
        elif called not in _CALLS:
            return False
    return "url" not in value.lower() or "url(" in value.lower()
