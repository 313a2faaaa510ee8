"""The command tree of `olmweb`, and its entry point."""

import sys
from collections.abc import Sequence

import click

from olmweb.cli import administration, changing, reading
from olmweb.cli.failures import Exit, Failure
from olmweb.cli.frame import EXIT_CODES, Group
from olmweb.cli.output import print_failure

PROGRAM = "olmweb"
INTERRUPTED = 130  # exit code of a shell for Ctrl-C


@click.group(
    PROGRAM,
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES) + ".",
)
def root() -> None:
    """Operators of your clusters and the catalogs they come from.

    Works on the local database of OLM Web, or with --server (OLMWEB_SERVER) and an API token
    (OLMWEB_TOKEN) on a shared installation.
    """


for module in (reading, changing, administration):
    for command in module.COMMANDS:
        root.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and exits with its code; errors leave as one sentence or JSON object."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """The exit code of the command that these words name."""
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        return int(root.main(words, prog_name=PROGRAM, standalone_mode=False) or Exit.DONE)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.ClickException as error:
        return _refuse_usage(error, as_json=as_json)
    except Failure as failure:
        print_failure(failure, as_json=as_json)
        return failure.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return INTERRUPTED


def _refuse_usage(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        context = getattr(error, "ctx", None)
        name = context.command_path if context else PROGRAM
        hint = f"See `{name} --help`."
        print_failure(Failure(error.format_message(), code="usage", hint=hint), as_json=True)
    else:
        error.show()
    return Exit.USAGE
