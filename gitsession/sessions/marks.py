"""The title of a session, and the labels of its entries (docs/reference/format.md, "What is derived").

A *mark* is a label, a title or a header: an entry that contains a name. Callers that read the entries (a walk of the
tree, the index) collect the marks. This module implements the rules, and reads no entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitsession.dataclass import dataclass
from gitsession.git.types import Oid

NAME_MAX = 200
"""Maximum number of characters of a label or a title."""


@dataclass(frozen=True, slots=True)
class SessionMark:
    """A mark.

    ``what``: ``label``, ``title``, ``slot``, ``header``, ``instructions`` or ``state``. A ``slot`` is an imported title
    on ``meta``, and the value of ``instructions`` is the oid of an entry on ``meta``. A ``state`` is a mark of
    ``SessionState`` in the header, whose name is ``target``. ``line``: the line number in the
    agent's file; ``None`` for an entry that gitsession wrote.
    """

    what: str
    at_ms: int
    line: int | None
    chain: bytes
    target: str
    value: str

    @property
    def order(self) -> tuple[int, int, int, bytes]:
        """The sort key: imported marks in file order, then gitsession's marks by time and chain digest."""
        return (0, self.line, 0, b"") if self.line is not None else (1, 0, self.at_ms, self.chain)


def title(marks: Iterable[SessionMark]) -> str | None:
    """Return the title of a session; ``None`` if there is no title or the title is blank.

    A title that was set in gitsession is used unless the agent's title is newer. The agent's title is the slot if there
    is one, or else the last ``title`` mark, or else the header. If the slot is blank, the other titles of the agent are
    ignored, as in omp.
    """
    own: SessionMark | None = None
    slot = header = inline = None
    for mark in sorted(marks, key=lambda mark: mark.order):
        if mark.what == "slot":
            slot = mark
        elif mark.what == "header":
            header = mark if mark.value else header
        elif mark.what == "title" and mark.line is None:
            own = mark
        elif mark.what == "title":
            inline = mark
    imported = (slot if slot.value else None) if slot is not None else inline or header
    winner = own if own is not None and (imported is None or own.at_ms >= imported.at_ms) else imported
    return winner.value or None if winner is not None else None


def labels(marks: Iterable[SessionMark], resolve: Mapping[str, Oid]) -> dict[Oid, str]:
    """Return the labels by entry. ``resolve``: the entries by label target (an agent's id or a chain digest).

    Labels with unknown targets are skipped.
    """
    newest: dict[Oid, SessionMark] = {}
    for mark in sorted((mark for mark in marks if mark.what == "label"), key=lambda mark: mark.order):
        oid = resolve.get(mark.target)
        if oid is None:
            continue
        older = newest.get(oid)
        if older is None or mark.line is not None or mark.at_ms >= older.at_ms or older.line is None:
            newest[oid] = mark
    return {oid: mark.value for oid, mark in newest.items() if mark.value}
