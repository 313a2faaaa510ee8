"""Exit codes of the console script, and the failure that a command ends with. Pure."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes: part of the interface, listed in the help and in docs/command-line.md."""

    DONE = 0
    REFUSED = 1  # refused, failed, or predicted to fail
    USAGE = 2
    UNREACHABLE = 3  # the server, the database, or the cluster of an action


# Statuses with which a proxy, or a server that is going down, answers in place of OLM Web.
_NOT_THERE = (502, 503, 504)
UNREACHABLE_CODES = ("unreachable",)
UNAUTHORIZED = 401
HOW_TO_AUTHENTICATE = (
    "Make a token there with `olmweb token create USER --name NAME` or on its page API tokens, and "
    "give it in OLMWEB_TOKEN or with --token-file."
)


class Failure(Exception):
    """A command can't do what it was called for: the error object of the REST API and an exit
    code. `message` is a sentence, `hint` what to do, `fields` a sentence for each parameter."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        fields: Mapping[str, str] | None = None,
        exit_code: Exit = Exit.REFUSED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.fields = dict(fields or {})
        self.exit_code = exit_code

    def as_json(self) -> dict[str, Any]:
        error = {name: getattr(self, name) for name in ("code", "message", "hint", "fields")}
        return {"error": error}


def usage(message: str, hint: str = "") -> Failure:
    """A wrong combination of arguments."""
    return Failure(message, code="usage", hint=hint, exit_code=Exit.USAGE)


def unreachable(message: str, hint: str) -> Failure:
    return Failure(message, code="unreachable", hint=hint, exit_code=Exit.UNREACHABLE)


def failure_of(status: int, document: Any) -> Failure:
    """The failure that an answer of the REST API with this HTTP status means.

    `document` is its decoded JSON; Failure says so when it is no error object of OLM Web.
    """
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return unreachable(
            f"The answer (status {status}) is not one of OLM Web.",
            "Check the address: it is the one that the pages are opened with.",
        )
    return Failure(
        error["message"],
        code=str(error.get("code") or "refused"),
        hint=HOW_TO_AUTHENTICATE if status == UNAUTHORIZED else str(error.get("hint") or ""),
        fields=error.get("fields") or {},
        exit_code=_exit_code(status, str(error.get("code"))),
    )


def _exit_code(status: int, code: str) -> Exit:
    if status in _NOT_THERE or code in UNREACHABLE_CODES:
        return Exit.UNREACHABLE
    return Exit.USAGE if status == 400 else Exit.REFUSED
