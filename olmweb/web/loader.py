"""Loads templates without their indentation and without the line ends behind tags that show
nothing: a third of the HTML of a list, and as many pieces of text to put together.
"""

import re

from django.conf import settings
from django.template import Origin
from django.template.loaders import filesystem

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_SILENT = (
    *("if", "elif", "else", "endif", "for", "empty", "endfor", "with", "endwith"),
    *("block", "endblock", "partialdef", "endpartialdef", "extends", "load"),
)
# A line of nothing but such tags and comments; the end of the line before it stays.
_SILENT_LINE = re.compile(
    rf"^((?:\{{% (?:{'|'.join(_SILENT)})\b(?:(?!%\}}).)*%\}}|\{{#.*?#\}})+)\n", re.MULTILINE
)


class Loader(filesystem.Loader):
    """The filesystem loader; values that are filled in keep their whitespace. While debugging,
    lines keep their numbers."""

    def get_contents(self, origin: Origin) -> str:
        text = _INDENTATION.sub("", super().get_contents(origin))
        return text if settings.DEBUG else _SILENT_LINE.sub(r"\1", text)
