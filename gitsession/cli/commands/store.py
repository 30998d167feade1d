"""Commands for the store itself: init, maintain, doctor, git, textconv, completion, help."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, program
from gitsession.cli.options import command, option
from gitsession.cli.output import emit, json_option, say
from gitsession.cli.text import archived_text
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.line_text import count


@command()
@click.pass_obj
def init_command(app: App) -> None:
    """Create an empty store.

    If the store already exists, it is not changed.
    """
    existed = os.path.lexists(app.path) and not (app.path.is_dir() and not any(app.path.iterdir()))
    app.store(make=True)
    say(f"the store {app.path} already exists" if existed else f"created an empty store: {app.path}")


@command()
@json_option
@click.pass_obj
def maintain_command(app: App) -> None:
    """Optimize the store.

    Merge packs, pack refs, and remove files left by killed processes. You can run this command at any time.

    If gitsession.archiveAfter is set to an age such as 90d, sessions whose newest entry is older are archived.
    """
    store = app.store()
    done = store.maintain()
    document = {
        "packs_before": done.packs_before,
        "packs_after": done.packs_after,
        "dead_locks": done.dead_locks,
        "removed": list(done.removed),
        "archived": list(done.archived),
    }
    emit("maintain", document)
    if done.archived:
        say(archived_text(len(done.archived), has_remotes=bool(store.remotes.list())))
    say(f"{count(done.packs_before, 'pack')} before, {done.packs_after:,} now")
    if done.dead_locks or done.removed:
        say(f"cleaned up: {count(done.dead_locks, 'stale lock')}, {count(len(done.removed), 'temporary file')}")


@command()
@json_option
@click.pass_obj
def doctor_command(app: App) -> int:
    """Diagnose problems and suggest fixes."""
    from gitsession.cli.checks import run  # loads most of the library

    checks = run(app)
    wrong = [check for check in checks if check.fix]
    problems = [{"where": check.what, "what": check.found, "mend": check.fix} for check in wrong]
    facts = {check.what: check.found for check in checks}
    notes = [check.what for check in checks if check.is_note]
    emit("doctor", {"checked": len(checks), "facts": facts, "notes": notes, "problems": problems})
    for check in checks:
        say(f"{check.mark}  {check.what:<12}  {check.found}")
        if check.fix:
            say(f"                  {check.fix}")
    if not os.path.lexists(app.path):
        return exits.NOT_FOUND
    app.warn_of_damage()
    return exits.INTEGRITY if wrong else exits.OK


_REPOSITORY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
)
"""Environment variables with which git would use another repository."""


@command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def git_command(app: App, arguments: tuple[str, ...]) -> None:
    """Run git in the store.

    Entries that are only in the journal are written to git first. If the store's configuration has a setting that can
    run a program, the command is refused.
    """
    from gitsession.git import hook_files, program_settings

    store = app.store()
    store.flush()
    path = str(store.objects.git_dir)
    named = program_settings.unsafe_settings(store.objects.git_dir)
    if named:
        names = ", ".join(named[:5])
        raise Refused(
            f"cannot run git in '{path}': its configuration contains settings that may run programs: {names}",
            hint=f"move the settings to your own git configuration, or run `git --git-dir={path}`",
        )
    # Only gitsession's pre-push hook is enabled. git runs the hook before every kind of push.
    hooks = hook_files.shipped("pre-push")
    settings = ["-c", f"core.hooksPath={hooks}", "-c", f"gitsession.gate={shlex.join(program(app.path))}"]
    app.close()
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    try:
        os.execvpe("git", ["git", *settings, f"--git-dir={path}", *arguments], environment)
    except FileNotFoundError:
        raise Unavailable("git is not on the PATH", hint="install git 2.39 or later") from None


@command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def textconv_command(file: Path) -> None:
    """Print an entry.cbor file as JSON."""
    from gitsession.codec import cbor

    data = file.read_bytes()
    try:
        value = cbor.decode(data)
    except Malformed as error:
        click.echo(f"{len(data)} bytes that are not a complete entry: {error}")
        return
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, default=lambda part: part.hex()))


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script for bash, zsh, or fish.

    For bash, add `eval "$(gitsession completion bash)"` to ~/.bashrc. For zsh, add the same line with `zsh` to
    ~/.zshrc. For fish, add `gitsession completion fish | source` to ~/.config/fish/config.fish.
    """
    from gitsession.cli.app import COMPLETING, NAME
    from gitsession.cli.completion import SHELLS

    click.echo(SHELLS[shell](ctx.find_root().command, {}, NAME, COMPLETING).source())


@command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@option("--all", "everything", is_flag=True, help="List the plumbing commands too.")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...], everything: bool) -> None:
    """Show help for a command, or list the commands."""
    from gitsession.cli.app import HELP_ALL

    ctx.meta[HELP_ALL] = everything
    context = ctx.find_root()
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.UsageError(f"{context.command_path!r} has no command {word!r}", context)
        context = click.Context(found, info_name=word, parent=context)
    click.echo(context.get_help())
