"""Titles of sessions, and names of entries, from the catalog. No entry is read from the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from gitsession.codec.digest import from_base64url, to_base64url
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue
from gitsession.index.derived import storable
from gitsession.pattern import pattern
from gitsession.sessions import marks as rules
from gitsession.sessions.marks import SessionMark

_SHORT = pattern(r"[0-9a-f]{8}")
_FORK = pattern(r"(.*) \(fork #([0-9]{1,9})\)")


@dataclass(frozen=True, slots=True)
class Names:
    """The title of a session and the labels of its entries.

    Attributes:
        title: The title of the session; ``None`` if there is none.
        labels: The labels by the oid of the entry.
        chains: The labels by the encoded chain digest of the entry.
    """

    title: str | None
    labels: dict[Oid, str]
    chains: dict[str, str]


def names(catalogue: Catalogue, sid: str) -> Names:
    """Return the current title and labels of a session."""
    marks = marks_of(catalogue.db, sid)
    targets = sorted({mark.target for mark in marks if mark.what == "label"})  # a fork copies labels in this order
    places = {target: place for target in targets if (place := place_of(catalogue.db, sid, target)) is not None}
    labels = rules.labels(marks, {target: oid for target, (oid, _) in places.items()})
    return Names(rules.title(marks), labels, {chain: labels[oid] for oid, chain in places.values() if oid in labels})


def marks_of(db: sqlite3.Connection, sid: str) -> list[SessionMark]:
    """Return the marks of a session."""
    return _select_marks(db, "WHERE sid = ?", (sid,))


def title_marks(db: sqlite3.Connection, sid: str) -> list[SessionMark]:
    """Return the marks that can determine a session's title: the newest of each kind (``sessions.marks.title``)."""
    found: list[SessionMark] = []
    for what, where in (("slot", ""), ("header", " AND value != ''"), ("title", "")):
        for side, order in (("IS NOT NULL", "line DESC, rowid DESC"), ("IS NULL", "at_ms DESC, chain DESC")):
            clause = f"sid = ? AND what = ? AND target = '' AND line {side}{where} ORDER BY {order} LIMIT 1"
            found += _select_marks(db, f"INDEXED BY marks_target WHERE {clause}", (sid, what))
    return found


def _select_marks(db: sqlite3.Connection, clauses: str, values: Sequence[str]) -> list[SessionMark]:
    found = db.execute(f"SELECT what, at_ms, line, chain, target, value FROM marks {clauses}", values)
    return [SessionMark(*row) for row in found]


def recorded_instructions(db: sqlite3.Connection, sid: str, meta: Oid | None) -> list[tuple[int, Oid]] | None:
    """Return the time, in Unix time in ms, and the oid of each ``instructions`` entry on ``meta``, oldest first.

    Return ``None`` if the catalog is older than ``meta``, the tip of that ref.
    """
    row = db.execute("SELECT meta FROM sessions WHERE sid = ?", (sid,)).fetchone()
    if row is None or row[0] != meta:
        return None
    marks = _select_marks(db, "WHERE sid = ? AND what = 'instructions' AND on_meta", (sid,))
    return [(mark.at_ms, mark.value) for mark in sorted(marks, key=lambda mark: mark.order)]


def labelled(catalogue: Catalogue, sid: str, label: str) -> Oid | None:
    """Return the oid of the entry with the label ``label``; ``None`` if the session has no such entry."""
    db, value = catalogue.db, storable(label)
    query = "SELECT DISTINCT target FROM marks INDEXED BY marks_value WHERE sid = ? AND what = 'label' AND value = ?"
    for (target,) in db.execute(query, (sid, value)).fetchall():
        found = place_of(db, sid, target)
        if found is not None and _label_of(db, sid, *found) == value:
            return found[0]
    return None


def _label_of(db: sqlite3.Connection, sid: str, oid: Oid, chain: str) -> str | None:
    """Return the label of an entry. A label refers to an entry by its chain digest, short id or agent's id."""
    row = db.execute("SELECT source_id FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
    aliases = [chain, from_base64url(chain)[:4].hex(), *(row or ())]
    targets = [target for target in aliases if target is not None and (place_of(db, sid, target) or ("",))[0] == oid]
    clauses = f"WHERE sid = ? AND what = 'label' AND target IN ({', '.join('?' * len(targets))})"
    return rules.labels(_select_marks(db, clauses, (sid, *targets)), dict.fromkeys(targets, oid)).get(oid)


def sessions_with_label(catalogue: Catalogue, text: str) -> set[str]:
    """Return the ids of the sessions in which an entry now has a label that contains ``text``, in any case."""
    sids = catalogue.db.execute("SELECT DISTINCT sid FROM marks WHERE what = 'label'").fetchall()
    part = storable(text).casefold()
    return {sid for (sid,) in sids if any(part in label.casefold() for label in names(catalogue, sid).labels.values())}


def fork_title(catalogue: Catalogue, title: str) -> str:
    """Return the title of a new fork: that of the original session with the next number, as in ``Login (fork #2)``."""
    found = _FORK.fullmatch(title)
    base = found[1] if found else title
    sessions = catalogue.db.execute("SELECT title FROM sessions WHERE instr(title, ?) = 1", (storable(base),))
    forks = (_FORK.fullmatch(other) for (other,) in sessions)
    number = 1 + max((int(fork[2]) for fork in forks if fork and fork[1] == base), default=0)
    suffix = f" (fork #{number})"
    return base[: rules.NAME_MAX - len(suffix)] + suffix


def by_digest(catalogue: Catalogue, digests: Collection[str]) -> list[tuple[str, str, Oid]]:
    """Return each entry whose payload has one of ``digests``: its digest, a session id and its oid.

    All entries in the catalog are compared, because an index would take a seventh of the catalog. A digest has 64
    hexadecimal digits.
    """
    import json  # not loaded by `gitsession log`

    query = (
        "SELECT lower(hex(digest)), min(sid), oid FROM entries "
        "WHERE lower(hex(digest)) IN (SELECT value FROM json_each(?)) GROUP BY digest, oid ORDER BY 2, 3"
    )
    return catalogue.db.execute(query, (json.dumps([*digests]),)).fetchall()


def place_of(db: sqlite3.Connection, sid: str, target: str) -> tuple[Oid, str] | None:
    """Return the oid and the encoded chain digest of the entry to which a label refers; ``None`` if it is unknown.

    ``target``: the target of the label: an agent's id, a chain digest or a short id.
    """
    found = _place_of_id(db, sid, target)
    if found is None:
        # A label that a fork copied can refer to an entry of the session from which it was forked.
        by_chain = "SELECT oid, chain FROM entries_by_chain WHERE chain = ? ORDER BY sid = ? DESC LIMIT 1"
        row = db.execute(by_chain, (chain_bytes(target), sid)).fetchone()
        row = row or _by_short_id(db, sid, target)
        found = (row[0], to_base64url(row[1])) if row else None
    return found


def _by_short_id(db: sqlite3.Connection, sid: str, target: str) -> tuple[Oid, bytes] | None:
    """Return the entry that gitsession wrote with the short id ``target`` (``sessions.node.short_id``)."""
    if not _SHORT.fullmatch(target):
        return None
    first = bytes.fromhex(target)
    found: tuple[Oid, bytes] | None = db.execute(
        "SELECT oid, c.chain FROM entries_by_chain c JOIN entries USING (sid, oid) "
        "WHERE c.chain BETWEEN ? AND ? AND sid = ? AND source_id IS NULL AND line IS NULL",
        (first, first + b"\xff" * 28, sid),
    ).fetchone()
    return found


def _place_of_id(db: sqlite3.Connection, sid: str, source_id: str) -> tuple[Oid, str] | None:
    by_id = (  # without the index hint, SQLite reads all entries of the session
        "SELECT oid, chain FROM entries INDEXED BY entries_source WHERE sid = ? AND source_id = ? "
        "ORDER BY in_file DESC, line DESC LIMIT 1"
    )
    row = db.execute(by_id, (sid, storable(source_id))).fetchone()
    return (row[0], to_base64url(row[1])) if row else None


def chain_bytes(text: str) -> bytes:
    """Return the chain digest that ``text`` encodes; ``b""`` if ``text`` is not valid."""
    try:
        return from_base64url(text)
    except ValueError:
        return b""
