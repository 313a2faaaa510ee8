"""Messages that the knowledge base does not explain, with the operators that report them now."""

import platform
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from installs.diagnosis.knowledge import Finding, classify
from installs.diagnosis.masking import mask_names
from installs.models import NEEDS_ATTENTION, Operator, UnknownMessage
from installs.state.assess import MessageKey, unknown_message
from olmweb import __version__

OPERATORS_READ = 1_000  # that report an unexplained message now
OPERATORS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """A message with its names masked. `operators` report it now, at most OPERATORS_SHOWN of
    `reported`; `finding` is that of an entry that was added since it was counted."""

    row: UnknownMessage
    text: str
    operators: tuple[Operator, ...]
    reported: int
    finding: Finding | None

    @property
    def issue_text(self) -> str:
        """What to report to the project, without any name of the cluster."""
        return "\n".join(
            (
                f"A status message of a {self.row.kind} has no explanation.",
                "",
                f"Kind: {self.row.kind}",
                f"Reason: {mask_names(self.row.reason) or '-'}",
                f"Message: {self.text}",
                f"Seen: {self.row.count} time{'' if self.row.count == 1 else 's'}",
                f"OLM Web {__version__}, Python {platform.python_version()}",
                "",
                "Names, addresses, numbers and quotations are replaced by … .",
            )
        )


def unknown_rows(rows: Sequence[UnknownMessage]) -> list[UnknownRow]:
    """These messages with their operators; two queries, however many there are."""
    operators = _reporting()
    return [_with_operators(row, operators[MessageKey(row.fingerprint, row.kind)]) for row in rows]


def matching(words: str) -> QuerySet[UnknownMessage]:
    """The messages whose text or reason contains the words; the most frequent ones first."""
    rows = UnknownMessage.objects.all()
    if words:
        rows = rows.filter(sample__icontains=words) | rows.filter(reason__icontains=words)
    return rows.order_by("-count", "-last_at", "id")


def _reporting() -> dict[MessageKey, list[Operator]]:
    by_key: dict[MessageKey, list[Operator]] = defaultdict(list)
    failing = (
        Operator.objects.filter(finding="", health__in=NEEDS_ATTENTION)
        .exclude(message="")
        .select_related("cluster")
        .order_by("cluster__name", "namespace", "name", "id")
    )
    for operator in failing[:OPERATORS_READ]:
        if (key := unknown_message(operator)) is not None:
            by_key[key].append(operator)
    return by_key


def _with_operators(row: UnknownMessage, operators: Sequence[Operator]) -> UnknownRow:
    names = set(row.example.split(", "))
    for operator in operators:
        names |= {operator.cluster.name, operator.namespace, operator.name, operator.package}
    return UnknownRow(
        row,
        mask_names(row.sample, names),
        tuple(operators[:OPERATORS_SHOWN]),
        len(operators),
        classify(row.sample, kind=row.kind, reason=row.reason),
    )
