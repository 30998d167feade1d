"""Rows of a session's branches, tokens of answers, and marks in the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Set
from itertools import zip_longest

from gitsession.formats import Counting, with_capability
from gitsession.formats.base.record import TAIL
from gitsession.git.types import Oid
from gitsession.index import entry_rows
from gitsession.index.derived import clamped, storable
from gitsession.index.names import chain_bytes
from gitsession.model import entries as kinds
from gitsession.model.usage import AnswerUsage, answer_id, token_counts, total_tokens
from gitsession.sessions.active_branch import is_superseded, selected_branch
from gitsession.sessions.content import DecodedEntry, decode_entry, entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.marks import SessionMark
from gitsession.sessions.meta import Meta, marks_of
from gitsession.sessions.node import Node, line_of, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_ALONE = frozenset({kinds.Instructions.kind, kinds.Label.kind, kinds.Title.kind, kinds.Seal.kind})
"""The kinds of entries of the ``meta`` ref that can be interpreted without the other entries of that ref."""


# ---- branches, with the columns that determine the active one (``sessions.active_branch``)


def put_branch(
    db: sqlite3.Connection, store: ObjectStore, sid: str, name: str, oid: Oid | None, superseded: Set[str]
) -> None:
    """Store the tip ``oid`` of a branch; ``None`` removes the branch. Its entries must already be in the catalog."""
    if oid is None:
        db.execute("DELETE FROM branches WHERE sid = ? AND later = ? AND name = ?", (sid, name != refs.MAIN, name))
        return
    is_own, at_ms, chain, line, in_file = False, 0, b"", None, False
    try:
        node = load(store, oid)
    except DAMAGE:
        pass  # a branch with a damaged tip does not become active
    else:
        found = db.execute("SELECT at_ms, in_file FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
        is_own, chain = node.source is None and node.parent is not None, node.chain
        line = node.source.line if node.source is not None else None
        if found is not None:
            at_ms, in_file = found
        else:  # an entry of the session from which this one was forked
            at_ms = clamped(entry_of(store, node).at_ms)
            in_file = not is_superseded(store, node, superseded)
    row = (sid, name != refs.MAIN, name, oid, is_own, at_ms, chain, line, in_file)
    db.execute("INSERT OR REPLACE INTO branches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def active_branch(db: sqlite3.Connection, store: ObjectStore, sid: str, leaf: str | None) -> tuple[str, Oid] | None:
    """Return the active branch and its tip, by the rules of ``sessions.active_branch``; ``None`` without a branch.

    ``leaf``: the position of the entry that the agent's file names as the leaf; ``None`` if it names none.
    """
    selected = selected_branch(store, sid)
    line, chain = (line_of(leaf), chain_bytes(leaf.partition(":")[2])) if leaf is not None else (None, b"")
    for where, order, values in (
        # If no branch is selected, no name matches. A selected branch that is not found was created during this
        # update, and the next one adds it.
        ("later = ? AND name = ?", "name", (selected != refs.MAIN, selected)),
        ("ours", "at_ms DESC, chain DESC, later, name", ()),
        ("line = ? AND chain = ?", "later, name", (line, chain)),
        ("line IS NOT NULL", "in_file DESC, line DESC, name DESC", ()),
        ("1", "later, name", ()),
    ):
        query = f"SELECT name, oid FROM branches WHERE sid = ? AND {where} ORDER BY {order} LIMIT 1"
        found = db.execute(query, (sid, *values)).fetchone()
        if found is not None:
            return str(found[0]), str(found[1])
    return None


# ---- tokens reported by providers: each answer is counted once, even if several entries report it


def add_answers(
    db: sqlite3.Connection, sid: str, node: Node, found: DecodedEntry, model: str | None
) -> tuple[int, int]:
    """Store the tokens that an entry reports for answers. Of several reports for one answer, the highest is used.

    Return the numbers of tokens that the entry adds to its session: for answers with an id, and for all other answers.
    ``model``: the model in use at the entry, as ``provider/model``.
    """
    named = alone = 0
    for number, count in enumerate(_counts(node, found)):
        answer, known = f"{node.oid}:{number}", None
        if count.answer:
            answer = storable(count.answer)
            known = _known_tokens(db, sid, answer)
            if known is not None and known >= count.tokens:
                continue
        _put_answer(db, sid, answer, count, found.entry.at_ms, model, node.oid)
        if count.answer:
            named += count.tokens - (known or 0)
        else:
            alone += count.tokens
    return named, alone


def cost(db: sqlite3.Connection, sid: str) -> float:
    """Return the recorded cost of a session, in US dollars."""
    return float(db.execute("SELECT total(cost) FROM answers WHERE sid = ?", (sid,)).fetchone()[0])


def put_waiting_answers(db: sqlite3.Connection, store: ObjectStore, sid: str, meta: Meta, leaf: Oid) -> int:
    """Store the tokens in answers whose records are not yet entries; return their number.

    These records are at the ends of the agent's files. They become part of the next entry, which replaces these rows.
    ``leaf``: the newest entry, whose model is in use.
    """
    db.execute("DELETE FROM answers WHERE sid = ? AND oid = ?", (sid, _WAITING))
    row = entry_rows.row_of(db, sid, leaf)
    state = entry_rows.state_at(db, row) if row is not None else None
    for tail in [meta.of_file(segment).headers().get(TAIL) for segment in (None, *meta.segments)]:
        if tail is None:
            continue
        found = decode_entry(store, tail)
        for number, count in enumerate(_counts(tail, found)):
            answer = storable(count.answer) or f"{tail.oid}:{number}"
            if _known_tokens(db, sid, answer) is None:
                model = state.model if state is not None else None
                _put_answer(db, sid, answer, count, found.entry.at_ms, model, _WAITING)
    query = "SELECT coalesce(sum(tokens), 0) FROM answers WHERE sid = ? AND oid = ?"
    return int(db.execute(query, (sid, _WAITING)).fetchone()[0])


_WAITING = ""
"""The column ``oid`` of an answer whose record is not yet an entry."""


def _counts(node: Node, found: DecodedEntry) -> Iterable[AnswerUsage]:
    counting = with_capability(node.source.agent, Counting) if node.source is not None else None
    if counting is not None:
        return counting.counts(found.data)
    entry = found.entry
    if not isinstance(entry, kinds.Message) or not entry.usage:
        return []
    counts = token_counts(entry.usage, entry.extra.get("costUSD"))
    return [AnswerUsage(total_tokens(entry.usage), answer_id(entry.extra), counts)]


def _known_tokens(db: sqlite3.Connection, sid: str, answer: str) -> int | None:
    """Return the number of tokens that an entry reported for an answer; ``None`` if no entry reported it."""
    query = "SELECT tokens FROM answers WHERE sid = ? AND answer = ? AND oid != ?"
    found = db.execute(query, (sid, answer, _WAITING)).fetchone()
    return found[0] if found is not None else None


def _put_answer(
    db: sqlite3.Connection, sid: str, answer: str, count: AnswerUsage, at_ms: int, model: str | None, oid: Oid
) -> None:
    values = (sid, answer, count.tokens, *count.counts, clamped(at_ms), model and storable(model), oid)
    db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


# ---- marks (``sessions.marks``), updated from the entries of the ``meta`` ref


def move_marks(db: sqlite3.Connection, store: ObjectStore, sid: str, old: Oid, new: Oid) -> bool:
    """Update the marks after the ``meta`` ref moved, if one of the tips ``old`` and ``new`` is before the other.

    Return ``False`` if all entries of the ref must be read again. Both histories are walked in step, so the cost
    depends only on the distance between the tips.
    """
    if old == new:
        return True
    gained: list[Node] = []
    lost: list[Node] = []
    for added, removed in zip_longest(_back(store, new), _back(store, old)):
        gained += [added] if added is not None else []
        lost += [removed] if removed is not None else []
        if added is not None and added.parent == old:
            insert_marks(db, sid, _marks_in(store, gained), on_meta=True)
            return True
        if removed is not None and removed.parent == new:
            db.executemany(
                "DELETE FROM marks WHERE sid = ? AND what = ? AND target = ? AND on_meta = 1 AND chain = ?",
                [(sid, mark.what, storable(mark.target), mark.chain) for mark in _marks_in(store, lost)],
            )
            return True
    return False


def _back(store: ObjectStore, oid: Oid | None) -> Iterator[Node]:
    """Yield an entry and the entries before it, while their kinds are in ``_ALONE``."""
    while oid is not None:
        try:
            node = load(store, oid)
        except DAMAGE:
            return
        if node.source is not None or node.kind not in _ALONE:
            return
        yield node
        oid = node.parent


def _marks_in(store: ObjectStore, nodes: Iterable[Node]) -> list[SessionMark]:
    return [mark for node in nodes for mark in marks_of(node, entry_of(store, node), on_meta=True)]


def replace_marks(db: sqlite3.Connection, sid: str, marks: Iterable[SessionMark]) -> None:
    """Replace all marks from the ``meta`` ref of a session."""
    db.execute("DELETE FROM marks WHERE sid = ? AND on_meta = 1", (sid,))
    insert_marks(db, sid, marks, on_meta=True)


def insert_marks(db: sqlite3.Connection, sid: str, marks: Iterable[SessionMark], *, on_meta: bool) -> None:
    """Add marks of a session. ``on_meta``: True for marks from the ``meta`` ref."""
    rows = []
    for mark in marks:
        texts = storable(mark.target), storable(mark.value)
        rows.append((sid, on_meta, mark.what, clamped(mark.at_ms), mark.line, mark.chain, *texts))
    db.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
