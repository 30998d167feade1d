"""The command line: its commands, and the exit code of each error (docs/reference/commands.md)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from gitsession import __version__
from gitsession.cli import exits
from gitsession.cli.invocation import App, here
from gitsession.cli.options import PlainGroup, command, option
from gitsession.cli.output import complain, paged, progress, say
from gitsession.cli.postponed import import_fast
from gitsession.errors import (
    Corrupt,
    GitSessionError,
    InvalidName,
    Malformed,
    MissingObject,
    NotAStore,
    NotFound,
    Refused,
)
from gitsession.index.current_folder import of_folder
from gitsession.line_text import count

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_WRONG_PATH = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)

PLUMBING = "Plumbing"

GROUPS = {
    "Start": {
        "init": ("store", "Create an empty store"),
        "import": ("imports", "Import agents' sessions into the store"),
        "enable": ("agents", "Install capture hooks for an agent"),
        "disable": ("agents", "Remove the capture hooks of an agent"),
        "watch": ("agents", "Import sessions as agents write them"),
        "resume": ("exports", "Continue a session in its own agent or in another one"),
        "export": ("exports", "Write a session to a file in an agent's format"),
        "demo": ("demo", "Create and show a small example store"),
        "completion": ("store", "Print a shell completion script"),
        "help": ("store", "Show help for a command"),
    },
    "Read": {
        "ls": ("sessions", "List sessions"),
        "search": ("search", "Search all sessions for text"),
        "prompts": ("prompts", "List your recent prompts"),
        "log": ("history", "Show the history of a branch"),
        "tree": ("history", "Show all entries of a session as a tree"),
        "show": ("show", "Show one entry"),
        "context": ("context", "Show the context that the model receives"),
        "instructions": ("instructions", "Show an agent's files of instructions and skills"),
        "diff": ("diff", "Show file changes between two entries"),
        "blame": ("blame", "Show which session wrote each line of a file"),
        "status-line": ("status_line", "Print one line for the status bar of an agent"),
        "stats": ("stats", "Show prompts, tokens, cost, tool calls, and changed lines"),
        "serve": ("web", "Show all sessions as web pages"),
        "browse": ("browse", "Browse sessions in the terminal"),
    },
    "Work": {
        "append": ("append", "Append entries that another program writes"),
        "rpc": ("rpc", "Serve the store to another program by JSON-RPC"),
        "mcp": ("mcp", "Serve recorded sessions to an agent by MCP"),
        "branch": ("branches", "List or create branches"),
        "switch": ("branches", "Select the active branch"),
        "fork": ("branches", "Create a session that continues another one"),
        "label": ("branches", "Set or remove the label of an entry"),
        "name": ("branches", "Set, generate, or remove the title of a session"),
        "checkpoint": ("checkpoints", "Record the files of a workspace"),
        "rewind": ("checkpoints", "Restore the files and conversation of an entry"),
        "compact": ("compact", "Replace older entries with a summary"),
        "prune-results": ("prune_results", "Remove old tool results from the context"),
        "undo": ("operations", "Undo the last command"),
        "redo": ("operations", "Redo the last undone command"),
        "op": ("operations", "Show the operation log"),
    },
    "Share": {
        "remote": ("remotes", "List, add, or remove remotes"),
        "sync": ("remotes", "Pull from a remote, then push to it"),
        "pull": ("remotes", "Fetch from a remote and merge its branches"),
        "push": ("remotes", "Send sessions to a remote"),
        "clone": ("remotes", "Clone a remote into a new store"),
        "bundle": ("remotes", "Write sessions to a git bundle, or fetch them from one"),
        "sign": ("integrity", "Sign a branch, or check its signatures"),
        "link": ("link", "Record and show which sessions made a commit"),
        "server": ("server", "Set up validation of pushes to a repository"),
    },
    "Care": {
        "verify": ("integrity", "Check the integrity of the stored data"),
        "repair": ("integrity", "Restore lost and damaged data from copies"),
        "redact": ("purging", "Redact secrets in stored entries"),
        "archive": ("trash", "Move old sessions to the archive"),
        "rm": ("trash", "Move a session to the trash"),
        "restore": ("trash", "Restore a session from the trash or archive"),
        "prune": ("trash", "Move old sessions to the trash by age, number, or size"),
        "purge": ("purging", "Delete entries or sessions permanently"),
        "maintain": ("store", "Optimize the store"),
        "doctor": ("store", "Diagnose problems and suggest fixes"),
    },
    PLUMBING: {
        "hook": ("agents", "Record an event sent by an agent"),
        "drain": ("agents", "Ingest the events that hooks recorded"),
        "gate": ("gate", "Scan outgoing commits for secrets"),
        "receive": ("server", "Validate a push on a server"),
        "textconv": ("store", "Print an entry as JSON"),
        "git": ("store", "Run git in the store"),
    },
}
"""The commands by group, each with its module and summary. Only ``help --all`` lists plumbing commands."""

COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}

NAME = "gitsession"
COMPLETING = "_GITSESSION_COMPLETE"
HELP_ALL = "gitsession.help_all"
"""Key in the ``meta`` of click's context: whether the help lists plumbing commands too."""


class Commands(PlainGroup):
    """A click group that imports the module of a command only when the command is used, so that commands start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            import difflib  # slow to import, and used only after a typing error

            close = ", ".join(difflib.get_close_matches(cmd_name, COMMANDS, n=2))
            raise click.UsageError(f"no command {cmd_name!r}" + (f" (did you mean {close}?)" if close else ""), ctx)
        if cmd_name != "ls":  # the only command of a store that needs no paths
            import_fast("pathlib")
        module = import_module(f"gitsession.cli.commands.{COMMANDS[cmd_name][0]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for group, commands in GROUPS.items()
            for name, (_, summary) in commands.items()
            if group != PLUMBING and name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, commands in GROUPS.items():
            if group != PLUMBING or ctx.meta.get(HELP_ALL):
                with formatter.section(group):
                    formatter.write_dl([(f"{name:10}", summary) for name, (_, summary) in commands.items()])


def _show_version(context: click.Context, _: click.Parameter, is_chosen: bool) -> None:
    if is_chosen and not context.resilient_parsing:
        click.echo(f"{NAME} {__version__}")
        context.exit()


@command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="SESSION is a unique part of a session id, @ for the newest session of the current folder, - for the "
    "second newest, or AGENT:ID with the agent's own id for the session. SESSION@ENTRY names one entry of a session. "
    "ENTRY is an entry id or the beginning of one, a label, a branch, leaf (the newest entry of the active "
    "branch), or root (the first entry). Append ~N to name the Nth entry before it, as in leaf~3. user and turn name "
    "the newest user message and the start of the newest turn, and user~N and turn~N the Nth one before it. "
    "Run `gitsession help COMMAND` for the help of a command, or `gitsession help --all` to list the plumbing commands "
    "too.",
)
@option(
    "--store",
    metavar="DIR",
    help="Use the store in this folder. Default: $GITSESSION_DIR, git config gitsession.store, or "
    "~/.local/share/gitsession/store.git.",
)
@option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def gitsession(ctx: click.Context, store: str | None) -> None:
    """Store the sessions of AI coding agents in git.

    Without a command, show the path of the store and the newest sessions of the current folder.
    """
    ctx.obj = app = App(store)
    ctx.call_on_close(app.close)
    if ctx.invoked_subcommand is None:
        _show_status(app)


_NEWEST = 10


def _show_status(app: App) -> None:
    if not os.path.lexists(app.location):
        say("There is no store yet.")
        say("  gitsession import --all    import your agents' sessions")
        say("  gitsession demo            create a small example in a new folder")
        say("  gitsession --help          list the commands")
        from gitsession.cli.expiry import expiry_text, forecast_expiry

        sweep = forecast_expiry(None)
        if sweep.soon:
            say()
            say(expiry_text(sweep))
        return
    from gitsession.cli.session_table import table

    rows = app.catalogue().sessions()
    nearby = of_folder(rows, here())
    say(f"{count(len(rows), 'session')}, {len(nearby)} of this folder or its project")
    say(f"  in {app.location}")
    app.warn_of_damage()
    shown = (nearby or rows)[:_NEWEST]
    if shown:
        say()
        say("The newest here:" if nearby else "The newest:")
        paged(table(shown))
    else:
        say("  gitsession import --all    import your agents' sessions")


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return the exit code (docs/reference/commands.md)."""
    _prepare_streams()
    try:
        if COMPLETING in os.environ:
            from gitsession.cli.completion import complete

            return complete(gitsession, NAME, COMPLETING)
        # Not ``main``, because click treats a closed pipe as an error, even with ``standalone_mode=False``.
        with progress(), gitsession.make_context(NAME, _command_words(arguments)) as ctx:
            code = gitsession.invoke(ctx)
        sys.stdout.flush()
        return code if isinstance(code, int) else exits.OK
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # click 8.2 and later: the message is the help
            click.echo(error.format_message(), err=True)
        else:
            complain(_usage_message(error), hint=_usage_hint(error, arguments))
        return exits.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Buffered output must not cause an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except GitSessionError as error:
        complain(str(error), hint=error.hint, candidates=getattr(error, "candidates", ()))
        return exit_code(error)
    except OSError as error:
        complain(f"cannot access '{error.filename}': {error.strerror}" if error.filename else str(error.strerror))
        return exits.NOT_FOUND if error.errno in _WRONG_PATH else exits.TRY_AGAIN
    except Exception as error:
        if type(error).__module__ != "sqlite3":  # compared by name, because most commands do not import it
            raise
        complain(f"cannot use the index: {error}", hint="try again (the stored sessions are not affected)")
        return exits.TRY_AGAIN


def _prepare_streams() -> None:
    """Prevent errors when text cannot be encoded for a terminal, or when a stream is closed at the start."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open until the process ends
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _command_words(arguments: Sequence[str]) -> list[str]:
    """Return ``arguments`` with ``--`` before a word like ``-@leaf``, so that click does not parse it as an option.

    ``-@leaf`` addresses the leaf of the session ``-``.
    """
    at = next((at for at, word in enumerate(arguments) if word.startswith("-@")), None)
    return list(arguments) if at is None or "--" in arguments[:at] else [*arguments[:at], "--", *arguments[at:]]


def exit_code(error: GitSessionError) -> int:
    if isinstance(error, NotFound | NotAStore):
        return exits.NOT_FOUND
    if isinstance(error, Refused):
        return exits.REFUSED
    if isinstance(error, Malformed | Corrupt | MissingObject):
        return exits.INTEGRITY
    return exits.USAGE if isinstance(error, InvalidName) else exits.TRY_AGAIN


def _usage_message(error: click.ClickException) -> str:
    """Return the message of a click error in the format of all other errors: lower case, without a period."""
    message = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    message = message.replace("is not a valid integer range", "is not a valid integer")
    if ". (Did you mean" in message:
        message = message.replace(". (Did you mean", "; did you mean").removesuffix(")")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]


def _usage_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Return a hint with the help command. For an invalid option, click does not report the command it belongs to."""
    context = getattr(error, "ctx", None)
    command = next((f" {word}" for word in arguments if word in COMMANDS), "")
    return f"run `{context.command_path if context else NAME + command} --help`"
