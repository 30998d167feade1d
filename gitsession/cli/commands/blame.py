"""The command ``gitsession blame``, and the changes of a file for ``gitsession log -- FILE``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli.invocation import App, split
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list
from gitsession.cli.text import paint, width
from gitsession.errors import NotFound, Refused
from gitsession.line_text import ago, columns, cut, on_a_line, pad, shorten
from gitsession.model.headline import clean

if TYPE_CHECKING:
    from gitsession.discovery.file_history import LineOrigin, TrackedFile
    from gitsession.index.file_changes import RecordedChange

_BINARY_BYTES = 8000
"""Number of bytes in which a NUL byte marks a file as binary, as in git."""

_ID, _PROMPT_MIN = 8, 10


class Range(click.ParamType[tuple[int, int]]):
    """A range of lines, such as ``10,20``, ``10,`` or ``,20``. The value is the first and the last line."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        start, comma, end = str(value).partition(",")
        try:
            first, last = int(start or 1), int(end) if end else 2**62 if comma else int(start)
        except ValueError:
            first, last = 0, 0
        if not 0 < first <= last:
            self.fail(f"{value!r} is not a range of lines, such as 10,20", param, ctx)
        return first, last


@command()
@click.argument("words", metavar="[SESSION@ENTRY] FILE", nargs=-1, required=True)
@option("-L", "lines", type=Range(), metavar="START,END", help="Show only these lines.")
@json_option
@click.pass_obj
def blame_command(app: App, words: Sequence[str], lines: tuple[int, int] | None) -> int:
    """Show which session wrote each line of a file.

    For each line, show the session, the entry, its time, the agent, and the prompt that led to the entry. Lines that no
    session wrote have a dash. With SESSION@ENTRY, show the file in the checkpoint at this entry.
    """
    from gitsession.discovery.file_history import FileHistory, TrackedFile
    from gitsession.index.file_changes import LAST_MS

    if len(words) > 2:
        raise click.UsageError("expected one file, and at most one entry before it")
    catalogue, until_ms = app.catalogue(), LAST_MS
    if len(words) == 2:
        file, data, until_ms = _recorded(app, words[0], words[1])
        catalogue = app.catalogue()
    else:
        file, data = TrackedFile.at(words[0]), _read(words[0])
    if b"\0" in data[:_BINARY_BYTES]:
        raise Refused(f"cannot blame '{words[-1]}': it is a binary file")
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    origins = FileHistory(catalogue, app.objects()).blame(file, text, until_ms)
    first, last = lines or (1, len(origins))
    if first > max(len(origins), 1):
        raise click.UsageError(f"'{words[-1]}' has only {len(origins):,} lines")
    found = list(enumerate(zip(text.split("\n"), origins, strict=False), 1))[first - 1 : last]
    rows = [(number, line, origin) for number, (line, origin) in found]
    return print_list(
        "blame", "lines", (_as_object(*row) for row in rows), _table(rows), nothing="the file is empty", path=file.path
    )


def _read(path: str) -> bytes:
    """Return the content of a file. Raises ``NotFound`` or ``Refused``."""
    if "\0" in path or not os.path.exists(path):
        raise NotFound(f"no file '{path}'", hint="pass SESSION@ENTRY before FILE to show a file in a checkpoint")
    if not os.path.isfile(path):
        raise Refused(f"cannot blame '{path}': it is not a file")
    with open(path, "rb") as file:
        return file.read()


def _recorded(app: App, address: str, path: str) -> tuple[TrackedFile, bytes, int]:
    """Return a file in the checkpoint at an entry, its content, and the time of the entry."""
    from gitsession.discovery.file_history import TrackedFile
    from gitsession.model.entries import Checkpoint
    from gitsession.sessions.content import entry_of
    from gitsession.workspace.names import escape_path

    session, node = app.entry(address)
    files = session.files.at(node)
    entry = entry_of(app.objects(), files.checkpoint) if files.checkpoint is not None else None
    if not isinstance(entry, Checkpoint):
        raise NotFound(
            f"cannot show '{path}' at {address}: the session has no checkpoints",
            hint="omit the entry to show the file as it is now",
        )
    top = entry.workspace or ""
    name = os.path.relpath(path, top) if os.path.isabs(path) and top else os.path.normpath(path)
    row, _ = app.row(split(address)[0])
    recorded = escape_path(os.fsencode(name))
    if recorded not in files:
        raise NotFound(f"no file '{name}' at {address}", hint="pass a path relative to the top folder of the workspace")
    file = TrackedFile(os.path.join(top, name), name, row.identity)
    return file, files.read(recorded), max(entry.at_ms, entry_of(app.objects(), node).at_ms)


def _as_object(number: int, line: str, origin: LineOrigin | None) -> dict[str, Any]:
    names = ("session", "id", "at", "agent", "prompt")
    return {"line": number, **dict(zip(names, origin or [None] * len(names), strict=True)), "text": line}


def _table(rows: Sequence[tuple[int, str, LineOrigin | None]]) -> Iterator[str]:
    """Yield a line for each line of a file. If standard output is a terminal, cut the lines at its width."""
    now_ms = time.time_ns() // 1_000_000
    known = {origin for _, _, origin in rows if origin is not None}
    heads = _heads({origin: (origin.sid, origin.oid, origin.at_ms, origin.agent) for origin in known}, now_ms)
    size = len(str(rows[-1][0])) if rows else 0
    used = max(map(columns, heads.values()), default=0)
    room = max(width() // 2 - used, _PROMPT_MIN) if heads else 0
    prompts = {origin: pad(shorten(origin.prompt, room), room) for origin in known}
    for number, line, origin in rows:
        safe = clean(line.expandtabs(4))
        if origin is None:
            head = pad("-", used + room + 1 if heads else 1)
        else:
            short, rest = heads[origin].split(" ", 1)
            head = f"{paint(short, fg='yellow')} {paint(rest)} {paint(prompts[origin], dim=True)}"
        text = cut(safe, max(width() - used - room - size - 4, 1)) if sys.stdout.isatty() else safe
        yield f"{head} {number:>{size}}) {text}".rstrip()


def _heads(found: dict[Any, tuple[str, str, int, str]], now_ms: int) -> dict[Any, str]:
    """Return the aligned text of each origin: session, entry, time and agent."""
    from gitsession.index.catalogue import short_sid

    times = {key: ago(at_ms, now_ms) for key, (_, _, at_ms, _) in found.items()}
    agents = {key: on_a_line(agent) for key, (_, _, _, agent) in found.items()}
    time_size = max(map(columns, times.values()), default=0)
    agent_size = max(map(columns, agents.values()), default=0)
    ids = {key: f"{short_sid(sid)} {oid[:_ID]}" for key, (sid, oid, _, _) in found.items()}
    return {key: f"{ids[key]} {pad(times[key], time_size)} {pad(agents[key], agent_size)}" for key in found}


# ---- log -- FILE


def show_changes(app: App, address: str | None, paths: Sequence[str], number: int | None) -> int:
    """Print the entries that changed files, the newest first. ``address``: the session; ``None`` for all sessions."""
    from gitsession.discovery.file_history import FileHistory, TrackedFile

    sid = None
    if address is not None:
        row, entry = app.row(address)
        if entry:
            raise click.UsageError(f"pass a session without an entry before --: {address!r}")
        sid = row.sid
    catalogue = app.catalogue()
    history = FileHistory(catalogue, app.objects())
    found = {change[:4]: change for path in paths for change in history.changes(TrackedFile.at(path))}
    changes = sorted(found.values(), key=lambda it: (-it.at_ms, it.sid, it.oid, -it.block, -it.number))
    wanted = [change for change in changes if sid in (None, change.sid)][:number]
    rows = [(change, history.origin(change.sid, change.oid)) for change in wanted]
    return print_list(
        "file-log",
        "changes",
        (_change_object(*row) for row in rows),
        _change_lines(rows),
        nothing=f"no session changed {', '.join(paths)}",
        paths=[os.path.abspath(path) for path in paths],
    )


def _change_object(change: RecordedChange, origin: LineOrigin) -> dict[str, Any]:
    return {
        "session": change.sid, "id": change.oid, "at": change.at_ms, "agent": origin.agent, "prompt": origin.prompt,
        "path": change.path, "change": change.change, "added": change.added, "removed": change.removed,
    }  # fmt: skip


def _change_lines(rows: Sequence[tuple[RecordedChange, LineOrigin]]) -> Iterator[str]:
    now_ms = time.time_ns() // 1_000_000
    heads = _heads({change: (origin.sid, origin.oid, origin.at_ms, origin.agent) for change, origin in rows}, now_ms)
    effects = {change: f"{change.change} +{change.added} -{change.removed}" for change, _ in rows}
    effect_size = max(map(len, effects.values()), default=0)
    for change, origin in rows:
        short, rest = heads[change].split(" ", 1)
        room = max(width() - columns(heads[change]) - effect_size - 2, _PROMPT_MIN)
        line = f"{paint(short, fg='yellow')} {paint(rest)} {pad(effects[change], effect_size)} "
        yield line + paint(shorten(origin.prompt or "(no prompt)", room))
