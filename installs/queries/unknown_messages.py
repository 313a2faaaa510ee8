"""Messages that the knowledge base does not explain, with the operators that report them now."""

import platform
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from installs.diagnosis.knowledge import TEXT_LIMIT, Finding, classify
from installs.models import NEEDS_ATTENTION, Operator, UnknownMessage
from installs.state.assess import MessageKey, unknown_message
from olmweb import __version__

OPERATORS_READ = 1_000  # that report an unexplained message now
OPERATORS_SHOWN = 10
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


# -- messages without names ------------------------------------------------------------------------


def mask_names(text: str, names: Iterable[str] = ()) -> str:
    """The message in one line without names, so that it can be shown to people outside the cluster;
    at most 2,000 characters.

    Plain words, kinds, reasons and paths of fields stay, which say what happened. Everything that
    may be a name, an address, an image, a path, a number or a quotation becomes `…`: rather too
    much than too little, as the text is to leave the cluster.

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
