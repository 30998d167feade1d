"""``gitsession checkpoint``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, emit, json_option, say, warn

if TYPE_CHECKING:
    from gitsession.checkpoints.lookup import Files

_SHOWN_MAX = 10

workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder, if it is not the one the session was held in.",
)


@click.command()
@click.argument("session", metavar="[SESSION]", default="@")
@click.option("-m", "--message", metavar="WORDS", help="What for.")
@workspace_option
@json_option
@with_app
def command(app: App, session: str, message: str | None, workspace: Path | None, as_json: bool) -> int:
    """Keep the files of a session's folder as they are now, beside the entry that the talk is at.

    What is ignored there, too large, or a repository of its own is left out, and named.
    """
    from gitsession.model.entries import Checkpoint
    from gitsession.sessions.gaps import DAMAGE

    found = app.session(session)
    try:
        before: Files | None = found.files.at()
    except DAMAGE:
        before = None  # what was seen last cannot be read: this one is kept beside it
    node = found.files.take_checkpoint(workspace=workspace, reason=message)
    if before is not None and before.checkpoint is None:
        before = None
    is_new = before is None or before.checkpoint != node
    entry = found.read(node)
    assert isinstance(entry, Checkpoint)
    files = found.files.at()
    changes = before.diff(files) if is_new and before else []
    if as_json:
        document = {
            "session": found.id,
            "id": node.oid,
            "new": is_new,
            "workspace": entry.workspace,
            "files": len(files),
            "changed": [change.path for change in changes],
            "skipped": [{"path": path, "why": why} for path, why in entry.skipped],
        }
        emit("checkpoint", document)
        return exits.OK
    if not is_new:
        say(f"{node.oid[:8]} has it all already: nothing differs in {entry.workspace}")
    elif before is None:
        say(f"{node.oid[:8]} keeps {count(len(files), 'file')} of {entry.workspace}")
    else:
        changed = f"{count(len(changes), 'file')} changed since the checkpoint before"
        say(f"{node.oid[:8]} keeps {entry.workspace}: {changed}")
    for path, why in entry.skipped[:_SHOWN_MAX]:
        warn(f"  left out: {path} ({why})")
    if len(entry.skipped) > _SHOWN_MAX:
        warn(f"  and {len(entry.skipped) - _SHOWN_MAX:,} more; --json names them all")
    return exits.OK
