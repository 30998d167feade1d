"""Tool calls, their results, and changes of files in the catalog, for ``log``, ``tree``, ``blame`` and ``stats``.

``index.update_activity`` inserts the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gitsession.errors import GitSessionError
from gitsession.git.types import Oid
from gitsession.index.derived import storable
from gitsession.pattern import pattern

if TYPE_CHECKING:
    from gitsession.model.blocks import ToolCall
    from gitsession.model.entries import Entry
    from gitsession.sessions.node import Node

_CALL_COUNT = pattern(r" \(\+\d+ tools?\)$")
"""The end of the subject of an answer with tool calls."""


class CallRow(NamedTuple):
    """A tool call of an entry. ``call``: the agent's id of the call. ``title``: such as ``bash: pytest -q``."""

    call: str
    tool: str
    title: str


class ResultRow(NamedTuple):
    """The result of a tool call.

    ``call``: the agent's id of the call. ``title``: the title of the call; "" if it is unknown. ``outcome``: such as
    ``exit 1, 49 lines``. ``failed``: whether the tool failed, or the command ended with an exit code other than 0.
    """

    call: str
    title: str
    outcome: str
    failed: bool


class Actions(NamedTuple):
    """The tool calls and the results in one entry."""

    calls: tuple[CallRow, ...] = ()
    results: tuple[ResultRow, ...] = ()

    @property
    def failed(self) -> bool:
        """True if one of the results is a failure."""
        return any(result.failed for result in self.results)

    def text_of(self, subject: str) -> str:
        """Return the text of an answer; "" if it has none.

        ``subject``: the subject of its commit without the author. It ends with the number of the calls, and it begins
        with the names of the tools if the answer has no text.
        """
        text = _CALL_COUNT.sub("", subject)
        return "" if ", ".join(call.tool for call in self.calls).startswith(text.removesuffix("…")) else text


NO_ACTIONS = Actions()

FAILED = (  # without the index hint, SQLite reads all results of the session
    "EXISTS (SELECT 1 FROM results r INDEXED BY results_failed "
    "WHERE r.sid = {0}.sid AND r.call_oid = {0}.oid AND r.call_block = {0}.block AND r.failed)"
)
"""SQL condition: the tool call in a row of ``calls``, or the one that requested a row of ``changes``, failed.

An agent can use the id of a call again, so a call is identified by its entry and the number of its block there. Only
results in the same session count.
"""

# Sessions whose histories diverged can contain the same entry.
_CALLS = (
    "SELECT call, tool, title FROM entries_by_chain JOIN calls USING (sid, oid) WHERE chain = ? AND oid = ? "
    "GROUP BY block ORDER BY block"
)
_RESULTS = (
    "SELECT call, (SELECT title FROM calls c WHERE c.sid = r.sid AND c.oid = call_oid AND c.block = call_block), "
    "outcome, failed FROM entries_by_chain JOIN results r USING (sid, oid) WHERE chain = ? AND oid = ? "
    "GROUP BY block ORDER BY block"
)


def actions_of(db: sqlite3.Connection, node: Node) -> Actions:
    """Return the tool calls and the results in an entry. Entries that are not in the catalog have none."""
    calls = tuple(CallRow(*row) for row in db.execute(_CALLS, (node.chain, node.oid)))
    found = db.execute(_RESULTS, (node.chain, node.oid))
    return Actions(calls, tuple(ResultRow(call, title or "", out, bool(failed)) for call, title, out, failed in found))


def call_of_result(db: sqlite3.Connection, read: Callable[[Oid], Entry], result: Node, call: str) -> ToolCall | None:
    """Return the tool call that a result answers; ``None`` if it is not in the catalog, or cannot be read.

    Args:
        db: The database of the catalog.
        read: A function that returns the content of an entry.
        result: The entry with the result.
        call: The agent's id of the call, as the result names it.
    """
    from gitsession.model.blocks import ToolCall  # only `show` and `browse` read entries

    query = (
        "SELECT call_oid, call_block FROM entries_by_chain JOIN results USING (sid, oid) "
        "WHERE chain = ? AND oid = ? AND call = ? AND call_oid IS NOT NULL LIMIT 1"
    )
    found = db.execute(query, (result.chain, result.oid, storable(call))).fetchone()
    try:
        blocks = getattr(read(found[0]), "content", ())[found[1] :] if found else ()
    except (GitSessionError, OSError):
        return None
    return blocks[0] if blocks and isinstance(blocks[0], ToolCall) else None


def sessions_with_model(db: sqlite3.Connection, text: str) -> set[str]:
    """Return the ids of the sessions with an answer of a model whose name contains ``text``."""
    found = db.execute("SELECT DISTINCT sid FROM answers WHERE instr(lower(model), lower(?))", (storable(text),))
    return {sid for (sid,) in found}
