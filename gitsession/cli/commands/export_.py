"""``gitsession export``"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gitsession.cli.opening import App, split, with_app
from gitsession.cli.output import count, warn
from gitsession.errors import Refused


@click.command()
@click.argument("session", metavar="SESSION[@ENTRY]")
@click.option("--to", "agent", metavar="FORMAT", help="The agent to write for; its own by default.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A new file, instead of stdout.")
@with_app
def command(app: App, session: str, agent: str | None, output: Path | None) -> None:
    """Give a session back as its agent wrote it, byte for byte.

    With an entry: only the line that ends there.
    """
    from gitsession.formats import FORMATS

    if agent is not None and agent not in FORMATS:
        raise click.UsageError(f"no format {agent!r}; there are {', '.join(FORMATS)}")
    found, entry = app.entry(session)
    sent = app.store().export(found.id, entry if split(session)[1] else None)
    if agent not in (None, sent.agent):
        raise Refused(f"this session is {sent.agent}'s", hint=f"it can be exported --to {sent.agent}, byte for byte")
    if sent.left_out:
        warn(f"left out: {count(sent.left_out, 'entry', 'entries')} made here, which {sent.agent}'s file never had")
    if output is None:
        sys.stdout.buffer.write(sent.data)
        sys.stdout.buffer.flush()
        return
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(f"{output} is there already", hint="choose another name; nothing is overwritten") from None
    with os.fdopen(fd, "wb") as file:
        file.write(sent.data)
