"""``gitsession export``"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import click

from gitsession.cli.context import App, split, with_app
from gitsession.cli.output import count, warn, warn_of_hidden
from gitsession.errors import Malformed, Refused


@click.command()
@click.argument("session", metavar="SESSION[@ENTRY]")
@click.option("--to", "agent", metavar="FORMAT", help="The agent to write for, its own by default; or markdown, jsonl.")
@click.option("--as-it-came", is_flag=True, help="Only what the agent's file has, byte for byte.")
@click.option("--with-secrets", is_flag=True, help="With what was hidden, as far as this machine has it.")
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="A new file, instead of stdout; or a folder, for a session of several files.")  # fmt: skip
@with_app
def command(
    app: App, session: str, agent: str | None, as_it_came: bool, with_secrets: bool, output: Path | None
) -> None:
    """Write a session as a file that its agent, or another, opens and goes on with.

    The agent's own lines are as it wrote them; what was made here follows. With an entry: only its line.
    """
    from gitsession.exporting.export_session import TO_READ
    from gitsession.formats import FORMATS

    if agent is not None and agent not in {**FORMATS, **TO_READ}:
        raise click.UsageError(f"no format {agent!r}; there are {', '.join(FORMATS)}; to read: {', '.join(TO_READ)}")
    found, entry = app.entry(session)
    at = entry if split(session)[1] else None
    sent = app.store().export(found.id, at, to=agent, as_it_came=as_it_came, with_secrets=with_secrets)
    if agent not in (None, sent.agent):
        hint = f"without --as-it-came it can be written for {agent}"
        raise Refused(f"this session came from {sent.agent}", hint=hint)
    warn_of_hidden(sent.hidden, sent.problems, "" if with_secrets else "--with-secrets shows what this machine has")
    if sent.left_out:
        why = "which its file does not have" if as_it_came else "which hang below lines that it has rewritten"
        warn(f"left out: {count(sent.left_out, 'entry', 'entries')} made here, {why}; SESSION@ENTRY gives a line")
    for note, times in sorted(sent.notes.items()):
        warn(f"{note} ({times})" if times > 1 else note)
    if at is None and not sent.added:
        _tell_what_waits(app.store().catalogue().files_of(found.id), sent.data)
    if sent.beside and not (output is not None and output.is_dir()):
        more = count(len(sent.beside), "other file")
        warn(f"its agent has {more} of this session, or that it goes on from: `-o FOLDER` writes all")
    if output is None:
        sys.stdout.buffer.write(sent.data)
        sys.stdout.buffer.flush()
        return
    name = PurePosixPath(sent.place).name
    if output.is_dir() and not name:
        raise click.UsageError(f"{output} is a folder")
    files = ((output / name, sent.data), *((output / other, data) for other, data in sent.beside))
    for path, data in files if output.is_dir() else [(output, sent.data)]:
        _write(path, data)
        app.store().agents.record_export(found.id, path, sent.agent, data)


def _write(output: Path, data: bytes) -> None:
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(f"{output} is there already", hint="choose another name; nothing is overwritten") from None
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _tell_what_waits(files: Iterable[Path], data: bytes) -> None:
    """Where a file that the session came from goes on behind what was taken in: the export is that much shorter."""
    from gitsession.discovery import discover

    for path in files:
        try:
            _, held = discover.read(path)
        except (OSError, Malformed):
            continue  # gone, or a session in a database
        if len(held) > len(data) and held.startswith(data):
            how = "" if b"\n" in held[len(data) :] else "--final "
            warn(
                f"{path} has {count(len(held) - len(data), 'byte')} more at its end, which were not taken in: "
                f"`gitsession import {how}{shlex.quote(str(path))}` takes them"
            )
