"""Commands that run and administer OLM Web: serve, token, version, completion."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from click.shell_completion import get_completion_class

from olmweb import __version__
from olmweb.cli.backends import (
    delete,
    get,
    get_list,
    path_of,
    post,
    require_database,
    run_command,
    set_up_django,
)
from olmweb.cli.failures import Exit, Failure, usage
from olmweb.cli.frame import MANAGE, Choice, Command, Group, Session, pass_session
from olmweb.cli.output import Column, details, table

SHELLS = ("bash", "zsh", "fish")
SCOPES = ("read", "act")
TOKENS = (
    Column("ID", "id"),
    Column("USER", lambda row: row.get("user", "")),
    Column("NAME", "name"),
    Column("SCOPE", "scope"),
    Column("EXPIRES", lambda row: row["expires_at"][:10]),
    Column("LAST USED", "last_used_on"),
)


@click.command(cls=Command, section=MANAGE, remote=False)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--demo", is_flag=True, help="Start the sandbox cluster, too.")
@pass_session
def serve(session: Session, port: int, demo: bool) -> int:
    """Run web server, worker and scheduler in one process."""
    session.require_local("serve")
    return run_command("serve", f"--port={port}", *(["--demo"] if demo else []))


@click.group(cls=Group, section=MANAGE)
def token() -> None:
    """List, create and revoke API tokens: with --server those of the token's own account."""


@token.command("list")
@click.argument("user", required=False)
@pass_session
def list_tokens(session: Session, user: str | None) -> None:
    """Tokens of every account, or of USER. Only their hashes are stored."""
    if session.server:
        _refuse_user(user)
        document = get_list(session.backend, "tokens")
    else:
        tokens = _stored_tokens(**({"user__username": user} if user else {}))
        rows = [_row(row) for row in tokens]
        document = {"items": rows, "next": None, "count": len(rows)}
    session.answer(document, lambda: table(TOKENS, document["items"], empty="No API tokens."))


@token.command("create")
@click.argument("user", required=False)
@click.option("--name", metavar="NAME", required=True, help="What it is for, up to 60 characters.")
@click.option(
    "--scope",
    type=Choice(SCOPES),
    default=SCOPES[0],
    show_default=True,
    help="act may change something.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 365),
    metavar="N",
    default=90,
    show_default=True,
    help="Days that it is valid.",
)
@pass_session
def create_token(session: Session, user: str | None, **body: Any) -> None:
    """Create a token that acts as USER, and print it. It is shown once.

    With --server it acts as the account of the token that creates it, and ends with that token at
    the latest.
    """
    if session.server:
        _refuse_user(user)
    elif user is None:
        raise usage("The account that the token acts as is missing.", "Name it: token create USER.")
    session.user = user or ""
    document = post(session.backend, "tokens", body)
    session.answer(document, lambda: [document["token"]])
    if not session.as_json:
        until = document["expires_at"][:10]
        click.echo(f"Scope {document['scope']}, valid until {until}. Not shown again.", err=True)


@token.command("revoke")
@click.argument("id", type=click.IntRange(1, 2**63 - 1))
@pass_session
def revoke_token(session: Session, id: int) -> None:
    """Revoke the token with this ID of `olmweb token list`."""
    if session.server:
        delete(session.backend, path_of("tokens", str(id)))
    elif not _stored_tokens(pk=id).delete()[0]:
        raise Failure(
            f"There is no API token {id}.",
            code="unknown-token",
            hint="It may be revoked already; `olmweb token list` has their IDs.",
        )
    session.answer({"id": id, "outcome": "revoked"}, lambda: [f"Revoked token {id}."])


def _refuse_user(user: str | None) -> None:
    if user:
        raise usage("USER is an account of the local database; the token names one on a server.")


def _stored_tokens(**filters: Any) -> Any:
    """Raises Failure if the database can't be used."""
    set_up_django()
    from olmweb.models import ApiToken

    require_database()
    return ApiToken.objects.filter(**filters).select_related("user").order_by("id")


def _row(row: Any) -> dict[str, Any]:
    return {
        "id": row.pk,
        "user": row.user.get_username(),
        "name": row.name,
        "scope": row.scope,
        "created_at": _moment(row.created_at),
        "expires_at": _moment(row.ends_at),
        "last_used_on": row.last_used_on.isoformat() if row.last_used_on else None,
    }


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@click.command(cls=Command, section=MANAGE)
@pass_session
def version(session: Session) -> None:
    """Version of this command, and with --server that of the OLM Web there."""
    server = get(session.backend, "version") if session.server else None
    document = {"client": __version__, "server": server}
    session.answer(document, lambda: _version_lines(server))


def _version_lines(server: dict[str, Any] | None) -> Iterator[str]:
    yield from details([("Client", __version__), ("Server", server["version"] if server else "")])


@click.command(section=MANAGE, cls=Command, remote=False)
@click.argument("shell", type=click.Choice(SHELLS))
@pass_session
def completion(session: Session, shell: str) -> int:
    """Print the script that completes `olmweb` in a shell.

    \b
    bash:  source <(olmweb completion bash)
    zsh:   source <(olmweb completion zsh)
    fish:  olmweb completion fish | source
    """
    complete = get_completion_class(shell)
    if complete is None:
        raise Failure(f"There is no completion for {shell}.", code="unknown-shell")
    root = click.get_current_context().find_root().command
    script = complete(root, {}, "olmweb", "_OLMWEB_COMPLETE").source()
    session.answer({"shell": shell, "script": script}, lambda: [script.rstrip("\n")])
    return Exit.DONE


COMMANDS = (serve, token, version, completion)
