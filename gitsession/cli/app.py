"""The command line: its commands, and the exit code of each error (docs/reference/commands.md)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from gitsession.cli import exits
from gitsession.cli.context import App, here
from gitsession.cli.output import complain, paged, say
from gitsession.cli.text import count
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

_WRONG_PATH = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)

COMMANDS = {
    "init": ("store", "make a store"),
    "import": ("imports", "take in agents' sessions"),
    "export": ("exports", "give a session back, byte for byte"),
    "resume": ("exports", "go on with a session, in its agent or another"),
    "enable": ("agents", "have an agent tell what it does"),
    "disable": ("agents", "take that back"),
    "watch": ("agents", "follow agents that tell nothing"),
    "drain": ("agents", "take in what agents have told"),
    "hook": ("agents", "what an agent runs at every step"),
    "ls": ("sessions", "list sessions"),
    "search": ("search", "find words in all sessions"),
    "log": ("history", "show one line, leaf first"),
    "tree": ("history", "show every entry of a session"),
    "show": ("show", "show one entry"),
    "context": ("context", "show what the model sees"),
    "compact": ("compact", "let a summary stand for older entries"),
    "branch": ("branches", "list branches, or start one"),
    "switch": ("branches", "go on with another branch"),
    "fork": ("branches", "begin a session on another's line"),
    "label": ("branches", "name an entry"),
    "name": ("branches", "name a session"),
    "checkpoint": ("checkpoints", "keep the files as they are now"),
    "rewind": ("checkpoints", "go back to an entry, files and all"),
    "diff": ("checkpoints", "show what became of the files"),
    "undo": ("operations", "take back the last command"),
    "redo": ("operations", "do again what was undone"),
    "op": ("operations", "what commands did"),
    "seal": ("integrity", "sign a session, or check who did"),
    "remote": ("remotes", "name other repositories"),
    "sync": ("remotes", "send and take, until both have the same"),
    "pull": ("remotes", "take in what a remote has"),
    "push": ("remotes", "send what a remote lacks"),
    "clone": ("remotes", "make a store of what a remote has"),
    "bundle": ("remotes", "sessions in one file, out and in"),
    "archive": ("trash", "keep old sessions behind one ref"),
    "rm": ("trash", "put a session into the trash"),
    "restore": ("trash", "take it out of the trash or the archive"),
    "retain": ("trash", "let old sessions go, by rule"),
    "purge": ("purging", "take something away for good"),
    "verify": ("integrity", "check everything that is kept"),
    "repair": ("integrity", "heal what is damaged, from copies"),
    "redact": ("purging", "find secrets in what is kept, and hide them"),
    "maintain": ("store", "pack, and clean up"),
    "doctor": ("doctor", "say what is wrong, and what mends it"),
    "server": ("server", "check what is pushed to a repository"),
    "receive": ("server", "what the hooks of a server run"),
    "gate": ("gate", "look through what is pushed for secrets"),
    "link": ("link", "have commits say in which session they were made"),
    "git": ("store", "run git on the store"),
    "demo": ("demo", "build a small session and show it"),
    "completion": ("store", "tab completion for your shell"),
}
"""The module of ``commands`` in which a command is, and its summary."""

HIDDEN = {"textconv": "store"}

NAME = "gitsession"
COMPLETING = "_GITSESSION_COMPLETE"


class Commands(click.Group):
    """Loads a command's module when it is asked for: starting must not cost what is not used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            import difflib  # slow to load, and for nobody who types well

            close = ", ".join(difflib.get_close_matches(cmd_name, COMMANDS, n=2))
            raise click.UsageError(f"no command {cmd_name!r}" + (f"; did you mean {close}?" if close else ""), ctx)
        module = COMMANDS[cmd_name][0] if cmd_name in COMMANDS else HIDDEN[cmd_name]
        found: click.Command = getattr(import_module(f"gitsession.cli.commands.{module}"), f"{cmd_name}_command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="SESSION is a unique part of a session's id, @ (the newest held here), - (the one before it) or "
    "AGENT:SOURCE-ID. SESSION@ENTRY names an entry: an id or its beginning, a label, a branch, leaf, root, leaf~3.",
)
@click.option(
    "--store", metavar="DIR", help="Use this store. Default: $GITSESSION_DIR, else git config gitsession.store."
)
@click.version_option(package_name="gitsession", prog_name="gitsession", message="%(prog)s %(version)s")
@click.pass_context
def gitsession(ctx: click.Context, store: str | None) -> None:
    """Sessions of AI agents, kept in git. Without a command: where you are, and the newest sessions here."""
    ctx.obj = app = App(store)
    ctx.call_on_close(app.close)
    if ctx.invoked_subcommand is None:
        _show_status(app)


_NEWEST = 10


def _show_status(app: App) -> None:
    if not os.path.lexists(app.path):
        say("No store yet.")
        say("  gitsession import --all    imports the sessions that your agents keep")
        say("  gitsession demo            shows what it is, in a folder of its own")
        say("  gitsession --help          lists the commands")
        from gitsession.cli.expiry import expiry_words, look_at_expiry

        sweep = look_at_expiry(None)
        if sweep.soon:
            say()
            say(expiry_words(sweep))
        return
    from gitsession.cli.commands.sessions import table

    rows = app.catalogue().sessions()
    held = of_folder(rows, here())
    say(f"{count(len(rows), 'session')}, {len(held)} of this folder or its project")
    say(f"  in {app.path}")
    app.warn_of_damage()
    shown = (held or rows)[:_NEWEST]
    if shown:
        say()
        say("The newest here:" if held else "\nThe newest:")
        paged(table(shown))
    else:
        say("  gitsession import --all    imports the sessions that your agents keep")


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit code, as docs/reference/commands.md lists them."""
    _prepare_streams()
    try:
        if COMPLETING in os.environ:
            gitsession.main(list(arguments), prog_name=NAME)  # click answers the shell, and exits
        # Not ``main``: for click a reader that goes away is an error, even where it was told not to exit itself.
        with gitsession.make_context(NAME, _words(arguments)) as ctx:
            code = gitsession.invoke(ctx)
        sys.stdout.flush()
        return code if isinstance(code, int) else exits.OK
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2 and later: the message is the help
            click.echo(error.format_message(), err=True)
        else:
            complain(error.format_message(), hint=_usage_hint(error))
        return exits.USAGE
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read has gone (`| head`); what Python still holds must not be complained about at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except GitSessionError as error:
        complain(str(error), hint=error.hint, candidates=getattr(error, "candidates", ()))
        return exit_code(error)
    except OSError as error:
        complain(f"{error.filename or ''}: {error.strerror}".lstrip(": "))
        return exits.NOT_FOUND if error.errno in _WRONG_PATH else exits.TRY_AGAIN
    except Exception as error:
        if type(error).__module__ != "sqlite3":  # asked by name: most commands never load it
            raise
        complain(f"the index cannot be used: {error}", hint="what is kept is not touched by it; try again")
        return exits.TRY_AGAIN


def _prepare_streams() -> None:
    """Output must not fail for a terminal's encoding, nor for a stream that was closed before we began."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the life of the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _words(arguments: Sequence[str]) -> list[str]:
    """``-@leaf``, the leaf of the session before the newest, is an address and no option."""
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


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path} --help` tells more" if context else ""
