"""Loads templates without their indentation, a third of the HTML of a list."""

import re

from django.template import Origin
from django.template.loaders import filesystem

_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


class Loader(filesystem.Loader):
    """The filesystem loader; lines keep their numbers, and values that are filled in their
    whitespace."""

    def get_contents(self, origin: Origin) -> str:
        return _INDENTATION.sub("", super().get_contents(origin))
