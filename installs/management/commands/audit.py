"""`manage.py audit`: which packages of a catalog could be installed by one path, and why not."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_named_catalog
from catalogs.models import Catalog
from catalogs.verdicts.facts import WatchTarget
from installs.audit.audit import WATCHES, Audit, audit, read_watch
from installs.audit.report import TITLES, agreement, as_csv, as_json
from installs.facts.evaluate import refresh
from olmweb.clusters import get_cluster
from olmweb.errors import Missing
from olmweb.models import Cluster

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
        catalog, cluster = _catalog(options["catalog"]), _cluster(options["cluster"])
        try:
            method = InstallMethod.parse(options["path"])
        except ValueError as error:
            raise CommandError(f"--path: {error}") from None
        if options["namespace"] and (not cluster or method != InstallMethod.SUBSCRIPTION):
            raise CommandError("--namespace is of a cluster's Subscriptions: give --cluster, too.")
        refresh(catalog, [cluster] if cluster else [])  # the worker may not have come to it yet
        found = audit(
            catalog,
            method,
            cluster=cluster,
            target=read_watch(options["watch"]),
            namespace=options["namespace"],
        )
        if options["json"]:
            self.stdout.write(json.dumps(as_json(found)))
        elif options["csv"]:
            self.stdout.write(as_csv(found), ending="")
        else:
            self.stdout.write(_as_text(found))


def _catalog(name: str) -> Catalog:
    try:
        return get_named_catalog(name)
    except Missing as error:
        raise CommandError(f"{error.message} {error.hint}".rstrip()) from None


def _cluster(name: str) -> Cluster | None:
    if not name:
        return None
    try:
        return get_cluster(name)
    except Missing as error:
        raise CommandError(f"{error.message} {error.hint}") from None


def _as_text(found: Audit) -> str:
    counts = ", ".join(f"{found.counts[key]} {title}" for key, title in TITLES.items())
    where = f"cluster {found.cluster}" if found.cluster else "catalog facts only"
    where += f", namespace {found.namespace_check.namespace}" if found.namespace_check else ""
    lines = [
        f"{found.catalog} by {found.path} ({where}): {len(found.rows)} packages: {counts}.",
        *(f"{note.sentence} ({note.rule})" for note in found.notes),
        "",
    ]
    for bucket in found.buckets:
        named = ", ".join(bucket.packages[:NAMED])
        more = len(bucket.packages) - NAMED
        rule = f" ({bucket.rule})" if bucket.rule else ""
        lines.append(f"{len(bucket.packages):>5}  {bucket.title}{rule}")
        lines.append(f"       {named}{f' and {more} more' if more > 0 else ''}")
    if found.actual:
        agrees = agreement(found)
        lines += [
            "",
            f"Beside what the cluster has: {agrees['agree']} agree, {agrees['disagree']} disagree, "
            f"{agrees['undecided']} are not predicted.",
        ]
    for one in found.outcomes:
        rule = f" ({one.rule})" if one.rule else ""
        said = {True: "as it is", False: "and it is not so", None: "not predicted"}[one.agrees]
        lines.append(f"{one.count:>5}  {one.title}{rule}: {said}")
    for each in found.actual:
        if each.agrees is False:
            rule = f" ({each.rule})" if each.rule else ""
            lines.append(f"  {each.name}: {each.health}, predicted {TITLES[each.verdict]}{rule}")
    return "\n".join(lines)
