"""Commands that run and administer OLM Web: serve, token, version, completion."""

from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import get_completion_class

from olmweb import __version__
from olmweb.cli.backends import get, run_command, set_up_django
from olmweb.cli.failures import Exit, Failure
from olmweb.cli.frame import MANAGE, Command, Group, Session, pass_session
from olmweb.cli.output import Column, details, table

SHELLS = ("bash", "zsh", "fish")
SCOPES = ("read", "act")
TOKENS = (
    Column("ID", "id"),
    Column("USER", "user"),
    Column("NAME", "name"),
    Column("SCOPE", "scope"),
    Column("EXPIRES", lambda row: row["expires"][:10]),
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
    """List, create and revoke API tokens in the local database."""


@token.command("list", remote=False)
@click.argument("user", required=False)
@pass_session
def list_tokens(session: Session, user: str | None) -> None:
    """Tokens of USER, or of every account. Only their hashes are stored."""
    rows = [_row(row) for row in _tokens(session, **({"user__username": user} if user else {}))]
    document = {"items": rows, "next": None, "count": len(rows)}
    session.answer(document, lambda: table(TOKENS, rows, empty="There are no API tokens."))


@token.command("create", remote=False)
@click.argument("user")
@click.option("--scope", type=click.Choice(SCOPES), required=True, help="act may change something.")
@click.option("--name", metavar="NAME", default="", help="What it is for, up to 60 characters.")
@pass_session
def create_token(session: Session, user: str, scope: str, name: str) -> int:
    """Create a token that acts as USER, valid for 90 days. It is shown once."""
    session.require_local("token create")
    words = [f"--scope={scope}", f"--name={name}", *(["--json"] if session.as_json else [])]
    return run_command("apitoken", *words, "--", user)


@token.command("revoke", remote=False)
@click.argument("id", type=click.IntRange(1, 2**63 - 1))
@pass_session
def revoke_token(session: Session, id: int) -> None:
    """Revoke the token with this ID of `olmweb token list`."""
    rows = list(_tokens(session, pk=id))
    if not rows:
        raise Failure(
            f"There is no API token {id}.",
            code="unknown-token",
            hint="It may be revoked already; `olmweb token list` has their IDs.",
        )
    document = _row(rows[0])
    rows[0].delete()
    session.answer(document, lambda: [f"Revoked token {id} of {document['user']}."])


def _tokens(session: Session, **filters: Any) -> Any:
    session.require_local("token")
    set_up_django()
    from olmweb.models import ApiToken

    return ApiToken.objects.filter(**filters).select_related("user").order_by("id")


def _row(row: Any) -> dict[str, Any]:
    return {
        "id": row.pk,
        "user": row.user.get_username(),
        "name": row.name,
        "scope": row.scope,
        "created_at": row.created_at.isoformat(),
        "expires": row.ends_at.isoformat(),
        "last_used_on": row.last_used_on.isoformat() if row.last_used_on else None,
    }


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
