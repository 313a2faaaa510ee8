"""`manage.py explain`: the diagnosis of one raw message at the terminal."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from installs.diagnosis.knowledge import (
    Finding,
    classify,
    fingerprint,
    is_command,
    knowledge,
    plain_remedy,
)
from installs.diagnosis.states import STATES, meanings

FIELDS = ("title", "cause", "remedy", "retryable", "facts", "confidence", "note", "source")


class Command(BaseCommand):
    help = "Says what a status message means: cause, remedy, and whether it goes away by itself."
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

    def handle(self, *args: Any, **options: Any) -> None:
        kind, type_, reason = options["kind"], options["type"], options["reason"]
        kinds = {kind for entry in knowledge() for kind in entry.kinds} | {row[0] for row in STATES}
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
        finding = classify(text or reason, kind=kind, type=type_, reason=reason, **subject)
        meant = [
            f"{reason} of a {kind}, {where} {status}: {words}."
            for where, status, words in (meanings(kind, reason, type_) if kind and reason else ())
        ]
        if options["json"]:
            self.stdout.write(json.dumps({**_as_json(finding), "meaning": meant}))
        else:
            self.stdout.write("\n".join([*meant, _as_text(finding, text)]))


def _as_json(finding: Finding | None) -> dict[str, Any]:
    if finding is None:
        return {"finding": None} | dict.fromkeys(FIELDS) | {"facts": {}, "remedy": []}
    values = {field: getattr(finding, field) for field in FIELDS}
    return {"finding": finding.id} | values | {"remedy": plain_remedy(finding.remedy)}


def _as_text(finding: Finding | None, text: str) -> str:
    if finding is None and not text:
        return "The reason alone names no cause; give the message too."
    if finding is None:
        return f"The knowledge base does not know this message.\nIts pattern: {fingerprint(text)}"
    lines = [f"{finding.title} ({finding.id})", finding.cause, "", "What to do:"]
    lines += [
        f"  {'$ ' if is_command(step) else ''}{step}" for step in plain_remedy(finding.remedy)
    ]
    if finding.note:
        lines += ["", finding.note]
    facts = ", ".join(f"{name}={value}" for name, value in finding.facts.items())
    return "\n".join([*lines, f"Facts: {facts}"] if facts else lines)
