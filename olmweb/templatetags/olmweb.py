"""Template tags that every page uses: status words with icons, times, copying, links, polling.

Builtins: pages need no load tag. They only format; they never query.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import yaml as pyyaml
from django import template
from django.core.paginator import Page
from django.http import HttpRequest
from django.template import Context, defaulttags
from django.template.base import Parser, Token
from django.template.defaulttags import URLNode
from django.template.loader import get_template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone

from olmweb.web import pages
from olmweb.web.addresses import escaped_address
from olmweb.web.preferences import CLEAR, CLEARED
from olmweb.web.tables import TableView

register = template.Library()

DIGEST_SHOWN = 12  # as in the lists of Docker and Podman
_DIGEST = re.compile(rf"(sha256:[0-9a-f]{{{DIGEST_SHOWN}}})[0-9a-f]{{{64 - DIGEST_SHOWN}}}")

# value -> (words, icon, label class). Icon + word always, colour last.
HEALTH = {
    "Healthy": ("Healthy", "check-circle", "pf-m-success"),
    "Installing": ("Installing", "sync", "pf-m-info"),
    "Upgrading": ("Upgrading", "sync", "pf-m-info"),
    "NeedsApproval": ("Needs approval", "exclamation-triangle", "pf-m-warning"),
    "Degraded": ("Degraded", "exclamation-triangle", "pf-m-warning"),
    "Blocked": ("Blocked", "ban", "pf-m-danger"),
    "Failed": ("Failed", "exclamation-circle", "pf-m-danger"),
    "Unknown": ("Unknown", "question-circle", ""),
}
# States of catalogs, chain links, actions, sync runs and verdicts.
STATES = {
    "ok": ("OK", "check-circle", "pf-m-success"),
    "serving": ("Serving", "check-circle", "pf-m-success"),
    "succeeded": ("Succeeded", "check-circle", "pf-m-success"),
    "no_change": ("No change", "info-circle", ""),
    "changed": ("Changed", "check-circle", "pf-m-success"),
    "unchanged": ("Unchanged", "check-circle", ""),
    "installable": ("Installable", "check-circle", "pf-m-success"),
    "progressing": ("Progressing", "sync", "pf-m-info"),
    "running": ("Running", "sync", "pf-m-info"),
    "pending": ("Pending", "in-progress", "pf-m-info"),
    "applied": ("In progress", "sync", "pf-m-info"),
    "cancelled": ("Cancelled", "ban", ""),
    "stopped": ("Stopped", "ban", ""),
    "new": ("Not read yet", "in-progress", "pf-m-info"),
    "waiting": ("Waiting", "in-progress", ""),
    "absent": ("Absent", "circle", ""),
    "disabled": ("Disabled", "pause-circle", ""),
    "removed": ("Removed from the configuration", "ban", ""),
    "stale": ("Stale", "exclamation-triangle", "pf-m-warning"),
    "deprecated": ("Deprecated", "exclamation-triangle", "pf-m-orange"),
    "clash": ("Sources differ", "exclamation-triangle", "pf-m-orange"),
    "lost": ("Outcome not seen", "question-circle", "pf-m-warning"),
    "failed": ("Failed", "exclamation-circle", "pf-m-danger"),
    "refused": ("Refused", "ban", "pf-m-danger"),
    "approved": ("Approved", "check-circle", "pf-m-success"),
    "declined": ("Declined", "ban", "pf-m-danger"),
    "withdrawn": ("Withdrawn", "ban", ""),
    "not_installable": ("Not installable", "ban", "pf-m-danger"),
    "unknown": ("Unknown", "question-circle", ""),
    # of the reading of a feed
    "watching": ("Watching", "check-circle", "pf-m-success"),
    "listed": ("Listed", "check-circle", "pf-m-success"),
    "retrying": ("Retrying", "exclamation-triangle", "pf-m-warning"),
    "interrupted": ("Interrupted", "exclamation-triangle", "pf-m-warning"),
    "forbidden": ("Not allowed", "ban", "pf-m-danger"),
    # of Kubernetes Events
    "normal": ("Normal", "info-circle", ""),
    "warning": ("Warning", "exclamation-triangle", "pf-m-warning"),
    # of what people should know of an operator
    "flapping": ("Flapping", "sync", "pf-m-warning"),
    "held": ("Held", "pause-circle", "pf-m-warning"),
    "note": ("Note", "info-circle", ""),
    "stuck": ("Slow", "clock", "pf-m-warning"),
    "orphan": ("Without Subscription", "link-broken", "pf-m-warning"),
    "stranded": ("Stranded", "link-broken", "pf-m-warning"),
    "upgrade": ("Upgrade available", "arrow-right", "pf-m-info"),
    # of what stands before the next minor version
    "blocks": ("Blocks the update", "ban", "pf-m-danger"),
    "completion": ("Prevents completion", "exclamation-triangle", "pf-m-warning"),
    "holds": ("Holds back an operator", "pause-circle", "pf-m-warning"),
    "plan": ("Plan ahead", "info-circle", "pf-m-info"),
    # of what a ClusterExtension is to take over
    "no": ("Not migratable", "ban", "pf-m-danger"),
    "changes": ("With changes", "exclamation-triangle", "pf-m-warning"),
    "ready": ("Ready", "check-circle", "pf-m-success"),
    "done": ("Done", "check-circle", "pf-m-success"),
}
# (condition type, status) -> (words, icon, class): Degraded is yellow, Unavailable red.
PILLS = {
    ("Available", "True"): ("Available", "check-circle", "pf-m-outline pf-m-success"),
    ("Available", "False"): ("Unavailable", "exclamation-circle", "pf-m-danger"),
    ("Progressing", "True"): ("Progressing", "sync", "pf-m-info"),
    ("Progressing", "False"): ("Not progressing", "check-circle", "pf-m-outline"),
    ("Degraded", "True"): ("Degraded", "exclamation-triangle", "pf-m-warning"),
    ("Degraded", "False"): ("Not degraded", "check-circle", "pf-m-outline"),
    ("Upgradeable", "True"): ("Upgradeable", "check-circle", "pf-m-outline"),
    ("Upgradeable", "False"): ("Cannot update", "exclamation-triangle", "pf-m-warning"),
}
ALERT_ICONS = {
    "success": "check-circle",
    "info": "info-circle",
    "warning": "exclamation-triangle",
    "danger": "exclamation-circle",
}
_NONE = SafeString('<span class="olm-none">–</span>')  # small screens leave such a cell out
_SELECTED = SafeString(" selected")
_OF_ONE_VIEW = ("page", "operator", "rev", CLEAR)  # parameters that links do not keep
_TEXT_BEGINS = "\0"
_COPY = (
    '<button type="button" class="pf-v6-c-button pf-m-plain pf-m-small olm-copy" data-copy{}'
    ' aria-label="Copy {}" title="{}">{}</button>'
)
_LONG = 21  # characters of a word that a column may be too narrow for
_LONG_WORD = re.compile(rf"\S{{{_LONG},}}")
# Between the parts of a name: behind punctuation, and before a capital of CamelCase.
_PARTS = re.compile(r"(?<=[./:@_=])(?=[^\s./:@_=])|(?<=[a-z0-9])(?=[A-Z][a-z])")
_ICON_NAME = re.compile(r"[a-z-]+")


class AddressNode(URLNode):
    """`{% url %}` that keeps the addresses which it built."""

    def render(self, context: Context) -> str:
        if self.kwargs or self.asvar or not context.autoescape:
            return str(super().render(context))
        arguments = [argument.resolve(context) for argument in self.args]
        return escaped_address(self.view_name.resolve(context), *arguments)


@register.tag
def url(parser: Parser, token: Token) -> AddressNode:
    """Django's own tag, see AddressNode."""
    node = defaulttags.url(parser, token)
    return AddressNode(node.view_name, node.args, node.kwargs, node.asvar)


@register.simple_tag
@lru_cache(maxsize=256)  # a list shows the same few icons and labels hundreds of times
def icon(name: str, label: str = "") -> SafeString:
    """An icon of the sprite; decoration unless `label` says what it means."""
    if not _ICON_NAME.fullmatch(name):
        raise ValueError(f"icon {name!r} is not a name of static/src/icons.svg")
    if label:
        return format_html(
            '<svg class="olm-icon" role="img" aria-label="{}"><use href="{}#{}"/></svg>',
            label,
            static("icons.svg"),
            name,
        )
    return format_html(
        '<svg class="olm-icon" aria-hidden="true"><use href="{}#{}"/></svg>',
        static("icons.svg"),
        name,
    )


@lru_cache(maxsize=1024)
def label(words: str, name: str, css: str, title: str = "") -> SafeString:
    """A PatternFly label: icon and words, without elements of their own, as a list has dozens of
    labels; `title` is its tooltip."""
    return format_html(
        '<span class="pf-v6-c-label pf-m-compact olm-label {}"{}>'
        '<span class="pf-v6-c-label__content">{}{}</span></span>',
        css,
        format_html(' title="{}"', title) if title else "",
        icon(name),
        words,
    )


@register.simple_tag
def health(value: str) -> SafeString:
    """Icon + word of an operator's health (installs.models.Health)."""
    words, name, css = HEALTH.get(value, (value or "Unknown", "question-circle", ""))
    return label(words, name, css)


@register.simple_tag
def installed_label(value: str, other_catalog: str = "", title: str = "") -> SafeString:
    """Label of an installed package: Installed if it is healthy, else its health; followed by its
    catalog if that is another than the page's."""
    words, name, css = HEALTH.get(value, (value or "Unknown", "question-circle", ""))
    words = "Installed" if value == "Healthy" else words
    shown = label(words, name, css, title)
    if not other_catalog:
        return shown
    return format_html('{} <span class="olm-small">from {}</span>', shown, other_catalog)


@register.filter
def health_word(value: str) -> str:
    """The word alone of an operator's health, as `health` shows it."""
    return HEALTH[value][0] if value in HEALTH else value or "Unknown"


@register.simple_tag
def state(value: str, words: str = "", title: str = "") -> SafeString:
    """Icon + word of any other state of ours (keys of STATES); `words` replaces the word."""
    standard, name, css = STATES.get(value, (value or "Unknown", "question-circle", ""))
    return label(words or standard, name, css, title)


@register.simple_tag
def state_icon(value: str) -> SafeString:
    """The icon of `state`, where words stand beside it."""
    return icon(STATES[value][1])


@register.simple_tag
def pill(type: str, status: str, reason: str = "") -> SafeString:
    """One condition of a ClusterOperator or other object, its reason as tooltip. OLM v1 keeps
    Progressing at True when all is done, with the reason Succeeded."""
    words, name, css = PILLS.get((type, status), (f"{type}: {status}", "question-circle", ""))
    if (type, status, reason) == ("Progressing", "True", "Succeeded"):
        words, name, css = "Progressing: Succeeded", "check-circle", "pf-m-outline"
    return label(words, name, css, reason)


@register.simple_tag
def short_digests(text: str) -> SafeString:
    """The text with digests cut to DIGEST_SHOWN digits, and below it the full text to unfold."""
    full = conditional_escape(text)
    short = _DIGEST.sub(r"\1…", full)
    if short == full:
        return SafeString(full)
    return format_html(
        "{}<details><summary>Full digests</summary>{}</details>",
        SafeString(short),
        SafeString(full),
    )


@register.filter
def ago_words(value: datetime | None) -> str:
    """'4 s ago', '3 min ago', '2 h ago', '5 d ago'; a dash when there is no time."""
    if value is None:
        return "–"
    past = max(0, round((timezone.now() - value).total_seconds()))
    for limit, unit, word in ((1, 0, ""), (60, 1, "s"), (3600, 60, "min"), (172_800, 3600, "h")):
        if past < limit:
            return f"{past // unit} {word} ago" if unit else "now"
    return f"{past // 86_400} d ago"


def lasting_words(past: str) -> str:
    """'3 min ago' as '3 min'; 'a moment' for now."""
    return "a moment" if past == "now" else past.removesuffix(" ago")


@register.simple_tag
def ago(value: datetime | None, cluster: str = "", *, lasting: bool = False) -> SafeString:
    """A relative time with the exact one as tooltip; app.js keeps it counting.

    `lasting`: how long something lasts since then, behind the word for: "2 h".
    """
    if not value:  # None, or a name that the template does not know
        return _NONE
    past = lasting_words(ago_words(value)) if lasting else ago_words(value)
    return SafeString(f"{_time(value, get_current_timezone(), cluster, lasting)}{past}</time>")


@lru_cache(maxsize=8192)  # the same rows are shown again and again
def _time(value: datetime, zone: tzinfo, cluster: str, lasting: bool) -> str:
    """The start of the element `time`. The words in it are ours: they need no escaping."""
    exact = timezone.localtime(value, zone)
    return format_html(
        '<time data-ago{}{} datetime="{}" title="{}">',
        SafeString('="lasting"') if lasting else "",
        format_html(' data-cluster="{}"', cluster) if cluster else "",
        f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        f"{exact:%Y-%m-%d %H:%M:%S %Z}",
    )


@register.filter
def duration(seconds: float | None) -> str:
    """'14 s', '3 min 20 s', '2 h 5 min', '4 d 3 h'; '<1 s' below one; a dash for none."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 1:
        return "<1 s"
    units = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    for size, word, smaller, smaller_word in units:
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {word}" + (f" {rest} {smaller_word}" if rest else "")
    return f"{whole} s"


@register.simple_tag
def copy(text: str, what: str = "") -> SafeString:
    """A button that copies `text`; `what` names it for screen readers."""
    if not text:
        return SafeString("")
    return format_html(
        _COPY,
        format_html('="{}"', text),
        what or text[:80],
        "Copy",
        icon("copy"),
    )


@register.simple_tag
def copy_beside(what: str) -> SafeString:
    """As `copy`, for the text or element right before the button: a list has the text once."""
    return format_html(_COPY, "", what, f"Copy {what}", icon("copy"))


@register.inclusion_tag("_breadcrumbs.html")
def breadcrumbs(current: str, *ancestors: str) -> dict[str, Any]:
    """`{% breadcrumbs current words url words url %}`: the ancestors from the topmost down."""
    pairs = list(zip(ancestors[::2], ancestors[1::2], strict=True))
    return {"current": current, "ancestors": pairs}


@register.inclusion_tag("_columns.html")
def columns(*names: str) -> dict[str, Any]:
    """The head of a table. `#` begins the name of a column of numbers; empty names are left out."""
    return {"columns": [(name.removeprefix("#"), name[0] == "#") for name in names if name]}


@register.inclusion_tag("_table_head.html", takes_context=True)
def table_head(context: dict[str, Any], table: TableView, selects: str = "") -> dict[str, Any]:
    """The head of a table whose columns sort: `?sort=name`, then `?sort=-name`. A column of row
    menus belongs to the template. `selects` is the id of the form of the boxes of all rows, which
    a box in the first column ticks."""
    heads = []
    for column, direction in table.heads():
        target = f"-{column.name}" if direction == "ascending" else column.name
        arrow = {"ascending": "sort-up", "descending": "sort-down"}.get(direction, "sort")
        heads.append((column, direction, query(context, sort=target), arrow))
    return {"heads": heads, "selects": selects}


@register.simple_tag
def options(choices: Iterable[tuple[str, str]], chosen: object) -> SafeString:
    """The options of a select from (value, words). Built here and not by a template, as lists of
    many clusters have one for each."""
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((value, _SELECTED if value == chosen else "", words) for value, words in choices),
    )


@register.simple_tag
def row_menu(id: int, name: str, entries: Mapping[str, str]) -> SafeString:
    """The menu of a row of a table: words -> address. `name` is that of the row, for screen
    readers. Built here and not by a template, as every row of a list has a menu."""
    return format_html(
        '<details class="olm-menu" id="menu-{}"><summary aria-label="Actions for {}">⋮</summary>'
        '<ul class="olm-menu-list">{}</ul></details>',
        id,
        name,
        format_html_join(
            "", '<li><a href="{}">{}</a></li>', ((url, words) for words, url in entries.items())
        ),
    )


@register.simple_block_tag
def alert(
    content: str, tone: str, icon: str = "", css: str = "", *, dismiss: bool = False
) -> SafeString:
    """`{% alert "warning" icon="sync" css="" %}title{% alert_text %}text{% endalert %}`.

    The tone is success, info, warning or danger; the text is optional. `dismiss` adds a button that
    closes it.
    """
    title, _, text = content.partition(_TEXT_BEGINS)
    tone = tone if tone in ALERT_ICONS else "info"
    values = {"tone": tone, "icon_name": icon or ALERT_ICONS[tone], "css": css, "dismiss": dismiss}
    values |= {"title": SafeString(title.strip()), "text": SafeString(text.strip())}
    return SafeString(get_template("_alert.html").render(values))


@register.simple_tag
def alert_text() -> SafeString:
    """Separates the title of an alert from its text."""
    return SafeString(_TEXT_BEGINS)


@register.inclusion_tag("_folded_text.html")
def fold(text: str, lines: int = 3) -> dict[str, Any]:
    """Raw text: short as it is, long behind 'Show all'."""
    text = text or ""
    return {"text": text, "long": len(text) > 90 * lines or text.count("\n") >= lines}


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: object) -> str:
    """The current query string with `changes`; None or '' removes. Page, ticks and poll token
    are left out. An empty one becomes CLEARED, as a list without a query shows the view used last.

    Names that are no Python identifiers don't occur; a list sets several values.
    """
    request: HttpRequest = context["request"]
    # No copy of the QueryDict: lists call this for every row, and it copies deeply.
    params = {name: values for name, values in request.GET.lists() if name not in _OF_ONE_VIEW}
    for name, value in changes.items():
        if value is None or value == "":
            params.pop(name, None)
        elif isinstance(value, list | tuple):
            params[name] = [str(item) for item in value]
        else:
            params[name] = [str(value)]
    encoded = urlencode(params, doseq=True)
    return f"?{encoded or CLEARED}"


@register.inclusion_tag("_sort_link.html", takes_context=True)
def sort_link(context: dict[str, Any], key: str, words: str, current: str) -> dict[str, Any]:
    """The heading of a column of numbers that sorts: `?sort=-key`, the highest first, then
    `?sort=key`. `current` is the sort in use."""
    order = {f"-{key}": "descending", key: "ascending"}.get(current, "")
    href = query(context, sort=key if order == "descending" else f"-{key}")
    arrow = {"descending": "sort-down", "ascending": "sort-up"}.get(order, "sort")
    return {"words": words, "href": href, "order": order, "arrow": arrow}


@register.simple_tag(takes_context=True)
def live(
    context: dict[str, Any], token: str, topics: Iterable[str], seconds: float = pages.SECONDS
) -> SafeString:
    """Attributes of an element that asks the page's own URL and replaces itself when told that one
    of the topics changed, or every so many seconds where no events arrive (live.js).

    The element needs an id. Used inside the tag: `<div id="rows" {% live rev topics %}>`.
    """
    request: HttpRequest = context["request"]
    params = request.GET.copy()
    params["rev"] = token
    return format_html(
        'data-live="{}" data-seconds="{}" hx-get="{}?{}" hx-trigger="olm:changed" hx-target="this"'
        ' hx-swap="outerHTML" hx-push-url="false"',
        " ".join(topics),
        seconds,
        request.path,
        params.urlencode(),
    )


@register.filter
def page_numbers(page: Page[Any]) -> Iterable[int | str]:
    """The numbers of pages to link: the first, the last, those around this one, and ellipses."""
    return page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1)


@register.filter
def listing(names: Sequence[str]) -> str:
    """'a, b, c'; of many names the first five and the number of the others."""
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} more" if more > 0 else "")


@register.filter
def is_in(path: str, area: str) -> bool:
    """True for a path below one of the addresses of `area`, which spaces separate. Below `/` is the
    overview alone."""
    return any(
        path == address or (path.startswith(address) and address != "/") for address in area.split()
    )


@register.simple_tag(takes_context=True)
def drop(context: dict[str, Any], name: str) -> str:
    """The current query string without the parameter `name`."""
    return query(context, **{name: None})


@register.filter
def item(values: Mapping[str, Any], name: str) -> Any:
    """One item of a mapping, or None."""
    return values.get(name)


@register.filter
def moment(value: object) -> datetime | None:
    """A time as Kubernetes writes it (RFC 3339), or None when it is none."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else None


@register.simple_tag
def between(start: datetime | None, end: datetime | None) -> str:
    """How long it took; a dash while it lasts."""
    if start is None or end is None:
        return "–"
    return duration((end - start).total_seconds())


@register.filter
def breakable(text: object) -> SafeString:
    """A name, or a text with names, whose long words a narrow column may break behind each part and
    not within it: `etcdclusters.<wbr>example.<wbr>com`, `Custom<wbr>Resource<wbr>Definition`."""
    escaped = str(escape(str(text)))
    if len(escaped) < _LONG:
        return SafeString(escaped)
    return SafeString(_LONG_WORD.sub(lambda match: _PARTS.sub("<wbr>", match[0]), escaped))


@register.filter
def or_none(value: object) -> object:
    """The value of a table's cell; a dash for None and the empty text. Zero is a value."""
    return _NONE if value is None or value == "" else value


@register.filter
def words(value: str) -> str:
    """A name of ours in words: 'rows_written' -> 'rows written'."""
    return value.replace("_", " ")


@register.filter
def sync_counts(counts: Mapping[str, object]) -> list[tuple[str, float]]:
    """The counts of a sync run that are neither zero nor nested; its seconds have a column."""
    return [
        (name, value)
        for name, value in counts.items()
        if isinstance(value, int | float) and value != 0 and name != "seconds"
    ]


@register.filter
def filesize(value: float | None) -> str:
    """A number of bytes in the units that Kubernetes writes as Ki, Mi and Gi: '104 B', '24.0 KiB',
    '126 MiB'; a dash for none. Django's own filter divides by 1024 and calls it MB."""
    if value is None:
        return "–"
    size, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    digits = 0 if unit == "B" or abs(size) >= 100 else 1
    return f"{size:.{digits}f}\u00a0{unit}"


@register.filter
def yaml(value: object) -> str:
    """A manifest as YAML, keys in their own order."""
    return pyyaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
