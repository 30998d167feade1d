"""The pages of files: those that sessions changed, the changes of one file, and the origin of its lines."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from gitsession.discovery.file_history import FileHistory, LineOrigin, TrackedFile
from gitsession.errors import NotFound
from gitsession.index.file_changes import RecordedChange, changed_files
from gitsession.model.code import lexer_for
from gitsession.redaction.guard import Guard
from gitsession.web import text
from gitsession.web.entries import ID_CHARS
from gitsession.web.page import clock
from gitsession.web.selection import SessionSelection, counted, page_of
from gitsession.web.serving import Answer, StoreReader

_LINES_MAX = 5000
"""Maximum number of lines of a file that are shown."""

_LINE_CHARS_MAX = 2000


class ListedChange(NamedTuple):
    """A change in a list. ``session``: the name of the session. ``path``: the path at that time, if it was another."""

    origin: LineOrigin
    session: str
    change: RecordedChange
    path: str


class LineGroup(NamedTuple):
    """Consecutive lines with the same origin. ``first``: the number of the first line."""

    origin: LineOrigin | None
    first: int
    lines: list[Markup]


def file_list(store: StoreReader, guard: Guard, values: Mapping[str, str]) -> Answer:
    """Return the list of the files that the selected sessions changed, the newest change first."""
    catalogue = store.catalogue()
    selection = SessionSelection(catalogue.sessions(), values, guard)
    found = changed_files(catalogue.db, None if selection.is_all else [row.sid for row in selection.rows])
    path = values.get("text", "")
    words = path.lower().split()
    files = [file for file in found if all(word in file.path.lower() for word in words)]
    shown, pager = page_of(files, "/files", values)
    count = counted(len(files), len(found), "file")
    return Answer.page("files.html", "/files", rows=shown, selection=selection, text=path, found=count, pager=pager)


def history(store: StoreReader, guard: Guard, values: Mapping[str, str]) -> Answer:
    """Return the changes of a file, the newest first."""
    file, found, changes = _changes(store, values)
    shown, pager = page_of(changes, "/files/history", values)
    names = {row.sid: row.name for row in store.catalogue().sessions()}
    listed = [
        ListedChange(
            _safe(found.origin(change.sid, change.oid), guard), guard.excerpt(names.get(change.sid, change.sid)),
            change, change.path if change.path != file.path else "",
        )
        for change in shown
    ]  # fmt: skip
    facts = {
        "Changes": f"{len(changes):,}",
        "Sessions": f"{len({change.sid for change in changes}):,}",
        "First change": clock(changes[-1].at_ms),
        "Last change": clock(changes[0].at_ms),
    }
    return Answer.page("file.html", "/files", path=file.path, facts=facts, rows=listed, id_chars=ID_CHARS, pager=pager)


def lines(store: StoreReader, guard: Guard, values: Mapping[str, str]) -> Answer:
    """Return the text of a file in its newest checkpoint, with the origin of each line.

    The file itself is not read, because the path in a session may be that of any file of the user.
    """
    file, found, _ = _changes(store, values)
    recorded = found.newest_recorded(file)
    if recorded is None or "\0" in recorded[1]:
        groups: Sequence[LineGroup] = ()
        about = "No checkpoint contains this file as text. Run `gitsession enable` to record checkpoints."
    else:
        at_ms, source = recorded[0], guard.words(recorded[1])
        origins = found.blame(file, source, at_ms)
        groups = _groups(source, file.path, origins, guard)
        about = f"The text is that of the checkpoint of {clock(at_ms)}."
        if len(origins) > _LINES_MAX:
            about += f" It has {len(origins):,} lines, of which the first {_LINES_MAX:,} are shown."
    return Answer.page("lines.html", "/files", path=file.path, about=about, groups=groups, id_chars=ID_CHARS)


def _changes(store: StoreReader, values: Mapping[str, str]) -> tuple[TrackedFile, FileHistory, list[RecordedChange]]:
    """Return the file that a request names, the history of files, and the changes of this file."""
    path = values.get("path", "")
    file, history = TrackedFile(path, path), FileHistory(store.catalogue(), store.objects)
    changes = history.changes(file) if path else []
    if not changes:
        raise NotFound(f"no session changed a file {path[:200]!r}")
    return file, history, changes


def _groups(source: str, path: str, origins: Sequence[LineOrigin | None], guard: Guard) -> list[LineGroup]:
    shown = [line[:_LINE_CHARS_MAX] for line in text.visible(source).replace("\r\n", "\n").split("\n")]
    colored = text.highlighted("\n".join(shown[:_LINES_MAX]), lexer_for(path))
    numbered = enumerate(zip(origins, colored, strict=False), 1)
    groups = []
    for origin, part in itertools.groupby(numbered, key=lambda line: line[1][0]):
        found = list(part)
        rows = [row for _, (_, row) in found]
        groups.append(LineGroup(_safe(origin, guard) if origin else None, found[0][0], rows))
    return groups


def _safe(origin: LineOrigin, guard: Guard) -> LineOrigin:
    return origin._replace(prompt=guard.excerpt(origin.prompt))
