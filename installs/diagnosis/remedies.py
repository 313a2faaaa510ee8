"""Fills names into causes and remedies. The values come from status messages: nobody's friend.

In a command only a value that is surely a name, a kind or an image reference is filled in; any
other leaves a `<placeholder>` for the reader. In a sentence a value is cut and made one line.
"""

import re
from collections.abc import Mapping

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
SUBJECT_NAMES = ("name", "namespace", "kind", "package")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_SENTENCE_LIMIT = 200
# An object without a namespace: the option that would name it is left out.
_NAMESPACE_OPTION = re.compile(r" -n \{(object_namespace|namespace)\}")


def is_command(step: str) -> bool:
    """Whether a step of a remedy is a command to copy, not a sentence to read."""
    return step.startswith(("kubectl ", "oc "))


def fill_command(template: str, values: Mapping[str, str]) -> str:
    """The command with every value that is safe to paste into a shell filled in."""

    def option(match: re.Match[str]) -> str:
        return "" if values.get(match[1]) == "" else match[0]

    def value(match: re.Match[str]) -> str:
        name = match[1]
        text = values.get(name, "")
        allowed = _KIND if name.endswith("kind") else _NAME
        if allowed.fullmatch(text):
            return text.lower() if allowed is _KIND else text
        return f"<{name.removeprefix('object_').replace('_', '-')}>"

    return PLACEHOLDER.sub(value, _NAMESPACE_OPTION.sub(option, template))


def fill_sentence(template: str, values: Mapping[str, str]) -> str:
    """The sentence with values as plain text: one line, at most 200 characters each."""

    def value(match: re.Match[str]) -> str:
        text = " ".join(
            "".join(c if c.isprintable() else " " for c in values.get(match[1], "")).split()
        )
        if not text:
            return f"<{match[1].removeprefix('object_').replace('_', '-')}>"
        return text if len(text) <= _SENTENCE_LIMIT else f"{text[:_SENTENCE_LIMIT]}…"

    return PLACEHOLDER.sub(value, template)


def fill_steps(templates: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        fill_command(step.removeprefix("$ "), values)
        if step.startswith("$ ")
        else fill_sentence(step, values)
        for step in templates
    )
