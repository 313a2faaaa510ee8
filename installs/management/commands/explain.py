"""`manage.py explain`: the diagnosis of one raw message at the terminal."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from installs.diagnosis.knowledge import Finding, classify, explained_kinds, fingerprint
from installs.diagnosis.pod_events import read_pod_message
from installs.diagnosis.remedies import is_command, plain_remedy
from installs.diagnosis.states import STATES, meanings

FIELDS = ("title", "cause", "remedy", "retryable", "facts", "confidence", "note", "source")


class Command(BaseCommand):
    help = "Says what a status message means: cause, remedy, and if it disappears automatically."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "text",
            nargs="?",
            metavar="TEXT|-",
            help="the message; - or nothing reads it from standard input, unless --reason is given",
        )
        parser.add_argument("--kind", default="", help="Kubernetes kind of the object that says it")
        parser.add_argument("--type", default="", help="type of the condition")
        parser.add_argument("--reason", default="", help="reason of the condition")
        parser.add_argument("--name", default="", help="name of the object, for the commands")
        parser.add_argument("--namespace", default="", help="its namespace, for the commands")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--ndjson",
            nargs="?",
            const="-",
            metavar="FILE|-",
            help="read one JSON object a line with kind, type, reason and message, and print one a "
            "line; - or nothing reads standard input",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["ndjson"]:
            if options["text"]:
                raise CommandError("--ndjson reads the messages from its file; leave TEXT out.")
            self._explain_lines(options["ndjson"])
            return
        kind, type_, reason = options["kind"], options["type"], options["reason"]
        kinds = explained_kinds() | {row[0] for row in STATES}
        if kind and kind not in kinds:
            raise CommandError(
                f"--kind {kind} is not a kind that the knowledge base covers; "
                f"use one of {', '.join(sorted(kinds))}, or leave it out."
            )
        subject = {"name": options["name"], "namespace": options["namespace"]}
        given = options["text"] or ("" if reason else "-")
        text = (sys.stdin.read() if given == "-" else given).strip()
        if not text and not reason:
            raise CommandError("There is no message; give it as TEXT, or on standard input with -.")
        finding = _finding(kind, type_, reason, text, **subject)
        meant = _meaning(kind, type_, reason)
        if options["json"]:
            self.stdout.write(json.dumps({**_as_json(finding), "meaning": meant}))
        else:
            self.stdout.write("\n".join([*meant, _as_text(finding, text)]))

    def _explain_lines(self, path: str) -> None:
        """One JSON object for each line that is not empty; a line that is no object has `error`."""
        try:
            text = [] if path == "-" else Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path} can't be read: {error}.") from error
        for number, line in enumerate(sys.stdin if path == "-" else text, 1):
            if line.strip():
                self.stdout.write(json.dumps(_explain_line(line, number)))


def _explain_line(line: str, number: int) -> dict[str, Any]:
    try:
        asked = json.loads(line)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        return {"error": f"Line {number} is not a JSON object."}
    kind, type_, reason, message = (
        str(asked.get(name) or "") for name in ("kind", "type", "reason", "message")
    )
    finding = _finding(kind, type_, reason, message)
    return {**_as_json(finding), "meaning": _meaning(kind, type_, reason)}


def _finding(
    kind: str, type_: str, reason: str, message: str, *, namespace: str = "", name: str = ""
) -> Finding | None:
    read = read_pod_message(kind, namespace, name, reason, message)
    return classify(
        read.line or reason,
        kind=read.kind,
        type=type_,
        reason=reason,
        namespace=read.namespace,
        name=read.name,
    )


def _meaning(kind: str, type_: str, reason: str) -> list[str]:
    """What the states table says about the reason, whatever the message."""
    if not kind or not reason:
        return []
    return [
        f"{reason} of a {kind}, {where} {status}: {words}."
        for where, status, words in meanings(kind, reason, type_)
    ]


def _as_json(finding: Finding | None) -> dict[str, Any]:
    if finding is None:
        return {"finding": None} | dict.fromkeys(FIELDS) | {"facts": {}, "remedy": []}
    values = {field: getattr(finding, field) for field in FIELDS}
    return {"finding": finding.id} | values | {"remedy": plain_remedy(finding.remedy)}


def _as_text(finding: Finding | None, text: str) -> str:
    if finding is None and not text:
        return "The reason alone names no cause; give the message too."
    if finding is None:
        unknown = "No entry of the knowledge base matches this message."
        return f"{unknown}\nIts pattern: {fingerprint(text)}"
    lines = [f"{finding.title} ({finding.id})", finding.cause, "", "What to do:"]
    lines += [
        f"  {'$ ' if is_command(step) else ''}{step}" for step in plain_remedy(finding.remedy)
    ]
    if finding.note:
        lines += ["", finding.note]
    facts = ", ".join(f"{name}={value}" for name, value in finding.facts.items())
    return "\n".join([*lines, f"Facts: {facts}"] if facts else lines)
