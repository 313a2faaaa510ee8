"""Takes names out of a status message, so that it can be shown to people outside the cluster.

Kept are plain words, kinds, reasons and paths of fields, which say what happened. Everything that
may be a name, an address, an image, a path, a number or a quotation becomes `…`: rather too much
than too little, as the text is to leave the cluster.
"""

import re
from collections.abc import Iterable

from installs.diagnosis.knowledge import TEXT_LIMIT

MASK = "…"
_LIMIT = 2_000
_QUOTED = re.compile(r'\\?"[^"\n]{0,500}"|`[^`\n]{0,500}`|\u201c[^\u201d\n]{0,500}\u201d')
_SINGLE_QUOTED = re.compile(r"(?<!\w)'[^'\n]{0,500}'(?!\w)")
_TOKEN = re.compile(r"[^\s,;()\[\]{}<>=\"']+")
_FIELD = re.compile(r"(?:spec|status)(?:\.[A-Za-z]{1,60}(?:\[\d{1,3}\])?){1,10}")
_WORD = re.compile(r"[A-Za-z]{1,60}|[A-Za-z]{1,20}'[a-z]{1,4}|-|:|\W")
# Words of Kubernetes and of prose that have a hyphen or a digit and name nothing of a cluster.
_KEPT = re.compile(
    r"(?:re|pre|post|non|un|cross|self|multi|read|server|client|built|well)-[a-z]{2,20}|"
    r"x509|v\d{1,2}(?:(?:alpha|beta)\d{1,2})?|k8s|OLMv[01]|HTTP/\d(?:\.\d)?",
    re.IGNORECASE,
)
_TRAILING = ":.!?"


def mask_names(text: str, names: Iterable[str] = ()) -> str:
    """The message in one line without names, at most 2,000 characters.

    `names` are words that are masked wherever they stand, as the names of a cluster, namespace or
    operator may be plain words.
    """
    text = text[:TEXT_LIMIT]
    text = _SINGLE_QUOTED.sub(f"'{MASK}'", _QUOTED.sub(f'"{MASK}"', text))
    known = {name.lower() for name in names if name}
    text = _TOKEN.sub(lambda match: _mask(match[0], known), text)
    return " ".join(text.split())[:_LIMIT]


def _mask(token: str, names: set[str]) -> str:
    word = token.rstrip(_TRAILING)
    end = token[len(word) :]
    if not word or MASK in word:
        return token
    if word.lower() in names:
        return MASK + end
    readable = _WORD.fullmatch(word) or _FIELD.fullmatch(word) or _KEPT.fullmatch(word)
    return token if readable else MASK + end
