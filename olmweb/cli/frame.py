"""The frame of every command: common options, sections of the help, the session."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from olmweb.cli import output
from olmweb.cli.backends import Backend, Local, Pairs, Remote, get_list
from olmweb.cli.failures import Failure, usage

EXIT_CODES = (
    (0, "done"),
    (1, "refused, failed, or predicted to fail"),
    (2, "wrong usage"),
    (3, "the server, the database or the cluster can't be reached"),
)
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Completion = Callable[[click.Context, click.Parameter, str], list[str]]
METHODS = ("PlatformOperator", "ClusterExtension", "Subscription")
LOOK, ACT, MANAGE = "Look", "Install", "Run and administer"
SECTIONS = (LOOK, ACT, MANAGE)
HELP_LENGTH = 200  # characters of a command's first sentence, which is wrapped and not cut


@dataclass
class Session:
    """The common options of a command, and the backend that they name."""

    as_json: bool = False
    server: str = ""
    token: str = ""
    user: str = ""

    @cached_property
    def backend(self) -> Backend:
        """Raises Failure for an address or settings that can't be used."""
        if not self.server:
            return Local(self.user)
        if self.user:
            raise usage("--user names an account of the local database; the token names one there.")
        return Remote(self.server, self.token)

    def require_local(self, what: str, instead: str = "") -> None:
        """Raises Failure with --server: `what` works on the local database only."""
        if self.server:
            raise usage(f"{what} works on the local database only, not with --server.", instead)

    def answer(self, document: Any, lines: Callable[[], Iterable[str]]) -> None:
        """Prints the document with --json, else the lines."""
        if self.as_json:
            output.print_json(document)
        else:
            output.print_lines(lines())

    def answer_list(
        self, document: Any, columns: Sequence[output.Column], *, things: str, empty: str
    ) -> None:
        """Prints the list with --json, else its table, and on stderr what --limit leaves out."""
        items = document["items"]
        self.answer(document, lambda: output.table(columns, items, empty=empty))
        if document["next"] and not self.as_json:
            click.echo(
                f"{len(items)} of {document['count']} {things}: --limit leaves out the others.",
                err=True,
            )

    def catalog(self, name: str) -> tuple[str, str]:
        """Cluster (`-` for none) and name of the catalog NAME or CLUSTER/NAME.

        Raises Failure when no catalog or several have the name.
        """
        cluster, _, slug = name.rpartition("/")
        if cluster:
            return cluster, slug
        rows = get_list(self.backend, "catalogs", [("fields", "catalog")])["items"]
        references = [row["catalog"] for row in rows]
        matches = [name for name in references if name.partition("/")[2] == slug]
        if len(matches) == 1:
            return matches[0].partition("/")[0], slug
        names = ", ".join(matches or references) or "none"
        if matches:
            raise Failure(
                f"Several catalogs are called {slug}: {names}.",
                code="several-catalogs",
                hint="Name one as CLUSTER/NAME.",
            )
        raise Failure(f"No catalog is called {slug} (known: {names}).", code="unknown-catalog")


def pass_session(function: Callable[..., R]) -> Callable[..., R]:
    """Calls the function of a command with the Session first."""
    return click.pass_obj(function)


class Command(click.Command):
    """A command with the common options; its function gets the Session first."""

    def __init__(self, *args: Any, section: str = "", remote: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section
        self.params += common_options(remote=remote)
        codes = "; ".join(f"{number} {meaning}" for number, meaning in EXIT_CODES)
        self.epilog = f"Exit codes: {codes}."

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = _session(ctx)
        for name in COMMON:
            ctx.params.pop(name, None)
        return super().invoke(ctx)


class Group(click.Group):
    """A group that lists its commands by section."""

    command_class = Command

    def __init__(self, *args: Any, section: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        widest = max(len(name) for name, _ in commands)
        for section in ("", *SECTIONS):
            rows = [
                (name.ljust(widest), command.get_short_help_str(HELP_LENGTH))
                for name, command in commands
                if getattr(command, "section", "") == section
            ]
            if rows:
                with formatter.section(section or "Commands"):
                    formatter.write_dl(rows)


COMMON = ("as_json", "server", "token", "token_file", "local_user")


def common_options(*, remote: bool) -> list[click.Parameter]:
    """--json and, for a command that works on a server, what names it."""
    as_json = click.Option(
        ["--json", "as_json"], is_flag=True, help="Print one JSON object, errors too."
    )
    server = click.Option(
        ["--server"],
        metavar="URL",
        envvar="OLMWEB_SERVER",
        show_envvar=True,
        help="Ask the OLM Web at this address, not the local database.",
        hidden=not remote,
    )
    token = click.Option(
        ["--token"],
        metavar="TOKEN",
        envvar="OLMWEB_TOKEN",
        show_envvar=True,
        help="API token for --server. Other people of this machine see it in the process list: "
        "prefer the variable or --token-file.",
        hidden=not remote,
    )
    token_file = click.Option(
        ["--token-file"],
        metavar="PATH",
        envvar="OLMWEB_TOKEN_FILE",
        show_envvar=True,
        type=click.Path(),
        help="File with the token; - for standard input.",
        hidden=not remote,
    )
    return [as_json, server, token, token_file]


def user_option(function: F) -> F:
    """--user of a command that changes something."""
    return click.option(
        "--user",
        "local_user",
        metavar="NAME",
        help="Account that acts on the local database; the only administrator without it.",
    )(function)


class Choice(click.Choice[str]):
    """One of the choices, written in any case; messages, help and completion have their own
    spelling, where click writes them in lower case."""

    def __init__(self, choices: Iterable[str]) -> None:
        super().__init__(choices, case_sensitive=False)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.choices)}]"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return f"Choose one of {', '.join(self.choices)}"

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f'"{value}" is not one of {", ".join(self.choices)}.'

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        typed = incomplete.casefold()
        return [CompletionItem(c) for c in self.choices if c.casefold().startswith(typed)]


def method_option(*, required: bool = True, help: str = "What installs it.") -> Callable[[F], F]:
    return click.option(
        "--method",
        type=Choice(METHODS),
        metavar="METHOD",
        required=required,
        help=f"{help} One of {', '.join(METHODS)}.",
    )


def names_of(path: str, field: str) -> Completion:
    """Completes the values of a field of the list at `path`. Offers nothing where the list can't be
    read."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            rows = get_list(_session(ctx).backend, path, [("fields", field)])["items"]
        except Failure:
            return []
        return sorted({row[field] for row in rows if row[field].startswith(incomplete)})

    return complete


complete_cluster = names_of("clusters", "cluster")
complete_catalog = names_of("catalogs", "catalog")


def _session(ctx: click.Context) -> Session:
    """The session of the parsed options. Raises Failure for a token that can't be read."""
    values = {name: ctx.params.get(name) or "" for name in COMMON}
    return Session(
        as_json=bool(values["as_json"]),
        server=values["server"],
        token=_token(ctx, values["token"], values["token_file"]),
        user=values["local_user"],
    )


def _token(ctx: click.Context, token: str, file: str) -> str:
    """The token of the option or file; the command line goes before the environment."""
    typed = click.core.ParameterSource.COMMANDLINE
    sources = {name: ctx.get_parameter_source(name) for name in ("token", "token_file")}
    if token and file and sources["token"] == sources["token_file"]:
        raise usage("Both a token and a file with a token are given; give one of them.")
    if not file or (token and sources["token"] == typed):
        return token
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            content: str = stream.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise usage(f"The token file {file} can't be read: {reason}.") from error
    if not content:
        raise usage(f"The token file {file} is empty.")
    return content


def pairs(**values: Any) -> Pairs:
    """Query parameters: a list gives a pair for each value, an empty value none. A trailing
    underscore is left out of a name."""
    return [
        (name.rstrip("_"), str(item))
        for name, value in values.items()
        for item in (value if isinstance(value, list | tuple) else [value])
        if item not in ("", None)
    ]
