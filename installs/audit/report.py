"""An audit in the shapes that leave the product: JSON, CSV, Markdown. Pure; reads no rows."""

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from catalogs.verdicts.read import ANY_TARGET, StoredRuleResult
from installs.audit.audit import Audit

COLUMNS = ("package", "bundle", "version", "channel", "verdict", "rule", "sentence")
CAME_TRUE = {True: "yes", False: "no", None: "not predicted"}
TITLES = {"installable": "installable", "not_installable": "not installable", "unknown": "unknown"}


def package_rows(found: Audit) -> list[dict[str, Any]]:
    """A dict for each package: COLUMNS, and every rule that speaks, worst first."""
    return [
        {
            **{name: getattr(row, name) for name in ("package", "bundle", "version", "channel")},
            "verdict": row.prediction.verdict.value,
            "target": row.prediction.target.value,
            "rule": row.prediction.rule,
            "sentence": row.prediction.sentence,
            "rules": [_said(each) for each in row.prediction.found],
        }
        for row in found.rows
    ]


def _said(each: StoredRuleResult) -> dict[str, str]:
    return {
        "rule": each.rule,
        "title": each.title,
        "verdict": each.verdict.value,
        "sentence": each.sentence,
    }


def agreement(found: Audit) -> dict[str, int]:
    agrees = [each.agrees for each in found.actual]
    return {
        "agree": agrees.count(True),
        "disagree": agrees.count(False),
        "undecided": agrees.count(None),
    }


def as_json(found: Audit) -> dict[str, Any]:
    """The audit in the shape of the REST interface, with a row for each package."""
    return {
        "catalog": found.catalog,
        "path": found.path.value,
        "cluster": found.cluster or None,
        "watch": found.target.value if found.target else ANY_TARGET,
        "namespace": found.spot.namespace if found.spot else None,
        "rules_version": found.rules_version,
        "judged_at": found.judged_at.isoformat() if found.judged_at else None,
        "notes": [_said(each) for each in found.notes],
        "counts": found.counts,
        "buckets": [
            {
                "rule": each.rule,
                "title": each.title,
                "verdict": each.verdict.value,
                "count": len(each.packages),
                "packages": list(each.packages),
            }
            for each in found.buckets
        ],
        "actual": {
            **agreement(found),
            "by_rule": [asdict(each) for each in found.came_true],
            "rows": [asdict(each) for each in found.actual],
        },
        "history": [{**asdict(each), "at": each.at.isoformat()} for each in found.history],
        "packages": package_rows(found),
    }


def as_csv(found: Audit) -> str:
    """A row for each package. A text that a spreadsheet would run gets an apostrophe before it."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows([_inert(row[column]) for column in COLUMNS] for row in package_rows(found))
    return out.getvalue()


def _inert(value: str) -> str:
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def as_markdown(found: Audit) -> str:
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Audit) -> Iterator[str]:
    where = f"on cluster {_cell(found.cluster)}" if found.cluster else "from catalog facts alone"
    counts = ", ".join(f"{found.counts[key]} {title}" for key, title in TITLES.items())
    yield f"# Audit of {_cell(found.catalog)} by {found.path}"
    yield ""
    yield f"{len(found.rows)} packages {where}: {counts}. Rules version {found.rules_version}."
    for note in found.notes:
        yield from ("", f"{_cell(note.sentence)} ({note.rule})")
    yield from _table(
        ("Packages", "Verdict", "Why", "Rule"),
        (
            (str(len(one.packages)), TITLES[one.verdict], one.title, one.rule)
            for one in found.buckets
        ),
    )
    if found.actual:
        yield from ("", "## Beside what happened")
        yield from _table(
            ("Operators", "StoredVerdict", "Why", "Came true"),
            (
                (str(one.count), TITLES[one.verdict], one.title, CAME_TRUE[one.agrees])
                for one in found.came_true
            ),
        )
    wrong = [each for each in found.actual if each.agrees is False]
    if wrong:
        yield from ("", "## Otherwise than predicted")
        yield from _table(
            ("Operator", "Is", "StoredVerdict", "Rule"),
            ((one.name, one.health, TITLES[one.verdict], one.rule) for one in wrong),
        )
    yield from ("", "## Packages")
    yield from _table(
        ("Package", "Bundle", "Verdict", "Why"),
        (
            (row.package, row.bundle, TITLES[row.prediction.verdict], row.prediction.sentence)
            for row in found.rows
        ),
    )


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Content is its author's: it must neither end the cell nor become markup."""
    text = " ".join(text.split())
    return "".join(f"\\{char}" if char in r"\`*_{}[]<>|#" else char for char in text)
