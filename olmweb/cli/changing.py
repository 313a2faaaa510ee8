"""Commands that install, export manifests and sync a catalog."""

import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click
import yaml

from olmweb.cli import output
from olmweb.cli.backends import get, patch, path_of, post, run_command
from olmweb.cli.failures import UNREACHABLE_CODES, Exit, Failure, unreachable, usage
from olmweb.cli.frame import (
    ACT,
    Choice,
    Command,
    F,
    Session,
    complete_catalog,
    complete_cluster,
    method_option,
    pairs,
    pass_session,
    user_option,
)
from olmweb.cli.output import Column, Row, details, section, table
from olmweb.kube.documents import read_document

APPROVALS = ("Automatic", "Manual")
FORMATS = ("yaml", "kustomize", "argocd")
POLL_SECONDS = 2.0  # between two looks at an action
OPEN = ("pending", "applied")  # states of an action that goes on
GOOD = ("succeeded", "no-change")

CONFIG_CHARACTERS, CONFIG_LEVELS = 262_144, 30  # of the file of --config

OBJECTS = (Column("OBJECT", "object"), Column("RESULT", "result"))


def _read_config(
    _context: click.Context, _option: click.Parameter, file: str | None
) -> dict[str, Any] | None:
    """The mapping in the file of --config; None without one."""
    if file is None:
        return None
    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read(CONFIG_CHARACTERS + 1)
        config = read_document(text, CONFIG_CHARACTERS, CONFIG_LEVELS)
    except (OSError, ValueError) as error:  # also of bytes that are no UTF-8
        raise usage(f"--config {file} can't be read: {error}") from None
    if not isinstance(config, dict):
        raise usage(
            f"--config {file} holds no mapping of fields to values.",
            "Write the fields of spec.config, such as env or resources, without spec.config.",
        )
    return config


def choice_options(function: F) -> F:
    """The options of an install and of an export, from the last to the first."""
    for option in (
        click.option(
            "--service-account", metavar="NAME", help="ServiceAccount of a ClusterExtension."
        ),
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, allow_dash=True),
            callback=_read_config,
            help="YAML or JSON of spec.config (environment, resources, ...); - for standard input.",
        ),
        click.option("--approval", type=Choice(APPROVALS), help="Of updates."),
        click.option(
            "--targets",
            metavar="NAMESPACES",
            help="Namespaces to watch: all, own, or names separated by commas.",
        ),
        click.option(
            "--version", metavar="VERSION", help="A version or range, in the grammar of the method."
        ),
        click.option(
            "--channel", metavar="CHANNEL", help="Channel; the default channel without it."
        ),
        click.option("-n", "--namespace", metavar="NAMESPACE", help="Namespace to install into."),
        click.option("--name", metavar="NAME", help="Name of the object; the default without it."),
    ):
        function = option(function)
    return function


# --- install ----------------------------------------------------------------------------------


@click.command(cls=Command, section=ACT)
@click.argument("package")
@click.option(
    "--cluster",
    metavar="CLUSTER",
    required=True,
    shell_complete=complete_cluster,
    help="Cluster to install on.",
)
@click.option(
    "--catalog",
    metavar="[CLUSTER/]NAME",
    shell_complete=complete_catalog,
    help="Catalog, where several have the package.",
)
@method_option()
@choice_options
@click.option("--bundle", metavar="BUNDLE", help="Name of the bundle, instead of --version.")
@click.option("--anyway", is_flag=True, help="Install also what is predicted to fail.")
@click.option("--dry-run", is_flag=True, help="Show verdict, dry run and manifests; apply nothing.")
@click.option("--wait", is_flag=True, help="Wait until the operator is installed or failed.")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=1800,
    show_default=True,
    help="Seconds to --wait.",
)
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Repeated with the same key, the command installs once.  [default: a random one]",
)
@user_option
@pass_session
def install(
    session: Session,
    package: str,
    method: str,
    dry_run: bool,
    wait: bool,
    timeout: int,
    idempotency_key: str | None,
    **values: Any,
) -> int:
    """Install PACKAGE on a cluster; the cluster tries it first.

    Ends with 1 if it is predicted to fail, if the cluster refuses it, and with --wait if it failed.
    """
    if dry_run and wait:
        raise usage("--dry-run installs nothing to --wait for; give one of them.")
    given = {name: value for name, value in values.items() if value}
    if "catalog" in given:
        given["catalog"] = "/".join(session.catalog(given["catalog"]))
    body = {"verb": "install", "method": method, "package": package, **given}
    if dry_run:
        return _dry_run(session, body, anyway=values["anyway"])
    try:
        action = post(session.backend, "actions", body, idempotency_key or str(uuid.uuid4()))
    except Failure as failure:
        if failure.code == "predicted-to-fail":
            failure.hint = "--dry-run shows the plan, --anyway installs it all the same."
        raise
    if wait:
        action = _wait(session, action, timeout)
    session.answer(action, lambda: _action_lines(action))
    return Exit.DONE if action["state"] in (*OPEN, *GOOD) else Exit.REFUSED


def _dry_run(session: Session, body: dict[str, Any], *, anyway: bool) -> int:
    """The plan also of what is predicted to fail: the exit code says so."""
    document = post(session.backend, "actions", {**body, "dry_run": True, "anyway": True})
    session.answer(document, lambda: _plan_lines(body, document))
    result, verdict = document["dry_run"], document["verdict"]
    if result["code"] in UNREACHABLE_CODES:
        return Exit.UNREACHABLE
    predicted = bool(verdict) and verdict["verdict"] == "not-installable"
    return Exit.REFUSED if not result["ok"] or (predicted and not anyway) else Exit.DONE


def _plan_lines(body: Row, document: Row) -> Iterator[str]:
    verdict, result = document["verdict"] or {}, document["dry_run"]
    rule = f" ({verdict['rule']})" if verdict.get("rule") else ""
    yield from details(
        [
            ("Package", body["package"]),
            ("Cluster", body["cluster"]),
            ("Method", body["method"]),
            ("Catalog", document["catalog"]),
            ("Bundle", document["bundle"]),
            ("Verdict", output.WORDS.get(verdict.get("verdict", "unknown"), "") + rule),
            ("Why", verdict.get("sentence")),
            ("Dry run", result["message"]),
            ("Hint", result["hint"]),
        ]
    )
    objects = [{"object": label, "result": words} for label, words in result["objects"]]
    if objects:
        yield from section("Objects", table(OBJECTS, objects, empty=""))
    manifests = yaml.safe_dump_all(document["manifests"], sort_keys=False)
    yield from section("Manifests to apply", manifests.splitlines())


def _wait(session: Session, action: Any, timeout: int) -> Any:
    """The action when it is finished. Raises Failure if it still goes on after `timeout` seconds,
    or if the server does not answer meanwhile."""
    deadline = monotonic() + timeout
    state = ""
    while action["state"] in OPEN:
        if action["state"] != state:
            state = action["state"]
            click.echo(f"Action {action['id']}: {state}", err=True)
        if monotonic() >= deadline:
            raise Failure(
                f"Action {action['id']} is not finished after {timeout} s (state {state}).",
                code="timeout",
                hint="It goes on; the page Activity shows its outcome.",
            )
        sleep(POLL_SECONDS)
        try:
            action = get(session.backend, path_of("actions", str(action["id"])))
        except Failure as failure:
            if failure.exit_code == Exit.UNREACHABLE:
                raise unreachable(
                    f"{failure.message} Action {action['id']} goes on.", failure.hint
                ) from failure
            raise
    return action


def _action_lines(action: Row) -> Iterator[str]:
    reference = action["object"]
    yield from details(
        [
            ("Action", action["id"]),
            ("Cluster", action["cluster"]),
            ("Object", f"{reference['kind']} {reference['name']}"),
            ("Namespace", reference["namespace"]),
            ("Dry run", action["dry_run"].get("message")),
            ("State", action["state"]),
            ("Outcome", action["outcome"]),
        ]
    )


# --- export -----------------------------------------------------------------------------------


@click.command(cls=Command, section=ACT)
@click.argument("catalog", metavar="[CLUSTER/]CATALOG", shell_complete=complete_catalog)
@click.argument("package")
@method_option(required=False, help="What installs it; the catalog's own without it.")
@choice_options
@click.option(
    "--source", metavar="NAME", help="CatalogSource or ClusterCatalog, for a catalog of no cluster."
)
@click.option("--source-namespace", metavar="NAMESPACE", help="Namespace of the CatalogSource.")
@click.option(
    "--format",
    "form",
    type=Choice(FORMATS),
    default="yaml",
    show_default=True,
    help="One YAML file, a Kustomize folder, or an Argo CD Application.",
)
@click.option("--repo", metavar="URL", help="Git repository of the folder, for argocd.")
@click.option("--repo-path", metavar="FOLDER", help="Folder in it, for argocd.")
@click.option("--revision", metavar="REVISION", help="Branch, tag or commit, for argocd.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PATH",
    help="File to write, or folder for kustomize; standard output without it.",
)
@pass_session
def export(
    session: Session, catalog: str, package: str, method: str | None, form: str,
    target: str | None, **values: Any,
) -> None:  # fmt: skip
    """Manifests that would install PACKAGE, pinned to the version that is selected now."""
    if form == "kustomize" and not target:
        raise usage("A Kustomize folder is no text.", "Name the folder to write with --output.")
    path = path_of("packages", *session.catalog(catalog), package, "export")
    if values["config"]:
        values["config"] = json.dumps(values["config"])
    query = pairs(method=method, format=form, **values)
    answer = session.backend.send("GET", path, query)
    if answer.status >= 400 or answer.content_type.startswith("application/json"):
        answer.document()
    if not target:
        text = answer.body.decode()
        document = {"format": form, "content": text}
        session.answer(document, lambda: [text.rstrip("\n")])
        return
    try:
        files = _write(answer.body, form, Path(target))
    except OSError as error:
        raise usage(f"{target} can't be written: {error.strerror or error}.") from error
    written = {"format": form, "files": [str(file) for file in files]}
    session.answer(written, lambda: [f"Wrote {file}" for file in files])


def _write(content: bytes, form: str, target: Path) -> list[Path]:
    """Writes the file, or the files of the archive without its one folder. Raises OSError."""
    if form != "kustomize":
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return [target]
    target.mkdir(parents=True, exist_ok=True)
    files = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            file = target / Path(name).name  # the name alone: nothing is written elsewhere
            file.write_bytes(archive.read(name))
            files.append(file)
    return files


# --- sync -------------------------------------------------------------------------------------


@click.command(cls=Command, section=ACT)
@click.argument("name", metavar="[CLUSTER/]NAME", shell_complete=complete_catalog)
@click.option("--file", metavar="PATH", help="Read this file, folder or tar from now on.")
@click.option("--url", metavar="URL", help="Read this URL from now on.")
@click.option("--image", metavar="REF", help="Read this image of a registry from now on.")
@click.option("--force", is_flag=True, help="Write every package anew.")
@pass_session
def sync(session: Session, name: str, force: bool, **sources: str | None) -> int:
    """Sync a catalog now: in this process, or with --server by a worker of that OLM Web.

    With --file, --url or --image the catalog is created when it isn't known, and read from there
    from now on.
    """
    given = {option: value for option, value in sources.items() if value}
    if len(given) > 1:
        raise usage("A catalog has one source: give --file, --url or --image.")
    if "file" in given or force:
        session.require_local("--file or --force", "A server reads catalogs of --url or --image.")
    if not session.server:
        words = [f"--{option}={value}" for option, value in given.items()]
        words += [word for word, on in (("--force", force), ("--json", session.as_json)) if on]
        return run_command("sync_catalog", *words, "--", name)
    row = _save_source(session, name, **given) if given else _request_sync(session, name)
    session.answer(row, lambda: [f"{row['catalog']}: a worker syncs it now."])
    return Exit.DONE


def _request_sync(session: Session, name: str) -> Any:
    return post(session.backend, path_of("catalogs", *session.catalog(name), "sync"))


def _save_source(
    session: Session, name: str, url: str | None = None, image: str | None = None
) -> Any:
    """Creates the catalog of no cluster, or changes its source; a worker reads it at once."""
    source = {"source_kind": "URL" if url else "Image", "source": url or image}
    slug = name.removeprefix("-/")
    path = path_of("catalogs", "-", slug)
    try:
        get(session.backend, path)
    except Failure as failure:
        if failure.code != "unknown-catalog":
            raise
        return post(session.backend, "catalogs", {"name": slug, **source})
    return patch(session.backend, path, source)


COMMANDS = (install, export, sync)
