"""Formats an audit as JSON, CSV and Markdown. Pure; reads no rows."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from catalogs.verdicts.read import ANY_TARGET
from catalogs.verdicts.rules import RuleResult
from installs.audit.audit import Audit, AuditedOperator, RuleOutcome
from olmweb.api.parameters import own_value

COLUMNS = ("package", "bundle", "version", "channel", "verdict", "rule", "sentence")
AGREEMENT = {True: "yes", False: "no", None: "not predicted"}
TITLES = {"installable": "installable", "not_installable": "not installable", "unknown": "unknown"}


def package_rows(audit: Audit) -> list[dict[str, Any]]:
    """A dict for each package: COLUMNS, and the results of all rules that apply, worst first."""
    return [
        {
            **{name: getattr(row, name) for name in ("package", "bundle", "version", "channel")},
            "verdict": own_value(row.prediction.verdict),
            "target": row.prediction.target.value,
            "rule": row.prediction.rule,
            "sentence": row.prediction.sentence,
            "rules": [_rule_json(result) for result in row.prediction.results],
        }
        for row in audit.rows
    ]


def _rule_json(result: RuleResult) -> dict[str, str]:
    return {
        "rule": result.rule,
        "title": result.title,
        "verdict": own_value(result.verdict),
        "sentence": result.sentence,
    }


def agreement(audit: Audit) -> dict[str, int]:
    agrees = [operator.agrees for operator in audit.actual]
    return {
        "agree": agrees.count(True),
        "disagree": agrees.count(False),
        "undecided": agrees.count(None),
    }


def as_json(audit: Audit) -> dict[str, Any]:
    """The audit as the JSON object of the REST API, with a row for each package."""
    return {
        "catalog": audit.catalog,
        "method": audit.path.value,
        "cluster": audit.cluster or None,
        "target": audit.target.value if audit.target else ANY_TARGET,
        "namespace": audit.namespace_check.namespace if audit.namespace_check else None,
        "rules_version": audit.rules_version,
        "evaluated_at": _moment(audit.evaluated_at) if audit.evaluated_at else None,
        "notes": [_rule_json(note) for note in audit.notes],
        "counts": _by_verdict(audit.counts),
        "buckets": [
            {
                "rule": bucket.rule,
                "title": bucket.title,
                "verdict": own_value(bucket.verdict),
                "count": len(bucket.packages),
                "packages": list(bucket.packages),
            }
            for bucket in audit.buckets
        ],
        "actual": {
            **agreement(audit),
            "by_rule": [_with_verdict(outcome) for outcome in audit.outcomes],
            "operators": [_with_verdict(operator) for operator in audit.actual],
        },
        "history": [
            {
                "created_at": _moment(past.at),
                "revision": past.revision,
                "rules_version": past.rules_version,
                "counts": _by_verdict(past.counts),
            }
            for past in audit.history
        ],
        "packages": package_rows(audit),
    }


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _by_verdict(counts: Mapping[str, int]) -> dict[str, int]:
    return {own_value(verdict): count for verdict, count in counts.items()}


def _with_verdict(row: AuditedOperator | RuleOutcome) -> dict[str, Any]:
    return asdict(row) | {"verdict": own_value(row.verdict) if row.verdict else ""}


def as_csv(audit: Audit) -> str:
    """A row for each package. Formulas are escaped by an apostrophe."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(
        [_escape_formula(row[column]) for column in COLUMNS] for row in package_rows(audit)
    )
    return out.getvalue()


def _escape_formula(value: str) -> str:
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def as_markdown(audit: Audit) -> str:
    return "\n".join(_lines(audit)) + "\n"


def _lines(audit: Audit) -> Iterator[str]:
    where = f"on cluster {_cell(audit.cluster)}" if audit.cluster else "from catalog facts alone"
    counts = ", ".join(f"{audit.counts[key]} {title}" for key, title in TITLES.items())
    yield f"# Audit of {_cell(audit.catalog)} by {audit.path}"
    yield ""
    yield f"{len(audit.rows)} packages {where}: {counts}. Rules version {audit.rules_version}."
    for note in audit.notes:
        yield from ("", f"{_cell(note.sentence)} ({note.rule})")
    yield from _table(
        ("Packages", "Verdict", "Why", "Rule"),
        (
            (str(len(bucket.packages)), TITLES[bucket.verdict], bucket.title, bucket.rule)
            for bucket in audit.buckets
        ),
    )
    if audit.actual:
        yield from ("", "## Predicted vs actual")
        yield from _table(
            ("Operators", "Predicted", "Why", "Matched"),
            (
                (
                    str(outcome.count),
                    TITLES[outcome.verdict],
                    outcome.title,
                    AGREEMENT[outcome.agrees],
                )
                for outcome in audit.outcomes
            ),
        )
    wrong = [operator for operator in audit.actual if operator.agrees is False]
    if wrong:
        yield from ("", "## Otherwise than predicted")
        yield from _table(
            ("Operator", "Is", "Predicted", "Rule"),
            (
                (operator.name, operator.health, TITLES[operator.verdict], operator.rule)
                for operator in wrong
            ),
        )
    yield from ("", "## Packages")
    yield from _table(
        ("Package", "Bundle", "Verdict", "Why"),
        (
            (row.package, row.bundle, TITLES[row.prediction.verdict], row.prediction.sentence)
            for row in audit.rows
        ),
    )


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Escapes text of a catalog, which must neither end the cell nor be read as markup."""
    text = " ".join(text.split())
    return "".join(f"\\{char}" if char in r"\`*_{}[]<>|#" else char for char in text)
