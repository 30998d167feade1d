"""Where a file hangs that goes on from another one: below the last shared entry of that session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gitsession.errors import Corrupt, NoBase
from gitsession.formats.base.record import TAIL, Base
from gitsession.sessions import graph, session_facts
from gitsession.sessions.content import payload_of
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

Find: TypeAlias = Callable[[str], str | None]
"""The name of the session that goes by an agent's id in this store."""

WAIT = "import the file that it goes on from, then this one again"


def shared(store: ObjectStore, base: Base, find: Find | None) -> Node:
    """The last entry of ``base`` that the fork shares; its root, if the fork begins before its first entry.

    Raises ``NoBase``: an entry that depends on what comes later would be another one in the next store.
    """
    sid = find(base.source_id) if find is not None else None
    if sid is None:
        raise NoBase(f"it goes on from session {base.source_id}, which is not here", base.source_id, hint=WAIT)
    tree = graph.tree(store, sid)
    if tree.damage:
        raise Corrupt(f"session {sid} is damaged here", hint="`gitsession repair` mends it")
    start, _ = session_facts.file_start(store, tree, sid)
    whole = meta_of(store, sid)
    segment = base.source_id if base.source_id in whole.segments else None
    meta = whole.of_file(segment)
    part = session_facts.file_part(tree, session_facts.segment_starts(tree, whole.segments), start, segment)
    own = session_facts.imported_now(part, meta.source_file.superseded)
    own.sort(key=lambda node: node.source.line if node.source else 0, reverse=True)
    tail = meta.newest_lines().get(TAIL)
    _check_reaches(store, base, [*([tail] if tail is not None else []), *own[:1]])
    first = own[-1] if segment is not None and own else tree.nodes[start]
    above = list(graph.line(store, first.parent)) if first.parent is not None else []
    for node in (*own, *above):
        if node.source is not None:
            number = base.number(payload_of(store, node))
            if number is not None and number < base.end:
                return node
    return above[-1] if above else first


def _check_reaches(store: ObjectStore, base: Base, last: list[Node]) -> None:
    numbers = [number for node in last if (number := base.number(payload_of(store, node))) is not None]
    if max(numbers, default=-1) < base.end - 1:
        what = f"it goes on from session {base.source_id}, which is not here as far as that"
        raise NoBase(what, base.source_id, hint=WAIT)
