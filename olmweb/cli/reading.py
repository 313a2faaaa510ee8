"""Commands that read: operators, catalogs, audit, readiness, compare, resolve, explain."""

from collections.abc import Iterator
from typing import Any

import click

from olmweb.cli import output
from olmweb.cli.backends import Local, get, get_list, path_of, run_command
from olmweb.cli.failures import Exit, Failure, usage
from olmweb.cli.frame import (
    LOOK,
    Choice,
    Command,
    Session,
    complete_catalog,
    complete_cluster,
    method_option,
    names_of,
    pairs,
    pass_session,
)
from olmweb.cli.output import Column, Row, age, details, section, steps, table

HEALTH = (
    *("Failed", "Blocked", "Degraded", "NeedsApproval"),
    *("Unknown", "Installing", "Upgrading", "Healthy"),
)
SEVERITIES = ("blocks", "completion", "holds", "unknown", "plan")
WATCHES = ("all", "own", "any")
PACKAGES_SHOWN = 6  # of a rule of an audit; --json has all
CANDIDATES_SHOWN = 12  # of a resolution; --json has all
NO_CLUSTER = "-"
limit_option = click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="At most N rows; all without it."
)


# --- operators --------------------------------------------------------------------------------


def _cause(row: Row) -> str:
    if row["finding"]:
        return str(row["finding"]["title"])
    return str(row["upgrade_held"] if row["health"] == "Healthy" else row["reason"])


OPERATORS = (
    Column("CLUSTER", "cluster"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("KIND", "kind"),
    Column("VERSION", "version"),
    Column("HEALTH", "health"),
    Column("SINCE", lambda row: age(row["health_since"])),
    Column("CAUSE", _cause),
)
LINKS = (
    Column("KIND", "kind"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("REASON", "reason"),
    Column("MESSAGE", "message"),
)


@click.command(cls=Command, section=LOOK)
@click.argument("name", required=False, shell_complete=names_of("operators", "name"))
@click.option(
    "--cluster",
    metavar="CLUSTER",
    multiple=True,
    shell_complete=complete_cluster,
    help="Only of this cluster; may be repeated.",
)
@click.option(
    "--kind", metavar="KIND", multiple=True, help="Only of this Kubernetes kind; may be repeated."
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    multiple=True,
    help="Only in this namespace; - for none.",
)
@click.option(
    "--health",
    multiple=True,
    type=Choice(HEALTH),
    metavar="HEALTH",
    help=f"Only in this health ({', '.join(HEALTH)}); may be repeated.",
)
@click.option("--finding", metavar="ID", multiple=True, help="Only with this finding; - for none.")
@click.option(
    "--package", metavar="PACKAGE", multiple=True, help="Only of this package; may be repeated."
)
@click.option(
    "--search", "q", metavar="WORDS", help="Only with these words in name, package or message."
)
@limit_option
@pass_session
def operators(session: Session, name: str | None, limit: int | None, **filters: Any) -> None:
    """Installed operators with their health; with NAME one operator, its cause and remedy."""
    if name:
        row = _one_operator(session, name, pairs(**filters))
        session.answer(row, lambda: _operator_lines(row))
        return
    document = get_list(session.backend, "operators", pairs(**filters), limit)
    session.answer_list(
        document, OPERATORS, things="operators", empty="No installed operators match."
    )


def _one_operator(session: Session, name: str, filters: Any) -> Any:
    """The details of the operator. Raises Failure when no operator or several have the name."""
    listed = get_list(session.backend, "operators", filters)["items"]
    rows = [row for row in listed if row["name"] == name]
    if not rows:
        raise Failure(
            f"No operator is called {name}.",
            code="unknown-operator",
            hint="`olmweb operators` lists them; options narrow the list.",
        )
    if len(rows) > 1:
        names = ", ".join(
            f"{row['cluster']} {row['kind']} {row['namespace'] or NO_CLUSTER}/{name}"
            for row in rows
        )
        raise Failure(
            f"Several operators are called {name}: {names}.",
            code="several-operators",
            hint="Choose one with --cluster, --kind and --namespace.",
        )
    row = rows[0]
    path = path_of(
        "operators", row["cluster"], row["kind"], row["namespace"] or NO_CLUSTER, row["name"]
    )
    return get(session.backend, path)


def _operator_lines(row: Row) -> Iterator[str]:
    finding = row["finding"]
    yield from details(
        [
            ("Name", row["name"]),
            ("Cluster", row["cluster"]),
            ("Kind", row["kind"]),
            ("Namespace", row["namespace"]),
            ("Package", row["package"]),
            ("Catalog", row["catalog"] or row["catalog_name"]),
            ("Channel", row["channel"]),
            ("Version", row["version"]),
            ("Upgrade", row["upgrade"]),
            ("Health", row["health"]),
            ("Since", f"{age(row['health_since'])} ago" if row["health_since"] else ""),
            ("Reason", row["reason"]),
            ("Message", row["message"]),
            ("Not upgraded", row["upgrade_held"]),
        ]
    )
    if finding:
        cause = [output.plain(text) for text in (finding["title"], finding["cause"]) if text]
        yield from section("Cause", cause)
        yield from section("Remedy", steps(finding["remedy"]))
    chain = row["chain"]
    if chain:
        yield from section("Install progress", table(LINKS, chain, empty=""))


# --- catalogs ---------------------------------------------------------------------------------


def _catalog_state(row: Row) -> str:
    return f"{row['state']} (stale)" if row["stale"] else str(row["state"])


CATALOGS = (
    Column("CATALOG", "catalog"),
    Column("KIND", "source_kind"),
    Column("STATE", _catalog_state),
    Column("PACKAGES", "packages"),
    Column("BUNDLES", "bundles"),
    Column("PROBLEMS", "problems"),
    Column("SYNCED", lambda row: age(row["synced_at"])),
    Column("ERROR", lambda row: (row["error"] or {}).get("message", "")),
)


@click.command(cls=Command, section=LOOK)
@click.argument("name", metavar="[[CLUSTER/]NAME]", required=False, shell_complete=complete_catalog)
@click.option(
    "--cluster",
    metavar="CLUSTER",
    multiple=True,
    shell_complete=complete_cluster,
    help="Only of this cluster; - for none.",
)
@click.option(
    "--state",
    metavar="STATE",
    multiple=True,
    help="Only in this state: new, serving, failed, disabled.",
)
@pass_session
def catalogs(session: Session, name: str | None, **filters: Any) -> None:
    """Catalogs with their state; with NAME one catalog and its revisions.

    A catalog that a cluster has as a ClusterCatalog and as a CatalogSource is listed as both. The
    page of the software catalog counts it once.
    """
    if name:
        row = get(session.backend, path_of("catalogs", *session.catalog(name)))
        session.answer(row, lambda: _catalog_lines(row))
        return
    document = get_list(session.backend, "catalogs", pairs(**filters))
    session.answer(document, lambda: table(CATALOGS, document["items"], empty="No catalogs match."))


def _catalog_lines(row: Row) -> Iterator[str]:
    error = row["error"] or {}
    yield from details(
        [
            ("Catalog", row["catalog"]),
            ("Kind", row["source_kind"]),
            ("Source", row["source"]),
            ("State", _catalog_state(row)),
            ("Packages", row["packages"]),
            ("Channels", row["channels"]),
            ("Bundles", row["bundles"]),
            ("Problems", row["problems"]),
            ("Synced", f"{age(row['synced_at'])} ago" if row["synced_at"] else "never"),
            ("Error", error.get("message")),
            ("Hint", error.get("hint")),
        ]
    )
    columns = (
        Column("REVISION", "revision"),
        Column("AGE", lambda revision: age(revision["created_at"])),
    )
    if row["revisions"]:
        yield from section("Revisions", table(columns, row["revisions"], empty=""))


# --- audit ------------------------------------------------------------------------------------


def _named(bucket: Row) -> str:
    packages = bucket["packages"]
    more = len(packages) - PACKAGES_SHOWN
    return ", ".join(packages[:PACKAGES_SHOWN]) + (f" and {more} more" if more > 0 else "")


BUCKETS = (
    Column("PACKAGES", "count"),
    Column("VERDICT", lambda row: output.WORDS[row["verdict"]]),
    Column("RULE", "rule"),
    Column("WHY", "title"),
    Column("NAMES", _named),
)
DISAGREEING = (
    Column("OPERATOR", "name"),
    Column("HEALTH", "health"),
    Column("PREDICTED", lambda row: output.WORDS.get(row["verdict"], row["verdict"])),
    Column("RULE", "rule"),
)


@click.command(cls=Command, section=LOOK)
@click.argument("cluster", shell_complete=complete_cluster)
@click.argument("catalog", metavar="[CLUSTER/]CATALOG", shell_complete=complete_catalog)
@method_option()
@click.option(
    "--watch",
    "target",
    type=Choice(WATCHES),
    help="Namespaces that the OperatorGroup of a Subscription selects.  [default: all]",
)
@click.option(
    "-n", "--namespace", metavar="NAMESPACE", help="A namespace whose OperatorGroup counts instead."
)
@pass_session
def audit(session: Session, cluster: str, catalog: str, method: str, **options: Any) -> None:
    """Which packages of CATALOG an install method can install on CLUSTER, and why not the others.

    CLUSTER - is the catalog alone, without the facts of a cluster.
    """
    on = "" if cluster == NO_CLUSTER else cluster
    reference = "/".join(session.catalog(catalog))
    if isinstance(session.backend, Local):
        session.backend.refresh_verdicts(reference, on)
    query = pairs(catalog=reference, method=method, cluster=on, **options)
    document = get(session.backend, "audit", query)
    session.answer(document, lambda: _audit_lines(document))


def _audit_lines(document: Row) -> Iterator[str]:
    if document["evaluated_at"] is None:
        yield "No verdict is stored yet: a worker evaluates a catalog after its sync."
        return
    counts = document["counts"]
    yield (
        f"{len(document['packages'])} packages: {counts['installable']} installable, "
        f"{counts['not-installable']} not installable, {counts['unknown']} unknown."
    )
    yield from (output.plain(note["sentence"]) for note in document["notes"])
    yield ""
    yield from table(BUCKETS, document["buckets"], empty="The catalog has no packages.")
    actual = document["actual"]
    if actual["operators"]:
        numbers = f"{actual['agree']} matched, {actual['disagree']} did not"
        wrong = [row for row in actual["operators"] if row["agrees"] is False]
        lines = table(DISAGREEING, wrong, empty="Every prediction matched.")
        yield from section(f"Predicted vs actual ({numbers})", lines)


# --- readiness, compare -----------------------------------------------------------------------

READINESS = (
    Column("CLUSTER", "cluster"),
    Column("TO", "next_version"),
    Column("SEVERITY", "severity"),
    Column("KIND", "kind"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("VERSION", "version"),
    Column("BLOCKER", "message"),
)
DIFFERENCES = (
    Column("PACKAGE", "package"),
    Column("CHANGE", "kind"),
    Column("SUBJECT", "subject"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("IMPACT", lambda row: " ".join([*row["affects"], *row["affects_if_moved"]])),
)


@click.command(cls=Command, section=LOOK)
@click.argument("cluster", required=False, shell_complete=complete_cluster)
@click.option(
    "--severity",
    multiple=True,
    type=Choice(SEVERITIES),
    help="Only of this severity; may be repeated.",
)
@click.option("--code", metavar="ID", multiple=True, help="Only of this rule; may be repeated.")
@click.option(
    "--search", "q", metavar="WORDS", help="Only with these words in name, package or sentence."
)
@click.option(
    "--next-catalog",
    metavar="[CLUSTER/]CATALOG",
    shell_complete=complete_catalog,
    help="Catalog of the next minor version: adds what it no longer has.",
)
@limit_option
@pass_session
def readiness(
    session: Session,
    cluster: str | None,
    limit: int | None,
    next_catalog: str | None,
    **filters: Any,
) -> None:
    """What blocks the next minor version of CLUSTER, or of every cluster."""
    if cluster:
        get(session.backend, path_of("clusters", cluster))  # an unknown one is refused
    if next_catalog:
        next_catalog = "/".join(session.catalog(next_catalog))
    query = pairs(cluster=cluster, next_catalog=next_catalog, **filters)
    document = get_list(session.backend, "readiness", query, limit)
    session.answer_list(document, READINESS, things="blockers", empty="No blockers found.")


@click.command(cls=Command, section=LOOK)
@click.argument("before", metavar="FROM", shell_complete=complete_catalog)
@click.argument("after", metavar="TO", shell_complete=complete_catalog)
@click.option(
    "--kind", metavar="KIND", multiple=True, help="Only this kind of change; may be repeated."
)
@click.option("--package", metavar="PACKAGE", help="Only of this package.")
@limit_option
@pass_session
def compare(session: Session, before: str, after: str, limit: int | None, **filters: Any) -> None:
    """What differs between two catalogs, or two revisions of one.

    FROM and TO are [CLUSTER/]CATALOG or [CLUSTER/]CATALOG@REVISION.
    """
    query = pairs(from_=_point(session, before), to=_point(session, after), **filters)
    document = get_list(session.backend, "compare", query, limit)
    session.answer_list(document, DIFFERENCES, things="changes", empty="Nothing differs.")


def _point(session: Session, text: str) -> str:
    name, at, revision = text.partition("@")
    return "/".join(session.catalog(name)) + at + revision


# --- resolve, explain -------------------------------------------------------------------------

CANDIDATES = (
    Column("BUNDLE", "bundle"),
    Column("VERSION", "version"),
    Column("NOT SELECTED BECAUSE", "reason"),
)


@click.command(cls=Command, section=LOOK)
@click.argument("catalog", metavar="[CLUSTER/]CATALOG", shell_complete=complete_catalog)
@click.argument("package")
@method_option()
@click.option(
    "--version", metavar="VERSION", help="A version or range, in the grammar of the method."
)
@click.option("--channel", metavar="CHANNEL", multiple=True, help="A channel; may be repeated.")
@click.option("--installed", metavar="BUNDLE", help="The bundle that is installed already.")
@pass_session
def resolve(session: Session, catalog: str, package: str, method: str, **options: Any) -> int:
    """Which bundle of PACKAGE a controller would select, and why not another.

    Ends with 1 if it would select none.
    """
    path = path_of("packages", *session.catalog(catalog), package, "resolve")
    document = get(session.backend, path, pairs(method=method, **options))
    session.answer(document, lambda: _resolution_lines(document))
    return Exit.DONE if document["bundle"] else Exit.REFUSED


def _resolution_lines(document: Row) -> Iterator[str]:
    yield from details(
        [
            ("Selected", document["bundle"] or "nothing"),
            ("Version", document["version"]),
            ("Channel", document["channel"]),
            ("Reason", document["reason"]),
            ("Message", document["message"]),
        ]
    )
    others = [candidate for candidate in document["candidates"] if not candidate["chosen"]]
    if others:
        yield ""
        yield from table(CANDIDATES, others[:CANDIDATES_SHOWN], empty="")
    if len(others) > CANDIDATES_SHOWN:
        yield f"and {len(others) - CANDIDATES_SHOWN} more (--json has all)"


@click.command(cls=Command, section=LOOK, remote=False)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option(
    "--kind", metavar="KIND", default="", help="Kubernetes kind of the object with the message."
)
@click.option("--type", "type_", metavar="TYPE", default="", help="Type of the condition.")
@click.option("--reason", metavar="REASON", default="", help="Reason of the condition.")
@click.option(
    "--name", metavar="NAME", default="", help="Name of the object, for the commands of the remedy."
)
@click.option(
    "-n", "--namespace", metavar="NAMESPACE", default="", help="Its namespace, for the commands."
)
@click.option(
    "--ndjson",
    metavar="FILE|-",
    help="Read a JSON object a line (kind, type, reason, message) and print an answer a line.",
)
@pass_session
def explain(
    session: Session, text: str | None, type_: str, ndjson: str | None, **options: str
) -> int:
    """Cause and remedy of a status message, without a server or database.

    The message is TEXT, or standard input with -.
    """
    if ndjson:
        if text or session.as_json:
            raise usage(
                "--ndjson reads messages from its file and prints JSON: leave out the rest."
            )
        return run_command("explain", f"--ndjson={ndjson}")
    words = [f"--{name}={value}" for name, value in {"type": type_, **options}.items() if value]
    words += ["--json"] if session.as_json else []
    return run_command("explain", *words, *(["--", text] if text else []))


COMMANDS = (operators, catalogs, audit, readiness, compare, resolve, explain)
