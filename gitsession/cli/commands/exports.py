"""Commands that write sessions to files: export, resume."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import click

import gitsession
from gitsession.cli.invocation import App, split
from gitsession.cli.options import command, option
from gitsession.cli.output import (
    confirm,
    current_folder,
    emit,
    is_attended,
    json_option,
    say,
    wants_json,
    warn,
    warn_of_hidden,
)
from gitsession.cli.text import first, shell_command
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.line_text import count, on_a_line


@command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@option(
    "--to",
    "agent",
    metavar="FORMAT",
    help="Write in the format of this agent, or as html, markdown, jsonl, llm, otlp, or a plugin's format. "
    "Default: the format of the session's own agent.",
)
@option("--original", is_flag=True, help="Write only the records that the agent wrote.")
@option("--with-secrets", is_flag=True, help="Replace placeholders with the original secrets from the local vault.")
@option("-o", "--output", type=click.Path(path_type=Path),
              help="Write to a new file, or into an existing folder. Default: standard output.")  # fmt: skip
@option(
    "--yes",
    "consent",
    is_flag=True,
    help="Write an HTML file even if its text may contain secrets. Required if standard input is not a terminal.",
)
@click.pass_obj
def export_command(
    app: App, session: str, agent: str | None, original: bool, with_secrets: bool, output: Path | None, consent: bool
) -> None:
    """Write a session to a file in an agent's format.

    The records that the agent wrote are unchanged. Entries that gitsession created follow these records. With ENTRY,
    export only the history up to that entry.
    """
    from gitsession.exporting import HTML
    from gitsession.exporting.readable import export_names, find_writer
    from gitsession.formats import FORMATS

    if agent not in (None, HTML) and agent not in FORMATS and find_writer(agent) is None:
        raise click.UsageError(f"unknown format {agent!r}: choose one of {', '.join(export_names())}")
    found, entry = app.entry(session)
    at = entry if split(session)[1] else None
    sent = app.store().export(found.id, at, to=agent, original=original, with_secrets=with_secrets)
    if agent not in (None, sent.agent):
        hint = f"omit --original to write the session for {agent}"
        what = f"cannot export the original file of session {found.id} for {agent}: {sent.agent} wrote the file"
        raise Refused(what, hint=hint)
    warn_of_hidden(sent.hidden, sent.problems, "" if with_secrets else "pass --with-secrets to restore them")
    if sent.left_out:
        where = ", so not in the original file" if original else " after lines that the agent has rewritten"
        entries = f"{count(sent.left_out, 'entry', 'entries')} created by gitsession{where}"
        warn(f"left out: {entries} (pass SESSION@ENTRY to export the history of one entry)")
    _warn_of_notes(sent.notes)
    if at is None and not sent.added:
        _report_unimported(app.store().catalogue().files_of(found.id), sent.data)
    _confirm_suspicious(sent.suspicious, consent=consent)
    if sent.other_files and not (output is not None and output.is_dir()):
        more = count(len(sent.other_files), "other file")
        warn(f"not written: {more} of this session (pass -o FOLDER to write all files)")
    if output is None:
        sys.stdout.buffer.write(sent.data)
        sys.stdout.buffer.flush()
        return
    for path, data in _files(sent, output):
        _write(path, data)
        app.store().agents.record_export(found.id, path, sent.agent, data)


def _confirm_suspicious(found: Sequence[str], *, consent: bool) -> None:
    """List text that looks like a secret, and ask for confirmation.

    Raises ``UsageError`` if standard input is not a terminal, and ``Refused`` if the answer is no.
    """
    if not found:
        return
    warn(f"{count(len(found), 'text')} in this session may be {'a secret' if len(found) == 1 else 'secrets'}:")
    for line in first(found, _SUSPICIOUS_SHOWN, "", indent="  "):
        warn(line)
    if consent:
        return
    if not is_attended():
        raise click.UsageError(
            "cannot ask for confirmation: standard input is not a terminal (pass --yes; nothing was written)"
        )
    if not confirm("Write the file?"):
        raise Refused("cancelled: nothing was written")


_SUSPICIOUS_SHOWN = 20


def _files(sent: gitsession.ExportResult, output: Path) -> list[tuple[Path, bytes]]:
    """Return the paths and contents of the files to write: all files of the session if ``output`` is a folder."""
    if not output.is_dir():
        return [(output, sent.data)]
    name = PurePosixPath(sent.path).name
    if not name:
        raise click.UsageError(f"cannot write to '{output}': it is a folder (pass the name of a file)")
    return [(output / other, data) for other, data in ((name, sent.data), *sent.other_files)]


def _write(output: Path, data: bytes) -> None:
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(
            f"cannot write to '{output}': it already exists",
            hint="choose another name (existing files are not overwritten)",
        ) from None
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _report_unimported(files: Iterable[Path], data: bytes) -> None:
    """Warn if a file of the session contains data that was not imported, because the export lacks this data."""
    from gitsession.discovery import sources

    for path in files:
        try:
            _, content = sources.read(path)
        except (OSError, Malformed):
            continue  # the file was deleted, or the session is in a database
        if len(content) > len(data) and content.startswith(data):
            option = "" if b"\n" in content[len(data) :] else "--final "
            warn(
                f"not imported: the last {count(len(content) - len(data), 'byte')} of '{path}' "
                f"(run `gitsession import {option}{shlex.quote(str(path))}`)"
            )


@command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@option("--in", "agent", metavar="AGENT", help="Continue in this agent. Default: the session's own agent.")
@option("--cwd", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True), default=".",
              help="Continue in this folder. Default: the current folder.")  # fmt: skip
@option("--run", is_flag=True, help="Start the agent instead of printing the command.")
@option("--dry-run", is_flag=True, help="Only show what would be written.")
@json_option
@click.pass_obj
def resume_command(app: App, session: str, agent: str | None, cwd: Path, run: bool, dry_run: bool) -> None:
    """Write a session to an agent's folder, and print the command that continues the session.

    With ENTRY, the session continues from that entry. Existing files are not overwritten.
    """
    from gitsession.formats import Resumable, all_with_capability, with_capability

    if agent is not None and with_capability(agent, Resumable) is None:
        agents = ", ".join(all_with_capability(Resumable))
        raise click.UsageError(f"cannot resume in {agent!r}: expected one of {agents}")
    if run and (dry_run or wants_json()):
        raise click.UsageError("--run cannot be combined with --dry-run or --json")
    found, entry = app.entry(session)
    at = entry if split(session)[1] else None
    planned = app.store().agents.resume(found.id, at, agent=agent, cwd=cwd, dry_run=True)
    program = planned.commands[-1][0]
    if run and shutil.which(program) is None:
        raise Unavailable(f"cannot run '{program}': it is not on the PATH", hint="omit --run to print the command")
    done = planned if dry_run else app.store().agents.resume(found.id, at, agent=agent, cwd=cwd)
    if wants_json():
        emit("resume", _document(found.id, done, dry_run=dry_run))
        return
    _print_resumption(done, dry_run=dry_run)
    if not run:
        say(line_of(done.commands, done.cwd))
        return
    app.close()
    sys.stdout.flush()
    os.chdir(done.cwd)
    *before, last = done.commands
    for agent_command in before:
        code = subprocess.run(agent_command).returncode
        if code:
            raise Unavailable(
                f"`{shell_command(agent_command)}` failed with exit code {code}",
                hint=f"run the command again (the session is in {done.file})",
            )
    os.execvp(last[0], last)


def line_of(commands: Sequence[Sequence[str]], cwd: str) -> str:
    """Return a shell command line that runs the commands in ``cwd``.

    If ``cwd`` is not the working directory, the command line begins with ``cd``.
    """
    here = os.path.realpath(current_folder() or "/")
    way = [] if here == cwd else [["cd", cwd]]
    return " && ".join(map(shell_command, [*way, *commands]))


def _document(sid: str, done: gitsession.ResumePlan, *, dry_run: bool) -> dict[str, object]:
    return {
        "session": sid,
        "agent": done.export.agent,
        "id": done.id,
        "path": os.fsencode(done.file).decode("utf-8", "replace"),
        "cwd": done.cwd,
        "written": "nothing" if dry_run or done.is_complete else "whole" if done.existing_bytes is None else "rest",
        "commands": [list(words) for words in done.commands],
        "left_out": done.export.left_out,
        "notes": dict(done.export.notes),
        "kept": [os.fsencode(path).decode("utf-8", "replace") for path in done.kept],
    }


def _print_resumption(done: gitsession.ResumePlan, *, dry_run: bool) -> None:
    if done.is_complete:
        warn(f"{done.file} exists and is up to date")
    elif done.existing_bytes is not None:
        rest = f"{len(done.data) - done.existing_bytes:,} bytes"
        warn(f"{'would be appended' if dry_run else 'appended'} to the end of {done.file}: {rest}")
    else:
        warn(f"{'would be written' if dry_run else 'written'}: {done.file}")
    if done.other_files:
        warn(f"{'would be restored' if dry_run else 'restored'}: {count(len(done.other_files), 'file')} of the session")
    for path in done.kept:
        warn(on_a_line(f"kept: {path} differs from the side file in the store"))
    warn_of_hidden(done.export.hidden, done.export.problems, "the originals are not on this machine")
    if done.export.left_out:
        left_out = count(done.export.left_out, "entry", "entries")
        warn(f"left out: {left_out} created by gitsession (run `gitsession export` to see why)")
    _warn_of_notes(done.export.notes)


def _warn_of_notes(notes: Mapping[str, int]) -> None:
    for note, times in sorted(notes.items()):
        warn(f"{note} ({times})" if times > 1 else note)
