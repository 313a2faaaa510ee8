"""Hostile Markdown, links, base64 and SVG come out inert; honest ones come out readable."""

import base64
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.fbc.blob import PackageIn
from catalogs.fbc.package_texts import read_texts
from catalogs.markup.text import (
    CUT_NOTE,
    MAX_ICON,
    MAX_TEXT,
    IconFault,
    check_icon,
    plain_summary,
    read_icon,
    render_markdown,
    safe_url,
)

reads_memory = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc"
)
TAGS = set(
    re.findall(
        r"\w+",
        "p br hr h3 h4 h5 h6 ul ol li blockquote pre code em strong d"
        "el a table thead tbody tr th td",
    )
)
HOSTILE_LINKS = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "java&#10;script:alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A&#x61&#x76&#x61script:alert(1)",
    "javascript&colon;alert(1)",
    "\x01javascript:alert(1)",
    "vbscript:msgbox(1)",
    "data:text/html;base64,PHNjcmlwdD4=",
    "data:image/svg+xml,<svg/onload=x>",
    "file:///etc/passwd",
    "//evil.example/x",
    "/relative",
    "https://user:word@evil.example/",
    "https://good.example\\@evil.example/",
    "mailto:a@b.c?bcc=x@y.z",
    "feed:javascript:alert(1)",
]
HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><use href='data:x#y'/></svg>",
    "<style>*{background:url(//evil.example)}</style>",
    "<a href='javascript:alert(1)' style='x'>x</a>",
    "<iframe srcdoc='&lt;script&gt;'></iframe>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3C;script&#x3E;alert(1)",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    '```"onmouseover=alert(1)\n<script>\n```',
    '![x" onerror="alert(1)](https://evil.example/x.png)',
    "![a](javascript:alert(1))",
    "[![alt](https://evil.example/t.png)](javascript:alert(1))",
    "[x]: javascript:alert(1)\n\n[x]",
    "| a |\n|:-:|\n| <img src=x onerror=alert(1)> |",
    '[x](https://a.b "onclick=\'alert(1)\' \\"x")',
]


class Inert(HTMLParser):
    """Fails on anything the allow-list doesn't name."""

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        for name, value in attrs:
            assert (tag, name) in {
                ("a", "href"),
                ("a", "rel"),
                ("ol", "start"),
                ("th", "align"),
                ("td", "align"),
            }, name
            if name == "href":
                assert re.match(r"(https?://[^@]+$|mailto:[^?]+$)", value), value
            if name == "rel":
                assert value == "nofollow noopener noreferrer"


def check(html):
    Inert(convert_charrefs=True).feed(html)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_markdown_becomes_inert(text):
    check(render_markdown(text))
    check(render_markdown(f"- > # {text}"))


@pytest.mark.parametrize("url", HOSTILE_LINKS)
def test_a_hostile_link_loses_its_address(url):
    for text in (f"[x](<{url}>)", f"[x]({url})", f"<{url}>", f"[x][r]\n\n[r]: <{url}>"):
        check(render_markdown(text))
    assert safe_url(url) is None


@given(
    st.lists(
        st.sampled_from([*HOSTILE_TEXTS, "\n\n", "# ", "* ", "> ", "`", "[", "](", ")", "<", "|"])
        | st.text(max_size=8),
        max_size=8,
    ).map("".join)
)
def test_any_mixture_of_attacks_is_inert(text):
    check(render_markdown(text))
    summary = plain_summary(text)
    assert len(summary) <= 200
    assert "\n" not in summary


def test_markdown_keeps_what_a_reader_needs():
    html = render_markdown(
        "# Title\n\nSee [docs](https://a.example/x?a=1&b=2), https://bare.example or"
        " [mail](mailto:a@b.example).\n\n1. **one**\n\n|a|b|\n|:-|-|\n|1|~~2~~|\n\n```sh\nrun\n```"
    )

    assert "<h3>Title</h3>" in html
    rel = 'rel="nofollow noopener noreferrer"'
    assert f'<a href="https://a.example/x?a=1&amp;b=2" {rel}>docs</a>' in html
    assert f'<a href="https://bare.example" {rel}>' in html
    assert f'<a href="mailto:a@b.example" {rel}>' in html
    assert '<th align="left">a</th>' in html
    assert "<del>2</del>" in html
    assert "<code>run\n</code>" in html


@pytest.mark.parametrize(("source", "level"), [(1, 3), (2, 4), (3, 5), (4, 6), (5, 6), (6, 6)])
def test_headings_go_below_the_pages_own(source, level):
    assert render_markdown("#" * source + " x") == f"<h{level}>x</h{level}>\n"


def test_an_image_becomes_its_alternative_text():
    text = "![the \"logo\" & more](https://evil.example/x.png 'title') end"

    assert render_markdown(text) == '<p>the "logo" &amp; more end</p>\n'


def test_a_text_over_the_limit_is_cut_with_a_note():
    assert render_markdown("a" * (MAX_TEXT + 1)).endswith(CUT_NOTE)
    assert CUT_NOTE not in render_markdown("a" * MAX_TEXT)


def test_characters_that_are_no_text_do_no_harm():
    assert render_markdown("a\x00b\ud800c") == "<p>a\ufffdb?c</p>\n"


@pytest.mark.parametrize(
    "unit",
    [
        ">",
        "> ",
        "[",
        "![",
        "*a ",
        "**_",
        "<",
        "`a",
        "[a](",
        "- ",
        "|a",
        "a@",
        "www.",
        "_(",
        "-\n",
        "1. ",
        "\n- > 1. ",
        "&",
        "\\",
        "](",
    ],
)
def test_no_text_takes_long(unit):
    text = unit * (MAX_TEXT // len(unit))
    start = time.perf_counter()
    html = render_markdown(text)

    assert time.perf_counter() - start < 5
    assert len(html) < 10_000_000


@reads_memory
@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("filler", ["x", "\f", "\u2028"])
def test_a_table_that_would_outgrow_memory_is_shown_as_written(filler, line_end):
    text = f"|{filler}" * 1_000 + line_end + "|-" * 1_000 + line_end + f"a{line_end}" * 60_000
    before = resident_kilobytes()

    assert render_markdown(text).startswith(f"<p>{'|' + filler}")
    assert plain_summary(text)
    assert resident_kilobytes() - before < 200_000


def test_a_table_of_a_thousand_rows_is_a_table():
    text = "|a|b|c|d|\n|-|-|-|-|\n" + "|1|2|3|4|\n" * 1_000

    assert render_markdown(text).count("<tr>") == 1_001


def resident_kilobytes():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


@pytest.mark.slow
@reads_memory
def test_rendering_gives_its_memory_back():
    text = "# a\n" + "word [x](http://a.b) " * 800
    for _ in range(30):
        render_markdown(text)
    before = resident_kilobytes()
    for _ in range(150):
        render_markdown(text)

    assert resident_kilobytes() - before < 20_000  # the library alone would keep about 84,000


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "# Etcd\n\nA **fast** `store` &amp; [more](https://x.example).\n\nNext.",
            "A fast store & more.",
        ),
        ("![badge](https://x.example/b.png)\n\nReal text", "Real text"),
        ("# Only a heading", "Only a heading"),
        ("", ""),
        ("one\ntwo", "one two"),
        ("3 < 4 & <b>x</b>", "3 < 4 & x"),
    ],
)
def test_a_summary_is_the_first_paragraph_as_plain_text(text, summary):
    assert plain_summary(text) == summary


def test_a_long_summary_ends_at_a_word():
    assert plain_summary("word " * 100, 24) == "word word word word…"
    assert plain_summary("x" * 100, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (" https://a.example/x ", "https://a.example/x"),
        ("http://a.example:8080/?q=1#f", "http://a.example:8080/?q=1#f"),
        ("HTTPS://A.example", "HTTPS://A.example"),
        ("https://[::1]/", "https://[::1]/"),
        ("https://a.example/ü", "https://a.example/ü"),
        ("https://", None),
        ("https:///path", None),
        ("https://a.example:port/", None),
        ("https://[::1", None),
        ("https://a.example/a b", None),
        ("https://a.example/\u202egpj", None),
        ("https://a.example/" + "x" * 2000, None),
        ("ftp://a.example", None),
        ("", None),
    ],
)
def test_only_a_plain_web_address_is_a_safe_link(text, url):
    assert safe_url(text) == url


# -- icons ----------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 30
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9"/></svg>'


def encode(data):
    return base64.b64encode(data).decode()


def scrubbed(inner, prefix="", attributes=""):
    xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = f'{prefix}<svg xmlns="http://www.w3.org/2000/svg" {xlink} {attributes}>{inner}</svg>'
    icon = check_icon(encode(text.encode()), "image/svg+xml")
    ElementTree.fromstring(icon.data)  # noqa: S314 - it was scrubbed just now
    return icon.data.decode()


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (SVG, "image/svg+xml"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- x -->\n' + SVG, "image/svg+xml"),
    ],
)
def test_an_icons_type_is_what_its_bytes_say(data, media_type):
    icon = check_icon(encode(data), "text/html")

    assert icon.media_type == media_type
    assert len(icon.sha256) == 64


@pytest.mark.parametrize(
    ("inner", "drawn"),
    [
        ('<path d="M0 0"/>', True),
        ("<g><text>A</text></g>", True),
        ('<image href="data:image/png;base64,iVBO"/>', True),
        ("", False),
        ("<title>x</title><defs/>", False),
        ('<image href="https://tracker.invalid/a.png"/><script>1</script>', False),
        ('<a href="javascript:1"><rect width="1" height="1"/></a>', False),
    ],
)
def test_an_svg_with_nothing_to_draw_is_no_icon(inner, drawn):
    text = f'<svg xmlns="http://www.w3.org/2000/svg">{inner}</svg>'
    icon = check_icon(encode(text.encode()), "image/svg+xml")
    assert icon.is_blank != drawn
    texts = read_texts(PackageIn(name="etcd"), None, icon)
    assert (texts.icon is not None) == drawn


def test_base64_is_read_with_line_breaks_without_padding_and_as_a_data_address():
    text = encode(PNG)
    spread = "\n ".join(text[i : i + 5] for i in range(0, len(text), 5))

    for form in (spread, text.rstrip("="), "data:image/png;base64," + text):
        assert check_icon(form, "image/png").data == PNG


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The icon has no data."),
        ("é?", "The icon's base64data is not base64."),
        ("a", "The icon's base64data is not base64."),
        (encode(b"<html>"), "none of PNG, JPEG, GIF, WebP and SVG."),
        (encode(b"GIF89a" + b"x" * MAX_ICON), "The icon is larger than 1 MB."),
        ("A" * (3 * MAX_ICON), "The icon is larger than 1 MB."),
        (encode(b"<svg>"), "The icon's SVG is not well-formed XML (line 1)."),
        (encode(b"<a><svg/></a>"), "does not begin with an svg element."),
        (
            encode(b'<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>'),
            "The icon's SVG has a DOCTYPE with declarations.",
        ),
        (encode(b"<svg>" + b"<g>" * 200 + b"</g>" * 200 + b"</svg>"), "too many or too deeply"),
        (encode(b"<svg>" + b'<use href="#a"/>' * 25 + b"</svg>"), "more than 24 use elements"),
        (encode(b'<?xml version="1.0" encoding="x-none"?><svg/>'), "The icon's SVG"),
    ],
)
def test_an_unusable_icon_gives_one_sentence(text, sentence):
    with pytest.raises(IconFault, match=re.escape(sentence)) as caught:
        check_icon(text, "image/png")

    assert str(caught.value).endswith(".")
    assert read_icon(text, "image/png") is None


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        '<x:script xmlns:x="http://www.w3.org/2000/svg">alert(1)</x:script>',
        '<script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script>',
        "<foreignObject><b xmlns='http://www.w3.org/1999/xhtml'>alert(1)</b></foreignObject>",
        '<path onclick="alert(1)"/>',
        '<path OnLoad="alert(1)"/>',
        '<a href="javascript:alert(1)"><path/></a>',
        '<use href="https://alert.example/x.svg#a"/>',
        '<use xlink:href="data:image/svg+xml;base64,alert"/>',
        '<image href="https://alert.example/x.png"/>',
        '<image href="data:image/svg+xml;base64,alert"/>',
        '<animate attributeName="href" values="javascript:alert(1)"/>',
        '<set attributeName="onload" to="alert(1)"/>',
        "<style>@import 'https://alert.example/x.css';</style>",
        "<style>path{fill:url(https://alert.example/x)}</style>",
        "<style>path{fill:u\\72l(//alert.example)}</style>",
        "<style>path{fill:ur/**/l(//alert.example)}</style>",
        "<style>path{background:image-set('//alert.example')}</style>",
        "<path style=\"fill:url('//alert.example')\"/>",
        '<path fill="url(//alert.example#a)"/>',
        "<path style='content:\"rgb(\";background:url(//alert.example)'/>",
        "<path style='fill:rgb(url(//alert.example))'/>",
        '<path style="behavior:url(#alert) url(//alert.example)"/>',
        '<feImage href="https://alert.example"/>',
        "<?xml-stylesheet href='//alert.example'?>",
        "<!-- alert -->",
        '<path xml:base="https://alert.example"/>',
        '<metadata><x xmlns="urn:x">alert</x></metadata>',
    ],
)
def test_what_could_run_or_fetch_is_gone_from_an_svg(inner):
    assert "alert" not in scrubbed(inner).lower()


@pytest.mark.parametrize(
    "inner",
    [
        f'<path fill="({"a" * 300_000}"/>',
        f"<style>{'/* ' * 200_000}</style>",
        f"<style>a{{}}/**/{'/* ' * 200_000}</style>",
    ],
    ids=["word", "comments", "comments after one"],
)
def test_css_that_ends_nowhere_is_looked_through_in_time(inner):
    began = time.process_time()
    assert len(scrubbed(inner)) < 1_000
    assert time.process_time() - began < 5


def test_an_svg_with_a_huge_namespace_is_refused_before_its_names_fill_the_memory():
    names = " ".join(f'a:b{i}=""' for i in range(100))
    with pytest.raises(IconFault, match="has a namespace of more than 1,000 characters"):
        check_icon(encode(f'<svg><g xmlns:a="{"u" * 1_001}" {names}/></svg>'.encode()), "")


def test_a_handler_on_the_root_is_gone():
    assert "alert" not in scrubbed("", attributes='onload="alert(1)" viewBox="0 0 1 1"')


def test_a_bare_doctype_is_left_out_and_not_fetched():
    doctype = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/svg11.dtd">'

    assert "DOCTYPE" not in scrubbed("<path d='M0 0'/>", prefix=doctype)


@pytest.mark.parametrize(
    "kept",
    [
        "<style>.a{fill:#fff;stroke:rgb(1, 2, 3)}</style>",
        '<path class="a" fill="url(#g)" transform="matrix(1 0 0 1 2 3)"></path>',
        '<path style="fill:url(#g);opacity:.5"></path>',
        '<image href="data:image/png;base64,iVBORw0="></image>',
        '<use href="#a"></use>',
        "<title>a &amp; b &lt;c&gt;</title>",
        '<text class="&quot;&#x27;&#10;&#9;&lt;&amp;">a</text>',
        "<style>g &gt; path{fill:red}</style>",
    ],
)
def test_what_only_draws_stays_in_an_svg(kept):
    assert kept in scrubbed(kept)


@given(st.binary(max_size=60), st.sampled_from([b"", PNG[:8], b"<svg ", b"<svg>", b"GIF89a"]))
def test_any_bytes_are_an_icon_or_a_fault(tail, start):
    icon = read_icon(encode(start + tail), "image/png")

    assert icon is None or icon.media_type.startswith("image/")
