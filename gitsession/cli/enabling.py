"""What `enable` and `disable` share: the plan shown, the question, and whether we may write."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App
from gitsession.cli.output import confirm, count, emit, say, warn

if TYPE_CHECKING:
    from gitsession.live.settings_edits import Edit

_COLORS = {"+": "green", "-": "red", "@": "cyan"}

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
force_option = click.option(
    "--force", is_flag=True, help="Also where somebody else has written in our file: a copy of it stays in the store."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")


def program(store: Path) -> list[str]:
    """How this program is run from any folder, on that store."""
    return [*runner(), "--store", os.fspath(store)]


def runner() -> list[str]:
    """How this program is run from any folder: as it was run now, if that is a file of its name."""
    here = os.path.abspath(sys.argv[0])
    if os.path.basename(here) in ("gitsession", "git-session") and os.access(here, os.X_OK):
        return [here]
    return [sys.executable, "-P", "-m", "gitsession"]


def carry_out(app: App, verb: str, edit: Edit, then: str, *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Say what would change, ask, and write; with ``dry_run``, show the change line by line and write nothing."""
    diff = _diff(edit)
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: say --yes or --dry-run")
    if dry_run and not as_json:
        for line in diff:
            say(line, fg=_COLORS.get(line[:1]))
    elif diff and not as_json:
        added, removed = (sum(line.startswith(sign) for line in diff[2:]) for sign in "+-")
        say(f"{edit.file}: {count(added, 'line')} added, {removed} removed; --dry-run shows them")
    goes = not edit.is_empty and not dry_run
    if goes and not yes and not _is_wanted(f"{verb} {edit.agent}: write {edit.file}?"):
        warn("nothing is written")
        return exits.NOTHING
    copy = None
    if goes:
        from gitsession.live import settings_edits

        copy = settings_edits.copy_of(app.path, edit) if edit.keeps else None
        if verb == "enable":
            app.store(make=True)
        settings_edits.perform(app.path, edit, enable=verb == "enable")
    if as_json:
        told = {"agent": edit.agent, "file": os.fspath(edit.file), "changed": goes, "diff": diff, "then": then}
        emit(verb, told | ({} if copy is None else {"copy": os.fspath(copy)}))
    elif edit.is_empty:
        is_so = "tells what it does already" if verb == "enable" else "is not enabled"
        say(f"{edit.agent} {is_so}: nothing to do in {edit.file}")
    elif goes:
        done = "removed" if edit.new is None else "written"
        say(f"{edit.agent}: {edit.file} is {done}{'; ' + then if then else ''}")
        if copy is not None:
            say(f"what it was: {copy}")
    return exits.OK


def _is_wanted(question: str) -> bool:
    """Who says nothing, because nobody is there to be asked, says no."""
    try:
        return confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        warn("")
        warn("--yes does not ask")
        return False


def _diff(edit: Edit) -> list[str]:
    old, new = (_lines(edit.old), _lines(edit.new))
    name = os.fspath(edit.file)
    return [line.rstrip("\n") for line in difflib.unified_diff(old, new, name, name)]


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
