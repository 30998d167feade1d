"""``gitsession resume``"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitsession.cli.context import App, split, with_app
from gitsession.cli.output import count, current_folder, emit, json_option, say, shell_words, warn, warn_of_hidden
from gitsession.errors import Unavailable

if TYPE_CHECKING:
    from gitsession.exporting.resume import Resumption


@click.command()
@click.argument("session", metavar="SESSION[@ENTRY]")
@click.option("--in", "agent", metavar="AGENT", help="The agent to go on in; its own by default.")
@click.option("--cwd", type=click.Path(path_type=Path, file_okay=False, exists=True), default=".",
              help="The folder to go on in; this one by default.")  # fmt: skip
@click.option("--run", is_flag=True, help="Start the agent, instead of printing what starts it.")
@click.option("--dry-run", is_flag=True, help="Say what would be written; write nothing.")
@json_option
@with_app
def command(app: App, session: str, agent: str | None, cwd: Path, run: bool, dry_run: bool, as_json: bool) -> None:
    """Put a session where an agent looks for it, and print the command that goes on with it there.

    With an entry, it goes on from there. Nothing is overwritten.
    """
    from gitsession.formats import Resumable, all_with_capability, with_capability

    if agent is not None and with_capability(agent, Resumable) is None:
        raise click.UsageError(f"no agent {agent!r} to go on in; there are {', '.join(all_with_capability(Resumable))}")
    if run and (dry_run or as_json):
        raise click.UsageError("--run starts the agent: it goes neither with --dry-run nor with --json")
    found, entry = app.entry(session)
    at = entry if split(session)[1] else None
    planned = app.store().agents.resume(found.id, at, agent=agent, cwd=cwd, dry_run=True)
    program = planned.commands[-1][0]
    if run and shutil.which(program) is None:
        raise Unavailable(f"{program} is not on the PATH", hint="without --run, the command is printed")
    done = planned if dry_run else app.store().agents.resume(found.id, at, agent=agent, cwd=cwd)
    if as_json:
        emit("resume", _document(found.id, done, dry_run=dry_run))
        return
    _tell(done, dry_run=dry_run)
    if not run:
        say(line_of(done.commands, done.cwd))
        return
    app.close()
    sys.stdout.flush()
    os.chdir(done.cwd)
    *before, last = done.commands
    for words in before:
        code = subprocess.run(words).returncode
        if code:
            raise Unavailable(f"`{shell_words(words)}` ended with exit code {code}", hint=f"{done.file} stays there")
    os.execvp(last[0], last)


def line_of(commands: Sequence[Sequence[str]], cwd: str) -> str:
    """The commands as a line for the shell, with the way to their folder where that is another one."""
    here = os.path.realpath(current_folder() or "/")
    way = [] if here == cwd else [["cd", cwd]]
    return " && ".join(map(shell_words, [*way, *commands]))


def _document(sid: str, done: Resumption, *, dry_run: bool) -> dict[str, object]:
    return {
        "session": sid,
        "agent": done.sent.agent,
        "id": done.id,
        "path": os.fsencode(done.file).decode("utf-8", "replace"),
        "cwd": done.cwd,
        "written": "nothing" if dry_run or done.is_there else "whole" if done.held is None else "rest",
        "commands": [list(words) for words in done.commands],
        "left_out": done.sent.left_out,
        "notes": dict(done.sent.notes),
    }


def _tell(done: Resumption, *, dry_run: bool) -> None:
    if done.is_there:
        warn(f"{done.file} is there already, with just this in it")
    elif done.held is not None:
        rest = f"{len(done.data) - done.held:,} bytes"
        warn(f"{'to be written' if dry_run else 'written'} behind what is in {done.file}: {rest}")
    else:
        warn(f"{'to be written' if dry_run else 'written'}: {done.file}")
    if done.beside:
        warn(f"{'to be restored' if dry_run else 'restored'}: {count(len(done.beside), 'file')} that the session names")
    warn_of_hidden(done.sent.hidden, done.sent.problems, "this machine never had them, or has lost them")
    if done.sent.left_out:
        warn(f"left out: {count(done.sent.left_out, 'entry', 'entries')} made here; `gitsession export` says why")
    for note, times in sorted(done.sent.notes.items()):
        warn(f"{note} ({times})" if times > 1 else note)
