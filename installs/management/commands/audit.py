"""`manage.py audit`: which packages of a catalog could be installed by one path, and why not."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_named_catalog
from catalogs.verdicts.facts import WatchTarget
from installs.audit.audit import WATCHES, Audit, audit, read_watch
from installs.audit.report import TITLES, agreement, as_csv, as_json
from installs.facts.evaluate import refresh
from olmweb.clusters import get_cluster
from olmweb.errors import Missing

NAMED = 6  # packages of a bucket on the terminal


class Command(BaseCommand):
    help = (
        "Says for every package of a catalog whether the bundle that would be chosen can be "
        "installed, and by which rule not; with --cluster, how that compares with what it has."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("catalog", help="NAME, or CLUSTER/NAME where several have the name")
        parser.add_argument("--path", required=True, metavar="PATH", help=", ".join(InstallMethod))
        parser.add_argument("--cluster", default="", help="ask this cluster's facts, too")
        parser.add_argument(
            "--watch",
            default=WatchTarget.ALL.value,
            choices=WATCHES,
            help="namespaces that the OperatorGroup of a Subscription selects (default: all); "
            "any: those with which the package is installable",
        )
        parser.add_argument(
            "--namespace",
            default="",
            help="a namespace of the cluster: its OperatorGroup counts instead of --watch",
        )
        output = parser.add_mutually_exclusive_group()
        output.add_argument("--json", action="store_true", help="print one JSON object")
        output.add_argument("--csv", action="store_true", help="print a row for each package")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["cluster"]
        try:
            catalog = get_named_catalog(options["catalog"])
            cluster = get_cluster(name) if name else None
            method = InstallMethod.parse(options["path"])
        except Missing as error:
            raise CommandError(f"{error.message} {error.hint}".rstrip()) from None
        except ValueError as error:
            raise CommandError(f"--path: {error}") from None
        if options["namespace"] and (not cluster or method != InstallMethod.SUBSCRIPTION):
            raise CommandError("--namespace is of a cluster's Subscriptions: give --cluster, too.")
        refresh(catalog, [cluster] if cluster else [])  # the worker may not have come to it yet
        report = audit(
            catalog,
            method,
            cluster=cluster,
            target=read_watch(options["watch"]),
            namespace=options["namespace"],
        )
        if options["json"]:
            self.stdout.write(json.dumps(as_json(report)))
        elif options["csv"]:
            self.stdout.write(as_csv(report), ending="")
        else:
            self.stdout.write(_as_text(report))


def _as_text(report: Audit) -> str:
    counts = ", ".join(f"{report.counts[key]} {title}" for key, title in TITLES.items())
    where = f"cluster {report.cluster}" if report.cluster else "catalog facts only"
    where += f", namespace {report.namespace_check.namespace}" if report.namespace_check else ""
    lines = [
        f"{report.catalog} by {report.path} ({where}): {len(report.rows)} packages: {counts}.",
        *(f"{note.sentence} ({note.rule})" for note in report.notes),
        "",
    ]
    for bucket in report.buckets:
        named = ", ".join(bucket.packages[:NAMED])
        more = len(bucket.packages) - NAMED
        rule = f" ({bucket.rule})" if bucket.rule else ""
        lines.append(f"{len(bucket.packages):>5}  {bucket.title}{rule}")
        lines.append(f"       {named}{f' and {more} more' if more > 0 else ''}")
    if report.actual:
        numbers = agreement(report)
        lines += [
            "",
            f"Beside what the cluster has: {numbers['agree']} agree, "
            f"{numbers['disagree']} disagree, {numbers['undecided']} are not predicted.",
        ]
    for outcome in report.outcomes:
        rule = f" ({outcome.rule})" if outcome.rule else ""
        agrees = {True: "as it is", False: "and it is not so", None: "not predicted"}
        lines.append(f"{outcome.count:>5}  {outcome.title}{rule}: {agrees[outcome.agrees]}")
    for row in report.actual:
        if row.agrees is False:
            rule = f" ({row.rule})" if row.rule else ""
            lines.append(f"  {row.name}: {row.health}, predicted {TITLES[row.verdict]}{rule}")
    return "\n".join(lines)
