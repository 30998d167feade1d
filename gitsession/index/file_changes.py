"""The files that sessions changed, and the changes of one file with its renames, from the catalog.

Changes by tool calls that failed do not count.
"""

from __future__ import annotations

import json
import posixpath
import sqlite3
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gitsession.git.types import Oid
from gitsession.index.activity import FAILED
from gitsession.index.derived import storable

LAST_MS = 2**62


class RecordedChange(NamedTuple):
    """A change of a file that a tool call, or the text of an answer, requested.

    Attributes:
        sid: The id of the session.
        oid: The oid of the entry.
        block: The number of the block with the change in the entry.
        number: The number of the change in the block.
        path: The path of the file at that time.
        change: ``edit``, ``write``, ``delete`` or ``move``.
        added: The number of added lines.
        removed: The number of removed lines.
        at_ms: The time of the entry, Unix time in ms.
    """

    sid: str
    oid: Oid
    block: int
    number: int
    path: str
    change: str
    added: int
    removed: int
    at_ms: int


class ChangedFile(NamedTuple):
    """A file that sessions changed.

    Attributes:
        path: The path.
        changes: The number of changes.
        sessions: The number of sessions.
        added: The number of lines that the changes added.
        removed: The number of lines that the changes removed.
        at_ms: The time of the newest change, Unix time in ms.
    """

    path: str
    changes: int
    sessions: int
    added: int
    removed: int
    at_ms: int


_SESSIONS = f"SELECT DISTINCT sid FROM changes WHERE NOT {FAILED.format('changes')} AND"
_EFFECTIVE = f"NOT changes.copied AND NOT {FAILED.format('changes')}"
_FILES = (
    "SELECT path, count(*), count(DISTINCT sid), sum(added), sum(removed), max(at_ms) AS newest FROM changes "
    f"JOIN entries USING (sid, oid) WHERE {_EFFECTIVE} AND (?1 IS NULL OR sid IN (SELECT value FROM json_each(?1))) "
    "GROUP BY path ORDER BY newest DESC, path"
)
_CHANGES = (
    "SELECT sid, oid, block, number, path, change, added, removed, at_ms, depth FROM changes "
    "JOIN entries USING (sid, oid) JOIN sessions USING (sid) "
    f"WHERE {_EFFECTIVE} AND at_ms <= ?1 "
    "AND (path = ?2 OR path = ?3 OR substr(path, -length(?3) - 1) = '/' || ?3) ORDER BY created_ms, sid"
)


def changed_files(db: sqlite3.Connection, sids: Iterable[str] | None = None) -> list[ChangedFile]:
    """Return the files that sessions changed, the newest change first. ``sids``: the sessions; ``None`` for all."""
    chosen = None if sids is None else json.dumps(list(sids))
    return [ChangedFile(*row) for row in db.execute(_FILES, (chosen,))]


def changes_of(
    db: sqlite3.Connection, path: str, name: str, is_same: Callable[[str, str, str], bool], *, until_ms: int = LAST_MS
) -> list[RecordedChange]:
    """Return the changes of a file, the newest first. The changes before a rename are included.

    Changes by tool calls that failed are left out. Copies of an entry in several sessions, for example in forks of a
    session, count only in the oldest session.

    Args:
        db: The database of the catalog.
        path: The absolute path of the file.
        name: The path relative to the top folder of the project.
        is_same: A function that returns whether a path that ends with a name is this file. Its arguments are the id of
            the session, the path and the name.
        until_ms: The time of the last change, Unix time in ms.
    """
    found: dict[tuple[str, Oid, int, int], tuple[RecordedChange, int]] = {}
    owners: dict[tuple[object, ...], str] = {}
    waiting, seen = [(path, name, until_ms)], {path}
    while waiting:
        path, name, until_ms = waiting.pop()
        for *row, depth in db.execute(_CHANGES, (until_ms, storable(path), storable(name))).fetchall():
            change = RecordedChange(*row)
            if change.path != path and not is_same(change.sid, change.path, name):
                continue
            if owners.setdefault(change[2:], change.sid) != change.sid:
                continue  # a copy: the agent writes other ids, but the same time and the same change
            found[change[:4]] = change, depth
            earlier = _earlier_path(db, change)
            if earlier and earlier not in seen:
                seen.add(earlier)
                folder = change.path.removesuffix(name)
                waiting.append((earlier, earlier.removeprefix(folder), change.at_ms))
    changes = sorted(found.values(), key=lambda item: (item[0].at_ms, item[1], item[0].sid, *item[0][2:4]))
    return [change for change, _ in reversed(changes)]


def _earlier_path(db: sqlite3.Connection, change: RecordedChange) -> str | None:
    """Return the path from which a change moved the file; ``None`` if it did not. Both paths have a row."""
    query = "SELECT path FROM changes WHERE sid = ? AND oid = ? AND block = ? AND number = ? AND change = 'move'"
    row = (change.sid, change.oid, change.block, change.number - 1)
    found = db.execute(query, row).fetchone() if change.change in ("move", "write") else None
    return found[0] if found and found[0] != change.path else None


def changed_names(db: sqlite3.Connection) -> set[str]:
    """Return the names, without folders, of all files that tool calls changed."""
    return {posixpath.basename(path) for (path,) in db.execute("SELECT DISTINCT path FROM changes")}


def changes_by_path(db: sqlite3.Connection, sid: str) -> dict[str, tuple[int, int]]:
    """Return the files that tool calls of a session changed, with the numbers of added and of removed lines.

    Failed calls do not count.
    """
    query = f"SELECT path, sum(added), sum(removed) FROM changes WHERE sid = ? AND {_EFFECTIVE} GROUP BY path"
    return {path: (added, removed) for path, added, removed in db.execute(query, (sid,))}


def paths_changed_by(db: sqlite3.Connection, sid: str) -> set[str]:
    """Return the paths of the files that tool calls of a session changed, without those that failed."""
    return set(changes_by_path(db, sid))


_UP_TO = """
WITH RECURSIVE up(oid) AS (SELECT ?2 UNION
    SELECT entries.above FROM up JOIN entries ON entries.sid = ?1 AND entries.oid = up.oid WHERE entries.above != '')
SELECT coalesce(sum(added), 0), coalesce(sum(removed), 0), count(DISTINCT path) FROM changes
WHERE sid = ?1 AND oid IN (SELECT oid FROM up) AND """


def size_of_changes(db: sqlite3.Connection, sid: str, oid: Oid) -> tuple[int, int, int]:
    """Return the numbers of added lines, removed lines and changed files up to an entry, without failed calls.

    Changes before a fork belong to the other session.
    """
    added, removed, files = db.execute(_UP_TO + _EFFECTIVE, (sid, oid)).fetchone()
    return added, removed, files


def sessions_that_changed(db: sqlite3.Connection, path: str, name: str) -> set[str]:
    """Return the ids of the sessions whose tool calls changed a file, or a file in a folder. Copies count, too.

    Args:
        db: The database of the catalog.
        path: The absolute path of the file or folder.
        name: The path as the user wrote it. A relative one also selects files of other folders that end with it, such
            as the same file in another clone.
    """
    query = f"{_SESSIONS} (path = ?1 OR substr(path, 1, length(?1) + 1) = ?1 || '/')"
    found = {sid for (sid,) in db.execute(query, (storable(path.rstrip("/")),))}
    if name.partition("/")[0] not in ("", ".", ".."):
        # The path of a change is relative if the folder of its session is unknown.
        ending = f"{_SESSIONS} (substr('/' || path, -length(?1)) = ?1 OR instr('/' || path, ?1 || '/'))"
        found |= {sid for (sid,) in db.execute(ending, (storable("/" + posixpath.normpath(name)),))}
    return found
