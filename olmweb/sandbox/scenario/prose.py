"""Descriptions (Markdown) and icons (SVG) of the catalog's packages, composed from their facts."""

import base64

from olmweb.sandbox.scenario.facts import LEVELS, Facts, areas, number

HOSTILE_DESCRIPTION = """# Markup Demo

This text comes from a catalog, so a page must not trust it.

<script>document.title = "taken over"</script>
<img src="https://tracker.invalid/pixel.gif" onerror="alert(1)">
<iframe src="https://frame.invalid/"></iframe>
<a href="javascript:alert(2)" onclick="alert(3)">a raw link</a>

[a javascript link](javascript:alert(4)) · [a data link](data:text/html;base64,PHNjcmlwdD4=) ·
[a good link](https://example.com/docs)

![a remote image](https://tracker.invalid/picture.png)

<style>body { display: none }</style>

| column | value |
|---|---|
| `<b>code</b>` | **bold** and *slanted* |
"""

_HOSTILE_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 64 64" onload="alert(5)"><script>alert(6)</script>'
    '<image xlink:href="https://tracker.invalid/icon.png" width="64" height="64"/>'
    '<a xlink:href="javascript:alert(7)"><rect width="64" height="64" rx="12" fill="#a33"/></a>'
    "<foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='https://frame.invalid/'/>"
    "</foreignObject></svg>"
)
_OPENINGS = (
    "What it provides: {kinds}.",
    "You work with {kinds}.",
    "After the installation the cluster knows {kinds}.",
)
_SCOPES = {
    "ALL": (
        "One instance looks after all namespaces.",
        "It can watch the whole cluster or be held to one namespace.",
    ),
    "OWN": (
        "It watches a single namespace; install it once for each that needs it.",
        "Give it a namespace of its own: it does not watch the whole cluster.",
    ),
    "MULTI": ("It watches the namespaces that you list, not all of them.",),
}
_LEVELS = (
    "Upgrades of what it runs are up to you.",
    "It also upgrades what it runs.",
    "Backups, failures and upgrades are its business too.",
    "It raises alerts and exports metrics about what it runs.",
    "It scales and tunes what it runs by itself.",
)


def summary(facts: Facts) -> str:
    """One sentence."""
    return facts.does


def description(facts: Facts, version: str) -> str:
    """Two to four sentences of Markdown, with a list of the kinds for the larger packages."""
    if facts.special == "hostile":
        return HOSTILE_DESCRIPTION
    seed = number("prose", facts.name)
    area = areas()[facts.area]
    names = [f"`{crd.kind}`" for crd in facts.kinds]
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    scopes = _SCOPES[facts.modes]
    sentences = [
        _OPENINGS[seed % len(_OPENINGS)].format(kinds=listed),
        area.says[seed // 7 % len(area.says)],
        scopes[seed // 31 % len(scopes)],
        _LEVELS[facts.level - 1],
    ]
    # Not every text has the same build: one part is left out, another one each time.
    left_out = 1 + seed // 101 % 3
    body = " ".join(text for index, text in enumerate(sentences) if index != left_out)
    ending = ""
    if seed % 3 == 0:
        ending = f"\n\n## In version {version}\n\n* {LEVELS[facts.level - 1]} capability level\n"
        ending += "".join(f"* `{crd.name}` ({crd.version})\n" for crd in facts.kinds)
    return f"**{facts.title}.** {facts.does}\n\n{body}{ending}"


def icon(facts: Facts) -> dict[str, str] | None:
    """`{base64data, mediatype}`; one package in nine has none."""
    if facts.special == "icon":
        return {"base64data": "PHN2ZyB4bWxucz0i%%%broken%%%", "mediatype": "image/svg+xml"}
    seed = number("icon", facts.name)
    if not facts.special and seed % 9 == 0:
        return None
    text = _HOSTILE_SVG if facts.special == "hostile" else _svg(facts, seed)
    return {"base64data": base64.b64encode(text.encode()).decode(), "mediatype": "image/svg+xml"}


def _svg(facts: Facts, seed: int) -> str:
    words = [word for word in facts.name.replace("openshift-", "").split("-") if word.isalnum()]
    letters = "".join(word[0] for word in words[:2]).upper()
    hue, other = seed % 360, (seed + 40) % 360
    shapes = (
        f'<circle cx="48" cy="16" r="22" fill="hsl({other},55%,52%)"/>',
        f'<path d="M0 64 L64 20 V64 Z" fill="hsl({other},55%,46%)"/>',
        f'<rect x="32" width="32" height="64" fill="hsl({other},50%,48%)"/>',
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><defs><clipPath id="c">'
        '<rect width="64" height="64" rx="14"/></clipPath></defs><g clip-path="url(#c)">'
        f'<rect width="64" height="64" fill="hsl({hue},52%,38%)"/>{shapes[seed // 360 % 3]}</g>'
        '<text x="32" y="42" text-anchor="middle" font-family="sans-serif" font-weight="700" '
        f'font-size="28" fill="#fff">{letters}</text></svg>'
    )
