"""The entries of the knowledge base: reads `installs/knowledge/*.yaml`.

Their order is that of matching: by rank, the files of _FIRST before the others, then in the order
of STAGES and of their files. knowledge.py finds the entry for a message.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from installs.diagnosis.literals import required_literals

FOLDER = Path(__file__).resolve().parent.parent / "knowledge"
# Stage of an installation -> the files that hold its failures; `normal` holds what is no failure.
STAGES = {
    "source": ("source_nodes", "source_pods", "source"),
    "convert": ("convert_modes", "convert_bundle"),
    "unpack": (
        *("unpack_sources", "unpack_configmaps", "unpack_rukpak"),
        *("unpack_catalog", "unpack_network", "unpack_image", "unpack_layers"),
        *("unpack_jobs", "unpack_bundle"),
    ),
    "resolve": ("resolve_catalogd", "resolve_v1", "resolve_registry", "resolve_v0"),
    "upgrade": ("upgrade_checks", "upgrade_crds", "upgrade_openshift", "upgrade"),
    "install": (
        *("api_webhooks", "api_admission", "api_kinds", "api_objects"),
        *("api_server", "api_client"),
        *("install_helm", "install_revisions"),
        *("install_releases", "install_extensions", "install_v0"),
        *("csv_groups", "csv_requirements", "install_csv"),
    ),
    "runtime": (
        *("runtime", "runtime_scheduling", "runtime_events", "runtime_containers"),
        *("runtime_pods", "notes"),
    ),
    "normal": ("normal", "normal_openshift", "normal_workloads"),
}
# Refusals of the API server: any controller may pass them on about any object, so that they come
# before the other entries of their rank. So do errors of requests to catalogd, as it is no
# registry.
_FIRST = (
    *("resolve_catalogd", "api_webhooks", "api_admission", "api_kinds", "api_objects"),
    *("api_server", "api_client"),
)
# What `kinds: [every]` stands for.
KINDS = (
    *("PlatformOperator", "BundleDeployment", "Bundle", "ClusterExtension", "ClusterObjectSet"),
    *("ClusterCatalog", "CatalogSource", "Subscription", "InstallPlan", "ClusterServiceVersion"),
    *("OperatorGroup", "OperatorCondition", "OLMConfig", "ClusterOperator", "Deployment"),
    "ClusterVersion",
)
# Before anything of the bundle is on the cluster.
_NOTHING_INSTALLED = ("source", "convert", "unpack")


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts to use instead when the pattern extracted `fact`, for objects of `kinds` and in
    conditions with `reasons`; an empty condition always holds. Without a title, cause, `retryable`
    or note the entry's own stays. The entry's title has to be true of every variant: operators with
    different variants are grouped under it."""

    remedy: tuple[str, ...]
    title: str = ""
    cause: str = ""
    retryable: bool | None = None
    note: str = ""
    fact: str = ""
    kinds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def fits(self, facts: Mapping[str, str], kind: str, reason: str) -> bool:
        """Whether these texts are for an object of `kind` whose message has these facts, and is
        given with `reason`."""
        return (
            (not self.fact or bool(facts.get(self.fact)))
            and (not self.kinds or kind in self.kinds)
            and (not self.reasons or reason in self.reasons)
        )


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry as written in YAML. Steps of `remedy` that start with `$ ` are commands; those that
    start with the name of a group of the pattern, such as `[taint] `, are for messages that have
    that fact.

    `instead` are the kinds with which the remedy says to install the package in place of this one.
    """

    id: str
    title: str
    kinds: tuple[str, ...]
    pattern: str
    samples: tuple[str, ...]
    cause: str
    remedy: tuple[str, ...]
    retryable: bool
    source: tuple[str, ...]
    verified: Literal["verified", "partial", "unverified"]
    note: str = ""
    instead: tuple[Literal["PlatformOperator", "ClusterExtension", "Subscription"], ...] = ()
    wrapper: bool = False
    rank: int = 0
    variants: tuple[Variant, ...] = ()


class KnowledgeEntry(Record, frozen=True, kw_only=True):
    """A record with its stage and compiled pattern. Every match of it contains one of `literals`,
    if there are any."""

    stage: str
    regex: re.Pattern[str]
    literals: tuple[str, ...] = ()

    @property
    def installs_nothing(self) -> bool:
        """Whether an installation that fails here has put nothing of its bundle on the cluster."""
        return self.stage in _NOTHING_INSTALLED


@cache
def knowledge() -> tuple[KnowledgeEntry, ...]:
    """All entries in the order of matching.

    Raises msgspec.ValidationError or re.error if a file is invalid.
    """
    files = [(stage, name) for stage, names in STAGES.items() for name in names]
    files.sort(key=lambda file: file[1] not in _FIRST)
    entries: list[KnowledgeEntry] = []
    for stage, name in files:
        text = (FOLDER / f"{name}.yaml").read_bytes()
        for record in msgspec.yaml.decode(text, type=list[Record]):
            fields = msgspec.structs.asdict(record)
            if record.kinds == ("every",):
                fields["kinds"] = KINDS
            regex, literals = re.compile(record.pattern), required_literals(record.pattern)
            entries.append(KnowledgeEntry(**fields, stage=stage, regex=regex, literals=literals))
    return tuple(sorted(entries, key=lambda entry: entry.rank))


@cache
def by_id() -> dict[str, KnowledgeEntry]:
    return {entry.id: entry for entry in knowledge()}
