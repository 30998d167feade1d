"""What providers counted for the answers of a session: each answer once, however many entries tell of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from gitsession.formats import Counting, with_capability
from gitsession.formats.base.record import TAIL
from gitsession.index.names import storable
from gitsession.model.entries import Message
from gitsession.model.usage import AnswerUsage, answer_of, total_tokens
from gitsession.sessions.content import DecodedEntry, look
from gitsession.sessions.meta import Meta
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore


class AddedTokens(NamedTuple):
    """Tokens that an entry adds to those of its session: of answers by name, and of its own alone."""

    named: int
    alone: int


def record(db: sqlite3.Connection, sid: str, node: Node, found: DecodedEntry) -> AddedTokens:
    """Keep what an entry says of answers that have a name: of each answer the most that was said counts."""
    named = alone = 0
    for count in _counts(node, found):
        if not count.answer:
            alone += count.tokens
            continue
        key = sid, storable(count.answer)
        known = db.execute("SELECT tokens FROM answers WHERE sid = ? AND answer = ?", key).fetchone()
        if known is None or known[0] < count.tokens:
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (*key, count.tokens))
            named += count.tokens - (known[0] if known else 0)
    return AddedTokens(named, alone)


def waiting(db: sqlite3.Connection, store: ObjectStore, sid: str, meta: Meta) -> int:
    """What lines say of answers that no entry tells of yet, because they wait for the next that speaks."""
    tails = [meta.of_file(segment).headers().get(TAIL) for segment in (None, *meta.segments)]
    counts = [count for tail in tails if tail is not None for count in _counts(tail, look(store, tail))]
    named = {count.answer: count.tokens for count in counts if count.answer and not _is_known(db, sid, count.answer)}
    return sum(named.values()) + sum(count.tokens for count in counts if not count.answer)


def _counts(node: Node, found: DecodedEntry) -> Iterable[AnswerUsage]:
    counting = with_capability(node.source.agent, Counting) if node.source is not None else None
    if counting is not None:
        return counting.counts(found.data)
    entry = found.entry
    return [AnswerUsage(total_tokens(entry.usage), answer_of(entry.extra))] if isinstance(entry, Message) else []


def _is_known(db: sqlite3.Connection, sid: str, answer: str) -> bool:
    found = db.execute("SELECT 1 FROM answers WHERE sid = ? AND answer = ?", (sid, storable(answer)))
    return found.fetchone() is not None
